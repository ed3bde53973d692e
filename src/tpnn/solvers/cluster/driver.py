"""ClusterBackend: main effects and pairs grow where workers hold the rows.

The growth of one bag is a generator that yields requests and receives answers. All bags ask at the
same time: one message carries the steps and questions of all of them, because even a short message
costs some milliseconds.

The state of a bag has what it has on one machine, and two things from which holders restore their
slopes: the grids of values at which these were last computed, and the steps since then.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tpnn.solvers.cluster.messages import (
    LARGEST_LOSS,
    LOSS,
    SUMS,
    Answer,
    Message,
    Question,
    Request,
    Step,
    divided,
)
from tpnn.solvers.cluster.messages import SLOPES as SLOPES_OF_ROWS
from tpnn.solvers.cluster.storage import Folders, Share, Storage, dealt, write_blocks
from tpnn.solvers.cluster.worker import Beginning, PackedStep, Session
from tpnn.solvers.grow.backend import Bags, GrowthTask
from tpnn.solvers.grow.engine import SLOPES, VISIT, BagGrower, Entry, Forest, Grown, Tables
from tpnn.solvers.grow.forest import SLOPE_REFRESH_ROUNDS, Extent, RectangleForest
from tpnn.solvers.grow.rounds import NOTHING, begin_round, decide, grid_shape
from tpnn.solvers.problem.coded import Codes
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.problem.rows import TrainingRows
from tpnn.solvers.problem.sums import sum_scale, totals
from tpnn.solvers.states import State, digest_of


class HeldEntry(Entry):
    """Finds the state of a growth without its rows, by the names of their folders."""

    def __init__(
        self,
        grower: BagGrower,
        forest: Forest,
        rows: tuple[str, str, int],  # folders of rows and bags, and the number of the bag
        recorded: Callable[[], Beginning],  # where a new holder begins now
    ) -> None:
        assert grower.states is not None
        settings = (grower.objective.name, grower.patience, type(forest).__name__)
        super().__init__(grower.states, settings, forest, ())
        self.rows, self.recorded = rows, recorded
        state = self.find()
        self._kept_rounds = None if state is None else int(state["rounds"])

    @cached_property
    def key(self) -> str:
        """Digest of all that the growth depends on."""
        return digest_of((self.known, self.rows))

    @cached_property
    def _state(self) -> State | None:
        return super().find()

    def find(self) -> State | None:
        """State of the growth if it has begun before, or None."""
        return self._state

    def keep(self, state: State, can_go_on: bool) -> None:
        """Keep the state of the growth, unless it is kept already."""
        rounds = int(state["rounds"])
        if rounds != self._kept_rounds:
            super().keep({**state, **_packed(self.recorded())}, can_go_on=False)
            self._kept_rounds = rounds

    def beginning(self, number: int, new: Beginning) -> Beginning:
        """Where holders begin with a growth; ``new`` if it has not begun before."""
        state = self.find()
        if state is None:
            return new
        by_order = [state[f"slopes grids {number}"] for number in range(len(new.tables.by_order))]
        tables = Tables(by_order, state["slopes intercepts"])
        return replace(new, tables=tables, steps=_unpacked(state, number))


def _packed(beginning: Beginning) -> State:
    """Grids of values and steps as arrays by name."""
    steps: Sequence[PackedStep] = beginning.steps or ()
    by_order = enumerate(beginning.tables.by_order)
    return {
        **{f"slopes grids {number}": grids for number, grids in by_order},
        "slopes intercepts": beginning.tables.intercepts,
        "steps": np.array([(s.output, s.component, len(s.packed)) for s in steps], int),
        "packed steps": np.frombuffer(b"".join(step.packed for step in steps), np.uint8),
    }


def _unpacked(state: State, number: int) -> list[PackedStep]:
    """Return the steps of a growth with this number: the inverse of ``_packed``."""
    packed, start, steps = state["packed steps"].tobytes(), 0, []
    for output, component, size in state["steps"].reshape(-1, 3).tolist():
        steps.append(PackedStep(number, output, component, packed[start : start + size]))
        start += size
    return steps


Growing = Generator[Request, list[Answer], Grown]  # growth of one bag
Asking = Generator[Request, list[Answer], list[Step]]  # a stage of it; returns its last steps
NO_SCORES = np.zeros((0, 1), np.float32)
HELD_ORDERS = (1, 2)  # orders that grow where the rows are


def growing(
    number: int,  # among the growths that ask together
    grower: BagGrower,
    forest: RectangleForest,
    mass: float,  # sum of the weights of all held-out rows
    entry: Entry | None = None,  # of its state, with whose slopes holders begin
) -> Growing:
    """Grow a forest without rows until the held-out loss stops falling."""
    stages, checked, steps = grower.stages(forest, entry), None, list[Step]()
    have_slopes = entry is not None and entry.find() is not None
    while True:
        try:
            stage, rounds = stages.send(checked)
        except StopIteration as end:
            best: Grown = end.value
            return best
        if stage == VISIT:
            steps = yield from _visit(number, forest, rounds, steps)
        elif stage == SLOPES and have_slopes:
            have_slopes = False  # only the first ones are in the state
        elif stage == SLOPES:
            steps = yield from _new_slopes(number, forest, steps)
        else:
            loss, steps = yield from _loss(number, steps)
            checked = NO_SCORES, loss / mass


def _new_slopes(number: int, forest: RectangleForest, steps: list[Step]) -> Asking:
    """Compute the slopes; the largest of all rows determine the scales of sums."""
    n_outputs = len(forest.grown)
    question = Question(SLOPES_OF_ROWS, number, n_sums=1, n_largest=2 * n_outputs)
    ((n_rows, largest),) = yield Request(steps, [question], forest.tables())
    for slopes, values in zip(forest.growths, largest.reshape(-1, 2), strict=True):
        slopes.scales[:] = [sum_scale(float(value), int(n_rows[0])) for value in values]
    forest.age_masses()
    return []


def _loss(
    number: int, steps: list[Step]
) -> Generator[Request, list[Answer], tuple[float, list[Step]]]:
    """Sum of the weighted losses of the held-out rows."""
    question = Question(LARGEST_LOSS, number, n_sums=1, n_largest=1)
    ((n_rows, largest),) = yield Request(steps, [question])
    scale = sum_scale(float(largest[0]), int(n_rows[0]))
    question = Question(LOSS, number, n_sums=1, scales=np.array([scale]))
    ((sums, _),) = yield Request([], [question])
    return float(sums[0] / np.float64(scale)), []


def _visit(number: int, forest: RectangleForest, rounds: int, steps: list[Step]) -> Asking:
    """Visit components for a few rounds; the outputs are independent, so they ask together."""
    also_pairs = forest.visits_pairs(rounds)
    lanes = [Lane(number, forest, output, also_pairs) for output in range(len(forest.grown))]
    while lanes:
        answers = yield Request(steps, [lane.question() for lane in lanes])
        steps = [lane.step(answer.sums) for lane, answer in zip(lanes, answers, strict=True)]
        lanes = [lane for lane in lanes if not lane.is_done]
    return steps


class Lane:
    """Rounds of one output of one growth, as in ``grow_rounds`` but by questions."""

    def __init__(self, number: int, forest: RectangleForest, output: int, with_pairs: bool) -> None:
        self.number, self.output, self.with_pairs = number, output, with_pairs
        self.plan, self.growth = forest.plan, forest.grown[output]
        self.scales = forest.growths[output].scales
        self._rounds_left = SLOPE_REFRESH_ROUNDS
        self._begin_round()

    def _begin_round(self) -> None:
        self._rounds_left -= 1
        begin_round(self.growth, self.plan, self.with_pairs)

    @property
    def is_done(self) -> bool:
        """Whether there is nothing more to ask."""
        return bool(self.growth.asked[0] == NOTHING)

    def question(self) -> Question:
        """Ask for sums over the cells of the next component."""
        component, with_masses = map(int, self.growth.asked)
        n_cells = self._n_cells(component)
        return Question(
            kind=SUMS, growth=self.number, n_sums=n_cells * (1 + with_masses), output=self.output,
            component=component, with_masses=bool(with_masses), scales=self.scales,
        )  # fmt: skip

    def step(self, sums: NDArray[np.int64]) -> Step:
        """Turn the answer into a step, and choose what to ask next."""
        component = int(self.growth.asked[0])
        n_cells = self._n_cells(component)
        by_kind = sums.reshape(-1, n_cells)
        self.growth.sums[: len(by_kind), :n_cells] = by_kind
        decide(self.growth, self.plan, self.scales, self.with_pairs)
        if self.is_done and self._rounds_left:
            self._begin_round()
        return Step(self.number, self.output, component, self.growth.step[:n_cells].copy())

    def _n_cells(self, component: int) -> int:
        n_rows, n_columns = grid_shape(self.plan, component)
        return int(n_rows * n_columns)


def in_lockstep(
    growths: Mapping[int, Growing], ask: Callable[[Mapping[int, Request]], Answer]
) -> Iterator[tuple[int, Grown]]:
    """Run several growths together, and yield each with its number when it ends.

    ``ask`` answers the questions of all requests, in their order.
    """
    answers: dict[int, Any] = dict.fromkeys(growths)  # a growth that has not begun is sent None
    while answers:
        requests = {}
        for number, received in answers.items():
            try:
                requests[number] = growths[number].send(received)
            except StopIteration as end:
                yield number, end.value
        questions = [question for request in requests.values() for question in request.questions]
        each = iter(divided(ask(requests), questions) if requests else ())
        answers = {
            number: [next(each) for _ in request.questions] for number, request in requests.items()
        }


class Record:
    """Grids of values at which slopes were last computed, and all steps since then."""

    def __init__(self, session: Session) -> None:
        self._session, self._growths, self._number = session, dict(session.growths), -1

    def message(self, requests: Mapping[int, Request]) -> Message:
        """Next message, with the requests of all growths that still grow."""
        self._number += 1
        steps = [step for request in requests.values() for step in request.steps]
        questions = [asked for request in requests.values() for asked in request.questions]
        return Message(self._number, steps, questions)

    def add(self, requests: Mapping[int, Request], packed: Sequence[PackedStep]) -> None:
        """Add answered requests, with their steps packed; growths without one have ended."""
        self._growths = {
            number: self._growths[number]
            if request.tables is None
            else replace(self._growths[number], tables=request.tables, steps=[])
            for number, request in requests.items()
        }
        for step in packed:
            steps = self._growths[step.growth].steps
            if steps is not None and requests[step.growth].tables is None:
                steps.append(step)

    def growth(self, number: int) -> Beginning:
        """Where a new holder begins with a growth."""
        return self._growths[number]

    def session(self) -> Session:
        """Session that brings a new holder to the state of the others."""
        return replace(self._session, growths=self._growths)


class Team(Protocol):
    """Holders of rows, whose answers are combined."""

    size: int  # number of holders
    record: Record | None  # what was asked since growths began

    def hold(self, shares: Sequence[Share]) -> None:
        """Let every holder load its blocks."""

    def begin(self, session: Session) -> None:
        """Begin growths that ask together."""

    def ask(self, requests: Mapping[int, Request]) -> Answer:
        """Pass on the steps of all growths, and answer their questions in order."""


class ClusterBackend:
    """Writes coded rows to a storage, and grows bags on the team that holds the rows."""

    def __init__(self, storage: Storage, team: Team) -> None:
        self.storage, self.team = storage, team
        self._written: list[tuple[Codes, TrainingRows, list[Share]]] = []
        self._held: list[Share] | None = None

    def grow(self, bags: Bags, tasks: Sequence[GrowthTask]) -> Iterator[tuple[int, Grown]]:
        """Yield the number of each task and what has grown, in the order in which they end.

        Growths continue from their states in the storage; finished growths need no worker.
        """
        no_rows = bags.sides.of(np.zeros(len(bags.problem.rows.y), np.float32))
        extents = _extents(bags, tasks)

        def forest(task: GrowthTask, tables: Tables) -> RectangleForest:
            return RectangleForest(
                layout=bags.layout, objective=bags.problem.objective, training=no_rows,
                start=tables, seed=task.seed, pair_tree=task.pair_tree, extent=extents[task.bag],
            )  # fmt: skip

        growths, beginnings = dict[int, Growing](), dict[int, Beginning]()
        for number, task in enumerate(tasks):
            growing_forest = forest(task, task.start)
            entry = self._entry(bags, growing_forest, number, task.bag)
            mass = _held_out_mass(bags, task.bag)
            growths[number] = growing(number, bags.grower, growing_forest, mass, entry)
            new = Beginning(task.bag, task.start, extents[task.bag], task.pair_tree)
            beginnings[number] = new if entry is None else entry.beginning(number, new)
        for number, grown in in_lockstep(growths, self._asking(bags, beginnings)):
            task = tasks[number]
            scores = forest(task, grown.tables).scores(bags.sides.held_out(task.bag))
            yield number, replace(grown, held_out=scores)

    def _entry(
        self, bags: Bags, forest: RectangleForest, number: int, bag: int
    ) -> HeldEntry | None:
        """Where the state of a growth is kept; None if the fit keeps none."""
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
        """Return a function that asks the team; its first call sends rows and growths."""
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
        for codes, rows, shares in self._written:
            if codes is problem.codes and rows is problem.rows:
                return shares
        folders = Folders.of(problem)
        blocks = write_blocks(self.storage, problem, folders, self.team.size)
        orders = [order for order in HELD_ORDERS if order in problem.encoder.axes]
        shares = [
            Share(folders, some, orders, problem.rows.sizes)
            for some in dealt(blocks, self.team.size)
        ]
        self._written.append((problem.codes, problem.rows, shares))
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
