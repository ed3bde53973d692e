"""Components of three and more features: grown on a residual, or left alone without one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.solvers.problem.test_problem import problem_of
from tpnn import ComponentSet, Grow
from tpnn._utils import shelf as _shelf
from tpnn._utils.shelf import Shelf
from tpnn.solvers.grow.box_trees import BoxBags
from tpnn.solvers.grow.engine import BagGrower, Side
from tpnn.solvers.grow.judge import Judge
from tpnn.solvers.grow.triple_bags import TripleBags
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.solution import Limits, NoProgress, Solution
from tpnn.table.columns import StoredColumns


def solve(problem: Problem, start: Solution | None = None) -> Solution:
    solver = Grow(max_rounds=60)
    return solver.solve(problem, Limits(n_threads=2), NoProgress(), initial=start)


def parity(seed: int = 0, n_rows: int = 500) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.choice([-1.0, 1.0], (n_rows, 3))
    return X, X[:, 0] * X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n_rows)


def loss(problem: Problem, solution: Solution) -> np.ndarray:
    raw = problem.raw_scores(solution)
    return (0.5 * (problem.rows.y - raw) ** 2 * problem.rows.validation).sum(0)


def test_a_triple_takes_its_part_and_stays_pure() -> None:
    problem = problem_of(*parity()).with_components(ComponentSet.up_to(3, 2))
    lower = solve(problem)
    whole = problem.with_components(ComponentSet.up_to(3, 3))
    higher = solve(whole, start=lower)
    assert (loss(whole, higher) < 0.8 * loss(problem, lower)).all()
    assert [event.note for event in higher.events[-2:]] == ["triples"] * 2
    for component, table in zip(higher.components, higher.tables, strict=True):
        for place, feature in enumerate(component):
            weights = whole.encoder.axes[len(component)][feature].weights
            assert np.abs(np.tensordot(weights, table, (0, place))).max() < 1e-10


def test_lower_orders_are_solved_first_where_none_are_given() -> None:
    whole = problem_of(*parity()).with_components(ComponentSet.up_to(3, 3))
    alone = solve(whole)
    given = solve(whole, start=solve(whole.with_components(ComponentSet.up_to(3, 2))))
    assert alone.components == given.components
    assert all(map(np.array_equal, alone.tables, given.tables))


def test_without_signal_the_solution_stays_what_it_was() -> None:
    """A round that does not lower the held-out loss of a bag adds nothing to it."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 3))
    problem = problem_of(X, X[:, 0] + rng.normal(size=200), n_bags=8)
    lower = solve(problem.with_components(ComponentSet.up_to(3, 2)))
    higher = solve(problem.with_components(ComponentSet.up_to(3, 3)), start=lower)
    idle = [e.bag for e in higher.events if e.note == "triples" and e.step == 0]
    triple = higher.tables[-1]
    assert idle
    for bag in range(8):
        assert triple[..., bag].any() == (bag not in idle)
    for mine, yours in zip(higher.tables[:-1], lower.tables, strict=True):
        assert np.allclose(mine[..., idle], yours[..., idle])


def test_subsets_join_a_triple_that_stands_alone() -> None:
    whole = problem_of(*parity()).with_components(ComponentSet(((0,), (1,), (2,), (0, 1, 2))))
    solution = solve(whole)
    assert sorted(map(len, solution.components)) == [1, 1, 1, 2, 2, 2, 3]


def test_names_of_levels_do_not_matter() -> None:
    """Levels are shuffled by the seed, not by their names, which only decide their order."""
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 3, (800, 3))
    y = np.where((codes % 2).sum(1) % 2, 1.0, -1.0) + 0.1 * rng.normal(size=800)

    def fitted(letters: str) -> float:
        X = pd.DataFrame(np.array(list(letters))[codes], columns=["u", "v", "w"])
        problem = problem_of(X, y).with_components(ComponentSet.up_to(3, 3))
        return float(loss(problem, solve(problem)).mean())

    for letters in ("abc", "bac", "cab"):
        assert fitted(letters) < 0.2


class Stored(StoredColumns):
    """Columns in memory that are treated as if they were in files."""

    def __init__(self, X: np.ndarray, folder: Path) -> None:
        self.values = {f"x{place}": column for place, column in enumerate(X.T)}
        super().__init__(tuple(self.values), len(X), Shelf(folder))

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


def is_mapped(array: Any) -> bool:
    """Whether an array is a view of a mapped file."""
    while isinstance(array, np.ndarray) and not isinstance(array, np.memmap):
        array = array.base
    return isinstance(array, np.memmap)


def assert_mapped(side: Side) -> None:
    """All that a side of a bag holds of its rows is in files."""
    coded = [part.codes for part in side.coded]
    assert all(map(is_mapped, [*coded, side.y, side.weights, side.raw]))


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Problem:
    """A problem whose large arrays are all in files."""
    monkeypatch.setattr(_shelf, "SMALLEST_FILE_BYTES", 0)
    X, y = parity(n_rows=80)
    X = np.column_stack([X, y])
    problem = problem_of(Stored(X, tmp_path), y)
    axes = problem.encoder.axes
    encoder = replace(problem.encoder, axes={**axes, 4: axes[3]})
    problem = replace(problem, encoder=encoder, codes=problem.codes.with_encoder(encoder))
    return problem.with_components(ComponentSet.up_to(4, 4))


def a_grower(problem: Problem) -> BagGrower:
    return BagGrower(problem.objective, Limits(n_threads=1), max_rounds=2, patience=2)


def test_triples_hold_their_rows_in_files(stored: Problem) -> None:
    lower = solve(stored.with_components(ComponentSet.up_to(4, 2)))
    raw = stored.raw_scores_by_bag(lower)
    assert is_mapped(raw)
    for bags in (
        TripleBags.of(stored, a_grower(stored)),
        Judge(stored, lower, [(0, 1, 2)], a_grower(stored)).candidates,
    ):
        forest = bags.forest(0, raw[0])
        for side, own in ((forest.training, "training"), (forest.held_out, "held_out")):
            assert_mapped(side)
            rows = getattr(forest.states[0], own)
            assert all(map(is_mapped, (rows.raw, rows.residual, rows.hessian)))
        assert is_mapped(forest.scores(forest.training))


def test_higher_orders_hold_their_rows_in_files(
    stored: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    bags, grown = BoxBags(stored, a_grower(stored)), []

    def watched(self: Any, forest: Any, training: Side, held_out: Side) -> None:
        grown.append((forest, training, held_out))
        raise InterruptedError

    monkeypatch.setattr(BagGrower, "grow", watched)
    with pytest.raises(InterruptedError):
        bags.grow(0, np.zeros((80, 1)))
    forest, *sides = grown[0]
    for side in sides:
        assert_mapped(side)
    assert all(is_mapped(g.residual) and is_mapped(g.hessian) for g in forest.growths)
    assert is_mapped(forest.scores(sides[0]))
