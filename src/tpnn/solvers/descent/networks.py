"""The networks of a problem: built before training, turned into a solution after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch

from tpnn._utils.arrays import IntArray, RealArray
from tpnn._utils.threads import split
from tpnn.anova.measure import Marginal
from tpnn.solvers.descent.basis import Activation, Scale
from tpnn.solvers.descent.network import ComponentNetwork, start_centres
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.problem.solution import Event, Solution

VALUES_PER_NETWORK = 400_000  # basis values; several networks give all cores work


class NetworkSettings(NamedTuple):
    """Kind and number of the bases.

    Parameters
    ----------
    n_bases : dict from order to int
        Number of bases K of each component.
    shared_bases, activation, scale
        As in ``ComponentNetwork``.
    signs : dict from feature to float
        1 or -1 for main effects that may only increase or decrease.
    """

    n_bases: dict[int, int]
    shared_bases: bool
    activation: Activation
    scale: Scale
    signs: Mapping[int, float] = MappingProxyType({})


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
