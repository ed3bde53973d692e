"""Rounds: growth asks, holders of rows answer; how the rows are dealt changes no bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tpnn.solvers.grow.forest import LARGE_PAIR_TREE, MAIN_TREE
from tpnn.solvers.grow.rectangles import MISSING, NOMINAL, ORDERED, UNVISITED_GAIN
from tpnn.solvers.grow.rounds import (
    INTERCEPT,
    MASS_REFRESH_ROUNDS,
    NOTHING,
    Growth,
    Plan,
    Rows,
    Slopes,
    answer,
    apply_step,
    begin_round,
    decide,
    grid_shape,
    grow_rounds,
)
from tpnn.solvers.problem.sums import sum_scale

FINE, COARSE, N_ROWS = 300, 9, 2000
PAIRS = np.array([[0, 1], [1, 2], [2, 0]])
KINDS = np.array([ORDERED, MISSING, NOMINAL])
PLAN = Plan(
    pairs=PAIRS,
    sizes=(np.array([FINE, 20, 7]), np.array([COARSE, 8, 7])),
    kinds=(KINDS, KINDS),
    signs=np.array([1.0, 0.0, 0.0]),
    main_tree=MAIN_TREE,
    pair_tree=LARGE_PAIR_TREE,
)
Holder = tuple[Rows, Slopes]


def new_growth() -> Growth:
    return Growth(
        mains=np.zeros((3, FINE, 1), np.float32),
        pairs=np.zeros((3, COARSE, COARSE), np.float32),
        main_mass=np.zeros((3, FINE + 1, 2)),
        pair_mass=np.zeros((3, COARSE + 1, COARSE + 1)),
        gains=np.full(6, UNVISITED_GAIN),
        ages=np.full(6, MASS_REFRESH_ROUNDS),
        intercept=np.zeros(1),
        state=np.array([5], np.uint64),
        asked=np.array([NOTHING, 0]),
        largest=np.zeros(1),
        sums=np.zeros((2, FINE), np.int64),
        step=np.zeros(FINE, np.float32),
    )


def dealt(parts: Sequence[Any]) -> list[Holder]:
    """Return rows and slopes of each holder, who gets the rows of one part."""
    rng = np.random.default_rng(0)
    fine = np.array([rng.integers(0, size, N_ROWS) for size in PLAN.sizes[0]], np.uint16)
    coarse = np.array([rng.integers(0, size, N_ROWS) for size in PLAN.sizes[1]], np.uint8)
    residual = np.sin(fine[0] / 40) + (coarse[0] > 4) * (coarse[1] > 3) + rng.normal(size=N_ROWS)
    slopes = np.stack([residual, rng.uniform(0.5, 2.0, N_ROWS)]).astype(np.float32)
    scales = np.array([sum_scale(float(np.abs(s).max()), N_ROWS) for s in slopes], np.float32)
    holders = []
    for part in parts:
        mine = [np.ascontiguousarray(codes[:, part]) for codes in (fine, coarse)]
        nil = np.zeros(mine[0].shape[1], np.uint8)
        own = (slopes[0, part].copy(), slopes[1, part].copy())
        holders.append((Rows(*mine, nil, PAIRS), Slopes(*own, scales)))
    return holders


def grown_by(holders: Sequence[Holder], n_rounds: int, with_pairs: bool) -> Growth:
    """Grow without seeing a row: ask every holder, add the answers, decide, pass on the step."""
    growth = new_growth()
    for _ in range(n_rounds):
        begin_round(growth, PLAN, with_pairs)
        while growth.asked[0] != NOTHING:
            last = int(growth.asked[0])
            answers = []
            for rows, slopes in holders:
                answers.append(np.zeros_like(growth.sums))
                answer(rows, slopes, PLAN, growth.asked, answers[-1])
            growth.sums[:] = np.sum(answers, axis=0)
            decide(growth, PLAN, holders[0][1].scales, with_pairs)
            for rows, slopes in holders:
                apply_step(rows, slopes, PLAN, last, growth.step)
    return growth


@pytest.mark.parametrize("with_pairs", [False, True])
@pytest.mark.parametrize("n_holders", [1, 2, 7])
def test_rows_may_be_dealt_to_any_number_of_holders(n_holders: int, with_pairs: bool) -> None:
    ((rows, slopes),) = dealt([slice(None)])
    whole = new_growth()
    grow_rounds(rows, slopes, whole, PLAN, 12, with_pairs)
    owner = np.random.default_rng(n_holders).integers(0, n_holders, N_ROWS)
    parts = [np.flatnonzero(owner == number) for number in range(n_holders)]
    holders = dealt(parts)
    found = grown_by(holders, 12, with_pairs)
    assert np.abs(whole.mains).max() > 0
    assert bool(whole.pairs.any()) == with_pairs
    for name in ("mains", "pairs", "main_mass", "pair_mass", "gains", "intercept", "state"):
        assert np.array_equal(getattr(found, name), getattr(whole, name)), name
    for part, (_, own) in zip(parts, holders, strict=True):
        assert np.array_equal(own.residual, slopes.residual[part])


def test_residuals_follow_the_grids() -> None:
    """After any rounds, residual = start - hessian * (intercept + values of the cells)."""
    ((rows, slopes),) = dealt([slice(None)])
    before = slopes.residual.astype(float)
    growth = new_growth()
    grow_rounds(rows, slopes, growth, PLAN, 10, True)
    raw = growth.intercept[0] + sum(growth.mains[j, rows.fine[j], 0] for j in range(3))
    for (a, b), table in zip(PAIRS, growth.pairs, strict=True):
        raw = raw + table[rows.coarse[a], rows.coarse[b]]
    assert slopes.residual == pytest.approx(before - slopes.hessian * raw, abs=1e-4)


def test_a_round_begins_with_the_intercept() -> None:
    ((rows, slopes),) = dealt([slice(None)])
    growth = new_growth()
    begin_round(growth, PLAN, False)
    assert growth.asked.tolist() == [INTERCEPT, 1]
    answer(rows, slopes, PLAN, growth.asked, growth.sums)
    decide(growth, PLAN, slopes.scales, False)
    mean = slopes.residual.sum(dtype=float) / slopes.hessian.sum(dtype=float)
    assert growth.intercept[0] == growth.step[0] == pytest.approx(mean, rel=1e-5)
    assert growth.asked[0] == len(PAIRS)  # the first main effect, as pairs rest


def test_shapes_of_the_grids() -> None:
    shapes = [grid_shape(PLAN, component) for component in range(-1, 6)]
    assert shapes == [(1, 1), (9, 8), (8, 7), (7, 9), (FINE, 1), (20, 1), (7, 1)]
