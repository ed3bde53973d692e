"""Rows on a card: the codes of all rows, which bags share, and the sides of every bag."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import CodeArray, Float32Array, FloatArray
from tpnn.solvers.grow.bag import Side
from tpnn.solvers.grow.card.card import Card
from tpnn.solvers.grow.sides import Sides
from tpnn.solvers.problem.coded import CodedComponents
from tpnn.solvers.problem.problem import Problem

ROWS_PER_STEP = 64  # columns are as long as a multiple of it


class RowsOnCard:
    """Codes of all rows on a card.

    Parameters
    ----------
    card : Card
        The card.
    codes : list of array of shape (n_features, n_rows), uint8 or uint16
        Node of every value, at the resolution of each order.
    """

    def __init__(self, card: Card, codes: Sequence[CodeArray]) -> None:
        self.card, self.n_rows = card, codes[0].shape[1]
        self.bytes = [part.dtype.itemsize for part in codes]
        self._codes = [card.filled(self.spread(part)) for part in codes]
        lengths = [size * self.length for size in self.bytes]
        self.columns: list[NDArray[np.int64]] = [
            memory.address + length * np.arange(len(part))
            for memory, length, part in zip(self._codes, lengths, codes, strict=True)
        ]

    @property
    def length(self) -> int:
        """Length of a column, with the rows that are added at its end."""
        return int(-(-self.n_rows // ROWS_PER_STEP) * ROWS_PER_STEP)

    def spread(self, values: NDArray[Any], where: Any = None) -> NDArray[Any]:
        """Return columns of all rows, given the values (..., n) of some; the others are 0."""
        columns = np.zeros((*values.shape[:-1], self.length), values.dtype)
        columns[..., slice(self.n_rows) if where is None else where] = values
        return columns


@dataclass(frozen=True, kw_only=True)
class CardSide(Side):
    """One side of a bag's split; ``coded`` has the components over all rows.

    Parameters
    ----------
    where : array of shape (n_rows,), int32
        Number of each row among all rows.
    """

    where: NDArray[np.int32]


class SidesOnCard(Sides):
    """Rows of every bag, whose codes are on a card and are not taken out of all rows."""

    @classmethod
    def of_problem(cls, problem: Problem) -> SidesOnCard:
        """Rows of the bags of a problem, whose components are main effects and pairs."""
        mains, *pairs = problem.coded
        fine = mains.codes[mains.features[:, 0]]
        alone = CodedComponents(fine, np.arange(len(fine))[:, None], mains.n_nodes)
        return cls([alone, *pairs], problem.rows, problem.codes.shelf)

    def of(self, weights: Float32Array) -> CardSide:
        """Rows with a positive weight."""
        where = np.flatnonzero(weights)
        return CardSide(
            coded=self.coded, y=self.rows.y[where], weights=weights[where, None],
            raw=self.rows.offset[where], shelf=self.shelf, where=where.astype(np.int32),
        )  # fmt: skip


def higher_side_on_card(
    problem: Problem, parts: Sequence[CodedComponents], weights: Float32Array, raw: FloatArray
) -> CardSide:
    """Rows with a positive weight, in double precision, where components of higher order grow."""
    where = np.flatnonzero(weights)
    return CardSide(
        coded=parts,
        y=problem.rows.y[where].astype(np.float64),
        weights=weights[where, None].astype(np.float64),
        raw=raw[where],
        where=where.astype(np.int32),
    )
