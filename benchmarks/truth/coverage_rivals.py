"""Bands of other libraries on the same samples: ``python -m benchmarks.truth.coverage_rivals``.

Main effects of regressions alone: pyGAM's intervals with one smoothing parameter by its grid
search, and two standard deviations over the bags of an EBM. A library that is missing is left out.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import reduce
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np

from benchmarks.common.cells import Line, complete
from benchmarks.common.environment import say
from benchmarks.common.markdown import fixed, markdown
from benchmarks.truth.coverage import N_BAG_DEVIATIONS
from benchmarks.truth.known_truths import Sample, all_settings
from tpnn._utils.arrays import FloatArray
from tpnn.explain.component_table import ComponentTable
from tpnn.table.axis import Axis

SETTINGS = (
    "f1, regression, 1000 rows", "few rows", "uneven noise", "heavy tails", "friedman",
)  # fmt: skip
N_POINTS = 100  # of each feature, evenly spaced on the rank scale
SMOOTHING = np.logspace(-3, 3, 7)  # tried by pyGAM's grid search
N_SPLINES = 20


class Curve(NamedTuple):
    """Effect of a feature on a few points, and half the width of its band, (N_POINTS,)."""

    effect: FloatArray
    half_width: FloatArray


Curves = Callable[[Sample, FloatArray], list[Curve]]


def tpnn_curves(sample: Sample, points: FloatArray) -> list[Curve]:
    """Pointwise bands of 95 %."""
    explanation, curves = sample.estimator.fit(sample.X, sample.y).explain(), []
    for feature in range(points.shape[1]):
        table = explanation.component(feature)
        lower, upper = table.band
        at = [np.interp(points[:, feature], table.axes[0].values, part)
              for part in (table.effect, (upper - lower) / 2)]  # fmt: skip
        curves.append(Curve(*at))
    return curves


def pygam_curves(sample: Sample, points: FloatArray) -> list[Curve]:
    """Intervals of 95 % of the partial dependence."""
    from pygam import LinearGAM, s

    columns = range(points.shape[1])
    terms = reduce(lambda one, two: one + two, [s(j, n_splines=N_SPLINES) for j in columns])
    model = LinearGAM(terms).gridsearch(
        sample.X.to_numpy(float), np.asarray(sample.y), lam=SMOOTHING, progress=False
    )
    curves = []
    for feature in columns:
        effect, band = model.partial_dependence(term=feature, X=points, width=0.95)
        curves.append(Curve(effect, (band[:, 1] - band[:, 0]) / 2))
    return curves


def ebm_curves(sample: Sample, points: FloatArray) -> list[Curve]:
    """Two standard deviations over the outer bags, the shading of its plots."""
    from interpret.glassbox import ExplainableBoostingRegressor

    model = ExplainableBoostingRegressor(random_state=0, n_jobs=1)
    model.fit(sample.X.to_numpy(float), np.asarray(sample.y))
    curves = []
    for feature in range(points.shape[1]):
        cuts = np.asarray(model.bins_[feature][0], float)
        places = 1 + np.searchsorted(cuts, points[:, feature], side="right")
        spread = np.asarray(model.standard_deviations_[feature])[places]
        effect = np.asarray(model.term_scores_[feature])[places]
        curves.append(Curve(effect, N_BAG_DEVIATIONS * spread))
    return curves


LIBRARIES: dict[str, Curves] = {"tpnn": tpnn_curves, "pyGAM": pygam_curves, "EBM": ebm_curves}
PACKAGES = {"tpnn": "tpnn", "pyGAM": "pygam", "EBM": "interpret"}
DIGITS = (1, 3, 1)  # of what the table shows of a library


def measure(library: str, sample: Sample) -> Line:
    """Coverage and mean half width of all main effects whose truth is not zero."""
    shares = (np.arange(N_POINTS) + 0.5) / N_POINTS
    points = np.quantile(sample.X.to_numpy(float), shares, axis=0)
    began = time.process_time()
    with warnings.catch_warnings(action="ignore"):
        curves = LIBRARIES[library](sample, points)
    seconds, covered, widths = time.process_time() - began, [], []
    for feature, curve in enumerate(curves):
        truth = _truth(sample, feature, points[:, feature])
        if np.abs(truth).max() > 0:
            effect = curve.effect - curve.effect.mean()
            covered.append(float((np.abs(effect - truth) <= curve.half_width).mean()))
            widths.append(float(curve.half_width.mean() / np.std(sample.y)))
    return {"covered": covered, "half_widths": widths, "seconds": seconds}


def _truth(sample: Sample, feature: int, points: FloatArray) -> FloatArray:
    """Return the true main effect on points of equal mass, centred on them."""
    axis = Axis(points, np.full(N_POINTS, 1 / N_POINTS))
    name, zeros = str(sample.X.columns[feature]), np.zeros(N_POINTS)
    table = ComponentTable((name,), (axis,), zeros, None, axis.weights)
    truth = sample.truth(table)
    return np.asarray(truth - truth.mean())


def as_table(lines: list[Line]) -> str:
    """Coverage in per cent and mean half width in deviations of the target, by setting."""
    found = {(line["setting"], line["library"]): line for line in lines}
    libraries = [name for name in LIBRARIES if any(key[1] == name for key in found)]
    whats = ("covers", "half width", "s of CPU")
    head = ["setting", *(f"{name}: {what}" for name in libraries for what in whats)]
    rows = []
    for setting in SETTINGS:
        own = [found.get((setting, name)) for name in libraries]
        rows.append([part for line in own for part in _numbers(line)])
    means = np.nanmean(np.array(rows, float), axis=0)
    written = [[name, *fixed(row, DIGITS)] for name, row in zip(SETTINGS, rows, strict=True)]
    return markdown([head, *written, ["mean", *fixed(means, DIGITS)]])


def _numbers(line: Line | None) -> list[float]:
    if line is None:
        return [np.nan] * 3
    return [100 * np.mean(line["covered"]), np.mean(line["half_widths"]), line["seconds"]]


def main() -> None:
    """Measure what has no line yet, and print the table."""
    samples = dict(all_settings((1000, 5000)))
    absent = [name for name, package in PACKAGES.items() if find_spec(package) is None]
    for name in absent:
        say(f"{name} is left out: it is not installed")
    cells = [(setting, name) for setting in SETTINGS for name in LIBRARIES if name not in absent]
    lines = complete(
        "coverage_rivals",
        ("setting", "library"),
        cells,
        lambda setting, library: measure(library, samples[setting](0)),
    )
    print(as_table(lines))


if __name__ == "__main__":
    main()
