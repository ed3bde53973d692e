"""Shapley values: those of components are those of the game, by summing over all coalitions."""

from __future__ import annotations

import sys
from itertools import chain, combinations
from math import factorial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.anova.tables import random_axes, random_tables
from tpnn.anova.components import ComponentSet
from tpnn.anova.measure import purify_tables
from tpnn.anova.shapley import ShapValues, interaction_weights, packed, share, value_weights


def subsets(features: list[int]) -> list[tuple[int, ...]]:
    sizes = range(len(features) + 1)
    return list(chain.from_iterable(combinations(features, size) for size in sizes))


@pytest.fixture(scope="module")
def game() -> tuple[np.ndarray, list[tuple[int, ...]], dict[tuple[int, ...], float]]:
    """Scores of the components at a cell, and the value of each coalition of three features.

    The value is the mean of f over the features outside the coalition, under the product of the
    marginals.
    """
    rng = np.random.default_rng(0)
    axes = random_axes(rng, sizes=(4, 4, 4))
    tables = random_tables(rng, axes, order=3)
    intercept, pure = purify_tables(tables, axes)
    shape = [axis.n_nodes for axis in axes[1]]
    whole = intercept + sum(
        table.reshape([shape[j] if j in s else 1 for j in range(3)]) for s, table in pure.items()
    )
    cell = (1, 2, 0)
    scores = np.array([table[tuple(cell[j] for j in s)] for s, table in pure.items()])
    values = {}
    for coalition in subsets([0, 1, 2]):
        mean = whole
        for feature in reversed(range(3)):
            known = feature in coalition
            weights = np.eye(shape[feature])[cell[feature]] if known else axes[1][feature].weights
            mean = np.tensordot(mean, weights, axes=(feature, 0))
        values[coalition] = float(mean)
    return scores, list(pure), values


def test_values_are_those_of_the_game(game: tuple) -> None:
    scores, components, values = game
    found = share(scores[None], value_weights(components, 3))[0]
    for feature in range(3):
        others = [j for j in range(3) if j != feature]
        expected = 0.0
        for coalition in subsets(others):
            size = len(coalition)
            joined = tuple(sorted((*coalition, feature)))
            chance = factorial(size) * factorial(2 - size) / factorial(3)
            expected += chance * (values[joined] - values[coalition])
        assert found[feature] == pytest.approx(expected)
    assert found.sum() == pytest.approx(values[0, 1, 2] - values[()])


def test_interactions_are_those_of_the_game(game: tuple) -> None:
    """The Shapley interaction index, one half on either side of the diagonal."""
    scores, components, values = game
    found = share(scores[None], interaction_weights(components, 3))[0]
    for one, two in combinations(range(3), 2):
        (other,) = {0, 1, 2} - {one, two}
        index = 0.0
        for coalition in ((), (other,)):
            with_one, with_two, with_both = (
                values[tuple(sorted((*coalition, *added)))]
                for added in ((one,), (two,), (one, two))
            )
            index += 0.5 * (with_both - with_one - with_two + values[coalition])
        assert found[one, two] == found[two, one] == pytest.approx(index / 2)


@given(st.integers(1, 5), st.integers(1, 4))
def test_rows_of_the_matrix_sum_to_the_values(n_features: int, order: int) -> None:
    components = ComponentSet.up_to(n_features, order).components
    matrix = interaction_weights(components, n_features)
    assert np.allclose(matrix.sum(2), value_weights(components, n_features))
    assert np.array_equal(matrix, matrix.transpose(0, 2, 1))
    assert np.allclose(value_weights(components, n_features).sum(1), 1.0)


def test_outputs_are_shared_one_by_one() -> None:
    rng = np.random.default_rng(0)
    components = ComponentSet.up_to(3, 2).components
    scores = rng.normal(size=(7, len(components), 2))
    for weights in (value_weights(components, 3), interaction_weights(components, 3)):
        both = share(scores, weights)
        assert both.shape == (7, *weights.shape[1:], 2)
        for output in range(2):
            assert np.allclose(both[..., output], share(scores[..., output], weights))


def test_values_are_packed_for_shap(monkeypatch: pytest.MonkeyPatch) -> None:
    values, base, data = np.ones((2, 3)), np.zeros(2), np.full((2, 3), 5.0)
    shap = pytest.importorskip("shap")
    assert isinstance(packed(values, base, data, ("a", "b", "c")), shap.Explanation)
    monkeypatch.setitem(sys.modules, "shap", None)
    plain = packed(values, base, data, ("a", "b", "c"))
    assert isinstance(plain, ShapValues)
    assert plain.feature_names == ["a", "b", "c"]
    assert plain.values is values
