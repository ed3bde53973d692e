"""Warming up: all loops of default fits and of predictions are compiled ahead."""

from __future__ import annotations

from typing import Any

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.estimators.classifier import TPNNClassifier
from tpnn.estimators.regressor import TPNNRegressor
from tpnn.model.interpolate_numba import warm_up
from tpnn.solvers.grow.solver import Grow

N_ROWS = 600  # enough for the loops that few rows do without
MOST_ROUNDS = 20  # of growth: code is compiled in the first one


def warmup() -> None:
    """Compile ahead what default fits, and predictions of large tables, need.

    The first fit of an installation otherwise waits for that. Compiled code is kept in a folder:
    numba's environment variable ``NUMBA_CACHE_DIR`` or, by default, beside the code of this
    package. So call it once where the image of a container is built, by the user and with the
    folder that will fit later, or before times are measured. Where all is compiled already it takes
    a few seconds. Settings other than the defaults, such as orders above two, may still compile
    loops of their own.

    Examples
    --------
    >>> import tpnn
    >>> tpnn.warmup()
    """
    for has_gaps in (False, True):  # codes of one byte, and of two
        _fit_all(*_table(has_gaps))
    warm_up()


def _fit_all(X: dict[str, Any], y: FloatArray) -> None:
    """Fit a few rounds for numbers, two classes and three, and predict."""
    quick: dict[str, Any] = {
        "solver": Grow(max_rounds=MOST_ROUNDS), "n_bags": 2, "random_state": 0, "verbose": 0,
    }  # fmt: skip
    TPNNRegressor(**quick, remainder=True).fit(X, y).predict(X)
    TPNNRegressor(**quick, order=2).fit(X, y)
    for n_classes in (2, 3):
        ends = np.quantile(y, np.arange(1, n_classes) / n_classes)
        classes = np.searchsorted(ends, y)
        TPNNClassifier(**quick).fit(X, classes).predict_proba(X)


def _table(has_gaps: bool) -> tuple[dict[str, Any], FloatArray]:
    """Columns of as many values as fit into a byte, of few, and of levels; and a target.

    With a gap there is one value more.
    """
    rng = np.random.default_rng(0)
    many, *others = rng.normal(size=(N_ROWS, 6)).T  # not contiguous, as in data frames
    few = np.round(others[0])
    levels = rng.choice(["a", "b", "c"], N_ROWS)
    y = many * few + (levels == "a") * np.sin(many) + np.prod(others, axis=0)
    few[::7] = np.nan
    if has_gaps:
        many[::9] = np.nan
    columns = {f"other{k}": other for k, other in enumerate(others)}
    return {"many": many, "few": few, "levels": levels.astype(object), **columns}, y
