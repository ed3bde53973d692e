"""Models of XGBoost, read from their JSON.

XGBoost rounds numbers to single precision; those below the condition go left. A level goes right if
it is in a set. Each node says where missing values go. Its predictions are sums in single
precision, and differ from the sum of the trees by this rounding alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.lifecycle.foreign.tree_sum import (
    SINGLE,
    ForeignTree,
    Question,
    TreeSum,
    in_order,
    link_of,
    one_output,
    refuse,
    single_ends,
    thresholds,
    tree_of,
)
from tpnn.table.table import Table

LINKS_OF_OBJECTIVES = {
    **dict.fromkeys(["reg:squarederror", "reg:squaredlogerror", "reg:absoluteerror"], "identity"),
    **dict.fromkeys(["reg:pseudohubererror", "reg:quantileerror"], "identity"),
    **dict.fromkeys(["rank:ndcg", "rank:map", "rank:pairwise"], "identity"),
    **dict.fromkeys(["reg:logistic", "binary:logistic", "binary:logitraw"], "logit"),
    **dict.fromkeys(["count:poisson", "reg:gamma", "reg:tweedie"], "log"),
    **dict.fromkeys(["survival:cox", "survival:aft"], "log"),
    **dict.fromkeys(["multi:softmax", "multi:softprob"], "softmax"),
}
IS_LEVEL = 1  # type of a split


def sum_of_xgboost(model: Any, table: Table, link: str | None) -> TreeSum:
    """Read a fitted estimator of XGBoost, or a Booster."""
    booster = model.get_booster() if hasattr(model, "get_booster") else model
    gap = getattr(model, "missing", np.nan)
    if gap is not None and not np.isnan(gap):
        refuse(
            f"takes {gap} for a missing value",
            "Replace it by NaN in X, and call set_params(missing=np.nan).",
        )
    learner = json.loads(booster.save_raw("json"))["learner"]
    content, weights = _content(learner["gradient_booster"])
    starts = content["iteration_indptr"]  # estimators predict up to the best iteration
    has_best = hasattr(model, "get_booster") and booster.attr("best_iteration")
    last = min(model.best_iteration + 1, len(starts) - 1) if has_best else -1
    names, n_features = learner["feature_names"], int(learner["learner_model_param"]["num_feature"])
    table = in_order(table, names or None, n_features)
    levels = _levels(learner, content, table)
    base = _base(learner)
    outputs = content["tree_info"]
    return TreeSum.of(
        table,
        levels,
        link_of(learner["objective"]["name"], LINKS_OF_OBJECTIVES, link),
        model.classes_ if hasattr(model, "n_classes_") else (),
        trees=[
            _tree(tree, weights[number], (outputs[number], len(base)), levels)
            for number, tree in enumerate(content["trees"][: int(starts[last])])
        ],
        intercept=base,
    )


def _content(booster: Mapping[str, Any]) -> tuple[Any, FloatArray]:
    """Trees of a booster, and the factor of each."""
    if booster["name"] == "gblinear":
        refuse("is linear", "Fit it with booster='gbtree'.")
    content = booster.get("gbtree", booster)["model"]
    weights = booster.get("weight_drop", np.ones(len(content["trees"])))
    return content, np.asarray(weights, SINGLE).astype(np.float64)


def _base(learner: Mapping[str, Any]) -> FloatArray:
    """Raw score without trees, of each output, in single precision as XGBoost has it."""
    facts = learner["learner_model_param"]
    counts = int(facts["num_class"]), int(facts.get("num_target", 1)), 1
    numbers = np.array(facts["base_score"].strip("[]").split(","), SINGLE)
    link = LINKS_OF_OBJECTIVES.get(learner["objective"]["name"])
    if link == "logit":
        numbers = -np.log(SINGLE(1) / numbers - SINGLE(1))
    elif link == "log":
        numbers = np.log(numbers)
    return np.broadcast_to(numbers, max(counts)).astype(np.float64)


def _levels(
    learner: Mapping[str, Any], content: Mapping[str, Any], table: Table
) -> dict[int, tuple[Any, ...]]:
    """Levels of the features that have any, in the order of their numbers in XGBoost.

    A model that does not keep its categories has them from the type of the column, and numbers are
    levels themselves.
    """
    kept = content.get("cats", {}).get("enc", [])
    levels = {}
    for feature, kind in enumerate(learner["feature_types"] or ()):
        if kind == "c":
            known = _kept_levels(kept[feature]) if feature < len(kept) else ()
            labels = known or table.column(feature).levels
            levels[feature] = labels or _numbered_levels(content, table, feature)
    return levels


def _kept_levels(kept: Mapping[str, Any]) -> tuple[Any, ...]:
    """Levels that a model keeps: numbers, or the bytes of all texts one after the other."""
    if "offsets" not in kept:
        return tuple(kept["values"])
    text, bounds = bytes(byte % 256 for byte in kept["values"]), kept["offsets"]
    return tuple(text[a:b].decode() for a, b in pairwise(bounds))


def _numbered_levels(content: Mapping[str, Any], table: Table, feature: int) -> tuple[int, ...]:
    """Count up to the largest level of a column of numbers that the table or a tree has."""
    asked = (max(tree["categories"], default=0) for tree in content["trees"])
    here = map(int, table.levels(feature).levels)
    return tuple(range(max([*asked, *here], default=0) + 1))


def _tree(
    tree: Mapping[str, Any],
    factor: float,
    output: tuple[int, int],
    levels: Mapping[int, Sequence[Any]],
) -> ForeignTree:
    if int(tree["tree_param"]["size_leaf_vector"]) > 1:
        refuse(
            "has several outputs in each leaf", "Fit it with multi_strategy='one_output_per_tree'."
        )
    left, right = (np.array(tree[name], np.intp) for name in ("left_children", "right_children"))
    features, to_left = np.array(tree["split_indices"]), np.array(tree["default_left"], bool)
    conditions = np.array(tree["split_conditions"], SINGLE)
    ends = single_ends(conditions.astype(np.float64), or_equal=False)
    inner = np.flatnonzero(left >= 0)
    asked = thresholds(features[inner], ends[inner], ~to_left[inner])
    questions = dict(zip(inner.tolist(), asked, strict=True))
    segments = zip(tree["categories_segments"], tree["categories_sizes"], strict=True)
    sets = (frozenset(tree["categories"][start : start + size]) for start, size in segments)
    for node, members in zip(tree["categories_nodes"], sets, strict=True):
        feature = int(features[node])
        right_levels = tuple(number in members for number in range(len(levels[feature])))
        questions[node] = Question(feature, right_levels, not to_left[node])
    values = factor * conditions.astype(np.float64)
    return tree_of(left, right, questions, one_output(values, *output))
