"""CardForest: main effects and pairs of one bag, whose rows are on a card."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import Float32Array
from tpnn.solvers.grow.card.card import check
from tpnn.solvers.grow.card.card_loop import (
    ANSWER_STRIDE,
    N_ROWS,
    STEP,
    VISIT_WORDS,
    Columns,
    OpenChannel,
    ask,
    grow_rounds_on_card,
)
from tpnn.solvers.grow.card.card_rows import CardScores, CardSide, RowsOnCard
from tpnn.solvers.grow.forest import SLOPE_REFRESH_ROUNDS, RectangleForest
from tpnn.solvers.grow.rounds import NOTHING, Growth, Slopes


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
