"""The card: kernels against plain torch; the same model as on the CPU, and repeatable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tpnn import TPNNClassifier, TPNNRegressor, datasets

needs_card = pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA card")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is an NVIDIA card")
def test_asking_for_an_absent_card(table: Any) -> None:
    X, y = table
    with pytest.raises(ValueError, match=r"^device: 'cuda' needs an NVIDIA card .* device='cpu'"):
        TPNNRegressor(device="cuda").fit(X, y)


@needs_card
@pytest.mark.parametrize(("order", "n_bags"), [(1, 1), (2, 1), (2, 8), (3, 3)])
def test_kernels_against_plain_torch(order: int, n_bags: int) -> None:
    from tpnn.cuda import CudaComponents

    generator = torch.Generator("cuda").manual_seed(order)
    draw = {"generator": generator, "device": "cuda"}
    n_rows, n_nodes = 50_003, 7
    codes = torch.randint(0, n_nodes, (5, n_rows), dtype=torch.uint8, **draw)
    features = torch.stack([torch.randperm(5, **draw)[:order] for _ in range(6)]).int()
    part = CudaComponents(codes, features, n_nodes)
    tables = torch.randn(6, n_nodes**order, n_bags, **draw)
    gradient = torch.randn(n_rows, n_bags, **draw)
    cells = torch.zeros(6, n_rows, dtype=torch.long, device="cuda")
    for axis in features.T.long():
        cells = cells * n_nodes + codes[axis].long()
    raw = torch.ones(n_rows, n_bags, device="cuda")
    part.gather(tables, raw)
    expected = 1 + sum(table[cell] for table, cell in zip(tables, cells, strict=True))
    assert torch.allclose(raw, expected, atol=1e-5)
    sums = torch.stack(
        [
            torch.zeros(n_nodes**order, n_bags, dtype=torch.double, device="cuda").index_add_(
                0, cell, gradient.double()
            )
            for cell in cells
        ]
    )
    assert torch.allclose(part.histogram(gradient).double(), sums, atol=1e-3)
    assert torch.equal(part.histogram(gradient), part.histogram(gradient))


@needs_card
@pytest.mark.parametrize("kind", [TPNNRegressor, TPNNClassifier])
@pytest.mark.parametrize("n_bags", [1, 4])
def test_same_model_as_on_the_cpu(kind: Any, n_bags: int) -> None:
    """While the loss falls with every step; later, rounding may choose between tied steps."""
    data = datasets.make_synthetic("f1", n_samples=4000, random_state=0)
    y = data.y if kind is TPNNRegressor else data.y > data.y.median()
    settings = {
        "solver": "gradient", "n_bags": n_bags, "max_steps": 10, "patience": 10, "random_state": 0,
        "verbose": 0,
    }  # fmt: skip
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
