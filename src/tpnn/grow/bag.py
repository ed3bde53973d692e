"""Grower: one bag's tables, grown where the residual still has structure."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpnn._typing import Float32Array, FloatArray, IntArray
from tpnn.anova.measure import Marginal
from tpnn.grow.rectangles import MISSING, NOMINAL, ORDERED, TreeSettings
from tpnn.grow.rounds import REFRESH_MASS, Growth, Rows, grow_rounds, raw_scores
from tpnn.loss.losses import Objective

MAIN_TREE = TreeSettings(2, 0.05, 5.0, 2.0, 0.1, 8, False)
PAIR_TREE = TreeSettings(16, 0.05, 5.0, 2.0, 0.1, 8, True)
GENTLE_PAIR_TREE = PAIR_TREE._replace(n_leaves=4, rate=0.01)  # of classes, which compete
LONE_MAIN_TREE = TreeSettings(4, 0.3, 5.0, 2.0, 0.1, 8, False)  # without pairs small steps stall
ROUNDS_PER_CHECK = 10
REFRESH_SLOPES = 5  # rounds between exact derivatives of a loss that is not quadratic
FIRST_ROUNDS = 50  # of main effects alone
PROGRESS = 2e-4  # share of the held-out loss that `patience` rounds must gain
LARGEST_STEP = 1.0  # of a leaf on a logarithmic scale, before it is shrunk
MOST_SHARE = 0.01  # of the rows that ridge and smallest leaf may amount to
MANY_ROWS, MANY_ROWS_RATE = 50_000, 0.25  # from where on larger steps are as good


class Start(NamedTuple):
    """Where to grow from, one entry per output.

    Parameters
    ----------
    mains : array of shape (K, n_features, M1, 1)
        Tables of the main effects.
    pairs : array of shape (K, n_pairs, M2, M2)
        Tables of the pairs.
    intercepts : array of shape (K,)
        Constants.
    """

    mains: Float32Array
    pairs: Float32Array
    intercepts: FloatArray


@dataclass(frozen=True)
class BagRows:
    """One side of a bag's split.

    Parameters
    ----------
    rows : Rows
        Coded rows.
    y : array of shape (n_rows, T)
        Targets on the training scale.
    weights : array of shape (n_rows, 1)
        Weights, in rows.
    """

    rows: Rows
    y: Float32Array
    weights: Float32Array


@dataclass(frozen=True)
class Grown:
    """Best tables of one bag, and the scores they give its held-out rows.

    Parameters
    ----------
    tables : Start
        Main effects, pairs and constants.
    rounds : int
        Rounds until the best.
    held_out : array of shape (n_held_out, K)
        Raw scores of the held-out rows.
    loss : float
        Their loss.
    """

    tables: Start
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


def limited(tree: TreeSettings, objective: Objective) -> TreeSettings:
    """Bound the steps of a loss whose curvature has no bound: Newton's could be of any size."""
    return tree._replace(largest=LARGEST_STEP) if objective.steep else tree


def for_size(tree: TreeSettings, size: float) -> TreeSettings:
    """Keep ridge and smallest leaf small against the mass of few distinct rows."""
    most = MOST_SHARE * size
    return tree._replace(ridge=min(tree.ridge, most), min_mass=min(tree.min_mass, most))


def axis_kinds(marginal: Marginal) -> NDArray[np.int64]:
    """How a tree may cut each feature: in order, in order but for missing values, or in groups."""
    ordered = np.where(marginal.missing, MISSING, ORDERED)
    return np.where(marginal.nominal, NOMINAL, ordered)


class Grower:
    """Grows the tables of one bag after the other; safe to call from several threads.

    Parameters
    ----------
    sizes, kinds : pairs of arrays of shape (n_features,)
        Number of nodes of each feature and how it may be cut, fine and coarse.
    signs : array of shape (n_features,)
        1 or -1 for main effects that may only increase or decrease, else 0.
    objective : Objective
        The loss.
    limits : Limits
        When to stop.
    """

    def __init__(
        self,
        sizes: tuple[IntArray, IntArray],
        kinds: tuple[NDArray[np.int64], NDArray[np.int64]],
        signs: FloatArray,
        objective: Objective,
        limits: Limits,
    ) -> None:
        self.sizes, self.kinds, self.signs = sizes, kinds, signs
        self.objective, self.limits = objective, limits
        self.is_quadratic = objective.reweightings == 1  # trees keep the derivatives up to date
        self.cancelled = threading.Event()

    def grow(
        self,
        training: BagRows,
        validation: BagRows,
        start: Start,
        seed: int,
        with_pairs: bool = True,
    ) -> Grown:
        """Grow from the given tables and constants until the held-out loss stops falling."""
        growths = _new_growths(len(training.y), start, seed)
        pairs = with_pairs and start.pairs.shape[1] > 0
        trees = self._trees(training, pairs)
        self._refresh(growths, training)
        best = self._snapshot(growths, validation, 0)
        done, mark, marked = 0, best.loss, FIRST_ROUNDS  # the last loss that was clearly better
        while done < self.limits.max_rounds and not self.must_stop():
            also_pairs = pairs and done >= FIRST_ROUNDS
            for number in range(0, ROUNDS_PER_CHECK, REFRESH_SLOPES):
                if not self.is_quadratic and number + done > 0:
                    self._refresh(growths, training)
                for growth in growths:
                    grow_rounds(
                        training.rows, growth, REFRESH_SLOPES, self.sizes, self.kinds,
                        self.signs, *trees, also_pairs,
                    )  # fmt: skip
            done += ROUNDS_PER_CHECK
            held_out = _scores(growths, validation.rows)
            loss = self.loss(validation, held_out)
            if loss < best.loss:
                best = self._snapshot(growths, validation, done)
            if loss < (1 - PROGRESS) * mark:
                mark, marked = loss, max(done, FIRST_ROUNDS)
            if done - marked > self.limits.patience:
                break
        return best

    def _trees(self, training: BagRows, pairs: bool) -> tuple[TreeSettings, TreeSettings]:
        """Trees of main effects and of pairs, as suits the loss and the rows."""
        main, pair = MAIN_TREE, PAIR_TREE
        if self.objective.couples_outputs:
            pair = GENTLE_PAIR_TREE
        elif not pairs:
            main = LONE_MAIN_TREE
        if len(training.y) > MANY_ROWS:
            main, pair = (t._replace(rate=max(t.rate, MANY_ROWS_RATE)) for t in (main, pair))
        size = float(training.weights.sum())
        main, pair = (for_size(tree, size) for tree in (main, pair))
        return limited(main, self.objective), limited(pair, self.objective)

    def must_stop(self) -> bool:
        """Whether time is up or the fit was interrupted."""
        return self.cancelled.is_set() or time.monotonic() >= self.limits.deadline

    def loss(self, validation: BagRows, held_out: NDArray[np.floating]) -> float:
        """Mean loss of raw scores (n_rows, K) on held-out rows."""
        losses = self.objective.losses(validation.y, held_out, validation.weights)
        return float(np.average(losses, weights=validation.weights))

    def _refresh(self, growths: Sequence[Growth], training: BagRows) -> None:
        """Exact derivatives of every row."""
        raw = _scores(growths, training.rows)
        gradient, hessian = self.objective.slopes(training.y, raw, training.weights)
        for output, growth in enumerate(growths):
            growth.residual[:] = -training.weights[:, 0] * gradient[:, output]
            growth.hessian[:] = training.weights[:, 0] * hessian[:, output]
            growth.ages[:] += REFRESH_MASS if self.objective.steep else REFRESH_SLOPES

    def _snapshot(self, growths: Sequence[Growth], validation: BagRows, rounds: int) -> Grown:
        held_out = _scores(growths, validation.rows)
        tables = Start(
            np.stack([growth.mains for growth in growths]),
            np.stack([growth.pairs for growth in growths]),
            np.concatenate([growth.intercept for growth in growths]),
        )
        return Grown(tables, rounds, held_out, self.loss(validation, held_out))


def _new_growths(n_rows: int, start: Start, seed: int) -> list[Growth]:
    """State of every output."""
    n_outputs, n_mains, fine, _ = start.mains.shape
    _, n_pairs, coarse, _ = start.pairs.shape
    return [
        Growth(
            np.array(start.mains[output], order="C"),
            np.array(start.pairs[output], order="C"),
            np.zeros((n_mains, fine + 1, 2)),
            np.zeros((n_pairs, coarse + 1, coarse + 1)),
            np.zeros(n_rows, np.float32),
            np.zeros(n_rows, np.float32),
            np.full(n_mains + n_pairs, 1e30),
            np.full(n_mains + n_pairs, REFRESH_MASS),
            start.intercepts[output : output + 1].copy(),
            np.array([seed * n_outputs + output], np.uint64),
        )
        for output in range(n_outputs)
    ]


def _scores(growths: Sequence[Growth], rows: Rows) -> Float32Array:
    """Raw scores of rows, (n_rows, K)."""
    scores = [raw_scores(rows, g.mains, g.pairs, g.intercept[0]) for g in growths]
    return np.stack(scores, axis=1)
