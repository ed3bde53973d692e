"""Fit deep, read exactly: deep trees, the core that is read off them, and the mixture of both.

    grow deep -> rank -> choose the core -> fit the core -> mix -> keep the remainder or not

Trees of depth 6 find the interactions. Their exact components are ranked by their variance, and the
largest ones are the core, which is fitted once more by itself, smoothly. Held-out rows mix the two
models. What the trees have beyond the core is the remainder; if held-out rows do not miss it, it
is left out. Where the user gives an order, trees have no more features than that and the core is
larger, for it has to do without a remainder. Where trees cannot be mixed in, as with shapes and
above order 3, they only say which components to fit.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from itertools import islice
from typing import Any

import numpy as np

from tpnn._utils.arrays import Float32Array, FloatArray
from tpnn._utils.threads import ONE_BLAS_THREAD, split
from tpnn.anova.boxes import LARGEST_ORDER, Boxes
from tpnn.anova.components import Component, ComponentSet, InteractionRules, canonical
from tpnn.anova.core import CoreRules, core_of, most_frequent, variances
from tpnn.anova.trees import Trees, joined
from tpnn.estimators.blend import Blend
from tpnn.estimators.inputs import Settings
from tpnn.model.model import AnovaModel
from tpnn.model.remainder import N_CANDIDATES, Remainder, axes_of_sets, measured
from tpnn.search.interactions import MOST_MAINS
from tpnn.search.screen import Ranking, rank_pairs
from tpnn.search.select import KEEP_ALL, HeldOut, ranking
from tpnn.solvers.grow.deep import MOST_DEEP_ROWS
from tpnn.solvers.grow.solver import Grow
from tpnn.solvers.problem.problem import ROWS_PER_BLOCK, Problem
from tpnn.solvers.solution import Event, Limits, NoProgress, Progress, Solution, Stopwatch
from tpnn.solvers.solver import DeepBag, Solver
from tpnn.table.axis import Axis

# Beside a remainder and without one: share of the variance after which a core is complete, and its
# largest number of components.
CORE_SHARES = {True: 0.998, False: 0.9995}
MOST_IN_CORE, MOST_IN_WHOLE = 24, 300
MOST_OF_HIGHER_ORDERS = 8  # components of each order that trees find, but do not fit
MOST_CELLS = 40_000_000  # of the grids of three and more features, in all bags and outputs
N_RANKING_BAGS = 2  # whose trees rank the components
NETWORK_TIME_SHARE = 0.25  # of a limited time
DEEP_TIME_SHARE = 0.5  # of a limited time
SMALLEST_WORTH = 0.002  # of the held-out loss: a remainder that is worth less is left out


@dataclass(frozen=True)
class DeepPart:
    """Deep trees of all bags, and what of them is in the components of a solution."""

    trees: list[Trees]  # of each bag, on the training scale
    share: float  # of the trees in the mixture
    constants: FloatArray  # (n_bags * K,): mean of the trees, without the share
    tables: Mapping[Component, FloatArray]  # (M_1, ..., M_d, n_bags * K), likewise
    others: Mapping[Component, FloatArray]  # likewise: the largest sets of features beyond the core
    raw: FloatArray  # (n, K): mean over the bags of the trees on the rows, likewise
    worth: float  # relative rise of the held-out loss without the remainder


def leaves_rest(settings: Settings, problem: Problem) -> bool:
    """Whether deep trees may leave a remainder: if the fit may choose what the model is made of.

    A remainder that was asked for, but cannot be had, is an error.
    """
    obstacles = {
        "solver": not settings.solver.grows_deep,
        "interactions": not settings.interactions.are_free,
        "selection": settings.selection != "auto",
        "shapes": bool(problem.shapes),
    }
    asks, found = settings.remainder is True, [name for name, has in obstacles.items() if has]
    if asks and found and problem.base is None:
        raise ValueError(
            "remainder: True needs deep trees, which grow where the fit finds all components by "
            f"itself, but {found[0]!r} says otherwise. Leave it at its default, or pass "
            'remainder="auto".'
        )
    is_usual = settings.remainder == "auto" and settings.solver.mixes
    is_free = asks or (is_usual and not settings.is_order_given)
    is_read = max(map(len, settings.interactions.required), default=1) <= LARGEST_ORDER
    is_free = is_free and is_read and problem.base is None
    return is_free and not found and problem.has_held_out


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """Finds the components of one fit by deep trees, fits them, and mixes both."""

    problem: Problem  # with its bags
    rules: InteractionRules
    settings: Settings
    limits: Limits
    progress: Progress
    events: list[Event]
    clock: Stopwatch

    def solve(self) -> tuple[Problem, Solution, DeepPart | None]:
        """Return the problem of the core, its solution, and the trees if they leave a remainder."""
        solver = self.settings.solver
        if not self._grows:
            return self._alone(self._without_trees())
        bags = self._grown()
        self.clock.lap("trees")
        trees = self._finder.deep_trees(self.problem, bags)
        with self.limits.workers() as workers:
            boxes = workers.map(self._boxes, trees)
        sizes, core = self._core(boxes, bags)
        self.clock.lap("core")
        if not self.is_mixed:
            return self._alone(core)
        lower = ComponentSet(tuple(s for s in core if len(s) <= 2))
        whole = self.problem.with_components(lower)
        fitted = solver.solve_core(whole, self.limits, self.progress)
        self.clock.lap("solve")
        problem = self.problem.with_components(core)
        with ONE_BLAS_THREAD:
            found = self._mixed(problem, fitted, bags, trees, boxes, sizes)
        self.clock.lap("mix")
        return found

    @cached_property
    def has_rest(self) -> bool:
        """Whether the trees may leave a remainder."""
        return leaves_rest(self.settings, self.problem)

    @property
    def _grows(self) -> bool:
        """Whether deep trees find the components: held-out rows have to end their growth."""
        return self.problem.has_held_out and self.settings.interactions.method != "nid"

    @property
    def is_mixed(self) -> bool:
        """Whether trees are in the model; they know neither shapes nor what is frozen."""
        problem, mixes = self.problem, self.settings.solver.mixes or self.has_rest
        is_read = self.has_rest or self._order <= LARGEST_ORDER
        return self._grows and mixes and is_read and not problem.shapes and problem.base is None

    @cached_property
    def n_pairs(self) -> int | None:
        """Pairs that were asked for; None for those that matter."""
        settings = self.settings
        return settings.interactions.n_pairs(settings.order, settings.max_components)

    @property
    def may_be_noise(self) -> bool:
        """Whether the core has many components that held-out rows may not tell from noise."""
        return not self.has_rest and self.n_pairs is None and self._n_features > MOST_MAINS

    @property
    def _n_features(self) -> int:
        return len(self.problem.features)

    @property
    def _order(self) -> int:
        """Largest number of features of a component."""
        return min(self.settings.order, self._n_features)

    @property
    def _finder(self) -> Solver:
        """Solver that grows the trees; gradient descent trains what they find."""
        solver = self.settings.solver
        return solver if solver.grows_deep else Grow()

    def _alone(self, core: ComponentSet) -> tuple[Problem, Solution, None]:
        """Fit components without trees."""
        problem = self.problem.with_components(core)
        solution = self.settings.solver.solve(problem, self.limits, self.progress)
        self.clock.lap("solve")
        return problem, solution, None

    def _without_trees(self) -> ComponentSet:
        """Components where no trees grow: main effects, and the pairs that a network finds."""
        began, settings = time.monotonic(), self.settings
        chosen, note = self._main_effects(MOST_IN_WHOLE), "core: main effects, no rows to hold out"
        if self.problem.has_held_out and self.n_pairs:
            limits = self.limits.share(NETWORK_TIME_SHARE)
            problem = self.problem.with_components(chosen)
            fitted = settings.solver.solve(problem, limits, NoProgress())
            ranked = nid_module().rank_pairs(problem, fitted, self.n_pairs, limits.deadline)
            pairs = filter(self.rules.permit, ranked)
            chosen, note = ComponentSet((*chosen, *pairs)), "core: the best pairs of a network"
        chosen = self.rules.applied(chosen)
        self._search_event(note, chosen, len(chosen), began)
        return chosen

    def _grown(self) -> list[DeepBag]:
        limits = self.limits.share(DEEP_TIME_SHARE)
        order = None if self.has_rest else self._order
        bags, events = self._finder.grow_deep(
            self.problem, self.rules, order, limits, self.progress
        )
        self.events.extend(events)
        return bags

    def _core(
        self, boxes: Sequence[Boxes], bags: Sequence[DeepBag]
    ) -> tuple[dict[Component, float], ComponentSet]:
        """Variances of the components of the trees, and the core."""
        began, features = time.monotonic(), self.problem.features
        with self.limits.workers() as workers:
            order = LARGEST_ORDER if self.has_rest else min(self._order, LARGEST_ORDER)
            ranked = variances(boxes[:N_RANKING_BAGS], self._axes[1], order, workers)
        sizes = {tuple(sorted(features[c] for c in s)): size for s, size in ranked.items()}
        note = "core: the largest components of deep trees"
        core = core_of(sizes, self._core_rules())
        if self.n_pairs is not None:
            core, note = self._best_pairs(core, sizes, bags), "core: the best pairs of deep trees"
        elif not self.has_rest and self._order > 1:
            core = self._with_missed(core, self._screened(sizes, bags))
            core = self._with_higher(core, boxes)
        if not len(core):  # trees without questions: all features are constant, or noise
            most = self._core_rules().most
            core, note = self._main_effects(most), "core: main effects, deep trees found nothing"
        self._search_event(note, core, len(sizes), began)
        return sizes, core

    def _core_rules(self) -> CoreRules:
        """How large the core is; without a remainder it has all main effects, if they are few."""
        asked, axes = self.settings.max_components, self.problem.encoder.axes
        is_small = self.has_rest or self.problem.base is not None  # to add to a model
        share, required = CORE_SHARES[is_small], self.rules.required
        if is_small:
            most = min(MOST_IN_CORE, asked or MOST_IN_CORE)
        else:  # held-out rows choose those that were asked for
            most = max(MOST_IN_WHOLE, asked or 0)
            if self._n_features <= MOST_MAINS:
                required = (*required, *((feature,) for feature in self.problem.features))
        n_nodes = max((axis.n_nodes for axis in axes.get(3, ())), default=1)
        n_cells = n_nodes**3 * self.problem.n_bags * self.problem.objective.n_outputs
        return CoreRules(share, most, self._order, required, most_higher=MOST_CELLS // n_cells)

    def _screened(self, sizes: Mapping[Component, float], bags: Sequence[DeepBag]) -> Ranking:
        """All pairs by what the trees have left of them; the features of large ones come first."""
        if self.limits.are_reached():
            return Ranking([], 0)
        problem = self.problem.sampled(MOST_DEEP_ROWS)
        raw = np.mean([bag.raw for bag in bags], axis=0)  # (n, K)
        weights = problem.distinct.weights[:, None]
        gradient, _ = problem.objective.slopes(problem.rows.y, raw, weights)
        features = dict.fromkeys((*(j for s in sizes for j in s), *problem.features))
        return rank_pairs(problem, -weights * gradient, list(features), self.limits.n_threads)

    def _with_missed(self, core: ComponentSet, ranking: Ranking) -> ComponentSet:
        """Core, and pairs that are clear in what the trees have left."""
        permitted = filter(self.rules.permit, ranking.pairs[: ranking.n_above])
        room = max(self._core_rules().most - len(core), 0) // 3  # each may need its main effects
        new = islice((s for s in permitted if s not in core), room)
        return ComponentSet((*core, *new)).with_subsets()

    def _with_higher(self, core: ComponentSet, boxes: Sequence[Boxes]) -> ComponentSet:
        """Core, and sets of more features than are read onto grids that meet in many leaves."""
        features, most = self.problem.features, max(self._core_rules().most, len(core))
        for order in range(LARGEST_ORDER + 1, self._order + 1):
            for s in most_frequent(boxes[:N_RANKING_BAGS], order, MOST_OF_HIGHER_ORDERS):
                named = tuple(sorted(features[c] for c in s))
                larger = ComponentSet((*core, named)).with_subsets()
                if self.rules.permit(named) and len(larger) <= most:
                    core = larger
        return core

    def _best_pairs(
        self, core: ComponentSet, sizes: Mapping[Component, float], bags: Sequence[DeepBag]
    ) -> ComponentSet:
        """All main effects, the pairs asked for, and what is larger in the core.

        Pairs that the trees missed come first, then the largest.
        """
        mains = [(feature,) for feature in self.problem.features]
        ranking = self._screened(sizes, bags)
        missed, grown = ranking.pairs[: ranking.n_above], (s for s in sizes if len(s) == 2)
        pairs = dict.fromkeys((*missed, *grown, *ranking.pairs))
        best = islice(filter(self.rules.permit, pairs), self.n_pairs)
        larger = (s for s in core if len(s) > 2)
        found = self.rules.applied(ComponentSet((*mains, *best, *larger)))
        return found.with_subsets() if self.settings.interactions.heredity else found

    def _main_effects(self, most: int) -> ComponentSet:
        """All main effects or, where these are too many, those that held-out rows miss most."""
        mains = ComponentSet(tuple((feature,) for feature in self.problem.features))
        if len(mains) <= most:
            return mains
        problem, limits = self.problem.with_components(mains), self.limits.share(DEEP_TIME_SHARE)
        fitted = self.settings.solver.solve(problem, limits, NoProgress())
        with ONE_BLAS_THREAD:
            return ComponentSet(tuple(ranking(HeldOut(problem, fitted), KEEP_ALL)[:most]))

    def _search_event(self, note: str, core: ComponentSet, n_known: int, began: float) -> None:
        event = Event(
            stage="search", note=note, n_components=len(core), n_candidates=n_known,
            seconds=time.monotonic() - began,
        )  # fmt: skip
        self.events.append(event)
        event.log(logging.INFO)

    def _mixed(
        self,
        problem: Problem,
        fitted: Solution,
        bags: Sequence[DeepBag],
        trees: Sequence[Trees],
        boxes: Sequence[Boxes],
        sizes: Mapping[Component, float],
    ) -> tuple[Problem, Solution, DeepPart | None]:
        """Mix the fitted core and the trees by what held-out rows say."""
        began = time.monotonic()
        constants, tables = self._read(problem.ordered, boxes)
        fit = padded(problem, fitted)
        core = replace(
            fit, intercepts=constants + deep_constants(problem),
            tables=[tables[s] for s in problem.ordered],
        )  # fmt: skip
        alone = Blend.of(problem, fit, core)
        if self.has_rest:
            rest, raw = self._rest(problem, core, bags)
            whole = Blend.of(problem, fit, replace(core, remainder=rest))
            part = DeepPart(
                trees=list(trees), share=whole.share, constants=constants, raw=raw, tables=tables,
                others={},  # read where they are kept
                worth=whole.worth_of_rest(problem),
            )  # fmt: skip
            if self._keeps(problem, whole, alone, part):
                self._note(problem, f"{whole.words(sizes)}, with a remainder", whole.loss, began)
                beyond = [s for s in sizes if s not in problem.components][:N_CANDIDATES]
                _, others = self._read(canonical(beyond, problem.features), boxes)
                return problem, whole.solution, replace(part, others=others)
        self._note(problem, f"{alone.words(sizes)}, no remainder", alone.loss, began)
        return problem, alone.solution, None

    def _note(self, problem: Problem, note: str, loss: float, began: float) -> None:
        event = Event(
            stage="mix", note=note, n_components=len(problem.components), validation_loss=loss,
            seconds=time.monotonic() - began,
        )  # fmt: skip
        self.events.append(event)

    def _keeps(self, problem: Problem, whole: Blend, alone: Blend, part: DeepPart) -> bool:
        """Whether the model gets its remainder: if it was asked for, or held-out rows miss it."""
        if part.share == 0 or not any(bag.used for bag in part.trees):
            return False
        if self.settings.remainder is True:
            return True
        held_out = HeldOut(problem, whole.solution)
        rise, error = held_out.change(HeldOut(problem, alone.solution).raw)
        return rise > max(error, SMALLEST_WORTH * abs(held_out.loss))

    def _read(
        self, components: Sequence[Component], boxes: Sequence[Boxes]
    ) -> tuple[FloatArray, dict[Component, FloatArray]]:
        """Read components off the trees: constants (n_bags * K,), grids (M_1, ..., n_bags * K)."""
        number = {feature: place for place, feature in enumerate(self.problem.features)}
        wanted = [tuple(number[feature] for feature in s) for s in components]
        axes = axes_of_sets(self._axes)

        with self.limits.workers() as workers:
            by_bag = workers.map(lambda bag: bag.components(wanted, axes), boxes)
        constants = np.concatenate([constant for constant, _ in by_bag])
        pairs = zip(components, wanted, strict=True)
        tables = {s: np.concatenate([grids[w] for _, grids in by_bag], -1) for s, w in pairs}
        return constants, tables

    def _boxes(self, bag: Trees) -> Boxes:
        """Boxes over the features in canonical order: no bit depends on the order of columns."""
        return Boxes.of(bag.pick(self.problem.features))

    @property
    def _axes(self) -> dict[int, list[Axis]]:
        """Axes of all orders, in canonical order."""
        features = self.problem.features
        return {d: [axes[j] for j in features] for d, axes in self.problem.encoder.axes.items()}

    def _rest(
        self, problem: Problem, core: Solution, bags: Sequence[DeepBag]
    ) -> tuple[Float32Array, FloatArray]:
        """Trees less their part in the core, on all rows in all bags (n, n_bags * K).

        The second array (n, K) is the mean of the trees over the bags.
        """
        n_rows, solver = len(problem.rows.y), self.settings.solver
        shelf, n_outputs = problem.codes.shelf, problem.objective.n_outputs
        rest = shelf.empty((n_rows, len(core.intercepts)), np.float32)
        mean = shelf.empty((n_rows, n_outputs), np.float64)

        def fill(block: tuple[int, int]) -> None:
            rows = slice(*block)
            raw = np.hstack([solver.deep_scores(problem, bag, rows) for bag in bags])
            rest[rows] = raw - problem.raw_scores(core, rows)
            mean[rows] = problem.by_output(raw).mean(-2) - problem.best_constant
            mean[rows] -= problem.rows.offset[rows]

        with self.limits.workers() as workers:
            workers.map(fill, split(n_rows, ROWS_PER_BLOCK))
        return rest, mean


def nid_module() -> Any:
    """Import neural interaction detection, which needs torch."""
    try:
        return import_module("tpnn.search.nid")
    except ImportError as error:
        raise ImportError(
            f'interactions: the method "nid" needs torch ({error}). '
            'Run: pip install "tpnn[torch]", or use the method "trees".'
        ) from error


def deep_constants(problem: Problem) -> FloatArray:
    """Raw score at which deep trees begin, in all lanes, (n_bags * K,)."""
    return np.tile(problem.best_constant, problem.n_bags)


def padded(problem: Problem, fitted: Solution) -> Solution:
    """Solution with the components of a problem; those that it lacks are zero."""
    known = dict(zip(fitted.components, fitted.tables, strict=True))
    axes, n_lanes = problem.encoder.axes, len(fitted.intercepts)
    tables = []
    for component in problem.ordered:
        shape = tuple(axes[len(component)][feature].n_nodes for feature in component)
        table = known.get(component)
        tables.append(np.zeros((*shape, n_lanes)) if table is None else table)
    return replace(fitted, components=list(problem.ordered), tables=tables, terms=None)


def with_remainder(model: AnovaModel, problem: Problem, part: DeepPart) -> AnovaModel:
    """Model with the part of deep trees that its components do not hold."""
    trees, factor = joined(part.trees), part.share * problem.scale
    values = _centred(trees.values, problem) * (factor / problem.n_bags)
    constants = factor * problem.by_output(part.constants).mean(0)
    held = _on_axes(part.tables, problem, factor)
    remainder = Remainder(
        trees=replace(trees, values=values),
        constants=np.broadcast_to(constants, len(model.intercepts)).copy(),
        components=model.components,
        tables=tuple(held[s] for s in model.components),
        share=0.0,
        worth=float(part.worth),
    )
    sets = axes_of_sets(problem.encoder.axes), _on_axes(part.others, problem, factor)
    return measured(replace(model, remainder=remainder), sets=sets)


def tree_scores(problem: Problem, part: DeepPart | None) -> FloatArray | None:
    """Part of the trees of a remainder in the raw scores (n, K) of the rows; None without one."""
    return None if part is None else part.share * problem.scale * _centred(part.raw, problem)


def _centred(values: FloatArray, problem: Problem) -> FloatArray:
    """Values (..., K) of trees; outputs that depend on each other sum to zero."""
    return values - values.mean(1, keepdims=True) if problem.objective.couples_outputs else values


def _on_axes(
    tables: Mapping[Component, FloatArray], problem: Problem, factor: FloatArray
) -> dict[Component, FloatArray]:
    """Tables (M_1, ..., n_bags * K) times a factor (K,), mean over the bags; features increase."""
    means = {}
    for component, table in tables.items():
        by_bag = problem.by_output(table.transpose(*np.argsort(component), -1))
        means[tuple(sorted(component))] = factor * by_bag.mean(-2)
    return means
