"""Components and Shapley values of trees equal brute force over all cells."""

from itertools import combinations

import numpy as np
import pytest

from tpnn.anova.boxes import Boxes
from tpnn.anova.trees import TreeBuilder, TreeFeature, Trees, joined, masses_of
from tpnn.table.axis import Axis
from tpnn.table.table import NOMINAL

N_FEATURES, N_LEVELS = 4, 5
SUBSETS = [s for d in range(1, N_FEATURES + 1) for s in combinations(range(N_FEATURES), d)]


def random_trees(rng, X, n_trees=12, depth=5):
    """Trees that ask for random sets of codes, so that intervals have holes."""
    features = []
    for x in X.T:
        feature = TreeFeature(np.arange(N_LEVELS - 1) + 0.5, None, np.ones(N_LEVELS + 2))
        features.append(feature._replace(masses=masses_of(feature, x)))
    builder = TreeBuilder(features, 2)

    def grow(depth):
        if depth == 0 or rng.random() < 0.1:
            return builder.leaf(rng.normal(size=2))
        feature = int(rng.integers(N_FEATURES))
        question = builder.question(feature, rng.random(N_LEVELS + 2) < 0.5)
        return builder.node(question, grow(depth - 1), grow(depth - 1))

    for _ in range(n_trees):
        builder.root(grow(depth))
    return builder.trees()


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(0)
    X = rng.integers(0, N_LEVELS, (300, N_FEATURES)).astype(float)
    trees = random_trees(rng, X)
    masses = [np.bincount(x.astype(int), minlength=N_LEVELS) / len(x) for x in X.T]
    return X, trees, masses


def every_component(trees: Trees, masses):
    """Means and components on all cells, by averaging over whole axes."""
    cells = np.stack(np.meshgrid(*[np.arange(N_LEVELS)] * N_FEATURES, indexing="ij"), -1)
    columns = list(cells.reshape(-1, N_FEATURES).T.astype(float))
    whole = trees.scores(columns).reshape(*[N_LEVELS] * N_FEATURES, 2)
    components = {}
    for subset in [(), *SUBSETS]:
        part = whole
        for axis in range(N_FEATURES):
            mean = np.expand_dims(np.tensordot(part, masses[axis], axes=(axis, 0)), axis)
            part = part - mean if axis in subset else mean
        components[subset] = part.reshape(*[N_LEVELS] * len(subset), 2)
    return components


def test_components_equal_brute_force(case):
    _, trees, masses = case
    axes = {d: [Axis(np.arange(float(N_LEVELS)), mass) for mass in masses] for d in (1, 2, 3)}
    wanted = [subset for subset in SUBSETS if len(subset) <= 3]
    constant, grids = Boxes.of(trees).components(wanted, axes)
    truth = every_component(trees, masses)
    np.testing.assert_allclose(constant, truth[()], atol=1e-12)
    for subset in wanted:
        np.testing.assert_allclose(grids[subset], truth[subset], atol=1e-12)


def test_shapley_values_equal_brute_force(case):
    X, trees, masses = case
    truth = every_component(trees, masses)
    phi = Boxes.of(trees).shapley(list(X[:5].T))
    expected = np.zeros_like(phi)
    for row, values in enumerate(X[:5].astype(int)):
        for subset in SUBSETS:
            share = truth[subset][tuple(values[list(subset)])] / len(subset)
            for feature in subset:
                expected[row, feature] += share
    np.testing.assert_allclose(phi, expected, atol=1e-12)


def test_shapley_values_sum_to_the_score_less_its_mean(case):
    X, trees, _ = case
    boxes = Boxes.of(trees)
    constant, _ = boxes.components([(0,)], {1: [Axis(np.arange(5.0), np.ones(5) / 5)] * 4})
    total = boxes.shapley(list(X[:20].T)).sum(1) + constant
    np.testing.assert_allclose(total, trees.scores(list(X[:20].T)), atol=1e-12)


def test_sums_have_the_same_bits_with_and_without_compiled_loops(case):
    X, trees, _ = case
    few = trees.scores(list(X.T))  # NumPy alone
    many = trees.scores([np.tile(x, 3) for x in X.T])  # compiled
    np.testing.assert_array_equal(many[: len(X)], few)
    np.testing.assert_array_equal(trees.scores(list(X[7:8].T)), few[7:8])


def test_joined_trees_add_up_and_share_questions(case):
    X, trees, _ = case
    twice = joined([trees, trees.scaled(np.array([2.0, -1.0]))])
    expected = trees.scores(list(X.T)) * [3.0, 0.0]
    np.testing.assert_allclose(twice.scores(list(X.T)), expected, atol=1e-12)
    assert len(twice.asked) == len(trees.asked)


def test_missing_values_and_unseen_levels_have_codes_of_their_own():
    feature = TreeFeature(np.array([0.5, 1.5]), None, np.ones(5) / 5)
    codes = feature.codes(np.array([0.5, 0.6, 9.0, np.inf, np.nan]))
    assert codes.tolist() == [0, 1, 2, 3, 4]
    levels = TreeFeature(np.empty(0), np.array([1, 0, 1], np.int32), np.ones(4) / 4)
    assert levels.codes(np.array([0.0, 1.0, 2.0, np.inf, np.nan])).tolist() == [1, 0, 1, 2, 3]


def test_a_row_is_in_one_box_of_each_tree():
    """Also where every way asks the same question twice, beside trees that ask it once."""
    n = 200
    feature = TreeFeature(np.arange(n) + 0.5, None, np.ones(n + 3) / (n + 3))
    builder = TreeBuilder([feature], 1)
    questions = [builder.question(0, np.arange(n + 3) > code) for code in range(n)]

    def stump(question):
        return builder.node(question, builder.leaf(np.ones(1)), builder.leaf(np.ones(1)))

    for question in questions:
        builder.root(builder.node(question, stump(question), stump(question)))
    for question in questions:
        builder.root(stump(question))
    boxes = Boxes.of(builder.trees())
    inside = boxes.members.reshape(-1, n + 3)[boxes.slots]  # a leaf is one interval
    assert (inside[: 4 * n].reshape(n, 4, n + 3).sum(1) == 1).all()
    assert (inside[4 * n :].reshape(n, 2, n + 3).sum(1) == 1).all()


def test_codes_need_not_be_in_the_order_of_the_nodes():
    masses = np.array([0.5, 0.3, 0.2, 0.0, 0.0])
    levels = TreeFeature(np.empty(0), np.array([2, 0, 1], np.int32), masses)
    axis = Axis(np.arange(3.0), np.array([0.2, 0.5, 0.3]), NOMINAL, groups=np.arange(3))
    builder = TreeBuilder([levels], 1)
    question = builder.question(0, np.array([True, False, True, False, False]))
    builder.root(builder.node(question, builder.leaf(np.ones(1)), builder.leaf(np.full(1, 3.0))))
    trees = builder.trees()
    constant, grids = Boxes.of(trees).components([(0,)], {1: [axis]})
    assert np.allclose(constant + grids[(0,)], trees.scores([axis.numbers]), atol=1e-12)


def test_a_leaf_without_questions_is_a_constant():
    builder = TreeBuilder([TreeFeature(np.array([0.5]), None, np.ones(4) / 4)], 1)
    builder.root(builder.leaf(np.array([2.5])))
    trees = builder.trees()
    assert trees.scores([np.zeros(3)]).tolist() == [[2.5]] * 3
    constant, _ = Boxes.of(trees).components([], {1: [Axis(np.arange(2.0), np.ones(2) / 2)]})
    assert constant.tolist() == [2.5]


@pytest.mark.parametrize("name", ["shapley", "interactions"])
def test_shapley_values_without_compiled_loops(case, name, monkeypatch):
    X, trees, _ = case
    boxes = Boxes.of(trees)
    expected = getattr(boxes, name)(list(X[:20].T))
    monkeypatch.setattr("tpnn.anova.boxes.compiled_loops", lambda: None)
    np.testing.assert_allclose(getattr(boxes, name)(list(X[:20].T)), expected, atol=1e-13)


def test_shapley_values_of_a_way_through_many_features():
    n = 90
    builder = TreeBuilder([TreeFeature(np.array([0.5]), None, np.ones(4) / 4)] * n, 1)
    place = builder.leaf(np.array([1.0]))
    for feature in range(n):
        question = builder.question(feature, np.array([False, True, True, True]))
        place = builder.node(question, builder.leaf(np.array([0.0])), place)
    builder.root(place)
    row = list(np.ones((n, 1)))
    phi = Boxes.of(builder.trees()).shapley(row)
    np.testing.assert_allclose(phi, (1 - 0.75**n) / n, rtol=1e-10)
