"""Smooth start of the growing solver: ridge regression on a fixed dictionary of centred sigmoids.

Main effects use a few sigmoids per feature, pairs use their products. Conjugate gradients solve the
normal equations of all bags at once and stop on the held-out rows of each bag; a loss other than
squared error is solved a few times with new weights. Models of small noisy tables owe most of their
accuracy to this start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import BoolArray, CodeArray, FloatArray, IntArray, RealArray
from tpnn._utils.shelf import MEMORY, Shelf
from tpnn._utils.threads import Workers, split
from tpnn.anova.dictionary import dictionary
from tpnn.anova.measure import Marginal
from tpnn.loss.losses import Objective
from tpnn.solvers.problem.coded import CodedComponents
from tpnn.solvers.problem.rows import TrainingRows, in_lanes
from tpnn.solvers.problem.stopping import EarlyStopping, Limits
from tpnn.solvers.problem.whole import totals, whole_numbers

PAIR_SCALE = 0.1  # prior size of pairs relative to main effects
RIDGE_ROWS, LARGEST_RIDGE_SHARE = 3.0, 0.01  # ridge in rows, and its largest share of all rows
SOLVED_PAIR_NODES = 32  # per feature of a pair, while solving
MAX_ITERATIONS, PATIENCE_ITERATIONS = 60, 4
ROWS_PER_TASK, FEWEST_TASKS, COMPONENTS_PER_TASK = 4096, 4, 16

Result = TypeVar("Result")


def few_rows(size: RealArray) -> RealArray:
    """Smallest ridge by default, in rows, of tables of these sizes.

    >>> few_rows(np.array([100.0, 10_000.0]))
    array([1., 3.])
    """
    few: RealArray = np.minimum(RIDGE_ROWS, LARGEST_RIDGE_SHARE * size)
    return few


def coarsen(
    marginal: Marginal, codes: CodeArray, most: int, shelf: Shelf = MEMORY
) -> tuple[Marginal, NDArray[np.uint8]]:
    """Merge nodes until no feature has more than ``most``; recode the rows accordingly.

    Neighbours are merged or, if the nodes have no order, the rarest levels; the node of missing
    values stays separate. The dictionary is so smooth that few nodes suffice, and the cost of an
    iteration is proportional to their number.
    """
    positions, weights = [], []
    merged = shelf.empty(codes.shape, np.uint8)
    for feature, size in enumerate(marginal.sizes):
        groups = _merged_nodes(marginal, feature, most)
        mass = np.bincount(groups, marginal.weights[feature, :size]).astype(np.float64)
        moment = (marginal.weights * marginal.positions)[feature, :size]
        positions.append(np.bincount(groups, moment) / mass)
        weights.append(mass)
        merged[feature] = groups.astype(np.uint8)[codes[feature]]
    stacked = Marginal.stack(positions, weights)
    return replace(stacked, nominal=marginal.nominal, missing=marginal.missing), merged


def _merged_nodes(marginal: Marginal, feature: int, most: int) -> IntArray:
    """Return the new node of each node of a feature, (size,)."""
    missing = int(marginal.missing[feature])
    size = int(marginal.sizes[feature]) - missing
    kept = min(size, most - missing)
    nodes = np.arange(size)
    groups = np.minimum(nodes, kept - 1) if marginal.nominal[feature] else nodes * kept // size
    return np.append(groups, kept) if missing else groups


class MainDictionary:
    """Grids of main effects as linear functions of coefficients (n_features, D, n_bags)."""

    def __init__(self, marginal: Marginal, features: IntArray) -> None:
        missing = np.flatnonzero(marginal.missing)[:1]  # if any, all have a base for missing values
        needed = marginal.of_features(np.append(features, missing))
        self.bases = dictionary(needed, 1)[: len(features)]

    def forget(self, are_frozen: BoolArray) -> None:
        """Leave nothing to fit in some main effects."""
        self.bases[are_frozen] = 0.0

    def penalise(self, factor: float) -> None:
        """Let the ridge of main effects be ``factor`` times that of the other components."""
        self.bases /= np.float32(np.sqrt(factor))

    def zeros(self, n_bags: int) -> RealArray:
        """Coefficients of the zero function."""
        return np.zeros((len(self.bases), self.bases.shape[2], n_bags), np.float32)

    def of(self, some: slice) -> MainDictionary:
        """Return the dictionary of some of the main effects."""
        part = copy(self)
        part.bases = self.bases[some]
        return part

    def tables(self, coefficients: RealArray) -> RealArray:
        """Grids of values (n_features, M, n_bags)."""
        return self.bases @ coefficients

    def adjoint(self, tables: RealArray) -> RealArray:
        """Transpose of the linear map ``tables``."""
        return self.bases.transpose(0, 2, 1) @ tables


class PairDictionary:
    """Grids of pairs, A V B', as linear functions of coefficients V (n_pairs, D, D, n_bags)."""

    def __init__(self, marginal: Marginal, pairs: IntArray) -> None:
        bases = dictionary(marginal, 2)
        self.first = bases[pairs[:, 0]] * np.float32(PAIR_SCALE)
        self.second = bases[pairs[:, 1]]

    def forget(self, are_frozen: BoolArray) -> None:
        """Leave nothing to fit in some pairs."""
        self.first[are_frozen] = 0.0

    def zeros(self, n_bags: int) -> RealArray:
        """Coefficients of the zero function."""
        n_pairs, _, size = self.first.shape
        return np.zeros((n_pairs, size, size, n_bags), np.float32)

    def of(self, some: slice) -> PairDictionary:
        """Return the dictionary of some of the pairs."""
        part = copy(self)
        part.first, part.second = self.first[some], self.second[some]
        return part

    def tables(self, coefficients: RealArray) -> RealArray:
        """Grids of values (n_pairs, M * M, n_bags)."""
        n_pairs, nodes, size = self.first.shape
        swapped = coefficients.transpose(0, 2, 1, 3).reshape(n_pairs, size, -1)
        along_second = (self.second @ swapped).reshape(n_pairs, nodes, size, -1)
        swapped = along_second.transpose(0, 2, 1, 3).reshape(n_pairs, size, -1)
        return (self.first @ swapped).reshape(n_pairs, nodes * nodes, -1)

    def adjoint(self, tables: RealArray) -> RealArray:
        """Transpose of the linear map ``tables``."""
        n_pairs, nodes, size = self.first.shape
        cells = tables.reshape(n_pairs, nodes, -1)
        along_first = (self.first.transpose(0, 2, 1) @ cells).reshape(n_pairs, size, nodes, -1)
        swapped = along_first.transpose(0, 2, 1, 3).reshape(n_pairs, nodes, -1)
        back = (self.second.transpose(0, 2, 1) @ swapped).reshape(n_pairs, size, size, -1)
        return back.transpose(0, 2, 1, 3)


Dictionary = MainDictionary | PairDictionary


@dataclass
class BestCoefficients:
    """Best coefficients of every bag so far.

    Parameters
    ----------
    coefficients : list of array of shape (..., n_bags * K)
        One array per order.
    intercepts : array of shape (n_bags * K,)
        Intercept of each output of each bag.
    """

    coefficients: list[RealArray]
    intercepts: RealArray

    def update(
        self, improved: BoolArray, coefficients: list[RealArray], intercepts: RealArray
    ) -> None:
        """Adopt the new values of the bags (n_bags,) that improved."""
        lanes = np.repeat(improved, len(intercepts) // len(improved))
        self.intercepts[lanes] = intercepts[lanes]
        for kept, new in zip(self.coefficients, coefficients, strict=True):
            kept[..., lanes] = new[..., lanes]


class RidgeStart:
    """Solves the ridge problems of all bags by conjugate gradients.

    Parameters
    ----------
    dictionaries : list
        One dictionary per order.
    coded : list of CodedComponents
        Components of each order over the rows.
    rows : TrainingRows
        Targets, offsets and bag weights.
    objective : Objective
        The loss.
    l2 : float, optional
        Ridge penalty as a share of the rows; by default worth a few rows.
    """

    def __init__(
        self,
        dictionaries: Sequence[Dictionary],
        coded: Sequence[CodedComponents],
        rows: TrainingRows,
        objective: Objective,
        l2: float | None = None,
    ) -> None:
        self.dictionaries, self.coded = dictionaries, coded
        self.rows, self.objective = rows, objective
        self.training = rows.training * rows.sizes  # weights in rows
        self.n_rows, self.n_bags = self.training.shape
        self.n_lanes = self.n_bags * objective.n_outputs  # a lane is one output of one bag
        self.masses = np.repeat(self.training, objective.n_outputs, axis=1)
        size = totals(self.masses).astype(np.float32)
        self.ridge = few_rows(size) if l2 is None else np.float32(l2) * size

    @np.errstate(over="ignore", invalid="ignore")  # extreme offsets overflow; NaN is never best
    def fit(self, start: FloatArray, workers: Workers, limits: Limits) -> BestCoefficients:
        """Find the best coefficients of every bag, starting from the intercepts ``start`` (K,)."""
        self.workers, self.limits = workers, limits
        intercepts = np.tile(start, self.n_bags).astype(np.float32)
        coefficients = [d.zeros(self.n_lanes) for d in self.dictionaries]
        raw: RealArray = in_lanes(self.rows.offset, self.n_lanes) + intercepts
        self.best = BestCoefficients([c.copy() for c in coefficients], intercepts.copy())
        self.stopping = EarlyStopping(self.n_bags, PATIENCE_ITERATIONS)
        self.stopping.update(self._loss(raw), 0)
        for _ in range(self.objective.reweightings):
            coefficients = self._solve(raw, coefficients, intercepts)
            gradient, hessian = self.objective.slopes(self.rows.y, raw, self.training)
            newton = totals(self.masses * gradient) / totals(self.masses * hessian)
            shift = newton.astype(np.float32)
            intercepts, raw = intercepts - shift, raw - shift
            if limits.are_reached():
                break
        return self.best

    def _solve(
        self, raw: RealArray, coefficients: list[RealArray], intercepts: RealArray
    ) -> list[RealArray]:
        """Solve one weighted least-squares problem from given coefficients; update ``raw``."""
        slope, hessian = self.objective.slopes(self.rows.y, raw, self.training)
        scale = np.sqrt(self.masses * hessian)
        known = hessian > 0  # a row whose offset is extreme says nothing
        share = np.divide(self.masses, hessian, out=np.zeros_like(scale), where=known)
        residual = -np.sqrt(share) * slope
        gradient = self._downhill(scale * residual, coefficients)
        direction, size = gradient, _squares(gradient)
        self.stopping.restart()
        for iteration in range(1, MAX_ITERATIONS + 1):
            change = self._gather(direction)
            scaled = scale * change
            curvature = totals(scaled * scaled).astype(np.float32)
            length = size / (curvature + self.ridge * _squares(direction) + 1e-30)
            coefficients = [c + length * d for c, d in zip(coefficients, direction, strict=True)]
            residual -= length * scaled
            raw += length * change
            improved = self.stopping.update(self._loss(raw), iteration)
            self.best.update(improved, coefficients, intercepts)
            if self.stopping.has_stalled or self.limits.are_reached():
                break
            gradient = self._downhill(scale * residual, coefficients)
            before, size = size, _squares(gradient)
            ratio = size / (before + 1e-30)
            direction = [g + ratio * d for g, d in zip(gradient, direction, strict=True)]
        return coefficients

    def _downhill(self, residual: RealArray, coefficients: list[RealArray]) -> list[RealArray]:
        """Negative gradient of half the penalised sum of squares."""
        numbers, units = whole_numbers(residual)

        def downhill(
            part: CodedComponents, whole: Dictionary, known: RealArray, piece: tuple[int, int]
        ) -> RealArray:
            sums, some = part.whole_histogram(numbers, *piece), slice(*piece)
            tables = np.empty(sums.shape, np.float32)
            with np.errstate(over="ignore", invalid="ignore"):  # a thread does not inherit it
                np.multiply(sums, units, out=tables, casting="same_kind")
                return whole.of(some).adjoint(tables) - self.ridge * known[some]

        return [
            np.concatenate(self._in_pieces(partial(downhill, part, whole, known), part))
            for part, whole, known in zip(self.coded, self.dictionaries, coefficients, strict=True)
        ]

    def _gather(self, coefficients: list[RealArray]) -> RealArray:
        """Values of the dictionary's functions on every row, (n, n_lanes)."""
        tables = [np.empty((*part.shape, self.n_lanes), np.float32) for part in self.coded]
        values = np.zeros((self.n_rows, self.n_lanes), np.float32)

        def fill(number: int, piece: tuple[int, int]) -> None:
            some = slice(*piece)
            part = self.dictionaries[number].of(some)
            with np.errstate(over="ignore", invalid="ignore"):
                tables[number][some] = part.tables(coefficients[number][some])

        def add(piece: tuple[int, int]) -> None:
            for part, table in zip(self.coded, tables, strict=True):
                part.gather(table, piece[0], values[slice(*piece)])

        for number, part in enumerate(self.coded):
            self._in_pieces(partial(fill, number), part)
        rows_per_task = min(ROWS_PER_TASK, -(-self.n_rows // FEWEST_TASKS))
        self.workers.map(add, split(self.n_rows, rows_per_task))
        return values

    def _in_pieces(
        self, work: Callable[[tuple[int, int]], Result], part: CodedComponents
    ) -> list[Result]:
        """Results of work on some components at a time."""
        return self.workers.map(work, split(part.shape[0], COMPONENTS_PER_TASK))

    def _loss(self, raw: RealArray) -> RealArray:
        validation = self.rows.validation
        losses = self.objective.losses(self.rows.y, raw, validation)
        with np.errstate(invalid="ignore"):  # a custom loss may overflow; NaN is never best
            return totals(losses * validation)


def _squares(parts: Sequence[RealArray]) -> RealArray:
    """Sum of squares of each lane of coefficients, (n_lanes,)."""
    flat = [part.reshape(-1, part.shape[-1]) for part in parts]
    total: RealArray = np.sum([np.einsum("rb,rb->b", part, part) for part in flat], axis=0)
    return total
