"""Worker: holds some of the rows in another process, and answers the questions of growths.

Everything within a row is computed as in a fit in one process, to the same bits, and sums are of
whole numbers. So the answers of several holders add up to the answer of one.
"""

from __future__ import annotations

import tempfile
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpnn import __version__
from tpnn._utils.arrays import CodeArray, IntArray, RealArray
from tpnn._utils.shelf import MEMORY, Shelf
from tpnn.loss.objectives import Objective
from tpnn.solvers.cluster.messages import (
    LARGEST_LOSS,
    LOSS,
    NO_LARGEST,
    SLOPES,
    SUMS,
    Answer,
    Message,
    Question,
    Step,
    combined,
    joined,
)
from tpnn.solvers.cluster.passes import Pass, Read
from tpnn.solvers.cluster.storage import Share, Storage, load
from tpnn.solvers.grow.engine import Side, Sides, Tables, compute_slopes
from tpnn.solvers.grow.forest import Extent, Layout, RectangleForest
from tpnn.solvers.grow.rectangles import TreeSettings
from tpnn.solvers.grow.rounds import INTERCEPT, answer, apply_step, grid_shape
from tpnn.solvers.problem.coded import CodedComponents
from tpnn.solvers.problem.rows import TrainingRows
from tpnn.solvers.problem.sums import largest_of, whole_totals


@dataclass(frozen=True)
class Beginning:
    """Where one growth begins."""

    bag: int
    tables: Tables  # at which its slopes are computed
    extent: Extent  # of all training rows of the bag, on all holders
    pair_tree: TreeSettings | None
    steps: list[PackedStep] | None = None  # since then; None if growth has not begun


@dataclass(frozen=True)
class Session:
    """What all holders need for growths that ask together."""

    objective: Objective
    layout: Layout
    features: Sequence[IntArray]  # (n_components, order): main effects, then pairs if there are any
    n_nodes: Sequence[int]  # nodes per axis of each order
    growths: Mapping[int, Beginning]  # by number


@dataclass(frozen=True)
class PackedStep:
    """A step in a few hundred bytes, kept until slopes are computed again."""

    growth: int
    output: int
    component: int
    packed: bytes  # float32 values, compressed: they repeat over large parts of a grid

    @classmethod
    def of(cls, step: Step) -> PackedStep:
        """Pack a step."""
        packed = zlib.compress(step.values.tobytes(), 1)
        return cls(step.growth, step.output, step.component, packed)

    def unpacked(self) -> Step:
        """Return the step."""
        values = np.frombuffer(zlib.decompress(self.packed), np.float32)
        return Step(self.growth, self.output, self.component, values)


class Holder:
    """Holds some of the rows of all bags."""

    def __init__(
        self,
        codes: Mapping[int, CodeArray],  # (n_features, n_rows), by order
        rows: TrainingRows,  # their ``sizes`` are those of whole bags
        shelf: Shelf = MEMORY,
    ) -> None:
        self.codes, self.rows, self.shelf = codes, rows, shelf

    def begin(self, session: Session) -> None:
        """Begin growths: split the rows of their bags, and repeat earlier steps."""
        coded = [
            CodedComponents(self.codes[order], features, n_nodes)
            for order, (features, n_nodes) in enumerate(
                zip(session.features, session.n_nodes, strict=True), start=1
            )
        ]
        sides = Sides(coded, self.rows, self.shelf)
        bags = {beginning.bag for beginning in session.growths.values()}
        by_bag = {bag: (sides.training(bag), sides.held_out(bag)) for bag in bags}
        self._growths = {
            number: HeldGrowth(session, beginning, *by_bag[beginning.bag])
            for number, beginning in session.growths.items()
        }
        self._number, self._answer = -1, Answer(np.zeros(0, np.int64), NO_LARGEST)

    def answer(self, message: Message) -> Answer:
        """Apply steps, then answer questions; a message that comes twice changes nothing."""
        if message.number == self._number:
            return self._answer
        for step in message.steps:
            self._growths[step.growth].apply(step)
        answers = [self._growths[asked.growth].answer(asked) for asked in message.questions]
        self._number, self._answer = message.number, joined(answers)
        return self._answer


class HeldGrowth:
    """Rows of one bag, and their slopes in one growth."""

    def __init__(
        self, session: Session, beginning: Beginning, training: Side, held_out: Side
    ) -> None:
        self.objective, self.training, self.held_out = session.objective, training, held_out
        self.forest = RectangleForest(
            layout=session.layout, objective=session.objective, training=training,
            start=beginning.tables, seed=0, pair_tree=beginning.pair_tree, extent=beginning.extent,
        )  # fmt: skip
        self._losses: RealArray | None = None
        self._answers = {
            SLOPES: self._slopes, SUMS: self._sums, LARGEST_LOSS: self._largest_loss,
            LOSS: self._loss,
        }  # fmt: skip
        if beginning.steps is not None:
            self._compute_slopes()
            for step in beginning.steps:
                self.apply(step.unpacked())

    def apply(self, step: Step) -> None:
        """Add a step to the grid of its component, and take it from the residuals."""
        plan, growth = self.forest.plan, self.forest.grown[step.output]
        growth.step[: len(step.values)] = step.values
        slopes = self.forest.growths[step.output]
        apply_step(self.forest.rows, slopes, plan, step.component, growth.step)
        self._losses = None
        if step.component == INTERCEPT:
            growth.intercept[0] += step.values[0]
            return
        n_pairs, (m, k) = len(plan.pairs), grid_shape(plan, step.component)
        is_pair = step.component < n_pairs
        table = growth.pairs[step.component] if is_pair else growth.mains[step.component - n_pairs]
        table[:m, :k] += step.values.reshape(m, k)

    def answer(self, question: Question) -> Answer:
        """Answer for the rows that are held here."""
        return self._answers[question.kind](question)

    def _compute_slopes(self) -> None:
        scores = self.forest.scores(self.training)
        compute_slopes(self.objective, self.training, scores, self.forest.growths)

    def _slopes(self, question: Question) -> Answer:
        """Count the rows; return the largest residual and hessian of every output."""
        self._compute_slopes()
        slopes = [array for one in self.forest.growths for array in (one.residual, one.hessian)]
        largest = np.array([largest_of(array[:, None])[0] for array in slopes])
        return Answer(np.array([len(self.training.y)]), largest)

    def _sums(self, question: Question) -> Answer:
        """Sum residuals and, if asked for, hessians over the cells of a component."""
        growth, slopes = self.forest.grown[question.output], self.forest.growths[question.output]
        slopes.scales[:] = question.scales
        growth.asked[:] = question.component, question.with_masses
        answer(self.forest.rows, slopes, self.forest.plan, growth.asked, growth.sums)
        n_kinds = 1 + question.with_masses
        sums = growth.sums[:n_kinds, : question.n_sums // n_kinds]
        return Answer(sums.flatten(), NO_LARGEST)

    def _held_out_losses(self) -> Any:
        """Weighted losses of the held-out rows (n_held_out, 1), kept until the next step."""
        if self._losses is None:
            side, raw = self.held_out, self.forest.scores(self.held_out)
            losses = self.objective.losses(side.y, raw, side.weights)
            self._losses = side.shelf.keep(losses * side.weights)
        return self._losses

    def _largest_loss(self, question: Question) -> Answer:
        losses = self._held_out_losses()
        return Answer(np.array([len(losses)]), largest_of(losses))

    def _loss(self, question: Question) -> Answer:
        assert question.scales is not None
        return Answer(whole_totals(self._held_out_losses(), question.scales), NO_LARGEST)


class Worker:
    """Reads a part of the table, loads its blocks from a storage and answers for their rows."""

    def __init__(self, storage: Storage) -> None:
        self.storage, self.shelf = storage, Shelf(tempfile.gettempdir())
        self._began = time.process_time()

    def version(self) -> str:
        """Version of tpnn on this machine."""
        return __version__

    def read(self, asked: Pass) -> Read:
        """Make a pass over some columns or rows of the table."""
        return asked.run(self.shelf)

    def hold(self, share: Share) -> None:
        """Load blocks."""
        self.holder = Holder(*load(self.storage, share, self.shelf), self.shelf)

    def begin(self, session: Session) -> None:
        """Begin growths."""
        self.holder.begin(session)

    def answer(self, message: Message) -> Answer:
        """Apply steps, then answer questions for the rows that are held here."""
        return self.holder.answer(message)

    def add(self, *answers: Answer) -> Answer:
        """Combine the answers of some workers, so that the driver gets fewer of them."""
        return combined(answers)

    def busy_seconds(self) -> float:
        """Return the seconds that its core was busy since it began."""
        return time.process_time() - self._began
