"""Slices: cells of one or two features in which the model is wrong, searched exhaustively.

Every cell with enough rows is tested: whether its targets have the mean that the model predicts, at
the right slope, and, where targets are numbers, whether errors are larger than elsewhere. Holm's
method over all tests keeps the chance of any false finding at the rate that is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from tpnn._utils.arrays import BoolArray, FloatArray, IntArray
from tpnn.lifecycle.calibration import calibration_tests
from tpnn.lifecycle.monitor import holm
from tpnn.model.model import AnovaModel
from tpnn.model.task import Task
from tpnn.table.encoder import Feature
from tpnn.table.words import value_word

if TYPE_CHECKING:
    import pandas as pd

N_BINS = 4  # of a feature without levels
MOST_LEVELS = 12  # that have a slice each; rarer ones share one
LEAST_ROWS = 50  # of a slice, and of its complement
MISSING, OTHER = "missing", "other levels"
SIZE_OF_ERRORS = "size of errors"
COLUMNS = ["slice", "n_rows", "wrong", "actual", "expected", "p_value"]


def weak_slices(
    model: AnovaModel, X: Any, y: Any, raw: FloatArray, rate: float
) -> tuple[pd.DataFrame, int]:
    """Slices in which the model is wrong, most certain first, and how many were tested.

    ``raw`` contains the offset. ``rate`` is the chance of any finding if the model is right
    everywhere.
    """
    import pandas as pd

    task = model.task.told(y)
    target = task.targets(y, len(raw))
    tests, sizes = calibration_tests(task, target, raw), _error_sizes(task, target, raw)
    lines = []
    for name, rows in _slices(model, X):
        start = name, int(rows.sum())
        lines += [(*start, test.name, *test.means(rows), test.p_value(rows)) for test in tests]
        if sizes is not None:
            both = sizes[rows], sizes[~rows]
            means = ((side**2).mean() for side in both)
            lines.append((*start, SIZE_OF_ERRORS, *means, _larger(*both)))
    frame = pd.DataFrame(lines, columns=COLUMNS)
    found = frame[holm(frame["p_value"].to_numpy(float), rate)]
    return found.sort_values("p_value", kind="stable").reset_index(drop=True), len(frame)


def _error_sizes(task: Task, target: FloatArray, raw: FloatArray) -> FloatArray | None:
    """Roots of absolute errors of numbers, which are not far from normal; None for other tasks."""
    if task.kind != "numbers" or raw.ndim > 1:
        return None
    return np.asarray(np.sqrt(np.abs(target[:, 0] - raw)))


def _larger(inside: FloatArray, outside: FloatArray) -> float:
    """Chance that means differ so much in this direction, by Welch's test."""
    from scipy.stats import ttest_ind

    p_value = ttest_ind(inside, outside, equal_var=False, alternative="greater").pvalue
    return 1.0 if np.isnan(p_value) else float(p_value)


def _slices(model: AnovaModel, X: Any) -> Iterator[tuple[str, BoolArray]]:
    """Every slice of one and of two features with enough rows, and enough outside."""
    table = model.encoder.read(X)
    binned = []
    for number, feature in enumerate(model.encoder.features):
        codes, words = _binned(feature, model.encoder.numbers(table, number))
        binned.append((codes, [f"{model.feature_names[number]}: {word}" for word in words]))
    sets: list[Sequence[tuple[IntArray, list[str]]]] = [[one] for one in binned]
    sets += list(combinations(binned, 2))
    for chosen in sets:
        shape = [len(words) for _, words in chosen]
        cells = np.ravel_multi_index(tuple(codes for codes, _ in chosen), shape)
        counts = np.bincount(cells, minlength=int(np.prod(shape)))
        wanted = (counts >= LEAST_ROWS) & (len(cells) - counts >= LEAST_ROWS)
        for cell in np.flatnonzero(wanted):
            bins = np.unravel_index(cell, shape)
            names = [words[code] for (_, words), code in zip(chosen, bins, strict=True)]
            yield ", ".join(names), cells == cell


def _binned(feature: Feature, column: FloatArray) -> tuple[IntArray, list[str]]:
    """Bin of each row, and the bins in words."""
    finite = np.isfinite(column)
    if feature.levels:
        counts = np.bincount(column[finite].astype(np.intp), minlength=len(feature.levels))
        shown = np.argsort(-counts, kind="stable")[:MOST_LEVELS]
        code_of = np.full(len(feature.levels), len(shown))
        code_of[shown] = np.arange(len(shown))
        codes = np.where(finite, code_of[np.where(finite, column, 0).astype(np.intp)], len(shown))
        words = [*(str(feature.levels[level]) for level in shown), OTHER, MISSING]
    else:
        ranks = np.arange(1, N_BINS) / N_BINS
        edges = np.unique(np.quantile(column[finite], ranks)) if finite.any() else np.empty(0)
        codes = np.searchsorted(edges, np.where(finite, column, 0.0), side="left")
        texts = [value_word(feature, edge) for edge in edges]
        middle = [f"{low} to {high}" for low, high in pairwise(texts)]
        words = [f"up to {texts[0]}", *middle, f"above {texts[-1]}"] if texts else ["all"]
        words = [*words, MISSING]
    return np.where(np.isnan(column), len(words) - 1, codes), words
