"""Tables of a folder in two parts: those on which settings were chosen, and those set apart.

``python -m benchmarks.peers.unseen run`` measures what is not measured yet, on a quiet machine;
``python -m benchmarks.peers.unseen page`` writes the page and the figures of the README.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.common.cells import PAGES, RESULTS, Line, cell_of, pack, read
from benchmarks.common.environment import ROOT
from benchmarks.common.markdown import four_digits, markdown
from benchmarks.peers.__main__ import Plan, run
from benchmarks.peers.figures import counts, error_of, geometric_mean, latest, three_digits
from benchmarks.peers.frames import FOLDER
from benchmarks.peers.libraries import ALONE, MODELS, NAMES, OURS, Maker, ours

LINES, PAGE, README = RESULTS / "unseen.jsonl", PAGES / "unseen.md", ROOT / "README.md"
COMPARED = {
    OURS: MODELS[OURS],
    ALONE: Maker(OURS, partial(ours, remainder=False)),
    "catboost": MODELS["catboost"],
    "lightgbm": MODELS["lightgbm"],
}
RIVALS = ("catboost", "lightgbm")
PARTS = ("set apart", "chosen on", "all")
Limits = tuple[float, float]
HELD: Limits = (0.8, 1.25)  # of ratios of errors
FREE: Limits = (0.0, math.inf)
BEGIN, END = "<!-- figures of benchmarks/unseen.md -->", "<!-- end of the figures -->"
INTRODUCTION = """# Tables that nobody tuned on

`TPNN_TABLES=folder python -m benchmarks.peers.unseen run` measures, `... page` writes this page.

{n_tables} tables, each cut 80 : 20 at random, with the defaults of all libraries, two threads, and
the number of the split as seed. **Every third table in alphabetical order was set apart** before
the first choice: on the others settings of tpnn were chosen. Every mean is over the same splits for
all. Errors are the RMSE of a number and the log loss of classes; a ratio of errors below 1 means
that tpnn is better, and each is held within {least} and {most} before the geometric mean is taken.
"{alone}" has `remainder=False`: a model that is its components and nothing else.

The tables that were set apart are no longer unseen. They have been looked at twice, as a whole, and
one of them alone: skillcraft, among nine tables, when it was decided how far components move
towards posterior means. How many columns a tree draws, how many codes a column has and how fast
steps grow was chosen by the means over all 42 tables, cut with the seeds 0 and 1.
Two tables hold many copies of rows, maternal_risk and website_phishing."""


def part_of(name: str, names: Iterable[str]) -> str:
    """Say on which side a table is.

    >>> [part_of(name, "abcdef") for name in "abcdef"]
    ['chosen on', 'chosen on', 'set apart', 'chosen on', 'chosen on', 'set apart']
    """
    return "set apart" if sorted(names).index(name) % 3 == 2 else "chosen on"


def as_page(records: Iterable[Line]) -> str:
    """Return the page of all records."""
    lines = latest(records)
    n_tables = len({line["data"] for line in lines})
    head = INTRODUCTION.format(n_tables=n_tables, least=HELD[0], most=HELD[1], alone=ALONE)
    places = {"{date}, {cpu}, {cores} cores".format(**line) for line in lines}
    return "\n\n".join([head, figures(lines), _all_tables(lines), *sorted(places)]) + "\n"


def figures(lines: Sequence[Line]) -> str:
    """Return the table of means: a column for each part of the tables."""
    errors, times = _values(lines, error_of), _values(lines, lambda line: line["fit_seconds"])
    names = {line["data"] for line in lines}
    members = {part: [n for n in names if part in ("all", part_of(n, names))] for part in PARTS}
    heads = {"set apart": "set apart at first", "chosen on": "chosen on from the first"}
    rows = [["tables", *(heads.get(part, part) for part in PARTS)]]
    rows.append(["number", *(str(len(members[part])) for part in PARTS)])

    def add(title: str, cell: Callable[[list[str]], str]) -> None:
        rows.append([title, *(cell(members[part]) for part in PARTS)])

    for rival in RIVALS:
        for model in (OURS, ALONE):
            title = f"error, {model} / {NAMES[rival]}"
            add(title, partial(_mean, errors, ours=model, rival=rival, held=HELD))
    add("better than CatBoost by 2 %, level, worse", lambda part: _counts(errors, part))
    add("time of a fit / CatBoost's", lambda part: _mean(times, part, OURS, "catboost"))
    add("components, median", lambda part: _components(lines, part))
    return markdown(rows)


def _values(lines: Iterable[Line], value: Callable[[Line], float]) -> dict[str, pd.DataFrame]:
    """Return, by table, values of the models (columns) on the splits (rows) that all have."""
    found = [(*cell_of(line), value(line)) for line in lines if "scores" in line]
    frame = pd.DataFrame(found, columns=["data", "model", "split", "value"])
    frame = frame.pivot(index=["data", "split"], columns="model", values="value")
    frame = frame.reindex(columns=[*COMPARED])
    return {str(name): group.dropna() for name, group in frame.groupby(level="data")}


def _ratio(values: pd.DataFrame, ours: str, rival: str) -> float:
    return float(values[ours].mean() / values[rival].mean())


def _mean(
    values: Mapping[str, pd.DataFrame], names: list[str], ours: str, rival: str, held: Limits = FREE
) -> str:
    """Geometric mean of our values over a rival's, each ratio held within limits."""
    ratios = [_ratio(values[name], ours, rival) for name in names if len(values[name])]
    return three_digits(geometric_mean(np.clip(ratios, *held)))


def _counts(errors: Mapping[str, pd.DataFrame], names: list[str]) -> str:
    return ", ".join(map(str, counts(_ratio(errors[name], OURS, "catboost") for name in names)))


def _components(lines: Iterable[Line], names: list[str]) -> str:
    ours = [line for line in lines if line["model"] == OURS and line["data"] in names]
    return f"{median(sum(line['components'].values()) for line in ours):g}" if ours else "-"


def _all_tables(lines: Sequence[Line]) -> str:
    """Return the table of errors and ratios, a line for each table."""
    errors, sizes = _values(lines, error_of), {line["data"]: line for line in lines}
    rows = [["table", "", "rows", "features", *COMPARED, "tpnn / CatBoost", "splits"]]
    for name, values in errors.items():
        size = [f"{sizes[name][key]:,}" for key in ("n_rows", "n_features")]
        means = [four_digits(values[model].mean()) for model in COMPARED]
        ratio = three_digits(_ratio(values, OURS, "catboost"))
        rows.append([name, part_of(name, errors), *size, *means, ratio, str(len(values))])
    return f"## Errors\n\n{markdown(rows, padded=True)}"


def with_figures(text: str, records: Iterable[Line]) -> str:
    """Return a text with the figures of the records between the two marks."""
    block = f"{BEGIN}\n{figures(latest(records))}\n{END}"
    return re.sub(f"{re.escape(BEGIN)}.*{re.escape(END)}", lambda _: block, text, flags=re.DOTALL)


def main() -> None:
    """Measure, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=("run", "page"))
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--models", nargs="+", choices=tuple(COMPARED), default=tuple(COMPARED))
    arguments: Any = parser.parse_args()
    if arguments.command == "run":
        models = {name: COMPARED[name] for name in arguments.models}
        run(Plan(LINES, list(FOLDER), models, arguments.splits, timed=True))
        return
    lines = latest(read(LINES))
    pack(LINES, lines)
    PAGE.write_text(as_page(lines))
    README.write_text(with_figures(README.read_text(), lines))


if __name__ == "__main__":
    main()
