"""The kernels of the card against plain torch and NumPy: on it, or by Triton's interpreter.

The interpreter runs the same kernels on the CPU. It must be chosen before triton is imported, so
the tests that need it are run in a process of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
if TYPE_CHECKING:
    from tpnn.solvers.descent.cuda import CudaComponents


def is_old(package: str, *least: int) -> bool:
    """Whether a package is installed in a version before the given one."""
    if find_spec(package) is None:
        return False
    return tuple(map(int, version(package).split(".")[:2])) < least


CARD = torch.cuda.is_available()
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"
N_ROWS = 503 if INTERPRETED else 50_003  # no multiple of a block
N_FEATURES, N_COMPONENTS, N_NODES = 5, 4, 5

needs_kernels = pytest.mark.skipif(
    not (CARD or INTERPRETED), reason="no NVIDIA card; see test_all_of_these_by_the_interpreter"
)
sizes = pytest.mark.parametrize(("order", "n_bags"), [(1, 1), (2, 1), (2, 8), (3, 3)])


@pytest.mark.skipif(INTERPRETED, reason="this is the interpreter")
@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
@pytest.mark.skipif(is_old("triton", 3, 7), reason="Triton's interpreter needs 3.7 with new NumPy")
def test_all_of_these_by_the_interpreter() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert " passed" in run.stdout  # and not only skipped


def _components(order: int, codes: Any) -> tuple[CudaComponents, Any]:
    """Return components over codes (n_features, n_rows), and the cell of each row in each."""
    from tpnn.solvers.descent.cuda import CudaComponents

    rng = np.random.default_rng(order)
    features = np.stack([rng.permutation(N_FEATURES)[:order] for _ in range(N_COMPONENTS)])
    cells = np.zeros((N_COMPONENTS, codes.shape[1]), np.int64)
    for axis in features.T:
        cells = cells * N_NODES + codes[axis]
    on_device = torch.tensor(codes, device=DEVICE)
    part = CudaComponents(on_device, torch.tensor(features, device=DEVICE).int(), N_NODES)
    return part, torch.tensor(cells, device=DEVICE)


def _codes(dtype: Any = np.uint8) -> Any:
    return np.random.default_rng(0).integers(N_NODES, size=(N_FEATURES, N_ROWS)).astype(dtype)


def _normal(*shape: int) -> Any:
    return torch.tensor(np.random.default_rng(1).standard_normal(shape), device=DEVICE).float()


def _sums(cells: Any, gradient: Any, order: int) -> Any:
    """Sum by ``index_add_`` in double precision, (n_components, n_cells, n_bags)."""
    empty = gradient.new_zeros(N_NODES**order, gradient.shape[1], dtype=torch.double)
    return torch.stack([empty.index_add(0, cell, gradient.double()) for cell in cells])


@needs_kernels
@sizes
def test_gather_adds_the_entries_of_the_tables(order: int, n_bags: int) -> None:
    part, cells = _components(order, _codes(np.int32 if order == 2 else np.uint8))
    tables = _normal(N_COMPONENTS, N_NODES**order, n_bags)
    raw = _normal(N_ROWS, n_bags)
    expected = raw + sum(table[cell] for table, cell in zip(tables, cells, strict=True))
    part.gather(tables, raw)
    assert torch.allclose(raw, expected, atol=1e-5)


@needs_kernels
@sizes
def test_histogram_sums_the_rows_of_every_cell(order: int, n_bags: int) -> None:
    part, cells = _components(order, _codes())
    gradient = _normal(N_ROWS, n_bags)
    found = part.histogram(gradient)
    assert torch.allclose(found.double(), _sums(cells, gradient, order), atol=1e-3)
    assert torch.equal(found, part.histogram(gradient))


@needs_kernels
def test_histogram_of_whole_numbers_is_exact_whatever_the_order_of_the_rows() -> None:
    rng = np.random.default_rng(2)
    codes, whole = _codes(), rng.integers(-9, 10, size=(N_ROWS, 1))
    expected = [
        np.bincount(cell, whole[:, 0], N_NODES**2)
        for cell in _components(2, codes)[1].cpu().numpy()
    ]
    for rows in (np.arange(N_ROWS), rng.permutation(N_ROWS)):
        part, _ = _components(2, codes[:, rows])
        found = part.histogram(torch.tensor(whole[rows], device=DEVICE).float())
        assert np.array_equal(found[:, :, 0].cpu().numpy(), expected)


@needs_kernels
def test_rows_that_are_all_alike_fill_one_cell() -> None:
    codes = np.full((N_FEATURES, N_ROWS), 3, np.uint8)
    part, _ = _components(2, codes)
    sums = part.histogram(torch.ones(N_ROWS, 2, device=DEVICE))
    expected = torch.zeros_like(sums)
    expected[:, 3 * N_NODES + 3] = N_ROWS
    assert torch.equal(sums, expected)


@needs_kernels
def test_gather_and_histogram_are_adjoint() -> None:
    """<gather(T), g> = <T, histogram(g)>, exactly for whole numbers."""
    rng = np.random.default_rng(3)
    part, _ = _components(2, _codes())
    tables = torch.tensor(rng.integers(-3, 4, (N_COMPONENTS, N_NODES**2, 2)), device=DEVICE).float()
    gradient = torch.tensor(rng.integers(-3, 4, (N_ROWS, 2)), device=DEVICE).float()
    raw = torch.zeros(N_ROWS, 2, device=DEVICE)
    part.gather(tables, raw)
    assert (raw * gradient).sum() == (tables * part.histogram(gradient)).sum()


@needs_kernels
def test_one_row() -> None:
    part, cells = _components(1, _codes()[:, :1])
    raw = torch.zeros(1, 1, device=DEVICE)
    tables = _normal(N_COMPONENTS, N_NODES, 1)
    part.gather(tables, raw)
    assert raw.item() == pytest.approx(sum(t[c].item() for t, c in zip(tables, cells, strict=True)))
