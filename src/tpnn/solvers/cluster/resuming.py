"""HeldEntry: the state of a growth whose rows are held elsewhere, so that a driver can resume it.

Its state has what a state on one machine has, and two things from which holders restore their
slopes: the grids of values at which these were last computed, and the steps since then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from tpnn.solvers.cluster.worker import Beginning, PackedStep
from tpnn.solvers.grow.engine import BagGrower, Entry, Forest, Tables
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
