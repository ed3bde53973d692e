"""Trees of scikit-learn: gradient boosting of both kinds, forests and single trees.

HistGradientBoosting compares doubles; the others round numbers to single precision and compare them
with thresholds in double precision. What is equal goes left.
"""

from __future__ import annotations

from typing import Any

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
    outputs_of,
    refuse,
    set_bits,
    single_ends,
    thresholds,
    tree_of,
)
from tpnn.table.columns import is_missing, plain_label
from tpnn.table.encoder import Feature
from tpnn.table.table import NOMINAL, NUMBER, Table

FORESTS = (
    RandomForestClassifier,
    RandomForestRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
)
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
    link = _boosted_link(model, len(base), link)
    output_names, classes = outputs_of(link, getattr(model, "classes_", ()), len(base))
    return TreeSum(
        table=table,
        features=columns.features,
        trees=[
            columns.tree(predictor, output, len(base))
            for predictors in model._predictors
            for output, predictor in enumerate(predictors)
        ],
        intercept=base,
        link=link,
        output_names=output_names,
        classes=classes,
    )


class _Columns:
    """Columns of HistGradientBoosting, which may stand in another order, levels first."""

    def __init__(self, model: Any, table: Table) -> None:
        are_levels = getattr(model, "is_categorical_", None)
        are_levels = np.zeros(table.n_features, bool) if are_levels is None else are_levels
        self.places = np.argsort(~are_levels, kind="stable")  # of its columns in the table
        self.levels: dict[int, tuple[Any, ...]] = {}
        self._known: list[frozenset[int]] = []  # numbers of the levels that it has seen
        if are_levels.any():
            encoder = model._preprocessor.named_transformers_["encoder"]
            bits, rows = model._bin_mapper.make_known_categories_bitsets()
            for column, labels in enumerate(encoder.categories_):
                place = int(self.places[column])
                own = [
                    plain_label(label, table.name(place))
                    for label in labels
                    if not is_missing(label)
                ]
                self.levels[place] = levels_of(table, place, own)
                self._known.append(set_bits(bits[rows[column]]) & set(range(len(own))))
        self.features = tuple(
            Feature(NOMINAL, self.levels[j]) if j in self.levels else Feature(NUMBER)
            for j in range(table.n_features)
        )

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
            column = int(nodes["feature_idx"][node])
            questions[node] = self._about_levels(column, left, bool(to_right[node]))
        left, right = (nodes[side].astype(np.intp) for side in ("left", "right"))
        return tree_of(left, right, questions, one_output(nodes["value"], output, n_outputs))

    def _about_levels(self, column: int, left: frozenset[int], missing: bool) -> Question:
        """Ask for levels; those that it has not seen go where missing values go."""
        place, known = int(self.places[column]), self._known[column]
        right = tuple(
            number not in left if number in known else missing
            for number in range(len(self.levels[place]))
        )
        return Question(place, right, missing, missing)


def _staged(model: Any, table: Table, link: str | None) -> TreeSum:
    stages = model.estimators_  # (n_stages, K)
    n_outputs = stages.shape[1]
    link = _boosted_link(model, n_outputs, link)
    output_names, classes = outputs_of(link, getattr(model, "classes_", ()), n_outputs)
    rate = model.learning_rate
    return TreeSum(
        table=table,
        features=(Feature(NUMBER),) * table.n_features,
        trees=[
            _tree(stage.tree_, one_output(rate * stage.tree_.value[:, 0, 0], output, n_outputs))
            for row in stages
            for output, stage in enumerate(row)
        ],
        intercept=_start(model, n_outputs),
        link=link,
        output_names=output_names,
        classes=classes,
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
    link = link_of("mean", {"mean": "identity"}, link)
    n_outputs = values[0].shape[1]
    names = tuple(map(str, model.classes_)) if is_classifier else ()
    output_names, classes = outputs_of(link, (), n_outputs)
    return TreeSum(
        table=table,
        features=(Feature(NUMBER),) * table.n_features,
        trees=[_tree(tree.tree_, own) for tree, own in zip(trees, values, strict=True)],
        intercept=np.zeros(n_outputs),
        link=link,
        output_names=names if len(names) == n_outputs > 1 else output_names,
        classes=classes,
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
