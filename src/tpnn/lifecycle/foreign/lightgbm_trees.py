"""Models of LightGBM, read from their text.

LightGBM compares doubles: a number goes left up to the threshold, and a level if it is in a set.
Numbers of at most 1e-35 in size are zeros. What is missing is NaN, or zero too, or nothing, so that
NaN is zero; each node says which.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.lifecycle.foreign.tree_sum import (
    ForeignTree,
    Question,
    TreeSum,
    about_levels,
    in_order,
    levels_of,
    link_of,
    one_output,
    refuse,
    set_bits,
    threshold,
)
from tpnn.table.table import Table

LINKS_OF_OBJECTIVES = {
    **dict.fromkeys(["regression", "regression_l1", "huber", "fair", "quantile"], "identity"),
    **dict.fromkeys(["mape", "lambdarank", "rank_xendcg"], "identity"),
    **dict.fromkeys(["poisson", "gamma", "tweedie"], "log"),
    **dict.fromkeys(["binary", "cross_entropy"], "logit"),
    "multiclass": "softmax",
}
ZERO = float(np.float32(1e-35))  # numbers up to this size are zeros
BELOW_ZERO = float(np.nextafter(-ZERO, -np.inf))
IS_LEVEL, DEFAULT_LEFT, MISSING_SHIFT = 1, 2, 2  # bits of a decision
MISSING_IS_ZERO, MISSING_IS_NAN = 1, 2

Fields = Mapping[str, str]


class Levels(NamedTuple):
    """Levels of a feature."""

    labels: tuple[Any, ...]
    numbers: tuple[int, ...]  # of each level in LightGBM


def sum_of_lightgbm(model: Any, table: Table, link: str | None) -> TreeSum:
    """Read a fitted estimator of LightGBM, or a Booster."""
    booster = getattr(model, "booster_", model)
    first, *texts = booster.model_to_string().partition("end of trees")[0].split("\nTree=")
    head, trees = _fields(first), [_fields(text) for text in texts]
    if any(fields.get("is_linear") == "1" for fields in trees):
        refuse("has linear functions in its leaves", "Fit it with linear_tree=False.")
    names = head["feature_names"].split(" ")
    table = in_order(table, *_known_names(table, names))
    levels = _levels(booster, table, trees)
    n_outputs = int(head["num_tree_per_iteration"])
    name, *settings = head.get("objective", "custom").split()  # some of them change the link
    scales = (word for word in settings if word.startswith("sigmoid:") and word != "sigmoid:1")
    objective = " ".join([name, *(word for word in settings if word == "sqrt"), *scales])
    factor = n_outputs / max(len(trees), 1) if "average_output" in first.splitlines() else 1.0
    return TreeSum.of(
        table,
        {feature: of_feature.labels for feature, of_feature in levels.items()},
        link_of(objective, LINKS_OF_OBJECTIVES, link),
        getattr(model, "classes_", ()),
        trees=[
            _tree(
                fields,
                one_output(factor * _numbers(fields, "leaf_value"), number % n_outputs, n_outputs),
                levels,
            )
            for number, fields in enumerate(trees)
        ],
        intercept=np.zeros(n_outputs),
    )


def _fields(text: str) -> dict[str, str]:
    lines = (line.partition("=") for line in text.splitlines())
    return {name: value for name, equals, value in lines if equals}


def _known_names(table: Table, names: Sequence[str]) -> tuple[list[str] | None, int]:
    """Columns of a table by their names in LightGBM, where blanks are underscores."""
    if names == [f"Column_{j}" for j in range(len(names))]:  # fitted to an array
        return None, len(names)
    written = {name.replace(" ", "_"): name for name in table.names or ()}
    return [written.get(name, name) for name in names], len(names)


def _levels(booster: Any, table: Table, trees: Sequence[Fields]) -> dict[int, Levels]:
    """Levels of the features that have any.

    Categories of a data frame have the numbers that they had in training. Other numbers are levels
    themselves, if some tree asks for sets of them.
    """
    known = booster.pandas_categorical or []
    columns = [j for j in range(table.n_features) if table.column(j).levels]
    if len(columns) != len(known):
        raise ValueError(
            f"X: the model was fitted to {len(known)} columns of categories, and X has "
            f"{len(columns)}. Pass columns of the same types as in its fit."
        )
    levels = {
        j: Levels(tuple(labels), tuple(range(len(labels))))
        for j, labels in zip(columns, known, strict=True)
    }
    for feature, numbers in sorted(_numbered_levels(trees).items()):
        if feature not in levels:
            labels = levels_of(table, feature, sorted(numbers))
            levels[feature] = Levels(labels, tuple(int(label) for label in labels))
    return levels


def _numbered_levels(trees: Sequence[Fields]) -> dict[int, set[int]]:
    """Numbers of all levels that trees ask for, by feature."""
    asked: dict[int, set[int]] = {}
    for fields in trees:
        if int(fields["num_cat"]):
            for feature, limit, kind in _nodes(fields):
                if kind & IS_LEVEL:
                    asked.setdefault(feature, set()).update(_sets(fields)[int(limit)])
    return asked


def _numbers(fields: Fields, name: str) -> FloatArray:
    return np.array(fields.get(name, "").split(), np.float64)


def _nodes(fields: Fields) -> Iterator[tuple[int, float, int]]:
    """Feature, threshold or number of a set, and kind of the decision of each node."""
    features, kinds = (_numbers(fields, name) for name in ("split_feature", "decision_type"))
    limits = _numbers(fields, "threshold").tolist()
    return zip(features.astype(int).tolist(), limits, kinds.astype(int).tolist(), strict=True)


def _sets(fields: Fields) -> list[frozenset[int]]:
    """Return the sets of levels that go left, by their number in a tree."""
    words = list(map(int, fields.get("cat_threshold", "").split()))
    bounds = _numbers(fields, "cat_boundaries").astype(int).tolist()
    return [set_bits(words[start:end]) for start, end in pairwise(bounds)]


def _tree(fields: Fields, values: FloatArray, levels: Mapping[int, Levels]) -> ForeignTree:
    if int(fields["num_leaves"]) == 1:
        return ForeignTree([], np.zeros((0, 2), np.int32), values)
    sets = _sets(fields)
    questions = [_question(*node, sets, levels) for node in _nodes(fields)]
    children = np.stack([_numbers(fields, "left_child"), _numbers(fields, "right_child")], 1)
    return ForeignTree(questions, children.astype(np.int32), values)


def _question(
    feature: int,
    limit: float,
    kind: int,
    sets: Sequence[frozenset[int]],
    levels: Mapping[int, Levels],
) -> Question:
    if kind & IS_LEVEL:
        left = sets[int(limit)]
        right = tuple(number not in left for number in levels[feature].numbers)
        return Question(feature, right, missing=True, unseen=True)
    question = _about_number(feature, limit, kind)
    return about_levels(question, levels[feature].numbers) if feature in levels else question


def _about_number(feature: int, limit: float, kind: int) -> Question:
    """Ask for numbers above a limit, where zeros or missing values may have a way of their own."""
    missing_kind, default = kind >> MISSING_SHIFT & 3, not kind & DEFAULT_LEFT
    is_in_zeros = -ZERO <= limit <= ZERO
    end = (ZERO if limit >= 0 else BELOW_ZERO) if is_in_zeros else limit
    if missing_kind == MISSING_IS_NAN:
        return threshold(feature, end, default)
    if missing_kind != MISSING_IS_ZERO:  # a missing value counts as zero
        return threshold(feature, end, end < 0)
    ends = sorted({BELOW_ZERO, ZERO, end})
    right = tuple(default if last == ZERO else last > end for last in [*ends, np.inf])
    return Question(feature, right, default, default, tuple(ends))
