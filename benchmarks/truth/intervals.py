"""Prediction intervals and sets of classes beside others: ``python -m benchmarks.truth.intervals``.

Every cell is one method on one split of one data set; what has a line is not measured again. All
methods wrap the same estimator:

- *held-out rows*: ``predict_interval`` of one fit;
- *split, local scale*: a fit to half of the training rows, a scale fitted to log |residual| of a
  quarter, calibrated on the last quarter;
- *CV+*: MAPIE's, five refits;
- *split*: sets of classes of a fit to three quarters, calibrated on the last;
- *LAC* and *APS*: MAPIE's sets with these scores, of the same fit. Its check of the estimator
  refuses tables with levels, and APS is for more than two classes.

Widths are in standard deviations of the test targets. Data sets are found in the folder
``TPNN_DATA``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from benchmarks.common.cells import Cell, Line, complete
from benchmarks.common.data import in_two
from benchmarks.common.interface import Halves, Rows
from benchmarks.common.markdown import markdown
from tpnn import TPNNClassifier, TPNNRegressor, datasets
from tpnn._utils.arrays import BoolArray, FloatArray

COVERAGE, N_REFITS = 0.9, 5
NUMBERS = ("abalone", "wine", "calhousing", "online_news_subset")
CLASSES = ("fico_heloc", "churn", "credit_subset", "drybean", "letter", "madelon", "celeba_attr")
MOST_CLASS_ROWS = 6000  # training rows of classifiers
MOST_ROWS = 20_000  # of a data set of classes, drawn at random
PLAIN: dict[str, Any] = {"order": 1, "n_bags": 4}  # of tables with many classes or features
DIGITS = {"covered": 3, "width": 3, "cpu_s": 0}  # of what the tables show
SETTINGS = dict.fromkeys(("drybean", "letter", "madelon"), PLAIN)


def split_of(name: str, seed: int) -> Halves:
    """Cut a data set at random."""
    X, y = datasets.load(name)
    order, most_fitted = np.random.default_rng(seed).permutation(len(X)), None
    if name in CLASSES:
        order, most_fitted = order[:MOST_ROWS], MOST_CLASS_ROWS
    return in_two(Rows(X, y.to_numpy()), order, most_fitted)


def held_out(split: Halves, regressor: Any) -> tuple[FloatArray, FloatArray]:
    """Intervals of one fit."""
    lower, upper = regressor.fit(split.fitted.X, split.fitted.y).predict_interval(
        split.test.X, COVERAGE
    )
    return lower, upper


def split_local(split: Halves, regressor: Any) -> tuple[FloatArray, FloatArray]:
    """Split conformal intervals with a scale of their own."""
    n_rows = len(split.fitted.y)
    first, second, third = np.split(np.arange(n_rows), [n_rows // 2, 3 * n_rows // 4])
    regressor.fit(split.fitted.X.iloc[first], split.fitted.y[first])

    def residuals(rows: Any) -> FloatArray:
        return np.asarray(
            np.abs(split.fitted.y[rows] - regressor.predict(split.fitted.X.iloc[rows]))
        )

    sizes = residuals(second)
    logs = np.log(np.maximum(sizes, np.quantile(sizes, 0.1)))
    scale = TPNNRegressor(order=1, random_state=0, verbose=0).fit(split.fitted.X.iloc[second], logs)
    scores = np.sort(residuals(third) / np.exp(scale.predict(split.fitted.X.iloc[third])))
    factor = scores[int(np.ceil(COVERAGE * (len(scores) + 1))) - 1]
    reach = factor * np.exp(scale.predict(split.test.X))
    means = regressor.predict(split.test.X)
    return means - reach, means + reach


def cross_plus(split: Halves, regressor: Any) -> tuple[FloatArray, FloatArray]:
    """Return MAPIE's CV+."""
    from mapie.regression import CrossConformalRegressor

    crossed = CrossConformalRegressor(regressor, confidence_level=COVERAGE, cv=N_REFITS)
    crossed.fit_conformalize(split.fitted.X, split.fitted.y)
    ends = crossed.predict_interval(split.test.X)[1][:, :, 0]
    return ends[:, 0], ends[:, 1]


def held_out_sets(split: Halves, classifier: Any) -> BoolArray:
    """Return the sets of one fit."""
    found: BoolArray = classifier.fit(split.fitted.X, split.fitted.y).predict_interval(
        split.test.X, COVERAGE
    )
    return found


def split_sets(split: Halves, fitted: Any) -> BoolArray:
    """Return split conformal sets: classes whose probability is that of enough calibration rows."""
    _, rest = _quarters(split)
    codes = np.searchsorted(fitted.classes_, rest.y)
    scores = np.sort(1 - fitted.predict_proba(rest.X)[np.arange(len(codes)), codes])
    largest = scores[int(np.ceil(COVERAGE * (len(scores) + 1))) - 1]
    return np.asarray(1 - fitted.predict_proba(split.test.X) <= largest)


def mapie_sets(score: str) -> Callable[[Halves, Any], BoolArray]:
    """Return MAPIE's sets with one of its scores."""

    def found(split: Halves, fitted: Any) -> BoolArray:
        from mapie.classification import SplitConformalClassifier

        _, rest = _quarters(split)
        conformal = SplitConformalClassifier(
            fitted, confidence_level=COVERAGE, conformity_score=score, prefit=True, random_state=0
        ).conformalize(rest.X, rest.y)
        return np.asarray(conformal.predict_set(split.test.X)[1][:, :, 0])

    return found


def _quarters(split: Halves) -> tuple[Rows, Rows]:
    """Return three quarters of the training rows, and the last one."""
    X, y = split.fitted
    n_rows = 3 * len(y) // 4
    return Rows(X.iloc[:n_rows], y[:n_rows]), Rows(X.iloc[n_rows:], y[n_rows:])


@lru_cache(maxsize=1)
def fit_to_three_quarters(name: str, seed: int) -> tuple[Any, float]:
    """Fit a classifier to three quarters of the training rows; and its CPU seconds."""
    began, (part, _) = time.process_time(), _quarters(split_of(name, seed))
    return estimator_of(name, seed).fit(part.X, part.y), time.process_time() - began


def estimator_of(name: str, seed: int) -> Any:
    """Return what all methods wrap."""
    kind: Any = TPNNClassifier if name in CLASSES else TPNNRegressor
    return kind(random_state=seed, verbose=0, **SETTINGS.get(name, {}))


METHODS: dict[str, Callable[[Halves, Any], Any]] = {
    "held-out rows": held_out,
    "split, local scale": split_local,
    "CV+": cross_plus,
}
SET_METHODS: dict[str, Callable[[Halves, Any], Any]] = {
    "held-out rows": held_out_sets,
    "split": split_sets,
    "LAC": mapie_sets("lac"),
    "APS": mapie_sets("aps"),
}
LEVELLED = ("churn",)  # tables that MAPIE refuses
SEVERAL = ("drybean", "letter")  # tables of more than two classes; of two, MAPIE knows LAC alone


def measure(name: str, method: str, seed: int) -> Line:
    """Coverage and width, or mean size, of one method."""
    split, are_classes = split_of(name, seed), name in CLASSES
    estimator, earlier = estimator_of(name, seed), 0.0
    if are_classes and method != "held-out rows":
        estimator, earlier = fit_to_three_quarters(name, seed)
    began = time.process_time()
    found = (SET_METHODS if are_classes else METHODS)[method](split, estimator)
    line: Line = {"n_test": len(split.test.y)}
    line["cpu_s"] = time.process_time() - began + earlier
    if are_classes:
        codes = np.searchsorted(estimator.classes_, split.test.y)
        line["covered"] = float(found[np.arange(len(codes)), codes].mean())
        line["width"] = float(found.sum(1).mean())
        line["accuracy"] = float(estimator.score(split.test.X, split.test.y))
    else:
        lower, upper = found
        line["covered"] = float(((lower <= split.test.y) & (split.test.y <= upper)).mean())
        line["width"] = float((upper - lower).mean() / np.std(split.test.y))
    return line


def as_table(lines: list[Line], names: tuple[str, ...], methods: tuple[str, ...]) -> str:
    """Coverage and width of each method, a row for each data set."""
    head = ["data", "test rows", *(f"{method}: {what}" for method in methods
                                   for what in ("coverage", "width", "CPU s"))]  # fmt: skip
    rows = [head]
    for name in names:
        of_name = [line for line in lines if line["data"] == name]
        if of_name:
            cells = [_mean(of_name, m, what) for m in methods for what in DIGITS]
            rows.append([name, str(of_name[0]["n_test"]), *cells])
    return markdown(rows)


def _mean(lines: list[Line], method: str, what: str) -> str:
    values = [line[what] for line in lines if line["model"] == method]
    return f"{np.mean(values):.{DIGITS[what]}f}" if values else ""


def _methods(name: str) -> list[str]:
    if name not in CLASSES:
        return list(METHODS)
    foreign = () if name in LEVELLED else ("LAC", "APS") if name in SEVERAL else ("LAC",)
    return [m for m in SET_METHODS if m not in ("LAC", "APS") or m in foreign]


def main() -> None:
    """Measure what has no line yet, and print the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.truth.intervals", description=__doc__
    )
    parser.add_argument("--data", nargs="+", default=(*NUMBERS, *CLASSES))
    parser.add_argument("--splits", type=int, default=1, help="of each data set, 1 by default")
    parser.add_argument("--methods", nargs="+", default=(*METHODS, *SET_METHODS))
    given = parser.parse_args()
    cells = [
        (name, method, seed)
        for seed in range(given.splits)
        for name in given.data
        for method in _methods(name)
        if method in given.methods
    ]
    lines = complete("intervals", Cell._fields, cells, measure)
    print(as_table(lines, NUMBERS, tuple(METHODS)))
    print(as_table(lines, CLASSES, tuple(SET_METHODS)))


if __name__ == "__main__":
    main()
