"""Command line: fit, predict, explain and report on CSV and Parquet files, and a demo."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import tpnn

FEW_VALUES = 2  # a target of at most so many distinct values is a class


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 is success, 1 a problem with the data or the model, 2 wrong usage."""
    parser = _parser()
    given = parser.parse_args(arguments)
    try:
        given.run(given)
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        print(f"tpnn {given.command}: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tpnn", description="Models you can read.")
    parser.add_argument("--version", action="version", version=f"tpnn {tpnn.__version__}")
    commands = parser.add_subparsers(dest="command", required=True)

    fit = _command(commands, "fit", fit_model, "fit a model to a table")
    fit.add_argument("data", help="CSV or Parquet file")
    fit.add_argument("--target", required=True, help="column to predict")
    fit.add_argument("--task", choices=["auto", "regression", "classification"], default="auto")
    fit.add_argument("--order", type=int, default=2, help="largest order of interactions")
    fit.add_argument("--bags", type=int, default=8, help="models that are averaged")
    fit.add_argument("--seed", type=int, default=0, help="the same seed gives the same model")
    fit.add_argument("-o", "--output", default="model.tpnn", help="where to save the model")

    predict = _command(commands, "predict", predict_rows, "predict the rows of a table")
    _add_model_and_data(predict)

    explain = _command(commands, "explain", explain_model, "rank components, or explain rows")
    explain.add_argument("model", help="file written by tpnn fit")
    explain.add_argument("data", nargs="?", help="rows to explain by their contributions")
    explain.add_argument("--reasons", type=int, metavar="N", help="N reasons in words per row")
    explain.add_argument("-o", "--output", help="CSV or Parquet file; by default CSV to the screen")

    report = _command(commands, "report", write_page, "write a page in which the model runs")
    report.add_argument("model", help="file written by tpnn fit")
    report.add_argument("data", nargs="?", help="held-out rows, with or without the target")
    report.add_argument("--target", help="column with the truth, to score the model")
    report.add_argument("--title", default="Model report")
    report.add_argument("-o", "--output", default="report.html")

    demo = _command(commands, "demo", run_demo, "fit California housing and look at the result")
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
        print(f"left out {(~present).sum()} rows without a target", file=sys.stderr)
        X, y = X[present], y[present]
    task = given.task
    if task == "auto":
        is_number = pd.api.types.is_numeric_dtype(y) and not pd.api.types.is_bool_dtype(y)
        task = "regression" if is_number and y.nunique() > FEW_VALUES else "classification"
    kind = tpnn.TPNNRegressor if task == "regression" else tpnn.TPNNClassifier
    settings = {"n_bags": given.bags, "random_state": given.seed, "verbose": 1}
    model = kind(order=given.order, **settings).fit(X, y.to_numpy())
    model.model_.save(given.output)
    print(f"{task}: {len(X)} rows, {len(model.components_)} components, saved to {given.output}")


def predict_rows(given: argparse.Namespace) -> None:
    """Write the prediction of every row."""
    model = tpnn.load_model(given.model)
    predicted = model.predict(_read(given.data))
    single = {"logit": "probability"}.get(model.link.name, "prediction")
    names = list(model.output_names) or [single]
    _write(pd.DataFrame(predicted.reshape(len(predicted), -1), columns=names), given.output)


def explain_model(given: argparse.Namespace) -> None:
    """Write the importance of all components or, given rows, what moved each of them."""
    model = tpnn.load_model(given.model)
    if given.data is None:
        _write(_ranking(tpnn.Explanation(model)), given.output)
        return
    local = tpnn.Explanation(model, model.encoder.read(_read(given.data)))
    if given.reasons is None:
        columns = [
            " x ".join(names) + (f" ({output})" if output else "")
            for names in model.component_names
            for output in model.output_names or ("",)
        ]
        _write(
            pd.DataFrame(local.scores.reshape(len(local.scores), -1), columns=columns), given.output
        )
        return
    lines = [
        {"row": row, "reason": rank + 1, "feature": reason.feature, "words": reason.words}
        for row, reasons in enumerate(local.reasons(given.reasons))
        for rank, reason in enumerate(reasons)
    ]
    _write(pd.DataFrame(lines), given.output)


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
    from tpnn.report import write_report

    X = y = None
    if given.data is not None:
        X = _read(given.data)
        if given.target:
            X, y = _split(X, given.target)
    elif given.target:
        raise ValueError("--target: rows are needed to score, found no data. Name a file of rows.")
    target = given.target or "prediction"
    model = tpnn.load_model(given.model)
    write_report(model, given.output, X, y, title=given.title, target=target)
    print(f"{given.output}: {Path(given.output).stat().st_size / 1e6:.2f} MB")


def run_demo(given: argparse.Namespace) -> None:
    """Fit California housing, say how good and what matters, and write pictures and the report."""
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
    print(f"\nWorst mean along any axis of any component: {worst:.1e}")
    print("(zero up to rounding: no other decomposition of this model averages to zero)")
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
    tpnn.TPNNRegressor(n_bags=1, max_steps=60, verbose=0).fit(X[:200], y[:200])


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _read(path: str) -> pd.DataFrame:
    if not Path(path).exists():
        raise ValueError(f"data: a file is needed, found no {path!r}. Check the path.")
    if Path(path).suffix in (".parquet", ".pq"):
        return pd.read_parquet(path)
    return pd.read_csv(path)


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
    elif Path(path).suffix in (".parquet", ".pq"):
        table.to_parquet(path, index=False)
    else:
        table.to_csv(path, index=False)


if __name__ == "__main__":
    sys.exit(main())
