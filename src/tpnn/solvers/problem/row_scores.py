"""Raw scores of training rows by interpolation, as a frozen model computes them.

Solvers see every row at its nearest nodes, but a model interpolates between nodes. The intercept is
balanced here, because its law is about predictions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn._utils.threads import Workers, split
from tpnn.anova.components import Component, canonical
from tpnn.anova.trees import Trees
from tpnn.model.flat import FlatTable, flatten_tables
from tpnn.model.interpolate import Predictor
from tpnn.model.model import AnovaModel, beside_trees
from tpnn.model.task import both_classes
from tpnn.solvers.problem.problem import ROWS_PER_BLOCK, BaseModel, Problem
from tpnn.solvers.problem.rows import read_columns
from tpnn.table.encoder import TableEncoder, of_rows
from tpnn.table.table import Table

N_STEPS = 100
LONGEST_NEWTON_STEP = 2.0  # in units of the raw score; longer ones overshoot
CLOSE_ENOUGH = 1e-12  # relative distance of a sum from its target
SMALLEST_MEAN = 1e-300  # of the probabilities of a class; smaller ones are as far away


def training_columns(
    problem: Problem, components: Iterable[Component], rows: IntArray
) -> list[FloatArray]:
    """Columns of some rows of the user's table as numbers; empty where no component needs them."""
    table, encoder, shelf = problem.codes.table, problem.encoder, problem.codes.shelf
    columns = [np.empty(0) for _ in range(encoder.n_features)]
    for feature in used_features(components):
        columns[feature] = shelf.keep(of_rows(table, partial(_column, encoder, feature), rows))
    return columns


def used_features(components: Iterable[Component]) -> list[int]:
    """Features of some components, in order."""
    return sorted({feature for component in components for feature in component})


def _column(
    encoder: TableEncoder,
    feature: int,
    table: Table,
    rows: IntArray | None,
    n_threads: int | None = None,
) -> FloatArray:
    values = encoder.numbers(table, feature)
    return values if rows is None else values[rows]


def interpolated(
    encoder: TableEncoder,
    tables: Sequence[FlatTable],
    intercepts: FloatArray,
    columns: list[FloatArray],
) -> FloatArray:
    """Add intercepts (K,) and K tables of each component, in their order, on rows: (n, K)."""
    n_rows = max(map(len, columns), default=0)
    raw = np.empty((len(intercepts), n_rows))
    raw[:] = intercepts[:, None]
    Predictor(encoder.axes, tables).add(columns, raw)
    return raw.T


def training_scores(
    tables: Mapping[Component, FloatArray],
    intercepts: FloatArray,
    trees: Trees | None,
    problem: Problem,
) -> FloatArray:
    """Raw scores (n, K) of the distinct training rows, without their offset.

    They are what a model predicts with these grids (M_1, ..., M_d, K), whose components are in the
    user's order, and trees, if there are any. Components are added in canonical order, so that the
    order of the columns changes no bit.
    """
    ordered = canonical(tables, problem.features)
    given = {s: tables[tuple(sorted(s))].transpose(*np.argsort(np.argsort(s)), -1) for s in ordered}
    scores = partial(_scores, problem.encoder, given, intercepts, trees)
    return of_rows(problem.codes.table, scores, problem.distinct.rows)


def _scores(
    encoder: TableEncoder,
    tables: Mapping[Component, FloatArray],
    intercepts: FloatArray,
    trees: Trees | None,
    table: Table,
    rows: IntArray,
    n_threads: int | None,
) -> FloatArray:
    """Raw scores (n, K) of some rows."""
    components = [*tables, *((feature,) for feature in ([] if trees is None else trees.used))]
    used = used_features(components)
    columns = [np.empty(0) for _ in range(encoder.n_features)]

    def read(feature: int) -> FloatArray:
        return table.shelf.keep(_column(encoder, feature, table, rows))

    for feature, column in zip(used, read_columns(read, used, table, n_threads), strict=True):
        columns[feature] = column
    raw = interpolated(encoder, flatten_tables(tables), intercepts, columns)
    return raw if trees is None else raw + _tree_scores(trees, columns, n_threads)


def _tree_scores(trees: Trees, columns: Sequence[FloatArray], n_threads: int | None) -> FloatArray:
    """Sum of trees on rows (n, K), a block of rows by each thread."""
    blocks = split(max(map(len, columns)), ROWS_PER_BLOCK)
    with Workers(n_threads) as workers:
        scores = workers.map(lambda b: trees.scores([c[slice(*b)] for c in columns]), blocks)
    return np.concatenate(scores)


def based(problem: Problem, base: BaseModel) -> Problem:
    """Return the problem of what to add to a model: its raw scores join the offset of the rows."""
    intercepts, tables, trees = base.intercepts, base.tables, None
    if base.remainder is not None:
        intercepts, tables = base.remainder.taken_from(intercepts, tables)
        trees = base.remainder.trees
    raw = training_scores(tables, intercepts, trees, problem)
    total = problem.rows.offset + (raw - problem.shift) / problem.scale
    offset = problem.codes.shelf.keep(total.astype(np.float32))
    return replace(
        problem,
        rows=replace(problem.rows, offset=offset),
        best_constant=0 * base.intercepts,
        base=base,
    )


def balanced(
    model: AnovaModel, problem: Problem, tree_scores: FloatArray | None = None
) -> AnovaModel:
    """Move the intercepts of a model until its predictions sum to the targets.

    The model must still have all features of the problem. ``tree_scores`` (n, K) are what the trees
    of its remainder add to the rows; they are computed where they are not known. Models that do not
    predict means stay as they are: quantiles, relative risks, and losses that ignore outliers.
    """
    if not problem.objective.predicts_means:
        return model
    rows, weights = problem.distinct.rows, problem.distinct.weights
    counted = slice(None) if problem.distinct.held_out is None else weights > 0
    y, offset = problem.targets.y[rows], problem.targets.offset[rows, None]
    intercepts, tables = beside_trees(model)
    trees = model.remainder.trees if model.remainder and tree_scores is None else None
    raw = training_scores(tables, intercepts, trees, problem) + offset
    if tree_scores is not None:
        raw += tree_scores
    with np.errstate(all="ignore"):  # where nothing can be done, nothing is
        shift = SHIFTS[model.link.name](raw[counted], y[counted], weights[counted])
    if not np.isfinite(shift).all():
        return model
    return replace(model, intercepts=model.intercepts + shift)


def mean_shift(raw: FloatArray, y: FloatArray, weights: FloatArray) -> FloatArray:
    """Shift of every target (K,) that balances means."""
    return np.asarray(weights @ (y - raw))


def log_mean_shift(raw: FloatArray, y: FloatArray, weights: FloatArray) -> FloatArray:
    """Shift (1,) that balances means of a log link: the logarithm of actual over expected."""
    largest = raw.max()
    expected = np.log(weights @ np.exp(raw - largest)) + largest
    return np.asarray(np.log(weights @ y) - expected)


def logit_shift(raw: FloatArray, y: FloatArray, weights: FloatArray) -> FloatArray:
    """Shift (1,) that balances probabilities of the second of two classes."""
    both = np.column_stack([np.zeros(len(raw)), raw])
    shift = softmax_shift(both, both_classes(y[:, 0]), weights)
    return shift[1:] - shift[:1]


def softmax_shift(raw: FloatArray, y: FloatArray, weights: FloatArray) -> FloatArray:
    """Shifts (K,), of sum zero, that balance the probabilities of each class.

    They minimise sum_i w_i log sum_k exp(raw_ik + c_k) - sum_k c_k ybar_k, a convex function of c.
    Steps are Newton's where these bring the sums closer, else c_k += log(ybar_k / pbar_k), which
    never increases it.
    """
    target, shift = weights @ y, np.zeros(raw.shape[1])
    means, curvature = _class_means(raw, weights)
    for _ in range(N_STEPS):
        if _distance(means, target) <= CLOSE_ENOUGH:
            break
        step = np.linalg.lstsq(curvature, target - means, rcond=None)[0]
        tried = _class_means(raw + shift + step, weights)
        is_near = np.abs(step).max() <= LONGEST_NEWTON_STEP
        if not is_near or _distance(tried[0], target) > _distance(means, target) / 2:
            step = np.log(target / np.maximum(means, SMALLEST_MEAN))
            tried = _class_means(raw + shift + step, weights)
        shift, (means, curvature) = shift + step, tried
    return np.asarray(shift - shift.mean())


def _distance(means: FloatArray, target: FloatArray) -> float:
    """Largest relative distance of a class's sum from its target."""
    return float(np.abs(means / target - 1).max())


def _class_means(raw: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean probability of each class (K,), and its derivative in the shifts (K, K)."""
    odds = np.exp(raw - raw.max(1, keepdims=True))
    shares = odds / odds.sum(1, keepdims=True)
    means = weights @ shares
    return means, np.diag(means) - (shares * weights[:, None]).T @ shares


SHIFTS = {
    "identity": mean_shift,
    "log": log_mean_shift,
    "logit": logit_shift,
    "softmax": softmax_shift,
}
