"""merge and tariff: the mean, or the product, of several models on nodes and masses of all of them.

A feature gets the nodes of all models that have it, and their masses in proportion to weights. The
components of a model are zero for values that its fit has not seen. Other masses shift these zeros,
so every feature gets nodes for missing values and unseen levels, if need be without mass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any

import numpy as np

from tpnn import __version__
from tpnn._utils.arrays import FloatArray, IntArray
from tpnn._utils.rules import POSITIVE, check_parameters
from tpnn.anova.components import Component
from tpnn.export.sheets.rating import RatingTables
from tpnn.export.sheets.scorecard import ScoreCard
from tpnn.lifecycle.foreign.purified import purified, purify, sum_of_grids
from tpnn.lifecycle.foreign.table_sum import level_axis, sum_of_bands
from tpnn.model.edit_log import Note, check_log, digest, extended
from tpnn.model.evidence import Baseline, Evidence
from tpnn.model.model import AnovaModel, EditLog, beside_trees
from tpnn.model.predicting import Predicts
from tpnn.model.regrid import lifted_tables, lifted_trees, own_numbers, sum_of_trees
from tpnn.table.axis import OTHERS, Axis, make_axis
from tpnn.table.encoder import Feature, KeptFeatures, TableEncoder, level_text
from tpnn.table.table import NOMINAL, NUMBER, ORDERED, PERIODIC, OffsetColumn


@dataclass(frozen=True)
class Share:
    """One feature as one model knows it."""

    feature: Feature
    axes: Mapping[int, Axis]  # by order
    weight: float  # how much the masses of this model count

    @property
    def finest(self) -> Axis:
        """Nodes of main effects."""
        return self.axes[min(self.axes)]


def common_encoder(encoders: Sequence[TableEncoder], weights: Sequence[float]) -> TableEncoder:
    """Features, nodes and masses of all models together.

    Features are the same if they have the same name or, in models of tables without names, the same
    position. The weights say how much the masses of each model count.
    """
    _check_names(encoders)
    names = list(dict.fromkeys(name for encoder in encoders for name in encoder.feature_names))
    first = encoders[0]
    if first.names is None:
        names.sort(key=lambda name: int(name[1:]))
    orders = range(1, max(max(encoder.axes) for encoder in encoders) + 1)
    common = [_common_feature(name, _shares(name, encoders, weights), orders) for name in names]
    labels = {encoder.labels for encoder in encoders}
    return TableEncoder(
        names=None if first.names is None else tuple(names),
        axes={order: tuple(axes[order] for _, axes in common) for order in orders},
        features=tuple(feature for feature, _ in common),
        offset_column=_common_offset(encoders, len(names)),
        labels=labels.pop() if len(labels) == 1 else None,
        kept=None if first.names is not None else _kept(names, first),
    )


def _check_names(encoders: Sequence[TableEncoder]) -> None:
    """Refuse models whose features cannot be matched."""
    named = {encoder.names is not None for encoder in encoders}
    widths = {encoder.n_columns for encoder in encoders if encoder.names is None}
    if len(named) > 1 or len(widths) > 1:
        found = sorted(widths) if len(named) == 1 else "names in some models and none in others"
        raise ValueError(
            "models: features are matched by name or, without names, by their position in tables "
            f"with the same number of columns, found {found}. Fit all models on tables with names."
        )


def _kept(names: Sequence[str], first: TableEncoder) -> KeptFeatures | None:
    """Positions of the features among those of the table, where some are left out."""
    offset = first.offset_column
    columns = [p for p in range(first.n_columns) if offset is None or p != offset.place]
    places = tuple(columns.index(int(name[1:])) for name in names)
    return None if len(places) == len(columns) else KeptFeatures(places, len(columns))


def _common_offset(encoders: Sequence[TableEncoder], n_features: int) -> OffsetColumn | None:
    """Column that is the offset; where columns have names it comes last."""
    found = [encoder.offset_column for encoder in encoders]
    kinds = {None if c is None else (c.name or c.place, c.is_exposure) for c in found}
    if len(kinds) > 1:
        words = ["none" if column is None else column.words for column in found]
        raise ValueError(
            f"models: all must have the same column as offset or exposure, found {words}. "
            "Fit them with the same one."
        )
    first = found[0]
    if first is None or first.name is None:
        return first
    return first._replace(place=n_features)


def _shares(name: str, encoders: Sequence[TableEncoder], weights: Sequence[float]) -> list[Share]:
    """One feature in all models that have it."""
    shares = []
    for encoder, weight in zip(encoders, weights, strict=True):
        if name in encoder.feature_names:
            number = encoder.feature_names.index(name)
            axes = {order: axes[number] for order, axes in encoder.axes.items()}
            shares.append(Share(encoder.features[number], axes, weight))
    return shares


def _common_feature(
    name: str, shares: Sequence[Share], orders: Sequence[int]
) -> tuple[Feature, dict[int, Axis]]:
    # a feature of which a fit saw missing values alone has no kind
    with_values = [share for share in shares if not share.finest.is_empty]
    kinds = {share.feature.kind for share in with_values}
    if len(kinds) > 1:
        raise ValueError(
            f"models: a feature must be of one kind in all of them, found {sorted(kinds)} for "
            f"{name!r}. Convert the column, and fit the models again."
        )
    kind = kinds.pop() if kinds else NUMBER
    periods = {share.finest.values[-1] for share in with_values if kind == PERIODIC}
    if len(periods) > 1:
        raise ValueError(
            f"models: a periodic feature must have one period in all of them, found "
            f"{sorted(periods)} for {name!r}. Fit the models again with one period."
        )
    missing = sum(s.weight * s.finest.weights[s.finest.missing].sum() for s in shares)
    if kind in (NOMINAL, ORDERED):
        return _common_levels(name, kind, shares, orders, missing)
    ends = [end for share in shares for end in share.feature.ends]
    feature = Feature(kind, ends=(min(ends), max(ends)) if ends else ())
    return feature, _common_numbers(kind, shares, orders, missing)


def _common_numbers(
    kind: str, shares: Sequence[Share], orders: Sequence[int], missing: float
) -> dict[int, Axis]:
    """Axis of every order; the nodes of an order are nodes of every lower one."""
    nodes: dict[int, FloatArray] = {}
    union = np.empty(0)
    for order in reversed(orders):
        axes = [share.axes[order] for share in shares if order in share.axes]
        union = np.unique(np.concatenate([union, *(a.values for a in axes)]))
        nodes[order] = union
    nodes = {order: values if len(values) else union[:1] for order, values in nodes.items()}
    masses = np.zeros(len(union))
    for share in shares:
        axis = share.finest
        masses[np.searchsorted(union, axis.values)] += share.weight * axis.weights[axis.regular]
    values, shared = np.append(union, np.nan), np.append(masses, missing)
    return {order: make_axis(values, shared, nodes[order], kind) for order in orders}


def _common_levels(
    name: str, kind: str, shares: Sequence[Share], orders: Sequence[int], missing: float
) -> tuple[Feature, dict[int, Axis]]:
    are_text = any(share.feature.are_text for share in shares)
    levels = _union_of_levels(name, kind, shares, are_text)
    feature = Feature(kind, levels, are_text)
    weighted = (share.weight * _level_masses(share, feature) for share in shares)
    masses = sum(weighted, np.zeros(len(levels)))
    axes = {}
    for order in orders:
        groups = np.arange(len(levels))
        if kind == NOMINAL:
            groups = _joint_groups(feature, [s for s in shares if order in s.axes], order, masses)
        weights = np.concatenate([np.bincount(groups, masses), [0.0, missing]])
        labels, of_nodes = tuple(_group_labels(feature, groups)), weights / weights.sum()
        axes[order] = level_axis(labels, of_nodes, is_open=True, kind=kind, groups=groups)
    return feature, axes


def _union_of_levels(
    name: str, kind: str, shares: Sequence[Share], are_text: bool
) -> tuple[Any, ...]:
    """Levels of all models, in an order that agrees with that of each model."""
    lists = []
    for levels in (share.feature.levels for share in shares):
        spelt = tuple(map(level_text, levels)) if are_text else levels
        if len(set(spelt)) < len(levels):
            raise ValueError(
                f"models: levels of {name!r} are compared as text, because those of an EBM are "
                f"text, and some of {list(levels)[:5]} are the same text. Rename them."
            )
        lists.append(spelt)
    union = dict.fromkeys(level for levels in lists for level in levels)
    if kind == NOMINAL:
        return tuple(sorted(union, key=lambda level: (isinstance(level, str), level)))
    graph: TopologicalSorter[Any] = TopologicalSorter(dict.fromkeys(union, ()))
    for below, above in (pair for levels in lists for pair in pairwise(levels)):
        graph.add(above, below)
    try:
        return tuple(graph.static_order())
    except CycleError as error:
        raise ValueError(
            f"models: the models order the levels {list(error.args[1])[:3]} of {name!r} "
            "differently. Give the column one order."
        ) from None


def _level_masses(share: Share, feature: Feature) -> FloatArray:
    """Mass of each of the common levels in one model; levels of one node share its mass."""
    nodes, _ = share.finest.locate(own_numbers(share.feature, feature.levels, feature.are_text))
    padded = np.append(share.finest.weights, 0.0)
    padded[share.finest.unseen] = 0.0  # of an EBM, it belongs to no level
    return padded[nodes] / np.bincount(nodes, minlength=len(padded))[nodes]


def _joint_groups(
    feature: Feature, shares: Sequence[Share], order: int, masses: FloatArray
) -> IntArray:
    """Node of each level: two levels share one where they do in every model, heaviest first."""
    nodes = [np.zeros(len(feature.levels), np.intp)] + [
        share.axes[order].locate(own_numbers(share.feature, feature.levels, feature.are_text))[0]
        for share in shares
    ]
    _, groups = np.unique(np.column_stack(nodes), axis=0, return_inverse=True)
    heavy = np.argsort(-np.bincount(groups.ravel(), masses), kind="stable")
    return np.argsort(heavy)[groups.ravel()]


def _group_labels(feature: Feature, groups: IntArray) -> list[Any]:
    """Label of each node: its level, or that it holds several."""
    labels: list[Any] = []
    for node in range(int(groups.max()) + 1):
        members = np.flatnonzero(groups == node)
        others = sum(isinstance(label, str) and label.startswith(OTHERS) for label in labels)
        several = OTHERS if not others else f"{OTHERS} {others + 1}"
        labels.append(feature.levels[members[0]] if len(members) == 1 else several)
    return labels


def merge(models: Sequence[Any], weights: Sequence[float] | None = None) -> AnovaModel:
    """Weighted mean of models, f = sum_k w_k f_k, as one model with unique components.

    The mean is that of the raw scores, on every row, also where values are missing or levels
    unseen. Each model may have features, nodes and levels that others do not have: it gets the
    columns that it knows. The mean of the trees of their remainders is that of the merged model.
    Components average to zero under the pooled masses, the mean of the
    masses of the models that have the feature. Where the models were fitted on different rows, such
    as those of several hospitals, numbers of rows as weights give federated averaging.

    The merged model has nodes for missing values and unseen levels, so it does not warn of them. It
    has no bands, and no shape is promised: ask its ``certificate``. The baseline
    of survival models is the weighted mean of their log cumulative hazards, from the time on at
    which all of them have events. If a model was edited, the log of the merged one begins with the
    logs of all.

    Parameters
    ----------
    models : sequence of AnovaModel, fitted estimators or fitted EBMs
        At least one, all with the same link, outputs and classes.
    weights : sequence of float, optional
        Positive, in any unit; by default all models count the same.

    Examples
    --------
    >>> north = purify({"a": [-1.0, 1.0]}, nodes={"a": [0, 1]})
    >>> south = purify({"b": [-4.0, 4.0]}, nodes={"b": [0, 1]})
    >>> both = merge([north, south], weights=[3, 1])
    >>> both.raw_scores({"a": 1, "b": 1})
    array([1.75])
    """
    frozen = [as_model(model) for model in models]
    check_alike(frozen)
    try:
        masses = np.ones(len(frozen)) if weights is None else np.asarray(weights, np.float64)
    except (TypeError, ValueError):  # texts, or lists of several lengths
        masses = np.empty(0)
    if masses.shape != (len(frozen),) or not (np.isfinite(masses) & (masses > 0)).all():
        raise ValueError(
            f"weights: one positive number is needed for each of {len(frozen)} models, found "
            f"{weights!r:.200}. Pass numbers of rows, or leave the argument out."
        )
    shares = list(masses / masses.sum())
    encoder = common_encoder([model.encoder for model in frozen], shares)
    pure = weighted_sum(frozen, shares, encoder)
    baseline = _mean_baseline([model.evidence.baseline for model in frozen], shares)
    merged = replace(
        pure,
        has_offset=any(model.has_offset for model in frozen),
        evidence=Evidence(baseline=baseline),
    )
    return replace(merged, edits=_log(merged, frozen, shares))


def _log(
    merged: AnovaModel, models: Sequence[AnovaModel], shares: Sequence[float]
) -> EditLog | None:
    """Log whose first record has the logs of all models; None if no model was edited."""
    logs = [[] if model.edits is None else list(model.edits.records) for model in models]
    if not any(logs):
        return None
    for model in models:
        check_log(model)
    parts = [
        {"model": digest(model), "share": float(share), "edits": log}
        for model, share, log in zip(models, shares, logs, strict=True)
    ]
    intercepts = merged.intercepts.tolist()
    record = {
        "edit": {"merge": parts},
        **Note().as_dict(),
        "version": __version__,
        "changed": {"intercept": [intercepts] * 2}
        | {key: [] for key in ("components", "removed", "shapes_lost")},
        "effect": None,
        "before": "",
        "after": digest(merged),
    }
    return EditLog(extended((), record))


def as_model(model: Any) -> AnovaModel:
    """Frozen model of an estimator, a loaded model, an EBM, a tariff or a card, or the model."""
    if isinstance(model, AnovaModel):
        return model
    if isinstance(model, RatingTables):
        return purified(sum_of_bands(model.banded))
    if isinstance(model, ScoreCard):
        return purified(sum_of_bands(model.in_log_odds))
    if isinstance(getattr(model, "model_", None), AnovaModel):
        return model.model_  # type: ignore[no-any-return]
    if isinstance(model, Predicts):
        model._check_fitted()  # which it is not
    return purify(model)


def check_alike(models: Sequence[AnovaModel]) -> None:
    """Refuse no models at all, and models whose raw scores mean different things."""
    if not models:
        raise ValueError("models: the list is empty. Pass at least one model.")
    first = models[0]
    for model in models[1:]:
        for what, one, other in (
            ("link", first.link.name, model.link.name),
            ("classes", first.classes, model.classes),
            ("outputs", first.output_names, model.output_names),
        ):
            if one != other:
                raise ValueError(
                    f"models: all must have the same {what}, because their raw scores are compared "
                    f"or averaged, found {one!r} and {other!r}. Fit them for the same task."
                )


def weighted_sum(
    models: Sequence[AnovaModel], weights: Sequence[float], encoder: TableEncoder
) -> AnovaModel:
    """Sum of raw scores times weights, as one model on common nodes."""
    grids: dict[Component, FloatArray] = {}
    intercepts = np.zeros(len(models[0].intercepts))
    for model, weight in zip(models, weights, strict=True):
        constants, tables = beside_trees(model)
        for component, grid in lifted_tables(model, tables, encoder).items():
            grids[component] = grids.get(component, 0.0) + weight * grid
        intercepts += weight * constants
    trees = sum_of_trees(list(zip(weights, lifted_trees(models, encoder), strict=True)))
    return purified(sum_of_grids(models[0], encoder, grids, intercepts, trees))


def _mean_baseline(
    baselines: Sequence[Baseline | None], shares: Sequence[float]
) -> Baseline | None:
    """Weighted mean of log cumulative hazards, from the last of the first events on."""
    known = [baseline for baseline in baselines if baseline is not None]
    if len(known) < len(baselines) or any(baseline.strata for baseline in known):
        return None
    every = np.unique(np.concatenate([baseline.times for baseline in known]))
    times = every[every >= max(baseline.times[0] for baseline in known)]
    logs = np.zeros(len(times))
    for baseline, share in zip(known, shares, strict=True):
        steps = np.searchsorted(baseline.times, times, side="right") - 1
        logs += share * baseline.log_hazard[steps]
    return Baseline(times, np.maximum.accumulate(logs))


# Policies define the masses; a feature that only the claims have keeps those of the claims.
MASSES = (1.0, 1e-12)


def tariff(frequency: Any, severity: Any, *, loading: float = 1.0) -> AnovaModel:
    """Multiply a model of claim numbers by a model of claim sizes.

    Logarithms add up, so the product is again a model with unique components: on every row its
    prediction is the one of ``frequency``, times that of ``severity``, times ``loading``. Its
    components average to zero under the masses of the policies that ``frequency`` was fitted to. It
    explains, exports and becomes rating tables like any other model. It has no bands.

    Parameters
    ----------
    frequency : AnovaModel, fitted estimator or loaded model
        Claims per row or per unit of exposure, with a log link. Its exposure is that of the tariff.
    severity : AnovaModel, fitted estimator or loaded model
        Mean size of a claim, with a log link and without exposure.
    loading : float, default=1.0
        Factor for what neither model knows, such as large losses: if sizes were capped for the fit,
        all losses over all capped losses.

    Returns
    -------
    AnovaModel

    Examples
    --------
    >>> from tpnn import purify
    >>> nodes = {"age": [20, 60]}
    >>> frequency = purify({"age": np.log([0.2, 0.1])}, nodes, link="log")
    >>> severity = purify({"age": np.log([500.0, 800.0])}, nodes, link="log")
    >>> tariff(frequency, severity, loading=1.1).predict([[20], [60]]).round(6)
    array([110.,  88.])
    """
    check_parameters({"loading": loading}, {"loading": POSITIVE})
    models = {"frequency": as_model(frequency), "severity": as_model(severity)}
    for name, model in models.items():
        if model.task.kind != "rates" or len(model.intercepts) > 1:
            raise ValueError(
                f"{name}: must be a model of one rate or amount with a log link, found the "
                f"{model.link.name} link and {len(model.intercepts)} outputs. Fit with "
                "objective='poisson' or 'gamma', for example."
            )
    claims, sizes = models.values()
    if sizes.has_offset or sizes.encoder.offset_column is not None:
        raise ValueError(
            "severity: the size of a claim has no exposure, and this model was fitted with an "
            "offset. Fit it without, with the numbers of claims as sample_weight."
        )
    column = claims.encoder.offset_column
    bare = [replace(m, encoder=replace(m.encoder, offset_column=None)) for m in (claims, sizes)]
    product = weighted_sum(bare, (1.0, 1.0), common_encoder([m.encoder for m in bare], MASSES))
    if column is not None:
        last = column._replace(place=product.encoder.n_features)  # features come first
        product = replace(product, encoder=replace(product.encoder, offset_column=last))
    return replace(
        product,
        intercepts=product.intercepts + np.log(loading),
        has_offset=claims.has_offset,
        evidence=Evidence(),
    )
