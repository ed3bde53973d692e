"""The numba kernels against plain torch indexing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tpnn.problem.coded import BLOCK, CodedComponents


def torch_cells(part: CodedComponents) -> torch.Tensor:
    """Cell of every row in every component, (C, n)."""
    codes = torch.as_tensor(part.codes.astype(np.int64))
    cells = torch.zeros(len(part.features), codes.shape[1], dtype=torch.long)
    for axis in torch.as_tensor(part.features).T:
        cells = cells * part.n_nodes + codes[axis]
    return cells


def torch_gather(part: CodedComponents, tables: torch.Tensor) -> torch.Tensor:
    """Oracle: sum over components of the tables at each row's cells, (n, B)."""
    return sum(table[cell] for table, cell in zip(tables, torch_cells(part), strict=True))


def torch_histogram(part: CodedComponents, gradient: torch.Tensor) -> torch.Tensor:
    """Oracle: the adjoint by autograd, (C, cells, B)."""
    tables = torch.zeros(*part.shape, gradient.shape[1], dtype=gradient.dtype, requires_grad=True)
    (adjoint,) = torch.autograd.grad(torch_gather(part, tables), tables, gradient)
    return adjoint


@pytest.fixture(params=[(1, 1), (1, 3), (2, 1), (2, 8), (3, 2)], ids=str)
def case(request: pytest.FixtureRequest) -> tuple[CodedComponents, np.ndarray, np.ndarray]:
    order, n_bags = request.param
    rng = np.random.default_rng(order)
    n_rows, n_nodes = 2 * BLOCK + 37, 5
    dtype = np.uint8 if order < 3 else np.uint16
    codes = rng.integers(0, n_nodes, (4, n_rows)).astype(dtype)
    features = np.array([rng.permutation(4)[:order] for _ in range(6)])
    part = CodedComponents(codes, features, n_nodes)
    tables = rng.normal(size=(*part.shape, n_bags)).astype(np.float32)
    return part, tables, rng.normal(size=(n_rows, n_bags)).astype(np.float32)


def test_gather(case: tuple[CodedComponents, np.ndarray, np.ndarray]) -> None:
    part, tables, raw = case
    start = 11
    result = raw[start:].copy()
    part.gather(tables, start, result)
    expected = raw[start:] + torch_gather(part, torch.as_tensor(tables)).numpy()[start:]
    assert np.allclose(result, expected, atol=1e-5)


def test_histogram(case: tuple[CodedComponents, np.ndarray, np.ndarray]) -> None:
    part, _, gradient = case
    expected = torch_histogram(part, torch.as_tensor(gradient)).numpy()
    assert np.allclose(part.histogram(gradient, 0, 6), expected, atol=1e-3)
    assert np.allclose(part.histogram(gradient, 2, 5), expected[2:5], atol=1e-3)


def test_histogram_is_the_adjoint_of_gather(
    case: tuple[CodedComponents, np.ndarray, np.ndarray],
) -> None:
    part, tables, gradient = case
    raw = np.zeros_like(gradient)
    part.gather(tables, 0, raw)
    on_rows = np.vdot(raw.astype(float), gradient)
    on_tables = np.vdot(part.histogram(gradient, 0, 6).astype(float), tables)
    assert on_rows == pytest.approx(on_tables, rel=1e-4)
