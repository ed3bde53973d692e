"""Models of other makers as AnovaModel: tables on any grid, and EBMs of the interpret package.

A table becomes the unique decomposition by purification, which changes no value of the sum: a pass
over each table for every subset of its features, whatever the number of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpnn._typing import FloatArray, IntArray
from tpnn.anova.components import Component, ComponentSet
from tpnn.anova.purify import purify_tables
from tpnn.loss.links import LINKS
from tpnn.model.constrain import rounding_error
from tpnn.model.files import Label, storable_labels
from tpnn.model.model import AnovaModel
from tpnn.table.axis import Axis, make_axis
from tpnn.table.encoder import Feature, TableEncoder
from tpnn.table.frame import NOMINAL, NUMBER

EBM_LINKS = {"identity": "identity", "logit": "logit", "mlogit": "softmax", "log": "log"}


@dataclass(frozen=True)
class Sum:
    """A sum of tables that need not be pure.

    Parameters
    ----------
    encoder : TableEncoder
        Where the tables live.
    tables : dict from component to array of shape (M_1, ..., M_d, n_outputs, 1 + n_bags)
        The tables of the model, then those of each bag.
    intercept : array of shape (n_outputs, 1 + n_bags)
        The constant.
    link : str
        From raw score to prediction.
    output_names : tuple of str
        Names of several outputs; empty for one.
    classes : tuple of str, int or float
        Labels of a classifier.
    """

    encoder: TableEncoder
    tables: dict[Component, FloatArray]
    intercept: FloatArray
    link: str
    output_names: tuple[str, ...] = ()
    classes: tuple[Label, ...] = ()


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
    the total function stays what it was; each part averages to zero along each of its features.
    Bands are those of an EBM's bags. An AnovaModel has no bags any more: its components keep their
    bands as far as they stay what they were, others have none (a spread of zero).

    Parameters
    ----------
    model : fitted EBM, AnovaModel, or dict from tuple of str to array of shape (M_1, ..., M_d)
        What to rewrite. A dict has the table of each component on its nodes, by feature names.
    nodes : dict from str to array of shape (M,)
        For a dict of tables: the nodes of every feature, increasing numbers, between which the
        model is linear, or labels.
    X : table, optional
        Rows whose marginals are the measure of the sum-to-zero law. By default those of the
        model's training; for a dict of tables all nodes weigh the same.
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
        given = _from_model(model)
    elif isinstance(model, Mapping):
        given = _from_tables(model, nodes or {}, intercept, link)
    elif hasattr(model, "term_scores_"):
        given = _from_ebm(model)
    else:
        raise TypeError(
            "model: a fitted EBM, an AnovaModel or a dict of tables is needed, found "
            f"{type(model).__name__}. Tabulate other models on a grid and pass the tables."
        )
    if X is not None:
        given = replace(given, encoder=_reweighted(given.encoder, X))
    pure = _purified(given)
    return _with_known(pure, model) if isinstance(model, AnovaModel) else pure


def _purified(given: Sum) -> AnovaModel:
    axes = given.encoder.axes
    tables = dict(given.tables)
    for component in ComponentSet(tuple(given.tables)).with_subsets():
        shape = [axes[len(component)][feature].n_nodes for feature in component]
        tables.setdefault(component, np.zeros((*shape, *given.intercept.shape)))
    shift, pure = purify_tables(tables, axes)
    intercept = given.intercept + shift
    rounding = rounding_error(pure.values())
    received = (s for s, table in pure.items() if np.abs(table).max() > rounding)
    components = ComponentSet((*given.tables, *received))
    means = tuple(np.ascontiguousarray(pure[s][..., 0]) for s in components)
    bags = tuple(pure[s][..., 1:] for s in components)
    return AnovaModel(
        encoder=given.encoder,
        components=components,
        tables=means,
        spreads=tuple(table.std(-1) for table in bags)
        if intercept.shape[1] > 1
        else tuple(map(np.zeros_like, means)),
        intercepts=intercept[..., 0],
        link=LINKS[given.link],
        output_names=given.output_names,
        classes=given.classes,
    )


def _with_known(pure: AnovaModel, model: AnovaModel) -> AnovaModel:
    """Give a purified model the spreads of components that stayed as they were, and the shapes."""
    known = dict(zip(model.components, zip(model.tables, model.spreads, strict=True), strict=True))
    rounding = rounding_error(model.tables)

    def spread(component: Component, table: FloatArray) -> FloatArray:
        before, spread = known.get(component, (np.inf, table))
        return spread if np.abs(table - before).max() <= rounding else np.zeros_like(table)

    spreads = tuple(map(spread, pure.components, pure.tables))
    return replace(pure, spreads=spreads, shapes=model.shapes)


def _reweighted(encoder: TableEncoder, X: Any) -> TableEncoder:
    """Give the nodes of an encoder the masses of other rows."""
    table = encoder.read(X)
    columns = encoder.columns(table)

    def with_masses(axis: Axis, x: FloatArray) -> Axis:
        lower, fraction = axis.locate(x)
        weights = np.zeros(axis.n_nodes + 2)  # what has no node is left out
        np.add.at(weights, lower, 1 - fraction)
        np.add.at(weights, lower + 1, fraction)
        weights = weights[: axis.n_nodes]
        return replace(axis, weights=weights / weights.sum())

    axes = {
        order: tuple(map(with_masses, per_order, columns))
        for order, per_order in encoder.axes.items()
    }
    return replace(encoder, axes=axes)


def _from_model(model: AnovaModel) -> Sum:
    tables = {s: table[..., None] for s, table in model.by_component().items()}
    intercept = model.intercepts[:, None]
    outputs = model.output_names
    return Sum(model.encoder, tables, intercept, model.link.name, outputs, model.classes)


def _from_tables(
    tables: Mapping[Any, Any], nodes: Mapping[str, Any], intercept: float, link: str
) -> Sum:
    if link not in LINKS:
        raise ValueError(
            f"link: must be one of {', '.join(LINKS)}, found {link!r}. Pass one of these."
        )
    names = tuple(nodes)
    axes, features = [], []
    for name in names:
        axis, feature = _given_axis(name, np.asarray(nodes[name]))
        axes.append(axis)
        features.append(feature)
    given: dict[Component, FloatArray] = {}
    for key, values in tables.items():
        wanted = (key,) if isinstance(key, str) else tuple(key)
        unknown = [name for name in wanted if name not in names]
        if unknown:
            raise ValueError(
                f"nodes: every feature of a table needs its nodes, {unknown[0]!r} has none. "
                f"Found nodes of {list(names)[:10]}."
            )
        table, places = np.asarray(values, np.float64), [names.index(name) for name in wanted]
        sizes = tuple(axes[place].n_nodes for place in places)
        if table.shape != sizes or not np.isfinite(table).all():
            raise ValueError(
                f"model: the table of {wanted} must hold finite numbers of shape {sizes}, one per "
                f"node, found shape {table.shape}. Correct the table or its nodes."
            )
        order = sorted(range(len(places)), key=places.__getitem__)
        component = tuple(places[place] for place in order)
        given[component] = given.get(component, 0.0) + table.transpose(order)[..., None, None]
    largest = max(map(len, given), default=1)
    by_order = {size: tuple(axes) for size in range(1, largest + 1)}
    encoder = TableEncoder(names, by_order, tuple(features))
    return Sum(encoder, given, np.full((1, 1), float(intercept)), link)


def _given_axis(name: str, nodes: NDArray[Any]) -> tuple[Axis, Feature]:
    weights = np.full(len(nodes), 1 / max(len(nodes), 1))
    if nodes.dtype.kind in "OU":
        levels = tuple(map(str, nodes))
        return _nominal_axis(levels, weights, False), Feature(NOMINAL, levels)
    values = nodes.astype(np.float64)
    if values.ndim != 1 or not len(values) or not (np.diff(values) > 0).all():
        raise ValueError(
            f"nodes: those of {name!r} must be increasing numbers or labels, found "
            f"{nodes.tolist()[:5]}. Sort them."
        )
    return Axis(values, weights), Feature(NUMBER)


def _nominal_axis(levels: tuple[str, ...], weights: FloatArray, has_missing: bool) -> Axis:
    count = len(levels)
    values = np.append(np.arange(float(count)), [np.nan] * has_missing)
    return Axis(values, weights, NOMINAL, levels, np.arange(count), has_missing)


def _from_ebm(ebm: Any) -> Sum:
    """Read a fitted EBM: piecewise constant, which is linear between nodes on both sides of a cut.

    Values that the EBM has not seen in training contribute nothing.
    """
    if ebm.link_ not in EBM_LINKS:
        raise ValueError(
            f"model: an EBM with a link among {sorted(EBM_LINKS)} is needed, found {ebm.link_!r}. "
            "Fit it with another objective."
        )
    several = tuple(map(str, ebm.classes_)) if ebm.link_ == "mlogit" else ()
    orders = range(1, max(map(len, ebm.term_features_)) + 1)
    by_feature = [_ebm_axes(ebm, feature, orders) for feature in range(len(ebm.bins_))]
    axes = {order: tuple(found[order] for found in by_feature) for order in orders}
    features = tuple(
        Feature(NOMINAL, axis.levels or ()) if axis.is_nominal else Feature(NUMBER)
        for axis in axes[1]
    )
    tables = {}
    for number, component in enumerate(ebm.term_features_):
        mean, bags = ebm.term_scores_[number], ebm.bagged_scores_[number]
        values = np.stack([mean, *bags], axis=-1)  # (bins_1, ..., bins_d[, n_outputs], 1 + n_bags)
        values = values if several else np.expand_dims(values, len(component))
        for place, feature in enumerate(component):
            cuts = _ebm_bins(ebm, feature, len(component))
            rows = _ebm_rows(axes[len(component)][feature], cuts)
            values = values.take(rows, axis=place)
        order = np.argsort(component)
        rest = range(len(component), values.ndim)
        tables[tuple(sorted(component))] = values.transpose(*order, *rest)
    by_bag = np.reshape(ebm.bagged_intercept_, (len(ebm.bagged_scores_[0]), -1))
    intercept = np.column_stack([np.reshape(ebm.intercept_, -1), by_bag.T])
    if several:  # a constant over the classes changes no probability
        tables = {s: table - table.mean(-2, keepdims=True) for s, table in tables.items()}
        intercept = intercept - intercept.mean(0)
    encoder = TableEncoder(tuple(ebm.feature_names_in_), axes, features)
    classes = tuple(storable_labels(getattr(ebm, "classes_", ())))
    return Sum(encoder, tables, intercept, EBM_LINKS[ebm.link_], several, classes)


def _ebm_bins(ebm: Any, feature: int, order: int) -> Any:
    """Cuts of a feature, or the numbers of its labels, at the resolution of an order."""
    bins = ebm.bins_[feature]
    return bins[min(order, len(bins)) - 1]


def _ebm_axes(ebm: Any, feature: int, orders: Sequence[int]) -> dict[int, Axis]:
    """Axis of a feature for every order; cuts of an order are cuts of all lower ones."""
    bins, masses = _ebm_masses(ebm, feature)
    has_missing = bool(masses[0] > 0)
    finest = _ebm_bins(ebm, feature, 1)
    if isinstance(finest, dict):
        levels = tuple(sorted(finest, key=finest.__getitem__))
        axis = _nominal_axis(levels, np.empty(0), has_missing)
        weights = _shared(masses, _ebm_rows(axis, bins))
        return dict.fromkeys(orders, replace(axis, weights=weights / weights.sum()))
    nodes: dict[int, FloatArray] = {}
    cuts = np.empty(0)
    for order in reversed(orders):
        cuts = np.union1d(cuts, _ebm_bins(ebm, feature, order))
        nodes[order] = np.union1d(np.nextafter(cuts, -np.inf), cuts) if len(cuts) else np.zeros(1)
    values = np.append(nodes[1], [np.nan] * has_missing)
    weights = _shared(masses, _ebm_rows(Axis(values, np.empty(0), has_missing=has_missing), bins))
    return {order: make_axis(values, weights, nodes[order]) for order in orders}


def _ebm_masses(ebm: Any, feature: int) -> tuple[Any, FloatArray]:
    """Bins of the smallest term that has a feature, and their training mass.

    The mass of a pair is summed over its other feature. The first bin is for missing values, the
    last for unseen ones. Features of no term have bins of the same mass.
    """
    terms = [number for number, term in enumerate(ebm.term_features_) if feature in term]
    if not terms:
        bins = _ebm_bins(ebm, feature, 1)
        inner = np.ones(len(bins) if isinstance(bins, dict) else len(bins) + 1)
        return bins, np.concatenate([[0.0], inner, [0.0]])
    smallest = min(terms, key=lambda number: len(ebm.term_features_[number]))
    term, weights = ebm.term_features_[smallest], np.asarray(ebm.bin_weights_[smallest], np.float64)
    others = tuple(axis for axis in range(len(term)) if term[axis] != feature)
    return _ebm_bins(ebm, feature, len(term)), weights.sum(others)


def _shared(masses: FloatArray, rows: IntArray) -> FloatArray:
    """Mass of every node, where the nodes of a bin share its mass."""
    return masses[rows] / np.bincount(rows)[rows]


def _ebm_rows(axis: Axis, bins: Any) -> IntArray:
    """Bin of an EBM's table for every node of an axis; the first one is for missing values."""
    if isinstance(bins, dict):
        regular = np.array([bins[level] for level in axis.levels or ()], np.intp)
    else:
        regular = np.searchsorted(bins, axis.values[: axis.n_regular], side="right") + 1
    return np.append(regular, np.zeros(int(axis.has_missing), np.intp))
