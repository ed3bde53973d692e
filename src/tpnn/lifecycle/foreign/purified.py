"""purify: models of other libraries, and tables by hand, as an AnovaModel with unique components.

Purification changes no value of the sum. It makes one pass over each table for every subset of its
features, whatever the number of rows.

An EBM is piecewise constant. It becomes linear between nodes by putting a node on both sides of
each cut, the larger one on the cut itself, as an EBM counts a cut to the bin above it. Missing
values and unseen levels have scores in every EBM, so they have nodes, of no mass where training had
none. An EBM keeps its levels as text: 1, 1.0 and "1" are one level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.anova.components import Component, ComponentSet
from tpnn.anova.measure import purify_tables
from tpnn.anova.trees import Trees
from tpnn.lifecycle.foreign.table_sum import TableSum, level_axis, sum_of_tables
from tpnn.loss.links import LINKS
from tpnn.model.codec import storable_labels
from tpnn.model.constrain import rounding_error
from tpnn.model.evidence import Evidence
from tpnn.model.model import AnovaModel, beside_trees
from tpnn.model.regrid import reweighted_trees, with_trees
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


def purify(
    model: Any,
    nodes: Mapping[str, Any] | None = None,
    X: Any = None,
    intercept: float = 0.0,
    link: str = "identity",
) -> AnovaModel:
    """Rewrite a sum of tables as the unique functional ANOVA decomposition, exactly.

    Every table f_S is split into one part for each subset of S: the features outside the subset
    are averaged out, the table is centred along those inside. The parts of a table sum to it, so
    the total function does not change, and each part averages to zero along each of its features.
    An EBM has scores for unseen levels and missing values, which stay what they are. Other models
    have none: there every component is zero, before and after.

    The spreads of an EBM are those of its bags. An AnovaModel no longer has its bags: components
    that do not change keep their spreads, all others have none. The result has no bands.

    Parameters
    ----------
    model : fitted EBM, AnovaModel, or dict from tuple of str to array of shape (M_1, ..., M_d)
        What to rewrite. A dict has the table of each component on its nodes, by feature names.
    nodes : dict from str to array of shape (M,)
        For a dict of tables: the nodes of every feature, increasing numbers, between which the
        model is linear, or labels.
    X : table, optional
        Rows whose marginals are the measure of the sum-to-zero law, at least one with a known value
        of each feature. By default those of the model's training; for a dict of tables all nodes
        weigh the same.
    intercept : float, default=0.0
        For a dict of tables: a constant to add.
    link : str, default="identity"
        For a dict of tables: from raw score to prediction, "identity", "logit" or "log".

    Examples
    --------
    >>> tables = {("a", "b"): np.array([[0.0, 1.0], [2.0, 5.0]])}
    >>> pure = purify(tables, nodes={"a": [0, 1], "b": [0, 1]})
    >>> pure.intercept, pure.component_names
    (2.0, [('a',), ('b',), ('a', 'b')])
    >>> pure.raw_scores([[1, 1]])
    array([5.])
    """
    if isinstance(model, AnovaModel):
        intercepts, tables = beside_trees(model)
        trees = None if model.remainder is None else model.remainder.trees
        given = sum_of_grids(model, model.encoder, tables, intercepts, trees)
    elif isinstance(model, Mapping):
        given = sum_of_tables(model, nodes or {}, intercept, link)
    elif hasattr(model, "term_scores_"):
        given = sum_of_ebm(model)
    else:
        raise TypeError(
            "model: a fitted EBM, an AnovaModel or a dict of tables is needed, found "
            f"{type(model).__name__}. Tabulate other models on a grid and pass the tables."
        )
    if X is not None:
        given = reweighted(given, X)
    pure = purified(given)
    return _with_known(pure, model) if isinstance(model, AnovaModel) else pure


def purified(given: TableSum) -> AnovaModel:
    """Model with the components given and those that received a part beyond rounding.

    The components of trees join them, and all else of the trees is the remainder.
    """
    subsets = ComponentSet(tuple(given.tables)).with_subsets()
    zeros = given.encoder.zeros(subsets, *given.intercept.shape)
    in_order = given.tables | zeros | given.tables  # those that are given first
    shift, pure = purify_tables(in_order, given.encoder.axes)
    intercept = given.intercept + shift
    rounding = rounding_error(pure.values())
    received = (s for s, table in pure.items() if np.abs(table).max() > rounding)
    components = ComponentSet((*given.tables, *received))

    def spread(bags: FloatArray) -> FloatArray:
        return bags.std(-1) if bags.shape[-1] else np.zeros(bags.shape[:-1])

    model = AnovaModel(
        encoder=given.encoder,
        components=components,
        tables=tuple(np.ascontiguousarray(pure[s][..., 0]) for s in components),
        intercepts=intercept[..., 0],
        link=LINKS[given.link],
        output_names=given.output_names,
        classes=given.classes,
        evidence=Evidence(spreads=tuple(spread(pure[s][..., 1:]) for s in components)),
    )
    return with_trees(model, given.trees)


def _with_known(pure: AnovaModel, model: AnovaModel) -> AnovaModel:
    """Give a model its shapes back, and the spreads of components that did not change."""
    if model.evidence.spreads is None:
        return replace(pure, shapes=model.shapes, evidence=Evidence())
    both = zip(model.tables, model.evidence.spreads, strict=True)
    known = dict(zip(model.components, both, strict=True))
    rounding = rounding_error(model.tables)

    def spread(component: Component, table: FloatArray) -> FloatArray:
        before, spread = known.get(component, (np.inf, table))
        return spread if np.abs(table - before).max() <= rounding else np.zeros_like(table)

    spreads = tuple(map(spread, pure.components, pure.tables))
    return replace(pure, shapes=model.shapes, evidence=Evidence(spreads=spreads))


def reweighted(given: TableSum, X: Any) -> TableSum:
    """Return the same sum with the masses of other rows; unused features keep theirs."""
    encoder, used = given.encoder, {feature for component in given.tables for feature in component}
    used |= set() if given.trees is None else set(given.trees.used)
    columns = encoder.columns(encoder.read(X))
    axes = {
        order: tuple(
            _with_masses(axis, columns[feature], encoder.feature_names[feature])
            if feature in used
            else axis
            for feature, axis in enumerate(per_order)
        )
        for order, per_order in encoder.axes.items()
    }
    encoder = replace(encoder, axes=axes)
    trees = None if given.trees is None else reweighted_trees(given.trees, encoder)
    return replace(given, encoder=encoder, trees=trees)


def _with_masses(axis: Axis, x: FloatArray, name: str) -> Axis:
    weights = axis.masses_of(x)[:-1]
    if not weights.any():
        raise ValueError(
            f"X: none of the {len(x)} rows has a value of {name!r} that the model knows, so these "
            "rows define no measure. Pass other rows, or leave X out."
        )
    return replace(axis, weights=weights / weights.sum())


def sum_of_grids(
    like: AnovaModel,
    encoder: TableEncoder,
    grids: Mapping[Component, FloatArray],
    intercepts: FloatArray,
    trees: Trees | None,
) -> TableSum:
    """Sum of grids on common nodes and of trees, with the link and the outputs of a model."""
    return TableSum(
        encoder=encoder,
        tables={component: grid[..., None] for component, grid in grids.items()},
        intercept=intercepts[:, None],
        link=like.link.name,
        output_names=like.output_names,
        classes=like.classes,
        trees=trees,
    )
