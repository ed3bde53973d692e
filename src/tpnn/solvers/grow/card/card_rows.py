"""Rows on a card: the codes of all rows, which bags share, and the sides of every bag."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import CodeArray, Float32Array
from tpnn.solvers.grow.card.card import Card, Memory, check
from tpnn.solvers.grow.card.card_loop import CODE_BYTES, COMPONENT_WORDS, STRIDES
from tpnn.solvers.grow.engine import Side, Sides
from tpnn.solvers.grow.rounds import Growth, Plan
from tpnn.solvers.problem.coded import CodedComponents
from tpnn.solvers.problem.problem import Problem

ROWS_PER_STEP = 64  # columns are as long as a multiple of it


class RowsOnCard:
    """Codes of all rows on a card."""

    def __init__(
        self,
        card: Card,
        codes: Sequence[CodeArray],  # (n_features, n_rows), at the resolution of each order
    ) -> None:
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
    """One side of a bag's split; ``coded`` has the components over all rows."""

    where: NDArray[np.int32]  # (n_rows,): number of each row among all rows


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


WORDS = 9  # of the structure of the kernel


class CardScores:
    """Adds up main effects and pairs."""

    def __init__(self, rows: RowsOnCard, plan: Plan, growth: Growth) -> None:
        self.rows, card = rows, rows.card
        self._stream = card.new_stream()
        self._mains, self._pairs = card.filled(growth.mains), card.filled(growth.pairs)
        self._components = card.filled(_described(rows, plan, growth.pairs.shape[-1]))
        grids = [
            memory.address + array[0].nbytes * np.arange(len(array))
            for memory, array in ((self._mains, growth.mains), (self._pairs, growth.pairs))
            if len(array)
        ]
        self._grids = card.filled(np.concatenate(grids))
        self._n_components = sum(map(len, grids))
        self._sides: dict[int, tuple[CardSide, Memory, Memory, Memory]] = {}

    def of(self, side: CardSide, growths: Sequence[Growth]) -> Float32Array:
        """Raw scores of the rows of one side, (n_rows, K)."""
        scores = np.empty((len(side.y), len(growths)), np.float32)
        for output, growth in enumerate(growths):
            self._mains.write(growth.mains)
            self._pairs.write(growth.pairs)
            scores[:, output] = self._of_one(side, output, float(np.float32(growth.intercept[0])))
        return scores

    def _of_one(self, side: CardSide, output: int, intercept: float) -> Float32Array:
        _, numbers, known, raw = self._held(side)
        n_known = side.raw.shape[1]
        column = output if n_known > 1 else 0
        words = np.zeros(WORDS, np.int64)
        words[:4] = len(side.y), numbers.address, known.address + 4 * column, n_known
        words.view(np.float64)[4] = intercept
        words[5:7] = self._components.address, self._grids.address
        words[7:] = self._n_components, raw.address
        parameters = np.array([words.ctypes.data])
        card, stream = self.rows.card, int(self._stream.ptr)
        check(
            card.functions.launch(
                card.kernels["scores"], 8 * card.n_blocks, 1, 1, card.n_threads, 1, 1, 0, stream,
                int(parameters.ctypes.data), 0,
            )
        )  # fmt: skip
        check(card.functions.wait(stream))
        return raw.read()

    def _held(self, side: CardSide) -> tuple[CardSide, Memory, Memory, Memory]:
        """Return the side and, on the card, its rows' numbers, known raw scores, room for new."""
        if id(side) not in self._sides:
            card = self.rows.card
            known = np.ascontiguousarray(side.raw, np.float32)
            raw = card.filled(np.zeros(len(side.y), np.float32))
            self._sides[id(side)] = side, card.filled(side.where), card.filled(known), raw
        return self._sides[id(side)]


def _described(rows: RowsOnCard, plan: Plan, n_nodes: int) -> NDArray[np.int64]:
    """Components as the kernel sees them, main effects first, (n_components, COMPONENT_WORDS)."""
    fine, coarse = rows.columns[0], rows.columns[-1]
    mains = np.zeros((len(fine), COMPONENT_WORDS), np.int64)
    mains[:, 0], mains[:, CODE_BYTES], mains[:, STRIDES] = fine, rows.bytes[0], 1
    pairs = np.zeros((len(plan.pairs), COMPONENT_WORDS), np.int64)
    pairs[:, :2], pairs[:, CODE_BYTES] = coarse[plan.pairs], rows.bytes[-1]
    pairs[:, STRIDES : STRIDES + 2] = n_nodes, 1
    return np.concatenate([mains, pairs])
