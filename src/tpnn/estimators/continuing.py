"""Continuing: whether a fit goes on with an old one, adds to its model, or leaves it as it is.

On the rows of the old fit and with its settings, growth goes on where it ended, so that k rounds
and then m rounds are k + m rounds. This is a fit of k + m rounds, in which growths that the old fit
has begun are not repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from tpnn._utils.checks import is_whole
from tpnn.estimators.given import Given
from tpnn.estimators.refits import Refitter
from tpnn.estimators.settings import Settings
from tpnn.estimators.starting import Start, read_start
from tpnn.model.digest import digest
from tpnn.model.model import AnovaModel
from tpnn.solvers.problem.fingerprint import RowSums
from tpnn.solvers.problem.scaling import Targets
from tpnn.solvers.problem.solution import Event
from tpnn.solvers.problem.solver import Solver
from tpnn.solvers.problem.states import GrowthStates, State
from tpnn.table.frame import read_column

FREE_PARAMETERS = ("n_jobs", "verbose", "random_state", "solver")  # of which not all must be equal


@dataclass(frozen=True, kw_only=True)
class Record:
    """What a later fit needs to go on with a fit.

    Parameters
    ----------
    task : str
        Which estimator fitted.
    digest : str
        That of the model, without the baseline of a survival model.
    rows : str
        Digest of rows, targets, weights, offsets and groups.
    parameters : dict from str to object
        Parameters of the estimator.
    solver : Solver
        The solver, whose ``max_rounds`` are those of all fits so far.
    seed : int
        Seed of the fit.
    states : dict from str to State
        Growths that ended because their rounds were up.
    base : Start, optional
        Model to which the fit added.
    """

    task: str
    digest: str
    rows: str
    parameters: Mapping[str, Any]
    solver: Solver
    seed: int
    states: Mapping[str, State]
    base: Start | None = None

    @classmethod
    def of(
        cls,
        task: str,
        parameters: Mapping[str, Any],
        model: AnovaModel,
        rows: RowSums,
        begun: Begun,
    ) -> Record:
        """Record of a fit that has ended, with a copy of its parameters."""
        settings = begun.given.settings
        return cls(
            task=task,
            digest=_digest(model),
            rows=rows_digest(rows, begun.given.targets),
            parameters={name: clone(value, safe=False) for name, value in parameters.items()},
            solver=clone(settings.solver),
            seed=settings.seed,
            states=begun.states.kept,
            base=begun.base,
        )


class Old(NamedTuple):
    """What a fit starts from, and what its estimator knows about the fit that made it."""

    start: Start
    record: Record | None
    refitter: Refitter | None

    @classmethod
    def read(cls, start: Any, freeze: Any, nodes: Any) -> Old | None:
        """Read these arguments of ``fit``; None if it starts from nothing."""
        known = read_start(start, freeze, nodes)
        if known is None:
            return None
        return cls(known, getattr(start, "_record_", None), getattr(start, "_refitter_", None))

    def stays(self, settings: Settings) -> bool:
        """Whether the old model stays as it is: there are no rounds."""
        return bool(settings.solver.get_params()["max_rounds"] == 0)

    def goes_on(self, task: str, parameters: Mapping[str, Any], given: Given) -> bool:
        """Whether the old fit goes on: its rows and its settings are those of this fit."""
        record, seed, solver = self.record, parameters["random_state"], given.settings.solver
        if record is None or record.task != task:
            return False
        base = ((), "keep") if record.base is None else (record.base.freeze, record.base.nodes)
        return (
            base == (self.start.freeze, self.start.nodes)
            and given.settings.time_limit is None
            and (not is_whole(seed) or seed == record.seed)
            and _are_same(_compared(parameters), _compared(record.parameters))
            and _are_same(_compared_solver(solver), _compared_solver(record.solver))
            and _digest(self.start.model) == record.digest
            and rows_digest(RowSums(given.table), given.targets) == record.rows
        )


class Begun(NamedTuple):
    """How a fit begins.

    Parameters
    ----------
    given : Given
        Its table, targets, settings and limits.
    states : GrowthStates
        Growths to go on with, and those that it leaves behind.
    base : Start, optional
        Model to which it adds.
    """

    given: Given
    states: GrowthStates
    base: Start | None

    @classmethod
    def of(cls, old: Old | None, task: str, parameters: Mapping[str, Any], given: Given) -> Begun:
        """Decide whether a fit starts from nothing, goes on with an old one or adds to a model."""
        if old is None:
            return cls(given, GrowthStates(), None)
        record = old.record
        if record is None or not old.goes_on(task, parameters, given):
            return cls(given, GrowthStates(), old.start)
        settings = given.settings
        rounds = [s.get_params()["max_rounds"] for s in (record.solver, settings.solver)]
        solver = clone(settings.solver).set_params(max_rounds=sum(rounds))
        together = replace(settings, solver=solver, seed=record.seed)
        return cls(given._replace(settings=together), GrowthStates(record.states), record.base)


def start_settings(old: Old | None) -> dict[str, Any]:
    """Say in the settings of a fit what it started from."""
    if old is None:
        return {}
    model, freeze, nodes = old.start.model, old.start.freeze, old.start.nodes
    return {"start": digest(model), "freeze": [list(s) for s in freeze], "nodes": nodes}


def unchanged(model: AnovaModel) -> Event:
    """Say that a fit of no rounds left the model as it was."""
    note = "no rounds: the model stays as it was"
    return Event(stage="start", note=note, n_components=len(model.components), seconds=0.0)


def rows_digest(rows: RowSums, targets: Targets) -> str:
    """Digest of rows, targets, weights, offsets and groups, whatever the order of the rows."""
    named = [(f"y {number}", column) for number, column in enumerate(targets.y.T)]
    named += [("weight", targets.weights), ("offset", targets.offset), ("group", targets.groups)]
    columns = [
        (name, read_column(np.asarray(values, np.float64), name))
        for name, values in named
        if values is not None
    ]
    return rows.digest(columns)


def _digest(model: AnovaModel) -> str:
    """Digest of a model without its baseline hazard, which follows from it."""
    return digest(replace(model, baseline=None))


def _compared(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if name not in FREE_PARAMETERS}


def _compared_solver(solver: Solver) -> dict[str, Any]:
    parameters = {k: v for k, v in solver.get_params().items() if k != "max_rounds"}
    return {"solver": type(solver), **parameters}


def _are_same(one: Any, other: Any) -> bool:
    """Whether two settings are the same; lists, tuples and arrays of the same values are.

    >>> _are_same({"a": [1, (2, "b")]}, {"a": np.array([1, (2, "b")], dtype=object)})
    True
    """
    if one is other:
        return True
    pair = [value.tolist() if isinstance(value, np.ndarray) else value for value in (one, other)]
    if all(isinstance(value, Mapping) for value in pair):
        names = [list(value) for value in pair]
        return names[0] == names[1] and all(_are_same(pair[0][k], pair[1][k]) for k in pair[0])
    if all(isinstance(value, list | tuple) for value in pair):
        same_length = len(pair[0]) == len(pair[1])
        return same_length and all(map(_are_same, *pair))
    return type(pair[0]) is type(pair[1]) and bool(pair[0] == pair[1])
