"""Growing solver: bases are added where the residual still has structure.

Every bag grows twice, from zero and from the smooth start, each until its held-out loss stops
falling. The held-out rows of all bags then choose how to mix the two and how wide the sigmoids of
each main effect are. The result is purified: centred exactly, what is averaged out moves down.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tpnn.axes import Axis
from tpnn.boosting import (
    KINDS,
    REFRESH_MASS,
    Growth,
    Rows,
    grow_rounds,
    raw_scores,
    refresh,
)
from tpnn.lookup import CodedComponents
from tpnn.marginals import Marginal, centre
from tpnn.objectives import Objective
from tpnn.purification import purify_tables
from tpnn.rectangles import TreeSettings
from tpnn.resampling import TrainingRows
from tpnn.smoothing import CANDIDATE_WIDTHS, smoother
from tpnn.solution import Progress, Solution
from tpnn.starting import (
    PAIR_NODES,
    Dictionary,
    MainDictionary,
    PairDictionary,
    SmoothStart,
    coarsen,
)
from tpnn.workers import ONE_BLAS_THREAD, Workers

Float32Array = NDArray[np.float32]
FloatArray = NDArray[np.float64]
Component = tuple[int, ...]
Start = tuple[Float32Array, Float32Array, float]  # mains, pairs, intercept

MAIN_TREE = TreeSettings(2, 0.05, 5.0, 2.0, 0.1, 8, False)
PAIR_TREE = TreeSettings(16, 0.05, 5.0, 2.0, 0.1, 8, True)
LONE_MAIN_TREE = TreeSettings(4, 0.3, 5.0, 2.0, 0.1, 8, False)  # without pairs small steps stall
ROUNDS_PER_CHECK = 10
FIRST_ROUNDS = 50  # of main effects alone
MOST_SHARE = 0.01  # of the rows that ridge and smallest leaf may amount to
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the smooth start in a bag's mixture


@dataclass(frozen=True)
class BagRows:
    """One side of a bag's split.

    Parameters
    ----------
    rows : Rows
        Coded rows.
    y, weights : array of shape (n_rows,)
        Targets on the training scale; weights in rows.
    """

    rows: Rows
    y: Float32Array
    weights: Float32Array


@dataclass(frozen=True)
class Grown:
    """Best tables of one bag, and the scores they give its held-out rows.

    Parameters
    ----------
    mains, pairs : arrays
        As in ``Growth``.
    intercept : float
        Constant.
    rounds : int
        Rounds until the best.
    held_out : array of shape (n_held_out,)
        Raw scores of the held-out rows.
    loss : float
        Their loss.
    """

    mains: Float32Array
    pairs: Float32Array
    intercept: float
    rounds: int
    held_out: Float32Array
    loss: float


@dataclass(frozen=True)
class Limits:
    """When to stop.

    Parameters
    ----------
    deadline : float
        Time of ``time.monotonic`` at which to stop with the best so far.
    max_rounds : int
        Rounds at most.
    patience : int
        Rounds without a better held-out loss after which a bag is done.
    """

    deadline: float
    max_rounds: int
    patience: int


def _for_size(tree: TreeSettings, size: float) -> TreeSettings:
    """Keep ridge and smallest leaf small against the mass of few distinct rows."""
    most = MOST_SHARE * size
    return tree._replace(ridge=min(tree.ridge, most), min_mass=min(tree.min_mass, most))


class Grower:
    """Grows the tables of one bag after the other; safe to call from several threads.

    Parameters
    ----------
    sizes : pair of arrays of shape (n_features,)
        Number of nodes of each feature, fine and coarse.
    objective : Objective
        Squared error or logistic loss.
    limits : Limits
        When to stop.
    """

    def __init__(
        self,
        sizes: tuple[NDArray[np.intp], NDArray[np.intp]],
        objective: Objective,
        limits: Limits,
    ) -> None:
        self.sizes, self.objective, self.limits = sizes, objective, limits
        self.kind = KINDS[objective.name]
        self.cancelled = threading.Event()

    def grow(
        self,
        training: BagRows,
        validation: BagRows,
        start: Start,
        seed: int,
    ) -> Grown:
        """Grow from the given tables and constant until the held-out loss stops falling."""
        growth = self._new_growth(training, start, seed)
        pairs = len(growth.pairs) > 0
        size = float(training.weights.sum())
        main_tree = _for_size(MAIN_TREE if pairs else LONE_MAIN_TREE, size)
        pair_tree = _for_size(PAIR_TREE, size)
        refresh(training.rows, growth, training.y, training.weights, self.kind)
        best = self._snapshot(growth, validation, self._score(growth, validation), 0)
        done = 0
        while done < self.limits.max_rounds and not self.must_stop():
            grow_rounds(
                training.rows, growth, training.y, training.weights, self.kind,
                done, done + ROUNDS_PER_CHECK, self.sizes, main_tree, pair_tree,
                pairs and done >= FIRST_ROUNDS,
            )  # fmt: skip
            done += ROUNDS_PER_CHECK
            held_out = self._score(growth, validation)
            if self.loss(validation, held_out) < best.loss:
                best = self._snapshot(growth, validation, held_out, done)
            elif done - max(best.rounds, FIRST_ROUNDS) > self.limits.patience:
                break
        return best

    def must_stop(self) -> bool:
        """Whether time is up or the fit was interrupted."""
        return self.cancelled.is_set() or time.monotonic() >= self.limits.deadline

    def _new_growth(self, training: BagRows, start: Start, seed: int) -> Growth:
        mains, pairs, intercept = start
        n_rows, n_components = len(training.y), len(mains) + len(pairs)
        _, fine, _ = mains.shape
        _, coarse, _ = pairs.shape
        return Growth(
            np.array(mains, order="C"),
            np.array(pairs, order="C"),
            np.zeros((len(mains), fine + 1, 2)),
            np.zeros((len(pairs), coarse + 1, coarse + 1)),
            np.zeros(n_rows, np.float32),
            np.zeros(n_rows, np.float32),
            np.full(n_components, 1e30),
            np.full(n_components, REFRESH_MASS),
            np.array([float(intercept)]),
            np.array([seed], np.uint64),
        )

    def _score(self, growth: Growth, validation: BagRows) -> Float32Array:
        scores: Float32Array = raw_scores(
            validation.rows, growth.mains, growth.pairs, growth.intercept[0]
        )
        return scores

    def loss(self, validation: BagRows, held_out: NDArray[np.floating]) -> float:
        """Mean loss of raw scores on held-out rows."""
        losses = self.objective.loss(validation.y, held_out)
        return float(np.average(losses, weights=validation.weights))

    def _snapshot(
        self, growth: Growth, validation: BagRows, held_out: Float32Array, rounds: int
    ) -> Grown:
        return Grown(
            growth.mains.copy(),
            growth.pairs.copy(),
            float(growth.intercept[0]),
            rounds,
            held_out,
            self.loss(validation, held_out),
        )


@dataclass(frozen=True)
class Mixture:
    """Weighted mean of two grown models of one bag; mains first, then pairs."""

    tables: list[FloatArray]
    intercept: float
    held_out: FloatArray


def _mixture(zero: Grown, smooth: Grown, share: float) -> Mixture:
    def mean(a: NDArray[np.floating], b: NDArray[np.floating]) -> FloatArray:
        return np.asarray((1 - share) * a + share * b, np.float64)

    tables = [*mean(zero.mains, smooth.mains)[..., 0], *mean(zero.pairs, smooth.pairs)]
    intercept = (1 - share) * zero.intercept + share * smooth.intercept
    return Mixture(tables, intercept, mean(zero.held_out, smooth.held_out))


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
    """

    def __init__(
        self,
        coded: Sequence[CodedComponents],
        axes: Mapping[int, Sequence[Axis]],
        rows: TrainingRows,
        objective: Objective,
        limits: Limits,
        seed: int,
    ) -> None:
        self.coded, self.axes, self.rows, self.objective = coded, axes, rows, objective
        self.seed, self.n_bags = seed, rows.training.shape[1]
        self.marginals = [
            Marginal.stack([axis.positions for axis in level], [axis.weights for axis in level])
            for level in (axes[1], axes.get(2, axes[1]))
        ]
        self.components = [tuple(s) for part in coded for s in part.features.tolist()]
        mains = coded[0].features[:, 0]
        self.fine = coded[0].codes[mains]
        self.coarse, self.pairs = coded[-1].codes, np.empty((0, 2), np.intp)
        if len(coded) > 1:
            self.pairs = coded[1].features
        sizes = (self.marginals[0].sizes[mains], self.marginals[1].sizes)
        self.grower = Grower(sizes, objective, limits)

    def fit(self, intercept: float, progress: Progress) -> Solution:
        """Grow every bag from zero and from the smooth start, mix, purify, smooth."""
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
            starts = self._smooth_starts(intercept, workers)
            zero = (np.zeros_like(starts[0][0]), np.zeros_like(starts[0][1]), intercept)
            tasks = [
                (bag, smooth_start, starts[bag] if smooth_start else zero)
                for bag in range(self.n_bags)
                for smooth_start in (False, True)
            ]
            try:
                grown = workers.map(grow, tasks)
            except BaseException:
                self.grower.cancelled.set()
                raise
        share = self._best_share(grown[::2], grown[1::2])
        mixed = [
            _mixture(zero, smooth, share)
            for zero, smooth in zip(grown[::2], grown[1::2], strict=True)
        ]
        intercepts, tables = self._purified(mixed)
        self._smooth_mains(tables, [bag.held_out for bag in mixed])
        history.sort(key=lambda record: (record["bag"], record["smooth_start"]))
        return Solution(intercepts, list(tables.values()), None, history)

    def _sides(self, bag: int) -> tuple[BagRows, BagRows]:
        """Training and held-out rows of a bag; weights of training are in rows."""

        def side(weights: Float32Array) -> BagRows:
            where = np.flatnonzero(weights)
            rows = Rows(
                self.fine[:, where], self.coarse[:, where], np.zeros(len(where), np.uint8),
                self.rows.offset[where, 0], self.pairs,
            )  # fmt: skip
            return BagRows(rows, self.rows.y[where, 0], weights[where])

        in_rows = self.rows.training[:, bag] * self.rows.sizes[bag]
        return side(in_rows), side(self.rows.validation[:, bag])

    def _smooth_starts(self, intercept: float, workers: Workers) -> list[Start]:
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
            self.rows.validation, self.objective, workers, self.grower.must_stop,
        ).fit(intercept)  # fmt: skip
        mains = solved[0].tables(best.coefficients[0])[:, :, None]
        pairs = np.empty((0, coarse.n_nodes, coarse.n_nodes, self.n_bags), np.float32)
        if len(self.pairs):
            tables = PairDictionary(coarse, self.pairs).tables(best.coefficients[1])
            pairs = tables.reshape(-1, *pairs.shape[1:])
        return [
            (mains[..., bag], pairs[..., bag], float(best.intercepts[bag]))
            for bag in range(self.n_bags)
        ]

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
        """Return intercepts (n_bags,) and pure tables (M_1, ..., n_bags) of the bags."""
        raw: dict[Component, FloatArray] = {}
        for index, component in enumerate(self.components):
            axes = self.axes[len(component)]
            cells = tuple(slice(axes[feature].n_nodes) for feature in component)
            raw[component] = np.stack([bag.tables[index][cells] for bag in bags], -1)
        constant, pure = purify_tables(raw, self.axes)
        return np.array([bag.intercept for bag in bags]) + constant, pure

    def _smooth_mains(
        self, tables: dict[Component, FloatArray], held_out: Sequence[FloatArray]
    ) -> None:
        """Give each main effect the sigmoid width that the held-out rows like best.

        Pairs keep their steps: interpolation between nodes smooths them enough, and widths chosen
        for them overfit the held-out rows of small data.
        """
        bags, where = np.nonzero(self.rows.validation.T)
        weights, y = self.rows.validation[where, bags], self.rows.y[where, 0]
        raw = np.concatenate(held_out)
        for component in [component for component in tables if len(component) == 1]:
            table, axis = tables[component], self.axes[1][component[0]]
            cells = self.coded[0].codes[component[0]][where], bags
            smoothed = (smoother(axis.positions, width) @ table for width in CANDIDATE_WIDTHS)
            candidates = [table, *(centre(wide, [axis.weights]) for wide in smoothed)]
            scores = [raw - table[cells] + candidate[cells] for candidate in candidates]
            losses = [float(weights @ self.objective.loss(y, score)) for score in scores]
            best = int(np.argmin(losses))
            tables[component], raw = candidates[best], scores[best]
