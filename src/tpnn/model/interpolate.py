"""Interpolation in tables, in NumPy or compiled; and when to compile.

numba takes a moment to load, and seconds to compile. NumPy computes the same bits, so only time
counts. Compiling pays off after many predictions, and nobody knows in advance how many there will
be. So the work that NumPy has done is counted, and the loops are compiled once it took as long as
compiling does: at worst twice the optimum.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn._utils.threads import Workers, split
from tpnn.model.flat import FlatTable, TableStack, stack_tables
from tpnn.table.axis import Axis

MIN_COMPILED_ROWS = 20_000  # below, NumPy needs milliseconds: such predictions are not counted
NUMPY_CELLS_PER_SECOND = 250e6  # that NumPy reads in two threads
SECONDS_TO_IMPORT = 0.25  # numba, where nothing has imported it
SECONDS_TO_LOAD = 0.35  # loops that an earlier process has compiled
SECONDS_TO_COMPILE = 3.0


class Account:
    """Counts the work of NumPy on large tables, and gets compiled loops once they pay off."""

    def __init__(self) -> None:
        self.n_cells = 0
        self.module: Any = None  # the compiled loops
        self._is_closed = False  # numba is absent, or fails

    def loops(self, n_rows: int, cells_per_row: int) -> Any:
        """Return the module of compiled loops where they pay off, else None.

        Each of the rows that are to be predicted reads so many cells of tables.
        """
        if n_rows < MIN_COMPILED_ROWS or self._is_closed:
            return None
        if self.module is None:
            self.n_cells += n_rows * cells_per_row
            self._compile_if_due()
        return self.module

    def _compile_if_due(self) -> None:
        """Get the loops if NumPy has already worked for as long as that takes."""
        spent = self.n_cells / NUMPY_CELLS_PER_SECOND
        wait = SECONDS_TO_LOAD + (0.0 if "numba" in sys.modules else SECONDS_TO_IMPORT)
        if spent < wait:
            return
        try:
            loops = import_module("tpnn.model.interpolate_numba")
            if spent >= wait + SECONDS_TO_COMPILE or loops.are_kept():
                import_module("tpnn._utils.compile").announcer()  # compiling takes seconds: say so
                loops.warm_up()
                self.module = loops
        except Exception:  # numba is absent, or fails to load: NumPy computes the same bits
            self._is_closed = True


ACCOUNT = Account()  # of this process


class Locator:
    """Finds values among the nodes of several axes at once; ``features`` are their columns.

    It is what ``Axis.locate`` computes for one axis, bit for bit. A call of NumPy on one value
    costs as much as one on hundreds, so all but the search itself is done for all axes together.
    """

    def __init__(self, features: Sequence[int], axes: Sequence[Axis]) -> None:
        self.features = sorted(set(features))
        self.rows = np.array([self.features.index(feature) for feature in features], np.intp)
        self.groups = [axis.groups for axis in axes]
        self.inner = [axis.values[1:] for axis in axes]  # all nodes but the first
        # an axis without nodes gets one, which all its values lie on
        halves = [axis.values / 2 if len(axis.values) else np.zeros(1) for axis in axes]
        gaps = [np.diff(half, append=np.inf) for half in halves]  # half of the way to the next node
        ordered = (axis.groups is None for axis in axes)
        self.halves = np.concatenate(halves)
        self.steps = np.concatenate(
            [
                np.where((gap > 0) & is_ordered, gap, np.inf)
                for gap, is_ordered in zip(gaps, ordered, strict=True)
            ]
        )
        self.starts = _upright(np.cumsum([0, *(max(len(axis.values), 1) for axis in axes[:-1])]))
        self.firsts = _upright([axis.outer_nodes[0] for axis in axes])
        self.lasts = _upright([axis.outer_nodes[1] for axis in axes])
        self.missing = _upright([axis.missing_node for axis in axes])
        self.unseen = _upright([axis.unseen_node for axis in axes])

    def locate(self, columns: Sequence[FloatArray]) -> tuple[IntArray, FloatArray]:
        """Lower node of each value and how far it lies towards the next, (n_axes, n_rows) each."""
        x = np.array([columns[feature] for feature in self.features])
        finite = np.isfinite(x)
        is_odd = not finite.all()
        filled = np.where(finite, x, 0.0) if is_odd else x
        point = np.minimum(np.maximum(filled[self.rows], self.firsts), self.lasts)
        lower = np.empty(point.shape, np.intp)
        for axis, groups in enumerate(self.groups):
            if groups is None:
                lower[axis] = self.inner[axis].searchsorted(point[axis], "right")
            else:
                lower[axis] = groups[point[axis].astype(np.intp)]
        cells = self.starts + lower
        fraction = (point / 2 - self.halves.take(cells)) / self.steps.take(cells)
        if is_odd:
            odd, missing = ~finite[self.rows], np.isnan(x)[self.rows]
            lower = np.where(odd, np.where(missing, self.missing, self.unseen), lower)
            fraction[odd] = 0.0
        return lower, fraction


def _upright(values: Any) -> NDArray[Any]:
    """One value for each axis, (n_axes, 1)."""
    return np.array(values)[:, None]


ROWS_PER_TASK = 16_384  # rows that a thread interpolates at a time
VALUES_PER_STEP = 16_384  # values that one call of NumPy computes, of as many tables as that takes


def in_tasks(work: Callable[[slice], None], n_rows: int) -> None:
    """Do the work on all rows, a slice at a time, in threads where there are several slices."""
    if 0 < n_rows <= ROWS_PER_TASK:
        work(slice(0, n_rows))
        return
    with Workers(None) as workers:
        workers.map(work, [slice(*task) for task in split(n_rows, ROWS_PER_TASK)])


class Predictor:
    """Values of tables on rows; tables of lower orders come first."""

    def __init__(self, axes: Mapping[int, Sequence[Axis]], tables: Sequence[FlatTable]) -> None:
        self.axes, self.tables = axes, tables
        self._keys = sorted({(len(t.component), j) for t in tables for j in t.component})
        self.cells_per_row = sum(2 ** len(table.component) for table in tables)
        self._compiled: Any = None

    def add(self, columns: Sequence[FloatArray], sums: FloatArray) -> None:
        """Add the value of table t on every row to ``sums[t % k]``; sums is (k, n_rows).

        So k may be the number of tables, or that of outputs. Tables are added one after the other,
        in double precision: what is added to a row does not depend on the rows beside it.
        """
        n_rows = sums.shape[1]
        if not self.tables:
            return
        loops, work = ACCOUNT.loops(n_rows, self.cells_per_row), self._add_rows
        if loops is not None:
            self._compiled = self._compiled or loops.CompiledTables(self.axes, self.tables)
            work = self._compiled.add_rows

        def add_rows(rows: slice) -> None:
            work([column[rows] for column in columns], sums[:, rows])

        in_tasks(add_rows, n_rows)

    def _add_rows(self, columns: Sequence[FloatArray], sums: FloatArray) -> None:
        nodes, fractions = self._locator.locate(columns)
        n_sums, n_rows = sums.shape
        are_apart = n_sums == len(self.tables)
        together = 1 if are_apart else n_sums  # tables that cannot be separated
        step = max(VALUES_PER_STEP // (n_rows * together), 1) * together
        for stack in self._stacks:
            for start in range(0, len(stack.starts), step):
                values = stack.values(slice(start, start + step), nodes, fractions)
                if are_apart:
                    number = stack.first + start
                    sums[number : number + len(values)] += values
                else:
                    _add_in_order(values.reshape(-1, n_sums, n_rows), sums)

    @cached_property
    def _locator(self) -> Locator:
        axes = [self.axes[order][feature] for order, feature in self._keys]
        return Locator([feature for _, feature in self._keys], axes)

    @cached_property
    def _stacks(self) -> list[TableStack]:
        places = {key: place for place, key in enumerate(self._keys)}
        stacks, first = [], 0
        for _, group in groupby(self.tables, key=lambda table: len(table.component)):
            tables = list(group)
            stacks.append(stack_tables(tables, first, places))
            first += len(tables)
        return stacks


def _add_in_order(values: FloatArray, sums: FloatArray) -> None:
    """Add values (n, n_sums, n_rows) to the sums, one after the other.

    A sum of NumPy would add them in pairs where there is one row, and so round otherwise.
    """
    if len(values) == 1:
        sums += values[0]
    else:
        sums[:] = np.add.accumulate(np.concatenate([sums[None], values]))[-1]
