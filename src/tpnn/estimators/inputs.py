"""Inputs: the parameters of an estimator and the arguments of ``fit``, checked and read."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
from numpy.typing import NDArray
from sklearn.utils import column_or_1d

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn._utils.rules import check_parameters, is_whole
from tpnn._utils.threads import threads_of
from tpnn.anova.components import Component, ComponentSet, resolve_feature
from tpnn.anova.measure import purify_tables
from tpnn.anova.shapes import RANDOM
from tpnn.estimators.warm_start import WarmStart
from tpnn.loss.row_values import checked_numbers, checked_offset, column_offset, refuse_masked
from tpnn.model.model import AnovaModel
from tpnn.search.interactions import Interactions
from tpnn.solvers.descent.solver import Descent
from tpnn.solvers.grow.solver import Grow
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.problem.rows import Targets
from tpnn.solvers.solution import Event, Limits
from tpnn.solvers.solver import Solver
from tpnn.table.columns import StoredColumns, array_of, is_missing
from tpnn.table.table import JoinedTable, Table

LARGEST_WEIGHT = 1e100  # sums of larger weights could overflow
TABLE_MEMORY_SHARE = 0.5  # of the free memory, for a fit to a table that is read as a whole
CGROUPS = (  # folder, limit and usage of a container's memory: version 2, version 1
    ("/sys/fs/cgroup", "memory.max", "memory.current"),
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
)


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
    shapes: Mapping[int | str, str | tuple[str, float]]
    nominal: Sequence[int | str]
    min_level_rows: int
    missing: str  # "node" or "impute"
    offset: int | str | None
    exposure: int | str | None
    solver: Solver
    n_bags: int | str
    max_nodes: int | Mapping[int, int]
    validation_fraction: float
    bands: bool
    remainder: bool | str
    device: str
    n_jobs: int | None
    time_limit: float | None
    seed: int

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Settings:
        """Read an estimator's valid parameters."""
        nominal, min_level_rows, missing = level_rules(parameters["categorical"])
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
            missing=missing,
            solver=solver,
            seed=seed_from(parameters["random_state"]),
            **{"exposure": None, **{name: parameters[name] for name in unchanged}},
        )

    def by_name(self, names: Sequence[str]) -> Settings:
        """Give features by name where they are given by their position in ``names``."""
        rules = self.interactions
        lists = ("listed", "required", "forbidden", "groups")
        return replace(
            self,
            interactions=replace(rules, **{p: _named(getattr(rules, p), names) for p in lists}),
            shapes={_named(feature, names): shape for feature, shape in self.shapes.items()},
            nominal=_named(self.nominal, names),
        )


def _named(features: Any, names: Sequence[str]) -> Any:
    """Replace positions by names, in lists of any depth; names and other numbers stay.

    >>> _named([(0, "c"), (1, 7)], ["a", "b", "c"])
    [['a', 'c'], ['b', 7]]
    """
    if isinstance(features, list | tuple):
        return [_named(one, names) for one in features]
    is_position = is_whole(features) and 0 <= features < len(names)
    return names[features] if is_position else features


def level_rules(categorical: Any) -> tuple[Sequence[int | str], int, str]:
    """Features whose numbers are labels, rows below which levels share one node, missing values.

    >>> level_rules({"features": ["zip_code"], "min_rows": 20})
    (['zip_code'], 20, 'node')
    """
    rules = categorical if isinstance(categorical, Mapping) else {"features": categorical}
    features = rules.get("features", "auto")
    nominal = () if isinstance(features, str) else features
    return nominal, rules.get("min_rows", 1), rules.get("missing", "node")


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


def order_of(order: int | str, interactions: Interactions, solver: Solver) -> int:
    """Largest order of a component; "auto" is that of the list, or of what a search can find."""
    if not isinstance(order, str):
        return order
    if interactions.listed is not None:
        return max(map(len, interactions.listed), default=1)
    finds_triples = interactions.are_free and solver.grows_deep
    return max(3 if finds_triples else 2, *map(len, interactions.required), 2)


def solver_of(name_or_solver: Any, device: str) -> Solver:
    """Solver object for a name, or the object itself; check its parameters and the device."""
    by_name = {"auto": Grow, "grow": Grow, "gradient": Descent}
    is_name = isinstance(name_or_solver, str)
    solver: Solver = by_name[name_or_solver]() if is_name else name_or_solver
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


def prepare(tables: Sequence[Any], targets: Targets, settings: Settings) -> FitInputs:
    """Note the time and read X and X_val; a column that is the offset joins the targets."""
    limits, table = limits_from_now(settings), read(tables, targets, settings)
    for feature, shape in settings.shapes.items():
        if shape == RANDOM or not isinstance(shape, str):  # which have short forms
            short = "random" if shape == RANDOM else "periodic"
            resolve_feature(feature, table.column_names, short)
    if table.offset_column is None:
        return FitInputs(table, targets, settings, limits)
    offset = column_offset(table, table.offset_column)
    by_name = settings.by_name(table.column_names)
    return FitInputs(table, replace(targets, offset=offset), by_name, limits)


def limits_from_now(settings: Settings) -> Limits:
    """Limits of a fit that begins now."""
    deadline = time.monotonic() + (settings.time_limit or math.inf)
    return Limits(deadline, threads_of(settings.n_jobs), settings.device)


def read(tables: Sequence[Any], targets: Targets, settings: Settings) -> Table:
    """Read X and X_val, one row for each target; a column of offsets is set aside."""
    table = Table(tables[0]) if len(tables) == 1 else JoinedTable.of(*map(Table, tables))
    check_rows(table.n_rows, len(targets.y))
    argument = "offset" if settings.exposure is None else "exposure"
    column = settings.offset if settings.exposure is None else settings.exposure
    if column is None:
        return table
    index = resolve_feature(column, table.column_names, argument)
    if table.n_features == 1:
        raise ValueError(
            f"{argument}: a feature is needed besides it, found {column!r} as the only column of "
            "X. Pass more columns."
        )
    return table.set_aside(index, argument == "exposure")


def checked_target(y: Any, dtype: Any) -> NDArray[Any]:
    """Targets as a finite array of shape (n_rows,), converted if a dtype is given."""
    if y is None:
        raise ValueError(
            "y: targets are needed, found None. This estimator requires y to be passed, but the "
            "target y is None: pass one value per row."
        )
    given = array_of(y)
    try:
        target = column_or_1d(given, warn=True)
    except ValueError as error:
        raise ValueError(
            f"y: one value per row is needed, found shape {given.shape} ({error}). Pass a column; "
            "several labels of a row may be joined to one text."
        ) from error
    if target.dtype.kind in "mM" or (target.dtype.kind == "O" and any(map(is_missing, target))):
        raise ValueError(
            f"y: targets must be numbers or labels, found dates, None or NaN ({target.dtype}). "
            "Drop those rows or convert them."
        )
    if np.iscomplexobj(target):
        raise ValueError(
            "y: targets must be real, found complex numbers. Complex data not supported."
        )
    try:
        target = target if dtype is None else np.asarray(target, dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"y: targets must be numbers, found {target.dtype} ({error}). "
            "Use TPNNClassifier for labels."
        ) from error
    if target.dtype.kind == "f" and not np.isfinite(target).all():
        bad = int((~np.isfinite(target)).sum())
        raise ValueError(
            f"y: every target must be finite, found NaN or inf in {bad} of {len(target)} rows. "
            "Drop those rows."
        )
    return target


def checked_targets(y: Any) -> tuple[FloatArray, tuple[str, ...]]:
    """One or several targets as floats (n_rows, T), and their names."""
    refuse_masked("y", y)
    array = array_of(y)
    if array.ndim != 2 or array.shape[1] == 1:
        return checked_target(y, np.float64)[:, None], ("y",)
    targets = [checked_target(column, np.float64) for column in array.T]
    names = getattr(y, "columns", [f"y{number}" for number in range(len(targets))])
    return np.column_stack(targets), tuple(map(str, names))


def check_range(target: FloatArray, objective: Any) -> None:
    """Refuse targets outside the range of an objective."""
    if not objective.accepts(target):
        raise ValueError(
            f"y: the objective {objective.name!r} needs {objective.rule}, found values from "
            f"{target.min()} to {target.max()}. Change the objective or the targets."
        )


def check_rows(n_rows: int, n_targets: int) -> None:
    """Refuse a table that is too short or differs in length from its targets."""
    if n_rows != n_targets:
        raise ValueError(
            f"y: one value per row of X is needed, found {n_targets} for {n_rows} rows "
            "(inconsistent numbers of samples). Pass X and y of the same length."
        )
    if n_rows < 2:
        raise ValueError(
            f"X: at least 2 rows are needed, found {n_rows} sample(s) "
            f"(n_samples={n_rows}). Pass more rows."
        )


def checked_weights(sample_weight: Any, n_rows: int) -> FloatArray | None:
    """Weights as an array of shape (n_rows,), or None if all rows count the same."""
    if sample_weight is None:
        return None
    weights = checked_numbers("sample_weight", sample_weight)
    if weights.ndim == 0:
        weights = np.full(n_rows, float(weights))
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight: one weight per row is needed, found shape {weights.shape} for "
            f"{n_rows} rows. Sample weights must be 1D array or scalar: pass {n_rows} values."
        )
    if not np.isfinite(weights).all() or (weights < 0).any() or not (n_rows and weights.any()):
        raise ValueError(
            "sample_weight: weights must be finite, none negative and not all zero, found values "
            f"from {weights.min(initial=0)} to {weights.max(initial=0)}. Correct them."
        )
    return weights / weights.max() if weights.max() > LARGEST_WEIGHT else weights


def checked_groups(groups: Any, n_rows: int, weights: FloatArray | None) -> IntArray | None:
    """Return the number of each row's group, (n_rows,), by the names in order; None without."""
    if groups is None:
        return None
    refuse_masked("groups", groups)
    names = array_of(groups)
    if names.shape != (n_rows,):
        raise ValueError(
            f"groups: one group per row is needed, found shape {names.shape} for {n_rows} rows. "
            f"Pass {n_rows} names or numbers."
        )
    n_missing = sum(map(is_missing, names))
    if n_missing:
        raise ValueError(
            f"groups: every row needs a group, found None or NaN in {n_missing} of {n_rows} rows. "
            "Drop those rows, or give each a group of its own."
        )
    if names.dtype.kind == "O" and not _are_texts(groups, names):
        names = np.fromiter(map(repr, names), object, n_rows)
    numbers: IntArray = np.unique(names, return_inverse=True)[1]
    counted = numbers if weights is None else numbers[weights > 0]
    if len(np.unique(counted)) < 2:
        raise ValueError(
            "groups: at least two groups with rows that count are needed, found one: every bag "
            "holds out whole groups. Pass more rows, or leave groups out."
        )
    return numbers


def targets_of(y: FloatArray, weights: FloatArray | None, offset: Any, groups: Any) -> Targets:
    """Targets (n_rows, n_columns) that were checked, with offset and groups, checked here."""
    numbers = checked_groups(groups, len(y), weights)
    return Targets(y, weights, checked_offset(offset, len(y)), numbers)


def _are_texts(groups: Any, names: NDArray[Any]) -> bool:
    """Whether groups are strings in a list or of polars, which are sorted as they are."""
    is_listed = isinstance(groups, list | tuple) or str(getattr(groups, "dtype", "")) == "String"
    return is_listed and all(isinstance(name, str) for name in names)


def check_one_offset(parameters: Mapping[str, Any], offset: Any) -> None:
    """Refuse more than one of the parameters offset and exposure and fit's argument offset."""
    columns = [name for name in ("offset", "exposure") if parameters.get(name) is not None]
    offsets = [f"the parameter {name}={parameters[name]!r}" for name in columns]
    if offset is not None:
        offsets.append("offsets passed to fit")
    if len(offsets) > 1:
        raise ValueError(
            f"offset: only one offset is possible, found {' and '.join(offsets)}. Add them up in "
            "one column, the exposure by its logarithm, and pass offset='that column' alone."
        )


def available_memory() -> float:
    """Bytes that this process may still use: of the machine, or of its container if that is less.

    A limit that is absent, unreadable or "max" leaves the machine's memory as it is.
    """
    machine = float(psutil.virtual_memory().available)
    return max(0.0, min([machine, *(_container_memory(*cgroup) for cgroup in CGROUPS)]))


def memory_for_tables() -> float:
    """Bytes up to which a fit to a table in files reads it as a whole."""
    return TABLE_MEMORY_SHARE * available_memory()


def refuse_stored(X: Any) -> None:
    """Refuse a table larger than memory for a loss in which every row depends on others."""
    if isinstance(X, StoredColumns):
        raise ValueError(
            f"X: a survival model needs all rows in memory, because the loss of each depends on "
            f"the others at risk, found {X.shape[0]:,} rows of {X.shape[1]} columns in files and "
            f"{available_memory() / 1e9:.1f} GB free. Pass fewer rows or columns, or fit whether "
            "the event happens within a fixed time with TPNNClassifier."
        )


def _container_memory(folder: str, limit: str, usage: str) -> float:
    """Bytes below the limit of a control group, file caches counted as free; inf without limit."""
    try:
        size, used = (float(Path(folder, name).read_text()) for name in (limit, usage))
    except (OSError, ValueError):  # "max" is no number
        return np.inf
    return size - used + _cached_bytes(Path(folder, "memory.stat"))


def _cached_bytes(statistics: Path) -> float:
    """Bytes of files that the kernel drops when memory is short, 0 where it does not say."""
    try:
        sizes = dict(line.split() for line in statistics.read_text().splitlines())
        names = ("inactive_file", "active_file")  # "total" in version 1 is with all subgroups
        return float(sum(int(sizes.get(f"total_{name}", sizes.get(name, 0))) for name in names))
    except (OSError, ValueError):
        return 0.0


def seed_from(random_state: Any) -> int:
    """Seed of a fit: the number itself, or one drawn from a generator or from fresh entropy."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**32))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**32))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**32, dtype=np.uint64))
    return int(random_state)


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


N_TIMINGS = 3  # of each component; the shortest counts
PASSES_IN_ALL, PASSES_AFTER_SOLVING = 4.0, 2.5  # work on a component, in units of what is timed
LARGEST_TIME_SHARE = 0.5  # of the time left, for all that is not training


@dataclass(frozen=True)
class Budget:
    """What a time limit affords.

    Purifying the components, averaging the bags and ranking the components take time after the
    solver has stopped. Both are proportional to the number of components, and nearly so to the
    number of bags. So the work on one component of each order is timed before the solver starts: if
    all components of all bags would take more than half of the time left, fewer bags are fitted, at
    least one. The solver gets the time that the rest of the work does not need, and at least half.
    """

    n_bags: int
    limits: Limits  # of the solver, which leave time for what comes after it
    events: list[Event]  # what was cut short


def time_budget(problem: Problem, n_bags: int, limits: Limits) -> Budget:
    """Bags that the time left affords, and the limits of a solver that fits them."""
    if limits.has_no_deadline:
        return Budget(n_bags, limits, [])
    began = time.monotonic()
    one, all_bags = (seconds_of_components(problem, count) for count in (1, n_bags))
    each = max(all_bags - one, 0.0) / max(n_bags - 1, 1)  # a further bag
    left = LARGEST_TIME_SHARE * max(limits.seconds_left, 0.0)
    affordable = n_bags
    while affordable > 1 and PASSES_IN_ALL * (one + each * (affordable - 1)) > left:
        affordable -= 1
    needed = min(PASSES_AFTER_SOLVING * (one + each * (affordable - 1)), left)
    events = []
    if affordable < n_bags:
        note = f"the time limit affords {affordable} of {n_bags} bags"
        events.append(limit_event(problem, note, began))
    return Budget(affordable, replace(limits, deadline=limits.deadline - needed), events)


def limit_event(problem: Problem, note: str, began: float) -> Event:
    """Record what a time limit cut short."""
    seconds = time.monotonic() - began
    return Event(stage="limit", note=note, n_components=len(problem.components), seconds=seconds)


def seconds_of_components(problem: Problem, n_bags: int) -> float:
    """Estimated seconds to purify all components in some bags, and to look up their values."""
    total = 0.0
    for order in problem.components.orders:
        components = [s for s in problem.components if len(s) == order]
        _ = problem.codes.by_order  # coded once, and not part of what is timed
        timings = [_seconds_of(problem, components[0], n_bags) for _ in range(N_TIMINGS)]
        total += len(components) * min(timings)
    return total


def _seconds_of(problem: Problem, component: Component, n_bags: int) -> float:
    """Seconds to purify one component in some bags and to look up its values on all rows."""
    axes, n_lanes = problem.encoder.axes, n_bags * problem.objective.n_outputs
    tables = problem.encoder.zeros(ComponentSet((component,)).with_subsets(), n_lanes)
    tables[component] += 1.0
    began = time.monotonic()
    purify_tables(tables, axes)
    problem.codes.values(component, tables[component])
    return time.monotonic() - began
