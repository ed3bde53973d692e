"""Design: the smooth functions of some components on the rows.

X has a row for each row of the table and a column for each function, in units of its prior standard
deviation. It is never held as a whole: values and sums go through the grids of the components, the
Gram matrix through blocks of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from tpnn._utils.arrays import Float32Array, FloatArray, IntArray
from tpnn._utils.threads import Workers, split
from tpnn.anova.components import Component
from tpnn.solvers.problem.coded import Codes
from tpnn.uncertainty.spans import Span

ROWS_PER_BLOCK = 2048
N_SUMS = 4  # added up in this order, whatever the number of threads


@dataclass(frozen=True, eq=False)
class Design:
    """Functions of some components on coded rows, X of shape (n, K).

    Parameters
    ----------
    components : list of tuple of int
        The components.
    spans : list of Span
        Functions of each component.
    codes : Codes
        The coded table.
    workers : Workers
        Threads.
    step : int
        Every ``step``-th row of the table is a row of X.
    """

    components: Sequence[Component]
    spans: Sequence[Span]
    codes: Codes
    workers: Workers
    step: int = 1

    @property
    def size(self) -> int:
        """Number of functions K."""
        return sum(span.size for span in self.spans)

    @property
    def places(self) -> list[IntArray]:
        """Columns of each component."""
        ends = np.cumsum([0, *(span.size for span in self.spans)])
        return [np.arange(start, end) for start, end in pairwise(ends)]

    @property
    def rows(self) -> slice:
        """Rows of the table."""
        return slice(None, None, self.step)

    def of(self, numbers: Sequence[int]) -> Design:
        """Design of some of the components."""
        chosen = [self.components[number] for number in numbers]
        return replace(self, components=chosen, spans=[self.spans[number] for number in numbers])

    def values(self, coefficients: FloatArray) -> FloatArray:
        """X beta, (n,)."""
        tables = [
            span.tables(span.deviations * coefficients[place])
            for span, place in zip(self.spans, self.places, strict=True)
        ]
        n_rows = len(self.codes.rows[self.rows])

        def part(piece: tuple[int, int]) -> FloatArray:
            total = np.zeros(piece[1] - piece[0])
            for component, table in zip(self.components, tables, strict=True):
                self.codes.add_values(component, table, piece[0], self.step, total)
            return total

        return np.concatenate(self.workers.map(part, split(n_rows, -(-n_rows // N_SUMS))))

    def sums(self, values: FloatArray) -> FloatArray:
        """X' v, (K,), of a value for each row."""

        def part(number: int) -> FloatArray:
            span = self.spans[number]
            table = self.codes.sums(self.components[number], span.shape, self.step, values)
            return span.deviations * span.sums(table)

        found = self.workers.map(part, range(len(self.spans)))
        return np.concatenate([np.empty(0), *found])

    def gram(self, precision: FloatArray) -> FloatArray:
        """X' P X (K, K), with X centred under the precisions P (n,).

        Centring takes the intercept out: it has a flat prior.
        """
        n_sums = min(N_SUMS, -(-len(precision) // ROWS_PER_BLOCK))
        parts = split(len(precision), -(-len(precision) // n_sums))
        sums = self.workers.map(lambda part: self._square(precision, *part), parts)
        square: FloatArray = np.sum(sums, axis=0)  # of X with a column of ones
        edge = square[-1, :-1]
        centred: FloatArray = square[:-1, :-1] - np.outer(edge, edge) / square[-1, -1]
        return centred

    def _square(self, precision: FloatArray, start: int, stop: int) -> FloatArray:
        """[X 1]' P [X 1] over the rows from start to stop, (K + 1, K + 1)."""
        total = np.zeros((self.size + 1, self.size + 1))
        for low in range(start, stop, ROWS_PER_BLOCK):
            high = min(low + ROWS_PER_BLOCK, stop)
            block = np.column_stack([self.block(low, high), np.ones(high - low, np.float32)])
            block *= np.sqrt(precision[low:high, None]).astype(np.float32)
            total += block.T @ block
        return total

    def scaled_rows(self, precision: FloatArray) -> FloatArray:
        """P^(1/2) X (n, K), with X centred under the precisions P (n,)."""
        values = self.block(0, len(precision)).astype(np.float64)
        centred = values - np.average(values, axis=0, weights=precision)
        return np.asarray(np.sqrt(precision)[:, None] * centred)

    def block(self, low: int, high: int) -> Float32Array:
        """Rows of X from low to high."""
        rows = slice(low * self.step, (high - 1) * self.step + 1, self.step)
        nothing = np.empty((high - low, 0), np.float32)
        parts = (
            span.rows(self.codes.cells(component, rows))
            for component, span in zip(self.components, self.spans, strict=True)
        )
        return np.concatenate([nothing, *parts], axis=1)
