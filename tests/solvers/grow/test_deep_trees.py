"""Deep trees on codes: questions, sums and steps are those of plain NumPy."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest

from tpnn.anova.components import InteractionRules
from tpnn.solvers.grow.deep_trees import (
    MOST_CODES,
    WEIGHTS,
    Meetings,
    Tree,
    TreeRules,
    _sampled,
    add_leaves,
    add_tree,
    grow_tree,
    meetings_of,
    unfold,
)

N_ROWS = 300
SIZES = np.array([2, 7, 5, 9, 4])
EVEN = np.ones(len(WEIGHTS))  # every row counts as it is
ANY = meetings_of(InteractionRules())
RULES = TreeRules(
    depth=4, is_oblivious=True, most_features=4, rate=0.1, ridge=1.0, column_share=1.0,
    largest_step=np.inf,
)  # fmt: skip
KINDS = [RULES, RULES._replace(is_oblivious=False)]
kinds = pytest.mark.parametrize("rules", KINDS, ids=["oblivious", "free"])


class Rows(NamedTuple):
    """Coded rows with their slopes."""

    codes: np.ndarray  # (n_columns, n)
    residual: np.ndarray  # (n, K)
    hessian: np.ndarray  # (n, K)
    features: np.ndarray = np.arange(len(SIZES))  # of the columns


def rows_of(n_outputs: int = 1, seed: int = 0, n_rows: int = N_ROWS) -> Rows:
    rng = np.random.default_rng(seed)
    codes = np.array([rng.integers(0, size, n_rows) for size in SIZES]).astype(np.uint8)
    shape = n_rows, n_outputs
    residual = rng.normal(size=shape) + 2.0 * (codes[1] > 3)[:, None] * (codes[2] > 2)[:, None]
    return Rows(codes, residual, rng.uniform(0.2, 2.0, shape))


def grown(
    rows: Rows, rules: TreeRules, meetings: Meetings = ANY, weights: Any = EVEN, seed: int = 0
) -> tuple[Tree, np.ndarray]:
    """A tree, and the leaf of every row."""
    n_columns, n_rows = rows.codes.shape
    space = np.empty((2, 1 << (rules.depth - 1), n_columns, rows.residual.shape[1], max(SIZES)),
                     np.int64)  # fmt: skip
    leaf_of = np.zeros(n_rows, np.int32)
    tree = grow_tree(
        rows.codes, SIZES, rows.features, meetings, rows.residual, rows.hessian, rules, weights,
        np.uint64(seed), space, leaf_of,
    )  # fmt: skip
    return Tree(*tree), leaf_of


def gain(rows: Rows, leaf: np.ndarray, right: np.ndarray, ridge: float) -> float:
    """What a question is worth to the rows of one leaf."""
    total = 0.0
    for side in (leaf & ~right, leaf & right):
        slope, mass = rows.residual[side].sum(0), rows.hessian[side].sum(0)
        total += float((slope**2 / (mass + ridge)).sum())
    return total


def best_question(rows: Rows, leaves: list[np.ndarray], permitted: Any, ridge: float) -> Any:
    """Try every column and every cut on some leaves that share the question."""
    best, question = 0.0, (0, MOST_CODES)
    for column, size in enumerate(SIZES):
        for cut in range(size - 1 if permitted(column) else 0):
            right = rows.codes[column] > cut
            worth = sum(gain(rows, leaf, right, ridge) for leaf in leaves)
            if worth > best * (1 + 1e-9):  # the first of equal ones
                best, question = worth, (column, cut)
    return question


def grown_slowly(rows: Rows, rules: TreeRules) -> tuple[Tree, np.ndarray]:
    """The tree of all best questions, level after level, with sums over the rows."""
    columns, cuts = list[int](), list[int]()
    leaf_of = np.zeros(rows.codes.shape[1], int)
    paths: list[set[int]] = [set()]
    for level in range(rules.depth):
        leaves = [leaf_of == leaf for leaf in range(1 << level)]
        shared = [leaves] if rules.is_oblivious else [[leaf] for leaf in leaves]
        asked = []
        for place, some in enumerate(shared):
            known = paths[place]

            def permitted(column: int, known: set[int] = known) -> bool:
                feature = int(rows.features[column])
                return feature in known or len(known) < rules.most_features

            is_enough = sum(map(np.count_nonzero, some)) >= 2
            question = (
                best_question(rows, some, permitted, rules.ridge) if is_enough else (0, MOST_CODES)
            )
            asked += [question] * len(some)
        columns += [column for column, _ in asked]
        cuts += [cut for _, cut in asked]
        goes = np.array([rows.codes[column] > cut for column, cut in asked])
        leaf_of = 2 * leaf_of + goes[leaf_of, np.arange(len(leaf_of))]
        new = [{int(rows.features[column])} if cut < MOST_CODES else set() for column, cut in asked]
        paths = [path | one for path, one in zip(paths, new, strict=True) for _ in range(2)]
    return Tree(np.array(columns), np.array(cuts), newton(rows, leaf_of, rules)), leaf_of


def newton(rows: Rows, leaf_of: np.ndarray, rules: TreeRules) -> np.ndarray:
    """Step of each leaf, (2**depth, K)."""
    leaves = [leaf_of == leaf for leaf in range(1 << rules.depth)]
    steps = [rows.residual[some].sum(0) / (rows.hessian[some].sum(0) + rules.ridge)
             for some in leaves]  # fmt: skip
    return rules.rate * np.clip(steps, -rules.largest_step, rules.largest_step)


def path_features(tree: Tree, features: np.ndarray) -> list[set[int]]:
    """Features that are asked about on the way to each leaf."""
    paths: list[set[int]] = [set()]
    for first in ((1 << level) - 1 for level in range(len(tree.values).bit_length() - 1)):
        nodes = range(first, 2 * first + 1)
        asked = [{int(features[tree.columns[n]])} if tree.cuts[n] < MOST_CODES else set()
                 for n in nodes]  # fmt: skip
        paths = [path | new for path, new in zip(paths, asked, strict=True) for _ in range(2)]
    return paths


@kinds
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_every_question_is_the_best_of_all(rules: TreeRules, n_outputs: int) -> None:
    """So the first is, and so are the sums of all children, of which one is a difference."""
    for seed in range(4):
        rows = rows_of(n_outputs, seed)
        for ridge, most in [(1.0, 4), (20.0, 2)]:
            strict = rules._replace(ridge=ridge, most_features=most)
            expected, leaf_of = grown_slowly(rows, strict)
            tree, its_leaf_of = grown(rows, strict)
            assert np.array_equal(tree.columns, expected.columns)
            assert np.array_equal(tree.cuts, expected.cuts)
            assert np.array_equal(its_leaf_of, leaf_of)
            assert np.allclose(tree.values, expected.values, rtol=1e-12)


@kinds
def test_few_rows_are_divided_until_they_are_alone(rules: TreeRules) -> None:
    rows = rows_of(n_rows=6)
    expected, leaf_of = grown_slowly(rows, rules)
    tree, its_leaf_of = grown(rows, rules)
    assert np.array_equal(its_leaf_of, leaf_of)
    assert np.allclose(tree.values, expected.values)
    if not rules.is_oblivious:  # a single row is asked nothing
        assert (tree.cuts == MOST_CODES).any()


@kinds
def test_rows_in_any_order_give_the_same_bits(rules: TreeRules) -> None:
    """Slopes are multiples of an eighth, so that no sum of them is rounded."""
    rows = rows_of(2)
    even = rows._replace(residual=rows.residual.round(1) // 0.125 * 0.125,
                         hessian=rows.hessian // 0.125 * 0.125)  # fmt: skip
    tree, leaf_of = grown(even, rules)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(N_ROWS)
        codes = np.ascontiguousarray(even.codes[:, order])
        moved = Rows(codes, even.residual[order], even.hessian[order])
        other, its_leaf_of = grown(moved, rules)
        assert all(np.array_equal(a, b) for a, b in zip(tree, other, strict=True))
        assert np.array_equal(its_leaf_of, leaf_of[order])


@kinds
def test_the_unit_of_the_slopes_does_not_matter(rules: TreeRules) -> None:
    rows = rows_of()
    tree, _ = grown(rows, rules)
    for unit in (2.0**-40, 2.0**40):
        other, _ = grown(rows._replace(residual=unit * rows.residual), rules)
        assert np.array_equal(other.columns, tree.columns)
        assert np.array_equal(other.cuts, tree.cuts)
        assert np.array_equal(other.values, unit * tree.values)


@kinds
def test_random_weights_choose_questions_and_no_values(rules: TreeRules) -> None:
    rows, questions = rows_of(), set()
    for seed in range(10):
        tree, leaf_of = grown(rows, rules, weights=WEIGHTS, seed=seed)
        again, _ = grown(rows, rules, weights=WEIGHTS, seed=seed)
        assert all(np.array_equal(a, b) for a, b in zip(tree, again, strict=True))
        assert np.allclose(tree.values, newton(rows, leaf_of, rules))
        questions.add((*tree.columns.tolist(), *tree.cuts.tolist()))
    assert len(questions) > 1


def test_weights_are_roots_of_exponential_ones() -> None:
    """Their mean is 1, and that of their squares 4 / pi."""
    assert WEIGHTS.mean() == pytest.approx(1, abs=1e-4)
    assert (WEIGHTS**2).mean() == pytest.approx(4 / np.pi, rel=0.01)
    assert WEIGHTS.min() > 0


@kinds
def test_steps_are_bounded(rules: TreeRules) -> None:
    rows = rows_of()
    strict = rules._replace(largest_step=0.25)
    tree, leaf_of = grown(rows, strict)
    assert np.abs(tree.values).max() == 0.25 * rules.rate
    assert np.allclose(tree.values, newton(rows, leaf_of, strict))


@kinds
def test_a_tree_without_residuals_is_a_leaf(rules: TreeRules) -> None:
    rows = rows_of(2)
    tree, leaf_of = grown(rows._replace(residual=np.zeros_like(rows.residual)), rules)
    assert len(tree.columns) == len(tree.cuts) == 0
    assert np.array_equal(tree.values, np.zeros((1, 2)))
    assert not leaf_of.any()


def test_all_leaves_of_a_level_ask_the_same_if_oblivious() -> None:
    for rules, is_one in zip(KINDS, [True, False], strict=True):
        tree, _ = grown(rows_of(), rules)
        level = np.column_stack([tree.columns, tree.cuts])[7:]
        assert (len(np.unique(level, axis=0)) == 1) == is_one


@kinds
def test_a_share_of_the_columns_is_asked_about(rules: TreeRules) -> None:
    """The first column says all; where another one is asked about, it was not drawn."""
    rows = rows_of()
    clear = rows._replace(residual=100.0 * (rows.codes[:1].T > 0) + rows.residual)
    one = rules._replace(depth=1)
    for share, count in [(1.0, 5), (0.6, 3), (1e-9, 1)]:
        drawn = one._replace(column_share=share)
        firsts = [grown(clear, drawn, seed=seed)[0].columns[0] for seed in range(300)]
        assert np.mean(np.array(firsts) == 0) == pytest.approx(count / 5, abs=0.09)
        assert len(set(firsts)) == (5 if count == 1 else 6 - count)


LIMITS = [
    InteractionRules(groups=((0, 1), (2, 3, 4))),
    InteractionRules(groups=((0, 1, 2), (2, 3))),
    InteractionRules(forbidden=((1, 2), (1, 3))),
    InteractionRules(forbidden=((0, 1, 2), (3, 4))),
    InteractionRules(groups=((0, 1, 2), (3, 4)), forbidden=((0, 1),)),
]


@kinds
@pytest.mark.parametrize("limits", LIMITS)
def test_every_path_obeys_the_rules_of_interactions(
    rules: TreeRules, limits: InteractionRules
) -> None:
    meetings = meetings_of(limits)
    permitted, others = list[bool](), list[bool]()
    for seed in range(20):
        rows = rows_of(seed=seed)
        for result, some in [(permitted, meetings), (others, ANY)]:
            tree, _ = grown(rows, rules, some)
            paths = path_features(tree, rows.features)
            result += [limits.permit(tuple(sorted(path))) for path in paths if path]
    assert all(permitted)
    assert not all(others)


@kinds
@pytest.mark.parametrize("most", [1, 2, 3])
def test_every_path_has_few_features(rules: TreeRules, most: int) -> None:
    """Columns of one feature count once."""
    features = np.array([0, 1, 1, 2, 3])
    sizes = set()
    for seed in range(20):
        tree, _ = grown(rows_of(seed=seed)._replace(features=features),
                        rules._replace(most_features=most))  # fmt: skip
        sizes |= {len(path) for path in path_features(tree, features)}
    assert max(sizes) == most


CELLS = np.array(list(product(*(range(size) for size in SIZES[:3])))).T.astype(np.uint8)


@kinds
def test_added_trees_have_the_values_of_their_leaves(rules: TreeRules) -> None:
    rows = rows_of(2)
    tree, leaf_of = grown(rows, rules)
    start = np.random.default_rng(0).normal(size=rows.residual.shape)
    by_codes, by_leaves = start.copy(), start.copy()
    add_tree(rows.codes, *tree, by_codes)
    add_leaves(tree.values, leaf_of, by_leaves)
    assert np.array_equal(by_codes, start + tree.values[leaf_of])
    assert np.array_equal(by_codes, by_leaves)


def random_tree(seed: int, depth: int = 4) -> Tree:
    """Questions at random, some about what is known and some that divide nothing."""
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, 3, (1 << depth) - 1)
    cuts = np.array([rng.choice([*range(SIZES[c] - 1), MOST_CODES]) for c in columns])
    return Tree(columns, cuts, np.arange(float(1 << depth))[:, None])


@pytest.mark.parametrize("seed", range(5))
def test_an_unfolded_tree_is_the_same_function_without_idle_questions(seed: int) -> None:
    tree = random_tree(seed)
    nodes, children, leaves = unfold(tree.columns, tree.cuts)
    expected = np.zeros((CELLS.shape[1], 1))
    add_tree(CELLS, *tree, expected)
    answers = {node: set[bool]() for node in range(len(nodes))}
    reached = []
    for cell, value in zip(CELLS.T, expected[:, 0], strict=True):
        place = 0 if len(nodes) else -1
        while place >= 0:
            node = nodes[place]
            goes_right = bool(cell[tree.columns[node]] > tree.cuts[node])
            answers[place].add(goes_right)
            place = children[place, int(goes_right)]
        assert tree.values[leaves[-1 - place], 0] == value
        reached.append(-1 - place)
    assert all(len(both) == 2 for both in answers.values())
    assert set(reached) == set(range(len(leaves)))
    assert len(leaves) == len(nodes) + 1


def test_a_tree_that_divides_nothing_unfolds_to_its_first_leaf() -> None:
    nodes, children, leaves = unfold(np.zeros(7, int), np.full(7, MOST_CODES))
    assert len(nodes) == len(children) == 0
    assert leaves.tolist() == [0]


def test_sets_of_features_are_padded() -> None:
    meetings = meetings_of(InteractionRules(groups=((0, 1), (2, 3, 4))))
    assert meetings.listed.tolist() == [[0, 1, -1], [2, 3, 4]]
    assert len(meetings.forbidden) == 0


def test_required_interactions_widen_groups_and_limit_nothing_else() -> None:
    required = InteractionRules(required=((0, 1),))
    assert len(meetings_of(required).listed) == 0
    grouped = replace(required, groups=((1, 2),))
    assert meetings_of(grouped).listed.tolist() == [[1, 2], [0, 1]]


def test_where_no_column_is_permitted_none_is_drawn() -> None:
    for share in (0.0, 0.5, 1.0):
        assert not _sampled(np.zeros(3, bool), share, np.uint64(1)).any()
        drawn = _sampled(np.array([True, False, True, True]), share, np.uint64(1))
        assert drawn.sum() == max(math.ceil(3 * share), 1)
        assert not drawn[1]
