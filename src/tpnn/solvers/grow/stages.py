"""Sigmoid widths: the steps of a main effect become sigmoids of width gamma.

A grid of values T on nodes u_1 < ... < u_M is a sum of steps at the midpoints b_k between nodes.
Giving each step the width gamma turns T into K T, where the rows of K sum to one:

    (K T)(u) = T_1 + sum_k (T_{k+1} - T_k) sigmoid((u - b_k) / gamma).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from tpnn._utils.arrays import FloatArray, IntArray, RealArray
from tpnn._utils.threads import ONE_BLAS_THREAD, Workers
from tpnn.anova.components import Component
from tpnn.anova.measure import centre, purify_tables
from tpnn.anova.shapes import constrained
from tpnn.solvers.grow.backend import Bags, GrowthTask, current_place
from tpnn.solvers.grow.card.card import Card
from tpnn.solvers.grow.card.card_forests import CardForest
from tpnn.solvers.grow.card.card_rows import RowsOnCard, SidesOnCard
from tpnn.solvers.grow.engine import BagGrower, Grown, Sides, Tables, held_out_loss
from tpnn.solvers.grow.forest import Frozen, Layout, RectangleForest
from tpnn.solvers.grow.rectangles import TreeSettings
from tpnn.solvers.grow.ridge_start import measures, smooth_starts, zero_start
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.problem.sums import totals
from tpnn.solvers.solution import Event, Progress, Solution
from tpnn.table.axis import Axis

CANDIDATE_WIDTHS = (0.004, 0.01, 0.03, 0.08)
ROWS_PER_THREAD = 20_000  # from which on threads are worth their while
MOST_HELD_OUT_ROWS = 250_000  # of all bags together; more choose no better


def smoother(positions: FloatArray, width: float) -> FloatArray:
    """Matrix K of shape (M, M) that gives every step of a grid the width gamma.

    >>> smoother(np.array([0.25, 0.75]), 1e-9).round(6)
    array([[1., 0.], [0., 1.]])
    """
    middles = (positions[1:] + positions[:-1]) / 2
    steps = expit((positions[:, None] - middles) / width)
    kernel = np.empty((len(positions), len(positions)))
    kernel[:, 0], kernel[:, 1:] = 1.0, steps
    kernel[:, :-1] -= steps
    return kernel


def choose_widths(
    problem: Problem, tables: dict[Component, FloatArray], held_out: Sequence[FloatArray]
) -> dict[Component, FloatArray]:
    """Give each main effect the sigmoid width that minimises the held-out loss of all bags.

    ``held_out`` holds the raw scores of each bag's held-out rows. Pairs keep their steps:
    interpolation between nodes smooths them enough, and widths chosen for them overfit the held-out
    rows of small tables.
    """
    chosen = dict(tables)
    most = MOST_HELD_OUT_ROWS // problem.n_bags  # rows are in random order
    of_bags = [np.flatnonzero(weights)[:most] for weights in problem.rows.validation.T]
    bags = np.repeat(np.arange(problem.n_bags), [len(rows) for rows in of_bags])
    rows = np.concatenate(of_bags)
    mass, y = problem.rows.validation[rows, bags][:, None], problem.rows.y[rows]
    n_outputs = problem.objective.n_outputs
    lanes = bags[:, None] * n_outputs + np.arange(n_outputs)
    raw = np.concatenate([scores[:most] for scores in held_out])

    def judged(score: FloatArray) -> float:
        return float(totals(mass * problem.objective.losses(y, score, mass))[0])

    with Workers(problem.codes.n_threads if len(rows) > ROWS_PER_THREAD else 1) as workers:
        for component, table in tables.items():
            axis = problem.encoder.axes[1][component[0]]
            if len(component) > 1 or not axis.has_steps:
                continue
            nodes = problem.codes.cells(component, rows)[0].astype(np.intp)[:, None]
            cells = nodes * table.shape[1] + lanes
            candidates = [table, *workers.map(partial(_widened, table, axis), CANDIDATE_WIDTHS)]
            without = raw - table.reshape(-1).take(cells)
            scores = workers.map(partial(_moved, without, cells), candidates)
            best = int(np.argmin(workers.map(judged, scores)))
            chosen[component], raw = candidates[best], scores[best]
    return chosen


def _moved(raw: FloatArray, cells: IntArray, table: FloatArray) -> FloatArray:
    """Add the values of a grid in the cells of the rows, numbered in its order, to raw scores."""
    moved: FloatArray = raw + table.reshape(-1).take(cells)
    return moved


def _widened(table: FloatArray, axis: Axis, width: float) -> FloatArray:
    """Give the steps of a main effect (M, n_lanes) a width, except for the missing node."""
    wide = smoother(axis.positions[axis.regular], width) @ table[axis.regular]
    return centre(axis.with_missing(wide, table[axis.missing]), [axis.weights])


LAST_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # candidate weights of the last way in the mixture
N_SEEDS_PER_BAG = 3
AHEAD_SHARE, FEWEST_AHEAD = 0.25, 4  # of the bags, which grow in both ways before the others
CLEAR_GAIN = 0.005  # of the held-out loss
N_JUDGES, MOST_ROUNDS_ALONE = 2, 200  # bags that say whether main effects are rough, and rounds
ROUGH_GAINS = (0.1, 0.02)  # of the held-out loss, before pairs have grown and after
KEPT_SHARES = (1.0, 0.3, 0.0)  # candidate factors on the interactions of features with a shape


class Way(NamedTuple):
    """One of the ways in which every bag grows."""

    start: str  # "zero" or "smooth"
    pair_tree: TreeSettings
    note: str  # what the history of the fit calls it


def _mixed(one: Tables, other: Tables, share: float) -> Tables:
    """Weighted mean of the models grown in one bag in two ways."""

    def mean(a: RealArray, b: RealArray) -> RealArray:
        return (1 - share) * a + share * b

    by_order = [
        mean(a, b).astype(np.float32) for a, b in zip(one.by_order, other.by_order, strict=True)
    ]
    intercepts: FloatArray = (1 - share) * one.intercepts + share * other.intercepts
    return Tables(by_order, intercepts)


def _gains(one: Sequence[Grown], other: Sequence[Grown], least: float) -> bool:
    """Whether the held-out loss of the same bags is lower by more than a share of it."""
    before, after = (sum(grown.loss for grown in bags) for bags in (one, other))
    return before - after > least * abs(before)


def _grids(tables: Tables) -> list[FloatArray]:
    """Grids of values (M_1, ..., M_d, K), main effects first, then pairs."""
    mains, pairs = (part.astype(np.float64) for part in tables.by_order)
    return [*np.moveaxis(mains[..., 0], 0, -1), *np.moveaxis(pairs, 0, -1)]


class LowerOrders:
    """Grows the main effects and pairs of a problem."""

    def __init__(
        self,
        problem: Problem,  # its components are main effects and pairs
        grower: BagGrower,
        ways: tuple[Way, ...],  # two are mixed, and the mixture grows on as the second
        l2: float | None,  # ridge penalty of the smooth start, as a share of the rows
        card: Card | None = None,  # that holds the rows; by default they are in memory
    ) -> None:
        self.problem, self.grower = problem, grower
        self.ways, self.l2 = ways, l2
        self.mains = problem.coded[0].features[:, 0]
        self.layout = Layout.of(*measures(problem), self.mains.tolist(), problem.shapes)
        self.frozen = Frozen.of(problem)
        self.sides = Sides(problem.coded, problem.rows, problem.codes.shelf)
        self.on_card = None
        if card is not None:
            self.sides = SidesOnCard.of_problem(problem)
            self.on_card = RowsOnCard(card, [part.codes for part in self.sides.coded])

    def fit(self, progress: Progress) -> Solution:
        """Grow every bag in its ways, mix, grow on, impose shapes, purify and smooth."""
        self.progress, self.events = progress, list[Event]()
        progress.begin(self.problem.n_bags * (2 * len(self.ways) - 1), "growth")
        starts = self._starts()
        if len(self.ways) == 1:
            bags = self._grown_in_ways((0,), range(self.problem.n_bags), starts)[0]
        else:
            bags = self._polished(self._mixtures(starts))
        if self.problem.shapes:
            bags = self._all_shaped(bags)
        intercepts, tables = self._purified(bags)
        if not self.problem.objective.couples_outputs:
            held_out = [np.asarray(bag.held_out, np.float64) for bag in bags]
            tables = choose_widths(self.problem, tables, held_out)
        self.events.sort(key=lambda event: (event.bag, event.note))
        return Solution(
            components=list(tables),
            intercepts=intercepts,
            tables=list(tables.values()),
            terms=None,
            events=self.events,
        )

    def _starts(self) -> dict[str, list[Tables]]:
        """Grids of every bag that its ways start from."""
        n_bags, limits = self.problem.n_bags, self.grower.limits
        starts = {"zero": [zero_start(self.problem, self.problem.best_constant)] * n_bags}
        if any(way.start == "smooth" for way in self.ways):
            with ONE_BLAS_THREAD, limits.workers() as workers:
                starts["smooth"] = smooth_starts(self.problem, self.l2, limits, workers)
            if len(self.problem.coded) > 1 and not self.problem.objective.couples_outputs:
                starts["smooth"] = self._roughened(starts["smooth"])
        return starts

    def _roughened(self, starts: list[Tables]) -> list[Tables]:
        """Let main effects grow alone first, where they are rough.

        Beside pairs they grow in small steps, which stall where an effect has many jumps. Growth
        alone takes large ones. What it gains may be that of pairs, so their growth decides.
        """
        full, tree = self.grower.max_rounds, self.ways[-1].pair_tree
        most, judges = min(full, MOST_ROUNDS_ALONE), range(min(N_JUDGES, len(starts)))
        before = self._tried(0, self._tasks(judges, starts, None, 1))
        first = self._tried(most, self._tasks(judges, starts, None, 2))
        if not _gains(before, first, ROUGH_GAINS[0]):
            return starts
        rough = [grown.tables for grown in first]
        ends = [self._tried(full, self._tasks(judges, s, tree, 2)) for s in (starts, rough)]
        if not _gains(ends[0], ends[1], ROUGH_GAINS[1]):
            return starts
        others = range(len(judges), len(starts))
        more = self._tried(most, self._tasks(others, starts, None, 2))
        return rough + [grown.tables for grown in more]

    def _tasks(
        self, bags: Sequence[int], starts: Sequence[Tables], tree: TreeSettings | None, number: int
    ) -> list[GrowthTask]:
        return [GrowthTask(b, starts[b], tree, self._seed(b, number), "tried") for b in bags]

    def _tried(self, max_rounds: int, tasks: Sequence[GrowthTask]) -> list[Grown]:
        """Grow for so many rounds, without a word in the history."""
        other = copy(self)
        other.grower = replace(self.grower, max_rounds=max_rounds)
        return other._all_grown(tasks, is_told=False)

    def _grown_in_ways(
        self, numbers: Sequence[int], bags: range, starts: dict[str, list[Tables]]
    ) -> list[list[Grown]]:
        """Grow some bags in the ways of these numbers; return the bags of each way."""
        tasks = [
            GrowthTask(bag, starts[way.start][bag], way.pair_tree, self._seed(bag, n), way.note)
            for bag in bags
            for n, way in ((number, self.ways[number]) for number in numbers)
        ]
        grown = self._all_grown(tasks)
        return [grown[place :: len(numbers)] for place in range(len(numbers))]

    def _mixtures(self, starts: dict[str, list[Tables]]) -> list[Tables]:
        """Mix the two models of every bag to minimise the held-out loss.

        If the last way alone is clearly best for the bags that go ahead, it is the only one of the
        others.
        """
        n_bags = self.problem.n_bags
        n_ahead = min(max(int(AHEAD_SHARE * n_bags), FEWEST_AHEAD), n_bags)
        first, last = self._grown_in_ways((0, 1), range(n_ahead), starts)
        others = range(n_ahead, n_bags)
        losses = self._losses_by_share(first, last)
        alone = losses.pop(1.0)
        if min(losses.values()) - alone > CLEAR_GAIN * abs(alone):
            return [bag.tables for bag in (*last, *self._grown_in_ways((1,), others, starts)[0])]
        more = self._grown_in_ways((0, 1), others, starts)
        first, last = [*first, *more[0]], [*last, *more[1]]
        losses = self._losses_by_share(first, last)
        share = min(losses, key=losses.__getitem__)
        pairs = zip(first, last, strict=True)
        return [_mixed(one.tables, other.tables, share) for one, other in pairs]

    def _polished(self, mixtures: Sequence[Tables]) -> list[Grown]:
        """Let the mixture of every bag grow on."""
        tree = self.ways[-1].pair_tree
        tasks = [
            GrowthTask(bag, mixture, tree, self._seed(bag, 2), "mixed")
            for bag, mixture in enumerate(mixtures)
        ]
        return self._all_grown(tasks)

    def _seed(self, bag: int, number: int) -> int:
        """Seed of one growth of a bag."""
        return (self.problem.seed * self.problem.n_bags + bag) * N_SEEDS_PER_BAG + number

    def _all_grown(self, tasks: Sequence[GrowthTask], is_told: bool = True) -> list[Grown]:
        """Grow in the threads of this process or, if the fit grows elsewhere, there.

        The history is told of each growth that has ended, unless it is only one to try.
        """

        def tell(task: GrowthTask, grown: Grown, began: float) -> Grown:
            if is_told:
                self._tell(task, grown, began)
            return grown

        def grow(task: GrowthTask) -> Grown:
            began = time.monotonic()
            return tell(task, self._grow(task), began)

        place = current_place()
        if place is not None:
            bags = Bags(self.problem, self.layout, self.grower, self.sides)
            began = time.monotonic()
            by_task = {n: tell(tasks[n], grown, began) for n, grown in place.grow(bags, tasks)}
            return [by_task[number] for number in range(len(tasks))]
        with ONE_BLAS_THREAD, self.grower.limits.workers() as workers:
            return workers.map(grow, tasks)

    def _tell(self, task: GrowthTask, grown: Grown, began: float) -> None:
        event = Event(
            stage="grow", note=self.grower.noted(task.note), bag=task.bag, step=grown.rounds,
            n_components=len(self.problem.ordered), validation_loss=grown.loss,
            seconds=time.monotonic() - began,
        )  # fmt: skip
        self.events.append(event)
        self.progress.advance(event)

    def _grow(self, task: GrowthTask) -> Grown:
        training, validation = self.sides.training(task.bag), self.sides.held_out(task.bag)
        forest_of = RectangleForest if self.on_card is None else partial(CardForest, self.on_card)
        forest = forest_of(
            layout=self.layout, objective=self.problem.objective, training=training,
            start=task.start, seed=task.seed, pair_tree=task.pair_tree,
            frozen=self.frozen,
        )  # fmt: skip
        return self.grower.grow(forest, training, validation)

    def _losses_by_share(self, first: Sequence[Grown], last: Sequence[Grown]) -> dict[float, float]:
        """Held-out loss of the first bags for each weight of the last way in the mixture."""
        sides = [self.sides.held_out(bag) for bag in range(len(first))]

        def loss(share: float) -> float:
            return sum(
                held_out_loss(
                    self.problem.objective, side, (1 - share) * a.held_out + share * b.held_out
                )
                for side, a, b in zip(sides, first, last, strict=True)
            )

        with self.grower.limits.workers() as workers:
            return dict(zip(LAST_SHARES, workers.map(loss, LAST_SHARES), strict=True))

    def _purified(self, bags: Sequence[Grown]) -> tuple[FloatArray, dict[Component, FloatArray]]:
        """Return intercepts (n_bags * K,) and pure grids (M_1, ..., n_bags * K) of the bags."""
        axes, grids = self.problem.encoder.axes, [_grids(bag.tables) for bag in bags]
        raw: dict[Component, FloatArray] = {}
        for index, component in enumerate(self.problem.ordered):
            cells = tuple(slice(axes[len(component)][j].n_nodes) for j in component)
            raw[component] = np.concatenate([bag[index][cells] for bag in grids], -1)
        constants, pure = purify_tables(raw, axes)
        return np.concatenate([bag.tables.intercepts for bag in bags]) + constants, pure

    def _all_shaped(self, bags: Sequence[Grown]) -> list[Grown]:
        """Impose the shapes on all bags, scaling interactions to minimise the held-out loss.

        Interactions of a feature with a shape are clipped, and the clipped ones may do more harm
        than good, so the held-out rows decide how much of them to keep.
        """

        def shaped(share: float) -> list[Grown]:
            with self.grower.limits.workers() as workers:
                starts = workers.map(lambda bag: self._shaped_start(bag, share), bags)
            tasks = [
                GrowthTask(bag, start, None, self.problem.seed + bag, "shaped")
                for bag, start in enumerate(starts)
            ]
            return self._all_grown(tasks, is_told=False)

        return min(map(shaped, KEPT_SHARES), key=lambda grown: sum(bag.loss for bag in grown))

    def _shaped_start(self, grown: Grown, share: float) -> Tables:
        """Impose the shapes on a bag, whose main effects then grow on within them."""
        axes, shapes = self.problem.encoder.axes, self.problem.shapes
        constants, pure = self._purified([grown])
        start = zero_start(self.problem, constants)
        mains, pairs = start.by_order
        bound = {s: share for s in pure if len(s) > 1 and not shapes.keys().isdisjoint(s)}
        for output in range(len(constants)):
            one = {s: table[..., output] * bound.get(s, 1.0) for s, table in pure.items()}
            shift, tables = constrained(one, axes, shapes)
            constants[output] += shift
            for index, component in enumerate(self.problem.ordered):
                cells = tuple(map(slice, tables[component].shape))
                if len(component) == 1:
                    mains[output, index][cells] = tables[component][:, None]
                else:
                    pairs[output, index - len(self.mains)][cells] = tables[component]
        return start
