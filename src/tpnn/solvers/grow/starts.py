"""Starting points of main effects and pairs: zero, or a smooth fit."""

from __future__ import annotations

import numpy as np

from tpnn._utils.arrays import Float32Array, FloatArray
from tpnn._utils.threads import Workers
from tpnn.anova.constraints import project_main
from tpnn.anova.measure import Marginal
from tpnn.solvers.grow.bag import Tables
from tpnn.solvers.grow.evidence import evident_ridge
from tpnn.solvers.grow.frozen import are_frozen
from tpnn.solvers.grow.ridge_start import (
    SOLVED_PAIR_NODES,
    Dictionary,
    MainDictionary,
    PairDictionary,
    RidgeStart,
    coarsen,
    few_rows,
)
from tpnn.solvers.problem.coded import CodedComponents
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.problem.stopping import Limits
from tpnn.table.axis import Axis


def measures(problem: Problem) -> tuple[Marginal, Marginal]:
    """Measures of all features on the nodes of main effects and on the nodes of pairs.

    Positions blend ranks and values. They are ranks if the curvature of the loss is unbounded:
    Newton steps of the smooth start that are free to grow in the tails would go too far there.
    """
    axes = problem.encoder.axes
    measure = Marginal.of if problem.objective.steep else Marginal.blended
    return measure(axes[1]), measure(axes.get(2, axes[1]))


def zero_start(problem: Problem, constants: FloatArray) -> Tables:
    """Return grids of zeros with the given intercepts (K,)."""
    axes = problem.encoder.axes
    fine, coarse = (max(a.n_nodes for a in order) for order in (axes[1], axes.get(2, axes[1])))
    n_outputs, n_mains = len(constants), len(problem.coded[0].features)
    n_pairs = len(problem.coded[1].features) if len(problem.coded) > 1 else 0
    mains = np.zeros((n_outputs, n_mains, fine, 1), np.float32)
    pairs = np.zeros((n_outputs, n_pairs, coarse, coarse), np.float32)
    return Tables([mains, pairs], constants)


def smooth_starts(
    problem: Problem, l2: float | None, limits: Limits, workers: Workers
) -> list[Tables]:
    """Smooth start of every bag; pairs are solved on fewer nodes than they grow on."""
    fine, coarse = measures(problem)
    solved: list[Dictionary] = [_main_dictionary(problem, fine, l2)]
    coded = [problem.coded[0]]
    for part in problem.coded[1:]:
        coarser, codes = coarsen(coarse, part.codes, SOLVED_PAIR_NODES)
        solved.append(PairDictionary(coarser, part.features))
        solved[1].forget(are_frozen(part.features.tolist(), problem))
        coded.append(CodedComponents(codes, part.features, coarser.n_nodes))
    ridge = RidgeStart(solved, coded, problem.rows, problem.objective, l2)
    best = ridge.fit(problem.start, workers, limits)
    mains = solved[0].tables(best.coefficients[0])
    mains = _shaped_mains(mains, problem)[:, :, None]
    pairs = np.empty((0, coarse.n_nodes, coarse.n_nodes, len(best.intercepts)), np.float32)
    for part in problem.coded[1:]:
        tables = PairDictionary(coarse, part.features).tables(best.coefficients[1])
        pairs = tables.reshape(-1, *pairs.shape[1:])
    starts = []
    for lanes in np.split(np.arange(len(best.intercepts)), problem.n_bags):
        by_order = [np.moveaxis(part[..., lanes], -1, 0) for part in (mains, pairs)]
        starts.append(Tables(by_order, best.intercepts[lanes].astype(np.float64)))
    return starts


def _main_dictionary(problem: Problem, marginal: Marginal, l2: float | None) -> MainDictionary:
    """Functions of the main effects; unless ``l2`` is given, their ridge is the evident one."""
    features = problem.coded[0].features
    mains = MainDictionary(marginal, features[:, 0])
    mains.forget(are_frozen(features.tolist(), problem))
    if l2 is None:
        few = float(few_rows(np.array(problem.distinct.size)))
        mains.penalise(evident_ridge(problem, mains.bases, marginal, few) / few)
    return mains


def _shaped_mains(tables: Float32Array, problem: Problem) -> Float32Array:
    """Project the main effects (n_features, M, n_lanes) that have a shape onto it, in place."""
    axes, shapes = problem.encoder.axes[1], problem.shapes
    for row, feature in enumerate(problem.coded[0].features[:, 0].tolist()):
        if feature in shapes:
            _project_lanes(tables[row], axes[feature], shapes[feature])
    return tables


def _project_lanes(table: Float32Array, axis: Axis, shape: str) -> None:
    """Project every lane of a main effect (M, n_lanes) onto a shape, in place."""
    for lane in range(table.shape[1]):
        known = table[: axis.n_nodes, lane].astype(np.float64)
        table[: axis.n_nodes, lane] = project_main(known, axis, shape)
