"""Refits: the components that are kept, fitted again without the others."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tpnn._utils.arrays import BoolArray
from tpnn._utils.rules import is_count
from tpnn._utils.threads import ONE_BLAS_THREAD
from tpnn.anova.components import Component, ComponentSet
from tpnn.anova.posterior import Posterior
from tpnn.estimators.budget import limit_event
from tpnn.estimators.fit_record import component_tests
from tpnn.explain.path import SelectionPath, Step
from tpnn.model.constrain import constrain
from tpnn.model.model import AnovaModel, pruned
from tpnn.model.provenance import Provenance
from tpnn.model.task import Task
from tpnn.search.held_out import HeldOut
from tpnn.search.rescale import rescaled
from tpnn.search.select import Keep, Selection, ranking
from tpnn.solvers.limits import Limits
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.problem.scores import balanced
from tpnn.solvers.solution import Event, NoProgress, Progress, Solution
from tpnn.solvers.solver import Solver
from tpnn.uncertainty.calibrate import calibrated
from tpnn.uncertainty.joint import RowErrors
from tpnn.uncertainty.recipe import infer
from tpnn.uncertainty.zero_test import ZeroTest

MOST_ROWS_OF_BANDS = 5_000_000  # distinct ones; some hundred bytes each, for tables of any kind
PATH_SIZES = 10  # models of a path


@dataclass(frozen=True, kw_only=True)
class Solved:
    """A solution, and what the search found out about its components.

    Parameters
    ----------
    problem : Problem
        The problem that was solved.
    solution : Solution
        Its solution.
    events : list of Event
        What this stage did besides solving: what the search tried, or the refit.
    solver : Solver
        What solved it.
    limits : Limits
        Limits of the solver.
    evident : set of tuple of int
        Components that a screen found above the noise.
    keeps_mains : bool
        Whether all main effects are included and kept.
    is_screened : bool
        Whether main effects and pairs were included only if they rose above the noise.
    searched : set of int
        Orders of which a search or a selection chose the components among all.
    posteriors : dict from component to Posterior, optional
        What is known about the truth behind each component, where that was asked for.
    tests : dict from component to ZeroTest
        Whether it is zero, for the same components.
    row_errors : RowErrors, optional
        How far the raw scores of some rows may be from the truth, in the same case.
    """

    problem: Problem
    solution: Solution
    events: list[Event]
    solver: Solver
    limits: Limits
    evident: frozenset[Component] = frozenset()
    keeps_mains: bool = True
    is_screened: bool = False
    searched: frozenset[int] = frozenset()
    posteriors: Mapping[Component, Posterior] | None = None
    tests: Mapping[Component, ZeroTest] = field(default_factory=dict)
    row_errors: RowErrors | None = None

    @property
    def components(self) -> ComponentSet:
        """Components of the solution."""
        return ComponentSet(tuple(self.solution.components))


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
    n_rows = len(problem.rows.y)
    if n_rows > MOST_ROWS_OF_BANDS:
        note = f"no bands: {n_rows:,} rows, and memory for at most {MOST_ROWS_OF_BANDS:,}"
        return replace(
            solved, events=[*solved.events, Event(stage="bands", note=note, seconds=0.0)]
        )
    try:
        known = infer(problem, solved.solution, limits)
        return replace(
            solved,
            posteriors=known.posteriors,
            tests=known.tests,
            row_errors=known.row_errors,
        )
    except TimeoutError as error:
        event = limit_event(problem, str(error), began)
    except np.linalg.LinAlgError as error:  # raw scores beyond what single precision resolves
        seconds = time.monotonic() - began
        event = Event(stage="bands", note=f"no bands: {error}", seconds=seconds)
    return replace(solved, events=[*solved.events, event])


@dataclass(frozen=True, kw_only=True)
class Refitter:
    """Fits models of fewer components after a fit; it holds the coded training rows.

    Parameters
    ----------
    solved : Solved
        The fit of all components.
    keep : Keep
        Which components every model has, and whether subsets are kept.
    task : Task
        What the models predict.
    kept : ComponentSet
        The components of the fitted model.
    provenance : Provenance, optional
        Where the models come from, without scores.
    bands : bool
        Whether the models have bands.
    """

    solved: Solved
    keep: Keep
    task: Task
    kept: ComponentSet
    provenance: Provenance | None = None
    bands: bool = True

    @property
    def free(self) -> Solved:
        """The fit of all components, with no limit of time for what follows it."""
        limits = self.solved.limits
        fresh = Limits(n_threads=limits.n_threads, device=limits.device)
        return replace(self.solved, limits=fresh)

    def path(self) -> SelectionPath:
        """Refitted models of about ten sizes, their losses on rows that did not rank them.

        Half of the rows rank the components, as far as they are held out; the other half score the
        refitted models, each bag those that it holds out. Early stopping has seen these rows, for
        models of all sizes alike.
        """
        ranking_rows, scoring_rows = _halves(self.solved.problem)
        with ONE_BLAS_THREAD:
            order = self._ranked(ranking_rows)
            full = HeldOut(self.solved.problem, self.solved.solution, scoring_rows)
        names = self.solved.problem.encoder.feature_names
        steps, before = [], 0
        for size in self._sizes(len(order)):
            added = tuple(ComponentSet(tuple(order[before:size])).names(names))
            steps.append(self._step(order[:size], full, scoring_rows, added))
            before = size
        return SelectionPath(
            steps=steps,
            landmarks=self._landmarks(full, scoring_rows),
            chosen=len(self.kept),
            refitted=self.model,
        )

    def model(self, n_components: int) -> AnovaModel:
        """Refit the best components, ranked on all held-out rows, with the shapes imposed.

        Of the size of the fitted model they are its own, which a selection may have ranked by how
        clear they are.
        """
        with ONE_BLAS_THREAD:
            order = self._ranked(None)
        if not (is_count(n_components) and n_components <= len(order)):
            raise ValueError(
                f"n_components: must be a whole number from 1 to {len(order)}, found "
                f"{n_components!r}. Pass the n_components of a step of the path."
            )
        own = n_components == len(self.kept)
        selection = Selection.of_all(self.kept) if own else Selection.of_all(order, n_components)
        kept = refit(self.free, selection, NoProgress())
        kept = with_bands(kept, self.free.limits) if self.bands else kept
        return replace(frozen(kept, self.task, self.bands), provenance=self.provenance)

    def _ranked(self, counted: BoolArray | None) -> list[Component]:
        return ranking(HeldOut(self.solved.problem, self.solved.solution, counted), self.keep)

    def _sizes(self, n_components: int) -> list[int]:
        """Sizes in equal ratios, from the smallest model to the full one."""
        smallest = max(len(self.keep.required), 1)
        sizes = np.geomspace(smallest, n_components, PATH_SIZES).round().astype(int)
        return sorted(set(map(int, sizes)))

    def _landmarks(self, full: HeldOut, scoring_rows: BoolArray) -> dict[str, Step]:
        """Models of all components up to each order below the highest."""
        components = self.solved.components
        return {
            f"order {order}": self._step(lower, full, scoring_rows, ())
            for order in components.orders[:-1]
            if (lower := [s for s in components if len(s) <= order])
        }

    def _step(
        self,
        kept: list[Component],
        full: HeldOut,
        scoring_rows: BoolArray,
        added: tuple[tuple[str, ...], ...],
    ) -> Step:
        """Refit some components, and score them against the full model."""
        solved = refit(self.free, Selection.of_all(kept), NoProgress())
        with ONE_BLAS_THREAD:
            raw = HeldOut(solved.problem, solved.solution, scoring_rows).raw
            mean, error = full.change(raw)
        return Step(len(kept), added, full.loss + mean, error)


def frozen(solved: Solved, task: Task, is_calibrated: bool) -> AnovaModel:
    """Average the bags, impose shapes, balance the totals, leave out features without use.

    Held-out rows then calibrate the predictions, if that is asked for.
    """
    model, known = solved.problem.freeze(solved.solution, task), solved.posteriors
    if known is not None:
        posteriors = tuple(known[s] for s in model.components)
        tests = component_tests(
            model, solved.problem, solved.solution, task.objective, solved.tests, solved.searched
        )
        evidence = replace(model.evidence, posteriors=posteriors, tests=tests)
        model = replace(model, evidence=evidence)
    names = model.feature_names
    shapes = {names[feature]: shape for feature, shape in solved.problem.shapes.items()}
    shaped = constrain(model, shapes) if shapes else model
    model = pruned(balanced(shaped, solved.problem))
    if not is_calibrated:
        return model
    return calibrated(model, solved.problem, solved.solution, solved.row_errors)


def _halves(problem: Problem) -> tuple[BoolArray, BoolArray]:
    """Every other row, and the others; twice all rows where a half has no held-out row.

    Rows are sorted by a key of their content, so that this is a random half. Groups that the user
    named are on one side, as are their keys in order.
    """
    distinct = problem.distinct
    numbers = distinct.groups if distinct.are_named else np.arange(len(problem.rows.y))
    first = numbers % 2 == 0
    held_out = problem.rows.validation.any(1)
    if (held_out & first).any() and (held_out & ~first).any():
        return first, ~first
    return np.ones_like(first), np.ones_like(first)
