"""Command line: fit, predict, explain and report on CSV and Parquet files, and a demo."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import tpnn

ISO_DATE = r"\d{4}-\d{2}-\d{2}([T ].*)?"
MAX_CLASS_NUMBERS = 2  # numbers with at most so many distinct values are classes


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 is success, 1 a problem with the data or the model, 2 wrong usage."""
    parser = _parser()
    given = parser.parse_args(arguments)
    try:
        _check_output(given)
        given.run(given)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        print(f"tpnn {given.command}: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tpnn",
        description="Fit, apply and explain functional ANOVA models with unique components.",
    )
    parser.add_argument("--version", action="version", version=f"tpnn {tpnn.__version__}")
    commands = parser.add_subparsers(dest="command", required=True)

    fit = _command(commands, "fit", fit_model, "fit a model to a table")
    fit.add_argument("data", help="CSV or Parquet file")
    fit.add_argument("--target", required=True, help="column to predict")
    fit.add_argument("--task", choices=["auto", "regression", "classification"], default="auto")
    fit.add_argument("--order", type=int, default=2, help="largest order of interactions")
    fit.add_argument("--bags", type=int, default=8, help="number of models that are averaged")
    fit.add_argument("--seed", type=int, default=0, help="the same seed gives the same model")
    fit.add_argument("-o", "--output", default="model.tpnn", help="where to save the model")

    predict = _command(commands, "predict", predict_rows, "predict the rows of a table")
    _add_model_and_data(predict)

    explain = _command(commands, "explain", explain_model, "rank the components, or explain rows")
    explain.add_argument("model", help="file written by tpnn fit")
    explain.add_argument(
        "data", nargs="?", help="CSV or Parquet file of rows to explain one by one"
    )
    explain.add_argument(
        "--reasons", type=int, metavar="N", help="explain each row by up to N reasons in words"
    )
    explain.add_argument("-o", "--output", help="CSV or Parquet file; by default CSV to the screen")

    report = _command(commands, "report", write_page, "write a page in which the model runs")
    report.add_argument("model", help="file written by tpnn fit")
    report.add_argument(
        "data", nargs="?", help="CSV or Parquet file of held-out rows, with or without the target"
    )
    report.add_argument("--target", help="column with the true values, to score the model on")
    report.add_argument("--title", default="Model report")
    report.add_argument("-o", "--output", default="report.html")

    demo = _command(commands, "demo", run_demo, "fit California housing prices and show the result")
    demo.add_argument("-o", "--output", default="demo-output", help="folder to write to")
    return parser


def _command(commands: Any, name: str, run: Any, words: str) -> Any:
    parser = commands.add_parser(name, help=words, description=words)
    parser.set_defaults(run=run)
    return parser


def _add_model_and_data(parser: Any) -> None:
    parser.add_argument("model", help="file written by tpnn fit")
    parser.add_argument("data", help="CSV or Parquet file")
    parser.add_argument("-o", "--output", help="CSV or Parquet file; by default CSV to the screen")


def fit_model(given: argparse.Namespace) -> None:
    """Fit a model and save it."""
    X, y = _split(_read(given.data), given.target)
    present = y.notna()
    if not present.all():
        print(f"leaving out {(~present).sum()} rows without a target", file=sys.stderr)
        X, y = X[present], y[present]
    task = given.task
    if task == "auto":
        is_number = pd.api.types.is_numeric_dtype(y) and not pd.api.types.is_bool_dtype(y)
        task = "regression" if is_number and y.nunique() > MAX_CLASS_NUMBERS else "classification"
    kind = tpnn.TPNNRegressor if task == "regression" else tpnn.TPNNClassifier
    settings = {"n_bags": given.bags, "random_state": given.seed, "verbose": 1}
    model = kind(order=given.order, **settings).fit(X, y.to_numpy())
    model.model_.save(given.output)
    print(f"{task}: {len(X)} rows, {len(model.components_)} components, saved to {given.output}")


def predict_rows(given: argparse.Namespace) -> None:
    """Write the prediction of every row."""
    model = tpnn.load_model(given.model)
    predicted = model.predict(_read_for(model, given.data))
    names = list(model.output_names) or [_prediction_name(model)]
    _write(pd.DataFrame(predicted.reshape(-1, len(names)), columns=names), given.output)


def _prediction_name(model: tpnn.AnovaModel) -> str:
    if model.link.name != "logit":
        return "prediction" if model.baseline is None else "relative risk"
    return f"probability of {model.classes[1]}" if model.classes else "probability"


def explain_model(given: argparse.Namespace) -> None:
    """Write the importance of all components or, given rows, the contributions to each row."""
    model = tpnn.load_model(given.model)
    if given.data is None:
        _write(_ranking(tpnn.Explanation(model)), given.output)
        return
    local = tpnn.Explanation(model, _read_for(model, given.data))
    if given.reasons is None:
        columns = [
            " x ".join(names) + (f" ({output})" if output else "")
            for names in model.component_names
            for output in model.output_names or ("",)
        ]
        scores = local.scores.reshape(-1, len(columns))
        _write(pd.DataFrame(scores, columns=columns), given.output)
        return
    lines = [
        (row, rank + 1, reason.feature, reason.words)
        for row, reasons in enumerate(local.reasons(given.reasons))
        for rank, reason in enumerate(reasons)
    ]
    columns = ["row", "reason", "feature", "words"]
    _write(pd.DataFrame(lines, columns=columns), given.output)


def _ranking(explanation: tpnn.Explanation) -> pd.DataFrame:
    norms = explanation.importance()
    relative, shares = explanation.importance(normalise=True), explanation.sobol()
    return pd.DataFrame(
        {
            "component": [" x ".join(names) for names in norms],
            "importance": list(norms.values()),
            "relative": [relative[names] for names in norms],
            "variance_share": [shares[names] for names in norms],
        }
    )


def write_page(given: argparse.Namespace) -> None:
    """Write the report."""
    from tpnn.report import write_report  # loads scikit-learn, which other commands do without

    X = y = None
    model = tpnn.load_model(given.model)
    if given.data is not None:
        X = _read_for(model, given.data)
        if given.target:
            X, y = _split(X, given.target)
    elif given.target:
        raise ValueError("--target: rows are needed to score, found no data. Name a file of rows.")
    target = given.target or "prediction"
    write_report(model, given.output, X, y, title=given.title, target=target)
    print(f"{given.output}: {Path(given.output).stat().st_size / 1e6:.2f} MB")


def run_demo(given: argparse.Namespace) -> None:
    """Fit California housing, print its error and importance, write pictures and the report."""
    X, y = tpnn.datasets.load("calhousing")
    order = np.random.default_rng(0).permutation(len(X))
    held_out, training = order[: len(X) // 5], order[len(X) // 5 :]
    print(f"California housing: {len(training):,} rows to learn from, {len(held_out):,} held out")
    compiling = _seconds(lambda: _quick_fit(X, y))
    print(f"compiled in {compiling:.1f} s (the first time only, then cached)\n")
    model = tpnn.TPNNRegressor(random_state=0, verbose=1)
    fitting = _seconds(lambda: model.fit(X.iloc[training], y.iloc[training]))
    truth = y.iloc[held_out].to_numpy()
    errors = model.predict(X.iloc[held_out]) - truth
    print("\nTest RMSE (in 100,000 dollars)")
    print(f"  mean            {np.sqrt(np.mean((truth - y.iloc[training].mean()) ** 2)):.3f}")
    print(f"  TPNNRegressor   {np.sqrt(np.mean(errors**2)):.3f}   fitted in {fitting:.1f} s")
    print("\nTen most important components, E|f_S| relative to the first")
    for names, relative in list(model.explain().importance(normalise=True).items())[:10]:
        print(f"  {' x '.join(names):<24}{relative:6.3f}  {'#' * round(40 * relative)}")
    worst = model.model_.identifiability_error()
    print(f"\nLargest mean of any component along any of its features: {worst:.1e}")
    print("(zero up to rounding, so this decomposition of the model is the only one)")
    folder = Path(given.output)
    folder.mkdir(parents=True, exist_ok=True)
    _draw(model, folder)
    rows = X.iloc[held_out]
    words = {"title": "California house prices", "target": "median house value (100,000 $)"}
    model.report(folder / "report.html", rows, truth, **words)
    print(f"\nOpen {folder / 'report.html'}: the model runs in the page.")


def _draw(model: tpnn.TPNNRegressor, folder: Path) -> None:
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("agg")
    explanation = model.explain()
    tpnn.plots.components(explanation).savefig(folder / "components.png", dpi=130)
    explanation.plot().figure.savefig(folder / "importance.png", dpi=130)


def _quick_fit(X: pd.DataFrame, y: pd.Series[Any]) -> None:
    tpnn.TPNNRegressor(n_bags=1, solver=tpnn.Grow(max_rounds=60), verbose=0).fit(X[:200], y[:200])


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _check_output(given: argparse.Namespace) -> None:
    """Refuse, before any work, an output that cannot be written; the demo creates its folder."""
    if given.output is None or given.command == "demo":
        return
    path = Path(given.output)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise ValueError(
            f"--output: must be a file in a folder that exists, found {given.output!r}. "
            "Create the folder, or write elsewhere."
        )


def _is_parquet(path: str) -> bool:
    return Path(path).suffix.lower() in (".parquet", ".pq")


def _read(path: str, dates: Sequence[Hashable] | None = None) -> pd.DataFrame:
    """Read a table; in CSV, dates are parsed in the columns named, or where all values are ISO."""
    if not Path(path).exists():
        raise ValueError(f"data: a file is needed, found no {path!r}. Check the path.")
    if _is_parquet(path):
        return pd.read_parquet(path)
    table = pd.read_csv(path)
    texts = [name for name in table if not pd.api.types.is_numeric_dtype(table[name])]
    if dates is None:
        dates = [name for name in texts if _looks_like_dates(table[name])]
    for name in set(texts) & set(dates):
        table[name] = _as_dates(table[name])
    return table


def _looks_like_dates(column: pd.Series[Any]) -> bool:
    return bool(column.dropna().astype("string").str.fullmatch(ISO_DATE).all())


def _as_dates(column: pd.Series[Any]) -> pd.Series[Any]:
    """Column as dates where pandas can read them all, else as it is."""
    try:
        return pd.to_datetime(column, format="ISO8601", utc=True)
    except ValueError:
        return column


def _read_for(model: tpnn.AnovaModel, path: str) -> pd.DataFrame:
    """Read rows whose dates are those of the model."""
    known = zip(model.feature_names, model.encoder.features, strict=True)
    return _read(path, [name for name, feature in known if feature.kind == "date"])


def _split(table: pd.DataFrame, target: str) -> tuple[pd.DataFrame, pd.Series[Any]]:
    if target not in table:
        raise ValueError(
            f"--target: must be a column of the table, found {target!r}. "
            f"The columns are {list(table)[:10]}."
        )
    return table.drop(columns=target), table[target]


def _write(table: pd.DataFrame, path: str | None) -> None:
    if path is None:
        table.to_csv(sys.stdout, index=False)
    elif _is_parquet(path):
        table.to_parquet(path, index=False)
    else:
        table.to_csv(path, index=False)


if __name__ == "__main__":
    sys.exit(main())
