"""Seconds of each stage of a fit, for ten shapes of tables: ``python -m benchmarks.speed.shapes``.

All tables are simulated, all settings are the defaults. CatBoost fits the same tables, where it is
installed. The page is ``shapes.md``, the picture ``shapes.png``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.common.cells import PAGES, RESULTS, Line, pack, read
from benchmarks.common.environment import machine, say, seconds, today
from benchmarks.common.markdown import markdown
from tpnn import TPNNClassifier, TPNNRegressor, warmup

LINES, PAGE, FIGURE = RESULTS / "shapes.jsonl", PAGES / "shapes.md", PAGES / "shapes.png"
STAGES = {  # what the picture tells apart, of the stages in ``history_``
    "trees": ("trees",),
    "core": ("core", "solve"),
    "mixture": ("mix",),
    "bands": ("bands", "calibrate"),
    "others": ("read", "encode", "build", "search", "select", "refit", "freeze", "constrain",
               "balance"),
}  # fmt: skip
COLOURS = ("#2a6fbb", "#c46a2b", "#5b9b5b", "#8a63a8", "#b5b5b5")
INTRODUCTION = """## Where the time of a fit goes

`python -m benchmarks.speed.shapes` fits ten simulated tables with the defaults, after all loops are
compiled, and CatBoost with its defaults. Seconds are those of the stages in `history_`, which
`verbose=2` prints for every fit."""


class Shape(NamedTuple):
    """A kind of table."""

    n_rows: int
    n_features: int
    n_classes: int = 1  # 1 for a number
    n_levels: int = 0  # of every third feature; 0 where all are numbers
    share_missing: float = 0.0


SHAPES = {
    "500 x 10": Shape(500, 10),
    "500 x 10, 2 classes": Shape(500, 10, 2),
    "1,000 x 30, 5 classes": Shape(1_000, 30, 5),
    "5,000 x 10": Shape(5_000, 10),
    "5,000 x 20, 7 classes": Shape(5_000, 20, 7),
    "5,000 x 100": Shape(5_000, 100),
    "10,000 x 15, levels": Shape(10_000, 15, 2, n_levels=50),
    "20,000 x 8": Shape(20_000, 8),
    "20,000 x 20, gaps": Shape(20_000, 20, 2, share_missing=0.1),
    "100,000 x 30": Shape(100_000, 30),
}


def table(shape: Shape) -> tuple[pd.DataFrame, Any]:
    """Return features and targets: smooth and sharp effects, a pair and a triple, and noise."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(shape.n_rows, shape.n_features))
    score = np.sin(2 * x[:, 0]) + (x[:, 1] > 0) + x[:, 2] * x[:, 3]
    score += (x[:, 4] > 0) * (x[:, 5] > 0) * x[:, 6] + 0.5 * rng.normal(size=shape.n_rows)
    columns: dict[str, Any] = {f"x{j}": x[:, j] for j in range(shape.n_features)}
    if shape.n_levels:
        for name in [*columns][::3]:
            ranks = pd.Series(columns[name]).rank(pct=True, method="first")
            columns[name] = "level " + np.ceil(ranks * shape.n_levels).astype(int).astype(str)
    frame = pd.DataFrame(columns).mask(rng.random(x.shape) < shape.share_missing)
    if shape.n_classes == 1:
        return frame, score
    ends = np.quantile(score, np.arange(1, shape.n_classes) / shape.n_classes)
    return frame, np.searchsorted(ends, score)


def measure(name: str) -> Line:
    """Fit a table with both libraries; return the line."""
    shape = SHAPES[name]
    X, y = table(shape)
    kind = TPNNRegressor if shape.n_classes == 1 else TPNNClassifier
    model = kind(random_state=0, verbose=0)
    total = seconds(lambda: model.fit(X, y))
    times = {
        event["note"]: event["seconds"] for event in model.history_ if event["stage"] == "time"
    }
    stages = {part: sum(times.get(stage, 0.0) for stage in of) for part, of in STAGES.items()}
    line = {"name": name, "seconds": total, "stages": stages, "catboost": catboost_seconds(shape)}
    return {**line, **machine(), "date": today()}


def catboost_seconds(shape: Shape) -> float | None:
    """Seconds of CatBoost's fit to the same table; None where it is not installed."""
    try:
        from catboost import CatBoostClassifier, CatBoostRegressor
    except ImportError:
        return None
    X, y = table(shape)
    levels = [name for name in X if X[name].dtype.kind not in "fi"]
    kind = CatBoostRegressor if shape.n_classes == 1 else CatBoostClassifier
    model = kind(cat_features=levels, verbose=0, allow_writing_files=False)
    return seconds(lambda: model.fit(X, y))


def as_page(lines: Sequence[Line]) -> str:
    """Return the page of all lines."""
    rows = [["table", "seconds", *STAGES, "CatBoost"]]
    for line in lines:
        rival = "-" if line["catboost"] is None else f"{line['catboost']:.2f}"
        parts = [f"{line['stages'][part]:.2f}" for part in STAGES]
        rows.append([line["name"], f"{line['seconds']:.2f}", *parts, rival])
    places = {"{date}, {cpu}, {cores} cores".format(**line) for line in lines}
    picture = f"![seconds of each stage]({FIGURE.name})"
    return "\n\n".join([INTRODUCTION, markdown(rows, padded=True), picture, *sorted(places)]) + "\n"


def draw(lines: Sequence[Line]) -> None:
    """Draw the shares of the stages in each fit, one bar a table."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 4.6), layout="constrained")
    panel = figure.subplots()
    names, ends = [line["name"] for line in lines], np.zeros(len(lines))
    for part, colour in zip(STAGES, COLOURS, strict=True):
        shares = np.array([line["stages"][part] / line["seconds"] for line in lines])
        panel.barh(names, shares, left=ends, color=colour, label=part, height=0.7)
        ends += shares
    for place, line in enumerate(lines):
        panel.text(1.01, place, f"{line['seconds']:.1f} s", va="center", fontsize=9)
    panel.set(xlim=(0, 1), xlabel="share of the time of a fit")
    panel.invert_yaxis()
    panel.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=len(STAGES), frameon=False)
    figure.savefig(FIGURE, dpi=120)


def main() -> None:
    """Measure all tables anew, and write the page and the picture."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    warmup()
    LINES.unlink(missing_ok=True)
    measured = []
    for name in SHAPES:
        measured.append(measure(name))
        say(f"{name}: {measured[-1]['seconds']:.2f} s")
    pack(LINES, measured)
    PAGE.write_text(as_page(read(LINES)))
    draw(measured)


if __name__ == "__main__":
    main()
