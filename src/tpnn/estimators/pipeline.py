"""The pipeline: from a table and its targets to a path of fitted models, stage by stage.

    read -> encode -> build -> search -> solve -> select -> refit -> bands
         -> freeze -> constrain -> balance -> calibrate

Each stage takes records and returns a record. Only this module and ``refits`` join the solvers, the
search and the fitted model.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tpnn._utils.threads import ONE_BLAS_THREAD, threads_of
from tpnn.anova.components import (
    ComponentSet,
    InteractionRules,
    resolve_feature,
    resolve_interactions,
)
from tpnn.anova.shapes import LINEAR, check_shape
from tpnn.estimators.budget import limit_event, time_budget
from tpnn.estimators.checks import available_memory
from tpnn.estimators.refit import Refitter, Solved, frozen, refit, solve_exactly, with_bands
from tpnn.estimators.settings import Given, Settings
from tpnn.estimators.warm_start import Start
from tpnn.model.model import AnovaModel
from tpnn.search.held_out import HeldOut
from tpnn.search.search import Search
from tpnn.search.select import Keep, Selection, required_components, select
from tpnn.solvers.limits import Limits
from tpnn.solvers.problem.problem import Bagging, Base, Problem, Task
from tpnn.solvers.problem.scores import based
from tpnn.solvers.problem.targets import Targets
from tpnn.solvers.solution import Event, Progress
from tpnn.solvers.states import GrowthStates
from tpnn.table.encoder import LevelRules, TableEncoder
from tpnn.table.table import Table

NODES_OF_HIGHER_ORDERS = 6  # for orders without a limit of the solver
BYTES_PER_SORTED_ROW, SORTED_BYTES = 40, 1 << 31  # of columns being sorted, and of all at once
TRIPLE_MEMORY_SHARE = 0.25  # of the free memory, for triples that a search finds
TRAINING_SHARE = 0.85  # of a limited time; bands need some of it


@dataclass(frozen=True)
class Fitted:
    """What comes out of the pipeline.

    Parameters
    ----------
    table : Table
        The table as it was read.
    model : AnovaModel
        The fitted model, with the shapes imposed.
    refitter : Refitter
        Makes models of fewer components.
    events : list of Event
        History of the fit.
    """

    table: Table
    model: AnovaModel
    refitter: Refitter
    events: list[Event]


def run(
    given: Given,
    task: Task,
    progress: Progress,
    states: GrowthStates | None = None,
    start: Start | None = None,
) -> Fitted:
    """Fit a model: from nothing, or what to add to a model."""
    table, targets, settings, limits = given
    began, has_bands = time.monotonic(), settings.bands and start is None
    encoder = encode(table, targets, settings, start)
    shapes = shapes_of(settings, encoder)
    linear = [feature for feature, shape in shapes.items() if shape == LINEAR]
    rules = settings.interactions.rules(encoder.feature_names, settings.order, linear)
    required = required_components(rules.required, settings.heredity, settings.max_components)
    problem = replace(build(given, encoder, task, shapes, start), states=states)
    problem = problem if start is None else based(problem, start.base(problem))
    check_memory(problem, settings)
    solve = solve_searched if settings.interactions.are_searched else solve_listed
    training = limits.share(TRAINING_SHARE) if has_bands else limits
    solved = solve(problem, rules, settings, training, progress)
    solved = without_constants(solved, rules, settings)
    keep = keep_of(solved, required, settings)
    selection = select_components(solved, keep, limits)
    kept = refit(solved, selection, progress)
    kept = with_bands(kept, limits) if has_bands else kept
    model = frozen(kept, task, has_bands)
    cut = cut_selection(selection, solved.problem, began)
    refitter = Refitter(
        solved=without_states(solved), keep=keep, task=task, kept=kept.components, bands=has_bands
    )
    added = [] if problem.base is None else [base_event(problem.base, encoder, model, began)]
    events = [*solved.events, *solved.solution.events, *kept.events, *cut, *added]
    return Fitted(table, model, refitter, events)


def encode(
    table: Table, targets: Targets, settings: Settings, start: Start | None = None
) -> TableEncoder:
    """Place the nodes of every feature, or take those of the model that the fit starts from."""
    names = [table.name(feature) for feature in range(table.n_features)]
    nominal = [resolve_feature(j, names, "categorical") for j in settings.nominal]
    order = max(settings.order, 1 if start is None else start.order)
    nodes = nodes_by_order(table.n_features, replace(settings, order=order))
    rules = LevelRules(nominal, settings.min_level_rows)
    n_threads = threads_of(settings.n_jobs)
    if table.shelf.is_on_disk:  # every thread sorts a column
        n_threads = max(min(n_threads, SORTED_BYTES // (BYTES_PER_SORTED_ROW * table.n_rows)), 1)
    fresh = TableEncoder.fit(table, nodes, targets.weights, rules, n_threads)
    return fresh if start is None else start.encoder(fresh, table)


def nodes_by_order(n_features: int, settings: Settings) -> dict[int, int]:
    """Largest number of nodes per feature in the components of each order."""
    finest = settings.solver.finest_nodes(n_features)
    asked, nodes = settings.max_nodes, dict[int, int]()
    for order in range(1, min(settings.order, n_features) + 1):
        most = finest.get(order, NODES_OF_HIGHER_ORDERS)
        most = asked.get(order, most) if isinstance(asked, Mapping) else min(most, asked)
        nodes[order] = min(most, nodes.get(order - 1, most))  # never finer than a lower order
    return nodes


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


def shapes_of(settings: Settings, encoder: TableEncoder) -> dict[int, str]:
    """Shapes by the index of the feature; refuse listed interactions of a linear one."""
    names, shapes = encoder.feature_names, dict[int, str]()
    for named, shape in settings.shapes.items():
        feature = resolve_feature(named, names, "shapes")
        check_shape(encoder, feature, shape, "shapes")
        shapes[feature] = shape
    asked = (*(settings.interactions.listed or ()), *settings.interactions.required)
    for component in resolve_interactions([s for s in asked if len(s) > 1], names, settings.order):
        linear = [names[j] for j in component if shapes.get(j) == LINEAR]
        if linear:
            raise ValueError(
                f"shapes: a linear feature has no interactions, but {linear[0]!r} is linear and "
                f"{tuple(names[j] for j in component)} is asked for. Leave one of the two out."
            )
    return shapes


def build(
    given: Given,
    encoder: TableEncoder,
    task: Task,
    shapes: Mapping[int, str],
    start: Start | None = None,
) -> Problem:
    """Build the problem of all main effects: canonical rows, targets on the training scale."""
    table, targets, settings, _ = given
    bagging = Bagging(1, settings.validation_fraction, settings.seed)
    n_threads = threads_of(settings.n_jobs)
    problem = Problem.build(table, encoder, targets, task.objective, bagging, shapes, n_threads)
    given_nodes = settings.max_nodes if isinstance(settings.max_nodes, Mapping) else {}
    for order, most in settings.solver.enough_nodes(problem.distinct.size).items():
        are_kept = start is not None and start.keeps_nodes_of(order)
        if order in encoder.axes and order not in given_nodes and not are_kept:
            problem = problem.with_nodes(order, most)
    return problem


def solve_listed(
    problem: Problem,
    rules: InteractionRules,
    settings: Settings,
    limits: Limits,
    progress: Progress,
) -> Solved:
    """Fit the components that the user lists, or all."""
    given, solver = settings.interactions, settings.solver
    listed = given.components(problem.encoder.feature_names, settings.order)
    if given.are_exact:
        check_subsets(listed, problem, settings)
    components = inherited(rules.applied(listed), settings)
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


def check_subsets(listed: ComponentSet, problem: Problem, settings: Settings) -> None:
    """Refuse a list of all components that lacks subsets which heredity or a shape needs."""
    for component in listed:
        shaped = [feature for feature in component if feature in problem.shapes]
        missing = set(ComponentSet((component,)).with_subsets()) - set(listed)
        if missing and (settings.heredity or shaped):
            names = problem.encoder.feature_names
            reason = "heredity" if settings.heredity else f"the shape of {names[shaped[0]]!r}"
            lacking = ComponentSet(tuple(missing)).names(names)
            raise ValueError(
                f"components: {reason} needs all subsets of "
                f"{tuple(names[j] for j in component)} in the list, found none of {lacking}. Add "
                "them."
            )


def solve_searched(
    problem: Problem,
    rules: InteractionRules,
    settings: Settings,
    limits: Limits,
    progress: Progress,
) -> Solved:
    """Fit the components that a search finds: main effects and pairs, then higher orders."""
    request = settings.interactions.request(settings.order, settings.max_components)
    search = Search(
        problem=problem, request=request, rules=rules, solver=settings.solver, limits=limits,
        most_triples=most_triples(problem, settings), screens_all_triples=settings.is_order_given,
    )  # fmt: skip
    whole = problem.with_components(search.up_to_pairs())
    budget = time_budget(whole, n_bags_of(problem, settings), limits)
    whole = whole.with_bags(budget.n_bags)
    solution = settings.solver.solve(whole, budget.limits, progress)
    search.limits = budget.limits
    higher = search.higher(whole, solution)
    if higher:
        components = ComponentSet((*whole.components, *higher))
        whole = whole.with_components(inherited(components, settings))
        solution = settings.solver.solve(whole, budget.limits, progress, start=solution)
    return Solved(
        problem=whole,
        solution=solution,
        events=[*search.events, *budget.events],
        solver=settings.solver,
        limits=budget.limits,
        evident=frozenset(search.evident),
        keeps_mains=search.takes_all_mains,
        is_screened=search.is_screened,
        searched=searched_orders(search, whole.components),
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


def searched_orders(search: Search, components: ComponentSet) -> frozenset[int]:
    """Orders of which the search chose some components among all."""
    whole = {1} if search.takes_all_mains else set()
    whole |= {1, 2} if search.takes_all else set()
    return frozenset(components.orders) - whole


def most_triples(problem: Problem, settings: Settings) -> int:
    """Return the number of triples that a search may include: as many as the memory holds."""
    if 3 not in problem.encoder.axes:
        return 0
    share = TRIPLE_MEMORY_SHARE * available_memory()
    return int(share / component_bytes(problem, 3, settings))


def inherited(components: ComponentSet, settings: Settings) -> ComponentSet:
    """Components with, under heredity, all their subsets."""
    return components.with_subsets() if settings.heredity else components


def keep_of(solved: Solved, required: ComponentSet, settings: Settings) -> Keep:
    """Say how many components to keep."""
    mains = ComponentSet.up_to(solved.problem.encoder.n_features, 1)
    return Keep.read(
        method=settings.selection,
        most=settings.max_components,
        heredity=settings.heredity,
        screened=solved.is_screened,
        certain=mains if settings.selection == "auto" and solved.keeps_mains else (),
        required=required,
    )


def select_components(solved: Solved, keep: Keep, limits: Limits) -> Selection:
    """Rank the components on held-out rows and choose how many to keep."""
    if keep.drops_none_of(len(solved.components)):
        return Selection.of_all(solved.components)
    with ONE_BLAS_THREAD:
        held_out = HeldOut(solved.problem, solved.solution)
        return select(held_out, keep, solved.evident, limits)


def without_states(solved: Solved) -> Solved:
    """Solved problem whose further fits leave no states of their growths behind."""
    return replace(solved, problem=replace(solved.problem, states=None))


def base_event(base: Base, encoder: TableEncoder, model: AnovaModel, began: float) -> Event:
    """Say what the fit added to, what it did not change, and how far the intercept moved."""
    moved = ", ".join(f"{shift:.6g}" for shift in model.intercepts - base.intercepts)
    frozen = ComponentSet(tuple(base.frozen)).names(encoder.feature_names)
    held = f"; frozen: {', '.join(' x '.join(names) for names in frozen)}" if frozen else ""
    return Event(
        stage="start",
        note=f"added to a model of {len(base.tables)} components; the intercept moved by "
        f"{moved}{held}; no bands, which would not know the errors of that model",
        n_components=len(model.components),
        seconds=time.monotonic() - began,
    )


def cut_selection(selection: Selection, problem: Problem, began: float) -> list[Event]:
    """Say how much of the selection a time limit cut off, if any."""
    n_unknown = int(np.isnan(selection.losses).sum())
    if not n_unknown:
        return []
    n_models = len(selection.losses)
    note = f"the time limit ended the selection: {n_unknown} of {n_models} models not scored"
    return [limit_event(problem, note, began)]
