"""Trees: one sum, by tables, by descent and by compiled loops, with the same bits in any block."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.models import random_trees
from tpnn._utils.arrays import FloatArray
from tpnn.anova import trees as scoring
from tpnn.anova.trees import TreeFeature, Trees, joined

N_FEATURES, N_ROWS = 4, 700
Make = Callable[[int], Trees]


FEATURES = [TreeFeature(np.arange(8.0), None, np.ones(11) / 11) for _ in range(N_FEATURES)]


def oblivious_trees(n_outputs: int) -> Trees:
    """Trees of which each level asks one question."""
    return random_trees(FEATURES, n_outputs, n_trees=40, depth=5, is_oblivious=True)


def mixed_trees(n_outputs: int) -> Trees:
    """Trees of both kinds."""
    return joined([deep_trees(n_outputs), oblivious_trees(n_outputs), deep_trees(n_outputs)])


def deep_trees(n_outputs: int) -> Trees:
    """Trees that ask many questions each."""
    return random_trees(FEATURES, n_outputs, n_trees=20, depth=7)


@pytest.fixture
def columns() -> list[FloatArray]:
    rng = np.random.default_rng(0)
    values = rng.choice([*np.arange(-0.5, 9, 0.5), np.nan, np.inf], (N_FEATURES, N_ROWS))
    return list(values)


def walked(trees: Trees, row: list[float]) -> FloatArray:
    """Score of one row, node after node."""
    total = np.zeros(trees.values.shape[1])
    for place in trees.roots.tolist():
        while place >= 0:
            question = trees.questions[place]
            feature = trees.asked[question]
            code = trees.features[feature].codes(np.array([row[feature]]))[0]
            place = trees.children[place, int(trees.right[trees.starts[question] + code])]
        total += trees.values[-1 - place]
    return total


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("make", [oblivious_trees, deep_trees, mixed_trees])
def test_scores_are_those_of_a_walk(make: Make, n_outputs: int, columns: list[FloatArray]) -> None:
    trees = make(n_outputs)
    assert (trees.tables is None) == (make is not oblivious_trees)
    rows = np.column_stack(columns).tolist()
    truth = np.array([walked(trees, row) for row in rows])
    np.testing.assert_allclose(trees.scores(columns), truth, rtol=0, atol=1e-13)


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("make", [oblivious_trees, deep_trees, mixed_trees])
def test_every_way_has_the_same_bits(
    make: Make, n_outputs: int, columns: list[FloatArray], monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = make(n_outputs).scores(columns)
    one_by_one = [make(n_outputs).scores([x[row : row + 1] for x in columns]) for row in range(5)]
    assert np.array_equal(np.concatenate(one_by_one), truth[:5])
    monkeypatch.setattr(scoring, "LARGEST_BLOCK", 1)
    assert np.array_equal(make(n_outputs).scores(columns), truth)
    monkeypatch.setattr(scoring, "LARGEST_BLOCK", 1000)
    monkeypatch.setattr(scoring, "compiled_loops", lambda: None)
    assert np.array_equal(make(n_outputs).scores(columns), truth)


def test_tables_that_would_be_large_are_not_made() -> None:
    trees = oblivious_trees(1)
    many = np.concatenate([trees.roots, np.full(1000, -1, np.int32)])
    alone = replace(trees, roots=many)
    assert alone.tables is None


def test_no_trees_add_nothing(columns: list[FloatArray]) -> None:
    none = random_trees(FEATURES, 2, n_trees=0, depth=1)
    assert np.array_equal(none.scores(columns), np.zeros((N_ROWS, 2)))
    leaf = random_trees(FEATURES, 2, n_trees=1, depth=1)
    assert np.array_equal(leaf.scores(columns), np.tile(leaf.values, (N_ROWS, 1)))


def test_columns_that_are_not_asked_for_may_be_empty(columns: list[FloatArray]) -> None:
    trees = mixed_trees(2)
    shifted = replace(trees, features=(FEATURES[0], *trees.features), asked=trees.asked + 1)
    assert np.array_equal(shifted.scores([np.empty(0), *columns]), trees.scores(columns))


def test_a_pickle_has_no_tables(columns: list[FloatArray]) -> None:
    trees = oblivious_trees(1)
    before = len(pickle.dumps(trees))
    truth = trees.scores(columns)
    assert len(pickle.dumps(trees)) == before
    assert np.array_equal(pickle.loads(pickle.dumps(trees)).scores(columns), truth)
