"""Calibration: what held-out rows say about the predictions of a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tpnn._utils.arrays import CodeArray, Float32Array, FloatArray, IntArray
from tpnn._utils.threads import ONE_BLAS_THREAD
from tpnn.loss.objectives import weighted_quantiles
from tpnn.model.evidence import Calibration, GroupScores, Scale
from tpnn.model.model import AnovaModel
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.problem.row_scores import training_columns
from tpnn.solvers.solution import Solution
from tpnn.table.axis import Axis
from tpnn.uncertainty.calibration_rows import HeldOutRows, held_out_rows
from tpnn.uncertainty.joint import RowErrors
from tpnn.uncertainty.scale import FittedScale, fit_scale, residual_scale

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
        groups=_groups(model, problem, rows, scores),
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
    sizes = np.zeros(model.encoder.n_features)
    for component, table in model.by_component().items():
        for feature in component:
            sizes[feature] += np.abs(table).mean()
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


def _are_nodes(problem: Problem, feature: int, rows: HeldOutRows) -> bool:
    """Whether every value of a feature has a node of its own."""
    axis = problem.encoder.axes[1][feature]
    if axis.groups is not None:
        return True
    x = training_columns(problem, [(feature,)], problem.distinct.rows[rows.places])[feature]
    return bool((np.isnan(x) | np.isin(x, axis.values)).all())
