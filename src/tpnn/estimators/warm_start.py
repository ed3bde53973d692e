"""WarmStart: the model that a fit starts from, what of it stays, and on which nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from tpnn._utils.rules import is_whole
from tpnn.anova.components import Component, ComponentSet, resolve_components
from tpnn.anova.purify import purify_tables
from tpnn.estimators.fit_record import FitRecord, growth_digest, model_digest, rows_digest
from tpnn.estimators.settings import FitInputs, FitPlan
from tpnn.model.edit_log import digest
from tpnn.model.model import AnovaModel
from tpnn.model.regrid import lifted
from tpnn.model.task import Task
from tpnn.solvers.problem.fingerprint import RowSums
from tpnn.solvers.problem.problem import BaseModel, Problem
from tpnn.solvers.solution import Event
from tpnn.solvers.states import GrowthStates
from tpnn.table.encoder import TableEncoder
from tpnn.table.table import Table

if TYPE_CHECKING:
    from tpnn.estimators.pipeline import Fitted


@dataclass(frozen=True, kw_only=True)
class WarmStart:
    """What a fit starts from, and what is known about the fit that made it."""

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
                    few = max(len(fresh.axes[order][place].values), 1)
                    axes[order][place] = axes[order - 1][place].coarsened(few)
        by_order = {order: tuple(of_order) for order, of_order in axes.items()}
        encoder = replace(fresh, features=tuple(features), axes=by_order)
        _check_values(encoder, table, places.values())
        return encoder

    def on_nodes_of(self, problem: Problem) -> BaseModel:
        """Return the old model on the nodes of a problem, unique under their masses."""
        encoder, intercepts = problem.encoder, self.model.intercepts
        tables = lifted(self.model, encoder)
        deviations = self.model.evidence.spreads or tuple(map(np.zeros_like, self.model.tables))
        spreads = lifted(replace(self.model, tables=deviations), encoder)
        if self.nodes == "new":
            subsets = ComponentSet(tuple(tables)).with_subsets()
            sizes = {s: [encoder.axes[len(s)][j].n_nodes for j in s] for s in subsets}
            zeros = {s: np.zeros((*sizes[s], len(intercepts))) for s in subsets}
            moved, tables = purify_tables(zeros | tables, encoder.axes)
            intercepts, spreads = intercepts + moved, zeros | spreads
        return BaseModel(tables, spreads, intercepts, self._frozen(tables, problem))

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


def read_start(start: Any, freeze: Any, nodes: Any) -> WarmStart | None:
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
            "freeze: needs start. Pass the model whose components to freeze: "
            f"fit(X, y, start=model, freeze={freeze!r})."
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
    return WarmStart(
        model=model,
        freeze=as_lists,
        nodes=nodes,
        record=getattr(start, "_record_", None),
        fitted=getattr(start, "_fitted_", None),
    )


def check_start(warm: WarmStart, task: Task, inputs: FitInputs) -> None:
    """Refuse a model of other features or another task, and a solver that cannot start from it."""
    solver, table = inputs.settings.solver, inputs.table
    if not solver.continues:
        raise ValueError(
            "start: the solver must be Grow, which can add to a model, found "
            f"{type(solver).__name__}. Pass solver=Grow()."
        )
    model, objective = warm.model, task.objective
    is_survival = objective.name == "cox"
    for what, wanted, found in (
        ("link", objective.link.name, model.link.name),
        ("classes", list(task.classes), list(model.classes)),
        ("outputs", list(task.outputs), list(model.output_names)),
        ("baseline hazard", is_survival, model.evidence.baseline is not None),
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
        are_known = not (known.axes[1][number].is_empty or fresh.axes[1][place].is_empty)
        if are_known and kinds[0] != kinds[1]:
            raise ValueError(
                f"start: a feature must be of the same kind as in the old model, found {kinds} for "
                f"{fresh.feature_names[place]!r}. Convert the column."
            )


def _check_values(encoder: TableEncoder, table: Table, places: Iterable[int]) -> None:
    """Refuse levels and missing values that have no node."""
    for place in places:
        axis, numbers = encoder.axes[min(encoder.axes)][place], encoder.numbers(table, place)
        without_node = {
            ("is missing", "no missing values"): np.isnan(numbers) & (not axis.has_missing),
            ("has new levels", "only other levels"): np.isinf(numbers) & (not axis.has_unseen),
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
