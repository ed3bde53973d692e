"""Sigmoid widths: steps become sigmoids, and held-out rows choose how wide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.solvers.problem.test_problem import problem_of
from tpnn.anova.measure import centre
from tpnn.solvers.grow import stages as widths
from tpnn.solvers.grow.stages import choose_widths, smoother


def test_smoother_turns_steps_into_sigmoids() -> None:
    positions = np.array([0.1, 0.3, 0.6, 0.9])
    table = np.array([1.0, -2.0, 0.5, 3.0])
    kernel = smoother(positions, 0.07)
    assert np.allclose(kernel.sum(1), 1)
    middles = (positions[1:] + positions[:-1]) / 2
    sigmoids = 1 / (1 + np.exp(-(positions[:, None] - middles) / 0.07))
    assert np.allclose(kernel @ table, table[0] + sigmoids @ np.diff(table))


def wide_problem(n_rows: int = 3000, noise: float = 1.0) -> tuple[Any, dict[Any, np.ndarray], list]:
    """A smooth main effect with rough steps, and a feature with levels."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"u": rng.random(n_rows), "g": rng.choice(list("ab"), n_rows)})
    problem = problem_of(X, np.sin(6 * X.u.to_numpy()), n_bags=2)
    axes = problem.encoder.axes[1]
    tables = {}
    for (feature,) in problem.ordered:
        axis = axes[feature]
        truth = np.sin(6 * axis.positions) if not axis.is_nominal else np.zeros(axis.n_nodes)
        rough = truth[:, None] + noise * rng.normal(size=(axis.n_nodes, 2))
        tables[(feature,)] = centre(rough, [axis.weights])
    lanes = problem.rows.validation.T
    held_out = []
    for bag, weights in enumerate(lanes):
        rows = np.flatnonzero(weights)
        parts = [problem.codes.values(s, t, rows)[:, bag : bag + 1] for s, t in tables.items()]
        held_out.append(np.sum(parts, axis=0))
    return problem, tables, held_out


def held_out_loss(problem: Any, tables: dict[Any, np.ndarray]) -> float:
    raw = np.sum([problem.codes.values(s, table) for s, table in tables.items()], axis=0)
    return float((0.5 * (problem.rows.y - raw) ** 2 * problem.rows.validation).sum(0).mean())


def test_widths_lower_the_held_out_loss_of_rough_tables() -> None:
    problem, tables, held_out = wide_problem()
    chosen = choose_widths(problem, tables, held_out)
    assert held_out_loss(problem, chosen) < 0.9 * held_out_loss(problem, tables)
    for (feature,), table in chosen.items():
        axis = problem.encoder.axes[1][feature]
        assert np.abs(axis.weights @ table).max() < 1e-12


def test_levels_keep_their_steps() -> None:
    problem, tables, held_out = wide_problem()
    chosen = choose_widths(problem, tables, held_out)
    ((levels,),) = [s for s in tables if problem.encoder.axes[1][s[0]].is_nominal]
    assert chosen[(levels,)] is tables[(levels,)]


def test_no_width_is_worse_than_none() -> None:
    problem, tables, held_out = wide_problem(noise=0.0)
    chosen = choose_widths(problem, tables, held_out)
    assert held_out_loss(problem, chosen) <= held_out_loss(problem, tables) + 1e-9


def test_of_very_many_held_out_rows_the_first_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, tables, held_out = wide_problem()
    most = 100
    monkeypatch.setattr(widths, "MOST_HELD_OUT_ROWS", most * problem.n_bags)
    expected = choose_widths(problem, tables, held_out)
    for scores in held_out:
        scores[most:] = 1e6
    found = choose_widths(problem, tables, held_out)
    assert all(np.array_equal(found[s], expected[s]) for s in tables)
    for scores in held_out:
        scores[:most] -= 5 * np.sign(scores[:most])
    moved = choose_widths(problem, tables, held_out)
    assert not all(np.array_equal(moved[s], expected[s]) for s in tables)
