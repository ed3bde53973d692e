"""CardForest: main effects and pairs of one bag, whose rows are on a card."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import Float32Array, FloatArray
from tpnn._utils.compile import compiled
from tpnn.solvers.grow.card.card import check
from tpnn.solvers.grow.card.card_loop import (
    ANSWER_STRIDE,
    CODE_BYTES,
    COMPONENT_WORDS,
    FIRST_ENTRY,
    N_ENTRIES,
    N_ROWS,
    STEP,
    STRIDES,
    VISIT_WORDS,
    Columns,
    OpenChannel,
    ask,
    grow_rounds_on_card,
    send,
)
from tpnn.solvers.grow.card.card_rows import CardScores, CardSide, RowsOnCard
from tpnn.solvers.grow.cuboids import TripleGrowth, add_to_table, grow_cuboids, next_triple
from tpnn.solvers.grow.engine import Side
from tpnn.solvers.grow.forest import SLOPE_REFRESH_ROUNDS, RectangleForest
from tpnn.solvers.grow.rounds import NOTHING, Growth, Slopes
from tpnn.solvers.grow.triples import VISITS_PER_ROUND, CuboidForest


class SlopesOnCard:
    """Slopes of one output of one bag, which a channel leads to."""

    def __init__(
        self,
        rows: RowsOnCard,
        growth: Growth,  # its ``sums`` and ``step`` are in memory that the card can reach
    ) -> None:
        self.rows, card = rows, rows.card
        zeros = np.zeros(rows.length, np.float32)
        self.residual, self.hessian = card.filled(zeros), card.filled(zeros)
        opened = OpenChannel(card, "visit", VISIT_WORDS, growth.step)
        sums, n_done = card.filled(np.zeros_like(growth.sums)), card.filled(np.zeros(1, np.uint32))
        opened.name(STEP, opened.step, self.residual, self.hessian, sums, growth.sums, n_done)
        self._opened, self.channel = opened, opened.channel
        self.channel.words[N_ROWS] = rows.length
        self.channel.words[ANSWER_STRIDE] = growth.sums.shape[1]

    def write(self, slopes: Slopes, where: Any) -> None:
        """Copy slopes of the rows ``where`` to the card; those of the others are 0."""
        self.residual.write(self.rows.spread(slopes.residual, where))
        self.hessian.write(self.rows.spread(slopes.hessian, where))
        self.channel.last[0] = NOTHING


class CardForest(RectangleForest):
    """Main effects and pairs of one bag, whose rows are on a card."""

    training: CardSide

    def __init__(
        self,
        rows: RowsOnCard,
        **settings: Any,  # of ``RectangleForest``; its ``training`` rows are a ``CardSide``
    ) -> None:
        super().__init__(**settings)
        self.training, card = settings["training"], rows.card
        self.columns = Columns(rows.columns[0], rows.columns[-1], rows.bytes[0], rows.bytes[-1])
        self.grown = [
            growth._replace(sums=card.shared(growth.sums), step=card.shared(growth.step))
            for growth in self.grown
        ]
        self.on_card = [SlopesOnCard(rows, growth) for growth in self.grown]
        self.card_scores = CardScores(rows, self.plan, self.grown[0])
        self.is_newer_here = True  # slopes in the memory of the host are

    def visit(self, rounds: int) -> None:
        """Visit the components of every output for a few rounds."""
        also_pairs = self.visits_pairs(rounds)
        parts = zip(self.on_card, self.growths, self.grown, strict=True)
        for on_card, slopes, growth in parts:
            if self.is_newer_here:
                on_card.write(slopes, self.training.where)
            check(
                grow_rounds_on_card(
                    on_card.channel, self.columns, growth, self.plan, slopes.scales,
                    SLOPE_REFRESH_ROUNDS, also_pairs,
                )
            )  # fmt: skip
        self.is_newer_here = False

    def scores(self, side: CardSide) -> Float32Array:  # type: ignore[override]
        """Raw scores of rows, (n_rows, K)."""
        return self.card_scores.of(side, self.grown)

    def slopes_changed(self) -> None:
        """Choose new scales, and raise the age of the sums of the hessian."""
        super().slopes_changed()
        self.is_newer_here = True

    def state(self) -> list[NDArray[Any]]:
        """Arrays that hold where the growth stands; residuals return from the card."""
        if self.keeps_slopes and not self.is_newer_here:
            nothing = np.array([NOTHING, 0])
            for on_card, slopes in zip(self.on_card, self.growths, strict=True):
                check(ask(on_card.channel, self.columns, self.plan, nothing, slopes.scales))
                slopes.residual[:] = on_card.residual.read()[self.training.where]
            self.is_newer_here = True
        return super().state()


# Places in the structure of a visit, after those of all visits:
SCALES, LAST = 2, 5
NEXT = LAST + COMPONENT_WORDS
TRIPLE_STEP = NEXT + COMPONENT_WORDS  # then side, raw, residual, hessian, sums, answer, blocks done
TRIPLE_VISIT_WORDS = TRIPLE_STEP + 8
TRAINING, HELD_OUT = 1, 2  # sides


class TripleBuffers(NamedTuple):
    """Memory of the host that the card can reach too, and columns on the card."""

    step: Any  # (n_entries,)
    answer: Any  # (2 * n_entries + 1,): sums of residuals and hessians, fall of the held-out loss
    columns: Any  # (n_features,), addresses of the codes
    code_bytes: int  # of one code


@compiled()
def _describe(words: Any, buffers: Any, rows: Any, index: int) -> None:
    """Describe a triple to the kernel."""
    words[:] = 0
    if index == NOTHING:
        return
    triple, stride = rows.triples[index], np.int64(1)
    for axis in range(2, -1, -1):
        words[axis], words[STRIDES + axis] = buffers.columns[triple[axis]], stride
        words[FIRST_ENTRY] += stride
        stride *= rows.sizes[triple[axis]] + 1
    words[CODE_BYTES], words[N_ENTRIES] = buffers.code_bytes, stride


@compiled()
def _ask(channel: Any, buffers: Any, rows: Any, growth: Any, index: int) -> Any:
    """Take the last step, count what it brought, then sum over the cells of a triple."""
    words, last = channel.words, channel.last[0]
    before, after = words[LAST:NEXT], words[NEXT:TRIPLE_STEP]
    _describe(before, buffers, rows, last)
    _describe(after, buffers, rows, index)
    channel.numbers[SCALES : SCALES + 2] = growth.training.scales
    channel.numbers[SCALES + 2] = growth.held_out.scales[0]
    status = send(channel, before[N_ENTRIES], 2 * after[N_ENTRIES])
    if last != NOTHING:
        fall = buffers.answer[2 * after[N_ENTRIES]]
        growth.confirmed[last] += fall / growth.held_out.scales[0]
    channel.last[0] = index
    return status


@compiled()
def _visit(buffers: Any, rows: Any, growth: Any, index: int, settings: Any) -> None:
    """Turn the answer about a triple into a step, and add it to its grid."""
    triple = rows.triples[index]
    sizes, kinds = rows.sizes[triple], rows.kinds[triple]
    n_entries = (sizes + 1).prod()
    sums = buffers.answer[: 2 * n_entries].copy().reshape((n_entries, 2))
    step = buffers.step[:n_entries]
    gain = grow_cuboids(sums, growth.training.scales, sizes, kinds, growth.state, settings, step)
    growth.gains[index], growth.changed[index] = gain, True
    add_to_table(step, sizes, growth.tables[index])


@compiled()
def grow_triples_on_card(
    channel: Any, buffers: Any, rows: Any, growth: Any, n_visits: int, settings: Any
) -> Any:
    """Visit triples as ``grow_triples`` does; return 0 or the number of an error."""
    for _ in range(n_visits):
        index = next_triple(growth)
        status = _ask(channel, buffers, rows, growth, index)
        if status:
            return status
        _visit(buffers, rows, growth, index, settings)
    return _ask(channel, buffers, rows, growth, NOTHING)


class TripleOnCard:
    """Raw scores and slopes of one output of one bag, which a channel leads to."""

    def __init__(
        self,
        rows: RowsOnCard,
        most_entries: int,  # of a triple's volume
        side: NDArray[np.uint8],  # (length,): which side each row is on
    ) -> None:
        card, zeros = rows.card, np.zeros(rows.length)
        step = card.shared(np.zeros(most_entries, np.float32))
        answer = card.shared(np.zeros(2 * most_entries + 1, np.int64))
        self.raw, self.residual, self.hessian = (card.filled(zeros) for _ in range(3))
        self.buffers = TripleBuffers(step, answer, rows.columns[0], rows.bytes[0])
        opened = OpenChannel(card, "visit_triple", TRIPLE_VISIT_WORDS, step)
        opened.name(
            TRIPLE_STEP, opened.step, card.filled(side), self.raw, self.residual, self.hessian
        )
        sums, n_done = card.filled(np.zeros_like(answer)), card.filled(np.zeros(1, np.uint32))
        opened.name(TRIPLE_STEP + 5, sums, answer, n_done)
        self._opened, self.channel = opened, opened.channel
        self.channel.words[N_ROWS] = rows.length


class CardCuboidForest(CuboidForest):
    """Triples of one bag, whose rows are on a card."""

    training: CardSide
    held_out: CardSide

    def __init__(
        self,
        on_card: RowsOnCard,
        **settings: Any,  # of ``CuboidForest``; its two sides are ``CardSide``
    ) -> None:
        super().__init__(**settings)
        self.on_card = on_card
        side = np.zeros(on_card.length, np.uint8)
        side[self.training.where], side[self.held_out.where] = TRAINING, HELD_OUT
        most = int((self.rows.sizes[self.rows.triples] + 1).prod(1).max())
        self.outputs = [TripleOnCard(on_card, most, side) for _ in self.states]
        self.raw_is_newer_here = True

    def visit(self, rounds: int) -> None:
        """Visit triples of every output."""
        for output, state in zip(self.outputs, self.states, strict=True):
            self._write(output, state)
            status = grow_triples_on_card(
                output.channel, output.buffers, self.rows, state, VISITS_PER_ROUND, self.tree
            )
            check(status)
        self.raw_is_newer_here = False

    def _write(self, output: TripleOnCard, state: TripleGrowth) -> None:
        """Copy slopes and, if the host has newer ones, raw scores to the card."""
        for name in ("residual", "hessian", *["raw"] * self.raw_is_newer_here):
            column = self.on_card.spread(getattr(state.training, name), self.training.where)
            column[self.held_out.where] = getattr(state.held_out, name)
            getattr(output, name).write(column)

    def scores(self, side: Side) -> FloatArray:
        """Raw scores of the rows of one side, (n_rows, K)."""
        self._read()
        return super().scores(side)

    def _read(self) -> None:
        """Copy raw scores from the card, if it has newer ones."""
        if self.raw_is_newer_here:
            return
        for output, state in zip(self.outputs, self.states, strict=True):
            raw = output.raw.read()
            state.training.raw[:] = raw[self.training.where]
            state.held_out.raw[:] = raw[self.held_out.where]
        self.raw_is_newer_here = True

    def state(self) -> list[NDArray[Any]]:
        """Arrays that hold where the growth stands."""
        self._read()
        return super().state()
