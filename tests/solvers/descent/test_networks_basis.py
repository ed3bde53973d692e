from __future__ import annotations

import pytest
import torch

from tpnn.solvers.descent.networks import centred_basis

torch_double = {"dtype": torch.float64}


def measure(seed: int, nodes: int = 9) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    positions = torch.rand(nodes, generator=generator, **torch_double).sort().values
    weights = torch.rand(nodes, generator=generator, **torch_double)
    return positions, weights / weights.sum()


def parameters(seed: int, bases: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    centres = torch.rand(bases, generator=generator, **torch_double)
    widths = 0.05 + torch.rand(bases, generator=generator, **torch_double)
    return centres.requires_grad_(), widths.requires_grad_()


@pytest.mark.parametrize("scale", ["centred", "paper"])
@pytest.mark.parametrize("activation", ["sigmoid", "relu"])
def test_bases_average_to_zero(activation: str, scale: str) -> None:
    positions, weights = measure(0)
    bases = centred_basis(positions, weights, *parameters(1), activation, scale)
    assert (weights @ bases).abs().max() < 1e-14


def test_paper_scale_is_the_formula_of_the_paper() -> None:
    positions, weights = measure(2)
    centres, widths = parameters(3)
    s = torch.sigmoid((positions[:, None] - centres) / widths)
    eta = weights @ s
    c = -(1 - eta) / eta
    expected = (1 - s) + c * s
    assert torch.allclose(
        centred_basis(positions, weights, centres, widths, scale="paper"), expected
    )


@pytest.mark.parametrize("scale", ["centred", "paper"])
@pytest.mark.parametrize("activation", ["sigmoid", "relu"])
def test_derivative_in_closed_form(activation: str, scale: str) -> None:
    positions, weights = measure(4)
    assert torch.autograd.gradcheck(
        lambda centres, widths: centred_basis(
            positions, weights, centres, widths, activation, scale
        ),
        parameters(5),
    )


def test_relu_basis_beyond_all_nodes_is_zero_not_infinite() -> None:
    positions, weights = measure(6)
    far = torch.full((1,), 5.0, **torch_double)
    bases = centred_basis(positions, weights, far, torch.ones_like(far), "relu", "paper")
    assert torch.equal(bases, torch.zeros_like(bases))
