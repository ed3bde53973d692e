from __future__ import annotations

import numpy as np
import pytest

from tpnn.solvers.problem.rows import (
    ROWS_PER_BLOCK,
    _drawn,
    distinct_rows,
    draw_bags,
    float_bits,
    row_keys,
    scrambled,
)


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


@pytest.mark.parametrize("n_threads", [1, 3])
def test_keys_mix_one_column_after_the_other(n_threads: int) -> None:
    X = np.random.default_rng(3).normal(size=(2 * ROWS_PER_BLOCK + 5, 19))
    X[::7, 3], X[::5, 4] = np.nan, -0.0
    expected = np.zeros(len(X), np.uint64)
    for column in X.T:
        own = scrambled(float_bits(column) + np.uint64(1))
        expected = scrambled(expected * np.uint64(0x9E3779B97F4A7C15) + own)
    assert np.array_equal(row_keys(X.T, len(X), n_threads), expected)


def test_rows_are_sorted_by_key_then_by_targets_and_weight() -> None:
    rng = np.random.default_rng(4)
    X = rng.integers(0, 30, (500, 1)).astype(float)
    targets, weights = rng.integers(0, 3, (2, 500)).astype(float), rng.integers(0, 3, 500) + 0.0
    distinct = distinct_rows(keys_of(X), targets, weights)
    kept = np.flatnonzero(weights)
    order = kept[np.lexsort((weights[kept], *targets[:, kept], keys_of(X)[kept]))]
    known = np.column_stack([X[order], targets.T[order]])
    first = np.r_[True, (known[1:] != known[:-1]).any(1)]
    assert np.array_equal(distinct.rows, order[first])
    merged = np.add.reduceat(weights[order], np.flatnonzero(first))
    assert np.array_equal(distinct.weights, merged / merged.sum())


def test_copies_merge_and_weights_add_up() -> None:
    X = np.array([[1.0], [2.0], [1.0], [2.0], [3.0]])
    y = np.array([[5.0, 6.0, 5.0, 7.0, 8.0]])
    distinct = distinct_rows(keys_of(X), y, np.array([1.0, 1.0, 2.0, 1.0, 0.0]))
    found = {(X[r, 0], y[0, r]): w for r, w in zip(distinct.rows, distinct.weights, strict=True)}
    assert found == pytest.approx({(1.0, 5.0): 0.6, (2.0, 6.0): 0.2, (2.0, 7.0): 0.2})
    assert distinct.groups.tolist() in ([0, 0, 1], [0, 1, 1])
    assert distinct.size == 5


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
    training, validation, _ = draw_bags(distinct, 4, 0.25, 0)
    assert not (training * validation).any()
    held_out = validation > 0
    per_group = np.stack([np.bincount(distinct.groups, bag) for bag in held_out.T.astype(float)])
    assert set(np.unique(per_group)) == {0.0, 3.0}
    assert held_out.mean(0) == pytest.approx(np.full(4, 0.25), abs=0.02)
    assert training.sum(0) == pytest.approx(np.ones(4), rel=1e-5)
    assert validation.sum(0) == pytest.approx(np.ones(4), rel=1e-5)
    assert not np.array_equal(training[:, 0], training[:, 1])


def test_size_counts_copies_but_not_copies_of_the_whole_table() -> None:
    X, y = np.array([[0.0], [1.0]] * 3 + [[2.0]]), np.zeros((1, 7))
    once = distinct_rows(keys_of(X), y, None)
    twice = distinct_rows(keys_of(np.tile(X, (2, 1))), np.tile(y, 2), None)
    assert once.size == twice.size == 7
    assert distinct_rows(keys_of(X), y, np.full(7, 0.3)).size == 7


def test_a_heavy_row_is_divided_between_the_sides() -> None:
    X = np.array([[0.0], [1.0]] * 50)
    distinct = distinct_rows(keys_of(X), np.zeros((1, 100)), None)
    training, validation, _ = draw_bags(distinct, 2, 0.2, 0)
    assert np.allclose(training, 0.5)
    assert np.allclose(validation, 0.5)


def test_a_heavy_group_is_split_by_its_targets() -> None:
    """Few distinct features and many targets: bags still hold out rows, and different ones."""
    rng = np.random.default_rng(0)
    distinct = distinct_rows(keys_of(np.array([[0.0], [1.0]] * 100)), rng.random((1, 200)), None)
    training, validation, sizes = draw_bags(distinct, 3, 0.2, 0)
    assert not (training * validation).any()
    assert not np.array_equal(training[:, 0], training[:, 1])
    assert sizes == pytest.approx(160, abs=1)


def test_a_lone_light_group_is_trained_on() -> None:
    X = np.array([[0.0]] * 95 + [[1.0]] * 5)
    distinct = distinct_rows(keys_of(X), X.T.copy(), None)
    training, _, _ = draw_bags(distinct, 4, 0.15, 0)
    assert (training > 0).all()


@pytest.mark.parametrize("fraction", [0.01, 0.5, 0.97, 0.999])
@pytest.mark.parametrize("n_rows", [2, 3, 11, 40])
def test_no_side_is_ever_empty(fraction: float, n_rows: int) -> None:
    X = np.arange(n_rows, dtype=float)[:, None]
    distinct = distinct_rows(keys_of(X), X.T.copy(), None)
    for side in draw_bags(distinct, 3, fraction, 1)[:2]:
        assert side.sum(0) == pytest.approx(np.ones(3), rel=1e-5)


def test_seeds_and_bags_draw_apart() -> None:
    X = np.arange(200.0)[:, None]
    distinct = distinct_rows(keys_of(X), X.T.copy(), None)
    splits = [draw_bags(distinct, 4, 0.2, seed)[0] for seed in range(4)]
    columns = {tuple(split[:, bag] > 0) for split in splits for bag in range(4)}
    assert len(columns) == 16


def test_named_groups_are_on_one_side_whatever_their_mass() -> None:
    rng = np.random.default_rng(5)
    groups = np.r_[np.zeros(200, int), rng.integers(1, 30, 300)]  # one has two fifths of the rows
    X = rng.integers(0, 5, (500, 2)).astype(float)
    distinct = distinct_rows(keys_of(X), rng.integers(0, 2, (1, 500)).astype(float), None, groups)
    owners = groups[distinct.rows]
    training, validation, _ = draw_bags(distinct, 20, 0.2, 0)
    assert ((training > 0) != (validation > 0)).all()
    for group in np.unique(groups):
        sides = validation[owners == group] > 0
        assert (sides == sides[0]).all()
    assert 0 < (validation[owners == 0][0] > 0).sum() < 20


def test_equal_rows_of_two_groups_are_two_rows_and_their_order_does_not_matter() -> None:
    rng = np.random.default_rng(6)
    X, y = rng.integers(0, 3, (60, 1)).astype(float), rng.integers(0, 2, (1, 60)).astype(float)
    groups, order = rng.integers(0, 4, 60), rng.permutation(60)
    one = distinct_rows(keys_of(X), y, None, groups)
    other = distinct_rows(keys_of(X[order]), y[:, order], None, groups[order])
    rows = np.column_stack([groups, X, y[0]])
    assert len(one.rows) == len(np.unique(rows, axis=0))
    assert np.array_equal(rows[one.rows], rows[order][other.rows])
    assert np.array_equal(one.weights, other.weights)
    assert np.array_equal(draw_bags(one, 3, 0.3, 1)[1], draw_bags(other, 3, 0.3, 1)[1])


@pytest.mark.parametrize("is_equal", [True, False])
@pytest.mark.parametrize("share", [0.01, 0.3, 0.99])
def test_the_first_units_by_key_are_drawn_until_they_carry_the_share(
    is_equal: bool, share: float
) -> None:
    rng = np.random.default_rng(4)
    keys = rng.permutation(50).astype(np.uint64)
    mass = np.full(50, 0.02) if is_equal else rng.random(50)
    expected, carried = [], 0.0
    for unit in np.argsort(keys).tolist():
        carried += mass[unit]
        if carried > share * mass.sum() and expected:
            break
        expected.append(unit)
    assert sorted(_drawn(keys, mass, share).tolist()) == sorted(expected)
