"""Intervals of predictions and standard errors: how sure a model is about a row.

``AnovaModel`` has ``predict_interval`` and ``standard_errors`` as methods.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray, RealArray
from tpnn._utils.rules import SHARE, check_parameters
from tpnn.anova.components import Component, resolve_feature
from tpnn.anova.measure import product_mean
from tpnn.model.evidence import OF_CLASS, Calibration, Scale
from tpnn.model.flat import flatten_tables
from tpnn.model.interpolate import Predictor
from tpnn.table.table import PERIODIC, Table

if TYPE_CHECKING:
    from tpnn.model.model import AnovaModel

ONE_LESS_ROUNDING = 1 - 1e-9
LARGEST_ERROR = 1e300  # which stands for larger ones
BY_CLASS = "class"  # unless a feature has this name


def predict_interval(
    model: AnovaModel, X: Any, coverage: float = 0.9, by: Any = None, offset: Any = None
) -> Any:
    """Intervals that hold the targets of a share ``coverage`` of new rows, or sets of classes.

    They are calibrated on rows that bags held out, so they need no further fit. The share holds
    on average over rows like those of the fit, whatever the noise; with ``by`` it holds within
    each group, too.

    Parameters
    ----------
    X : table
        Rows.
    coverage : float, default=0.9
        Share of the targets that lie inside, between 0 and 1.
    by : str or int, optional
        A feature with few values, by name or position, each value of which is a group; or
        "class", for sets that hold the class of a share ``coverage`` of the rows of each class.
    offset : array of shape (n_rows,), optional
        Known part of the raw score, as in ``predict``.

    Returns
    -------
    pair of arrays of shape (n_rows,) or (n_rows, n_outputs)
        Lower and upper ends, in the unit of the target; where the link is the logarithm, never
        below 0. Of several targets, each has its own interval. Or, for a classifier,
    array of bool, shape (n_rows, n_classes)
        Which classes are in the set of each row. The most probable one always is.
    """
    check_coverage(coverage)
    calibration = _needed(model.evidence.calibration)
    table = model.encoder.read(X)
    factors = _factors(model, calibration, table, coverage, by)
    if calibration.scale is None:
        shares = model.task.shares(model.raw_scores(table, offset))
        return (shares >= 1 - factors) | (shares == shares.max(1, keepdims=True))
    raw = model.raw_scores(table, offset)
    reach = factors * scale_at(model, calibration.scale, table, raw.reshape(len(raw), -1))
    reach, means = reach.reshape(raw.shape), model.link.inverse(raw)
    lower, upper = means - reach, means + reach
    return (lower.clip(0.0) if model.link.kind == "rates" else lower), upper


def standard_errors(model: AnovaModel, X: Any) -> FloatArray:
    """Return the standard error of the raw score of each row, shape (n_rows[, n_outputs]).

    It is that of the joint posterior of all components, whose errors partly cancel, and of the
    remainder as the bags differ in it: an additive model of its logarithm, fitted to that of
    training rows. An offset is known without error. Beyond the outer nodes it grows with the
    distance.
    """
    calibration = model.evidence.calibration
    if calibration is None or calibration.errors is None:
        raise ValueError(
            "return_std: this model has no bands. It was fitted with bands=False, or changed after "
            "its fit. Fit again."
        )
    table = model.encoder.read(X)
    raw = model._raw(_columns(model, table))
    errors = scale_at(model, calibration.errors, table, raw.T)
    errors = np.hypot(errors, errors_beyond(model, _columns(model, table)))
    return errors[:, 0] if len(model.intercepts) == 1 else errors


def errors_beyond(model: AnovaModel, columns: Sequence[FloatArray]) -> FloatArray:
    """Errors (n_rows, n_outputs) of taking components as constant beyond the outer nodes.

    At a distance of t standard deviations of a feature, f may have gone on as it goes inside: by t
    standard deviations of the components with this feature. For a straight line that is the truth.
    """
    errors = np.zeros((len(columns[0]) if columns else 1, len(model.intercepts)))
    size = max((np.abs(table).max() for table in model.tables), default=0.0) or 1.0
    with np.errstate(over="ignore", divide="ignore"):
        for j, (axis, column) in enumerate(zip(model.encoder.axes[1], columns, strict=True)):
            if not axis.has_steps or axis.kind == PERIODIC:
                continue
            inside = np.clip(column, axis.values[0], axis.values[-1])
            distances = np.where(np.isfinite(column), np.abs(column - inside), 0.0)
            if distances.any():
                masses = axis.weights[axis.regular] / axis.weights[axis.regular].sum()
                unit = np.abs(axis.values).max()  # squares of huge values must not overflow
                steps = axis.values / unit
                deviation = np.sqrt(masses @ (steps - masses @ steps) ** 2)
                variances = sum(
                    product_mean(
                        (table / size) ** 2, [axis.weights for axis in model.axes(component)]
                    )
                    for component, table in zip(model.components, model.tables, strict=True)
                    if j in component
                )
                far = np.divide(distances / unit, deviation, where=distances > 0, out=distances)
                far = np.minimum(far, LARGEST_ERROR)[:, None]
                errors = np.hypot(errors, far * (size * np.sqrt(variances)))
    return np.minimum(errors, LARGEST_ERROR)


def means_with_errors(
    model: AnovaModel, X: Any, offset: Any = None
) -> tuple[FloatArray, FloatArray]:
    """Return what ``predict`` returns, and the standard error of each; rows are scored once."""
    table = model.encoder.read(X)
    errors, raw = model.standard_errors(table), model.raw_scores(table, offset)
    means = model.link.inverse(raw)
    return means, model.link.errors_of_means(means, raw, errors)


def scale_at(model: AnovaModel, scale: Scale, table: Table, raw: FloatArray) -> FloatArray:
    """Scale of rows with raw scores (n_rows, n_outputs), of that shape."""
    logs = np.empty((len(model.intercepts), table.n_rows))
    for output, column in enumerate(raw.T):
        logs[output] = np.interp(column, scale.knots[:, output], scale.heights[:, output])
    effects: dict[Component, FloatArray] = {
        (j,): effect for j, effect in zip(scale.features, scale.tables, strict=True)
    }
    Predictor(model.encoder.axes, flatten_tables(effects)).add(_columns(model, table), logs)
    return np.exp(logs.T)


def _columns(model: AnovaModel, table: Table) -> list[FloatArray]:
    """Columns as numbers; raw scores warn of values that fit has not seen, once is enough."""
    return [model.encoder.numbers(table, j) for j in range(model.encoder.n_features)]


def check_coverage(coverage: Any, name: str = "coverage") -> None:
    """Refuse a coverage, or another argument of this name, that is no share between 0 and 1."""
    check_parameters({name: coverage}, {name: SHARE._replace(example=0.9)})


def _needed(calibration: Calibration | None) -> Calibration:
    if calibration is None or not len(calibration.scores):
        raise ValueError(
            "predict_interval: this model was not calibrated on held-out rows. It is one of "
            "quantiles, survival or a custom loss, had a handful of rows, was fitted with "
            "bands=False, or changed after its fit. Fit again, with the objective of a mean and "
            "more rows."
        )
    return calibration


def _factors(
    model: AnovaModel, calibration: Calibration, table: Table, coverage: float, by: Any
) -> FloatArray:
    """Score that a share ``coverage`` of rows do not exceed, (1, n_outputs) or (n_rows, ...)."""
    if by is None:
        return score_at(calibration.scores, coverage, "")[None]
    if by == BY_CLASS and model.classes and by not in model.feature_names:
        return _class_factors(calibration, model.classes, coverage)
    feature = resolve_feature(by, model.feature_names, "by")
    name, scores = model.feature_names[feature], calibration.group_of(feature)
    if not scores:
        names = [model.feature_names[j] for j in calibration.group_features]
        raise ValueError(
            f"by: must be a feature with few values, each of which is a group, found {name!r}. "
            f"Such features of this model are {names[:10]}."
        )
    nodes = _group_nodes(model, table, feature)
    present = np.unique(nodes)
    unseen = [node for node in present.tolist() if node not in scores]
    if unseen:
        n_rows = int(np.isin(nodes, unseen).sum())
        raise ValueError(
            f"by: {n_rows} of {len(nodes)} rows have values of {name!r} that no held-out row had, "
            "so their groups are not calibrated. Leave out those rows, or by."
        )
    each = [score_at(scores[node], coverage, f" in every group of {name!r}") for node in present]
    return np.stack(each)[np.searchsorted(present, nodes)]


def _class_factors(calibration: Calibration, classes: Sequence[Any], coverage: float) -> FloatArray:
    """Score that a share ``coverage`` of the rows of each class do not exceed, (1, n_classes)."""
    scores, none = calibration.group_of(OF_CLASS), np.empty((0, 1))
    each = [
        score_at(scores.get(number, none), coverage, f" of class {name!r}")
        for number, name in enumerate(classes)
    ]
    return np.concatenate(each)[None]


def score_at(scores: RealArray, coverage: float, where: str) -> FloatArray:
    """Smallest of sorted scores (n, K) whose rank among n + 1 is a share of at least ``coverage``.

    >>> score_at(np.array([[1.0], [2.0], [3.0]]), 0.75, "")
    array([3.])
    """
    rank = int(np.ceil(round(float(coverage) * (len(scores) + 1), 9)))
    if rank > len(scores):
        needed = int(np.ceil(coverage / (1 - coverage) * ONE_LESS_ROUNDING))
        raise ValueError(
            f"coverage: {float(coverage):g} needs at least {needed} held-out rows{where}, found "
            f"{len(scores)}. Lower it, or fit more rows."
        )
    return np.asarray(scores[rank - 1], np.float64)


def _group_nodes(model: AnovaModel, table: Table, feature: int) -> IntArray:
    """Node of each row's value (n_rows,), M where no node has it."""
    axis, x = model.encoder.axes[1][feature], model.encoder.numbers(table, feature)
    nodes, _ = axis.locate(x)
    if axis.groups is None:
        nodes[np.isfinite(x) & ~np.isin(x, axis.values)] = axis.n_nodes
    return nodes
