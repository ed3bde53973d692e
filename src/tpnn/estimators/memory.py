"""estimate_memory: how much memory a fit will need, before it begins."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tpnn._utils.rules import COUNT, check_parameters
from tpnn.estimators.inputs import Settings
from tpnn.estimators.parameters import RULES
from tpnn.estimators.pipeline import nodes_by_order
from tpnn.estimators.regressor import TPNNRegressor
from tpnn.table.columns import array_of, is_in_files
from tpnn.table.files.source import Source
from tpnn.table.table import Table

# Fitted to what fits to tables of 17 shapes needed, with targets that had some noise.
BYTES_AT_LEAST = 60e6  # compiled code, and what does not depend on the table
BYTES_PER_LANE = 80  # of a row: its weights, slopes and scores in a bag, for one output
BYTES_PER_VALUE = 8  # of a row, with its codes
BYTES_PER_DEEP_FEATURE, ROWS_OF_ALL_BOXES = 2e6, 10_000  # of deep trees and their boxes
SHARE_OF_GRIDS = 0.8  # of what the solver needs at its peak, which not all components reach at once
FOUND = {True: {2: 12, 3: 3}, False: {2: 60, 3: 40}}  # beside a remainder, and without one
MOST_CLASSES = 30  # whole numbers with more values are amounts


def estimate_memory(X: Any, y: Any = None, *, n_outputs: int | None = None, **settings: Any) -> int:
    """Estimate the peak memory in bytes that a fit adds to what the process has.

    It is right within a factor of two on tables of the usual shapes, without training anything.
    Targets almost without noise let trees grow on, and need more; so do hundreds of pairs that all
    grow, 2.4 times as much at 190. The table itself counts for nothing: it is in memory already.

    Parameters
    ----------
    X : table
        As ``fit`` takes it, also the path of files.
    y : array, optional
        Targets, which say how many outputs there are; with few whole numbers they are classes.
    n_outputs : int, optional
        Number of outputs, in place of y: 1 for a number or two classes, K for K classes, targets or
        quantiles.
    **settings
        Parameters of the estimator, such as ``order`` and ``n_bags``.

    Examples
    --------
    >>> X = np.zeros((10_000, 10))
    >>> small, large = estimate_memory(X), estimate_memory(X, n_bags=32)
    >>> 1e8 < small < large < 2e9
    True
    """
    asked = settings if n_outputs is None else settings | {"n_outputs": n_outputs}
    check_parameters(asked, RULES | {"n_outputs": COUNT})
    read = Settings.of(TPNNRegressor().get_params(deep=False) | settings)
    n_rows, n_features = _shape(X, y)
    outputs = n_outputs or _n_outputs(y)
    bags = read.solver.enough_bags(n_rows, outputs) if isinstance(read.n_bags, str) else read.n_bags
    lanes = bags * outputs
    rows = n_rows * (BYTES_PER_VALUE * n_features + BYTES_PER_LANE * lanes)
    has_trees = read.interactions.are_searched
    boxes = n_features * min(n_rows / ROWS_OF_ALL_BOXES, 1.0) if has_trees else 0.0
    grids = lanes * _grid_bytes(read, n_rows, n_features, outputs)
    return int(BYTES_AT_LEAST + rows + BYTES_PER_DEEP_FEATURE * boxes + SHARE_OF_GRIDS * grids)


def _grid_bytes(settings: Settings, n_rows: int, n_features: int, n_outputs: int) -> float:
    """Memory of the grids of all components in one lane."""
    solver, total = settings.solver, 0.0
    few = solver.enough_nodes(n_rows, n_outputs)
    for order, most in nodes_by_order(n_features, settings).items():
        nodes = min(most, few.get(order, most))
        count = _usual_count(settings, order, n_features)
        total += count * solver.bytes_per_component(order, nodes)
    return total


def _usual_count(settings: Settings, order: int, n_features: int) -> int:
    """Components of an order that a fit usually has: as listed, as asked for, or as it finds."""
    given, count = settings.interactions, math.comb(n_features, order)
    if not given.are_searched or order == 1:
        return given.most(order, n_features, None)
    if given.count != "auto":
        return min(count, int(given.count)) if order == 2 else 0
    return min(count, FOUND[not settings.is_order_given].get(order, 0))


def _shape(X: Any, y: Any) -> tuple[int, int]:
    """Rows and features of a table; a target named by y is no feature."""
    if is_in_files(X):
        source = Source(X)
        named = [y] if isinstance(y, str) else list(y or ()) if isinstance(y, list) else []
        return source.n_rows, max(len(source.names) - len(named), 1)
    table = Table(X)
    return table.n_rows, table.n_features


def _n_outputs(y: Any) -> int:
    """Count the outputs for targets: columns, or classes; one where nothing is known."""
    if y is None or isinstance(y, str):
        return 1
    array = array_of(y)
    if array.ndim == 2:
        return int(array.shape[1])
    if array.dtype.kind == "f":
        return 1
    n_classes = len(np.unique(array.astype(str) if array.dtype.kind == "O" else array))
    is_class = array.dtype.kind not in "iu" or n_classes <= MOST_CLASSES
    return n_classes if is_class and n_classes > 2 else 1
