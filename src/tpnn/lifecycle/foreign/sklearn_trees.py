"""Trees of scikit-learn: gradient boosting of both kinds, forests and single trees.

HistGradientBoosting compares doubles; the others round numbers to single precision and compare them
with thresholds in double precision. What is equal goes left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import BaseDecisionTree
from sklearn.utils import get_tags

from tpnn._utils.arrays import FloatArray
from tpnn.lifecycle.foreign.tree_sum import (
    ForeignTree,
    Question,
    TreeSum,
    in_order,
    levels_of,
    link_of,
    one_output,
    refuse,
    set_bits,
    single_ends,
    thresholds,
    tree_of,
)
from tpnn.table.columns import is_missing, plain_label
from tpnn.table.table import Table

FORESTS = (RandomForestClassifier, RandomForestRegressor, ExtraTreesClassifier, ExtraTreesRegressor)
STAGED = (GradientBoostingClassifier, GradientBoostingRegressor)
HISTOGRAMS = (HistGradientBoostingClassifier, HistGradientBoostingRegressor)
KNOWN = (*FORESTS, *STAGED, *HISTOGRAMS, BaseDecisionTree)
LINKS_OF_LOSSES = {
    **dict.fromkeys(["squared_error", "absolute_error", "huber", "quantile"], "identity"),
    **dict.fromkeys(["gamma", "poisson"], "log"),
}


def sum_of_sklearn(model: Any, table: Table, link: str | None) -> TreeSum:
    """Read a fitted model of trees of scikit-learn."""
    table = in_order(table, getattr(model, "feature_names_in_", None), model.n_features_in_)
    if isinstance(model, HISTOGRAMS):
        return _histograms(model, table, link)
    return _staged(model, table, link) if isinstance(model, STAGED) else _forest(model, table, link)


def _boosted_link(model: Any, n_outputs: int, link: str | None) -> str:
    """Link of gradient boosting; several classes have a softmax."""
    of_classes = "logit" if n_outputs == 1 else "softmax"
    return link_of(str(model.loss), {**LINKS_OF_LOSSES, "log_loss": of_classes}, link)


def _histograms(model: Any, table: Table, link: str | None) -> TreeSum:
    base = np.reshape(model._baseline_prediction, -1).astype(np.float64)
    columns = _Columns(model, table)
    return TreeSum.of(
        table,
        columns.levels,
        _boosted_link(model, len(base), link),
        getattr(model, "classes_", ()),
        trees=[
            columns.tree(predictor, output, len(base))
            for predictors in model._predictors
            for output, predictor in enumerate(predictors)
        ],
        intercept=base,
    )


class _Codes(NamedTuple):
    """Levels of a column as HistGradientBoosting numbers them."""

    place: int  # of the column in the table
    known: frozenset[int]  # numbers of levels that some training row has
    none: int | None  # number of None, if that is one of them

    def ask(self, left: frozenset[int], missing: bool, n_levels: int) -> Question:
        """Ask for levels; those that it does not know go where missing values go."""
        numbers = range(n_levels)
        right = tuple(n not in left if n in self.known else missing for n in numbers)
        gap = missing if self.none is None else self.none not in left
        return Question(self.place, right, gap, missing)


class _Columns:
    """Columns of HistGradientBoosting, which may stand in another order, levels first."""

    def __init__(self, model: Any, table: Table) -> None:
        are_levels = getattr(model, "is_categorical_", None)
        are_levels = np.zeros(table.n_features, bool) if are_levels is None else are_levels
        self.places = np.argsort(~are_levels, kind="stable")  # of its columns in the table
        self.levels: dict[int, tuple[Any, ...]] = {}
        self._codes: list[_Codes] = []
        if are_levels.any():
            encoder = model._preprocessor.named_transformers_["encoder"]
            bits, rows = model._bin_mapper.make_known_categories_bitsets()
            for column, labels in enumerate(encoder.categories_):
                self._add(table, int(self.places[column]), labels.tolist(), bits[rows[column]])

    def _add(self, table: Table, place: int, labels: Sequence[Any], bits: Any) -> None:
        """Add a column with levels; missing values are the last ones, if there are any."""
        present = [label for label in labels if not is_missing(label)]
        own = [plain_label(label, table.name(place)) for label in present]
        self.levels[place] = levels_of(table, place, own)
        known, none = set_bits(bits), labels.index(None) if None in labels else None
        levels = known & frozenset(range(len(own)))
        self._codes.append(_Codes(place, levels, none if none in known else None))

    def tree(self, predictor: Any, output: int, n_outputs: int) -> ForeignTree:
        """Read one tree."""
        nodes = predictor.nodes
        inner = np.flatnonzero(nodes["is_leaf"] == 0)
        to_right = nodes["missing_go_to_left"] == 0
        features = self.places[nodes["feature_idx"]]
        asked = thresholds(features[inner], nodes["num_threshold"][inner], to_right[inner])
        questions = dict(zip(inner.tolist(), asked, strict=True))
        for node in inner[nodes["is_categorical"][inner] == 1].tolist():
            left = set_bits(predictor.raw_left_cat_bitsets[nodes["bitset_idx"][node]])
            codes = self._codes[nodes["feature_idx"][node]]
            n_levels = len(self.levels[codes.place])
            questions[node] = codes.ask(left, bool(to_right[node]), n_levels)
        left, right = (nodes[side].astype(np.intp) for side in ("left", "right"))
        return tree_of(left, right, questions, one_output(nodes["value"], output, n_outputs))


def _staged(model: Any, table: Table, link: str | None) -> TreeSum:
    stages = model.estimators_  # (n_stages, K)
    n_outputs = stages.shape[1]
    rate = model.learning_rate
    return TreeSum.of(
        table,
        {},
        _boosted_link(model, n_outputs, link),
        getattr(model, "classes_", ()),
        trees=[
            _tree(stage.tree_, one_output(rate * stage.tree_.value[:, 0, 0], output, n_outputs))
            for row in stages
            for output, stage in enumerate(row)
        ],
        intercept=_start(model, n_outputs),
        reads_missing=False,
    )


def _start(model: Any, n_outputs: int) -> FloatArray:
    """Raw score without trees of each output, the same for every row."""
    if model.init_ == "zero":
        return np.zeros(n_outputs)
    if not isinstance(model.init_, DummyClassifier | DummyRegressor):
        refuse("begins with another model, init", "Fit it without init.")
    row = np.zeros((1, model.n_features_in_), np.float32)
    return np.reshape(model._raw_predict_init(row), -1).astype(np.float64)


def _forest(model: Any, table: Table, link: str | None) -> TreeSum:
    """Forest, or single tree, whose raw scores are means or probabilities."""
    trees = getattr(model, "estimators_", [model])
    is_classifier = hasattr(model, "classes_")
    if is_classifier and model.n_outputs_ > 1:
        refuse("has several targets with classes", "Fit one model to each.")
    values = [_leaf_values(tree.tree_.value, is_classifier) / len(trees) for tree in trees]
    return TreeSum.of(
        table,
        {},
        link_of("mean", {"mean": "identity"}, link),
        getattr(model, "classes_", ()),
        trees=[_tree(tree.tree_, own) for tree, own in zip(trees, values, strict=True)],
        intercept=np.zeros(values[0].shape[1]),
        reads_missing=bool(get_tags(model).input_tags.allow_nan),
    )


def _leaf_values(values: Any, is_classifier: bool) -> FloatArray:
    """Means, or probabilities of classes: of the second one where there are two, (n_nodes, K)."""
    if not is_classifier:
        return np.asarray(values[:, :, 0], np.float64)
    shares = values[:, 0] / values[:, 0].sum(1, keepdims=True)
    return np.asarray(shares[:, 1:] if shares.shape[1] == 2 else shares, np.float64)


def _tree(tree: Any, values: FloatArray) -> ForeignTree:
    left, right = tree.children_left, tree.children_right
    inner = np.flatnonzero(left >= 0)
    ends = single_ends(tree.threshold[inner], or_equal=True)
    to_left = np.asarray(tree.missing_go_to_left, bool)
    asked = thresholds(tree.feature[inner], ends, ~to_left[inner])
    return tree_of(left, right, dict(zip(inner.tolist(), asked, strict=True)), values)
