"""Holders of rows: however rows are dealt, whoever is lost, the bits are those of one process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tpnn import ComponentSet, Grow
from tpnn._utils.shelf import MEMORY
from tpnn.loss.objectives import OBJECTIVES, several_classes
from tpnn.solvers.cluster.driver import ClusterBackend, Record
from tpnn.solvers.cluster.messages import Answer, Request, combined
from tpnn.solvers.cluster.storage import Share, Storage, dealt, load, ranges
from tpnn.solvers.cluster.worker import Holder, PackedStep, Session
from tpnn.solvers.grow.backend import growing_at
from tpnn.solvers.problem.problem import Bagging, Problem
from tpnn.solvers.problem.rows import Targets, TrainingRows
from tpnn.solvers.solution import Limits, NoProgress, Solution
from tpnn.table.encoder import TableEncoder
from tpnn.table.table import Table

N_ROWS = 300


def problem_of(task: str) -> Problem:
    """Rows with missing values, some of weight zero on one side, and an offset."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N_ROWS, 3)).round(1)
    X[rng.random(X.shape) < 0.05] = np.nan
    signal = np.sin(2 * np.nan_to_num(X[:, 0])) + np.nan_to_num(X[:, 1] * X[:, 2])
    signal += 0.2 * rng.normal(size=N_ROWS)
    y, objective = signal[:, None], OBJECTIVES["squared_error"]
    if task == "two classes":
        y, objective = (y > 0).astype(float), OBJECTIVES["log_loss"]
    if task == "three classes":
        y = (np.digitize(signal, [-0.5, 0.5])[:, None] == np.arange(3)).astype(float)
        objective = several_classes(3)
    offset = np.zeros(N_ROWS) if task == "three classes" else 0.1 * rng.normal(size=N_ROWS)
    table, weights = Table(X), rng.integers(1, 4, N_ROWS).astype(float)
    shapes = {0: "increasing"} if task == "a shape" else {}
    return Problem.build(
        table, TableEncoder.fit(table, {1: 12, 2: 6}), Targets(y, weights, offset), objective,
        Bagging(2, 0.2, 0), shapes,
    ).with_components(ComponentSet.up_to(3, 2))  # fmt: skip


def solved(problem: Problem) -> Solution:
    return Grow(max_rounds=70, patience=70).solve(problem, Limits(n_threads=2), NoProgress())


def assert_same(one: Solution, other: Solution) -> None:
    assert np.array_equal(one.intercepts, other.intercepts)
    assert all(np.array_equal(a, b) for a, b in zip(one.tables, other.tables, strict=True))
    losses = [[event.validation_loss for event in solution.events] for solution in (one, other)]
    assert losses[0] == losses[1]


class LocalTeam:
    """Holders in this process, the last without rows.

    Each is asked twice, and one is replaced every few messages.
    """

    def __init__(self, problem: Problem, size: int, replaced_every: int = 10**9) -> None:
        self.problem, self.size, self.every = problem, size, replaced_every
        self.owner = np.random.default_rng(size).integers(0, size - 1, len(problem.rows.y))
        self.n_messages = self.n_replaced = 0

    def _holder(self, number: int) -> Holder:
        """Return a holder of rows that are dealt at random."""
        own, rows = np.flatnonzero(self.owner == number), self.problem.rows
        codes = {d: codes[:, own] for d, codes in self.problem.codes.by_order.items()}
        parts = (part[own] for part in (rows.y, rows.offset, rows.training, rows.validation))
        return Holder(codes, TrainingRows(*parts, rows.sizes))

    def hold(self, shares: Sequence[Share]) -> None:
        assert len(shares) == self.size
        self.holders = [self._holder(number) for number in range(self.size)]

    def begin(self, session: Session) -> None:
        self.record = Record(session)
        for holder in self.holders:
            holder.begin(session)

    def ask(self, requests: Mapping[int, Request]) -> Answer:
        message = self.record.message(requests)
        self.n_messages += 1
        if self.n_messages % self.every == 0:
            lost = self.n_replaced % self.size
            self.holders[lost] = self._holder(lost)
            self.holders[lost].begin(self.record.session())
            self.n_replaced += 1
        answers = [holder.answer(message) for holder in self.holders]
        again = [holder.answer(message) for holder in self.holders]
        self.record.add(requests, [PackedStep.of(step) for step in message.steps])
        assert all(a is b for a, b in zip(answers, again, strict=True))
        return combined(again)


@pytest.mark.parametrize("task", ["numbers", "two classes", "three classes", "a shape"])
def test_rows_dealt_at_random_give_the_same_bits(task: str, tmp_path: Path) -> None:
    problem = problem_of(task)
    expected = solved(problem)
    team = LocalTeam(problem, size=3)
    with growing_at(ClusterBackend(Storage(tmp_path), team)):
        found = solved(problem)
    assert team.n_messages > 100
    assert_same(found, expected)
    again = solved(problem)  # the place is forgotten with its context
    assert_same(again, expected)


@pytest.mark.parametrize("task", ["numbers", "two classes"])
def test_a_holder_that_is_replaced_goes_on_where_the_others_are(task: str, tmp_path: Path) -> None:
    problem = problem_of(task)
    team = LocalTeam(problem, size=3, replaced_every=29)
    with growing_at(ClusterBackend(Storage(tmp_path), team)):
        found = solved(problem)
    assert team.n_replaced > 5
    assert_same(found, solved(problem))


class BlockTeam(LocalTeam):
    """Holders that load their blocks from the storage."""

    def __init__(self, problem: Problem, size: int, storage: Storage) -> None:
        super().__init__(problem, size + 1)
        self.size, self.storage = size, storage

    def hold(self, shares: Sequence[Share]) -> None:
        self.shares = shares
        self.holders = [Holder(*load(self.storage, share, MEMORY)) for share in shares]


@pytest.mark.parametrize("size", [1, 4])
def test_blocks_hold_all_rows(size: int, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("tpnn.solvers.cluster.storage.ROWS_PER_BLOCK", 70)
    problem, storage = problem_of("numbers"), Storage(tmp_path)
    team = BlockTeam(problem, size, storage)
    with growing_at(ClusterBackend(storage, team)):
        found = solved(problem)
    assert sum(len(share.blocks) for share in team.shares) == 5
    assert [len(holder.rows.y) for holder in team.holders] == [s.n_rows for s in team.shares]
    assert_same(found, solved(problem))


@pytest.mark.parametrize(("n_rows", "n_holders"), [(3, 5), (7, 7), (100, 3), (21, 1)])
def test_every_holder_has_a_block(n_rows: int, n_holders: int, monkeypatch: Any) -> None:
    """Blocks are not too long, have all rows, and neighbours follow each other."""
    monkeypatch.setattr("tpnn.solvers.cluster.storage.ROWS_PER_BLOCK", 10)
    blocks = ranges(n_rows, n_holders)
    parts = dealt(blocks, n_holders)
    assert len(parts) == n_holders
    assert all(parts)
    assert [block for part in parts for block in part] == blocks
    rows = [row for block in blocks for row in range(*block)]
    assert rows == list(range(n_rows))
    assert max(last - first for first, last in blocks) <= 10


def test_blocks_of_other_rows_are_refused(tmp_path: Path) -> None:
    problem, storage = problem_of("numbers"), Storage(tmp_path)
    team = BlockTeam(problem, 2, storage)
    shares = ClusterBackend(storage, team)._shares(problem)
    file = shares[1].blocks[0].file_in(shares[1].folders.rows)
    arrays = storage.read(file)
    storage.write(file, arrays | {"keys": arrays["keys"][::-1] + np.uint64(1)})
    with pytest.raises(ValueError, match=r"^storage: must not change .* found other rows in"):
        team.hold(shares)
    (tmp_path / file).write_bytes(b"nothing")
    with pytest.raises(OSError, match=r"^storage: every machine must be able to read .* damaged"):
        team.hold(shares)
