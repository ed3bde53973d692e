"""The core: variances are those of brute force, and the largest components come with all below."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from tests.models import random_trees
from tpnn._utils.threads import Workers
from tpnn.anova.boxes import Boxes
from tpnn.anova.core import CoreRules, core_of, variances
from tpnn.anova.trees import TreeFeature
from tpnn.table.axis import Axis

N_FEATURES, N_VALUES = 3, 4
SUBSETS = [s for d in range(1, N_FEATURES + 1) for s in combinations(range(N_FEATURES), d)]
SIZES = {(0, 1): 5.0, (2,): 3.0, (0,): 2.0, (1, 2, 3): 1.0, (1,): 0.5, (3,): 0.25}


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_variances_equal_brute_force(n_outputs: int) -> None:
    """Means over whole axes of the mean of two bags, on all cells."""
    masses = np.random.default_rng(0).dirichlet(np.full(N_VALUES, 3.0), N_FEATURES)
    axes = [Axis(np.arange(float(N_VALUES)), mass) for mass in masses]
    ends = np.arange(N_VALUES - 1) + 0.5
    features = [TreeFeature(ends, None, np.append(mass, [0.0, 0.0])) for mass in masses]
    bags = [random_trees(features, n_outputs, n_trees=8, depth=4, seed=seed) for seed in (1, 2)]
    cells = np.array(list(product(range(N_VALUES), repeat=N_FEATURES)), float)
    whole = sum(trees.scores(list(cells.T)) for trees in bags) / 2
    grid = whole.reshape(*[N_VALUES] * N_FEATURES, n_outputs)
    with Workers(2) as workers:
        found = variances([Boxes.of(trees) for trees in bags], axes, 3, workers)
    expected = {}
    for subset in SUBSETS:
        component, weights = grid, np.ones(())
        for axis in range(N_FEATURES):
            mean = np.expand_dims(np.tensordot(component, masses[axis], (axis, 0)), axis)
            component = component - mean if axis in subset else mean
        for axis in subset:
            weights = np.multiply.outer(weights, masses[axis])
        squares = (component**2).mean(-1).reshape(weights.shape)
        expected[subset] = float((weights * squares).sum())
    assert found == pytest.approx(expected)
    assert list(found.values()) == sorted(found.values(), reverse=True)


def test_components_come_with_all_their_subsets() -> None:
    core = core_of(SIZES, CoreRules(share=1.0, most=100, order=3))
    assert set(core) == {s for whole in SIZES for d in (1, 2, 3) for s in combinations(whole, d)}


def test_a_core_ends_when_it_carries_enough() -> None:
    """The pair brings its two features, 7.5 of 11.75 together; the next one makes it 10.5."""
    assert set(core_of(SIZES, CoreRules(0.6, 100, 3))) == {(0,), (1,), (0, 1)}
    assert set(core_of(SIZES, CoreRules(0.65, 100, 3))) == {(0,), (1,), (2,), (0, 1)}


def test_what_would_be_too_many_is_passed_over() -> None:
    """With room for two, the pair and its features stay out."""
    assert set(core_of(SIZES, CoreRules(1.0, 2, 3))) == {(2,), (0,)}
    for most in range(12):
        assert len(core_of(SIZES, CoreRules(1.0, most, 3))) <= most


def test_no_component_has_more_features_than_the_order() -> None:
    assert max(map(len, core_of(SIZES, CoreRules(1.0, 100, 2)))) == 2


def test_what_is_required_is_there_however_small_the_core() -> None:
    core = core_of(SIZES, CoreRules(0.0, 1, 2, required=((1, 2, 3),)))
    assert set(core) == {s for d in (1, 2, 3) for s in combinations((1, 2, 3), d)}
