"""Coded rows: the compiled gather and histogram against plain NumPy indexing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.solvers.problem.test_problem import problem_of
from tpnn.solvers.problem.coded import ROWS_PER_BLOCK, CodedComponents

Case = tuple[CodedComponents, np.ndarray, np.ndarray]


def cells(part: CodedComponents) -> np.ndarray:
    """Cell of every row in every component, (n_components, n_rows)."""
    shape = (part.n_nodes,) * part.features.shape[1]
    codes = part.codes.astype(np.intp)
    return np.array([np.ravel_multi_index(tuple(codes[s]), shape) for s in part.features])


def gathered(part: CodedComponents, tables: np.ndarray) -> np.ndarray:
    """Sum over the components of the tables at each row's cells, (n_rows, n_lanes)."""
    return np.sum([table[cell] for table, cell in zip(tables, cells(part), strict=True)], axis=0)


def summed(part: CodedComponents, gradient: np.ndarray) -> np.ndarray:
    """Gradient summed over the rows of every cell, (n_components, n_cells, n_lanes)."""
    sums = np.zeros((*part.shape, gradient.shape[1]))
    for table, cell in zip(sums, cells(part), strict=True):
        np.add.at(table, cell, gradient.astype(float))
    return sums


@pytest.fixture(params=[(1, 1), (1, 3), (2, 1), (2, 8), (3, 1), (3, 2), (4, 1)], ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    order, n_lanes = request.param
    rng = np.random.default_rng(order)
    n_rows, n_nodes = 2 * ROWS_PER_BLOCK + 37, 5
    dtype = np.uint8 if order < 3 else np.uint16
    codes = rng.integers(0, n_nodes, (4, n_rows)).astype(dtype)
    features = np.array([rng.permutation(4)[:order] for _ in range(6)])
    part = CodedComponents(codes, features, n_nodes)
    tables = rng.normal(size=(*part.shape, n_lanes)).astype(np.float32)
    return part, tables, rng.normal(size=(n_rows, n_lanes)).astype(np.float32)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("start", "stop"), [(0, None), (11, None), (11, 500), (ROWS_PER_BLOCK, ROWS_PER_BLOCK + 1)]
)
def test_gather(case: Case, start: int, stop: int | None, dtype: Any) -> None:
    """Rows from ``start`` on, as many as the raw scores have."""
    part, tables, raw = case
    rows = slice(start, stop)
    result = raw[rows].astype(dtype)
    part.gather(tables, start, result)
    expected = raw[rows] + gathered(part, tables)[rows]
    assert np.allclose(result, expected, atol=1e-5)
    assert result.dtype == dtype


def test_gathering_in_pieces_gives_the_same_bits(case: Case) -> None:
    part, tables, raw = case
    whole, pieces = raw.copy(), raw.copy()
    part.gather(tables, 0, whole)
    for start in range(0, len(raw), 700):
        part.gather(tables, start, pieces[start : start + 700])
    assert np.array_equal(whole, pieces)


def test_histogram(case: Case) -> None:
    part, _, gradient = case
    expected = summed(part, gradient)
    assert np.allclose(part.histogram(gradient, 0, 6), expected, atol=1e-3)
    assert np.array_equal(part.histogram(gradient, 2, 5), part.histogram(gradient, 0, 6)[2:5])


def test_histogram_of_whole_numbers_is_exact(case: Case) -> None:
    part, _, gradient = case
    whole = np.round(gradient)
    assert np.array_equal(part.histogram(whole, 0, 6), summed(part, whole))


def one_cell(values: list[float]) -> tuple[CodedComponents, np.ndarray]:
    """One component of one cell, and a gradient of one lane."""
    gradient = np.array(values, np.float32)[:, None]
    return CodedComponents(np.zeros((1, len(values)), np.uint8), np.array([[0]]), 1), gradient


def test_large_sums_see_small_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Single precision adds nothing to 2^24 that is below 2; only short sums are made in it."""
    monkeypatch.setattr("tpnn.solvers.problem.coded.ROWS_PER_SINGLE_SUM", 8)
    part, gradient = one_cell([2.0**24, *[1.0] * 999])
    found = part.histogram(gradient, 0, 1)
    assert found.dtype == np.float32
    assert abs(found[0, 0, 0] - (2.0**24 + 999)) <= 8


def test_whole_histogram(case: Case) -> None:
    part, _, gradient = case
    numbers = np.round(1000 * gradient).astype(np.int32)
    assert np.array_equal(part.whole_histogram(numbers, 0, 6), summed(part, numbers))
    largest = np.full_like(numbers, np.iinfo(np.int32).max)
    assert np.array_equal(part.whole_histogram(largest, 1, 3), summed(part, largest)[1:3])


def test_histogram_is_the_adjoint_of_gather(case: Case) -> None:
    part, tables, gradient = case
    raw = np.zeros_like(gradient)
    part.gather(tables, 0, raw)
    on_rows = np.vdot(raw.astype(float), gradient)
    on_tables = np.vdot(part.histogram(gradient, 0, 6).astype(float), tables)
    assert on_rows == pytest.approx(on_tables, rel=1e-4)


@pytest.mark.parametrize(("start", "step"), [(0, 1), (7, 1), (3, 4)])
@pytest.mark.parametrize("component", [(0,), (1, 0), (2, 0, 1)])
def test_values_and_sums_of_every_so_many_th_row(
    component: tuple[int, ...], start: int, step: int
) -> None:
    rng = np.random.default_rng(0)
    codes = problem_of(rng.normal(size=(60, 3)), rng.normal(size=60)).codes
    shape = tuple(codes.encoder.axes[len(component)][j].n_nodes for j in component)
    table, rows = rng.normal(size=shape), np.arange(len(codes.rows))[::step]
    values = np.ones(len(rows) - start)
    codes.add_values(component, table, start, step, values)
    assert np.array_equal(values, 1 + table[codes.cells(component, rows[start:])])
    of_rows, expected = rng.normal(size=len(rows)), np.zeros(shape)
    np.add.at(expected, codes.cells(component, rows), of_rows)
    assert np.allclose(codes.sums(component, shape, step, of_rows), expected, atol=1e-12)


def test_shares_of_a_grid_on_some_rows() -> None:
    rng = np.random.default_rng(0)
    codes = problem_of(rng.normal(size=(60, 3)), rng.normal(size=60)).codes
    shape = tuple(codes.encoder.axes[2][j].n_nodes for j in (2, 1))
    tables, rows = rng.normal(size=(*shape, 2, 3)), np.array([5, 0, 9])
    shares, values = np.array([0.5, 1.0, 0.25]), np.ones((len(codes.rows), 3))
    codes.add_shares((2, 1), tables, 1, rows, shares, values)
    expected = np.ones_like(values)
    expected[rows] += shares[:, None] * tables[codes.cells((2, 1), rows)][:, 1]
    assert np.allclose(values, expected)


def test_codes_are_coded_once_for_each_order() -> None:
    X = np.random.default_rng(0).normal(size=(50, 3))
    codes = problem_of(X, X[:, 0]).codes
    assert codes.by_order[2] is codes.by_order[2]
    assert codes.by_order[1].shape == (3, 50)
    assert codes.by_order[1].max() > codes.by_order[2].max()


def test_values_of_a_component_on_rows_and_lanes() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    problem = problem_of(X, X[:, 0])
    table = rng.normal(size=(5, 5, 4))  # nodes of a pair, four lanes
    first, second = problem.codes.cells((0, 2))
    whole = problem.codes.values((0, 2), table)
    assert np.array_equal(whole, table[first, second])
    rows, lanes = np.array([4, 9, 9]), np.array([[0, 1], [2, 3], [0, 1]])
    some = problem.codes.values((0, 2), table, rows, lanes)
    assert np.array_equal(some, np.take_along_axis(whole[rows], lanes, 1))
