"""Start: a model to which a fit adds, what of it stays, and on which nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from tpnn._utils.rules import is_whole
from tpnn.anova.components import Component, ComponentSet, resolve_components
from tpnn.anova.purify import purify_tables
from tpnn.estimators.refit import Refitter
from tpnn.estimators.settings import Given, Settings
from tpnn.model.edit_log import digest
from tpnn.model.model import AnovaModel
from tpnn.model.regrid import lifted
from tpnn.solvers.problem.fingerprint import RowSums
from tpnn.solvers.problem.problem import Base, Problem, Task
from tpnn.solvers.problem.targets import Targets
from tpnn.solvers.solution import Event
from tpnn.solvers.solver import Solver
from tpnn.solvers.states import GrowthStates, State
from tpnn.table.encoder import TableEncoder
from tpnn.table.table import Table, read_column


@dataclass(frozen=True, kw_only=True)
class Start:
    """What a fit starts from.

    Parameters
    ----------
    model : AnovaModel
        The old model.
    freeze : sequence of sequences of features
        Components that must stay as they are.
    nodes : {"keep", "new"}
        Whether nodes and masses are those of the old model or of the new rows.
    """

    model: AnovaModel
    freeze: Sequence[Sequence[int | str]]
    nodes: str

    @property
    def order(self) -> int:
        """Largest order of the old model."""
        return max(self.model.components.orders, default=1)

    def keeps_nodes_of(self, order: int) -> bool:
        """Whether the nodes of an order are those of the old model."""
        return self.nodes == "keep" and order in self.model.encoder.axes

    def encoder(self, fresh: TableEncoder, table: Table) -> TableEncoder:
        """Nodes of the fit, given nodes placed on the new rows; refuse values without a node."""
        known, places = self.model.encoder, dict(_places(self.model, fresh.feature_names))
        if self.nodes == "new":
            _check_kinds(known, fresh, places)
            return fresh
        features = list(fresh.features)
        axes = {order: list(of_order) for order, of_order in fresh.axes.items()}
        for number, place in places.items():
            features[place] = known.features[number]
            for order in sorted(axes):
                if order in known.axes:
                    axes[order][place] = known.axes[order][number]
                else:
                    few = max(fresh.axes[order][place].n_regular, 1)
                    axes[order][place] = axes[order - 1][place].coarsened(few)
        by_order = {order: tuple(of_order) for order, of_order in axes.items()}
        encoder = replace(fresh, features=tuple(features), axes=by_order)
        _check_values(encoder, table, places.values())
        return encoder

    def base(self, problem: Problem) -> Base:
        """Return the old model on the nodes of a problem, unique under their masses."""
        encoder, intercepts = problem.encoder, self.model.intercepts
        tables = lifted(self.model, encoder)
        spreads = lifted(replace(self.model, tables=self.model.spreads), encoder)
        if self.nodes == "new":
            subsets = ComponentSet(tuple(tables)).with_subsets()
            sizes = {s: [encoder.axes[len(s)][j].n_nodes for j in s] for s in subsets}
            zeros = {s: np.zeros((*sizes[s], len(intercepts))) for s in subsets}
            moved, tables = purify_tables(zeros | tables, encoder.axes)
            intercepts, spreads = intercepts + moved, zeros | spreads
        return Base(tables, spreads, intercepts, self._frozen(tables, problem))

    def _frozen(self, tables: Mapping[Component, Any], problem: Problem) -> frozenset[Component]:
        """Components that must stay as they are."""
        names = problem.encoder.feature_names
        frozen = resolve_components(self.freeze, names, len(names), "freeze")
        unknown = [s for s in frozen if s not in tables]
        if unknown:
            known = ComponentSet(tuple(tables)).names(names)
            raise ValueError(
                f"freeze: each must be a component of the model in start, found "
                f"{tuple(names[j] for j in unknown[0])}. Its components are {known[:10]}."
            )
        shaped = [names[feature] for s in frozen for feature in s if feature in problem.shapes]
        if shaped:
            raise ValueError(
                "freeze: a component stays as it is, so that its features cannot be given a shape, "
                f"found {shaped[0]!r} in freeze and in shapes. Leave it out of one of them."
            )
        return frozenset(frozen)


def read_start(start: Any, freeze: Any, nodes: Any) -> Start | None:
    """Read these arguments of ``fit``; None if it starts from nothing."""
    if nodes not in ("keep", "new"):
        raise ValueError(
            f"nodes: must be 'keep' or 'new', found {nodes!r}. Keep the nodes of the old model, or "
            "have new ones placed on the new rows."
        )
    listed = [] if freeze is None else freeze
    if not isinstance(listed, list | tuple):
        raise ValueError(
            "freeze: must be a list of features and of tuples of features, found "
            f"{freeze!r}. Pass for example freeze=['age', ('age', 'town')]."
        )
    if start is None and listed:
        raise ValueError(
            f"freeze: a model is needed whose components stay as they are, found {freeze!r} "
            "without start. Pass start=model."
        )
    if start is None:
        return None
    if listed and nodes == "new":
        raise ValueError(
            "freeze: components keep their values on the nodes of the old model alone, found "
            "nodes='new'. Pass nodes='keep', or freeze nothing."
        )
    model = getattr(start, "model_", start)
    if not isinstance(model, AnovaModel):
        raise ValueError(
            "start: must be a fitted estimator or its model_, found "
            f"{type(start).__name__}. Fit it first, or load a model."
        )
    as_lists = tuple((one,) if isinstance(one, str | int) else tuple(one) for one in listed)
    return Start(model=model, freeze=as_lists, nodes=nodes)


def check_start(start: Start, task: Task, given: Given) -> None:
    """Refuse a model of other features or another task, and a solver that cannot start from it."""
    solver, table = given.settings.solver, given.table
    if not solver.continues:
        raise ValueError(
            "start: the solver must be Grow, which can add to a model, found "
            f"{type(solver).__name__}. Pass solver=Grow()."
        )
    model, objective = start.model, task.objective
    is_survival = objective.name == "cox"
    for what, wanted, found in (
        ("link", objective.link.name, model.link.name),
        ("classes", list(task.classes), list(model.classes)),
        ("outputs", list(task.outputs), list(model.output_names)),
        ("baseline hazard", is_survival, model.baseline is not None),
        ("offset column", _offset_words(table), _offset_words(model.encoder)),
    ):
        if wanted != found:
            raise ValueError(
                f"start: the model must have the {what} of this fit, {wanted!r}, found {found!r}. "
                "Start from a model of the same task."
            )
    _places(model, [table.name(feature) for feature in range(table.n_features)], table)


def _offset_words(known: Table | TableEncoder) -> str | None:
    column = known.offset_column
    return None if column is None else column.words


def _places(
    model: AnovaModel, names: Sequence[str], table: Table | None = None
) -> list[tuple[int, int]]:
    """Return the number of each feature of a model and its place among ``names``, or refuse it."""
    known, place_of = model.encoder, {name: place for place, name in enumerate(names)}
    if table is not None and (known.names is None) != (table.names is None):
        raise ValueError(
            "start: features are matched by name, or by position where neither table has names, "
            f"found names in {'X' if known.names is None else 'the old fit'} alone. Name the "
            "columns in both."
        )
    missing = [name for name in model.feature_names if name not in place_of]
    if missing or (table is not None and not table.names and table.n_columns != known.n_columns):
        raise ValueError(
            f"start: X must have all features of the model, {list(model.feature_names)[:10]}, "
            f"found {list(names)[:10]}. Pass a table of the same columns."
        )
    return [(number, place_of[name]) for number, name in enumerate(model.feature_names)]


def _check_kinds(known: TableEncoder, fresh: TableEncoder, places: Mapping[int, int]) -> None:
    """Refuse a feature that is of another kind in the new rows than in the old model."""
    for number, place in places.items():
        kinds = [known.features[number].kind, fresh.features[place].kind]
        are_known = known.axes[1][number].n_regular and fresh.axes[1][place].n_regular
        if are_known and kinds[0] != kinds[1]:
            raise ValueError(
                f"start: a feature must be of the same kind as in the old model, found {kinds} for "
                f"{fresh.feature_names[place]!r}. Convert the column."
            )


def _check_values(encoder: TableEncoder, table: Table, places: Any) -> None:
    """Refuse levels and missing values that have no node."""
    for place in places:
        axis, numbers = encoder.axes[min(encoder.axes)][place], encoder.numbers(table, place)
        new = {
            "levels that it does not know": np.isinf(numbers) & (not axis.has_unseen),
            "missing values, of which it knows none": np.isnan(numbers) & (not axis.has_missing),
        }
        for words, rows in new.items():
            if rows.any():
                raise ValueError(
                    "start: with nodes='keep' every value needs a node of the old model, found "
                    f"{words} in {rows.sum()} of {len(rows)} rows of {table.name(place)!r}. Pass "
                    "nodes='new', or drop those rows."
                )


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
