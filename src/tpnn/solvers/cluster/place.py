"""HeldElsewhere: the place where bags grow on rows that others hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from tpnn.solvers.cluster.asking import Growing, growing, in_lockstep
from tpnn.solvers.cluster.blocks import Folders, Share, dealt, write_blocks
from tpnn.solvers.cluster.holder import Beginning, Session
from tpnn.solvers.cluster.messages import Answer, Request
from tpnn.solvers.cluster.record import Record
from tpnn.solvers.cluster.resuming import HeldEntry
from tpnn.solvers.cluster.storage import Storage
from tpnn.solvers.grow.bag import Grown, Tables
from tpnn.solvers.grow.forest import Extent, RectangleForest
from tpnn.solvers.grow.place import Bags, GrowthTask
from tpnn.solvers.problem.coded import Codes
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.problem.rows import TrainingRows
from tpnn.solvers.problem.whole import totals

HELD_ORDERS = (1, 2)  # whose components grow where the rows are


class Team(Protocol):
    """Holders of rows, whose answers are combined.

    Parameters
    ----------
    size : int
        Number of holders.
    record : Record, optional
        What was asked since growths began.
    """

    size: int
    record: Record | None

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
        self._known: list[tuple[Codes, TrainingRows, list[Share]]] = []
        self._held: list[Share] | None = None

    def grow(self, bags: Bags, tasks: Sequence[GrowthTask]) -> Iterator[tuple[int, Grown]]:
        """Yield the number of each task and what has grown, in the order in which they end.

        Growths go on from their states in the storage; those that were over ask nobody.
        """
        nobody = bags.sides.of(np.zeros(len(bags.problem.rows.y), np.float32))
        extents = _extents(bags, tasks)

        def forest(task: GrowthTask, tables: Tables) -> RectangleForest:
            return RectangleForest(
                layout=bags.layout, objective=bags.problem.objective, training=nobody,
                start=tables, seed=task.seed, pair_tree=task.pair_tree, extent=extents[task.bag],
            )  # fmt: skip

        growths, beginnings = dict[int, Growing](), dict[int, Beginning]()
        for number, task in enumerate(tasks):
            grows = forest(task, task.start)
            entry = self._entry(bags, grows, number, task.bag)
            mass = _held_out_mass(bags, task.bag)
            growths[number] = growing(number, bags.grower, grows, mass, entry)
            new = Beginning(task.bag, task.start, extents[task.bag], task.pair_tree)
            beginnings[number] = new if entry is None else entry.beginning(number, new)
        for number, grown in in_lockstep(growths, self._asking(bags, beginnings)):
            task = tasks[number]
            scores = forest(task, grown.tables).scores(bags.sides.held_out(task.bag))
            yield number, replace(grown, held_out=scores)

    def _entry(
        self, bags: Bags, forest: RectangleForest, number: int, bag: int
    ) -> HeldEntry | None:
        """Place of a growth among the states of its fit; None if it leaves none behind."""
        if bags.grower.states is None:
            return None

        def recorded() -> Beginning:
            assert self.team.record is not None
            return self.team.record.growth(number)

        folders = self._shares(bags.problem)[0].folders
        return HeldEntry(bags.grower, forest, (folders.rows, folders.bags, bag), recorded)

    def _asking(
        self, bags: Bags, beginnings: Mapping[int, Beginning]
    ) -> Callable[[Mapping[int, Request]], Answer]:
        """Return what asks the team, which gets rows and growths when it is first asked."""
        has_begun = False

        def ask(requests: Mapping[int, Request]) -> Answer:
            nonlocal has_begun
            if not has_begun:
                shares = self._shares(bags.problem)
                if shares is not self._held:
                    self.team.hold(shares)
                    self._held = shares
                self.team.begin(_session(bags, {number: beginnings[number] for number in requests}))
                has_begun = True
            return self.team.ask(requests)

        return ask

    def _shares(self, problem: Problem) -> list[Share]:
        """Shares of the holders; rows and bags that are new are written first."""
        for codes, rows, shares in self._known:
            if codes is problem.codes and rows is problem.rows:
                return shares
        folders = Folders.of(problem)
        blocks = write_blocks(self.storage, problem, folders, self.team.size)
        orders = [order for order in HELD_ORDERS if order in problem.encoder.axes]
        shares = [
            Share(folders, part, orders, problem.rows.sizes)
            for part in dealt(blocks, self.team.size)
        ]
        self._known.append((problem.codes, problem.rows, shares))
        return shares


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


def _session(bags: Bags, beginnings: Mapping[int, Beginning]) -> Session:
    coded = bags.problem.coded
    return Session(
        objective=bags.problem.objective,
        layout=bags.layout,
        features=[part.features for part in coded],
        n_nodes=[part.n_nodes for part in coded],
        growths=beginnings,
    )
