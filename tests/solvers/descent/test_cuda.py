"""The card: the same model as on the CPU, and repeatable. Its kernels: test_kernels.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tpnn import Descent, TPNNClassifier, TPNNRegressor, datasets

torch = pytest.importorskip("torch", reason="the card needs torch")

needs_card = pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA card")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is an NVIDIA card")
def test_asking_for_an_absent_card(table: Any) -> None:
    X, y = table
    with pytest.raises(ValueError, match=r"^device: 'cuda' needs an NVIDIA card .* device='cpu'"):
        TPNNRegressor(solver="gradient", device="cuda").fit(X, y)


@needs_card
@pytest.mark.parametrize("kind", [TPNNRegressor, TPNNClassifier])
@pytest.mark.parametrize("n_bags", [1, 4])
def test_same_model_as_on_the_cpu(kind: Any, n_bags: int) -> None:
    """While the loss falls with every step; later, rounding may choose between tied steps."""
    data = datasets.make_synthetic("f1", n_samples=4000, random_state=0)
    y = data.y if kind is TPNNRegressor else data.y > data.y.median()
    solver = Descent(max_steps=10, patience=10)
    settings = {"solver": solver, "n_bags": n_bags, "random_state": 0, "verbose": 0}
    cpu = kind(device="cpu", **settings).fit(data.X, y)
    card = kind(device="cuda", **settings).fit(data.X, y)
    again = kind(device="cuda", **settings).fit(data.X, y)
    one, other = (m.model_.raw_scores(data.X) for m in (cpu, card))
    assert np.abs(one - other).max() <= 1e-4 * np.std(one)
    assert all(
        np.array_equal(a, b) for a, b in zip(card.model_.tables, again.model_.tables, strict=True)
    )
    assert card.model_.identifiability_error() < 1e-12
    assert len(card.history_) == len(cpu.history_)
