"""The kernels beside sums and steps in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tpnn.solvers.grow.card.card import check
from tpnn.solvers.grow.card.card_loop import (
    ANSWER_STRIDE,
    N_ROWS,
    STEP,
    VISIT_WORDS,
    Columns,
    OpenChannel,
    ask,
)
from tpnn.solvers.grow.card.card_rows import RowsOnCard
from tpnn.solvers.grow.rounds import INTERCEPT, NOTHING, Plan

N_ROWS_OF_TABLE = 333  # no multiple of what a thread loads
SCALES = np.array([2.0**30, 2.0**20], np.float32)  # sums of more than 32 bits


class Visits:
    """Visits of two features with many nodes and of their pair."""

    def __init__(self, card: Any, n_fine: int) -> None:
        rng = np.random.default_rng(n_fine)
        fine = rng.integers(n_fine, size=(2, N_ROWS_OF_TABLE)).astype(np.uint16)
        coarse = rng.integers(7, size=(2, N_ROWS_OF_TABLE)).astype(np.uint8)
        self.cells = {INTERCEPT: 0 * fine[0], 0: coarse[0] * 7 + coarse[1], 1: fine[0], 2: fine[1]}
        self.rows = rows = RowsOnCard(card, [fine, coarse])
        self.columns = Columns(*rows.columns, *rows.bytes)
        sizes = np.array([n_fine, n_fine]), np.array([7, 7])
        self.plan = Plan(np.array([[0, 1]]), sizes, None, None, None, None)
        self.residual = rng.normal(size=N_ROWS_OF_TABLE).astype(np.float32)
        self.hessian = rng.random(N_ROWS_OF_TABLE).astype(np.float32)
        self.n_cells = max(n_fine, 49)
        self.sums = card.shared(np.zeros((2, self.n_cells), np.int64))
        self.step = card.shared(np.zeros(self.n_cells, np.float32))
        self.opened = OpenChannel(card, "visit", VISIT_WORDS, self.step)
        self.on_card = [card.filled(rows.spread(part)) for part in (self.residual, self.hessian)]
        totals, n_done = card.filled(np.zeros_like(self.sums)), card.filled(np.zeros(1, np.uint32))
        self.opened.name(STEP, self.opened.step, *self.on_card, totals, self.sums, n_done)
        self.opened.channel.words[[N_ROWS, ANSWER_STRIDE]] = rows.length, self.n_cells

    def expect(self, component: int, with_masses: bool) -> np.ndarray:
        """Sums over the cells of a component."""
        sums = np.zeros((1 + with_masses, self.n_cells), np.int64)
        for kind, values in enumerate((self.residual, self.hessian)[: len(sums)]):
            whole = np.rint(values * SCALES[kind]).astype(np.int64)
            np.add.at(sums[kind], self.cells[component], whole)
        return sums

    def ask(self, component: int, with_masses: bool) -> np.ndarray:
        """Take the last step, and sum over the cells of a component."""
        asked, plan = np.array([component, with_masses]), self.plan
        plan = plan._replace(kinds=0, signs=0, main_tree=0, pair_tree=0)
        check(ask(self.opened.channel, self.columns, plan, asked, SCALES))
        return self.sums[: 1 + with_masses]


@pytest.mark.parametrize("n_fine", [2, 300, 20_000])  # sums that many threads share, or that are
def test_sums_and_steps(card: Any, n_fine: int) -> None:  # too many for fast memory
    visits, rng = Visits(card, n_fine), np.random.default_rng(0)
    for component in (INTERCEPT, 2, 0, 1, 0, INTERCEPT):
        with_masses = component == INTERCEPT or bool(rng.integers(2))
        found = visits.ask(component, with_masses)
        expected = visits.expect(component, with_masses)
        n_cells = int(visits.cells[component].max()) + 1
        assert np.array_equal(found[:, :n_cells], expected[:, :n_cells])
        visits.step[:] = rng.normal(size=visits.n_cells)
        visits.residual -= visits.hessian * visits.step[visits.cells[component]]
    visits.ask(NOTHING, with_masses=False)
    assert np.array_equal(visits.on_card[0].read()[:N_ROWS_OF_TABLE], visits.residual)


def test_errors_of_the_driver_are_named(card: Any) -> None:
    visits = Visits(card, 2)
    broken = visits.opened.channel._replace(kernel=99 if card.n_threads == 1 else 0)
    visits.opened.channel = broken
    message = r"^device: the card failed with error \d+ .* device='cpu'"
    with pytest.raises(RuntimeError, match=message):
        visits.ask(INTERCEPT, with_masses=True)
