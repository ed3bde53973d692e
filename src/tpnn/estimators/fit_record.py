"""provenance_of: what a fit tells the model about itself."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np

from tpnn import __version__
from tpnn._utils.threads import ONE_BLAS_THREAD
from tpnn.anova.components import Component
from tpnn.explain.concurvity import MAX_ROWS, Imitation
from tpnn.loss.objectives import Objective
from tpnn.model.evidence import ComponentTest, ComponentTests
from tpnn.model.model import AnovaModel, column_scores, pruned
from tpnn.model.provenance import Provenance
from tpnn.search.held_out import HeldOut
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.solution import Event, Solution
from tpnn.table.table import Table
from tpnn.uncertainty.zero_test import ZeroTest

SOLVER_STAGES = ("grow", "descent", "refit")  # whose events have losses of the model itself
LARGEST_NUMBER = float(np.finfo(np.float64).max)
LONGEST_SETTING = 1000  # names or characters; a longer one is told by its size


def provenance_of(
    task: str,
    table: Table,
    fingerprint: str,
    parameters: Mapping[str, Any],
    events: Iterable[Event],
    loss: str,
) -> Provenance:
    """Provenance of a model that was fitted now, its targets without names.

    Parameters
    ----------
    task : str
        Which estimator fits.
    table : Table
        Training rows.
    fingerprint : str
        That of the rows and their targets as the user gave them.
    parameters : dict
        Parameters of the estimator.
    events : iterable of Event
        History of the fit.
    loss : str
        Name of the loss in it.
    """
    return Provenance(
        task=task,
        version=__version__,
        date=date_now(),
        settings={name: json_value(value) for name, value in parameters.items()},
        fingerprint=fingerprint,
        n_rows=table.n_rows,
        n_columns=table.n_columns,
        scores=held_out_scores(events, loss),
    )


def date_now() -> str:
    """Return date and time in UTC; the environment variable SOURCE_DATE_EPOCH fixes them."""
    fixed = os.environ.get("SOURCE_DATE_EPOCH")
    now = datetime.now(UTC) if fixed is None else datetime.fromtimestamp(int(fixed), UTC)
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def held_out_scores(events: Iterable[Event], loss: str) -> dict[str, float]:
    """Smallest held-out loss of each bag, averaged over the bags, under the name of the loss."""
    best: dict[int | None, float] = {}
    for event in events:
        found = event.validation_loss
        if event.stage in SOLVER_STAGES and found is not None and math.isfinite(found):
            best[event.bag] = min(found, best.get(event.bag, found))
    mean = {f"{loss}, training scale": float(np.mean(list(best.values())))} if best else {}
    return mean


def target_names(y: Any) -> tuple[str, ...]:
    """Names of the columns or fields of y, or of the column that it is; none without names."""
    names = getattr(getattr(y, "dtype", None), "names", None)
    if names is None:
        names = getattr(y, "columns", None)
    if names is None:
        name = getattr(y, "name", None)
        names = [] if name is None or callable(name) else [name]
    texts = tuple(map(str, names))
    return texts if all(len(text) <= LONGEST_SETTING for text in texts) else ()


def json_value(value: Any) -> Any:
    """Return a setting as JSON can hold it; a function or another object by its name.

    >>> json_value({1: (np.int64(2), None)}), json_value(max), json_value(float("inf"))
    ({'1': [2, None]}, 'max', 'inf')
    """
    if isinstance(value, np.generic | np.ndarray):
        return json_value(value.tolist())
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str | list | tuple | Mapping) and len(value) > LONGEST_SETTING:
        return f"{type(value).__name__} of length {len(value)}"
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return {json_value(str(key)): json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    parameters = value.get_params() if hasattr(value, "get_params") else None
    if parameters is not None and not isinstance(value, type):
        return {"name": type(value).__name__} | json_value(parameters)
    return str(getattr(value, "__name__", type(value).__name__))


def component_tests(
    model: AnovaModel,
    problem: Problem,
    solution: Solution,
    objective: Objective,
    tests: Mapping[Component, ZeroTest],
    searched: Collection[int],
) -> ComponentTests:
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
    objective : Objective
        The loss of the task.
    tests : dict from component to ZeroTest
        Tests of the components, each by itself.
    searched : set of int
        Orders of which a search or a selection chose the components.
    """
    with ONE_BLAS_THREAD, np.errstate(over="ignore", invalid="ignore"):  # of squared huge numbers
        held_out = HeldOut(problem, solution).reported(problem, objective)
        losses = losses_without(held_out)
        shares = imitated_shares(model, problem)
    lines, n_features = [], problem.encoder.n_features
    for component, share in zip(model.components, shares, strict=True):
        degrees, p_value = tests[component]
        order = len(component)
        n_candidates = math.comb(n_features, order) if order in searched else 1
        lines.append(
            ComponentTest(
                degrees, min(n_candidates * p_value, 1.0), *losses[component], concurvity=share
            )
        )
    return ComponentTests(objective.name, _finite(held_out.loss), tuple(lines))


def _finite(loss: float) -> float:
    """Return the largest number in place of a loss in the user's unit that is larger."""
    return float(np.nan_to_num(loss, nan=LARGEST_NUMBER, posinf=LARGEST_NUMBER))


def losses_without(held_out: HeldOut) -> dict[Component, tuple[float, float]]:
    """Held-out loss without each component, and the standard error of the rise.

    The averaged model is scored, as in the selection of components: noise that averaging removes
    does not count against a component.
    """
    found = {}
    for index, component in enumerate(held_out.components):
        rise, error = held_out.change(held_out.raw - held_out.values(index))
        rise += held_out.averaged_noise(index)
        found[tuple(sorted(component))] = (_finite(held_out.loss + rise), _finite(error))
    return found


def imitated_shares(model: AnovaModel, problem: Problem) -> list[float]:
    """Concurvity of each component on training rows, the largest over the outputs."""
    used, codes = pruned(model), problem.codes.by_order[1]
    step = -(-codes.shape[1] // MAX_ROWS)
    columns = [
        axis.numbers[codes[problem.encoder.feature_names.index(name)][::step]]
        for name, axis in zip(used.feature_names, used.encoder.axes[1], strict=True)
    ]
    scores = column_scores(used, columns).reshape(-1, len(used.components), used.n_outputs)
    by_output = [Imitation.of(used, columns, scores[..., k]) for k in range(used.n_outputs)]
    return [max(known.share(index) for known in by_output) for index in range(len(used.components))]
