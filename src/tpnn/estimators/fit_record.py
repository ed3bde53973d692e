"""FitRecord, provenance and facts: what a fit leaves behind about itself."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from tpnn import __version__
from tpnn._utils.threads import ONE_BLAS_THREAD
from tpnn.anova.components import Component
from tpnn.anova.measure import product_mean
from tpnn.explain.concurvity import MAX_ROWS, Imitation
from tpnn.loss.objectives import Objective
from tpnn.model.edit_log import digest
from tpnn.model.evidence import ComponentTest, ComponentTests, Evidence, Provenance
from tpnn.model.model import AnovaModel, column_scores, pruned
from tpnn.search.select import HeldOut
from tpnn.solvers.problem.fingerprint import RowSums
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.problem.rows import Targets
from tpnn.solvers.solution import Event, Solution
from tpnn.solvers.solver import Solver
from tpnn.solvers.states import State, digest_of
from tpnn.table.table import Table, read_column
from tpnn.uncertainty.linear_model import ZeroTest

if TYPE_CHECKING:
    from tpnn.estimators.warm_start import FitPlan, WarmStart

UNCOMPARED = ("n_jobs", "verbose")  # parameters that change no model
SOLVER_STAGES = ("grow", "descent", "refit")  # their events have losses of the model itself
LARGEST_NUMBER = float(np.finfo(np.float64).max)
LONGEST_SETTING = 1000  # names or characters; a longer one is told by its size


@dataclass(frozen=True, kw_only=True)
class FitRecord:
    """What a later fit needs to go on with a fit."""

    settings: str  # digest of what must be the same for growth to go on
    rows: str  # digest of rows, targets, weights, offsets and groups
    model: str  # digest of the model
    max_rounds: int  # of all fits so far
    seed: int
    states: Mapping[str, State]  # growths that ended because their rounds were up
    base: WarmStart | None  # model to which the fit added

    @classmethod
    def of(
        cls,
        task: str,
        parameters: Mapping[str, Any],
        model: AnovaModel,
        rows: RowSums,
        plan: FitPlan,
    ) -> FitRecord:
        """Record of a fit that has ended."""
        settings = plan.inputs.settings
        return cls(
            settings=growth_digest(task, parameters, settings.solver),
            rows=rows_digest(rows, plan.inputs.targets),
            model=model_digest(model),
            max_rounds=settings.solver.get_params().get("max_rounds", 0),
            seed=settings.seed,
            states=plan.states.kept,
            base=plan.base and replace(plan.base, record=None, fitted=None),
        )


def growth_digest(task: str, parameters: Mapping[str, Any], solver: Solver) -> str:
    """Digest of the settings that growth depends on, without seed and number of rounds."""
    of_solver = {name: v for name, v in solver.get_params().items() if name != "max_rounds"}
    compared = {**parameters, "solver": [type(solver).__name__, of_solver], "random_state": None}
    return settings_digest(task, compared)


def settings_digest(task: str, settings: Mapping[str, Any]) -> str:
    """Digest of the parameters of a fit, without those that change no model."""
    compared = {name: value for name, value in settings.items() if name not in UNCOMPARED}
    return digest_of((task, plain(compared)))


def plain(value: Any) -> Any:
    """Return a setting as lists, numbers and text, for a digest.

    >>> plain({"a": np.array([1, 2])}) == plain({"a": (1, 2)})
    True
    """
    if isinstance(value, Mapping):
        return [[plain(name), plain(item)] for name, item in value.items()]
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic | np.ndarray):
        return plain(value.tolist())
    if hasattr(value, "get_params"):
        return [type(value).__name__, plain(value.get_params())]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    named = [type(value).__name__, getattr(value, "__qualname__", "")]
    if not isinstance(value, FunctionType):
        return named
    # and the code of a function: all lambdas have the same name
    constants = [one for one in value.__code__.co_consts if not isinstance(one, CodeType)]
    cells = [cell.cell_contents for cell in value.__closure__ or ()]
    numbers = [one for one in cells if not callable(one)]
    code = value.__code__
    return [*named, code.co_code.hex(), plain([constants, code.co_names, numbers])]


def rows_digest(rows: RowSums, targets: Targets) -> str:
    """Digest of rows, targets, weights, offsets and groups, whatever the order of the rows."""
    named = [(f"y {number}", column) for number, column in enumerate(targets.y.T)]
    named += [("weight", targets.weights), ("offset", targets.offset), ("group", targets.groups)]
    named.append(("held out", targets.held_out))
    columns = [
        (name, read_column(np.asarray(values, np.float64), name))
        for name, values in named
        if values is not None
    ]
    return rows.digest(columns)


def model_digest(model: AnovaModel) -> str:
    """Digest of a model without its baseline hazard, which follows from it."""
    return digest(replace(model, evidence=Evidence()))


def provenance_of(
    task: str,
    table: Table,
    fingerprint: str,
    parameters: Mapping[str, Any],
    events: Iterable[Event],
    loss: str,
    y: Any,
) -> Provenance:
    """Provenance of a model that was fitted now.

    ``fingerprint`` is that of the rows and their targets, ``loss`` the name of the loss in the
    events, and ``y`` the targets as the user passed them, which may have names.
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
        targets=target_names(y),
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
        held_out = event.validation_loss
        if event.stage in SOLVER_STAGES and held_out is not None and math.isfinite(held_out):
            best[event.bag] = min(held_out, best.get(event.bag, held_out))
    return {f"{loss}, training scale": float(np.mean(list(best.values())))} if best else {}


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
    """Test every component of a model that was frozen from a solution.

    A component that a search or a selection chose is the best of many. Its p-value is therefore
    multiplied by the number of all components of its order (Bonferroni). ``searched`` are the
    orders of which components were chosen.
    """
    with ONE_BLAS_THREAD, np.errstate(over="ignore", invalid="ignore"):  # of squared huge numbers
        held_out = HeldOut(problem, solution).reported(problem, objective)
        losses = losses_without(held_out)
        shares, dependence = on_rows(model, problem)
    lines, n_features = [], problem.encoder.n_features
    copies, names = copied_features(problem), problem.encoder.feature_names
    for component, share in zip(model.components, shares, strict=True):
        degrees, p_value = tests[component]
        order = len(component)
        n_candidates = math.comb(n_features, order) if order in searched else 1
        if _is_redundant(component, model.components, copies):
            p_value = 1.0
        lines.append(
            ComponentTest(
                degrees, min(n_candidates * p_value, 1.0), *losses[component], concurvity=share
            )
        )
    used = {feature for component in model.components for feature in component}
    shown = (tuple(names[j] for j in same if j in used) for same in copies)
    named = tuple(same for same in shown if len(same) > 1)
    loss = _finite(held_out.loss)
    copied = named or None
    return ComponentTests(objective.name, loss, tuple(lines), copies=copied, dependence=dependence)


def copied_features(problem: Problem) -> list[list[int]]:
    """Return sets of features that are at the same nodes in all rows, and so say the same."""
    by_hash: dict[int, list[list[int]]] = {}
    for feature, codes in enumerate(problem.codes.by_order[1]):
        if problem.encoder.axes[1][feature].n_nodes > 1:
            same = by_hash.setdefault(hash(codes.tobytes()), [])
            known = (s for s in same if np.array_equal(problem.codes.by_order[1][s[0]], codes))
            found = next(known, None)
            if found is None:
                same.append([feature])
            else:
                found.append(feature)
    return [s for same in by_hash.values() for s in same if len(s) > 1]


def _is_redundant(
    component: Component, components: Iterable[Component], copies: Sequence[Sequence[int]]
) -> bool:
    """Whether another component has the same features, or copies of them."""
    first = {feature: same[0] for same in copies for feature in same}

    def key(of: Component) -> tuple[int, ...]:
        return tuple(sorted(first.get(feature, feature) for feature in of))

    return sum(key(other) == key(component) for other in components) > 1


def _finite(loss: float) -> float:
    """Return the largest number in place of a loss in the user's unit that is larger."""
    return float(np.nan_to_num(loss, nan=LARGEST_NUMBER, posinf=LARGEST_NUMBER))


def losses_without(held_out: HeldOut) -> dict[Component, tuple[float, float]]:
    """Held-out loss without each component, and the standard error of the rise.

    The averaged model is scored, as in the selection of components: noise that averaging removes
    does not count against a component.
    """
    losses = {}
    for index, component in enumerate(held_out.components):
        rise, error = held_out.change(held_out.raw - held_out.values(index))
        rise += held_out.averaged_noise(index)
        losses[tuple(sorted(component))] = (_finite(held_out.loss + rise), _finite(error))
    return losses


def on_rows(model: AnovaModel, problem: Problem) -> tuple[list[float], float | None]:
    """Concurvity of each component on training rows, the largest over the outputs; dependence.

    The latter is the variance of the sum of components over the sum of their variances.
    """
    used, codes = pruned(model), problem.codes.by_order[1]
    step = -(-codes.shape[1] // MAX_ROWS)
    columns = [
        axis.numbers[codes[problem.encoder.feature_names.index(name)][::step]]
        for name, axis in zip(used.feature_names, used.encoder.axes[1], strict=True)
    ]
    n_outputs = len(used.intercepts)
    scores = column_scores(used, columns).reshape(-1, len(used.components), n_outputs)
    by_output = [Imitation.of(used, columns, scores[..., k]) for k in range(n_outputs)]
    shares = [max(one.share(index) for one in by_output) for index in range(len(used.components))]
    masses = problem.distinct.masses[::step]
    whole = scores.sum(1)
    unit = max(float(np.abs(whole).max(initial=0.0)), LARGEST_NUMBER**-0.4)
    mean = np.average(whole / unit, axis=0, weights=masses)
    joint = float(np.average((whole / unit - mean) ** 2, axis=0, weights=masses).mean())
    apart = [
        float(product_mean((table / unit) ** 2, [a.weights for a in used.axes(component)]).mean())
        for component, table in zip(used.components, used.tables, strict=True)
    ]
    ratio = joint / sum(apart) if sum(apart) > 0 else np.inf
    return shares, float(ratio) if np.isfinite(ratio) else None
