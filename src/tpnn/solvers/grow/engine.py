"""Sides: the training rows and the held-out rows of every bag, taken out of all coded rows."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import CodeArray, Float32Array, FloatArray, IntArray, RealArray
from tpnn._utils.shelf import MEMORY, Shelf
from tpnn._utils.threads import split
from tpnn.loss.objectives import Objective
from tpnn.solvers.problem.coded import CodedComponents
from tpnn.solvers.problem.rows import TrainingRows
from tpnn.solvers.problem.sums import largest_of, sum_scale, totals
from tpnn.solvers.solution import EarlyStopping, Limits
from tpnn.solvers.states import GrowthStates, State, digest_of


@dataclass(frozen=True)
class Sides:
    """Coded rows that every bag splits in its own way."""

    coded: Sequence[CodedComponents]  # main effects and, if there are any, pairs
    rows: TrainingRows
    shelf: Shelf

    def training(self, bag: int) -> Side:
        """Training rows of a bag, with weights in rows."""
        return self.of(self.rows.training[:, bag] * self.rows.sizes[bag])

    def held_out(self, bag: int) -> Side:
        """Held-out rows of a bag."""
        return self.of(self.rows.validation[:, bag])

    def of(self, weights: Float32Array) -> Side:
        """Rows with a positive weight, their codes stored contiguously."""
        where = np.flatnonzero(weights)
        mains, *pairs = self.coded
        fine = codes_of(mains.codes, mains.features[:, 0], where, self.shelf)
        coded = [CodedComponents(fine, np.arange(len(fine))[:, None], mains.n_nodes)]
        for part in pairs:
            codes = codes_of(part.codes, range(len(part.codes)), where, self.shelf)
            coded.append(CodedComponents(codes, part.features, part.n_nodes))
        y, masses = self.shelf.keep(self.rows.y[where]), self.shelf.keep(weights[where, None])
        return Side(coded, y, masses, self.shelf.keep(self.rows.offset[where]), self.shelf)


def codes_of(codes: CodeArray, features: Iterable[int], where: IntArray, shelf: Shelf) -> CodeArray:
    """Codes of some features on some rows."""
    chosen = list(features)
    found = shelf.empty((len(chosen), len(where)), codes.dtype)
    for place, feature in enumerate(chosen):
        found[place] = codes[feature][where]
    return found


ROWS_PER_BLOCK = 1 << 20  # whose slopes are computed at a time
SLOPES, VISIT, CHECK = "slopes", "visit", "check"  # stages of growth
ROUNDS_PER_STATE = 50  # between two states of a growth that are written to a checkpoint

Stages = Generator[tuple[str, int], Any, "Grown"]


@dataclass(frozen=True)
class Side:
    """One side of a bag's split: its training rows or its held-out rows."""

    coded: Sequence[CodedComponents]  # of each growing order
    y: RealArray  # (n_rows, T)
    weights: RealArray  # (n_rows, 1); training weights sum to the number of rows
    raw: RealArray  # (n_rows, 1) or (n_rows, K): offset and orders that do not grow
    shelf: Shelf = MEMORY

    @cached_property
    def mass(self) -> FloatArray:
        """Sum of the weights, (1,)."""
        return totals(self.weights)


class Tables(NamedTuple):
    """Grids of values and intercepts of one bag; the outputs are the first axis."""

    by_order: list[Float32Array]  # (K, n_components, ...): the last axes are cells
    intercepts: FloatArray  # (K,)


class Forest(Protocol):
    """The components of one bag, to which trees are added."""

    rounds_per_check: int  # rounds between two checks of the held-out loss
    visits_per_check: int  # calls of ``visit``; slopes are recomputed before each
    keeps_slopes: bool  # visits keep the slopes exact, so that nothing is recomputed
    tolerance: float  # of EarlyStopping
    grace: int  # of EarlyStopping

    @property
    def growths(self) -> Sequence[Any]:
        """State of every output."""

    def visit(self, rounds: int) -> None:
        """Add trees; ``rounds`` is the number of rounds finished at the last check."""

    def scores(self, side: Side) -> RealArray:
        """Raw scores of rows, (n_rows, K)."""

    def tables(self) -> Tables:
        """Copy of the current grids of values and intercepts."""

    def slopes_changed(self) -> None:
        """React to slopes that were recomputed."""

    def state(self) -> list[NDArray[Any]]:
        """Arrays that hold where the growth stands; written over, it goes on from elsewhere."""

    def identity(self) -> tuple[Any, ...]:
        """Return what the growth depends on besides its rows, arrays that it does not change."""


@dataclass(frozen=True, kw_only=True)
class Grown:
    """The best state of one bag, and the raw scores that it gives the held-out rows."""

    tables: Tables
    rounds: int  # after which the held-out loss was lowest
    held_out: RealArray  # (n_held_out, K)
    loss: float  # of the held-out rows


def set_scales(growth: Any) -> None:
    """Choose what turns the residuals and hessians of a state into whole numbers."""
    values = growth.residual[:, None], growth.hessian[:, None]
    growth.scales[:] = [sum_scale(float(largest_of(v)[0]), len(v)) for v in values]


def compute_slopes(objective: Objective, side: Side, raw: RealArray, slopes: Sequence[Any]) -> None:
    """Set ``residual`` and ``hessian`` (n_rows,) of every output, given raw scores (n_rows, K)."""
    longest = len(raw) if objective.couples_rows else ROWS_PER_BLOCK
    for block in split(len(raw), longest):
        some = slice(*block)
        weights = side.weights[some]
        gradient, hessian = objective.slopes(side.y[some], raw[some], weights)
        for output, own in enumerate(slopes):
            own.residual[some] = -weights[:, 0] * gradient[:, output]
            own.hessian[some] = weights[:, 0] * hessian[:, output]


def held_out_loss(objective: Objective, side: Side, raw: RealArray) -> float:
    """Mean loss of the held-out rows, given their raw scores (n_rows, K)."""
    losses = objective.losses(side.y, raw, side.weights)
    return float((totals(losses * side.weights) / side.mass)[0])


class Entry:
    """Place of a growth among the states of a fit, by a digest of all it depends on."""

    def __init__(
        self,
        states: GrowthStates,
        settings: tuple[Any, ...],  # what the growth depends on besides forest and rows
        forest: Forest,
        sides: Sequence[Side],  # training and held-out rows
    ) -> None:
        self.states, self.sides = states, sides
        self.known = (settings, forest.identity())

    @cached_property
    def key(self) -> str:
        """Digest of all that the growth depends on."""
        coded = [(c.codes, c.features, c.n_nodes) for side in self.sides for c in side.coded]
        rows = [(side.y, side.weights, side.raw) for side in self.sides]
        return digest_of((self.known, coded, rows))

    def find(self) -> State | None:
        """State of the growth if it has begun before, or None."""
        return None if self.states.is_empty else self.states.find(self.key)

    def keep(self, state: State, can_go_on: bool) -> None:
        """Keep where the growth stands."""
        self.states.keep(self.key, state, can_go_on)


@dataclass(frozen=True)
class BagGrower:
    """Grows one bag at a time; several threads may share a grower."""

    objective: Objective
    limits: Limits
    max_rounds: int
    patience: int  # rounds without progress after which a bag stops
    states: GrowthStates | None = None  # growths to go on with; keeps those whose rounds are up

    def grow(self, forest: Forest, training: Side, validation: Side) -> Grown:
        """Add trees to a forest until the held-out loss stops falling; return the best state.

        A growth that ended after fewer rounds goes on as if it had not.
        """
        entry = None
        if self.states is not None:
            settings = (self.objective.name, self.patience, type(forest).__name__)
            entry = Entry(self.states, settings, forest, (training, validation))
        stages, checked = self.stages(forest, entry), None
        while True:
            try:
                stage, rounds = stages.send(checked)
            except StopIteration as end:
                best: Grown = end.value
                return best
            if stage == VISIT:
                forest.visit(rounds)
            elif stage == SLOPES:
                scores = forest.scores(training)
                compute_slopes(self.objective, training, scores, forest.growths)
                forest.slopes_changed()
            else:
                held_out = forest.scores(validation)
                checked = held_out, held_out_loss(self.objective, validation, held_out)

    def stages(self, forest: Forest, entry: Entry | None = None) -> Stages:
        """Say what growth does in turn, wherever the rows are; return the best state.

        It yields a stage and the number of rounds: ``SLOPES`` of all rows are to be computed, the
        components to be visited (``VISIT``), or the held-out rows to be asked (``CHECK``). What is
        sent after a check are their raw scores and their loss. A growth whose state is known by its
        ``entry`` goes on from there.
        """
        stopping = EarlyStopping(1, self.patience, tolerance=forest.tolerance, grace=forest.grace)
        yield SLOPES, 0
        known = None if entry is None else entry.find()
        if known is None:
            held_out, loss = yield CHECK, 0
            best, rounds = Grown(tables=forest.tables(), rounds=0, held_out=held_out, loss=loss), 0
            stopping.update(np.array([loss]), 0)
        else:
            best, rounds = restored(known, forest, stopping)
        while not (rounds >= self.max_rounds or self.limits.are_reached() or stopping.has_stalled):
            for visit in range(forest.visits_per_check):
                if rounds + visit > 0 and not forest.keeps_slopes:
                    yield SLOPES, rounds
                yield VISIT, rounds
            rounds += forest.rounds_per_check
            held_out, loss = yield CHECK, rounds
            if stopping.update(np.array([loss]), rounds)[0]:
                best = Grown(tables=forest.tables(), rounds=rounds, held_out=held_out, loss=loss)
            if entry is not None and rounds % ROUNDS_PER_STATE == 0 and entry.states.keeps_all:
                entry.keep(state_of(forest, stopping, best, rounds), can_go_on=False)
        can_go_on = rounds >= self.max_rounds and not stopping.has_stalled
        if entry is not None and (can_go_on or entry.states.keeps_all):
            entry.keep(state_of(forest, stopping, best, rounds), can_go_on)
        return best

    def noted(self, note: str) -> str:
        """Note of a bag that has just stopped growing, with the time limit if that stopped it."""
        return f"{note}, until the time limit" if self.limits.are_reached() else note


def state_of(forest: Forest, stopping: EarlyStopping, best: Grown, rounds: int) -> State:
    """Where a growth stands, by name; the forest must not grow on while the arrays are in use."""
    by_order = enumerate(best.tables.by_order)
    return {
        "rounds": np.array(rounds),
        **{f"forest {number}": array for number, array in enumerate(forest.state())},
        **{f"stopping {name}": array for name, array in stopping.state().items()},
        **{f"best grids {number}": grids for number, grids in by_order},
        "best intercepts": best.tables.intercepts,
        "best rounds": np.array(best.rounds),
        "best held_out": np.asarray(best.held_out),
        "best loss": np.array(best.loss),
    }


def restored(state: State, forest: Forest, stopping: EarlyStopping) -> tuple[Grown, int]:
    """Bring a forest and its stopping to a state; return the best of that growth and its rounds."""
    for number, array in enumerate(forest.state()):
        array[...] = state[f"forest {number}"]
    stopping.restore({name: state[f"stopping {name}"] for name in stopping.state()})
    n_orders = sum(name.startswith("best grids") for name in state)
    by_order = [state[f"best grids {number}"] for number in range(n_orders)]
    best = Grown(
        tables=Tables(by_order, state["best intercepts"]),
        rounds=int(state["best rounds"]),
        held_out=state["best held_out"],
        loss=float(state["best loss"]),
    )
    return best, int(state["rounds"])
