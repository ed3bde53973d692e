"""TreeSum: the trees of another library, with the questions that they ask.

Libraries differ in what goes left: numbers up to a threshold or below it, compared in double or in
single precision. Here every question about a number has the largest double that goes left, so that
nothing is left to compare otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import BoolArray, FloatArray, Int32Array, IntArray
from tpnn.anova.trees import TreeBuilder, TreeFeature, Trees
from tpnn.loss.links import LINKS
from tpnn.model.codec import Label, storable_labels
from tpnn.table.encoder import Feature
from tpnn.table.table import NOMINAL, NUMBER, Table

SINGLE, BEYOND_SINGLE = np.float32, 2.0**128
WORD_BITS = 32
FARTHEST_END = 3.4e38  # beyond it are words for infinity, and no numbers in single precision


class Question(NamedTuple):
    """Which values of a feature go right."""

    feature: int
    right: tuple[bool, ...]  # for each interval of numbers, or for each level
    missing: bool  # whether missing values do
    unseen: bool = False  # whether levels that the library does not know do
    ends: tuple[float, ...] = ()  # largest number of each interval but the last


def threshold(feature: int, end: float, missing: bool) -> Question:
    """Ask for numbers above an end; one without numbers beyond it tells missing values alone."""
    if abs(end) > FARTHEST_END:
        return Question(feature, (end < 0,), missing)
    return Question(feature, (False, True), missing, missing, (end,))


def thresholds(features: IntArray, ends: FloatArray, missing: BoolArray) -> list[Question]:
    """One threshold for each node of a tree."""
    each = zip(features.tolist(), ends.tolist(), missing.tolist(), strict=True)
    return [threshold(*one) for one in each]


def about_levels(question: Question, numbers: Sequence[int]) -> Question:
    """Ask for levels instead of the numbers that stand for them."""
    interval = np.searchsorted(question.ends, numbers).tolist()
    right = tuple(question.right[place] for place in interval)
    return Question(question.feature, right, question.missing, question.missing)


def single_ends(limits: FloatArray, or_equal: bool) -> FloatArray:
    """Largest doubles that single precision rounds to numbers below the limits, or up to them.

    >>> float(single_ends(np.array([0.5]), or_equal=True)[0]) > 0.5
    True
    """
    with np.errstate(over="ignore"):
        last = limits.astype(SINGLE)
        beyond = last > limits if or_equal else last >= limits
        last = np.where(beyond, np.nextafter(last, SINGLE(-np.inf)), last)
        above = np.nextafter(last, SINGLE(np.inf)).astype(np.float64)
        middle = (last + np.minimum(above, BEYOND_SINGLE)) / 2
        is_up = middle.astype(SINGLE) > last  # a tie goes to the even neighbour
    return np.where(is_up, np.nextafter(middle, -np.inf), middle)


class ForeignTree(NamedTuple):
    """One tree; the first node is its root, and a negative place n is leaf -1 - n."""

    questions: Sequence[Question]  # of each node
    children: Int32Array  # (n_nodes, 2): left and right
    values: FloatArray  # (n_leaves, K)


def tree_of(
    left: IntArray, right: IntArray, questions: Mapping[int, Question], values: FloatArray
) -> ForeignTree:
    """Make a tree of nodes and leaves that are numbered together.

    ``questions`` are those of the nodes, all others are leaves; ``values`` (n, K) has a row for
    every number. Numbers that cannot be reached from 0 are left out.
    """
    reached = [0]
    for number in reached:
        if number in questions:
            reached += [int(left[number]), int(right[number])]
    nodes = [number for number in reached if number in questions]
    leaves = [number for number in reached if number not in questions]
    place = np.zeros(len(values), np.int32)
    place[nodes], place[leaves] = np.arange(len(nodes)), -1 - np.arange(len(leaves))
    children = np.stack([place[left[nodes]], place[right[nodes]]], 1)
    return ForeignTree([questions[number] for number in nodes], children, values[leaves])


@dataclass(frozen=True)
class TreeSum:
    """A sum of trees over the columns of a table."""

    table: Table  # with the columns of the model, in its order
    features: tuple[Feature, ...]
    trees: Sequence[ForeignTree]
    intercept: FloatArray  # (K,)
    link: str  # name of the link
    output_names: tuple[str, ...] = ()  # empty for one output
    classes: tuple[Label, ...] = ()  # labels of a classifier
    reads_missing: bool = True  # whether the library predicts rows with missing numbers

    @classmethod
    def of(
        cls,
        table: Table,
        levels: Mapping[int, Sequence[Any]],
        link: str,
        classes: Any,
        *,
        trees: Sequence[ForeignTree],
        intercept: FloatArray,
        are_text: bool = False,
        reads_missing: bool = True,
    ) -> TreeSum:
        """Make it with the ``levels`` of those features that have any, and labels of classes."""
        n_outputs = len(intercept)
        labels = tuple(storable_labels(classes)) if len(classes) == max(n_outputs, 2) else ()
        names = map(str, labels) if labels else (f"y{output}" for output in range(n_outputs))
        return cls(
            table=table,
            features=tuple(
                Feature(NOMINAL, tuple(levels[j]), are_text) if j in levels else Feature(NUMBER)
                for j in range(table.n_features)
            ),
            trees=trees,
            intercept=intercept,
            link=link,
            output_names=tuple(names) if n_outputs > 1 else (),
            classes=labels if LINKS[link].kind == "classes" else (),
            reads_missing=reads_missing,
        )

    def on(self, features: Sequence[TreeFeature]) -> Trees:
        """Trees whose questions are about the codes of the features."""
        builder = TreeBuilder(features, len(self.intercept))
        numbers: dict[Question, int] = {}
        for tree in self.trees:
            for question in tree.questions:
                if question not in numbers:
                    feature = features[question.feature]
                    right = _goes_right(question, feature)
                    numbers[question] = builder.question(question.feature, right)
            questions = np.array([numbers[question] for question in tree.questions], np.int32)
            builder.add(questions, tree.children, tree.values)
        return builder.trees()


def _goes_right(question: Question, feature: TreeFeature) -> BoolArray:
    """Which codes of a feature go right, (n_codes,)."""
    right = np.array(question.right)
    if feature.groups is not None:
        by_code = np.empty(len(right), np.bool_)
        by_code[feature.groups] = right
    else:
        starts = np.searchsorted(feature.ends, question.ends) + 1
        by_code = np.repeat(right, np.diff([0, *starts, len(feature.ends) + 1]))
    return np.append(by_code, [question.unseen, question.missing])


def in_order(table: Table, names: Sequence[str] | None, n_features: int) -> Table:
    """Table with the columns of a model, in its order: found by name or, without, by position."""
    if names is not None and table.names is not None:
        return table if table.names == tuple(names) else table.reorder(names)
    if table.n_features != n_features:
        raise ValueError(
            f"X: the columns of the model's fit are needed, {n_features} of them, and X has "
            f"{table.n_features}. Pass the rows that the model was fitted to."
        )
    return table


def levels_of(table: Table, feature: int, known: Sequence[Any] = ()) -> tuple[Any, ...]:
    """Levels that a model knows, then those that only the table has."""
    return tuple(dict.fromkeys([*known, *table.levels(feature).levels]))


def link_of(objective: str, links: Mapping[str, str], asked: str | None) -> str:
    """Link of an objective, or the one that is asked for."""
    if asked is not None and asked not in LINKS:
        raise ValueError(
            f"link: must be one of {', '.join(LINKS)}, found {asked!r}. Pass one of these."
        )
    if asked is None and objective not in links:
        raise ValueError(
            f"model: the link of its objective {objective!r} is not known, so its raw scores have "
            "no meaning of their own. Say what they are, such as link='identity', which leaves "
            "them as they are."
        )
    return asked or links[objective]


def set_bits(words: Iterable[Any]) -> frozenset[int]:
    """Numbers whose bits are set in words of 32 bits, as libraries store sets of levels.

    >>> sorted(set_bits([5, 1]))
    [0, 2, 32]
    """
    bits = enumerate(map(int, words))
    return frozenset(
        WORD_BITS * place + bit
        for place, word in bits
        for bit in range(WORD_BITS)
        if word >> bit & 1
    )


def one_output(values: NDArray[Any], output: int, n_outputs: int) -> FloatArray:
    """Values (n, n_outputs) that are zero but in one output."""
    columns = np.zeros((len(values), n_outputs))
    columns[:, output] = values
    return columns


def refuse(what: str, remedy: str) -> NoReturn:
    """Refuse a model that has something which cannot be read."""
    raise ValueError(f"model: {what}, which cannot be read exactly. {remedy}")
