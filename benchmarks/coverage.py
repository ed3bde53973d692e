"""Coverage of bands on functions with known components: ``python -m benchmarks.coverage``.

Every cell is a fit to one sample and one line of ``coverage.jsonl``; what has a line is not
measured again. The table has a row for each setting, means over its samples.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from benchmarks.say import say
from evaluation.cells import Line, append, read
from evaluation.tables import markdown
from tpnn import Explanation, TPNNClassifier, TPNNRegressor
from tpnn._typing import FloatArray
from tpnn.bands.recipe import posteriors
from tpnn.datasets import make_synthetic, true_component
from tpnn.datasets.decomposition import mean_and_variance

LINES = Path(__file__).parent / "coverage.jsonl"
FUNCTIONS, ROWS, TASKS = ("f1", "f2", "f3"), (1000, 5000), ("regression", "two classes", "poisson")
DEVIATIONS = {"two classes": 2.0, "poisson": 0.7}  # of the raw score
SMALLEST_TRUTH = 1e-12
N_BAG_DEVIATIONS = 2.0


class Setting(NamedTuple):
    """Function, task and number of rows."""

    function: str
    task: str
    n_rows: int


@dataclass
class Clock:
    """Seconds that the bands of a fit took."""

    seconds: float = 0.0

    def timed(self, *arguments: Any) -> Any:
        """Compute posteriors and take the time."""
        began = time.perf_counter()
        found = posteriors(*arguments)
        self.seconds = time.perf_counter() - began
        return found


def sample(setting: Setting, seed: int) -> tuple[Any, Any, float]:
    """Rows, targets, and the factor between the function and the raw score."""
    data = make_synthetic(setting.function, setting.n_rows, random_state=seed)
    if setting.task == "regression":
        return data.X, data.y, 1.0
    mean, variance = mean_and_variance(setting.function)
    factor = DEVIATIONS[setting.task] / np.sqrt(variance)
    raw, rng = factor * (data.f - mean), np.random.default_rng([seed, 1])
    if setting.task == "poisson":
        return data.X, rng.poisson(np.exp(raw)), factor
    return data.X, rng.random(len(raw)) < 1 / (1 + np.exp(-raw)), factor


def measure(setting: Setting, seed: int) -> Line:
    """Fit a sample; coverage and width of the bands of all main effects and pairs."""
    X, y, factor = sample(setting, seed)
    estimator: Any = TPNNClassifier if setting.task == "two classes" else TPNNRegressor
    options = {"objective": "poisson"} if setting.task == "poisson" else {}
    clock, began = Clock(), time.perf_counter()
    with mock.patch("tpnn.estimators.refits.posteriors", clock.timed):
        model = estimator(random_state=seed, **options).fit(X, y)
    seconds = time.perf_counter() - began
    line: Line = {**setting._asdict(), "seed": seed, "fit_s": seconds - clock.seconds}
    line["bands_s"] = clock.seconds
    for order, name in ((1, "mains"), (2, "pairs")):
        line[name] = [
            component_line(setting.function, model.explain(), component, factor)
            for component in model.model_.components
            if len(component) == order
        ]
    return line


def component_line(
    function: str, explanation: Explanation, component: tuple[int, ...], factor: float
) -> dict[str, float]:
    """Shares of the data over which the bands of a component hold the truth, and zero."""
    table = explanation.component(component)
    truth = factor * _truth(function, table, component, len(explanation.model.feature_names))
    masses = reduce(np.multiply.outer, [axis.weights for axis in table.axes])
    lower, upper = table.band
    reach = N_BAG_DEVIATIONS * explanation.model.spreads[explanation.find(component)][..., 0]

    def share(holds: Any) -> float:
        return float((masses * holds).sum())

    return {
        "truth": float(np.abs(truth).max() > SMALLEST_TRUTH),
        "covered": share((lower <= truth) & (truth <= upper)),
        "excludes_zero": share((lower > 0) | (upper < 0)),
        "whole": _is_inside(table, truth) if len(component) == 1 else np.nan,
        "by_bags": share(np.abs(table.effect - truth) <= reach),
        "half_width": share((upper - lower) / 2),
        "size": float(np.sqrt((masses * truth**2).sum())),
    }


def _is_inside(table: Any, truth: FloatArray) -> float:
    """Whether the simultaneous band of 95 % holds the whole truth, as 0 or 1."""
    frame = table.to_frame(level=0.95, kind="simultaneous")
    return float(((frame["lower"] <= truth) & (truth <= frame["upper"])).all())


def _truth(function: str, table: Any, component: tuple[int, ...], n_features: int) -> FloatArray:
    nodes = np.meshgrid(*(axis.values for axis in table.axes), indexing="ij")
    points = np.full((nodes[0].size, n_features), 0.8)
    points[:, component] = np.column_stack([node.ravel() for node in nodes])
    return np.asarray(true_component(function, component, points).reshape(nodes[0].shape))


def as_table(lines: Iterable[Line]) -> str:
    """Coverage in per cent by setting, of components whose truth is not zero and of all."""
    by_setting: dict[Setting, list[Line]] = {}
    for line in lines:
        key = Setting(line["function"], line["task"], line["n_rows"])
        by_setting.setdefault(key, []).append(line)
    head = ["function", "task", "rows", "samples", "main effects", "pairs", "all, with zeros",
            "whole main effects", "zero excluded where true", "two deviations of the bags: mains",
            "pairs", "time"]  # fmt: skip
    rows = [_row(setting, found) for setting, found in sorted(by_setting.items())]
    means = np.array([[float(cell) for cell in row[4:]] for row in rows])
    last = ["mean", "", "", "", *(f"{mean:.1f}" for mean in np.nanmean(means[:, :-1], axis=0))]
    return markdown([head, *rows, [*last, f"{np.mean(means[:, -1]):.2f}"]])


def _row(setting: Setting, lines: Sequence[Line]) -> list[str]:
    mains, pairs = ([c for line in lines for c in line[name]] for name in ("mains", "pairs"))

    def mean(name: str, components: Iterable[dict[str, float]]) -> str:
        values = [component[name] for component in components]
        return f"{100 * np.mean(values):.1f}" if values else "nan"

    true = [[c for c in components if c["truth"]] for components in (mains, pairs)]
    zero = [component for component in [*mains, *pairs] if not component["truth"]]
    times = np.mean([1 + line["bands_s"] / line["fit_s"] for line in lines])
    return [
        setting.function, setting.task, str(setting.n_rows), str(len(lines)),
        *(mean("covered", components) for components in true),
        mean("covered", [*mains, *pairs]),
        mean("whole", true[0]),
        mean("excludes_zero", zero),
        *(mean("by_bags", components) for components in true),
        f"{times:.2f}",
    ]  # fmt: skip


def main() -> None:
    """Measure what has no line yet, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=__doc__)
    parser.add_argument("--functions", nargs="+", default=FUNCTIONS, choices=FUNCTIONS)
    parser.add_argument("--tasks", nargs="+", default=TASKS, choices=TASKS)
    parser.add_argument("--rows", nargs="+", type=int, default=ROWS)
    parser.add_argument("--samples", type=int, default=3, help="of each setting, 3 by default")
    parser.add_argument("--lines", type=Path, default=LINES, help="file of the results")
    given = parser.parse_args()
    known = {
        (*(line[name] for name in Setting._fields), line["seed"]) for line in read(given.lines)
    }
    for seed in range(given.samples):
        for n_rows in given.rows:
            for task in given.tasks:
                for function in given.functions:
                    if (function, task, n_rows, seed) not in known:
                        line = measure(Setting(function, task, n_rows), seed)
                        append(given.lines, line)
                        say(f"{function}, {task}, {n_rows} rows, sample {seed}")
    print(as_table(read(given.lines)))


if __name__ == "__main__":
    main()
