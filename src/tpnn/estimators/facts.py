"""facts_of: what the rows of a fit say about the components of its model."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from tpnn._utils.threads import ONE_BLAS_THREAD
from tpnn.anova.components import Component
from tpnn.anova.facts import ComponentFacts, Facts
from tpnn.explain.concurvity import MAX_ROWS, Imitation
from tpnn.model.model import AnovaModel
from tpnn.search.held_out import HeldOut
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.problem.solution import Solution
from tpnn.uncertainty.zero_test import ZeroTest


def facts_of(
    model: AnovaModel,
    problem: Problem,
    solution: Solution,
    tests: Mapping[Component, ZeroTest],
    searched: Collection[int],
) -> Facts:
    """Collect the facts of a model that was frozen from a solution.

    A component that a search or a selection chose is the best of many, so its p-value is multiplied
    by the number of all components of its order: that one of them gets a p-value below 0.05 by
    chance has then a probability of at most 0.05.

    Parameters
    ----------
    model : AnovaModel
        The model, with all features of the problem.
    problem, solution : Problem, Solution
        Rows, bags and grids of values.
    tests : dict from component to ZeroTest
        Tests of the components, each by itself.
    searched : set of int
        Orders of which a search or a selection chose the components.
    """
    with ONE_BLAS_THREAD:
        held_out = HeldOut(problem, solution)
        losses = losses_without(held_out)
        shares = imitated_shares(model, problem)
    lines, n_features = [], problem.encoder.n_features
    for component, share in zip(model.components, shares, strict=True):
        degrees, p_value = tests[component]
        order = len(component)
        n_candidates = math.comb(n_features, order) if order in searched else 1
        lines.append(
            ComponentFacts(
                degrees, min(n_candidates * p_value, 1.0), *losses[component], concurvity=share
            )
        )
    return Facts(problem.objective.name, held_out.loss, tuple(lines))


def losses_without(held_out: HeldOut) -> dict[Component, tuple[float, float]]:
    """Held-out loss without each component, and the standard error of the rise.

    The averaged model is scored, as in the selection of components: noise that averaging removes
    does not count against a component.
    """
    found = {}
    for index, component in enumerate(held_out.components):
        rise, error = held_out.change(held_out.raw - held_out.values(index))
        rise += held_out.averaged_noise(index)
        found[tuple(sorted(component))] = (held_out.loss + rise, error)
    return found


def imitated_shares(model: AnovaModel, problem: Problem) -> list[float]:
    """Concurvity of each component on training rows, the largest over the outputs."""
    used, codes = model.pruned(), problem.codes.by_order[1]
    step = -(-codes.shape[1] // MAX_ROWS)
    columns = [
        axis.numbers[codes[problem.encoder.feature_names.index(name)][::step]]
        for name, axis in zip(used.feature_names, used.encoder.axes[1], strict=True)
    ]
    scores = used.column_scores(columns).reshape(-1, len(used.components), used.n_outputs)
    by_output = [Imitation.of(used, columns, scores[..., k]) for k in range(used.n_outputs)]
    return [max(known.share(index) for known in by_output) for index in range(len(used.components))]
