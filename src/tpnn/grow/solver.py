"""Growing solver: bases are added where the residual still has structure.

Every bag grows from zero and from the smooth start, each until its held-out loss stops falling;
large problems from zero alone, several classes from the smooth start alone. The held-out rows of
all bags then choose how to mix the two and how wide the sigmoids of each main effect are. The
result is purified: centred exactly, what is averaged out moves down.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tpnn._threads import ONE_BLAS_THREAD, Workers
from tpnn._typing import Float32Array, FloatArray
from tpnn.anova.constraints import MONOTONE, constrained, project_main
from tpnn.anova.measure import Marginal, centre
from tpnn.anova.purify import purify_tables
from tpnn.grow.bag import BagRows, Grower, Grown, Limits, Start, axis_kinds
from tpnn.grow.ridge_start import (
    PAIR_NODES,
    Dictionary,
    MainDictionary,
    PairDictionary,
    SmoothStart,
    coarsen,
)
from tpnn.grow.rounds import Rows
from tpnn.grow.widths import CANDIDATE_WIDTHS, smoother
from tpnn.loss.losses import Objective
from tpnn.problem.coded import CodedComponents
from tpnn.problem.rows import TrainingRows
from tpnn.problem.solution import Progress, Solution
from tpnn.table.axis import Axis

Component = tuple[int, ...]

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the smooth start in a bag's mixture
MOST_STARTED = 1e8  # rows times pairs times bags; larger problems grow from zero alone
KEPT_SHARES = (1.0, 0.3, 0.0)  # of the interactions of features that have a shape


@dataclass(frozen=True)
class Mixture:
    """Weighted mean of two grown models of one bag.

    Parameters
    ----------
    tables : list of array of shape (M_1, ..., M_d, K)
        Main effects first, then pairs.
    intercepts : array of shape (K,)
        Constants.
    held_out : array of shape (n_held_out, K)
        Raw scores of the held-out rows.
    """

    tables: list[FloatArray]
    intercepts: FloatArray
    held_out: FloatArray


def _mixture(zero: Grown, smooth: Grown, share: float) -> Mixture:
    def mean(a: NDArray[np.floating], b: NDArray[np.floating]) -> FloatArray:
        return np.asarray((1 - share) * a + share * b, np.float64)

    mains = mean(zero.tables.mains, smooth.tables.mains)
    pairs = mean(zero.tables.pairs, smooth.tables.pairs)
    intercepts = mean(zero.tables.intercepts, smooth.tables.intercepts)
    tables = [*np.moveaxis(mains[..., 0], 0, -1), *np.moveaxis(pairs, 0, -1)]
    return Mixture(tables, intercepts, mean(zero.held_out, smooth.held_out))


class GrowSolver:
    """Grows main effects and pairs over one set of rows.

    Parameters
    ----------
    coded : list of CodedComponents
        Main effects of all features and, where there are any, pairs, over the distinct rows.
    axes : dict from order to the axis of every feature
        Nodes and masses.
    rows : TrainingRows
        Targets and bag weights.
    objective : Objective
        The loss.
    limits : Limits
        When to stop.
    seed : int
        Seed of the random cuts.
    shapes : dict from feature to shape, optional
        Shapes of the function; main effects that must rise or fall are grown so.
    from_zero : bool, default=True
        Whether bags grow from zero too, or from the smooth start alone.
    l2 : float, optional
        Ridge of the smooth start, as a share of the rows; a few rows by default.
    """

    def __init__(
        self,
        coded: Sequence[CodedComponents],
        axes: Mapping[int, Sequence[Axis]],
        rows: TrainingRows,
        objective: Objective,
        limits: Limits,
        seed: int,
        shapes: Mapping[int, str] | None = None,
        from_zero: bool = True,
        l2: float | None = None,
    ) -> None:
        self.shapes, self.l2 = shapes or {}, l2
        self.coded, self.axes, self.rows, self.objective = coded, axes, rows, objective
        self.seed, self.n_bags = seed, int(rows.training.shape[1])
        self.marginals = [Marginal.of(axes[1]), Marginal.of(axes.get(2, axes[1]))]
        self.components = [tuple(s) for part in coded for s in part.features.tolist()]
        mains = coded[0].features[:, 0]
        self.fine = coded[0].codes[mains]
        self.coarse, self.pairs = coded[-1].codes, np.empty((0, 2), np.intp)
        if len(coded) > 1:
            self.pairs = coded[1].features
        self.smooth_starts: tuple[bool, ...] = (False, True) if from_zero else (True,)
        large = rows.training.size * len(self.pairs) > MOST_STARTED
        if from_zero and large and l2 is None:  # an l2 that was asked for needs the smooth start
            self.smooth_starts = (False,)
        elif objective.couples_outputs:  # held-out rows chose it alone whenever both were grown
            self.smooth_starts = (True,)
        sizes = (self.marginals[0].sizes[mains], self.marginals[1].sizes)
        kinds = (axis_kinds(self.marginals[0])[mains], axis_kinds(self.marginals[1]))
        steps = [MONOTONE.get(self.shapes.get(feature, ""), 0.0) for feature in mains]
        self.grower = Grower(sizes, kinds, np.array(steps), objective, limits)

    @property
    def n_growths(self) -> int:
        """Bags to grow, counted once for each start."""
        return len(self.smooth_starts) * self.n_bags

    def fit(self, constants: FloatArray, progress: Progress) -> Solution:
        """Grow every bag from zero and from the smooth start, mix, purify, smooth.

        ``constants`` (K,) are the raw scores of the best constant.
        """
        began = time.monotonic()
        history: list[dict[str, float]] = []

        def grow(task: tuple[int, bool, Start]) -> Grown:
            bag, smooth_start, start = task
            seed = (self.seed * self.n_bags + bag) * 2 + smooth_start
            grown = self.grower.grow(*self._sides(bag), start, seed)
            record = {
                "bag": bag,
                "smooth_start": smooth_start,
                "rounds": grown.rounds,
                "validation_loss": grown.loss,
                "seconds": time.monotonic() - began,
            }
            history.append(record)
            progress(record)
            return grown

        with ONE_BLAS_THREAD, Workers() as workers:
            starts = {False: [self._zero(constants)] * self.n_bags}
            if True in self.smooth_starts:
                starts[True] = self._smooth_starts(constants, workers)
            tasks = [
                (bag, smooth_start, starts[smooth_start][bag])
                for bag in range(self.n_bags)
                for smooth_start in self.smooth_starts
            ]
            try:
                grown = workers.map(grow, tasks)
            except BaseException:
                self.grower.cancelled.set()
                raise
        kinds = len(self.smooth_starts)
        first, last = grown[::kinds], grown[kinds - 1 :: kinds]  # the same where there is one kind
        share = self._best_share(first, last)
        mixed = [_mixture(zero, smooth, share) for zero, smooth in zip(first, last, strict=True)]
        if self.shapes:
            mixed = self._all_shaped(mixed)
        intercepts, tables = self._purified(mixed)
        if not self.objective.couples_outputs:
            self._smooth_mains(tables, [bag.held_out for bag in mixed])
        history.sort(key=lambda record: (record["bag"], record["smooth_start"]))
        return Solution(intercepts, list(tables.values()), None, history)

    def _sides(self, bag: int) -> tuple[BagRows, BagRows]:
        """Training and held-out rows of a bag; weights of training are in rows."""

        def side(weights: Float32Array) -> BagRows:
            where = np.flatnonzero(weights)
            rows = Rows(
                np.ascontiguousarray(self.fine[:, where]),
                np.ascontiguousarray(self.coarse[:, where]), np.zeros(len(where), np.uint8),
                self.rows.offset[where, 0], self.pairs,
            )  # fmt: skip
            return BagRows(rows, self.rows.y[where], weights[where, None])

        in_rows = self.rows.training[:, bag] * self.rows.sizes[bag]
        return side(in_rows), side(self.rows.validation[:, bag])

    def _zero(self, constants: FloatArray) -> Start:
        """Start of nothing but the best constants (K,)."""
        fine, coarse = (marginal.n_nodes for marginal in self.marginals)
        n_outputs = len(constants)
        mains = np.zeros((n_outputs, len(self.fine), fine, 1), np.float32)
        pairs = np.zeros((n_outputs, len(self.pairs), coarse, coarse), np.float32)
        return Start(mains, pairs, constants)

    def _smooth_starts(self, constants: FloatArray, workers: Workers) -> list[Start]:
        """Smooth start of every bag; pairs are solved for on fewer nodes than they grow on."""
        fine, coarse = self.marginals
        solved: list[Dictionary] = [MainDictionary(fine, self.coded[0].features[:, 0])]
        coded = [self.coded[0]]
        if len(self.pairs):
            coarser, codes = coarsen(coarse, self.coarse, PAIR_NODES)
            solved.append(PairDictionary(coarser, self.pairs))
            coded.append(CodedComponents(codes, self.pairs, coarser.n_nodes))
        in_rows = self.rows.training * self.rows.sizes
        best = SmoothStart(
            solved, coded, self.rows.y, self.rows.offset, in_rows,
            self.rows.validation, self.objective, workers, self.grower.must_stop, self.l2,
        ).fit(constants)  # fmt: skip
        mains = self._shaped_mains(solved[0].tables(best.coefficients[0]))[:, :, None]
        pairs = np.empty((0, coarse.n_nodes, coarse.n_nodes, len(best.intercepts)), np.float32)
        if len(self.pairs):
            tables = PairDictionary(coarse, self.pairs).tables(best.coefficients[1])
            pairs = tables.reshape(-1, *pairs.shape[1:])
        starts = []
        for lanes in np.split(np.arange(len(best.intercepts)), self.n_bags):
            first, second = (np.moveaxis(part[..., lanes], -1, 0) for part in (mains, pairs))
            starts.append(Start(first, second, best.intercepts[lanes].astype(np.float64)))
        return starts

    def _shaped_mains(self, tables: Float32Array) -> Float32Array:
        """Bring those of the main effects (n_features, M, n_lanes) that have a shape into it."""
        for row, feature in enumerate(self.coded[0].features[:, 0].tolist()):
            if feature in self.shapes:
                axis, shape = self.axes[1][feature], self.shapes[feature]
                for lane in range(tables.shape[2]):
                    known = tables[row, : axis.n_nodes, lane].astype(np.float64)
                    tables[row, : axis.n_nodes, lane] = project_main(known, axis, shape)
        return tables

    def _best_share(self, zero: Sequence[Grown], smooth: Sequence[Grown]) -> float:
        """Share of the smooth start in the mixture that the held-out rows like best."""
        sides = [self._sides(bag)[1] for bag in range(self.n_bags)]

        def loss(share: float) -> float:
            scores = (
                (1 - share) * a.held_out + share * b.held_out
                for a, b in zip(zero, smooth, strict=True)
            )
            return sum(map(self.grower.loss, sides, scores))

        return min(SHARES, key=loss)

    def _purified(self, bags: Sequence[Mixture]) -> tuple[FloatArray, dict[Component, FloatArray]]:
        """Return constants (n_bags * K,) and pure tables (M_1, ..., n_bags * K) of the bags."""
        raw: dict[Component, FloatArray] = {}
        for index, component in enumerate(self.components):
            axes = self.axes[len(component)]
            cells = tuple(slice(axes[feature].n_nodes) for feature in component)
            raw[component] = np.concatenate([bag.tables[index][cells] for bag in bags], -1)
        constants, pure = purify_tables(raw, self.axes)
        return np.concatenate([bag.intercepts for bag in bags]) + constants, pure

    def _all_shaped(self, bags: Sequence[Mixture]) -> list[Mixture]:
        """Bring all bags into their shapes, with the share of interactions that is best held out.

        Interactions of a feature that has a shape are clipped, and what is left of them may do more
        harm than good.
        """

        def shaped(share: float) -> list[Grown]:
            with Workers() as workers:
                return workers.map(
                    lambda bag: self._shaped(bag, bags[bag], share), range(len(bags))
                )

        best = min(map(shaped, KEPT_SHARES), key=lambda grown: sum(bag.loss for bag in grown))
        return [_mixture(bag, bag, 0.0) for bag in best]

    def _shaped(self, bag: int, mixture: Mixture, share: float) -> Grown:
        """Bring a bag into its shapes, then let its main effects grow on within them."""
        constants, pure = self._purified([mixture])
        mains, pairs, _ = start = self._zero(constants)
        bound = {s: share for s in pure if len(s) > 1 and not self.shapes.keys().isdisjoint(s)}
        for output in range(len(constants)):
            one = {s: table[..., output] * bound.get(s, 1.0) for s, table in pure.items()}
            shift, tables = constrained(one, self.axes, self.shapes)
            constants[output] += shift
            for index, component in enumerate(self.components):
                cells = tuple(map(slice, tables[component].shape))
                if len(component) == 1:
                    mains[output, index][cells] = tables[component][:, None]
                else:
                    pairs[output, index - len(self.fine)][cells] = tables[component]
        return self.grower.grow(*self._sides(bag), start, self.seed + bag, with_pairs=False)

    def _smooth_mains(
        self, tables: dict[Component, FloatArray], held_out: Sequence[FloatArray]
    ) -> None:
        """Give each main effect the sigmoid width that the held-out rows like best.

        Pairs keep their steps: interpolation between nodes smooths them enough, and widths chosen
        for them overfit the held-out rows of small data. So do classes, which would share a width.
        """
        bags, where = np.nonzero(self.rows.validation.T)
        weights, y = self.rows.validation[where, bags], self.rows.y[where]
        lanes = bags[:, None] * self.objective.n_outputs + np.arange(self.objective.n_outputs)
        raw = np.concatenate(held_out)
        mains = [component for component in tables if len(component) == 1]
        smooth = [s for s in mains if _has_steps(self.axes[1][s[0]])]
        for component in smooth:
            table, axis = tables[component], self.axes[1][component[0]]
            cells = self.coded[0].codes[component[0]][where, None], lanes
            candidates = [table, *(_widened(table, axis, width) for width in CANDIDATE_WIDTHS)]
            scores = [raw - table[cells] + candidate[cells] for candidate in candidates]
            losses = [
                float(weights @ self.objective.losses(y, score, weights[:, None])[:, 0])
                for score in scores
            ]
            best = int(np.argmin(losses))
            tables[component], raw = candidates[best], scores[best]


def _has_steps(axis: Axis) -> bool:
    """Whether an axis has an order, and more than one value in it."""
    return not axis.is_nominal and axis.n_regular > 1


def _widened(table: FloatArray, axis: Axis, width: float) -> FloatArray:
    """Give the steps of a main effect (M, n_lanes) a width; missing values stay as they are."""
    regular = axis.n_regular
    wide = smoother(axis.positions[:regular], width) @ table[:regular]
    return centre(np.concatenate([wide, table[regular:]]), [axis.weights])
