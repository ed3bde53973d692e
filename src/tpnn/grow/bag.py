"""BagGrower: one bag's tables, grown until its held-out loss stops falling; for every order.

What is grown, and how its components are visited, is a forest: rectangles for main effects and
pairs, boxes for higher orders. Rows, slopes, held-out loss, the best tables so far, early stopping
and cancellation are the same for all and written here, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from tpnn._typing import Float32Array, FloatArray, RealArray
from tpnn.loss.losses import Objective
from tpnn.problem.coded import CodedComponents
from tpnn.problem.stopping import EarlyStopping, Limits


@dataclass(frozen=True)
class Side:
    """One side of a bag's split: the rows it trains on, or those it holds out.

    Parameters
    ----------
    coded : list of CodedComponents
        For each order that grows, its components over these rows.
    y : array of shape (n_rows, T)
        Targets on the training scale.
    weights : array of shape (n_rows, 1)
        Weights, in rows.
    raw : array of shape (n_rows, 1) or (n_rows, K)
        Raw scores of what does not grow: the offset, or that and the lower orders.
    """

    coded: Sequence[CodedComponents]
    y: RealArray
    weights: RealArray
    raw: RealArray


class Tables(NamedTuple):
    """Tables and constants of one bag, outputs first.

    Parameters
    ----------
    by_order : list of array of shape (K, n_components, ...)
        One array for each order that grows, cells behind.
    intercepts : array of shape (K,)
        Constants.
    """

    by_order: list[Float32Array]
    intercepts: FloatArray


class Forest(Protocol):
    """Tables of one bag that trees are added to.

    Parameters
    ----------
    growths : sequence
        State of every output, with ``residual`` and ``hessian`` (n_rows,), the slopes.
    rounds_per_check : int
        Rounds between two looks at the held-out loss.
    visits_per_check : int
        Calls of ``visit`` in that time; slopes are made exact before each.
    keeps_slopes : bool
        Whether visits keep the slopes exact by themselves.
    tolerance, grace : float and int
        Those of early stopping.
    """

    rounds_per_check: int
    visits_per_check: int
    keeps_slopes: bool
    tolerance: float
    grace: int

    @property
    def growths(self) -> Sequence[Any]:
        """State of every output."""

    def visit(self, rounds: int) -> None:
        """Add trees to the tables; ``rounds`` is how many were finished at the last check."""

    def scores(self, side: Side) -> RealArray:
        """Raw scores of rows, (n_rows, K)."""

    def tables(self) -> Tables:
        """Copy of the tables as they are."""

    def slopes_changed(self) -> None:
        """Take note that the slopes are new."""


@dataclass(frozen=True, kw_only=True)
class Grown:
    """Best tables of one bag, and the scores they give its held-out rows.

    Parameters
    ----------
    tables : Tables
        Tables and constants.
    rounds : int
        Rounds until the best.
    held_out : array of shape (n_held_out, K)
        Raw scores of the held-out rows.
    loss : float
        Their loss.
    """

    tables: Tables
    rounds: int
    held_out: RealArray
    loss: float


def held_out_loss(objective: Objective, side: Side, raw: RealArray) -> float:
    """Mean loss of raw scores (n_rows, K) on held-out rows."""
    losses = objective.losses(side.y, raw, side.weights)
    return float(np.average(losses, weights=side.weights))


@dataclass(frozen=True)
class BagGrower:
    """Grows one bag after the other; safe to call from several threads.

    Parameters
    ----------
    objective : Objective
        The loss.
    limits : Limits
        When to stop in any case.
    max_rounds, patience : int
        Rounds at most, and rounds without progress after which a bag is done.
    """

    objective: Objective
    limits: Limits
    max_rounds: int
    patience: int

    def grow(self, forest: Forest, training: Side, validation: Side) -> Grown:
        """Add trees to a forest until the held-out loss stops falling; return the best tables."""
        stopping = EarlyStopping(1, self.patience, tolerance=forest.tolerance, grace=forest.grace)
        self._refresh(forest, training)
        best = self._snapshot(forest, validation, 0)
        stopping.update(np.array([best.loss]), 0)
        every = forest.rounds_per_check
        for done in range(0, self.max_rounds, every):
            if self.limits.are_reached() or stopping.has_stalled:
                break
            for visit in range(forest.visits_per_check):
                if done + visit > 0 and not forest.keeps_slopes:
                    self._refresh(forest, training)
                forest.visit(done)
            held_out = forest.scores(validation)
            loss = held_out_loss(self.objective, validation, held_out)
            if stopping.update(np.array([loss]), done + every)[0]:
                best = Grown(
                    tables=forest.tables(), rounds=done + every, held_out=held_out, loss=loss
                )
        return best

    def _refresh(self, forest: Forest, training: Side) -> None:
        """Compute the exact slopes of every row."""
        raw = forest.scores(training)
        gradient, hessian = self.objective.slopes(training.y, raw, training.weights)
        for output, growth in enumerate(forest.growths):
            growth.residual[:] = -training.weights[:, 0] * gradient[:, output]
            growth.hessian[:] = training.weights[:, 0] * hessian[:, output]
        forest.slopes_changed()

    def _snapshot(self, forest: Forest, validation: Side, rounds: int) -> Grown:
        held_out = forest.scores(validation)
        loss = held_out_loss(self.objective, validation, held_out)
        return Grown(tables=forest.tables(), rounds=rounds, held_out=held_out, loss=loss)
