"""Growth of main effects and pairs by a driver that never sees a row.

The growth of one bag is a generator of requests, to which it is sent the answers. All bags ask at
the same time: one message carries the steps and questions of all of them, because a message to a
cluster costs some milliseconds however short it is.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpnn.solvers.cluster.messages import (
    LARGEST_LOSS,
    LOSS,
    SUMS,
    Answer,
    Question,
    Request,
    Step,
    divided,
)
from tpnn.solvers.cluster.messages import SLOPES as SLOPES_OF_ROWS
from tpnn.solvers.grow.bag import SLOPES, VISIT, BagGrower, Entry, Grown
from tpnn.solvers.grow.forest import SLOPE_REFRESH_ROUNDS, RectangleForest
from tpnn.solvers.grow.rounds import NOTHING, begin_round, decide, grid_shape
from tpnn.solvers.problem.whole import sum_scale

Growing = Generator[Request, list[Answer], Grown]  # of one bag
Asking = Generator[Request, list[Answer], list[Step]]  # for a while; the last steps come at the end
NO_SCORES = np.zeros((0, 1), np.float32)


def growing(
    number: int,
    grower: BagGrower,
    forest: RectangleForest,
    mass: float,
    entry: Entry | None = None,
) -> Growing:
    """Grow a forest without rows until the held-out loss stops falling.

    Parameters
    ----------
    number : int
        Number of this growth among those that ask together.
    grower : BagGrower
        Knows the stages.
    forest : RectangleForest
        What grows.
    mass : float
        Sum of the weights of all held-out rows.
    entry : Entry, optional
        Place of the growth among states. Where its state is known, holders begin with its slopes.
    """
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
            have_slopes = False  # those that follow must be computed
        elif stage == SLOPES:
            steps = yield from _new_slopes(number, forest, steps)
        else:
            loss, steps = yield from _loss(number, steps)
            checked = NO_SCORES, loss / mass


def _new_slopes(number: int, forest: RectangleForest, steps: list[Step]) -> Asking:
    """Let the slopes be computed; the largest of all rows choose the scales."""
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
    """Visit components for a few rounds; the outputs, which do not interfere, ask together."""
    also_pairs = forest.visits_pairs(rounds)
    lanes = [Lane(number, forest, output, also_pairs) for output in range(len(forest.grown))]
    while lanes:
        answers = yield Request(steps, [lane.question() for lane in lanes])
        steps = [lane.step(answer.sums) for lane, answer in zip(lanes, answers, strict=True)]
        lanes = [lane for lane in lanes if not lane.is_done]
    return steps


class Lane:
    """A few rounds of one output of one growth: ``grow_rounds`` without rows.

    Parameters
    ----------
    number : int
        Number of the growth.
    forest : RectangleForest
        What grows.
    output : int
        Number of the output.
    with_pairs : bool
        Whether pairs are visited too.
    """

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
    """Let several growths ask together until all have ended; yield each with its number.

    ``ask`` answers the questions of all requests, in their order.
    """
    answers: dict[int, Any] = dict.fromkeys(growths)  # a growth that has not begun is sent None
    while answers:
        requests = {}
        for number, own in answers.items():
            try:
                requests[number] = growths[number].send(own)
            except StopIteration as end:
                yield number, end.value
        questions = [question for request in requests.values() for question in request.questions]
        parts = iter(divided(ask(requests), questions) if requests else ())
        answers = {
            number: [next(parts) for _ in request.questions] for number, request in requests.items()
        }
