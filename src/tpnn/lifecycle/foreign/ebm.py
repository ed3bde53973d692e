"""Explainable boosting machines of the interpret package, read as sums of tables.

An EBM is piecewise constant. It becomes linear between nodes by putting a node on both sides of
each cut, the larger one on the cut itself, as an EBM counts a cut to the bin above it. Missing
values and unseen levels have scores in every EBM, so they have nodes, of no mass where training had
none. An EBM keeps its levels as text: 1, 1.0 and "1" are one level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.anova.components import Component
from tpnn.lifecycle.foreign.table_sum import TableSum, level_axis
from tpnn.model.codec import storable_labels
from tpnn.table.axis import Axis, make_axis
from tpnn.table.encoder import Feature, TableEncoder
from tpnn.table.table import NOMINAL, NUMBER

EBM_LINKS = {"identity": "identity", "logit": "logit", "mlogit": "softmax", "log": "log"}


def sum_of_ebm(ebm: Any) -> TableSum:
    """Read a fitted EBM."""
    if ebm.link_ not in EBM_LINKS:
        raise ValueError(
            f"model: an EBM with a link among {sorted(EBM_LINKS)} is needed, found {ebm.link_!r}. "
            "Fit it with another objective."
        )
    outputs = tuple(map(str, ebm.classes_)) if ebm.link_ == "mlogit" else ()
    encoder = _read_encoder(ebm)
    tables = dict(
        _read_term(ebm, number, encoder, bool(outputs)) for number in range(len(ebm.term_features_))
    )
    by_bag = np.reshape(ebm.bagged_intercept_, (len(ebm.bagged_scores_[0]), -1))
    intercept = np.column_stack([np.reshape(ebm.intercept_, -1), by_bag.T])
    if outputs:  # a constant over the classes changes no probability
        tables = {s: table - table.mean(-2, keepdims=True) for s, table in tables.items()}
        intercept = intercept - intercept.mean(0)
    return TableSum(
        encoder=encoder,
        tables=tables,
        intercept=intercept,
        link=EBM_LINKS[ebm.link_],
        output_names=outputs,
        classes=tuple(storable_labels(getattr(ebm, "classes_", ()))),
    )


def _read_encoder(ebm: Any) -> TableEncoder:
    """Nodes of every feature, for every order of the EBM's terms."""
    orders = range(1, max(map(len, ebm.term_features_)) + 1)
    by_feature = [_read_axes(ebm, feature, orders) for feature in range(len(ebm.bins_))]
    axes = {order: tuple(found[order] for found in by_feature) for order in orders}
    features = tuple(
        Feature(NOMINAL, (axis.levels or ())[axis.seen], are_text=True)
        if axis.is_nominal
        else Feature(NUMBER)
        for axis in axes[1]
    )
    return TableEncoder(tuple(ebm.feature_names_in_), axes, features)


def _read_term(
    ebm: Any, number: int, encoder: TableEncoder, has_outputs: bool
) -> tuple[Component, FloatArray]:
    """Component of a term, and its table (M_1, ..., M_d, n_outputs, 1 + n_bags) on the nodes."""
    term = ebm.term_features_[number]
    mean, bags = ebm.term_scores_[number], ebm.bagged_scores_[number]
    values = np.stack([mean, *bags], axis=-1)  # (bins_1, ..., bins_d[, n_outputs], 1 + n_bags)
    values = values if has_outputs else np.expand_dims(values, len(term))
    for place, feature in enumerate(term):
        bins = _bins_of(ebm, feature, len(term))
        values = values.take(_bin_of_nodes(encoder.axes[len(term)][feature], bins), axis=place)
    rest = range(len(term), values.ndim)
    return tuple(sorted(term)), values.transpose(*np.argsort(term), *rest)


def _bins_of(ebm: Any, feature: int, order: int) -> Any:
    """Cuts of a feature, or the numbers of its labels, at the resolution of an order."""
    bins = ebm.bins_[feature]
    return bins[min(order, len(bins)) - 1]


def _read_axes(ebm: Any, feature: int, orders: Sequence[int]) -> dict[int, Axis]:
    """Axis of a feature for every order; cuts of an order are cuts of all lower ones."""
    bins, masses = _bin_masses(ebm, feature)
    finest = _bins_of(ebm, feature, 1)
    if isinstance(finest, dict):
        levels = tuple(sorted(finest, key=finest.__getitem__))
        axis = level_axis(levels, np.empty(0), is_open=True)
        weights = _shared(masses, _bin_of_nodes(axis, bins))
        return dict.fromkeys(orders, replace(axis, weights=weights / weights.sum()))
    nodes: dict[int, FloatArray] = {}
    cuts = np.empty(0)
    for order in reversed(orders):
        cuts = np.union1d(cuts, _bins_of(ebm, feature, order))
        nodes[order] = np.union1d(np.nextafter(cuts, -np.inf), cuts) if len(cuts) else np.zeros(1)
    axis = Axis(nodes[1], np.empty(0), has_missing=True)
    weights = _shared(masses, _bin_of_nodes(axis, bins))
    return {order: make_axis(axis.numbers, weights, nodes[order]) for order in orders}


def _bin_masses(ebm: Any, feature: int) -> tuple[Any, FloatArray]:
    """Bins of the smallest term that has a feature, and their training mass.

    The mass of a pair is summed over its other feature. The first bin is for missing values, the
    last for unseen ones. A feature that is in no term has bins of equal mass.
    """
    terms = [number for number, term in enumerate(ebm.term_features_) if feature in term]
    if not terms:
        bins = _bins_of(ebm, feature, 1)
        inner = np.ones(len(bins) if isinstance(bins, dict) else len(bins) + 1)
        return bins, np.concatenate([[0.0], inner, [0.0]])
    smallest = min(terms, key=lambda number: len(ebm.term_features_[number]))
    term, weights = ebm.term_features_[smallest], np.asarray(ebm.bin_weights_[smallest], np.float64)
    others = tuple(axis for axis in range(len(term)) if term[axis] != feature)
    return _bins_of(ebm, feature, len(term)), weights.sum(others)


def _shared(masses: FloatArray, bins: IntArray) -> FloatArray:
    """Mass of every node, where the nodes of a bin share its mass equally."""
    return masses[bins] / np.bincount(bins)[bins]


def _bin_of_nodes(axis: Axis, bins: Any) -> IntArray:
    """Bin of an EBM's table for every node of an axis.

    The first bin is for missing values, the last for unseen ones.
    """
    if isinstance(bins, dict):
        levels = (axis.levels or ())[axis.seen]
        regular = np.array([*map(bins.__getitem__, levels), max(bins.values()) + 1], np.intp)
    else:
        regular = np.searchsorted(bins, axis.values, side="right") + 1
    return axis.with_missing(regular, 0)
