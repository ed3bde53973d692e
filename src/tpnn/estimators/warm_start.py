"""WarmStart and checkpoints: what a fit goes on with.

A checkpoint is a folder from which a fit that was killed is resumed by the same call. It holds the
states of all growths, each written in one step after every 50 rounds, and what identifies the fit.
What is not growth, such as the search, is repeated.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import clone

from tpnn import __version__
from tpnn._utils.rules import is_whole
from tpnn.anova.components import Component, ComponentSet, resolve_components
from tpnn.anova.shapes import WRAPPED
from tpnn.estimators.fit_record import (
    FitRecord,
    growth_digest,
    model_digest,
    rows_digest,
    settings_digest,
)
from tpnn.model.edit_log import digest
from tpnn.model.model import AnovaModel, tables_by_component
from tpnn.model.regrid import lifted_remainder, lifted_tables, regridded
from tpnn.model.task import Task
from tpnn.solvers.problem.fingerprint import RowSums
from tpnn.solvers.problem.problem import BaseModel, Problem
from tpnn.solvers.solution import Event
from tpnn.solvers.states import (
    FilesInFolder,
    GrowthStates,
    StateFiles,
    StatesOnDisk,
    read_sealed,
    write_sealed,
)
from tpnn.table.encoder import TableEncoder
from tpnn.table.table import PERIODIC, Table

if TYPE_CHECKING:
    from tpnn.estimators.inputs import FitInputs
    from tpnn.estimators.pipeline import Fitted

IDENTITY = "fit.json"  # says which fit a checkpoint belongs to


class FitPlan(NamedTuple):
    """What the pipeline runs on."""

    inputs: FitInputs
    states: GrowthStates  # growths to go on with, and those that the fit leaves behind
    base: WarmStart | None = None  # model to which the fit adds


@dataclass(frozen=True, kw_only=True)
class WarmStart:
    """The model that a fit starts from, and the record of the fit that made it."""

    model: AnovaModel
    freeze: Sequence[Sequence[int | str]]  # components that keep their values
    nodes: str  # "keep" those of the model, or place "new" ones on the new rows
    record: FitRecord | None = None  # None for a model without its estimator
    fitted: Fitted | None = None  # None if the estimator was pickled

    @property
    def settings(self) -> dict[str, Any]:
        """What the fit started from, as settings of it."""
        freeze = [list(component) for component in self.freeze]
        return {"start": digest(self.model), "freeze": freeze, "nodes": self.nodes}

    def plan(self, inputs: FitInputs, task: str, parameters: Mapping[str, Any]) -> FitPlan:
        """Go on with the old fit if its rows and settings are those of this one, else add to it."""
        record, settings = self.record, inputs.settings
        if record is None or not self._goes_on(record, inputs, task, parameters):
            return FitPlan(inputs, GrowthStates(), self)
        rounds = record.max_rounds + settings.solver.get_params()["max_rounds"]
        solver = clone(settings.solver).set_params(max_rounds=rounds)
        together = replace(settings, solver=solver, seed=record.seed)
        return FitPlan(inputs._replace(settings=together), GrowthStates(record.states), record.base)

    def _goes_on(
        self, record: FitRecord, inputs: FitInputs, task: str, parameters: Mapping[str, Any]
    ) -> bool:
        base, seed = record.base, parameters["random_state"]
        added_to = ((), "keep") if base is None else (base.freeze, base.nodes)
        return (
            added_to == (self.freeze, self.nodes)
            and inputs.settings.time_limit is None
            and (not is_whole(seed) or seed == record.seed)
            and growth_digest(task, parameters, inputs.settings.solver) == record.settings
            and model_digest(self.model) == record.model
            and rows_digest(RowSums(inputs.table), inputs.targets) == record.rows
        )

    @property
    def order(self) -> int:
        """Largest order of the old model."""
        rest = self.model.remainder
        held = () if rest is None else rest.components
        return max(map(len, (*self.model.components, *held)), default=1)

    def keeps_nodes_of(self, order: int) -> bool:
        """Whether the nodes of an order are those of the old model."""
        return self.nodes == "keep" and order in self.model.encoder.axes

    def encoder(self, fresh: TableEncoder, table: Table) -> TableEncoder:
        """Nodes of the fit, given nodes placed on the new rows; refuse values without a node."""
        known, places = self.model.encoder, dict(_matched(self.model, fresh.feature_names))
        _check_kinds(known, fresh, places)
        if self.nodes == "new":
            return fresh
        features = list(fresh.features)
        axes = {order: list(of_order) for order, of_order in fresh.axes.items()}
        for number, place in places.items():
            features[place] = known.features[number]
            for order in sorted(axes):
                if order in known.axes:
                    axes[order][place] = known.axes[order][number]
                else:
                    few = max(len(fresh.axes[order][place].values), 1)
                    axes[order][place] = axes[order - 1][place].coarsened(few)
        by_order = {order: tuple(of_order) for order, of_order in axes.items()}
        encoder = replace(fresh, features=tuple(features), axes=by_order)
        groups = [one.feature for one in self.model.evidence.random or ()]
        _check_values(encoder, table, places.values(), groups)
        return encoder

    def on_nodes_of(self, problem: Problem) -> BaseModel:
        """Return the old model on the nodes of a problem, unique under their masses."""
        encoder, model = problem.encoder, self.model
        deviations = model.evidence.spreads or tuple(map(np.zeros_like, model.tables))
        known = dict(zip(model.components, deviations, strict=True))
        spreads = lifted_tables(model, known, encoder)
        if self.nodes == "new":
            model = regridded(model, encoder)
            spreads = encoder.zeros(model.components, len(model.intercepts)) | spreads
        tables = lifted_tables(model, tables_by_component(model), encoder)
        rest = lifted_remainder(model, encoder)
        if rest is not None:
            rest.refuse_steps(encoder.feature_names, problem.shapes, "start")
        return BaseModel(tables, spreads, model.intercepts, self._frozen(tables, problem), rest)

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
        free = (None, WRAPPED)  # frozen functions of a period end as they begin
        shaped = [names[j] for s in frozen for j in s if problem.shapes.get(j) not in free]
        if shaped:
            raise ValueError(
                "freeze: a component stays as it is, so that its features cannot be given a shape, "
                f"found {shaped[0]!r} in freeze and in shapes. Leave it out of one of them."
            )
        return frozenset(frozen)


def check_start(warm: WarmStart, task: Task, inputs: FitInputs) -> None:
    """Refuse a model of other features or another task, and a solver that cannot start from it."""
    solver, table = inputs.settings.solver, inputs.table
    if not solver.continues:
        raise ValueError(
            "start: the solver must be Grow, which can add to a model, found "
            f"{type(solver).__name__}. Pass solver=Grow()."
        )
    model, objective = warm.model, task.objective
    is_survival = objective.kind == "survival"
    for what, wanted, found in (
        ("link", objective.link.name, model.link.name),
        ("classes", list(task.classes), list(model.classes)),
        ("outputs", list(task.outputs), list(model.output_names)),
        ("baseline hazard", is_survival, model.evidence.baseline is not None),
        ("offset column", _offset_name(table), _offset_name(model.encoder)),
    ):
        if wanted != found:
            raise ValueError(
                f"start: the model must have the {what} of this fit, {wanted!r}, found {found!r}. "
                "Start from a model of the same task."
            )
    _matched(model, [table.name(feature) for feature in range(table.n_features)], table)


def _offset_name(columns: Table | TableEncoder) -> str | None:
    column = columns.offset_column
    return None if column is None else column.words


def _matched(
    model: AnovaModel, names: Sequence[str], table: Table | None = None
) -> list[tuple[int, int]]:
    """Pair the number of each feature of a model with its index in ``names``, or refuse it."""
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
    """Refuse a feature that is of another kind or period in the new rows than in the old model."""
    for number, place in places.items():
        kinds = [_kind(known, number), _kind(fresh, place)]
        if None not in kinds and kinds[0] != kinds[1]:
            raise ValueError(
                f"start: a feature must be of the same kind as in the old model, found {kinds} for "
                f"{fresh.feature_names[place]!r}. Convert the column, or pass the same periods."
            )


def _kind(encoder: TableEncoder, feature: int) -> str | None:
    """Kind of a feature, with its period; None where fit has seen no value."""
    axis, kind = encoder.axes[1][feature], encoder.features[feature].kind
    if axis.is_empty:
        return None
    return f"{kind} of period {axis.values[-1]:g}" if kind == PERIODIC else kind


def _check_values(
    encoder: TableEncoder, table: Table, places: Iterable[int], groups: Sequence[str]
) -> None:
    """Refuse levels and missing values that have no node; new groups are no single group."""
    for place in places:
        axis, numbers = encoder.axes[min(encoder.axes)][place], encoder.numbers(table, place)
        is_open = axis.has_unseen and encoder.feature_names[place] not in groups
        without_node = {
            ("is missing", "no missing values"): np.isnan(numbers) & (not axis.has_missing),
            ("has new levels", "only other levels"): np.isinf(numbers) & (not is_open),
        }
        for (new, old), rows in without_node.items():
            if rows.any():
                raise ValueError(
                    f"start: column {table.name(place)!r} {new} in {rows.sum()} of {len(rows)} "
                    f"rows, and the old model has seen {old} there. Pass nodes='new', or drop "
                    "those rows."
                )


def unchanged(model: AnovaModel) -> Event:
    """Say that a fit of no rounds left the model as it was."""
    note = "no rounds: the model stays as it was"
    return Event(stage="start", note=note, n_components=len(model.components), seconds=0.0)


def with_checkpoint(plan: FitPlan, folder: Any, asked: Mapping[str, Any], task: str) -> FitPlan:
    """Return the plan of a fit whose growths are kept in a folder, and resumed if they are there.

    ``asked`` are the parameters of the estimator and what it starts from. The folder is a path, or
    files in another kind of storage.
    """
    files: StateFiles = folder if isinstance(folder, StateFiles) else FilesInFolder(checked(folder))
    inputs = plan.inputs
    identity = {
        "version": __version__,
        "rows": rows_digest(RowSums(inputs.table), inputs.targets),
        "parameters": settings_digest(task, asked),
    }
    seed = agreed_seed(files, identity, inputs.settings.seed)
    inputs = inputs._replace(settings=replace(inputs.settings, seed=seed))
    return plan._replace(inputs=inputs, states=StatesOnDisk(files, plan.states.known))


def checked(folder: Any) -> Path:
    """Return the folder of a checkpoint, which is made if it is not there."""
    if not isinstance(folder, str | os.PathLike):
        raise ValueError(
            f"checkpoint: must be the path of a folder, found {folder!r}. Pass for example "
            "checkpoint='run/'."
        )
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            f"checkpoint: must be a folder, or one that can be made, found {os.fspath(path)!r} "
            f"({error}). Pass another one."
        ) from error
    return path


def agreed_seed(files: StateFiles, identity: Mapping[str, str], seed: int) -> int:
    """Return the seed in a checkpoint; claim an empty one, and refuse one of another fit."""
    written, folder = read_sealed(files, IDENTITY), files.path("")
    if written is None:
        others = files.names()
        if others:
            raise ValueError(
                f"{files.argument}: must be an empty folder or one of an earlier call, found "
                f"{others[0]!r} in {folder!r}. Pass another folder."
            )
        write_sealed(files, IDENTITY, json.dumps({**identity, "seed": seed}).encode())
        return seed
    earlier = json.loads(written)
    for what in identity:
        if earlier.get(what) != identity[what]:
            raise ValueError(
                f"{files.argument}: the folder belongs to a fit of other {what}, found "
                f"{folder!r}. Repeat that call as it was, or pass another folder."
            )
    return int(earlier["seed"])
