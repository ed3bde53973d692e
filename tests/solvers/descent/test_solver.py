"""Descent: what the solver by gradient descent keeps, when it stops, and what it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="gradient descent needs torch")

from tests.conftest import told, with_solver  # noqa: E402
from tpnn import Descent, TPNNRegressor  # noqa: E402
from tpnn.solvers.descent.cpu import ONE_TORCH_THREAD  # noqa: E402


def test_history_tells_what_happened(table: Any, quick_descent: Any) -> None:
    X, y = table
    history = told(TPNNRegressor(**quick_descent, interactions="all").fit(X, y))
    assert [record["step"] for record in history] == list(range(41))
    assert history[-1]["training_loss"] < history[0]["training_loss"]
    assert all(set(record) == set(history[0]) for record in history)


def test_first_step_is_the_best_constant(table: Any, quick_descent: Any) -> None:
    """Before the first step the model is the constant: loss 1/2 on standardised targets."""
    X, y = table
    history = told(TPNNRegressor(**{**quick_descent, "n_bags": 8, "interactions": "all"}).fit(X, y))
    assert history[0]["training_loss"] == pytest.approx(0.5, rel=0.1)


def test_noise_is_not_learned(quick_descent: Any) -> None:
    """Without signal, early stopping goes back to the constant or very near it."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2000, 3)), rng.normal(size=2000)
    model = TPNNRegressor(**with_solver(quick_descent, max_steps=300, patience=20)).fit(X, y)
    assert model.predict(X).std() < 0.15
    assert len(told(model)) < 150


def test_patience_stops_every_bag(table: Any, quick_descent: Any) -> None:
    X, y = table
    model = TPNNRegressor(**with_solver(quick_descent, max_steps=5000, patience=5)).fit(X, y)
    assert 6 < len(told(model)) < 5000


def test_best_step_is_kept_not_the_last(table: Any, quick_descent: Any) -> None:
    """Training on after the best step changes nothing: the model is that of the best step."""
    X, y = table
    settings = {**with_solver(quick_descent, learning_rate=0.5, patience=150), "n_bags": 1}
    settings["interactions"] = "all"
    long = TPNNRegressor(**with_solver(settings, max_steps=150)).fit(X, y)
    losses = [record["validation_loss"] for record in told(long)]
    best = int(np.argmin(losses))
    assert best < 150
    short = TPNNRegressor(**with_solver(settings, max_steps=best)).fit(X, y)
    assert np.array_equal(short.predict(X), long.predict(X))


def test_torch_threads_are_given_back(table: Any, quick_descent: Any) -> None:
    X, y = table
    before = torch.get_num_threads()
    with ONE_TORCH_THREAD, ONE_TORCH_THREAD:
        assert torch.get_num_threads() == 1
    TPNNRegressor(**quick_descent).fit(X, y)
    assert torch.get_num_threads() == before


def test_repeated_fits_give_the_same_bits() -> None:
    """Small matrices in several threads: torch must not add threads of its own."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 7, (100, 2)).astype(float)
    y = rng.integers(0, 3, 100) + X[:, 0]
    model = TPNNRegressor(solver=Descent(max_steps=5), n_bags=1, random_state=0, verbose=0)
    first = model.fit(X, y).predict(X)
    assert all(np.array_equal(model.fit(X, y).predict(X), first) for _ in range(12))


@pytest.mark.parametrize(
    ("n_bases", "expected"), [("auto", [50, 100, 50, 20]), (7, [7] * 4), ({2: 3}, [50, 3, 50, 20])]
)
def test_number_of_bases(n_bases: Any, expected: list[int]) -> None:
    solver = Descent(n_bases=n_bases)
    assert [solver._bases(order) for order in (1, 2, 3, 4)] == expected


def test_the_memory_that_a_component_needs_grows_with_its_bases() -> None:
    few, many = Descent(n_bases=1), Descent(n_bases=100)
    assert few.bytes_per_component(2, 64) >= 8 * 64**2  # two tables in single precision
    assert many.bytes_per_component(2, 64) > few.bytes_per_component(2, 64)


@pytest.mark.parametrize("named", [True, False])
def test_shared_bases_do_not_depend_on_the_order_of_the_columns(
    table: Any, quick_descent: Any, named: bool
) -> None:
    """Missing values have random logits in the beginning, and slopes are sums over features."""
    X, y = table
    X = X.mask(np.random.default_rng(0).random(X.shape) < 0.1)
    X, moved = (Z if named else Z.to_numpy() for Z in (X, X.iloc[:, [2, 0, 3, 1]]))
    settings = with_solver(quick_descent, shared_bases=True)
    one, other = (TPNNRegressor(**settings).fit(Z, y) for Z in (X, moved))
    assert np.allclose(one.predict(X), other.predict(moved), rtol=1e-12)
