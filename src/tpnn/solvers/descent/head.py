r"""TPNNHead: a functional ANOVA model as the last layer of a network, in plain torch.

    f(x) = intercept + sum_S sum_k beta_{S,k} prod_{j in S} phi_j(x_j | b_{S,j,k}, gamma_{S,j,k})

with inputs in [0, 1] and phi = eta - s, s = sigma((x - b) / gamma), eta = E_mu[s]. The measure mu
lives on equally spaced nodes, so components average to zero under it exactly, while gradients flow
through x.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import combinations
from typing import Literal

import torch
from torch import Tensor, nn

from tpnn.anova.shapes import MONOTONE
from tpnn.solvers.descent.networks import SMALLEST_ETA, Activation, Scale

START_WIDTH = 0.1  # initial gamma
START_COEFFICIENT = 0.01  # initial |beta|, if its sign is fixed

Component = tuple[int, ...]


class TPNNHead(nn.Module):
    """Torch layer of main effects and pairs of inputs in [0, 1], with unique components.

    Parameters
    ----------
    n_features : int
        Number of inputs p.
    n_outputs : int, default=1
        Number of raw scores.
    order : {1, 2}, default=1
        1 for main effects only, 2 for pairs too.
    pairs : sequence of (int, int), optional
        Pairs of inputs to include with ``order=2``; all by default.
    n_bases : int or dict from order to int, default=30
        Number of bases K of each component.
    marginal : {"uniform", "running"}, default="uniform"
        Measure mu of each input: uniform until ``observe`` replaces it, or a running mean of the
        empirical measures of the training batches.
    shapes : dict from input to "increasing" or "decreasing", optional
        Inputs in which every raw score must be monotone, whatever the values of the other inputs.
    activation : {"sigmoid", "relu"}, default="sigmoid"
        The function sigma.
    scale : {"centred", "paper"}, default="centred"
        Whether phi is divided by eta, as in the paper, or only centred.
    shared_bases : bool, default=False
        Whether all components of one order share b and gamma (NBM-TPNN).
    momentum : float, default=0.1
        Weight of the latest batch in a running measure.
    n_nodes : int, default=101
        Number of nodes of the measure, equally spaced in [0, 1].

    Examples
    --------
    >>> head = TPNNHead(3, order=2, shapes={0: "increasing"})
    >>> head.components
    ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2))
    >>> head(torch.rand(8, 3)).shape
    torch.Size([8, 1])
    """

    nodes: Tensor  # (M,)
    masses: Tensor  # (p, M)
    signs: Tensor  # (p,): 1 increasing, -1 decreasing, 0 free

    def __init__(
        self,
        n_features: int,
        n_outputs: int = 1,
        order: int = 1,
        pairs: Sequence[Component] | None = None,
        n_bases: int | Mapping[int, int] = 30,
        marginal: Literal["uniform", "running"] = "uniform",
        shapes: Mapping[int, str] | None = None,
        activation: Activation = "sigmoid",
        scale: Scale = "centred",
        shared_bases: bool = False,
        momentum: float = 0.1,
        n_nodes: int = 101,
    ) -> None:
        super().__init__()
        self.marginal, self.momentum = _checked("marginal", marginal), momentum
        signs = _signs(n_features, shapes or {})
        self.register_buffer("signs", signs)
        self.register_buffer("nodes", torch.linspace(0, 1, n_nodes))
        self.register_buffer("masses", torch.full((n_features, n_nodes), 1 / n_nodes))
        self.intercept = nn.Parameter(torch.zeros(n_outputs))
        bases = n_bases if isinstance(n_bases, Mapping) else {1: n_bases, 2: n_bases}

        def layer(components: list[Component]) -> _Components:
            features = torch.tensor(components)
            return _Components(
                features=features, n_outputs=n_outputs, n_bases=bases[features.shape[1]],
                signs=signs, activation=activation, scale=scale, shared_bases=shared_bases,
            )  # fmt: skip

        mains: list[Component] = [(feature,) for feature in range(n_features)]
        chosen = _pairs(n_features, order, pairs)
        self.components: tuple[Component, ...] = (*mains, *chosen)
        self.mains = layer(mains)
        self.pairs = layer(chosen) if chosen else None

    def forward(self, x: Tensor) -> Tensor:
        """Raw scores, (n, p) -> (n, n_outputs)."""
        return self.intercept + self.component_scores(x).sum(1)

    def component_scores(self, x: Tensor) -> Tensor:
        """Value of every component, (n, p) -> (n, C, n_outputs); with the intercept they sum to f.

        In training mode, a running measure is first updated with x.
        """
        if self.training and self.marginal == "running":
            self.observe(x, self.momentum)
        x = x.clamp(0, 1)
        mains: Tensor = self.mains(x, self.nodes, self.masses)[0]
        if self.pairs is None:
            return mains
        pairs, compensations = self.pairs(x, self.nodes, self.masses)
        for axis, compensation in enumerate(compensations):
            mains = mains.index_add(1, self.pairs.features[:, axis], compensation)
        return torch.cat([mains, pairs], 1)

    @torch.no_grad()
    def observe(self, x: Tensor, momentum: float = 1.0) -> None:
        """Move the measure of every input towards the rows of x, (n, p).

        A row divides its mass between the two nodes around it. ``momentum=1`` forgets earlier rows.
        """
        last = len(self.nodes) - 1
        position = x.detach().clamp(0, 1).T * last  # (p, n)
        lower = position.floor().clamp(max=last - 1)
        upper_share = position - lower
        masses = torch.zeros_like(self.masses)
        masses.scatter_add_(1, lower.long(), 1 - upper_share)
        masses.scatter_add_(1, lower.long() + 1, upper_share)
        self.masses.lerp_(masses / len(x), momentum)


class _Components(nn.Module):
    """All components of one order d.

    The coefficients of a monotone main effect have a fixed sign, because phi decreases in x. For
    each pair term beta phi_j phi_k with a monotone x_j, the main effect of x_j gains the term
    ``|beta| max|phi_k| phi_j``, with the sign that outweighs the slope of the pair; the sum of the
    two is monotone.
    """

    features: Tensor  # (C, d)
    signs: Tensor  # (C, d)

    def __init__(
        self,
        features: Tensor,
        n_outputs: int,
        n_bases: int,
        signs: Tensor,
        activation: Activation,
        scale: Scale,
        shared_bases: bool,
    ) -> None:
        super().__init__()
        self.register_buffer("features", features)
        self.register_buffer("signs", signs[features])
        self.constrained = bool(self.signs.any())
        self.activation = _checked("activation", activation)
        self.scale = _checked("scale", scale)
        shape = (1, 1, n_bases) if shared_bases else (*features.shape, n_bases)
        self.centres = nn.Parameter(torch.rand(shape))
        self.log_widths = nn.Parameter(torch.full(shape, START_WIDTH).log())
        start = START_COEFFICIENT * (self.signs[:, :1, None] if features.shape[1] == 1 else 0.0)
        self.coefficients = nn.Parameter(torch.zeros(len(features), n_bases, n_outputs) + start)

    def forward(self, x: Tensor, nodes: Tensor, masses: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Values (n, C, n_outputs), and what each pair adds to the main effects of its inputs."""
        grid = self._steps(nodes[:, None, None])  # (M, C, d, K)
        eta = (masses.T[:, self.features, None] * grid).sum(0)  # (C, d, K)
        unit = eta.clamp_min(SMALLEST_ETA) if self.scale == "paper" else torch.ones_like(eta)
        phi = (eta - self._steps(x[:, self.features])).unbind(2)  # unit times phi, (n, C, K) each
        beta = self.coefficients / reduce(torch.mul, unit.unbind(1)).unsqueeze(-1)
        if len(phi) == 1:
            fixed = -self.signs[:, :1, None] * beta.abs()
            return _sum(phi[0], torch.where(self.signs[:, :1, None] == 0, beta, fixed)), []
        values = _sum(phi[0] * phi[1], beta)
        if not self.constrained:
            return values, []
        ends = torch.stack([grid[0], grid[-1]])
        largest = (eta - ends).abs().amax(0)  # (C, d, K), as phi is monotone in x
        return values, [self._compensation(phi, beta, largest, axis) for axis in (0, 1)]

    def _compensation(
        self, phi: tuple[Tensor, ...], beta: Tensor, largest: Tensor, axis: int
    ) -> Tensor:
        """Return the main effect (n, C, n_outputs) that keeps one input of each pair monotone."""
        outweighed = -self.signs[:, axis, None, None] * beta.abs()
        return _sum(phi[axis], outweighed * largest[:, 1 - axis, :, None])

    def _steps(self, x: Tensor) -> Tensor:  # (n, C or 1, d or 1) -> (n, C, d, K)
        slopes = (-self.log_widths).exp()
        logits = torch.addcmul(-self.centres * slopes, x.unsqueeze(-1), slopes)
        return logits.sigmoid_() if self.activation == "sigmoid" else logits.relu_()


def _sum(phi: Tensor, beta: Tensor) -> Tensor:
    """Return sum_k phi_k beta_k, (n, C, K) and (C, K, n_outputs) -> (n, C, n_outputs)."""
    return torch.einsum("nck,cko->nco", phi, beta)


ALLOWED_VALUES = {
    "marginal": ("uniform", "running"),
    "activation": ("sigmoid", "relu"),
    "scale": ("centred", "paper"),
}


def _checked(name: str, value: str) -> str:
    allowed = ALLOWED_VALUES[name]
    if value not in allowed:
        raise ValueError(
            f"{name}: must be one of {allowed}, found {value!r}. Pass for example {allowed[0]!r}."
        )
    return value


def _signs(n_features: int, shapes: Mapping[int, str]) -> Tensor:
    """Direction of each input as a number, shape (p,)."""
    signs = torch.zeros(n_features)
    for feature, direction in shapes.items():
        if not 0 <= feature < n_features or direction not in MONOTONE:
            raise ValueError(
                f"shapes: must map inputs 0 to {n_features - 1} to one of {', '.join(MONOTONE)}, "
                f"found {feature!r}: {direction!r}. Change or remove this entry."
            )
        signs[feature] = MONOTONE[direction]
    return signs


def _pairs(n_features: int, order: int, pairs: Sequence[Component] | None) -> list[Component]:
    """Pairs to include, each with its smaller input first."""
    if order not in (1, 2):
        raise ValueError(
            f"order: must be 1 or 2, found {order!r}. Use an estimator for higher orders."
        )
    if order == 1:
        return []
    if pairs is None:
        return list(combinations(range(n_features), 2))
    chosen = [(min(pair), max(pair)) for pair in pairs]
    inside = all(0 <= first < second < n_features for first, second in chosen)
    if not inside or any(len(pair) != 2 for pair in pairs):
        raise ValueError(
            f"pairs: must be two different inputs from 0 to {n_features - 1}, "
            f"found {list(pairs)!r}. Pass for example [(0, 1)]."
        )
    return list(chosen)
