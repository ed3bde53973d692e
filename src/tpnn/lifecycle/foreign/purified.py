"""purify: models of other libraries, and tables by hand, as an AnovaModel with unique components.

Purification changes no value of the sum. It makes one pass over each table for every subset of its
features, whatever the number of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.anova.components import Component, ComponentSet
from tpnn.anova.measure import purify_tables
from tpnn.lifecycle.foreign.ebm import sum_of_ebm
from tpnn.lifecycle.foreign.table_sum import TableSum, sum_of_tables
from tpnn.loss.links import LINKS
from tpnn.model.constrain import rounding_error
from tpnn.model.evidence import Evidence
from tpnn.model.model import AnovaModel, beside_trees
from tpnn.model.regrid import reweighted_trees, with_trees
from tpnn.table.axis import Axis


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
        given = _sum_of_model(model)
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
    model = AnovaModel(
        encoder=given.encoder,
        components=components,
        tables=tuple(np.ascontiguousarray(pure[s][..., 0]) for s in components),
        intercepts=intercept[..., 0],
        link=LINKS[given.link],
        output_names=given.output_names,
        classes=given.classes,
        evidence=Evidence(spreads=tuple(_spread_of_bags(pure[s]) for s in components)),
    )
    return with_trees(model, given.trees)


def _spread_of_bags(table: FloatArray) -> FloatArray:
    """Spread over the bags of a table (..., 1 + n_bags), zero where there are none."""
    bags = table[..., 1:]
    return bags.std(-1) if bags.shape[-1] else np.zeros(table.shape[:-1])


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
    lower, fraction = axis.locate(x)
    weights = np.zeros(axis.n_nodes + 2)  # values without a node fall beyond the nodes
    np.add.at(weights, lower, 1 - fraction)
    np.add.at(weights, lower + 1, fraction)
    weights = weights[: axis.n_nodes]
    if not weights.any():
        raise ValueError(
            f"X: none of the {len(x)} rows has a value of {name!r} that the model knows, so these "
            "rows define no measure. Pass other rows, or leave X out."
        )
    return replace(axis, weights=weights / weights.sum())


def _sum_of_model(model: AnovaModel) -> TableSum:
    intercepts, tables = beside_trees(model)
    return TableSum(
        encoder=model.encoder,
        tables={s: table[..., None] for s, table in tables.items()},
        intercept=intercepts[:, None],
        link=model.link.name,
        output_names=model.output_names,
        classes=model.classes,
        trees=None if model.remainder is None else model.remainder.trees,
    )
