from __future__ import annotations

import numpy as np
import pytest
import torch

from tpnn.anova.measure import Marginal
from tpnn.solvers.descent.networks import ComponentNetwork, centred_basis, start_centres


def make(order: int, shared: bool, scale: str = "centred") -> tuple[ComponentNetwork, Marginal]:
    rng = np.random.default_rng(order)
    weights = [rng.dirichlet(np.ones(size)) for size in (4, 5, 3, 5)]
    marginal = Marginal.stack([np.cumsum(w) - w / 2 for w in weights], weights)
    features = {1: [[0], [2]], 2: [[0, 1], [3, 2]], 3: [[2, 0, 1], [1, 3, 2]]}[order]
    centres = start_centres(2, order, 6, 3, shared, seed=1)
    network = ComponentNetwork(
        marginal, torch.tensor(features), centres, shared, "sigmoid", scale
    ).double()
    with torch.no_grad():
        network.coefficients.normal_(generator=torch.Generator().manual_seed(0))
    return network, marginal


def by_hand(network: ComponentNetwork, marginal: Marginal, bag: int, index: int) -> torch.Tensor:
    """f_S on its nodes, term by term from ``terms`` of a network with one bag."""
    product: torch.Tensor | None = None
    for axis, feature in enumerate(network.features[index].tolist()):
        centres = (
            network.centres[bag, 0] if network.shared_bases else network.centres[bag, index, axis]
        )
        logs = network.log_widths
        widths = (logs[bag, 0] if network.shared_bases else logs[bag, index, axis]).exp()
        nodes = [torch.as_tensor(a[feature]) for a in (marginal.positions, marginal.weights)]
        phi = centred_basis(*nodes, centres, widths, "sigmoid", network.scale)
        product = phi if product is None else product.unsqueeze(-2) * phi
    assert product is not None
    return product @ network.coefficients[bag, index]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_tables_are_the_sum_of_products(order: int, shared: bool) -> None:
    network, marginal = make(order, shared)
    tables = network()
    assert tables.shape == (2, 5**order, 3)
    for bag in range(3):
        for index in range(2):
            expected = by_hand(network, marginal, bag, index).flatten()
            assert torch.allclose(tables[index, :, bag], expected)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("scale", ["centred", "paper"])
def test_terms_reproduce_the_mean_of_the_bags(shared: bool, scale: str) -> None:
    network, marginal = make(2, shared, scale)
    mean = network().mean(-1).detach()
    for index, terms in enumerate(network.terms()):
        axes = [
            centred_basis(
                torch.as_tensor(marginal.positions[feature]),
                torch.as_tensor(marginal.weights[feature]),
                torch.as_tensor(terms.b[axis]),
                torch.as_tensor(terms.gamma[axis]),
                "sigmoid",
                scale,
            )
            for axis, feature in enumerate(terms.features)
        ]
        table = (axes[0] * torch.as_tensor(terms.beta)) @ axes[1].T
        assert torch.allclose(table.flatten(), mean[index])


def test_shared_bases_have_parameters_that_do_not_grow_with_components() -> None:
    own, _ = make(2, shared=False)
    shared, _ = make(2, shared=True)
    assert shared.centres.numel() == 3 * 6
    assert own.centres.numel() == 3 * 2 * 2 * 6


def test_bound_components_rise_or_fall_whatever_the_parameters() -> None:
    """The paper's monotone main effects: the sign of beta decides."""
    marginal = Marginal.stack([np.linspace(0, 1, 9)] * 3, [np.full(9, 1 / 9)] * 3)
    signs = torch.tensor([1.0, -1.0, 0.0])
    network = ComponentNetwork(
        marginal, torch.arange(3)[:, None], start_centres(3, 1, 5, 2, False, 0), False, "sigmoid",
        "paper", signs,
    )  # fmt: skip
    with torch.no_grad():
        network.coefficients.normal_(generator=torch.Generator().manual_seed(0))
    network.bind()
    steps = np.diff(network().detach().numpy(), axis=1)  # (3, 8, 2)
    assert (steps[0] >= 0).all()
    assert (steps[1] <= 0).all()
    assert (steps[2] > 0).any()
    assert (steps[2] < 0).any()
