"""Predictor: interpolation in the tables of all components, in threads where rows are many."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from tpnn._threads import Workers, split
from tpnn._typing import FloatArray, IntArray
from tpnn.model.flat import FlatTable, interpolate
from tpnn.table.axis import Axis

MIN_COMPILED_ROWS = 50_000  # for fewer rows loading numba takes longer than NumPy needs
ROWS_PER_TASK = 16_384  # rows that a thread interpolates at a time


def in_tasks(work: Callable[[slice], None], n_rows: int) -> None:
    """Do the work on all rows, a slice at a time, in threads where there are several slices."""
    tasks = [slice(*task) for task in split(n_rows, ROWS_PER_TASK)]
    with Workers(1 if len(tasks) == 1 else None) as workers:
        workers.map(work, tasks)


def compiled_module(n_rows: int) -> Any:
    """Return the compiled loops where rows are many and numba works, else None."""
    if n_rows < MIN_COMPILED_ROWS:
        return None
    try:
        compiled = import_module("tpnn.model.interpolate_numba")
        import_module("tpnn._announce").announcer()  # compiling takes seconds: say so
    except Exception:  # numba is absent, or fails to load: NumPy computes the same bits
        return None
    return compiled


class Predictor:
    """Values of components on rows.

    Parameters
    ----------
    axes : dict of int to sequence of Axis
        For each order, the axis of every feature.
    tables : list of FlatTable
        What is interpolated.
    """

    def __init__(self, axes: Mapping[int, Sequence[Axis]], tables: Sequence[FlatTable]) -> None:
        self.axes, self.tables = axes, tables
        self.orders = sorted({len(table.component) for table in tables})
        self._compiled: Any = None

    def add(self, columns: Sequence[FloatArray], targets: Sequence[int], sums: FloatArray) -> None:
        """Add the value of table t on every row to ``sums[targets[t]]``; sums is (k, n_rows)."""
        n_rows = sums.shape[1]
        work = self._compiled_work(n_rows) or self._add_rows

        def add_rows(rows: slice) -> None:
            work([column[rows] for column in columns], targets, sums[:, rows])

        in_tasks(add_rows, n_rows)

    def _compiled_work(self, n_rows: int) -> Any:
        """Compiled ``_add_rows`` where rows are many and numba works, else None."""
        module = compiled_module(n_rows)
        if module is None:
            return None
        if self._compiled is None:
            self._compiled = module.CompiledTables(self.axes, self.tables)
        return self._compiled.add_rows

    def _add_rows(
        self, columns: Sequence[FloatArray], targets: Sequence[int], sums: FloatArray
    ) -> None:
        located: dict[tuple[int, int], tuple[IntArray, FloatArray]] = {}
        for table, target in zip(self.tables, targets, strict=True):
            order = len(table.component)
            for feature in table.component:
                if (order, feature) not in located:
                    axis = self.axes[order][feature]
                    located[order, feature] = axis.locate(columns[feature])
            nodes, fractions = zip(
                *(located[order, feature] for feature in table.component), strict=True
            )
            sums[target] += interpolate(table, nodes, fractions)
