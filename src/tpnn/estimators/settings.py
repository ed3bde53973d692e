"""Settings: an estimator's parameters as the pipeline reads them."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from tpnn._utils.rules import check_parameters, is_whole
from tpnn._utils.threads import threads_of
from tpnn.anova.components import resolve_feature
from tpnn.estimators.checks import check_rows, seed_from
from tpnn.loss.row_values import column_offset
from tpnn.search.request import Interactions
from tpnn.solvers.descent.solver import Descent
from tpnn.solvers.grow.solver import Grow
from tpnn.solvers.limits import Limits
from tpnn.solvers.problem.targets import Targets
from tpnn.solvers.solver import Solver
from tpnn.solvers.states import GrowthStates
from tpnn.table.table import Table

if TYPE_CHECKING:
    from tpnn.estimators.warm_start import WarmStart


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The parameters of an estimator, with solver, interactions and seed as objects.

    Features are given by name or by the position of their column in the user's table.
    """

    order: int
    is_order_given: bool
    interactions: Interactions
    max_components: int | None
    selection: str
    shapes: Mapping[int | str, str]
    nominal: Sequence[int | str]
    min_level_rows: int
    offset: int | str | None
    exposure: int | str | None
    solver: Solver
    n_bags: int | str
    max_nodes: int | Mapping[int, int]
    validation_fraction: float
    bands: bool
    device: str
    n_jobs: int | None
    time_limit: float | None
    seed: int

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Settings:
        """Read an estimator's valid parameters."""
        nominal, min_level_rows = level_rules(parameters["categorical"])
        check_exact(parameters)
        interactions = Interactions.read(parameters["interactions"], parameters["components"])
        solver = solver_of(parameters["solver"], parameters["device"])
        parsed = {"order", "interactions", "shapes", "solver"}
        unchanged = {field.name for field in fields(cls)} & (parameters.keys() - parsed)
        return cls(
            order=order_of(parameters["order"], interactions, solver),
            is_order_given=not isinstance(parameters["order"], str),
            interactions=interactions,
            shapes=dict(parameters["shapes"] or {}),
            nominal=nominal,
            min_level_rows=min_level_rows,
            solver=solver,
            seed=seed_from(parameters["random_state"]),
            **{"exposure": None, **{name: parameters[name] for name in unchanged}},
        )

    def by_name(self, names: Sequence[str]) -> Settings:
        """Give features by name where they are given by their position in ``names``."""
        given = self.interactions
        lists = ("listed", "required", "forbidden", "groups")
        return replace(
            self,
            interactions=replace(given, **{p: _named(getattr(given, p), names) for p in lists}),
            shapes={_named(feature, names): shape for feature, shape in self.shapes.items()},
            nominal=_named(self.nominal, names),
        )


def _named(given: Any, names: Sequence[str]) -> Any:
    """Positions as names, in lists of any depth; what is no position stays.

    >>> _named([(0, "c"), (1, 7)], ["a", "b", "c"])
    [['a', 'c'], ['b', 7]]
    """
    if isinstance(given, list | tuple):
        return [_named(one, names) for one in given]
    return names[given] if is_whole(given) and 0 <= given < len(names) else given


def level_rules(categorical: Any) -> tuple[Sequence[int | str], int]:
    """Features whose numbers are labels, and the rows below which levels share one node.

    >>> level_rules({"features": ["zip_code"], "min_rows": 20})
    (['zip_code'], 20)
    """
    given = categorical if isinstance(categorical, Mapping) else {"features": categorical}
    features = given.get("features", "auto")
    return () if isinstance(features, str) else features, given.get("min_rows", 1)


def check_exact(parameters: Mapping[str, Any]) -> None:
    """Refuse parameters that contradict a list of all components."""
    listed = parameters["components"]
    if listed is None:
        return
    order, most = parameters["order"], parameters["max_components"]
    longest = max(listed, key=len)
    if not isinstance(order, str) and order < len(longest):
        raise ValueError(
            f"components: none may have more features than order={order}, found {longest}. Leave "
            f"order out, or pass order={len(longest)}."
        )
    contradictions = {
        "interactions": parameters["interactions"] != "auto",
        "max_components": most is not None and most < len(listed),
        "selection": parameters["selection"] in ("noise", "one_se"),
    }
    for name, is_contradiction in contradictions.items():
        if is_contradiction:
            raise ValueError(
                f"components: a list of all components leaves nothing to choose, found it with "
                f"{name}={parameters[name]!r}. Leave {name} out, or change the list."
            )


def order_of(given: int | str, interactions: Interactions, solver: Solver) -> int:
    """Largest order of a component: as given, else of what is listed or can be found."""
    if not isinstance(given, str):
        return given
    if interactions.listed is not None:
        return max(map(len, interactions.listed), default=1)
    finds_triples = interactions.has_noise_floor and solver.judges
    return max(3 if finds_triples else 2, *map(len, interactions.required), 2)


def solver_of(given: Any, device: str) -> Solver:
    """Solver object for a name, or the given object; check its parameters and the device."""
    by_name = {"auto": Grow, "grow": Grow, "gradient": Descent}
    solver: Solver = by_name[given]() if isinstance(given, str) else given
    check_parameters(solver.get_params(), solver.rules, type(solver).__name__)
    if device not in ("auto", *solver.devices):
        raise ValueError(
            f"device: {type(solver).__name__} runs on {' or '.join(solver.devices)}, found "
            f"{device!r}. Pass device='cpu', or solver=Descent()."
        )
    return solver


class FitInputs(NamedTuple):
    """A table that was read, its targets, the settings of the fit and its limits."""

    table: Table
    targets: Targets
    settings: Settings
    limits: Limits


class FitPlan(NamedTuple):
    """What the pipeline runs on."""

    inputs: FitInputs
    states: GrowthStates  # growths to go on with, and those that the fit leaves behind
    base: WarmStart | None = None  # model to which the fit adds


def prepare(X: Any, targets: Targets, settings: Settings) -> FitInputs:
    """Note the time and read the table; a column that is the offset joins the targets."""
    limits, table = limits_from_now(settings), read(X, targets, settings)
    if table.offset_column is None:
        return FitInputs(table, targets, settings, limits)
    offset = column_offset(table, table.offset_column)
    by_name = settings.by_name(table.column_names)
    return FitInputs(table, replace(targets, offset=offset), by_name, limits)


def limits_from_now(settings: Settings) -> Limits:
    """Limits of a fit that begins now."""
    deadline = time.monotonic() + (settings.time_limit or math.inf)
    return Limits(deadline, threads_of(settings.n_jobs), settings.device)


def read(X: Any, targets: Targets, settings: Settings) -> Table:
    """Read the user's table, one row for each target; a column of offsets is set aside."""
    table = Table(X)
    check_rows(table.n_rows, len(targets.y))
    argument = "offset" if settings.exposure is None else "exposure"
    column = settings.offset if settings.exposure is None else settings.exposure
    if column is None:
        return table
    place = resolve_feature(column, table.column_names, argument)
    if table.n_features == 1:
        raise ValueError(
            f"{argument}: a feature is needed besides it, found {column!r} as the only column of "
            "X. Pass more columns."
        )
    return table.set_aside(place, argument == "exposure")
