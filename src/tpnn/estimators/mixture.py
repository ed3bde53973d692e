"""Fit deep, read exactly: deep trees, the core that is read off them, and the mixture of both.

    grow deep -> rank -> choose the core -> fit the core -> mix -> keep the remainder or not

Trees of depth 6 find the interactions. Their exact components are ranked by their variance, and the
largest ones are the core, which is fitted once more by itself, smoothly. Held-out rows mix the two
models. What the trees have beyond the core is the remainder; if held-out rows do not miss it, it
is left out.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np

from tpnn._utils.arrays import Float32Array, FloatArray
from tpnn._utils.threads import ONE_BLAS_THREAD, split
from tpnn.anova.boxes import Boxes
from tpnn.anova.components import Component, ComponentSet, InteractionRules, canonical
from tpnn.anova.core import CoreRules, core_of, variances
from tpnn.anova.trees import Trees, joined
from tpnn.estimators.inputs import Settings
from tpnn.model.model import AnovaModel
from tpnn.model.remainder import N_CANDIDATES, Remainder, axes_of_sets, measured
from tpnn.search.select import KEEP_ALL, HeldOut, ranking
from tpnn.solvers.problem.problem import ROWS_PER_BLOCK, Problem
from tpnn.solvers.solution import Event, Limits, NoProgress, Progress, Solution, Stopwatch
from tpnn.solvers.solver import DeepBag
from tpnn.table.axis import Axis

CORE_SHARE = 0.998  # of the variance, after which a core is complete
MOST_IN_CORE, MOST_IN_WHOLE = 24, 150  # components, beside a remainder and without one
N_RANKING_BAGS = 2  # whose trees rank the components
LARGEST_CORE_ORDER = 3
DEEP_TIME_SHARE = 0.5  # of a limited time
FIT_SHARES = tuple(share / 10 for share in range(11))  # candidate weights of the fitted core
MOVES = (0.0, 0.25, 0.5, 0.75, 1.0)  # candidate shares of the way to a better estimate
SMALLEST_LOSS = 1e-300
FARTHEST = 30.0  # standard errors: such a candidate counts for nothing
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


def is_deep(settings: Settings, problem: Problem) -> bool:
    """Whether a fit grows deep trees: if it has to find the components by itself.

    A remainder that was asked for, but cannot be had, is an error.
    """
    obstacles = {
        "solver": not settings.solver.grows_deep,
        "interactions": not settings.interactions.has_noise_floor,
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
    is_free = asks or not settings.is_order_given
    return is_free and not found and problem.base is None and problem.has_held_out


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """Joins deep trees and the core of one fit."""

    problem: Problem  # with its bags
    rules: InteractionRules
    settings: Settings
    limits: Limits
    progress: Progress
    events: list[Event]
    clock: Stopwatch

    def solve(self) -> tuple[Problem, Solution, DeepPart | None]:
        """Return the problem of the core, its solution, and the trees if they leave a remainder."""
        solver, has_rest = self.settings.solver, self.settings.remainder is not False
        bags = self._grown(LARGEST_CORE_ORDER if not has_rest else None)
        self.clock.lap("trees")
        trees = solver.deep_trees(self.problem, bags)
        with self.limits.workers() as workers:
            boxes = workers.map(self._boxes, trees)
        sizes, core = self._core(boxes, has_rest)
        self.clock.lap("core")
        lower = ComponentSet(tuple(s for s in core if len(s) <= 2))
        whole = self.problem.with_components(lower)
        fitted = solver.solve_core(whole, self.limits, self.progress)
        self.clock.lap("solve")
        problem = self.problem.with_components(core)
        with ONE_BLAS_THREAD:
            found = self._mixed(problem, fitted, bags, trees, boxes, sizes)
        self.clock.lap("mix")
        return found

    def _grown(self, order: int | None) -> list[DeepBag]:
        limits = self.limits.share(DEEP_TIME_SHARE)
        bags, events = self.settings.solver.grow_deep(
            self.problem, self.rules, order, limits, self.progress
        )
        self.events.extend(events)
        return bags

    def _core(
        self, boxes: Sequence[Boxes], has_rest: bool
    ) -> tuple[dict[Component, float], ComponentSet]:
        """Variances of the components of the trees, and the core."""
        began, settings, features = time.monotonic(), self.settings, self.problem.features
        order = min(LARGEST_CORE_ORDER, max(self.problem.encoder.axes))
        with self.limits.workers() as workers:
            ranked = variances(boxes[:N_RANKING_BAGS], self._axes[1], LARGEST_CORE_ORDER, workers)
        sizes = {tuple(sorted(features[c] for c in s)): size for s, size in ranked.items()}
        most = MOST_IN_CORE if has_rest else MOST_IN_WHOLE
        most = min(most, settings.max_components or most)
        core = core_of(sizes, CoreRules(CORE_SHARE, most, order, self.rules.required))
        note = "core: the largest components of deep trees"
        if not len(core):  # trees without questions: all features are constant, or noise
            core, note = self._main_effects(most), "core: main effects, deep trees found nothing"
        event = Event(
            stage="search", note=note, n_components=len(core), n_candidates=len(sizes),
            seconds=time.monotonic() - began,
        )  # fmt: skip
        self.events.append(event)
        return sizes, core

    def _main_effects(self, most: int) -> ComponentSet:
        """All main effects or, where these are too many, those that held-out rows miss most."""
        mains = ComponentSet(tuple((feature,) for feature in self.problem.features))
        if len(mains) <= most:
            return mains
        problem, limits = self.problem.with_components(mains), self.limits.share(DEEP_TIME_SHARE)
        fitted = self.settings.solver.solve(problem, limits, NoProgress())
        with ONE_BLAS_THREAD:
            return ComponentSet(tuple(ranking(HeldOut(problem, fitted), KEEP_ALL)[:most]))

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
        rest, raw = self._rest(problem, core, bags)
        whole = Candidates(problem, fit, replace(core, remainder=rest))
        alone = Candidates(problem, fit, core)
        (share, best), (share_alone, best_alone) = whole.best(), alone.best()
        part = DeepPart(
            trees=list(trees), share=1 - share, constants=constants, raw=raw, tables=tables,
            others={},  # read where they are kept
            worth=(alone.loss(share) - best) / max(abs(best), SMALLEST_LOSS),
        )  # fmt: skip
        if self._keeps(whole.at(share), alone.at(share_alone), part):
            self._note(problem, f"{_words(part.share, sizes)}, with a remainder", best, began)
            rest *= np.float32(part.share)
            beyond = [s for s in sizes if s not in problem.components][:N_CANDIDATES]
            _, others = self._read(canonical(beyond, problem.features), boxes)
            part = replace(part, others=others)
            return problem, replace(mixed(fit, core, share), remainder=rest), part
        self._note(problem, f"{_words(1 - share_alone, sizes)}, no remainder", best_alone, began)
        return problem, mixed(fit, core, share_alone), None

    def _note(self, problem: Problem, note: str, loss: float, began: float) -> None:
        event = Event(
            stage="mix", note=note, n_components=len(problem.components), validation_loss=loss,
            seconds=time.monotonic() - began,
        )  # fmt: skip
        self.events.append(event)

    def _keeps(self, whole: HeldOut, alone: HeldOut, part: DeepPart) -> bool:
        """Whether the model gets its remainder: if it was asked for, or held-out rows miss it."""
        if part.share == 0 or not any(bag.used for bag in part.trees):
            return False
        if self.settings.remainder != "auto":
            return self.settings.remainder is True
        rise, error = whole.change(alone.raw)
        return rise > max(error, SMALLEST_WORTH * abs(whole.loss))

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


class Candidates:
    """Mixtures of two solutions with candidate weights, and their loss on held-out rows.

    The mean of the bags has less noise than a single bag, but every row is held out by few bags. So
    the loss of single bags is lowered by what the variance between bags adds to it. Only bags that
    have seen a row are compared on it: what they learned by heart is no noise.
    """

    def __init__(self, problem: Problem, fit: Solution, deep: Solution) -> None:
        held_out = HeldOut(problem, fit)
        self.one, self.other = (
            held_out,
            held_out.with_raw(_held_out_scores(problem, deep, held_out)),
        )
        rows = held_out.rows
        has_seen = (problem.rows.training[rows] > 0)[:, :, None]  # (n_held_out, n_bags, 1)
        has_seen |= ~has_seen.any(1, keepdims=True)  # no bag has learned such a row by heart
        n_seen = np.maximum(has_seen.sum(1), 1)
        one, other = (
            has_seen * (raw - (has_seen * raw).sum(1, keepdims=True) / n_seen[:, None])
            for raw in (problem.by_output(problem.raw_scores(each, rows)) for each in (fit, deep))
        )
        self.noise = [
            0.5 * float(held_out.weights @ (self.other.curvature * product.sum(1) / n_seen).sum(1))
            for product in (one * one, one * other, other * other)
        ]

    def at(self, share: float) -> HeldOut:
        """Held-out rows of the mixture in which the first solution has this weight."""
        return self.one.with_raw(_mean(self.one.raw, self.other.raw, share))

    def loss(self, share: float) -> float:
        """Return the expected loss of the mean of the bags."""
        weights = share**2, 2 * share * (1 - share), (1 - share) ** 2
        noise = sum(w * part for w, part in zip(weights, self.noise, strict=True))
        return self.at(share).loss - noise

    def best(self) -> tuple[float, float]:
        """Weight of the first solution, and its loss.

        It is the mean of all candidates, in which those count less that are worse by more than the
        standard error of the difference: few held-out rows do not decide for one side alone.
        """
        losses = np.array([self.loss(share) for share in FIT_SHARES])
        lowest = int(losses.argmin())
        best = self.at(FIT_SHARES[lowest])
        errors = np.array([best.change(self.at(share).raw)[1] for share in FIT_SHARES])
        z = (losses - losses[lowest]) / np.maximum(errors, SMALLEST_LOSS)
        chances = np.exp(-0.5 * np.minimum(z, FARTHEST) ** 2)
        share = float(chances @ FIT_SHARES / chances.sum())
        return share, self.loss(share)


def _held_out_scores(problem: Problem, solution: Solution, held_out: HeldOut) -> FloatArray:
    return problem.raw_scores(solution, held_out.rows, held_out.lanes)


def _mean(one: FloatArray, other: FloatArray, share: float) -> FloatArray:
    return share * one + (1 - share) * other


def _words(share: float, sizes: Mapping[Component, float]) -> str:
    """Say what a mixture is made of; trees that found nothing are one constant."""
    return f"{share:.0%} deep trees" if sizes else f"{1 - share:.0%} main effects, no deep trees"


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


def mixed(fitted: Solution, deep: Solution, share: float) -> Solution:
    """Mean of two solutions with the same components; the first has the given weight."""
    tables = zip(fitted.tables, deep.tables, strict=True)
    return replace(
        fitted,
        intercepts=_mean(fitted.intercepts, deep.intercepts, share),
        tables=[_mean(one, other, share) for one, other in tables],
    )


def moved(problem: Problem, better: Solution, solution: Solution) -> Solution:
    """Move a solution as far towards a better estimate as held-out rows allow.

    They have decided when growth stopped, which favours the solution as it is. So the move goes on
    until it is worse than the best one by more than the standard error of the difference. Nor may
    single bags get worse by more: what their mean gains is a parabola, of no use far away.
    """
    between = Candidates(problem, better, solution)
    changes = [between.at(0.0).change(between.at(share).raw) for share in MOVES]
    shares = [share for share, change in zip(MOVES, changes, strict=True) if change[0] <= change[1]]
    losses = [between.loss(share) for share in shares]
    best = between.at(shares[int(np.argmin(losses))])
    errors = [best.change(between.at(share).raw)[1] for share in shares]
    near = [loss - min(losses) <= error for loss, error in zip(losses, errors, strict=True)]
    return mixed(better, solution, max(compress(shares, near)))


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
