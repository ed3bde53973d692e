"""The pipeline: from a table and its targets to a fitted model, stage by stage.

    read -> encode -> build -> search -> solve -> select -> refit -> bands
         -> freeze -> constrain -> balance -> calibrate

Each stage takes records and returns a record, and the stages stand in this order. Only this module
joins the solvers, the search and the fitted model.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tpnn._utils.threads import ONE_BLAS_THREAD, threads_of
from tpnn.anova.components import (
    Component,
    ComponentSet,
    InteractionRules,
    resolve_feature,
    resolve_features,
    resolve_interactions,
)
from tpnn.anova.shapes import LINEAR, RANDOM, WRAPPED, check_shape
from tpnn.estimators.blend import moved
from tpnn.estimators.fit_record import component_tests
from tpnn.estimators.given_rows import with_known_values
from tpnn.estimators.inputs import FitInputs, Settings, available_memory, limit_event, time_budget
from tpnn.estimators.mixture import (
    DeepPart,
    Mixture,
    leaves_rest,
    tree_scores,
    with_remainder,
)
from tpnn.estimators.quality import gaps_event, quality_event
from tpnn.model.constrain import constrain
from tpnn.model.model import AnovaModel, pruned
from tpnn.model.remainder import measured
from tpnn.model.task import Task
from tpnn.search.interactions import MOST_MAINS
from tpnn.search.rescale import rescaled
from tpnn.search.select import HeldOut, Keep, Selection, required_components, select
from tpnn.solvers.problem.problem import Bagging, BaseModel, Problem
from tpnn.solvers.problem.row_scores import balanced, based
from tpnn.solvers.problem.rows import Targets
from tpnn.solvers.solution import Event, Limits, Progress, Solution, Stopwatch
from tpnn.solvers.solver import Solver
from tpnn.table.encoder import LevelRules, TableEncoder
from tpnn.table.table import PERIODIC, Table
from tpnn.uncertainty.calibrate import calibrated
from tpnn.uncertainty.deviance import with_statistics
from tpnn.uncertainty.recipe import infer
from tpnn.uncertainty.unpenalised import check_random, unpenalised

if TYPE_CHECKING:
    from tpnn._utils.arrays import FloatArray
    from tpnn.anova.posterior import Posterior
    from tpnn.estimators.warm_start import FitPlan, WarmStart
    from tpnn.uncertainty.linear_model import RowErrors, ZeroTest

MOST_ROWS_OF_BANDS = 5_000_000  # distinct ones; some hundred bytes each, for tables of any kind
NODES_OF_HIGHER_ORDERS = 6  # for orders without a limit of the solver
BYTES_PER_SORTED_ROW, SORTED_BYTES = 40, 1 << 31  # of columns being sorted, and of all at once
TRAINING_SHARE = 0.85  # of a limited time; bands need some of it


@dataclass(frozen=True, kw_only=True)
class Solved:
    """A solution, and what the search found out about its components."""

    problem: Problem
    solution: Solution
    events: list[Event]  # what this stage did besides solving: what the search tried, or the refit
    solver: Solver
    limits: Limits  # of the solver
    may_be_noise: bool = False  # whether trees chose some components of very many features
    searched: frozenset[int] = frozenset()  # orders of which some components were chosen
    posteriors: Mapping[Component, Posterior] | None = None  # where bands were asked for
    tests: Mapping[Component, ZeroTest] = field(default_factory=dict)  # of the same components
    row_errors: RowErrors | None = None  # in the same case
    smooth: FloatArray | None = None  # (n, K), raw scores of smooth parts, in the same case
    deep: DeepPart | None = None  # deep trees, where they leave a remainder

    @property
    def components(self) -> ComponentSet:
        """Components of the solution."""
        return ComponentSet(tuple(self.solution.components))


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """What comes out of the pipeline; it holds the coded training rows."""

    model: AnovaModel
    events: list[Event]  # history of the fit
    solved: Solved  # the fit of all components, from which those of the model were selected
    keep: Keep  # which components every model has, and whether subsets are kept
    kept: Solved  # the fit of the components that were selected, before bands
    task: Task
    has_bands: bool


def run(plan: FitPlan, task: Task, progress: Progress, clock: Stopwatch) -> Fitted:
    """Fit a model: from nothing, or what to add to a model."""
    base = plan.base
    table, targets, settings, limits = plan.inputs
    has_bands = settings.bands and base is None
    encoder = encode(table, targets, settings, base)
    inputs = plan.inputs._replace(targets=with_known_values(table, targets, encoder))
    clock.lap("encode")
    shapes = shapes_of(settings, encoder)
    identifiers = encoder.identifiers(table, targets.weights)
    rules = rules_of(settings, encoder, shapes, identifiers)
    required = required_components(
        rules.required, settings.interactions.heredity, settings.max_components
    )
    check_random(shapes, task.objective)
    problem = replace(build(inputs, encoder, task, shapes, base), states=plan.states)
    problem = problem if base is None else based(problem, base.on_nodes_of(problem))
    check_memory(problem, settings)
    looked = [*quality_event(problem, table, identifiers), *gaps_event(problem)]
    clock.lap("build")
    solve = solve_found if settings.interactions.are_searched else solve_listed
    training = limits.share(TRAINING_SHARE) if has_bands else limits
    solved = solve(problem, rules, settings, training, progress, clock)
    solved = without_constants(solved, rules, settings)
    clock.lap("solve")
    keep, began = keep_of(solved, required, settings), time.monotonic()
    selection = select_components(solved, keep, limits)
    events = [*looked, *solved.events, *solved.solution.events]
    cut = cut_selection(selection, solved.problem, began)
    clock.lap("select")
    kept = refit(solved, selection, progress)
    clock.lap("refit")
    banded = with_bands(kept, limits) if has_bands else kept
    clock.lap("bands")
    model = finished(banded, task, limits, has_bands, clock)
    events += [*banded.events, *cut]
    if problem.base is not None:
        events.append(base_event(problem.base, encoder, model))
    return Fitted(
        model=model,
        events=[*events, *clock.events()],
        solved=replace(solved, problem=replace(solved.problem, states=None)),  # refits keep none
        keep=keep,
        kept=replace(kept, problem=replace(kept.problem, states=None)),
        task=task,
        has_bands=has_bands,
    )


def encode(
    table: Table, targets: Targets, settings: Settings, base: WarmStart | None = None
) -> TableEncoder:
    """Place the nodes of every feature, or take those of the model that the fit adds to."""
    names = [table.name(feature) for feature in range(table.n_features)]
    order = max(settings.order, 1 if base is None else base.order)
    nodes = nodes_by_order(table.n_features, replace(settings, order=order))
    shaped = resolve_features(settings.shapes, names, "shapes")
    lines = [feature for feature, shape in shaped.items() if shape == LINEAR]
    periods = {feature: s[1] for feature, s in shaped.items() if not isinstance(s, str)}
    groups = [feature for feature, shape in shaped.items() if shape == RANDOM]
    nominal = [*(resolve_feature(j, names, "categorical") for j in settings.nominal), *groups]
    rules = LevelRules(nominal, settings.min_level_rows, lines, periods, groups)
    n_threads = threads_of(settings.n_jobs)
    if table.shelf.is_on_disk:  # every thread sorts a column
        n_threads = max(min(n_threads, SORTED_BYTES // (BYTES_PER_SORTED_ROW * table.n_rows)), 1)
    fresh = TableEncoder.fit(table, nodes, targets.weights, rules, n_threads)
    return fresh if base is None else base.encoder(fresh, table)


def nodes_by_order(n_features: int, settings: Settings) -> dict[int, int]:
    """Largest number of nodes per feature in the components of each order."""
    finest = settings.solver.finest_nodes(n_features)
    asked, nodes = settings.max_nodes, dict[int, int]()
    for order in range(1, min(settings.order, n_features) + 1):
        most = finest.get(order, NODES_OF_HIGHER_ORDERS)
        most = asked.get(order, most) if isinstance(asked, Mapping) else min(most, asked)
        nodes[order] = min(most, nodes.get(order - 1, most))  # never finer than a lower order
    return nodes


def shapes_of(settings: Settings, encoder: TableEncoder) -> dict[int, str]:
    """Shapes by the index of the feature."""
    names = encoder.feature_names
    shapes = {j: WRAPPED for j, each in enumerate(encoder.features) if each.kind == PERIODIC}
    for feature, shape in resolve_features(settings.shapes, names, "shapes").items():
        if isinstance(shape, str):
            check_shape(encoder, feature, shape, "shapes", levels=True)
            if shape != RANDOM or not encoder.axes[1][feature].is_empty:
                shapes[feature] = shape
    return shapes


def rules_of(
    settings: Settings,
    encoder: TableEncoder,
    shapes: Mapping[int, str],
    identifiers: Sequence[int],
) -> InteractionRules:
    """Say which components the model may and must have.

    A linear feature has no interactions, nor have groups with random intercepts; a feature that
    looks like an identifier has those that are listed.
    """
    names, given = encoder.feature_names, settings.interactions
    linear = {feature for feature, shape in shapes.items() if shape in (LINEAR, RANDOM)}
    alone = linear if given.listed is not None else linear.union(identifiers)
    rules = given.rules(names, settings.order, alone)
    listed = () if given.listed is None else given.components(names, settings.order)
    for component in (*listed, *rules.required):
        if len(component) > 1 and not linear.isdisjoint(component):
            feature = next(j for j in component if j in linear)
            raise ValueError(
                f"shapes: a {shapes[feature]} feature has no interactions, but {names[feature]!r} "
                f"is {shapes[feature]} and {tuple(names[j] for j in component)} is asked for. "
                "Leave one of the two out."
            )
    kept = () if given.are_exact else tuple((j,) for j in sorted(linear))
    return replace(rules, required=(*rules.required, *(s for s in kept if s not in rules.required)))


def build(
    inputs: FitInputs,
    encoder: TableEncoder,
    task: Task,
    shapes: Mapping[int, str],
    base: WarmStart | None = None,
) -> Problem:
    """Build the problem of all main effects: canonical rows, targets on the training scale."""
    table, targets, settings, _ = inputs
    bagging = Bagging(1, settings.validation_fraction, settings.seed)
    n_threads = threads_of(settings.n_jobs)
    problem = Problem.build(table, encoder, targets, task.objective, bagging, shapes, n_threads)
    given_nodes = settings.max_nodes if isinstance(settings.max_nodes, Mapping) else {}
    enough = settings.solver.enough_nodes(problem.distinct.size, task.objective.n_outputs)
    for order, most in enough.items():
        are_kept = base is not None and base.keeps_nodes_of(order)
        if order in encoder.axes and order not in given_nodes and not are_kept:
            problem = problem.with_nodes(order, most)
    return problem


def n_bags_of(problem: Problem, settings: Settings) -> int:
    """Return the number of bags: as given, else enough for the number of rows."""
    if isinstance(settings.n_bags, str):
        return settings.solver.enough_bags(problem.distinct.size, problem.objective.n_outputs)
    return settings.n_bags


def component_bytes(problem: Problem, order: int, settings: Settings) -> float:
    """Peak memory of one component of an order, over all bags and outputs."""
    n_nodes = max(axis.n_nodes for axis in problem.encoder.axes[order])
    n_lanes = n_bags_of(problem, settings) * problem.objective.n_outputs
    return n_lanes * settings.solver.bytes_per_component(order, n_nodes)


def check_memory(problem: Problem, settings: Settings) -> None:
    """Refuse a set of components that cannot fit into memory."""
    encoder, needed = problem.encoder, 0.0
    n_features = encoder.n_features
    for order in range(1, min(settings.order, n_features) + 1):
        count = settings.interactions.most(order, n_features, settings.max_components)
        needed += count * component_bytes(problem, order, settings)
    available = available_memory()
    if needed > available:
        raise MemoryError(
            f"interactions: the components of {n_features} features up to order "
            f"{settings.order} must fit into memory, found {available / 1e9:.1f} GB free where "
            f"about {needed / 1e9:.1f} GB are needed. Lower order, n_bags or max_nodes, or list "
            "the interactions to include."
        )


def needed_by(solver: Solver, components: ComponentSet) -> ComponentSet:
    """Return the components that a solver has to fit to get the given ones."""
    return components.with_subsets() if solver.needs_subsets else components


def solve_exactly(
    problem: Problem, components: ComponentSet, solver: Solver, limits: Limits, progress: Progress
) -> Solution:
    """Fit the given components and no others.

    A solver that needs the subsets of a component fits these too. They are left out afterwards, and
    what is left is rescaled.
    """
    needed = problem.with_components(needed_by(solver, components))
    solution = solver.solve(needed, limits, progress)
    if len(solution.components) == len(components):
        return solution
    with ONE_BLAS_THREAD:
        return rescaled(problem, solution.restrict(set(components)))


def solve_listed(
    problem: Problem,
    rules: InteractionRules,
    settings: Settings,
    limits: Limits,
    progress: Progress,
    clock: Stopwatch,
) -> Solved:
    """Fit the components that the user lists, or all."""
    leaves_rest(settings, problem)  # refuses to leave a remainder that was asked for
    given, solver = settings.interactions, settings.solver
    listed = given.components(problem.encoder.feature_names, settings.order)
    if given.are_exact:
        check_subsets(listed, problem)
    components = rules.applied(listed)
    whole = problem.with_components(components)
    budget = time_budget(whole, n_bags_of(problem, settings), limits)
    whole = whole.with_bags(budget.n_bags)
    if given.are_exact:
        solution = solve_exactly(whole, components, solver, budget.limits, progress)
    else:
        solution = solver.solve(whole, budget.limits, progress)
    return Solved(
        problem=whole, solution=solution, events=budget.events, solver=solver, limits=budget.limits
    )


def check_subsets(listed: ComponentSet, problem: Problem) -> None:
    """Refuse a list of all components that lacks subsets which a shape needs."""
    for component in listed:
        shaped = [feature for feature in component if feature in problem.shapes]
        missing = set(ComponentSet((component,)).with_subsets()) - set(listed)
        if missing and shaped:
            names = problem.encoder.feature_names
            lacking = ComponentSet(tuple(missing)).names(names)
            raise ValueError(
                f"components: the shape of {names[shaped[0]]!r} needs all subsets of "
                f"{tuple(names[j] for j in component)} in the list, found none of {lacking}. Add "
                "them."
            )


def solve_found(
    problem: Problem,
    rules: InteractionRules,
    settings: Settings,
    limits: Limits,
    progress: Progress,
    clock: Stopwatch,
) -> Solved:
    """Fit the components that deep trees find, and mix them with the trees."""
    budget = time_budget(problem, n_bags_of(problem, settings), limits)
    mixture = Mixture(
        problem=problem.with_bags(budget.n_bags), rules=rules, settings=settings,
        limits=budget.limits, progress=progress, events=budget.events, clock=clock,
    )  # fmt: skip
    whole, solution, deep = mixture.solve()
    return Solved(
        problem=whole,
        solution=solution,
        events=mixture.events,
        solver=settings.solver,
        limits=budget.limits,
        may_be_noise=mixture.may_be_noise,
        searched=searched_orders(whole),
        deep=deep,
    )


def without_constants(solved: Solved, rules: InteractionRules, settings: Settings) -> Solved:
    """Leave out components of a feature with a single node: they are zero.

    What the user lists or requires stays, with heredity its subsets too, and so does what has a
    shape. Where there is nothing but such components, all of them stay: a model has at least one.
    """
    given, problem = settings.interactions, solved.problem
    if given.are_exact:
        return solved
    names, axes = problem.encoder.feature_names, problem.encoder.axes
    listed = resolve_interactions(given.listed or (), names, settings.order)
    asked = set(inherited(ComponentSet((*listed, *rules.required)), settings))
    shaped, kept = problem.shapes, []
    for component in solved.components:
        nodes = axes[len(component)]
        varies = [nodes[feature].n_nodes > 1 or feature in shaped for feature in component]
        if component in asked or all(varies):
            kept.append(component)
    if len(kept) in (0, len(solved.components)):
        return solved
    problem = problem.with_components(ComponentSet(tuple(kept)))
    return replace(solved, problem=problem, solution=solved.solution.restrict(set(kept)))


def searched_orders(problem: Problem) -> frozenset[int]:
    """Orders of which a problem has some components, but not all."""
    counts = Counter(map(len, problem.components))
    return frozenset(d for d, n in counts.items() if n < math.comb(len(problem.features), d))


def inherited(components: ComponentSet, settings: Settings) -> ComponentSet:
    """Components with, under heredity, all their subsets."""
    return components.with_subsets() if settings.interactions.heredity else components


def keep_of(solved: Solved, required: ComponentSet, settings: Settings) -> Keep:
    """Say how many components to keep."""
    n_features = len(solved.problem.features)
    mains = (s for s in solved.components if len(s) == 1)
    return Keep.read(
        method=settings.selection,
        most=settings.max_components,
        heredity=settings.interactions.heredity or bool(solved.problem.shapes),  # need subsets
        may_be_noise=solved.may_be_noise,
        certain=mains if settings.selection == "auto" and n_features <= MOST_MAINS else (),
        required=required,
    )


def select_components(solved: Solved, keep: Keep, limits: Limits) -> Selection:
    """Rank the components on held-out rows and choose how many to keep."""
    if keep.drops_none_of(len(solved.components)):
        return Selection.of_all(solved.components)
    with ONE_BLAS_THREAD:
        held_out = HeldOut(solved.problem, solved.solution)
        return select(held_out, keep, limits)


def refit(solved: Solved, selection: Selection, progress: Progress) -> Solved:
    """Fit the selected components again, with the same bags.

    Held-out rows decide between this fit and the components as they are. Where the time is up, they
    stay as they are. An order that loses a component counts as searched: the rest are the best.
    """
    began, kept = time.monotonic(), selection.kept
    if len(kept) == len(solved.components):
        return replace(solved, events=[])
    lost = {len(component) for component in set(solved.components) - set(kept)}
    solved = replace(solved, searched=solved.searched | lost)
    dropped = solved.solution.restrict(set(kept))
    problem = solved.problem.with_components(kept)
    if solved.limits.are_reached():
        event = limit_event(problem, "the time limit left no time for a refit", began)
        return replace(solved, solution=dropped, events=[event])
    if needed_by(solved.solver, kept) == solved.components:  # a solver would return the same
        with ONE_BLAS_THREAD:
            again = rescaled(problem, dropped)
    else:
        again = solve_exactly(problem, kept, solved.solver, solved.limits, progress)
    with ONE_BLAS_THREAD:
        losses = [HeldOut(problem, solution).loss for solution in (dropped, again)]
    is_better = losses[1] <= losses[0]
    event = Event(
        stage="refit",
        note=f"{len(kept)} of {len(solved.components)} components, "
        + ("fitted again" if is_better else "kept as they were"),
        n_components=len(kept),
        validation_loss=min(losses),
        seconds=time.monotonic() - began,
    )
    solution = again if is_better else dropped
    return replace(solved, problem=problem, solution=solution, events=[event])


def with_bands(solved: Solved, limits: Limits) -> Solved:
    """Add posteriors and tests of the components; if there are none, an event says why."""
    began, problem = time.monotonic(), solved.problem
    n_rows, note = len(problem.rows.y), ""
    if problem.is_handful:
        note = f"no bands: {n_rows} rows, too few to hold any out"
    if n_rows > MOST_ROWS_OF_BANDS:
        note = f"no bands: {n_rows:,} rows, and memory for at most {MOST_ROWS_OF_BANDS:,}"
    if note:
        event = Event(stage="bands", note=note, seconds=0.0)
        return replace(solved, events=[*solved.events, event])
    try:
        move = partial(moved, problem) if solved.solver.refines else None
        bands = infer(problem, solved.solution, limits, move)
        return replace(
            solved, solution=bands.solution, posteriors=bands.posteriors, tests=bands.tests,
            row_errors=bands.row_errors, smooth=bands.smooth,
        )  # fmt: skip
    except TimeoutError as error:
        event = limit_event(problem, str(error), began)
    except np.linalg.LinAlgError as error:  # raw scores beyond what single precision resolves
        seconds = time.monotonic() - began
        event = Event(stage="bands", note=f"no bands: {error}", seconds=seconds)
    return replace(solved, events=[*solved.events, event])


def finished(
    solved: Solved, task: Task, limits: Limits, has_bands: bool, clock: Stopwatch
) -> AnovaModel:
    """Bring a solution through the last stages: freeze, constrain, balance, prune, calibrate."""
    problem = solved.problem
    model = freeze(solved, task)
    clock.lap("freeze")
    model = unpenalised(constrained(model, problem), problem, task.objective, limits)
    clock.lap("constrain")
    model = pruned(balanced(model, problem, tree_scores(problem, solved.deep)))
    clock.lap("balance")
    if has_bands:
        model = calibrated(model, problem, solved.solution, solved.row_errors)
        clock.lap("calibrate")
    return model


def freeze(solved: Solved, task: Task) -> AnovaModel:
    """Average the bags; where there are bands, say what is known about each component."""
    model, posteriors = solved.problem.freeze(solved.solution, task), solved.posteriors
    if solved.deep is not None:
        model = with_remainder(model, solved.problem, solved.deep)
    elif model.remainder is not None:  # that of the model from which the fit started
        model = measured(model)
    if posteriors is None:
        return model
    tests = component_tests(
        model, solved.problem, solved.solution, task.objective, solved.tests, solved.searched
    )
    if model.remainder is None:
        tests = with_statistics(tests, task.objective, solved.smooth, solved.problem)
    by_component = tuple(posteriors[s] for s in model.components)
    evidence = replace(model.evidence, posteriors=by_component, tests=tests)
    return replace(model, evidence=evidence)


def constrained(model: AnovaModel, problem: Problem) -> AnovaModel:
    """Bring a model into the shapes of a problem."""
    names, axes = model.feature_names, model.encoder.axes[1]
    shapes = {names[j]: s for j, s in problem.shapes.items() if not axes[j].is_nominal}
    return constrain(model, shapes, problem.features) if shapes else model


def base_event(base: BaseModel, encoder: TableEncoder, model: AnovaModel) -> Event:
    """Say what the fit added to, what it did not change, and how far the intercept moved."""
    moved = ", ".join(f"{shift:.6g}" for shift in model.intercepts - base.intercepts)
    frozen = ComponentSet(tuple(base.frozen)).names(encoder.feature_names)
    held = f"; frozen: {', '.join(' x '.join(names) for names in frozen)}" if frozen else ""
    return Event(
        stage="start",
        note=f"added to a model of {len(base.tables)} components; the intercept moved by "
        f"{moved}{held}; no bands, which would not know the errors of that model",
        n_components=len(model.components),
        seconds=0.0,
    )


def cut_selection(selection: Selection, problem: Problem, began: float) -> list[Event]:
    """Say how much of the selection a time limit cut off, if any."""
    n_unknown = int(np.isnan(selection.losses).sum())
    if not n_unknown:
        return []
    n_models = len(selection.losses)
    note = f"the time limit ended the selection: {n_unknown} of {n_models} models not scored"
    return [limit_event(problem, note, began)]
