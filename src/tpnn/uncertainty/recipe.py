"""The recipe: posteriors of all components, and tests of them, from the bags of a solution.

The grid of a component in bag b is a smooth part and a rough rest, f_b = P f_b + (I - P) f_b.
Targets minus the rests are observations of the smooth parts, so a linear model gives the posterior
of these. The jackknife of the bags gives the variance of the rests. With the coefficients
c = <Phi, f> of the mean f,

    m = Phi beta_hat + mean_b (I - P) f_b = f + Phi (beta_hat - c),    C = Phi S Phi' + diag(v).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn._utils.threads import ONE_BLAS_THREAD, Workers
from tpnn.anova.components import Component
from tpnn.anova.measure import centre
from tpnn.anova.posterior import Posterior
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.solution import Limits, Solution
from tpnn.uncertainty.design import Design, Span, WorkingRows, spans
from tpnn.uncertainty.equations import Coefficients
from tpnn.uncertainty.linear_model import (
    ENOUGH_ROWS,
    PURPOSE,
    LinearModel,
    RowErrors,
    RowScores,
    ZeroTest,
    most_functions,
    rough_variance,
    row_errors,
)

MOST_REWEIGHTINGS = 4  # of losses other than squared error
NEGLIGIBLE_CHANGE = 0.04  # of raw scores; curvatures change by about this share
FEW_VALUES = 10**6  # of functions on rows, for which threads do not pay


Move = Callable[[Solution, Solution], Solution]  # towards the first, from the second


@dataclass(frozen=True, eq=False)
class Bags:
    """Grids of all bags, split into smooth parts and rough rests, and what they say on the rows."""

    smooth: list[FloatArray]  # (k, K): coefficients <Phi, f> of each component in the mean bag
    rests: list[FloatArray]  # (M_1, ..., M_d, n_bags, K), rough rest of each component
    scores: FloatArray  # (n, K): mean of the bags that held the row out, else of all bags
    offsets: FloatArray  # (n, K): rough rests of all components and the offset, in the same way
    remainder: FloatArray | None  # (n, n_bags, K)
    held_out: FloatArray  # (n,): mass of rows that some bag held out, else zero


@dataclass(frozen=True, eq=False)
class Inference:
    """Posterior and test of each component of a solution."""

    posteriors: dict[Component, Posterior]  # in the user's order and scale
    tests: dict[Component, ZeroTest]
    row_errors: RowErrors  # of the sum of the components, in the user's scale
    solution: Solution  # around which the posteriors are
    smooth: FloatArray  # (n, K): posterior means of all smooth parts, with offset, likewise


def infer(
    problem: Problem, solution: Solution, limits: Limits, move: Move | None = None
) -> Inference:
    """Posterior and test of every component of a solution, and errors of their sum.

    With ``move`` the solution first moves towards its posterior means.

    Raises LinAlgError where raw scores are so extreme that there is none in floating point, and
    TimeoutError if the limits are reached.
    """
    functions = spans(solution.components, problem.encoder.axes)
    n_values = len(problem.rows.y) * sum(span.size for span in functions)
    with ONE_BLAS_THREAD, limits.workers() if n_values > FEW_VALUES else Workers(1) as workers:
        design = Design(solution.components, functions, problem.codes, workers)
        bags = split_bags(problem, solution, functions)
        models = smooth_posteriors(problem, design, bags, limits)
        smooth = bags.smooth
        if move is not None:
            solution = better(problem, solution, design, models, move, limits)
            tables = map(problem.by_bag, solution.components, solution.tables)
            pairs = zip(tables, functions, strict=True)
            smooth = [span.coefficients(table.mean(-2)) for table, span in pairs]
        trained = problem.trained_share
        posteriors, tests = {}, {}
        by_output = [model.posteriors for model in models]
        for number, (component, span) in enumerate(
            zip(design.components, design.spans, strict=True)
        ):
            outputs = [each[number] for each in by_output]
            rough = rough_variance(bags.rests[number], span.weights, trained)
            frozen = _frozen(problem, component, span, outputs, smooth[number], rough)
            posteriors[tuple(sorted(component))] = frozen
            tests[tuple(sorted(component))] = ZeroTest.of(outputs, are_levels(problem, [component]))
        limits.check(PURPOSE)
        joint = row_errors(models, bags.rests, bags.remainder, trained)
        arrays = [joint.errors, *(array for p in posteriors.values() for array in p.arrays)]
        if not all(np.isfinite(array).all() for array in arrays):
            raise np.linalg.LinAlgError("the posterior is not finite")
        joint = replace(joint, errors=problem.scale * joint.errors)
        return Inference(posteriors, tests, joint, solution, smooth_scores(problem, models))


def smooth_scores(problem: Problem, models: Sequence[LinearModel]) -> FloatArray:
    """Raw scores (n, K) of the distinct rows by the smooth parts alone, in the user's unit.

    To them the degrees of freedom belong: how many the rough rests take, nobody knows.
    """
    values = np.column_stack([model.design.values(model.beta) for model in models])
    y, known = problem.rows.y.astype(np.float64), problem.rows.offset.astype(np.float64)
    with np.errstate(all="ignore"):
        try:
            values += problem.objective.start(y, known + values, problem.distinct.weights)
        except ValueError:  # raw scores without a finite loss have no statistics either
            values += np.nan
    given = problem.targets.offset[problem.distinct.rows, None]
    return np.asarray(problem.shift + problem.scale * values + given)


def joint_test(
    problem: Problem, solution: Solution, tested: Sequence[Component], limits: Limits
) -> ZeroTest:
    """Test of some components of a solution together, given all others."""
    functions = spans(solution.components, problem.encoder.axes)
    with ONE_BLAS_THREAD, limits.workers() as workers:
        design = Design(solution.components, functions, problem.codes, workers)
        bags = split_bags(problem, solution, functions)
        by_component = {tuple(sorted(s)): place for place, s in enumerate(solution.components)}
        numbers = [by_component[component] for component in tested]
        models = smooth_posteriors(problem, design, bags, limits, numbers)
        joint = [model.joint(numbers) for model in models]
        return ZeroTest.of(joint, are_levels(problem, tested))


def are_levels(problem: Problem, components: Sequence[Component]) -> bool:
    """Whether components are main effects of levels without order."""
    axes = problem.encoder.axes[1]
    return all(len(s) == 1 and axes[s[0]].is_nominal for s in components)


def better(
    problem: Problem,
    solution: Solution,
    design: Design,
    models: Sequence[LinearModel],
    move: Move,
    limits: Limits,
) -> Solution:
    """Move a solution towards its posterior means, first as a whole, then order by order.

    Where features depend on each other, what one order gains another loses, so that the move of one
    alone leads nowhere. A bag moves towards the mean without the rows that it holds out. So these
    rows can say how far, and stay held out for all that follows.
    """
    held_out = (problem.rows.validation > 0) & (problem.rows.training == 0)
    by_output = np.stack([model.left_out(held_out, limits) for model in models], -1)
    solution, means = replace(solution, tables=_unpadded(problem, solution)), {}
    for component, table, span, place in zip(
        solution.components, solution.tables, design.spans, design.places, strict=True
    ):
        grid = problem.by_bag(component, table)  # (M_1, ..., M_d, n_bags, K)
        coefficients = span.deviations[:, None, None] * by_output[place]  # (k, n_bags, K)
        shift = centre(span.tables(coefficients - span.coefficients(grid)), span.weights)
        means[component] = table + shift.reshape(table.shape)
    orders = sorted(set(map(len, means)))
    for together in [orders, *([order] for order in orders)][len(orders) == 1 :]:
        limits.check(PURPOSE)
        some = {s: mean for s, mean in means.items() if len(s) in together}
        tables = zip(solution.components, solution.tables, strict=True)
        candidate = replace(solution, tables=[some.get(s, table) for s, table in tables])
        solution = move(_recentred(problem, candidate, solution), solution)
    return solution


def _unpadded(problem: Problem, solution: Solution) -> list[FloatArray]:
    """Grids of a solution on the nodes that their features have."""
    pairs = zip(solution.components, solution.tables, strict=True)
    grids = (problem.by_bag(component, table) for component, table in pairs)
    return [grid.reshape(*grid.shape[:-2], -1) for grid in grids]


def _recentred(problem: Problem, candidate: Solution, solution: Solution) -> Solution:
    """Move the intercepts of a candidate until its mean slopes are those of the solution."""
    some = slice(None, None, -(-len(problem.rows.y) // ENOUGH_ROWS))
    n_outputs, y = problem.objective.n_outputs, problem.rows.y[some].astype(np.float64)
    raw, before = (problem.raw_scores(each, some) for each in (candidate, solution))
    intercepts = candidate.intercepts.copy()
    for bag in range(problem.n_bags):
        lanes = slice(bag * n_outputs, (bag + 1) * n_outputs)
        weights = problem.rows.training[some, bag].astype(np.float64)
        working = WorkingRows(problem.objective, y, weights)
        slope, curvature = working.slopes(raw[:, lanes])
        change = slope - working.slopes(before[:, lanes])[0]
        intercepts[lanes] -= weights @ change / (weights @ curvature)
    return replace(candidate, intercepts=intercepts)


def split_bags(problem: Problem, solution: Solution, functions: Sequence[Span]) -> Bags:
    """Split the grids of all bags, and average on each row the bags that held it out."""
    tables = list(map(problem.by_bag, solution.components, solution.tables))
    smooth = [span.coefficients(table) for table, span in zip(tables, functions, strict=True)]
    rests = [t - span.tables(c) for t, span, c in zip(tables, functions, smooth, strict=True)]
    constants = problem.by_output(solution.intercepts)  # (n_bags, K)
    rest = None
    if solution.remainder is not None:
        rest = problem.by_output(solution.remainder.astype(np.float64))
    return Bags(
        smooth=[part.mean(1) for part in smooth],
        rests=rests,
        scores=_held_out_mean(problem, solution, tables, constants, rest),
        offsets=_held_out_mean(problem, solution, rests, 0 * constants, rest),
        remainder=rest,
        held_out=problem.distinct.masses * problem.rows.validation.any(1),
    )


def _held_out_mean(
    problem: Problem,
    solution: Solution,
    tables: list[FloatArray],
    constants: FloatArray,
    rest: FloatArray | None,  # (n, n_bags, K)
) -> FloatArray:
    """Offset, remainder, constants and grids on every row (n, K), mean of bags that held it out.

    Rows that no bag held out get the mean of all bags.
    """
    held_out = problem.rows.validation > 0
    held_out = np.column_stack([held_out, ~held_out.any(1)])  # (n, n_bags + 1)
    means = np.repeat(problem.rows.offset.astype(np.float64), constants.shape[1], axis=1)
    constants = _with_mean(constants)
    tables = [_with_mean(table) for table in tables]
    for bag, rows in enumerate(map(np.flatnonzero, held_out.T)):
        shares = 1 / held_out[rows].sum(1)
        means[rows] += shares[:, None] * constants[bag]
        if rest is not None:
            own = rest[rows].mean(1) if bag == problem.n_bags else rest[rows, bag]
            means[rows] += shares[:, None] * own
        for component, table in zip(solution.components, tables, strict=True):
            problem.codes.add_shares(component, table, bag, rows, shares, means)
    return means


def _with_mean(values: FloatArray) -> FloatArray:
    """Values (..., n_bags, K), and the mean of the bags as if it were one more: n_bags + 1."""
    return np.concatenate([values, values.mean(-2, keepdims=True)], axis=-2)


def smooth_posteriors(
    problem: Problem,
    design: Design,
    bags: Bags,
    limits: Limits,
    together: Collection[int] = (),  # components that have a joint posterior
) -> list[LinearModel]:
    """Posterior of the coefficients of all components, for each output.

    Other losses than squared error are replaced by a parabola at the held-out scores, then by one
    at each posterior mean until it hardly changes. A single step is not enough where held-out
    scores are far from the posterior mean.
    """
    masses, n_outputs = problem.distinct.weights * problem.distinct.size, bags.scores.shape[1]
    working = WorkingRows(problem.objective, problem.rows.y.astype(np.float64), masses)
    dispersion, scores = working.dispersion(bags.scores, bags.held_out), bags.scores
    smooth, most = bags.smooth, most_functions(n_outputs)
    models = [
        LinearModel(design, [part[:, number] for part in smooth], most, together)
        for number in range(n_outputs)
    ]
    slopes = masses[:, None] * working.slopes(scores)[0] / dispersion
    is_parabola = problem.objective.kind == "numbers"
    for _ in range(1 if is_parabola else MOST_REWEIGHTINGS):
        slope, curvature = working.slopes(scores)
        response = scores - slope / curvature - bags.offsets
        precision = masses[:, None] * curvature / dispersion
        before = scores
        fits = [
            m.solve(z, p, limits) for m, z, p in zip(models, response.T, precision.T, strict=True)
        ]
        scores = bags.offsets + np.column_stack(fits)
        if np.average(np.abs(scores - before), weights=precision) < NEGLIGIBLE_CHANGE:
            break
    draws, distinct = problem.targets.draws, problem.distinct
    are_named = distinct.are_named if draws is None else draws.groups_are_given
    named = distinct.groups if are_named else None
    for model, slope in zip(models, slopes.T, strict=True):
        model.add_robust(RowScores(slope, masses, named))
        if draws is not None:
            model.add_draws(draws.numbers[distinct.rows], draws.n_draws)
    return models


def _frozen(
    problem: Problem,
    component: Component,
    span: Span,
    coefficients: list[Coefficients],
    smooth: FloatArray,
    rough: FloatArray,
) -> Posterior:
    """Undo the training scale and restore the user's order of the features."""
    axes = np.argsort(component)
    means = np.transpose([span.deviations * part.mean for part in coefficients])
    roots = np.stack([span.deviations[:, None] * part.root() for part in coefficients])
    rough = rough.transpose(*axes, len(component))
    factors = [span.factors[axis] for axis in axes]
    return Posterior.of(factors, means - smooth, roots, rough, problem.scale)
