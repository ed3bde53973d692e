"""Compiled loops: bit for bit what NumPy computes, on every kind of axis and value."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models import small_model
from tpnn import TPNNRegressor
from tpnn.model.bundles import MAX_ROWS_ONE_BY_ONE, Bundle
from tpnn.model.flat import flatten_tables
from tpnn.model.interpolate import Predictor
from tpnn.model.interpolate_numba import CompiledCodes, CompiledTables
from tpnn.table.axis import Axis

ODD_VALUES = [0.0, -0.0, 1e300, -1e300, 5e-324, np.nan, np.inf, -np.inf, 1.0, 2.0]


def number_axis(rng: np.random.Generator, n_nodes: int, has_missing: bool) -> Axis:
    weights = np.full(n_nodes + has_missing, 1 / (n_nodes + has_missing))
    return Axis(np.sort(rng.normal(size=n_nodes)), weights, has_missing=has_missing)


def level_axis(rng: np.random.Generator, n_levels: int, has_missing: bool) -> Axis:
    n_nodes = max(n_levels - 1, 1)
    groups = np.minimum(rng.permutation(n_levels), n_nodes - 1)
    nodes = np.arange(float(n_nodes))
    weights = np.full(n_nodes + has_missing, 1 / (n_nodes + has_missing))
    return Axis(nodes, weights, "nominal", groups=groups, has_missing=has_missing)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), kinds=st.lists(st.booleans(), min_size=2, max_size=4))
def test_compiled_and_plain_scores_are_the_same_bits(seed: int, kinds: list[bool]) -> None:
    """Numbers and levels, with and without missing values, one node or many, orders 1 to 4."""
    rng = np.random.default_rng(seed)
    orders = range(1, len(kinds) + 1)
    sizes = rng.integers(1, 9, len(kinds))
    missing = rng.random(len(kinds)) < 0.5
    axes: dict[int, list[Axis]] = {order: [] for order in orders}
    columns = []
    for is_level, size, has_missing in zip(kinds, sizes, missing, strict=True):
        make = level_axis if is_level else number_axis
        for order in orders:
            axes[order].append(make(rng, int(size), bool(has_missing)))
        x = rng.integers(0, size, 50).astype(float) if is_level else rng.normal(size=50) * 2
        odd = [np.nan, np.inf] if is_level else ODD_VALUES
        columns.append(np.append(x, rng.choice(odd, 12)))
    components = [(0,), (1,), (0, 1), (0, 1, 2), (0, 1, 2, 3)][: len(kinds) + 1]
    tables = {s: rng.normal(size=[*(axes[len(s)][j].n_nodes for j in s), 2]) for s in components}
    flat = flatten_tables(tables)
    plain, compiled = np.zeros((len(flat), 62)), np.zeros((len(flat), 62))
    Predictor(axes, flat)._add_rows(columns, plain)
    CompiledTables(axes, flat).add_rows(columns, compiled)
    assert np.array_equal(plain, compiled)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_model_scores_many_rows_as_it_scores_few(order: int, all_compiled: None) -> None:
    model = small_model(order, n_outputs=2)
    X = np.random.default_rng(0).normal(size=(60_000, 3)) * 2
    X[:6] = [[v] * 3 for v in (0.0, 1e300, -1e300, 5e-324, model.axes((0,))[0].values[1], -0.0)]
    compiled, raw = model.component_scores(X), model.raw_scores(X)
    for few in (slice(0, 1), slice(0, 6), slice(6, 3000)):
        assert np.array_equal(model.component_scores(X[few]), compiled[few])
        assert np.array_equal(model.raw_scores(X[few]), raw[few])


@pytest.mark.parametrize("scale", [1e-306, 1e-320, 1e306])
def test_a_range_next_to_nothing_or_next_to_everything(scale: float, all_compiled: None) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 2)) * scale, rng.normal(size=200)
    model = TPNNRegressor(n_bags=1, random_state=0, verbose=0).fit(X, y).model_
    many = model.raw_scores(np.tile(X, (300, 1)))
    assert np.array_equal(many[:200], model.raw_scores(X))
    assert np.isfinite(many).all()


@pytest.mark.parametrize("sentinel", [-3.4e38, -1e16, 1e18, 1.7e308])
def test_a_value_far_from_all_others_does_not_hide_their_nodes(sentinel: float) -> None:
    """All other nodes then lie in one bucket, whichever end the far one is at."""
    rng = np.random.default_rng(0)
    axis = Axis(np.sort(np.append(rng.random(200), sentinel)), np.full(201, 1 / 201))
    x = np.append(rng.random(1000), sentinel)
    flat = flatten_tables({(0,): rng.normal(size=(201, 1))})
    plain, compiled = np.zeros((1, 1001)), np.zeros((1, 1001))
    Predictor({1: [axis]}, flat)._add_rows([x], plain)
    CompiledTables({1: [axis]}, flat).add_rows([x], compiled)
    assert np.array_equal(plain, compiled)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_compiled_codes_are_the_codes_of_the_bundles(seed: int) -> None:
    rng = np.random.default_rng(seed)
    axes = [
        (level_axis if rng.random() < 0.5 else number_axis)(rng, int(rng.integers(1, 4)), bool(m))
        for m in rng.integers(0, 2, 4)
    ]
    bundles = [Bundle([2, 0], [axes[2], axes[0]]), Bundle([3, 1], [axes[3], axes[1]])]
    values = [axis.numbers if axis.groups is None else range(len(axis.groups)) for axis in axes]
    n_rows = 2 * MAX_ROWS_ONE_BY_ONE
    columns = [rng.choice([*known, -0.0, 7.0, np.nan, np.inf], n_rows) for known in values]
    codes, known = CompiledCodes([bundle.points for bundle in bundles]).code(columns)
    whole = [bundle.code(columns) for bundle in bundles]
    assert np.array_equal(known, np.logical_and(whole[0][1], whole[1][1]))
    for row, (bundle, (code, are_nodes)) in enumerate(zip(bundles, whole, strict=True)):
        assert np.array_equal(codes[row], code)
        few = [bundle.code([column[i : i + 7] for column in columns]) for i in range(0, n_rows, 7)]
        assert np.array_equal(np.concatenate([part for part, _ in few]), code)
        assert np.array_equal(np.concatenate([part for _, part in few]), are_nodes)
