"""ComponentNetwork: turns (b, gamma, beta) into grids of values, batched by order and bag.

    f_S(u_S) = sum_k beta_{S,k} prod_{j in S} phi(u_j | b_{S,j,k}, gamma_{S,j,k})

evaluated on the nodes only. With shared bases (NBM-TPNN), b and gamma depend only on ``|S|`` and k,
while the centring constant is still that of each feature's own measure.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tpnn.anova.measure import Marginal
from tpnn.anova.terms import Terms
from tpnn.solvers.descent.basis import Activation, Scale, centred_basis

START_WIDTH = 0.1  # initial gamma, on the rank scale


class ComponentNetwork(nn.Module):
    """All components of one order, for all bags.

    Parameters
    ----------
    marginal : Marginal
        Nodes and masses of every feature at this order's resolution.
    features : tensor of shape (C, d), long
        Features of each component.
    centres : tensor of shape (B, C, d, K), or (B, 1, K) with shared bases
        Initial b of each basis on the rank scale, for B bags of K bases.
    shared_bases : bool
        Whether all components share their bases, as in NBM-TPNN.
    activation : {"sigmoid", "relu"}
        The function sigma.
    scale : {"centred", "paper"}
        Whether phi is divided by eta ("paper") or not ("centred").
    signs : tensor of shape (C,), optional
        1 or -1 for components that may only increase or decrease, else 0.
    """

    positions: Tensor  # (C, d, M), or (p, M) of the p distinct features with shared bases
    weights: Tensor  # as positions
    free: Tensor  # as positions
    features: Tensor  # (C, d)
    places: Tensor  # (C, d), of the features among the distinct ones
    signs: Tensor | None  # (C,)

    def __init__(
        self,
        marginal: Marginal,
        features: Tensor,
        centres: Tensor,
        shared_bases: bool,
        activation: Activation,
        scale: Scale,
        signs: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.register_buffer("signs", signs)
        n_bags, n_bases = centres.shape[0], centres.shape[-1]
        self.n_components = len(features)
        self.shared_bases, self.activation, self.scale = shared_bases, activation, scale
        distinct, places = _numbered(features)
        rows = distinct if shared_bases else features
        self.register_buffer("features", features)
        self.register_buffer("places", places)
        self.register_buffer("positions", torch.as_tensor(marginal.positions)[rows])
        self.register_buffer("weights", torch.as_tensor(marginal.weights)[rows])
        self.centres = nn.Parameter(centres)
        self.log_widths = nn.Parameter(torch.full_like(centres, START_WIDTH).log())
        self.coefficients = nn.Parameter(torch.zeros(n_bags, self.n_components, n_bases))
        self.register_buffer("free", torch.as_tensor(marginal.free)[rows])
        self.has_levels = bool(self.free.any())
        if self.has_levels:
            self.level_logits = nn.Parameter(_start_logits(n_bags, self.free.shape, n_bases))

    def bases(self, axis: int) -> Tensor:  # (B, C, M, K)
        """Centred bases of one axis of every component."""
        own = slice(None) if self.shared_bases else (slice(None), slice(None), axis)
        rows = slice(None) if self.shared_bases else (slice(None), axis)
        bases = centred_basis(
            self.positions[rows].to(self.centres),
            self.weights[rows].to(self.centres),
            self.centres[own],
            self.log_widths[own].exp(),
            self.activation,
            self.scale,
            self.free[rows] if self.has_levels else None,
            self.level_logits[own] if self.has_levels else None,
        )
        # NOTE[DIFF] shared bases are centred for each feature, not once for all of them.
        return bases[:, self.places[:, axis]] if self.shared_bases else bases

    def forward(self) -> Tensor:  # (C, M**d, B)
        """Grids of all components, with cells in row-major order and bags last."""
        order = self.features.shape[1]
        product = self.bases(0) * self.coefficients.unsqueeze(-2)
        for axis in range(1, order - 1):
            product = (product.unsqueeze(-2) * self.bases(axis).unsqueeze(-3)).flatten(2, 3)
        if order == 1:
            tables = product.sum(-1)
        else:
            tables = (product @ self.bases(order - 1).transpose(-1, -2)).flatten(2)
        return tables.permute(1, 2, 0)

    @torch.no_grad()
    def bind(self) -> None:
        """Keep every beta of a monotone component on one side of zero, as in the paper.

        phi decreases in u, so a component without a positive beta increases.
        """
        if self.signs is not None:
            signs = self.signs[:, None]
            wrong = self.coefficients * signs > 0
            self.coefficients.masked_fill_(wrong, 0.0)

    def terms(self) -> list[Terms]:
        """Bases of each component over all bags; their sum is the mean of the bags' grids."""
        n_bags, n_components, n_bases = self.coefficients.shape
        order = self.features.shape[1]
        shape = (n_bags, n_components, order, n_bases)
        inserted = [1] if self.shared_bases else []  # the axes of a component share their bases
        centres, widths = (
            parameter.reshape(*parameter.shape[:-1], *inserted, n_bases)
            for parameter in (self.centres, self.log_widths.exp())
        )
        by_component = [
            parameter.detach().expand(shape).permute(1, 2, 0, 3).flatten(2).double().numpy()
            for parameter in (centres, widths, self.coefficients.unsqueeze(2) / n_bags)
        ]  # each (C, d, B * K)
        return [
            Terms(tuple(component), b, gamma, beta[0])
            for component, b, gamma, beta in zip(self.features.tolist(), *by_component, strict=True)
        ]


def _numbered(features: Tensor) -> tuple[Tensor, Tensor]:
    """Distinct features in the order of the components, and the number of each among them.

    That order is canonical, so no sum or random number depends on the places of the columns.
    """
    every = features.flatten().tolist()
    number = {feature: place for place, feature in enumerate(dict.fromkeys(every))}
    places = torch.tensor([number[feature] for feature in every])
    return torch.tensor(list(number)), places.reshape(features.shape)


def _start_logits(n_bags: int, nodes: torch.Size, n_bases: int) -> Tensor:
    """Draw the initial logits of levels and missing values, (B, ..., M, K)."""
    generator = torch.Generator().manual_seed(n_bases)
    return torch.randn(n_bags, *nodes, n_bases, generator=generator)


def start_centres(
    n_components: int, order: int, n_bases: int, n_bags: int, shared_bases: bool, seed: int
) -> Tensor:  # (B, C, d, K), or (B, 1, K) with shared bases
    """Draw the initial b, uniform on the rank scale."""
    shape = (n_bags, 1, n_bases) if shared_bases else (n_bags, n_components, order, n_bases)
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))
