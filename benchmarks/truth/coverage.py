"""Coverage of bands where components are known: ``python -m benchmarks.truth.coverage``.

Every cell is a fit to one sample; what has a line is not measured again. The table has a row for
each setting, means over its samples and components.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.common.cells import Line, complete
from benchmarks.common.markdown import fixed, markdown
from benchmarks.truth.known_truths import Sample, all_settings
from tpnn import Explanation
from tpnn.uncertainty.recipe import infer

ROWS = (1000, 5000, 15000)
SMALLEST_TRUTH = 1e-9  # of the largest value of all components
N_BAG_DEVIATIONS = 2.0

Part = dict[str, float]


@dataclass
class Clock:
    """Seconds of CPU that the bands of a fit took."""

    seconds: float = 0.0

    def timed(self, *arguments: Any) -> Any:
        """Compute posteriors and take the time."""
        began = time.process_time()
        found = infer(*arguments)
        self.seconds = time.process_time() - began
        return found


def measure(sample: Sample) -> Line:
    """Fit a sample; coverage and width of the bands of all components."""
    clock, began = Clock(), time.process_time()
    with mock.patch("tpnn.estimators.pipeline.infer", clock.timed):
        model = sample.estimator.fit(sample.X, sample.y)
    seconds = time.process_time() - began
    explanation = model.explain()
    explanation = explanation.of(sample.output) if sample.output else explanation
    return {
        "fit_s": seconds - clock.seconds,
        "bands_s": clock.seconds,
        "parts": [
            component_line(sample, explanation, component) for component in model.model_.components
        ],
    }


def component_line(sample: Sample, explanation: Explanation, component: tuple[int, ...]) -> Part:
    """Shares of the data over which the bands of a component hold the truth, and zero."""
    table = explanation.component(component)
    truth = sample.truth(table)
    masses = reduce(np.multiply.outer, [axis.weights for axis in table.axes])
    lower, upper = table.band
    is_true = bool(np.abs(truth).max() > SMALLEST_TRUTH * np.abs(table.effect).max())
    unknown = np.full(truth.shape, np.nan)
    widest = table.on_scale().band(0.95, "simultaneous") if is_true else (unknown, unknown)
    spreads = explanation.model.evidence.spreads
    assert spreads is not None
    reach = N_BAG_DEVIATIONS * spreads[explanation.find(component)][..., 0]

    def share(holds: Any) -> float:
        return float((masses * holds).sum())

    return {
        "order": len(component),
        "truth": float(is_true),
        "covered": share((lower <= truth) & (truth <= upper)),
        "whole": float(((widest[0] <= truth) & (truth <= widest[1])).all()) if is_true else np.nan,
        "excludes_zero": share((lower > 0) | (upper < 0)),
        "by_bags": share(np.abs(table.effect - truth) <= reach),
        "half_width": share((upper - lower) / 2),
        "whole_half_width": share((widest[1] - widest[0]) / 2),
    }


HEAD = ["setting", "samples", "main effects", "interactions", "all, with zeros",
        "whole main effects", "whole interactions", "zero excluded where true",
        "two deviations of the bags: main effects", "interactions", "time"]  # fmt: skip


def as_table(lines: Iterable[Line]) -> str:
    """Coverage in per cent by setting; the last rows have mean and standard error over settings."""
    by_setting: dict[str, list[Line]] = {}
    for line in lines:
        by_setting.setdefault(line["setting"], []).append(line)
    rows = {setting: _row(found) for setting, found in by_setting.items()}
    written = [
        [setting, str(len(by_setting[setting])), *_written(row)] for setting, row in rows.items()
    ]
    values = np.array(list(rows.values()))
    known = np.isfinite(values).sum(0)
    error = np.nanstd(values, axis=0, ddof=1) / np.sqrt(known)
    means = [["mean", "", *_written(np.nanmean(values, axis=0))],
             ["standard error", "", *_written(error)]]  # fmt: skip
    return markdown([HEAD, *written, *means])


def _written(row: Sequence[float]) -> list[str]:
    """Per cent with one digit, and at the end the ratio of times."""
    return [*fixed((100 * share for share in row[:-1]), [1]), *fixed(row[-1:], [2])]


def _row(lines: Sequence[Line]) -> list[float]:
    parts = [part for line in lines for part in line["parts"]]

    def mean(name: str, chosen: Iterable[Part]) -> float:
        values = [part[name] for part in chosen if np.isfinite(part[name])]
        return float(np.mean(values)) if values else np.nan

    mains = [part for part in parts if part["truth"] and part["order"] == 1]
    others = [part for part in parts if part["truth"] and part["order"] > 1]
    return [
        mean("covered", mains), mean("covered", others), mean("covered", parts),
        mean("whole", mains), mean("whole", others),
        mean("excludes_zero", [part for part in parts if not part["truth"]]),
        mean("by_bags", mains), mean("by_bags", others),
        mean("time", [{"time": 1 + line["bands_s"] / line["fit_s"]} for line in lines]),
    ]  # fmt: skip


def main() -> None:
    """Measure what has no line yet, and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.truth.coverage", description=__doc__
    )
    parser.add_argument("--samples", type=int, default=2, help="of each setting, 2 by default")
    parser.add_argument("--only", nargs="+", default=[""], help="settings with this in their names")
    given = parser.parse_args()
    samples = dict(all_settings(ROWS))
    order = list(samples)
    asked = [setting for setting in order if any(words in setting for words in given.only)]
    cells = [(setting, seed) for seed in range(given.samples) for setting in asked]
    lines = complete(
        "coverage",
        ("setting", "seed"),
        cells,
        lambda setting, seed: measure(samples[setting](seed)),
    )
    shown = [line for line in lines if line["setting"] in order]
    print(as_table(sorted(shown, key=lambda line: order.index(line["setting"]))))


if __name__ == "__main__":
    main()
