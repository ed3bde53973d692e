"""Models of CatBoost, read from their JSON.

CatBoost rounds numbers to single precision; those above a border go right. Levels are text. A level
goes right if it is the one that is asked for or, for statistics of the targets, if its statistic is
large. What the statistics say of a level is asked of the model itself, as they depend on nothing
else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import numpy as np

from tpnn._utils.arrays import BoolArray, FloatArray
from tpnn.lifecycle.foreign.tree_sum import (
    SINGLE,
    ForeignTree,
    Question,
    TreeSum,
    in_order,
    link_of,
    refuse,
    single_ends,
    threshold,
)
from tpnn.table.encoder import level_text
from tpnn.table.table import Table

LINKS_OF_OBJECTIVES = {
    **dict.fromkeys(["RMSE", "MAE", "MAPE", "Quantile", "Expectile", "Huber"], "identity"),
    **dict.fromkeys(["LogCosh", "Lq", "GroupQuantile", "MultiRMSE", "QueryRMSE"], "identity"),
    **dict.fromkeys(["YetiRank", "YetiRankPairwise", "PairLogit"], "identity"),
    **dict.fromkeys(["PairLogitPairwise", "LambdaMart", "StochasticRank"], "identity"),
    **dict.fromkeys(["Logloss", "CrossEntropy"], "logit"),
    **dict.fromkeys(["Poisson", "Tweedie", "Cox"], "log"),
    "MultiClass": "softmax",
}
NO_LEVEL = "\x00no level of this name"
NO_KEY = str(2**64 - 1)  # of an empty place in a table of statistics

Split = Mapping[str, Any]


def sum_of_catboost(model: Any, table: Table, link: str | None) -> TreeSum:
    """Read a fitted estimator of CatBoost."""
    names = list(model.feature_names_)
    is_numbered = names == [str(j) for j in range(len(names))]  # fitted to an array
    table = in_order(table, None if is_numbered else names, len(names))
    content = _content(model, table)
    splits = _Splits(model, content, table)
    scale, bias = content["scale_and_bias"]
    n_outputs = len(bias)
    objective = content["model_info"]["params"].get("loss_function", {}).get("type", "unknown")
    oblivious = (_oblivious(tree, splits, n_outputs) for tree in content.get("oblivious_trees", ()))
    trees = [*oblivious, *(_other(tree, splits) for tree in content.get("trees", ()))]
    return TreeSum.of(
        splits.table,
        splits.levels,
        link_of(objective, LINKS_OF_OBJECTIVES, link),
        getattr(model, "classes_", ()),
        trees=[tree._replace(values=scale * tree.values) for tree in trees],
        intercept=np.array(bias, np.float64),
        are_text=True,
    )


def _content(model: Any, table: Table) -> dict[str, Any]:
    """JSON of a model, with the hashes of the levels of a table."""
    from catboost import Pool

    if model.get_text_feature_indices() or model.get_embedding_feature_indices():
        refuse("has text or embedding features", "Fit it without them, or turn them into numbers.")
    places = model.get_cat_feature_indices()
    texts = [[NO_LEVEL, *level_texts(table, place)] for place in places]
    rows = np.zeros((max(map(len, texts), default=1), table.n_features), object)
    for place, levels in zip(places, texts, strict=True):
        rows[:, place] = np.resize(np.array(levels, object), len(rows))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json", pool=Pool(rows, cat_features=places))
        content: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return content


def level_texts(table: Table, place: int) -> tuple[str, ...]:
    """Levels of a column as CatBoost writes them."""
    return tuple(dict.fromkeys(map(level_text, table.levels(place).levels)))


def _oblivious(tree: Mapping[str, Any], splits: _Splits, n_outputs: int) -> ForeignTree:
    """All nodes of a level ask the same; the last split is the first question."""
    asked = [splits.question(split) for split in reversed(tree.get("splits") or ())]
    depth = len(asked)
    nodes = np.arange(2**depth - 1)
    children = 2 * nodes[:, None] + [1, 2]
    inside = len(nodes)
    children = np.where(children < inside, children, inside - 1 - children)
    questions = [question for level, question in enumerate(asked) for _ in range(2**level)]
    values = np.array(tree["leaf_values"], np.float64).reshape(-1, n_outputs)
    return ForeignTree(questions, children.astype(np.int32), values)


def _other(tree: Mapping[str, Any], splits: _Splits) -> ForeignTree:
    """Tree that is not oblivious: nodes within nodes."""
    questions, children, values = list[Question](), list[list[int]](), list[FloatArray]()

    def place(node: Mapping[str, Any]) -> int:
        if "split" not in node:
            values.append(np.reshape(node["value"], -1).astype(np.float64))
            return -len(values)
        number = len(questions)
        questions.append(splits.question(node["split"]))
        children.append([0, 0])
        children[number] = [place(node["left"]), place(node["right"])]
        return number

    place(tree)
    return ForeignTree(questions, np.array(children, np.int32).reshape(-1, 2), np.array(values))


class _Splits:
    """Questions that the splits of a model ask, and the levels of its features."""

    def __init__(self, model: Any, content: Mapping[str, Any], table: Table) -> None:
        self.model, self.table, self._content = model, table, content
        info = content["features_info"]
        self._floats = info.get("float_features", [])
        self._places = [one["flat_feature_index"] for one in info.get("categorical_features", [])]
        hashes = info.get("cat_features_hash") or ()
        self._names: dict[int, str] = {one["hash"]: one["value"] for one in hashes}
        self._known: dict[str, Question] = {}
        self.levels = {place: level_texts(table, place) for place in self._places}
        self._ctrs = self._read_ctrs(info)

    def question(self, split: Split) -> Question:
        """Return the question of a split."""
        key = json.dumps(split, sort_keys=True)
        if key not in self._known:
            ask = {
                "FloatFeature": self._about_number,
                "OneHotFeature": self._about_level,
                "OnlineCtr": self._about_statistic,
            }
            self._known[key] = ask[split["split_type"]](split)
        return self._known[key]

    def _about_number(self, split: Split) -> Question:
        known = self._floats[split["float_feature_index"]]
        border = np.array([split["border"]], SINGLE).astype(np.float64)
        end = float(single_ends(border, or_equal=True)[0])
        to_right = known["nan_value_treatment"] == "AsTrue"
        return threshold(known["flat_feature_index"], end, to_right)

    def _about_level(self, split: Split) -> Question:
        place, name = self._places[split["cat_feature_index"]], self._name(split)
        return Question(place, tuple(level == name for level in self.levels[place]), False)

    def _name(self, split: Split) -> str:
        """Level that a split asks for."""
        name = self._names.get(split["value"] % 2**32)
        if name is None:
            self._refuse_table(self._places[split["cat_feature_index"]])
        return name

    def _refuse_table(self, place: int) -> NoReturn:
        raise ValueError(
            f"X: the model knows levels of {self.table.name(place)!r} that X does not have, and "
            "keeps no names of them. Pass all rows of its training."
        )

    def _about_statistic(self, split: Split) -> Question:
        place = self._ctrs[split["split_index"]]
        *right, unseen = self._answers[split["split_index"]].tolist()
        return Question(place, tuple(right), unseen, unseen)

    def _read_ctrs(self, info: Mapping[str, Any]) -> dict[int, int]:
        """Feature of each split by a statistic, by the number of the split."""
        first = sum(len(one.get("borders") or ()) for one in self._floats)
        first += sum(len(one.get("values") or ()) for one in info.get("categorical_features", ()))
        features = {}
        for ctr in info.get("ctrs", ()):
            one, *others = ctr["elements"]
            if others or one["combination_element"] != "cat_feature_value":
                refuse(
                    "has statistics of several features together",
                    "Fit it with max_ctr_complexity=1, or with one_hot_max_size=255.",
                )
            place = self._places[one["cat_feature_index"]]
            if len(self.levels[place]) < self._n_known(ctr["identifier"]):
                self._refuse_table(place)
            for _ in ctr["borders"]:
                features[first] = place
                first += 1
        return features

    def _n_known(self, identifier: str) -> int:
        """Levels in the table of a statistic, in which some places are empty."""
        table = self._content["ctr_data"][identifier]
        return sum(key != NO_KEY for key in table["hash_map"][:: table["hash_stride"]])

    @cached_property
    def _answers(self) -> dict[int, BoolArray]:
        """Whether each level that is asked about goes right, and one that the model does not know.

        The number of a leaf of an oblivious tree has a bit for every split.
        """
        if self._ctrs and "trees" in self._content:
            refuse(
                "has statistics of levels in trees that are not oblivious",
                "Fit it with one_hot_max_size=255, or with grow_policy='SymmetricTree'.",
            )
        answers = dict.fromkeys(self._ctrs, np.zeros(0, np.bool_))
        by_feature = {place: self._leaves(place) for place in sorted(set(self._ctrs.values()))}
        for number, tree in enumerate(self._content.get("oblivious_trees", ())):
            for bit, split in enumerate(tree.get("splits") or ()):
                index = split["split_index"]
                if split["split_type"] == "OnlineCtr" and not len(answers[index]):
                    leaves = by_feature[self._ctrs[index]][:, number]
                    answers[index] = (leaves >> bit & 1).astype(np.bool_)
        return answers

    def _leaves(self, place: int) -> Any:
        """Leaf of every tree, for each level of a feature and one more, (n_levels + 1, n_trees)."""
        levels = [*self.levels[place], NO_LEVEL]
        rows = np.zeros((len(levels), self.table.n_features), object)
        rows[:, self._places] = NO_LEVEL
        rows[:, place] = levels
        return self.model.calc_leaf_indexes(rows).astype(np.int64)
