from __future__ import annotations

import numpy as np
import pytest

from tpnn.resampling import distinct_rows, draw_bags, row_keys


def keys_of(X: np.ndarray) -> np.ndarray:
    return row_keys(X.T, len(X))


def test_equal_rows_and_only_equal_rows_share_a_key() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (4000, 4)).astype(float)
    X[0, 0], X[1, 0] = 0.0, -0.0
    _, by_value = np.unique(X, axis=0, return_inverse=True)
    _, by_key = np.unique(keys_of(X), return_inverse=True)
    pairs = set(zip(by_value.tolist(), by_key.tolist(), strict=True))
    assert len(pairs) == by_value.max() + 1 == by_key.max() + 1


def test_copies_merge_and_weights_add_up() -> None:
    X = np.array([[1.0], [2.0], [1.0], [2.0], [3.0]])
    y = np.array([[5.0, 6.0, 5.0, 7.0, 8.0]])
    distinct = distinct_rows(keys_of(X), y, np.array([1.0, 1.0, 2.0, 1.0, 0.0]))
    found = {(X[r, 0], y[0, r]): w for r, w in zip(distinct.rows, distinct.weights, strict=True)}
    assert found == pytest.approx({(1.0, 5.0): 0.6, (2.0, 6.0): 0.2, (2.0, 7.0): 0.2})
    assert len(distinct.keys) == 2


def test_bags_do_not_depend_on_the_order_of_rows() -> None:
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(300, 2)), rng.normal(size=(1, 300))
    shuffle = rng.permutation(300)
    one = distinct_rows(keys_of(X), y, None)
    other = distinct_rows(keys_of(X[shuffle]), y[:, shuffle], None)
    assert np.array_equal(one.rows, shuffle[other.rows])
    for a, b in zip(draw_bags(one, 3, 0.2, 5), draw_bags(other, 3, 0.2, 5), strict=True):
        assert np.array_equal(a, b)


def test_rows_with_equal_features_stay_on_one_side() -> None:
    rng = np.random.default_rng(2)
    X = np.repeat(rng.normal(size=(200, 1)), 3, axis=0)
    distinct = distinct_rows(keys_of(X), rng.normal(size=(1, 600)), None)
    training, validation = draw_bags(distinct, 4, 0.25, 0)
    assert not (training * validation).any()
    held_out = validation > 0
    per_group = np.stack([np.bincount(distinct.groups, bag) for bag in held_out.T.astype(float)])
    assert set(np.unique(per_group)) == {0.0, 3.0}
    assert held_out.mean(0) == pytest.approx(np.full(4, 0.25), abs=0.01)
    assert training.sum(0) == pytest.approx(np.ones(4), rel=1e-5)
    assert validation.sum(0) == pytest.approx(np.ones(4), rel=1e-5)
    assert not np.array_equal(training[:, 0], training[:, 1])


def test_a_heavy_group_is_divided_between_the_sides() -> None:
    X = np.array([[0.0], [1.0]] * 50)
    distinct = distinct_rows(keys_of(X), np.zeros((1, 100)), None)
    training, validation = draw_bags(distinct, 2, 0.2, 0)
    assert np.allclose(training, 0.5)
    assert np.allclose(validation, 0.5)
