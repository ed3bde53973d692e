"""HeldElsewhere: the place where bags grow on rows that others hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from tpnn.distributed.asking import growing, in_lockstep
from tpnn.distributed.blocks import Block, Share, dealt, write_bags, write_rows
from tpnn.distributed.holder import Beginning, Session
from tpnn.distributed.messages import Answer, Request
from tpnn.distributed.storage import Storage
from tpnn.grow.bag import Grown, Tables
from tpnn.grow.forest import Extent, RectangleForest
from tpnn.grow.place import Bags, GrowthTask
from tpnn.problem.coded import Codes
from tpnn.problem.problem import Problem
from tpnn.problem.rows import TrainingRows
from tpnn.problem.whole import totals


class Team(Protocol):
    """Holders of rows, whose answers are combined.

    Parameters
    ----------
    size : int
        Number of holders.
    """

    size: int

    def hold(self, shares: Sequence[Share]) -> None:
        """Let every holder load its blocks."""

    def begin(self, session: Session) -> None:
        """Begin growths that ask together."""

    def ask(self, requests: Mapping[int, Request]) -> Answer:
        """Pass on the steps of all growths, and answer their questions in order."""


class HeldElsewhere:
    """Writes coded rows to a storage, and lets bags grow where a team holds them.

    Parameters
    ----------
    storage : Storage
        Where the blocks are.
    team : Team
        Who holds the rows.
    """

    def __init__(self, storage: Storage, team: Team) -> None:
        self.storage, self.team = storage, team
        self._codes: list[tuple[Codes, list[Block]]] = []  # written so far, as the rows
        self._bags: list[tuple[Codes, TrainingRows, list[Share]]] = []
        self._held: list[Share] | None = None

    def grow(self, bags: Bags, tasks: Sequence[GrowthTask]) -> Iterator[tuple[int, Grown]]:
        """Yield the number of each task and what has grown, in the order in which they end."""
        shares = self._shares(bags.problem)
        if shares is not self._held:
            self.team.hold(shares)
            self._held = shares
        nobody = bags.sides.of(np.zeros(len(bags.problem.rows.y), np.float32))
        extents = _extents(bags, tasks)

        def forest(task: GrowthTask, tables: Tables) -> RectangleForest:
            return RectangleForest(
                layout=bags.layout, objective=bags.problem.objective, training=nobody,
                start=tables, seed=task.seed, pair_tree=task.pair_tree, extent=extents[task.bag],
            )  # fmt: skip

        self.team.begin(_session(bags, tasks, extents))
        growths = {
            number: growing(
                number, bags.grower, forest(task, task.start), _held_out_mass(bags, task.bag)
            )
            for number, task in enumerate(tasks)
        }
        for number, grown in in_lockstep(growths, self.team.ask):
            task = tasks[number]
            scores = forest(task, grown.tables).scores(bags.sides.held_out(task.bag))
            yield number, replace(grown, held_out=scores)

    def _shares(self, problem: Problem) -> list[Share]:
        """Shares of the holders; rows and bags that are new are written first."""
        for codes, rows, shares in self._bags:
            if codes is problem.codes and rows is problem.rows:
                return shares
        if not self._bags:
            self.storage.sign()
        number, blocks = self._blocks(problem)
        folder = f"bags-{len(self._bags)}"
        write_bags(self.storage, folder, problem, blocks)
        shares = [
            Share(f"rows-{number}", folder, part, problem.rows.sizes)
            for part in dealt(blocks, self.team.size)
        ]
        self._bags.append((problem.codes, problem.rows, shares))
        return shares

    def _blocks(self, problem: Problem) -> tuple[int, list[Block]]:
        """Return the number of a problem's rows among those written, and their blocks."""
        for number, (codes, blocks) in enumerate(self._codes):
            if codes is problem.codes:
                return number, blocks
        number = len(self._codes)
        blocks = write_rows(self.storage, f"rows-{number}", problem, self.team.size)
        self._codes.append((problem.codes, blocks))
        return number, blocks


def _extents(bags: Bags, tasks: Sequence[GrowthTask]) -> dict[int, Extent]:
    """All training rows of each bag."""
    rows = bags.problem.rows
    by_bag = {}
    for bag in {task.bag for task in tasks}:
        weights = rows.training[:, bag] * rows.sizes[bag]
        by_bag[bag] = Extent.of(weights[np.flatnonzero(weights), None])
    return by_bag


def _held_out_mass(bags: Bags, bag: int) -> float:
    weights = bags.problem.rows.validation[:, bag]
    return float(totals(weights[np.flatnonzero(weights), None])[0])


def _session(bags: Bags, tasks: Sequence[GrowthTask], extents: Mapping[int, Extent]) -> Session:
    coded = bags.problem.coded
    beginnings = (
        Beginning(task.bag, task.start, extents[task.bag], task.pair_tree) for task in tasks
    )
    return Session(
        objective=bags.problem.objective,
        layout=bags.layout,
        features=[part.features for part in coded],
        n_nodes=[part.n_nodes for part in coded],
        growths=dict(enumerate(beginnings)),
    )
