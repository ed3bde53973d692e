"""Equations: posteriors by functions and by rows, against dense algebra and against each other."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tpnn.uncertainty.design import Span
from tpnn.uncertainty.equations import (
    Blocks,
    ByFunctions,
    ByRows,
    Equations,
    variances,
    widened,
)

Maker = Callable[[np.ndarray, np.ndarray], Equations]


def by_functions(rows: np.ndarray, response: np.ndarray) -> Equations:
    return ByFunctions(rows.T @ rows, rows.T @ response)


WAYS = pytest.mark.parametrize("way", [by_functions, ByRows])


def linear_model(n_rows: int, size: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows and observations of functions of very unequal size."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n_rows, size)) * np.geomspace(3, 0.03, size)
    return rows, rows @ rng.normal(size=size) + rng.normal(size=n_rows)


@WAYS
@pytest.mark.parametrize(("n_rows", "size"), [(30, 10), (7, 20)])
def test_the_posterior_is_the_dense_one(way: Maker, n_rows: int, size: int) -> None:
    rows, response = linear_model(n_rows, size)
    precision = np.linspace(0.5, 3.0, size)
    found = way(rows, response).solved(precision)
    covariance = np.linalg.inv(rows.T @ rows + np.diag(precision))
    assert found.covariance.matrix == pytest.approx(covariance, rel=1e-3, abs=1e-5)
    assert found.covariance.variances == pytest.approx(np.diag(covariance), rel=1e-3)
    assert found.mean == pytest.approx(covariance @ rows.T @ response, rel=1e-3, abs=1e-4)
    vector = np.linspace(-1, 1, size)
    assert found.covariance.times(vector) == pytest.approx(covariance @ vector, rel=1e-3, abs=1e-4)
    squares = np.einsum("ni,ij,nj->n", rows, covariance, rows)
    assert found.covariance.squares(rows) == pytest.approx(squares, rel=1e-3)
    part = found.of(np.array([7, 2]))
    assert part.covariance.matrix == pytest.approx(covariance[np.ix_([7, 2], [7, 2])], rel=1e-3)
    assert part.root() @ part.root().T == pytest.approx(part.covariance.matrix)


def test_rows_and_functions_choose_the_same_variances() -> None:
    """Of two components, one without effect, with few rows and many functions."""
    rows, _ = linear_model(60, 80)
    response = rows[:, :40] @ np.ones(40) + np.random.default_rng(1).normal(size=60)
    half = Span((np.zeros((2, 40)),) * 2, np.geomspace(1, 1e-3, 40), (np.ones(2),) * 2)
    blocks = Blocks.of([half, half])
    found = []
    for way in (by_functions, ByRows):
        equations = way(rows, response)
        tau = variances(equations, blocks)
        found.append((tau, widened(equations, blocks, tau)))
    for one, other in zip(*found, strict=True):
        assert one == pytest.approx(other, rel=2e-3)


@WAYS
def test_more_rows_of_the_same_kind_say_more(way: Maker) -> None:
    rows, response = linear_model(12, 9)
    precision = np.linspace(0.5, 3.0, 9)
    found = way(rows, response).scaled(3.0).solved(precision)
    thrice = way(np.tile(rows, (3, 1)), np.tile(response, 3)).solved(precision)
    assert found.mean == pytest.approx(thrice.mean)
    assert found.covariance.matrix == pytest.approx(thrice.covariance.matrix, abs=1e-12)


def seen(rows: np.ndarray) -> Any:
    """Rows as a design has them."""
    return SimpleNamespace(rows=rows, square=rows.T @ rows)


@WAYS
@pytest.mark.parametrize("n_left_out", [1, 5, 11])
def test_what_some_rows_did_not_say(way: Maker, n_left_out: int) -> None:
    """Fewer rows left out than functions, and more, against the dense matrix of the others."""
    rows, response = linear_model(40, 8)
    precision = np.linspace(0.5, 3.0, 8)
    covariance, values = way(rows, response).solved(precision).covariance, np.linspace(-1, 1, 8)
    others = rows[n_left_out:].T @ rows[n_left_out:] + np.diag(precision)
    expected = np.linalg.solve(others, values)
    assert covariance.without(seen(rows[:n_left_out]), values) == pytest.approx(expected, rel=2e-3)


@WAYS
def test_rows_that_claim_more_than_all_information_are_refused(way: Maker) -> None:
    rows, response = linear_model(40, 8)
    covariance = way(rows, response).solved(np.ones(8)).covariance
    for n_rows in (5, 40):
        with pytest.raises(np.linalg.LinAlgError, match="not positive"):
            covariance.without(seen(10 * rows[:n_rows]), np.ones(8))


def test_a_matrix_that_is_not_positive_is_refused() -> None:
    equations = ByFunctions(-2 * np.eye(3), np.ones(3))
    with pytest.raises(np.linalg.LinAlgError, match="not positive"):
        equations.solved(np.ones(3))


@WAYS
def test_constant_features_have_no_functions(way: Maker) -> None:
    found = way(np.empty((5, 0)), np.ones(5)).solved(np.empty(0))
    assert found.covariance.matrix.shape == (0, 0)
    assert found.covariance.squares(np.empty((2, 0))).tolist() == [0.0, 0.0]
