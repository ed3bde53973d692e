"""Calibration: what held-out rows say about predictions, as intervals and reliability."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tpnn._utils.arrays import BoolArray, CodeArray, Float32Array, FloatArray, IntArray
from tpnn._utils.threads import ONE_BLAS_THREAD
from tpnn.loss.objectives import weighted_quantiles
from tpnn.model.evidence import OF_CLASS, Calibration, GroupScores, Scale
from tpnn.model.flat import FlatTable, flatten_table
from tpnn.model.model import AnovaModel, tables_by_component
from tpnn.model.task import unit_of
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.problem.row_scores import interpolated, training_columns
from tpnn.solvers.solution import Solution
from tpnn.table.axis import Axis
from tpnn.uncertainty.design import Span, eigenfunctions
from tpnn.uncertainty.equations import Blocks, ByFunctions, Coefficients, variances
from tpnn.uncertainty.linear_model import RowErrors

SMALLEST_SHARE = 0.01  # of the largest prior variance that are kept: a scale is smooth
N_PASSES = 8  # of the scale of residuals; with two, noisy rows are covered too rarely
N_KNOTS = 64  # of the raw score
LARGEST_LEVERAGE = 0.9
SMALLEST_SCALE = 1e-9  # of the largest residual; residuals may all be zero
SMALLEST_VARIANCE = 1e-12  # of logarithms


@dataclass(frozen=True, eq=False)
class FittedScale:
    """Scale of the rows it was fitted to, and as functions."""

    at_rows: FloatArray  # (n,): scale of each row, by the other rows
    tables: list[FloatArray]  # (M_j,): g_j of each feature on its nodes
    knots: FloatArray  # (N_KNOTS,), raw scores
    heights: FloatArray  # (N_KNOTS,): h and the constant at the knots


def fit_scale(
    axes: Sequence[Axis],
    codes: Sequence[CodeArray],
    raw: FloatArray,
    logs: FloatArray,
    weights: FloatArray,
) -> FittedScale:
    """Fit logarithms (n,) to nodes of features, (n,) each, and to raw scores (n,)."""
    score_axis, score_codes = _score_axis(raw, weights)
    spans = [_span(axis) for axis in (*axes, score_axis)]
    places: list[IntArray | CodeArray] = [*codes, score_codes]
    X = np.hstack([s.factors[0][c] * s.deviations for s, c in zip(spans, places, strict=True)])
    means, constant = weights @ X, float(weights @ logs)
    centred = X - means
    variance = max(float(weights @ (logs - constant) ** 2), SMALLEST_VARIANCE)
    precision = weights * len(weights) / variance
    posterior = _posterior(centred, logs - constant, precision, spans)
    fitted = constant + centred @ posterior.mean
    tables, start = [], 0
    for span in spans:
        columns = slice(start, start + span.size)
        effect = span.factors[0] @ (span.deviations * posterior.mean[columns])
        tables.append(effect - means[columns] @ posterior.mean[columns])
        start += span.size
    return FittedScale(
        at_rows=np.exp(_left_out(centred, logs, fitted, precision, posterior)),
        tables=tables[:-1],
        knots=score_axis.values,
        heights=constant + tables[-1],
    )


def residual_scale(
    axes: Sequence[Axis],
    codes: Sequence[CodeArray],
    raw: FloatArray,
    residuals: FloatArray,
    weights: FloatArray,
) -> FittedScale:
    """Fit the scale of residuals (n,).

    Small residuals say little about large ones, and large ones decide an interval. So residuals
    below the median are raised to it; each pass does so relative to the scale of the one before.
    """
    sizes = np.abs(residuals)
    sizes = np.maximum(sizes, SMALLEST_SCALE * (sizes.max() or 1.0))
    scale = np.ones(len(sizes))
    for _ in range(N_PASSES):
        floor = float(weighted_quantiles(sizes / scale, weights, 0.5))
        fitted = fit_scale(axes, codes, raw, np.log(np.maximum(sizes, floor * scale)), weights)
        scale = fitted.at_rows
    return fitted


def _posterior(
    X: FloatArray, response: FloatArray, precision: FloatArray, spans: Sequence[Span]
) -> Coefficients:
    blocks, weighted = Blocks.of(spans), X * precision[:, None]
    equations = ByFunctions(X.T @ weighted, weighted.T @ response)
    return equations.solved(blocks.repeated(1 / variances(equations, blocks)))


def _left_out(
    X: FloatArray,
    response: FloatArray,
    fitted: FloatArray,
    precision: FloatArray,
    posterior: Coefficients,
) -> FloatArray:
    """Fit of each row by all others: z - (z - fit) / (1 - leverage)."""
    leverage = precision * posterior.covariance.squares(X) + precision / precision.sum()
    kept = 1 - np.minimum(leverage, LARGEST_LEVERAGE)
    return np.asarray(response - (response - fitted) / kept)


def _span(axis: Axis) -> Span:
    functions, shares = eigenfunctions(axis, 1)
    kept = shares > SMALLEST_SHARE * shares.max(initial=0.0)
    return Span((functions[:, kept],), shares[kept], (axis.weights,))


def _score_axis(raw: FloatArray, weights: FloatArray) -> tuple[Axis, IntArray]:
    """Quantiles of the raw score as nodes, and the nearest one of each row."""
    levels = np.linspace(0, 1, N_KNOTS)
    knots = np.unique(weighted_quantiles(raw, weights, levels))
    nearest = np.searchsorted((knots[1:] + knots[:-1]) / 2, raw)
    masses = np.bincount(nearest, weights, len(knots)).astype(np.float64)
    return Axis(knots, masses), nearest


MOST_ROWS = 20_000  # more say little more


@dataclass(frozen=True, eq=False, kw_only=True)
class HeldOutRows:
    """Rows that some bag held out, in the unit of the user."""

    places: IntArray  # (n,), among the distinct rows of the problem
    raw: FloatArray  # (n, K), with offset: mean of the bags that held the row out
    offset: FloatArray  # (n,)
    y: FloatArray  # (n, K); of classes, indicators of each class or of the second of two
    weights: FloatArray  # (n,), of sum one


def held_out_rows(problem: Problem, solution: Solution, model: AnovaModel) -> HeldOutRows | None:
    """Held-out predictions of up to ``MOST_ROWS`` rows; None where no bag held out a whole row.

    Balancing has moved the intercept of the model after the bags were averaged: the same shift is
    added here. A row that is divided between the two sides of a bag is not held out.
    """
    rows = problem.rows
    is_out: BoolArray = (rows.validation > 0) & (rows.training == 0)
    places = np.flatnonzero(is_out.any(1))
    places = places[:: -(-len(places) // MOST_ROWS) or 1]
    if not len(places):
        return None
    constants = problem.by_output(solution.intercepts)  # (n_bags, K)
    moved = model.intercepts - (problem.shift + problem.scale * constants.mean(0))
    chosen = problem.distinct.rows[places]
    scores = _held_out_means(problem, solution, chosen, is_out[places])
    if solution.remainder is not None:
        rest = problem.by_output(solution.remainder[places].astype(np.float64))  # (n, n_bags, K)
        scores += rest.mean(1, where=is_out[places][..., None])
    offset = problem.targets.offset[chosen]
    mass = problem.distinct.masses[places]
    return HeldOutRows(
        places=places,
        raw=problem.shift + problem.scale * scores + moved + offset[:, None],
        offset=offset,
        y=problem.targets.y[chosen],
        weights=mass / mass.sum(),
    )


def _held_out_means(
    problem: Problem, solution: Solution, rows: IntArray, is_out: BoolArray
) -> FloatArray:
    """Raw scores (n, K) of rows on the training scale, mean of the bags that hold out.

    Offsets and the remainder are left out.
    """
    columns = training_columns(problem, solution.components, rows)
    constants = problem.by_output(solution.intercepts)  # (n_bags, K)
    n_bags, n_outputs = constants.shape
    total = np.zeros((len(rows), n_outputs))
    by_bag: list[list[FlatTable]] = [[] for _ in range(n_bags)]
    for component, table in zip(solution.components, solution.tables, strict=True):
        lanes = problem.by_bag(component, table)  # (..., n_bags, K)
        flat = flatten_table(component, lanes.reshape(*lanes.shape[:-2], n_bags * n_outputs))
        for bag, tables in enumerate(by_bag):
            tables += flat[bag * n_outputs : (bag + 1) * n_outputs]
    for bag, tables in enumerate(by_bag):
        here = is_out[:, bag]
        if here.any():
            held_out = [column[here] if len(column) else column for column in columns]
            total[here] += interpolated(problem.encoder, tables, constants[bag], held_out)
    return np.asarray(total / is_out.sum(1, keepdims=True))


MOST_SCORES, MOST_GROUP_SCORES = 1000, 100  # kept for all rows, and for each group
MOST_GROUPS = 50  # values of a feature by which rows are grouped
FEWEST_ROWS_PER_GROUP = 10  # held-out rows, on average
MOST_SCALE_FEATURES = 30
SMALLEST_ERROR = 1e-300


def calibrated(
    model: AnovaModel,  # without features that it does not use
    problem: Problem,
    solution: Solution,
    errors: RowErrors | None,  # of the raw scores of some rows
) -> AnovaModel:
    """Add to a model what held-out rows say about its predictions, and how sure these are."""
    with ONE_BLAS_THREAD:
        is_wanted = problem.objective.has_intervals
        rows = held_out_rows(problem, solution, model) if is_wanted else None
        if rows is not None and not np.isfinite(rows.raw).all():
            rows = None
        calibration = Calibration() if rows is None else _calibration(model, problem, rows)
        scale = None if errors is None else _error_scale(model, problem, solution, errors)
        evidence = replace(model.evidence, calibration=replace(calibration, errors=scale))
        return replace(model, evidence=evidence)


def _calibration(model: AnovaModel, problem: Problem, rows: HeldOutRows) -> Calibration:
    means, scale = model.link.inverse(rows.raw), None
    if model.task.kind == "classes":
        scores = 1 - _shares_of_classes(means, rows.y)
    else:
        residuals = rows.y - means
        nodes = ScaleNodes.of(model, problem, rows.places)
        at_rows, scale = nodes.fitted(residual_scale, rows.raw, residuals, rows.weights)
        scores = np.abs(residuals) / at_rows
    return Calibration(
        scores=kept_scores(scores, rows.weights, MOST_SCORES),
        groups=(*_groups(model, problem, rows, scores), *_classes(model, rows, scores)),
        scale=scale,
        reliability=model.task.groups(rows.y, rows.raw, rows.offset, rows.weights),
    )


def _error_scale(
    model: AnovaModel, problem: Problem, solution: Solution, errors: RowErrors
) -> Scale:
    """Write standard errors as functions of the features and of the raw score."""
    places = np.arange(0, len(problem.distinct.rows), errors.step)
    scores = problem.raw_scores(solution, places) - problem.rows.offset[places]
    raw = problem.shift + problem.scale * problem.by_output(scores).mean(1)
    weights = problem.distinct.weights[places]
    logs = np.log(np.maximum(errors.errors, SMALLEST_ERROR))
    nodes = ScaleNodes.of(model, problem, places)
    return nodes.fitted(fit_scale, raw, logs, weights / weights.sum())[1]


def _shares_of_classes(means: FloatArray, y: FloatArray) -> FloatArray:
    """Probability of the class of each row, (n, 1)."""
    if means.shape[1] == 1:
        return np.where(y > 0, means, 1 - means)
    shares: FloatArray = (means * y).sum(1, keepdims=True)
    return shares


def kept_scores(scores: FloatArray, weights: FloatArray, most: int) -> Float32Array:
    """Scores (n, K) at the ranks 1, ..., m of m + 1, where m is at most ``most``.

    If weights are unequal, m is the effective number of rows (Kish).
    """
    effective = weights.sum() ** 2 / (weights @ weights)
    count = min(int(round(effective, 6)), most)
    levels = np.arange(1, count + 1) / (count + 1)
    quantiles = [weighted_quantiles(column, weights, levels) for column in scores.T]
    return np.column_stack(quantiles).astype(np.float32)


def _places(model: AnovaModel, problem: Problem) -> list[int]:
    """Feature of the problem for each feature of the model."""
    names = list(problem.encoder.feature_names)
    return [names.index(name) for name in model.feature_names]


@dataclass(frozen=True, eq=False)
class ScaleNodes:
    """Features that a scale may depend on, with their axes and the nodes of some rows."""

    features: list[int]
    axes: list[Axis]
    codes: list[CodeArray]

    @classmethod
    def of(cls, model: AnovaModel, problem: Problem, places: IntArray) -> ScaleNodes:
        """Features of a model on the given distinct rows."""
        features, numbers = _scale_features(model), _places(model, problem)
        return cls(
            features,
            [model.encoder.axes[1][feature] for feature in features],
            [problem.codes.cells((numbers[j],), places)[0] for j in features],
        )

    def fitted(
        self,
        fit: Callable[..., FittedScale],
        raw: FloatArray,
        values: FloatArray,
        weights: FloatArray,
    ) -> tuple[FloatArray, Scale]:
        """Fit the scale of values (n, K); return it at the rows, (n, K), and as functions."""
        pairs = zip(raw.T, values.T, strict=True)
        fits = [fit(self.axes, self.codes, *pair, weights) for pair in pairs]
        n_knots = max(len(one.knots) for one in fits)
        each = zip(*(one.tables for one in fits), strict=True)
        return np.column_stack([one.at_rows for one in fits]), Scale(
            features=tuple(self.features),
            tables=tuple(np.stack(tables, -1) for tables in each),
            knots=np.stack([_filled(one.knots, n_knots) for one in fits], -1),
            heights=np.stack([_filled(one.heights, n_knots) for one in fits], -1),
        )


def _filled(values: FloatArray, size: int) -> FloatArray:
    """Repeat the last value up to a size."""
    return np.append(values, np.full(size - len(values), values[-1]))


def _scale_features(model: AnovaModel) -> list[int]:
    """Features of the largest effects, at most ``MOST_SCALE_FEATURES``, in order."""
    sizes, unit = np.zeros(model.encoder.n_features), unit_of(*model.tables)
    for component, table in tables_by_component(model).items():
        for feature in component:
            sizes[feature] += np.abs(table / unit).mean()  # sums of huge numbers overflow
    largest = np.argsort(-sizes, kind="stable")[:MOST_SCALE_FEATURES]
    return sorted(int(feature) for feature in largest if sizes[feature] > 0)


def _groups(
    model: AnovaModel, problem: Problem, rows: HeldOutRows, scores: FloatArray
) -> tuple[GroupScores, ...]:
    """Scores at each value of the features that have few values."""
    groups = []
    for feature, place in enumerate(_places(model, problem)):
        axis = model.encoder.axes[1][feature]
        most = min(MOST_GROUPS, len(rows.places) // FEWEST_ROWS_PER_GROUP)
        if axis.n_nodes > most or not _are_nodes(problem, place, rows):
            continue
        nodes = problem.codes.cells((place,), rows.places)[0]
        for node in np.unique(nodes).tolist():
            here = nodes == node
            kept = kept_scores(scores[here], rows.weights[here], MOST_GROUP_SCORES)
            groups.append(GroupScores(feature, node, kept))
    return tuple(groups)


def _classes(model: AnovaModel, rows: HeldOutRows, scores: FloatArray) -> Iterator[GroupScores]:
    """Scores of the rows of each class, where some were held out."""
    if model.task.kind == "classes":
        classes = rows.y[:, 0] > 0 if rows.y.shape[1] == 1 else rows.y.argmax(1)
        for number in np.unique(classes).tolist():
            here = classes == number
            kept = kept_scores(scores[here], rows.weights[here], MOST_SCORES)
            yield GroupScores(OF_CLASS, int(number), kept)


def _are_nodes(problem: Problem, feature: int, rows: HeldOutRows) -> bool:
    """Whether every value of a feature has a node of its own."""
    axis = problem.encoder.axes[1][feature]
    if axis.groups is not None:
        return True
    x = training_columns(problem, [(feature,)], problem.distinct.rows[rows.places])[feature]
    return bool((np.isnan(x) | np.isin(x, axis.values)).all())
