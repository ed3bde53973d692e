"""read: boosted trees and forests of other libraries as an AnovaModel, exactly.

The leaves of trees are boxes, so the functional ANOVA of their sum is known in closed form. The
largest components are the core of the model, all else is its remainder. Nothing is fitted again:
intercept, core and remainder add up to the raw score of the trees on every row.

A component of trees is constant between cuts, and the model interpolates linearly between nodes. So
there is a node on each side of a cut. Where trees have more cuts than a component may have nodes,
those that trees use most are kept; what the grid misses between them is in the remainder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from tpnn._utils.arrays import FloatArray
from tpnn._utils.rules import COUNT, check_parameters
from tpnn._utils.threads import Workers
from tpnn.anova.boxes import LARGEST_ORDER, Boxes
from tpnn.anova.core import CoreRules, core_of, variances
from tpnn.anova.trees import TreeFeature, masses_of
from tpnn.estimators.inputs import checked_weights
from tpnn.lifecycle.foreign.catboost_trees import sum_of_catboost
from tpnn.lifecycle.foreign.lightgbm_trees import sum_of_lightgbm
from tpnn.lifecycle.foreign.sklearn_trees import KNOWN, sum_of_sklearn
from tpnn.lifecycle.foreign.table_sum import level_axis
from tpnn.lifecycle.foreign.tree_sum import TreeSum
from tpnn.lifecycle.foreign.xgboost_trees import sum_of_xgboost
from tpnn.loss.links import LINKS
from tpnn.model.model import AnovaModel, pruned
from tpnn.model.remainder import Remainder, measured
from tpnn.table.axis import Axis, distinct, make_axis, place_nodes
from tpnn.table.encoder import Feature, TableEncoder
from tpnn.table.table import NOMINAL, Table

MOST_CUTS = {1: 500, 2: 63, 3: 15}  # of a feature, in the components of each order
MOST_LEVELS = {1: 65_000, 2: 126, 3: 30}  # likewise
MOST_ANSWERS = 2e9  # of all questions, each for all intervals between the cuts of its feature


class Nodes(NamedTuple):
    """How a model sees its columns."""

    encoder: TableEncoder
    features: tuple[TreeFeature, ...]  # codes of the trees' questions
    exact_order: int  # up to which components have nodes at all cuts, and of all levels


def nodes_of(given: TreeSum, weights: FloatArray | None) -> Nodes:
    """Nodes and masses of the columns of a sum of trees."""
    table = given.table
    columns = _reader(given, {1: tuple(map(_any_axis, given.features))}).columns(table)
    counts = _cut_counts(given)
    features, by_feature = list[TreeFeature](), list[dict[int, Axis]]()
    for j, (column, x) in enumerate(zip(given.features, columns, strict=True)):
        if column.kind == NOMINAL:
            feature, axes = _levels(column, x, weights)
        else:
            feature, axes = _numbers(counts[j], x, weights, given.reads_missing)
        features.append(feature)
        by_feature.append(axes)
    axes_of = {order: tuple(axes[order] for axes in by_feature) for order in MOST_CUTS}
    exact = [order for order, axes in axes_of.items() if all(map(_is_exact, axes, features))]
    return Nodes(_reader(given, axes_of), tuple(features), max(exact, default=0))


def _is_exact(axis: Axis, feature: TreeFeature) -> bool:
    """Whether there are nodes on both sides of every cut, or for every level."""
    if feature.groups is not None:
        return len(axis.values[axis.seen]) == len(feature.groups)
    return bool(np.isin(_sides(feature.ends), axis.values).all())


def _sides(cuts: FloatArray) -> FloatArray:
    """Numbers on both sides of cuts."""
    return np.union1d(cuts, np.nextafter(cuts, np.inf))


def _reader(given: TreeSum, axes: Mapping[int, tuple[Axis, ...]]) -> TableEncoder:
    table = given.table
    labels = None if table.names else table.labels
    return TableEncoder(table.names, axes, given.features, labels=labels)


def _any_axis(feature: Feature) -> Axis:
    """Axis that knows levels and missing values, to read a column before its nodes are known."""
    if feature.kind == NOMINAL:
        n_levels = len(feature.levels)
        return level_axis(feature.levels, np.full(n_levels + 2, 1 / (n_levels + 2)), is_open=True)
    return Axis(np.zeros(1), np.array([1.0, 0.0]), has_missing=True)


def _cut_counts(given: TreeSum) -> list[Counter[float]]:
    """How many questions cut each feature where; refuse more than can be answered."""
    counts = [Counter[float]() for _ in given.features]
    for tree in given.trees:
        for question in tree.questions:
            counts[question.feature].update(question.ends)
    n_answers = sum(len(cuts) ** 2 for cuts in counts)
    if n_answers > MOST_ANSWERS:
        raise ValueError(
            f"model: its trees cut their features at {sum(map(len, counts)):,} different numbers, "
            f"and reading them would take more than {n_answers / 1e9:.0f} GB. Fit it with fewer or "
            "smaller trees, such as max_depth=6, or to columns that are rounded."
        )
    return counts


def _levels(
    column: Feature, x: FloatArray, weights: FloatArray | None
) -> tuple[TreeFeature, dict[int, Axis]]:
    """Each level has a code and a node, the most frequent level the first one."""
    n_levels = len(column.levels)
    as_read = np.arange(n_levels, dtype=np.int32)
    feature = TreeFeature(np.empty(0), as_read, np.ones(n_levels + 2))
    masses = masses_of(feature, x, weights)
    order = np.argsort(-masses[:n_levels], kind="stable")
    groups = np.empty(n_levels, np.int32)
    groups[order] = as_read
    masses = np.concatenate([masses[order], masses[n_levels:]])
    labels = tuple(column.levels[number] for number in order)
    axis = level_axis(labels, masses, is_open=True, groups=groups.astype(np.intp))
    axes = {order: axis.coarsened(most) for order, most in MOST_LEVELS.items()}
    return TreeFeature(np.empty(0), groups, masses), axes


def _numbers(
    counts: Counter[float], x: FloatArray, weights: FloatArray | None, reads_missing: bool
) -> tuple[TreeFeature, dict[int, Axis]]:
    """Intervals between cuts have a code each, and nodes at both ends."""
    ends = np.array(sorted(counts), np.float64)
    feature = TreeFeature(ends, None, np.ones(len(ends) + 3))
    feature = feature._replace(masses=masses_of(feature, x, weights))
    values, masses = distinct(x, weights)
    if reads_missing and not np.isnan(values[-1]):
        values, masses = np.append(values, np.nan), np.append(masses, 0.0)
    known = values[~np.isnan(values)]
    outer = known[[0, -1]] if len(known) else np.zeros(1)
    cuts, axes = ends, dict[int, Axis]()
    for order, most in MOST_CUTS.items():
        uses = np.array([counts[cut] for cut in cuts.tolist()], np.float64)
        cuts = place_nodes(cuts, uses, most)
        nodes = np.union1d(_sides(cuts), outer)
        axes[order] = make_axis(values, masses, nodes)
    return feature, axes


CORE_SHARE = 0.98  # of the variance, after which a core is complete
READERS = {  # by the library, and a method that its models with trees have
    ("catboost", "calc_leaf_indexes"): sum_of_catboost,
    ("lightgbm", "model_to_string"): sum_of_lightgbm,
    ("lightgbm", "booster_"): sum_of_lightgbm,
    ("xgboost", "save_raw"): sum_of_xgboost,
    ("xgboost", "get_booster"): sum_of_xgboost,
}


def read(
    model: Any,
    X: Any,
    sample_weight: Any = None,
    *,
    link: str | None = None,
    max_components: int = 24,
) -> AnovaModel:
    """Read the exact functional ANOVA of boosted trees or of a forest.

    A leaf with features U is a product of one-dimensional steps. Written as their means and what is
    around them, it adds to one component for each subset of U. So every component f_S is a sum over
    leaves, and the only one that averages to zero along each of its features under the product of
    the marginals of ``X``. The largest components are the core of the model, all others together
    are its remainder. Intercept, core and remainder add up to the raw score of the model on every
    row, also on rows unlike those of ``X``. Shapley values are exact.

    The raw score is the margin of boosted trees before the link: the log-odds of two classes, for
    example. For forests and single trees it is the mean, or the probability of the second class or
    of each of several classes. Missing values and levels that training has not seen go where the
    library sends them.

    Parameters
    ----------
    model : fitted model
        Of CatBoost, LightGBM or XGBoost: an estimator, or a Booster. Of scikit-learn: gradient
        boosting of both kinds, random forests, extra trees, or a decision tree.
    X : table
        Rows whose marginals are the measure of the sum-to-zero law, best those of training, with
        the columns of the model's fit.
    sample_weight : array of shape (n_rows,), optional
        Weights of these rows.
    link : str, optional
        From raw score to prediction: "identity", "logit", "log" or "softmax". By default that of
        the model's objective; objectives of your own need it.
    max_components : int, default=24
        Largest number of components in the core. If the trees have no more, all are in it.

    Returns
    -------
    AnovaModel
        Components have a node on both sides of each cut of the trees, so they are exact. A feature
        with more than 63 cuts has fewer nodes in pairs, one with more than 15 in triples, with more
        than 500 in main effects. What a component loses there is in the remainder.

    Examples
    --------
    >>> from sklearn.ensemble import HistGradientBoostingRegressor
    >>> from tpnn import datasets
    >>> data = datasets.make_synthetic("f1", n_samples=500, random_state=0)
    >>> X, y = data.X, data.y
    >>> boosted = HistGradientBoostingRegressor(random_state=0).fit(X, y)
    >>> model = read(boosted, X)
    >>> bool(abs(model.raw_scores(X) - boosted.predict(X)).max() < 1e-9)
    True
    """
    check_parameters({"max_components": max_components}, {"max_components": COUNT})
    _check_fitted(model)
    table = Table(X)
    weights = checked_weights(sample_weight, table.n_rows)
    if not table.n_rows:
        raise ValueError("X: at least one row is needed, found none. Pass the rows of training.")
    given = _trees_of(model, table, link)
    nodes = nodes_of(given, weights)
    return _joined(given, nodes, Boxes.of(given.on(nodes.features)), max_components)


def _joined(given: TreeSum, nodes: Nodes, boxes: Boxes, max_components: int) -> AnovaModel:
    """Core and remainder; no remainder if the core says all."""
    with Workers(None) as workers:
        sizes = variances([boxes], nodes.encoder.axes[1], LARGEST_ORDER, workers)
    share = CORE_SHARE if len(sizes) > max_components else np.inf
    core = core_of(sizes, CoreRules(share, max_components, LARGEST_ORDER))
    constants, tables = boxes.components(core.components, nodes.encoder.axes)
    grids = tuple(tables[component] for component in core)
    remainder = Remainder(
        trees=boxes.trees, constants=constants, components=core, tables=grids, share=0.0, worth=0.0
    )
    # the components have all sets of features that meet in a leaf, with all cuts
    meeting = {features for features in boxes.together if features}
    says_all = meeting <= set(core) and all(len(s) <= nodes.exact_order for s in meeting)
    model = AnovaModel(
        encoder=nodes.encoder.up_to(max(core.orders, default=1)),
        components=core,
        tables=grids,
        intercepts=given.intercept + constants,
        link=LINKS[given.link],
        output_names=given.output_names,
        classes=given.classes,
        remainder=None if says_all else remainder,
    )
    return pruned(measured(model, sizes))


def _check_fitted(model: Any) -> None:
    """Refuse an estimator that is not fitted; a Booster always is."""
    if isinstance(model, type):
        raise TypeError(
            f"model: a fitted model is needed, and {model.__name__} is a class. Fit it."
        )
    if hasattr(model, "is_fitted"):  # CatBoost
        is_fitted = model.is_fitted()
    else:
        try:
            is_fitted = check_is_fitted(model) is None
        except NotFittedError:
            is_fitted = False
        except TypeError:
            is_fitted = True
    if not is_fitted:
        raise NotFittedError(
            f"model: must be fitted, and this {type(model).__name__} is not. Call its fit first."
        )


def _trees_of(model: Any, table: Table, link: str | None) -> TreeSum:
    """Trees of a model of any library that is known."""
    libraries = {base.__module__.partition(".")[0] for base in type(model).__mro__}
    for (library, method), reader in READERS.items():
        if library in libraries and hasattr(model, method):
            return reader(model, table, link)
    if isinstance(model, KNOWN):
        return sum_of_sklearn(model, table, link)
    raise TypeError(
        "model: a fitted model of trees of CatBoost, LightGBM, XGBoost or scikit-learn is needed, "
        f"and this is a {type(model).__name__}. Of a pipeline pass the last step, and the table "
        "that it gets; of a search pass its best_estimator_. distill approximates other models."
    )
