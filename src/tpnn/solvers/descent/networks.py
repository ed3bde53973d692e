"""Networks of the components of one order, made of bases that are centred on the nodes.

With s(u) = sigma((u - b) / gamma) and eta = E_mu[s], the paper's basis is

    phi(u | b, gamma) = 1 - s(u) + c s(u),   c = -(1 - eta) / eta,

which equals (eta - s(u)) / eta: a centred sigmoid, negated and divided by its mean. eta is a dot
product with the node masses, so phi averages to zero exactly at every step. Nothing else enforces
the sum-to-zero condition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from tpnn._utils.arrays import IntArray, RealArray
from tpnn._utils.threads import split
from tpnn.anova.measure import Marginal
from tpnn.anova.terms import Terms
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.solution import Event, Solution

Activation = Literal["sigmoid", "relu"]
Scale = Literal["centred", "paper"]

SMALLEST_ETA = 1e-3  # divisor in the paper's scaling of a basis that is zero on all nodes
START_WIDTH = 0.1  # initial gamma, on the rank scale
VALUES_PER_NETWORK = 400_000  # basis values; several networks give all cores work


class _CentredSteps(torch.autograd.Function):
    """Compute eta - s and eta, with the derivative in closed form.

    Training spends its time here, and autograd would pass over the (..., M, K) array twice as
    often.
    """

    @staticmethod
    def forward(
        ctx: Any,
        positions: Tensor,  # (..., M)
        weights: Tensor,  # (..., M)
        centres: Tensor,  # (..., K)
        widths: Tensor,  # (..., K)
        activation: Activation,
    ) -> tuple[Tensor, Tensor]:
        logits = (positions.unsqueeze(-1) - centres.unsqueeze(-2)) * widths.reciprocal().unsqueeze(
            -2
        )
        steps = logits.sigmoid_() if activation == "sigmoid" else logits.relu_()
        # NOTE[DIFF] eta is the mean over all training rows, not over the last batch.
        eta = weights.unsqueeze(-2) @ steps  # (..., 1, K)
        ctx.save_for_backward(positions, weights, centres, widths, steps)
        ctx.activation = activation
        return eta - steps, eta

    @staticmethod
    def backward(ctx: Any, grad_centred: Tensor, grad_eta: Tensor) -> Any:
        positions, weights, centres, widths, steps = ctx.saved_tensors
        total = grad_centred.sum(-2, keepdim=True) + grad_eta
        grad_steps = torch.addcmul(-grad_centred, weights.unsqueeze(-1), total)
        if ctx.activation == "sigmoid":
            grad_logits = torch.ops.aten.sigmoid_backward(grad_steps, steps)
        else:
            grad_logits = grad_steps.masked_fill_(steps <= 0, 0.0)
        moments = torch.stack([torch.ones_like(positions), positions], -2) @ grad_logits
        zeroth, first = moments.unbind(-2)  # sums of grad_logits and of u * grad_logits
        grad_centres = -zeroth / widths
        grad_widths = (centres * zeroth - first) / widths**2
        return None, None, grad_centres, grad_widths, None


def centred_basis(
    positions: Tensor,  # (..., M)
    weights: Tensor,  # (..., M)
    centres: Tensor,  # (..., K)
    widths: Tensor,  # (..., K)
    activation: Activation = "sigmoid",
    scale: Scale = "centred",
    free: Tensor | None = None,  # (..., M)
    level_logits: Tensor | None = None,  # (..., M, K)
) -> Tensor:  # (..., M, K)
    """Bases phi_k on the nodes of one feature, each with mean zero under the node masses.

    On ``free`` nodes, which are levels and missing values, the logit is a learned number.

    NOTE[DIFF] ``scale="centred"`` omits the division by eta. The division only rescales beta, and
    it blows up where eta is near zero; training is more accurate without it.
    """
    centred: Tensor
    eta: Tensor
    if free is None or level_logits is None:
        apply: Any = _CentredSteps.apply  # untyped in torch
        centred, eta = apply(positions, weights, centres, widths, activation)
    else:
        logits = (positions.unsqueeze(-1) - centres.unsqueeze(-2)) / widths.unsqueeze(-2)
        logits = torch.where(free.unsqueeze(-1), level_logits, logits)
        steps = logits.sigmoid() if activation == "sigmoid" else logits.relu()
        eta = weights.unsqueeze(-2) @ steps
        centred = eta - steps
    return centred / eta.clamp_min(SMALLEST_ETA) if scale == "paper" else centred


class ComponentNetwork(nn.Module):
    """All components of one order, for B bags, with K bases each."""

    positions: Tensor  # (C, d, M), or (p, M) of the p distinct features with shared bases
    weights: Tensor  # as positions
    free: Tensor  # as positions
    features: Tensor  # (C, d)
    places: Tensor  # (C, d), of the features among the distinct ones
    signs: Tensor | None  # (C,): 1 or -1 for components that only increase or decrease, else 0

    def __init__(
        self,
        marginal: Marginal,  # at the resolution of this order
        features: Tensor,
        centres: Tensor,  # (B, C, d, K): initial b on the rank scale
        shared_bases: bool,  # whether all components share their bases, as in NBM-TPNN
        activation: Activation,  # sigma
        scale: Scale,  # whether phi is divided by eta ("paper") or not ("centred")
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
        of_axis = slice(None) if self.shared_bases else (slice(None), slice(None), axis)
        rows = slice(None) if self.shared_bases else (slice(None), axis)
        bases = centred_basis(
            self.positions[rows].to(self.centres),
            self.weights[rows].to(self.centres),
            self.centres[of_axis],
            self.log_widths[of_axis].exp(),
            self.activation,
            self.scale,
            self.free[rows] if self.has_levels else None,
            self.level_logits[of_axis] if self.has_levels else None,
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

    The order of the components is canonical, so the order of the columns changes nothing.
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


class NetworkSettings(NamedTuple):
    """Kind and number of the bases; fields as in ``ComponentNetwork``."""

    n_bases: dict[int, int]  # by order
    shared_bases: bool
    activation: Activation
    scale: Scale
    signs: Mapping[int, float] = MappingProxyType({})  # 1 or -1, by feature of a main effect


def make_networks(
    problem: Problem,
    features: IntArray,
    settings: NetworkSettings,
    n_bags: int,
    values_per_network: int = VALUES_PER_NETWORK,
) -> list[ComponentNetwork]:
    """Networks that together hold the components of one order; shared bases need just one."""
    count, order = features.shape
    marginal = Marginal.of(problem.encoder.axes[order])
    n_bases, shared = settings.n_bases[order], settings.shared_bases
    centres = start_centres(count, order, n_bases, n_bags, shared, problem.seed + order)
    values_per_component = n_bags * order * marginal.n_nodes * n_bases
    most = count if shared else max(1, values_per_network // values_per_component)
    return [
        ComponentNetwork(
            marginal=marginal,
            features=torch.as_tensor(features[first:last]),
            centres=centres if shared else centres[:, first:last].clone(),
            shared_bases=shared,
            activation=settings.activation,
            scale=settings.scale,
            signs=_signs(features[first:last], settings.signs),
        )
        for first, last in split(count, most)
    ]


def _signs(features: IntArray, signs: Mapping[int, float]) -> torch.Tensor | None:
    """Sign of each component, or None if none is monotone."""
    if features.shape[1] > 1 or not signs:
        return None
    return torch.tensor([signs.get(feature, 0.0) for feature in features[:, 0].tolist()])


def solution_of(
    problem: Problem,
    networks: Sequence[ComponentNetwork],
    intercepts: RealArray,
    events: list[Event],
    settings: NetworkSettings,
) -> Solution:
    """Turn trained networks, in double precision and on the CPU, into a solution."""
    n_nodes = {part.features.shape[1]: part.n_nodes for part in problem.coded}
    tables: list[Any] = []
    for network in networks:
        order = network.features.shape[1]
        with torch.no_grad():
            values = network().numpy()  # (C, cells, B)
        tables += [t.reshape(*(n_nodes[order],) * order, values.shape[-1]) for t in values]
    one_output = problem.objective.n_outputs == 1
    listed = one_output and not any(network.has_levels for network in networks)
    return Solution(
        components=problem.ordered,
        intercepts=intercepts.astype(np.float64),
        tables=tables,
        terms=[terms for network in networks for terms in network.terms()] if listed else None,
        events=events,
        activation=settings.activation,
        scale=settings.scale,
    )
