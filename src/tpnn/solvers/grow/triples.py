"""CuboidForest: triples of one bag, grown by cuboid trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import FloatArray
from tpnn.loss.objectives import Objective
from tpnn.solvers.grow.cuboids import SideGrowth, TripleGrowth, TripleRows, grow_triples
from tpnn.solvers.grow.engine import Side, Tables, compute_slopes, set_scales
from tpnn.solvers.grow.forest import FrozenParts, bounded_tree, tree_for_size
from tpnn.solvers.grow.rectangles import UNVISITED_GAIN, TreeSettings
from tpnn.solvers.problem.sums import totals

CUBOID_TREE = TreeSettings(
    n_leaves=8, rate=0.25, ridge=5.0, min_mass=2.0, share=0.1, fewest=8, random_first=True
)
VISITS_PER_ROUND = 25  # to the triples of each output
FIRST_VISITS = 2  # to each triple, before the patience counts


class CuboidForest:
    """Triples of one bag; every output gets the same number of visits per round."""

    rounds_per_check = 1
    visits_per_check = 1
    keeps_slopes = False  # rounding errors add up over many small visits
    tolerance = 0.0

    def __init__(
        self,
        rows: TripleRows,
        training: Side,
        held_out: Side,
        objective: Objective,
        seed: int,  # of the random cuts
        frozen_parts: Sequence[FrozenParts] = (),  # what triples would move into frozen components
    ) -> None:
        self.rows, self.objective, self.seed = rows, objective, seed
        self.frozen_parts = frozen_parts
        self.training, self.held_out = training, held_out
        size = float(totals(training.weights)[0])
        self.tree = bounded_tree(tree_for_size(CUBOID_TREE, size), objective)
        self.states = _new_states(rows, training, held_out, seed)
        self.training_scores: FloatArray = self.states[0].training.raw[:, None]
        if len(self.states) > 1:
            shape = (len(training.y), len(self.states))
            self.training_scores = training.shelf.empty(shape, np.float64)
        self.copies = np.stack([state.tables for state in self.states])
        self.confirmed = np.zeros(len(rows.triples))  # at the time of the last copy
        self.grace = FIRST_VISITS * len(rows.triples) // VISITS_PER_ROUND

    @property
    def growths(self) -> list[SideGrowth]:
        """State of every output on the training rows."""
        return [state.training for state in self.states]

    def visit(self, rounds: int) -> None:
        """Visit triples of every output."""
        for state in self.states:
            grow_triples(self.rows, state, VISITS_PER_ROUND, self.tree)
            for parts in self.frozen_parts:
                if state.changed[parts.index]:
                    self._take_out(parts, state)

    def _take_out(self, parts: FrozenParts, state: TripleGrowth) -> None:
        """Take the parts of frozen components out of a triple, and out of the raw scores."""
        grid = state.tables[parts.index]
        change = parts.taken_from(grid) - grid
        grid += change
        features = self.rows.triples[parts.index]
        sides = ((self.rows.training, state.training), (self.rows.held_out, state.held_out))
        for codes, side in sides:
            side.raw[:] += change[tuple(codes[feature] for feature in features)]

    def scores(self, side: Side) -> FloatArray:
        """Raw scores of the rows of one side, (n_rows, K), which visits keep up to date.

        Those of the training rows hold until the next visit, those of the held-out rows for good.
        """
        if side is self.held_out:
            return np.stack([state.held_out.raw for state in self.states], axis=1)
        if len(self.states) > 1:
            known = [state.training.raw for state in self.states]
            np.stack(known, axis=1, out=self.training_scores)
        return self.training_scores

    def tables(self) -> Tables:
        """Copy of the current grids and of what is confirmed; the next copy replaces it."""
        self.confirmed = np.sum([state.confirmed for state in self.states], axis=0)
        for copy, state in zip(self.copies, self.states, strict=True):
            copy[state.changed] = state.tables[state.changed]
            state.changed[:] = False
        n_outputs, n_triples = self.copies.shape[:2]
        flat = self.copies.reshape(n_outputs, n_triples, -1)
        return Tables([flat], np.zeros(n_outputs))

    def slopes_changed(self) -> None:
        """Recompute the slopes of the held-out rows too, for the falls of their loss."""
        slopes = [state.held_out for state in self.states]
        compute_slopes(self.objective, self.held_out, self.scores(self.held_out), slopes)
        for state in self.states:
            set_scales(state.training)
            set_scales(state.held_out)

    def state(self) -> list[NDArray[Any]]:
        """Arrays that hold where the growth stands."""
        arrays: list[NDArray[Any]] = [self.copies]
        for known in self.states:
            arrays += [known.tables, known.training.raw, known.held_out.raw, known.gains]
            arrays += [known.confirmed, known.changed, known.state]
        return arrays

    def identity(self) -> tuple[Any, ...]:
        """Return what the growth depends on besides its rows."""
        frozen = list(map(astuple, self.frozen_parts))
        return self.rows.triples, self.rows.sizes, self.rows.kinds, self.tree, self.seed, frozen


def _new_states(rows: TripleRows, training: Side, held_out: Side, seed: int) -> list[TripleGrowth]:
    """Return the initial state of every output."""
    n_outputs, n_triples = training.raw.shape[1], len(rows.triples)
    n_nodes = rows.sizes.max()

    def side_growth(side: Side, output: int) -> SideGrowth:
        rows = side.shelf.zeros((3, len(side.y)), np.float64)
        rows[0] = side.raw[:, output]
        return SideGrowth(raw=rows[0], residual=rows[1], hessian=rows[2], scales=np.ones(2))

    return [
        TripleGrowth(
            tables=np.zeros((n_triples, n_nodes, n_nodes, n_nodes), np.float32),
            training=side_growth(training, output),
            held_out=side_growth(held_out, output),
            gains=np.full(n_triples, UNVISITED_GAIN),
            confirmed=np.zeros(n_triples),
            changed=np.zeros(n_triples, np.bool_),
            state=np.array([seed * n_outputs + output], np.uint64),
        )
        for output in range(n_outputs)
    ]
