"""Trees: a sum of decision trees, whose functional ANOVA is exact.

A tree asks questions about single features and ends in a leaf with one value for each output. The
values of a feature fall into codes, and a question is the set of codes that go right, so that
thresholds, sets of levels and the ways of missing values are all alike. ``tpnn.anova.boxes`` reads
the components of the sum off its leaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import BoolArray, FloatArray, Int32Array, IntArray

ROWS_PER_BLOCK = 128  # scored at a time, by all trees
LARGEST_BLOCK = 1 << 23  # values of trees or answers at a time; fewer rows where trees are many
MOST_QUESTIONS = 8  # of a tree that is tabulated: its answers are bits of one byte
MOST_PADDING = 4  # entries of a table for each leaf
FEWEST_COMPILED_ROWS = 500  # from which on compiled loops are worth loading


Codes = Mapping[int, IntArray | Int32Array]  # of rows, by feature


class TreeFeature(NamedTuple):
    """How the values of one feature become codes.

    Codes are 0, ..., n - 1 for values or levels, n for levels that fit has not seen, and n + 1 for
    missing values. They are in the order of the nodes of the feature's axes.
    """

    ends: FloatArray  # (n - 1,): largest value of each code but the last; empty for levels
    groups: Int32Array | None  # (n_levels,): code of each level of a feature without order
    masses: FloatArray  # (n + 2,): share of the training rows

    @property
    def n_codes(self) -> int:
        """Number of codes, those of unseen levels and missing values included."""
        return len(self.masses)

    def codes(self, x: FloatArray) -> Int32Array:
        """Code of each number as the encoder reads it: NaN is missing, inf an unseen level."""
        finite = np.isfinite(x)
        codes: NDArray[Any]
        if self.groups is None:
            codes = np.searchsorted(self.ends, x, side="left")
        else:
            codes = self.groups[np.where(finite, x, 0.0).astype(np.intp)]
        if not finite.all():
            odd = np.where(np.isnan(x), self.n_codes - 1, self.n_codes - 2)
            codes = np.where(finite, codes, odd)
        return codes.astype(np.int32)


@dataclass(frozen=True, repr=False)
class Trees:
    """A sum of trees. Its arrays are read-only."""

    features: tuple[TreeFeature, ...]  # all features of the model, in its order
    asked: Int32Array  # (n_questions,): feature that each question asks about
    right: BoolArray  # flat: for each question, for each code of its feature, whether it goes right
    roots: Int32Array  # (n_trees,): first node of each tree; a negative number n is leaf -1 - n
    questions: Int32Array  # (n_nodes,): question of each node
    children: Int32Array  # (n_nodes, 2): where to go from a node, left and right, as in ``roots``
    values: FloatArray  # (n_leaves, K)

    def __post_init__(self) -> None:
        for name in ("asked", "right", "roots", "questions", "children", "values"):
            getattr(self, name).flags.writeable = False

    def __repr__(self) -> str:
        return f"Trees({len(self.roots)} trees, {len(self.values)} leaves)"

    @property
    def arrays(self) -> list[NDArray[Any]]:
        """Arrays that the sum depends on; what is not asked about is left out."""
        features = [array for j in self.used for array in self.features[j] if array is not None]
        trees = self.right, self.roots, self.questions, self.children, self.values
        return [*features, *trees]

    @property
    def used(self) -> list[int]:
        """Features that some question asks about."""
        return sorted(set(self.asked.tolist()))

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def sizes(self) -> IntArray:
        """Number of codes that each question is about, (n_questions,)."""
        n_codes = np.array([feature.n_codes for feature in self.features], np.intp)
        return n_codes[self.asked]

    @cached_property
    def starts(self) -> IntArray:
        """Where the answers to each question begin in ``right``, (n_questions + 1,)."""
        return np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.intp)

    def each_question(self) -> Iterator[tuple[int, BoolArray]]:
        """Feature that each question asks about, and which of its codes go right."""
        for question, feature in enumerate(self.asked.tolist()):
            yield feature, self.right[self.starts[question] : self.starts[question + 1]]

    def scores(self, columns: Sequence[FloatArray]) -> FloatArray:
        """Sum of the trees on rows whose columns are numbers of the encoder, (n_rows, K).

        Columns of features that the trees do not ask for may be empty.
        """
        codes = {j: self.features[j].codes(columns[j]) for j in self.by_feature}
        return self.coded_scores(codes, max(map(len, columns)))

    def coded_scores(self, codes: Codes, n_rows: int) -> FloatArray:
        """Sum of the trees on rows of codes, by feature, (n_rows, K)."""
        scores, parts = np.zeros((n_rows, self.values.shape[1])), self._parts
        widest = max([len(part.roots) * scores.shape[1] for part in parts] + [len(self.asked)])
        step = min(max(LARGEST_BLOCK // max(widest, 1), 1), ROWS_PER_BLOCK)
        for start in range(0, n_rows, step):
            some = slice(start, start + step)
            here = {j: known[some] for j, known in codes.items()}
            answers = self._answers(here, len(scores[some]))
            for part in parts:
                scores[some] += part._part_scores(answers, n_rows >= FEWEST_COMPILED_ROWS)
        return scores

    @cached_property
    def _parts(self) -> list[Trees]:
        """Trees that ask few questions, and the others; either may be missing."""
        nodes, trees = self._reached
        asked = np.unique(trees * len(self.asked) + self.questions[nodes])
        n_asked = np.bincount(asked // max(len(self.asked), 1), minlength=len(self.roots))
        n_leaves = 1 + np.bincount(trees, minlength=len(self.roots))
        is_few = n_asked <= MOST_QUESTIONS
        is_few &= 1 << np.minimum(n_asked, MOST_QUESTIONS) <= MOST_PADDING * n_leaves
        parts = [replace(self, roots=self.roots[chosen]) for chosen in (is_few, ~is_few)]
        return [part for part in parts if len(part.roots)]

    def _part_scores(self, answers: BoolArray, are_many: bool) -> FloatArray:
        """Sum of these trees, given the answers (n_questions, n_rows), (n_rows, K)."""
        loops = compiled_loops() if are_many and not self.tables else None
        if loops is None:
            return _sum_in_order(self._values(answers))
        scores = np.zeros((answers.shape[1], self.values.shape[1]))
        arrays = self.roots, self.questions, self.children, self.values
        loops.add_scores(answers, *arrays, scores)
        return scores

    def _answers(self, codes: Codes, n_rows: int) -> BoolArray:
        """Whether each row goes right at each question, (n_questions, n_rows)."""
        answers = np.empty((len(self.asked), n_rows), np.bool_)
        for feature, (questions, right) in self.by_feature.items():
            answers[questions] = right.take(codes[feature], 1)
        return answers

    @cached_property
    def by_feature(self) -> dict[int, tuple[IntArray, BoolArray]]:
        """Questions about each feature, and which of its codes go right, (n_asked, n_codes)."""
        found = {}
        for feature in self.used:
            questions = np.flatnonzero(self.asked == feature)
            places = self.starts[questions, None] + np.arange(self.features[feature].n_codes)
            found[feature] = questions, self.right[places]
        return found

    def _values(self, answers: BoolArray) -> FloatArray:
        """Value of each tree, given the answers (n_questions, n_rows), (n_trees, n_rows, K)."""
        if self.tables is None:
            return self.values[self._leaves(answers)]
        asked, tables = self.tables
        bits = answers.view(np.uint8)
        number = bits.take(asked[0], 0)
        for place in range(1, len(asked)):
            number |= bits.take(asked[place], 0) << np.uint8(place)
        first = np.arange(len(self.roots)) << len(asked)
        return np.asarray(tables.take(first[:, None] + number, 0))

    def _leaves(self, answers: BoolArray) -> IntArray:
        """Leaf of each tree and row, (n_trees, n_rows)."""
        n_rows = answers.shape[1]
        node = np.repeat(self.roots[:, None].astype(np.intp), n_rows, axis=1)
        flat = np.flatnonzero(node >= 0)
        places = node.reshape(-1)
        while len(flat):  # one level deeper each time
            here = places[flat]
            goes_right = answers[self.questions[here], flat % n_rows]
            places[flat] = self.children[here, goes_right.astype(np.intp)]
            flat = flat[places[flat] >= 0]
        return -1 - node

    @cached_property
    def tables(self) -> tuple[IntArray, FloatArray] | None:
        """Trees as tables, where all of them ask few questions.

        Returns the questions (d, n_trees) of each tree, and its value (n_trees * 2**d, K) for each
        number whose bits are the answers; None if the tables would be much larger than the trees.
        """
        nodes, tree_of = self._reached
        keys, place = np.unique(
            tree_of * len(self.asked) + self.questions[nodes], return_inverse=True
        )
        trees, questions = np.divmod(keys, max(len(self.asked), 1))
        slots = np.arange(len(keys)) - np.searchsorted(trees, trees)
        depth = int(slots.max(initial=0)) + 1
        n_entries = len(self.roots) << depth
        if not len(keys) or depth > MOST_QUESTIONS or n_entries > MOST_PADDING * len(self.values):
            return None
        asked = np.zeros((depth, len(self.roots)), np.intp)
        asked[slots, trees] = questions
        every = (np.arange(1 << depth) >> np.arange(depth)[:, None] & 1).astype(np.bool_)
        slot_of = np.zeros(len(self.questions), np.int32)
        slot_of[nodes] = slots[place]
        by_slot = replace(self, questions=slot_of)
        return asked, self.values.take(by_slot._leaves(every).reshape(-1), 0)

    @cached_property
    def levels(self) -> list[tuple[Int32Array, IntArray]]:
        """Nodes of every level, and the trees that they are in."""
        levels = []
        here, tree = self.roots, np.arange(len(self.roots))
        while len(nodes := here[is_node := here >= 0]):
            levels.append((nodes, tree := tree[is_node]))
            here, tree = self.children[nodes].reshape(-1), np.repeat(tree, 2)
        return levels

    @property
    def _reached(self) -> tuple[IntArray, IntArray]:
        """All nodes of the trees, and the trees that they are in."""
        nodes, trees = (
            np.concatenate([np.zeros(0, np.intp), *(level[k] for level in self.levels)])
            for k in range(2)
        )
        return nodes, trees

    def pick(self, features: Sequence[int]) -> Trees:
        """Keep some features only; the others must not be asked about."""
        number = {feature: place for place, feature in enumerate(features)}
        asked = np.array([number[j] for j in self.asked.tolist()], np.int32)
        return replace(self, features=tuple(self.features[j] for j in features), asked=asked)

    def scaled(self, factors: FloatArray) -> Trees:
        """Trees whose values are multiplied by the factors (K,) of the outputs."""
        return replace(self, values=self.values * factors)


def _sum_in_order(values: FloatArray) -> FloatArray:
    """Sum values (n_trees, n_rows, K) tree after tree: a row has the same bits in any block.

    Single numbers NumPy would add in pairs.
    """
    n_trees, n_rows, n_outputs = values.shape
    flat = values.reshape(n_trees, -1)
    total: FloatArray = np.add.accumulate(flat)[-1] if flat.shape[1] == 1 else flat.sum(0)
    return total.reshape(n_rows, n_outputs)


@cache
def compiled_loops() -> Any:
    """Compiled loops over trees; None where there is no numba."""
    try:
        return import_module("tpnn.anova.trees_numba")
    except ImportError:
        return None


def joined(parts: Sequence[Trees]) -> Trees:
    """Sum of several sums of trees over the same features; equal questions become one."""
    first = parts[0]
    numbers: dict[tuple[int, bytes], int] = {}
    asked, right = list[int](), list[BoolArray]()
    roots, questions, children, values = [], [], [], []
    n_nodes, n_leaves = 0, 0
    for trees in parts:
        renumbered = np.empty(len(trees.asked), np.int32)
        for question, (feature, goes) in enumerate(trees.each_question()):
            key = feature, goes.tobytes()
            if key not in numbers:
                numbers[key] = len(asked)
                asked.append(feature)
                right.append(goes)
            renumbered[question] = numbers[key]
        roots.append(_moved(trees.roots, n_nodes, n_leaves))
        children.append(_moved(trees.children, n_nodes, n_leaves))
        questions.append(renumbered[trees.questions])
        values.append(trees.values)
        n_nodes, n_leaves = n_nodes + len(trees.questions), n_leaves + len(trees.values)
    return Trees(
        features=first.features,
        asked=np.array(asked, np.int32),
        right=np.concatenate([*right, np.zeros(0, np.bool_)]),
        roots=np.concatenate(roots),
        questions=np.concatenate(questions),
        children=np.concatenate(children),
        values=np.concatenate(values),
    )


def recoded(
    trees: Trees, features: Sequence[TreeFeature], codes: Mapping[int, tuple[int, IntArray]]
) -> Trees:
    """Write the same sum over other features.

    ``codes`` has, for each feature that is asked about, its new number and its old code for each
    of the new ones.
    """
    right, starts = [np.zeros(0, np.bool_)], trees.starts
    for question, feature in enumerate(trees.asked.tolist()):
        right.append(trees.right[starts[question] : starts[question + 1]][codes[feature][1]])
    asked = np.array([codes[feature][0] for feature in trees.asked.tolist()], np.int32)
    return replace(trees, features=tuple(features), asked=asked, right=np.concatenate(right))


def _moved(places: Int32Array, n_nodes: int, n_leaves: int) -> Int32Array:
    """Numbers of nodes and leaves that come after others."""
    return np.where(places >= 0, places + n_nodes, places - n_leaves).astype(np.int32)


class TreeBuilder:
    """Collects trees node by node."""

    def __init__(self, features: Sequence[TreeFeature], n_outputs: int) -> None:
        self.features = tuple(features)
        self._numbers: dict[tuple[int, bytes], int] = {}
        self._asked: list[int] = []
        self._right: list[BoolArray] = []
        self._roots: list[int] = []
        self._questions: list[Int32Array] = [np.zeros(0, np.int32)]
        self._children: list[Int32Array] = [np.zeros((0, 2), np.int32)]
        self._values: list[FloatArray] = [np.zeros((0, n_outputs))]
        self._n_nodes, self._n_leaves = 0, 0

    def question(self, feature: int, right: BoolArray) -> int:
        """Return the number of a question: which codes (n_codes,) of a feature go right."""
        key = feature, right.tobytes()
        if key not in self._numbers:
            self._numbers[key] = len(self._asked)
            self._asked.append(feature)
            self._right.append(right)
        return self._numbers[key]

    def leaf(self, value: FloatArray) -> int:
        """Add a leaf with a value for each output; return its place."""
        self._values.append(np.asarray(value, np.float64)[None])
        self._n_leaves += 1
        return -self._n_leaves

    def node(self, question: int, left: int, right: int) -> int:
        """Add a node above two places; return its place."""
        self._questions.append(np.array([question], np.int32))
        self._children.append(np.array([[left, right]], np.int32))
        self._n_nodes += 1
        return self._n_nodes - 1

    def add(self, questions: Int32Array, children: Int32Array, values: FloatArray) -> None:
        """Add a whole tree: questions (n,) and children (n, 2) of its nodes, values of its leaves.

        Its first node is its root. Places are counted within the tree.
        """
        n_nodes, n_leaves = self._n_nodes, self._n_leaves
        self._roots.append(n_nodes if len(questions) else -1 - n_leaves)
        self._questions.append(questions)
        self._children.append(_moved(children, n_nodes, n_leaves))
        self._values.append(values)
        self._n_nodes, self._n_leaves = n_nodes + len(questions), n_leaves + len(values)

    def root(self, place: int) -> None:
        """Say that a tree begins at a place."""
        self._roots.append(place)

    def trees(self) -> Trees:
        """Return all trees that were added."""
        return Trees(
            features=self.features,
            asked=np.array(self._asked, np.int32),
            right=np.concatenate([*self._right, np.zeros(0, np.bool_)]),
            roots=np.array(self._roots, np.int32),
            questions=np.concatenate(self._questions),
            children=np.concatenate(self._children),
            values=np.concatenate(self._values),
        )


def masses_of(feature: TreeFeature, x: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Share of the rows (n_rows,) that have each code of a feature; sums to one."""
    counts: FloatArray = np.bincount(feature.codes(x), weights, feature.n_codes).astype(np.float64)
    return counts / float(counts.sum())


def first_nodes(feature: TreeFeature, numbers: FloatArray) -> Int32Array:
    """First node of an axis whose code is at least c, for c = 0, ..., n_codes.

    ``numbers`` (M,) are the nodes as the encoder reads them. They count in the order of their
    codes, which is that of the nodes unless levels of several models share nodes.
    """
    codes = np.sort(feature.codes(numbers))
    return np.searchsorted(codes, np.arange(feature.n_codes + 1)).astype(np.int32)


def ranks_of_nodes(feature: TreeFeature, numbers: FloatArray) -> IntArray:
    """Place of each node (M,) in the order of their codes, as ``first_nodes`` counts them."""
    return np.argsort(np.argsort(feature.codes(numbers), kind="stable"))
