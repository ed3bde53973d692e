"""Evidence: how large a ridge of the smooth start the table itself asks for.

The ridge says that the coefficients c of the dictionary are independent, N(0, phi / t), with t in
rows and the noise phi. Linearised at the best constant, with working responses r and precisions P
of the rows, H = X' P X and q(t) = r' P r - r' P X (H + t I)^-1 X' P r, the log evidence is

    -n / 2 log q(t) - 1 / 2 log det(I + H / t),

with phi at its best. Tables whose features say much the same ask for a ridge of many rows, under
which these features share an effect; tables whose correlated features have opposite effects ask for
a small one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import BoolArray, CodeArray, Float32Array, FloatArray, IntArray, RealArray
from tpnn._utils.shelf import MEMORY, Shelf
from tpnn._utils.threads import Workers, split
from tpnn.anova.measure import Marginal
from tpnn.anova.shapes import project_main
from tpnn.anova.terms import dictionary
from tpnn.loss.objectives import Objective
from tpnn.solvers.grow.engine import Tables
from tpnn.solvers.grow.forest import are_frozen
from tpnn.solvers.problem.coded import CodedComponents
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.problem.rows import TrainingRows, in_lanes
from tpnn.solvers.problem.sums import totals, whole_numbers
from tpnn.solvers.solution import EarlyStopping, Limits
from tpnn.table.axis import Axis

MOST_ROWS, MOST_FUNCTIONS = 10_000, 1_000  # that the evidence looks at
SMALLEST_VARIANCE_SHARE = 1e-3  # of the largest prior variance of a function
STEPS_PER_DECADE = 8  # of the ridges to choose from; so coarse that rounding decides nothing
LARGEST_RIDGE = 0.1  # as a share of the rows


def evident_ridge(problem: Problem, bases: Float32Array, marginal: Marginal, least: float) -> float:
    """Ridge in rows, at least ``least``, that maximises the evidence of main effects.

    ``bases`` (n_features, M, D) are those of the main effects of the problem, and ``marginal`` is
    the measure of all features on the same nodes.
    """
    decades = np.log10(max(LARGEST_RIDGE * problem.distinct.size / least, 1.0))
    ridges = least * 10 ** (np.arange(int(decades * STEPS_PER_DECADE) + 1) / STEPS_PER_DECADE)
    rows = slice(MOST_ROWS)  # in random order
    masses = problem.distinct.weights[rows, None] * problem.distinct.size
    raw = problem.rows.offset[rows] + problem.best_constant.astype(np.float32)
    design = _design(problem, bases, marginal, rows)
    with np.errstate(all="ignore"):  # of extreme offsets or a custom loss; NaN is never best
        slope, hessian = problem.objective.slopes(
            problem.rows.y[rows], raw, masses.astype(np.float32)
        )
        evidence = sum(
            _log_evidence(design, masses[:, 0], slope[:, k], hessian[:, k], ridges)
            for k in range(slope.shape[1])
        )
    return float(ridges[np.argmax(np.nan_to_num(evidence, nan=-np.inf))])


def _design(problem: Problem, bases: Float32Array, marginal: Marginal, rows: slice) -> Float32Array:
    """Principal functions of the dictionary on rows, (n, k), each in units of its prior."""
    part = problem.coded[0]
    features = part.features[:, 0]
    roots = np.sqrt(marginal.weights[features])[:, :, None]
    deviations, right = np.linalg.svd(roots * bases, full_matrices=False)[1:]
    variances = deviations**2
    smallest = SMALLEST_VARIANCE_SHARE * variances.max(initial=0.0)
    if variances.size > MOST_FUNCTIONS:
        smallest = max(smallest, np.sort(variances, axis=None)[-MOST_FUNCTIONS - 1])
    columns = [
        (own @ directions[kept].T)[codes]
        for own, directions, kept, codes in zip(
            bases, right, variances > smallest, part.codes[features, rows], strict=True
        )
    ]
    return np.concatenate(columns, axis=1)


def _log_evidence(
    design: Float32Array, masses: FloatArray, slope: FloatArray, hessian: FloatArray,
    ridges: FloatArray,
) -> FloatArray:  # fmt: skip
    """Log evidence of every ridge, up to a constant, for one output."""
    precision = masses * hessian
    total = precision.sum()
    if not total > 0:
        return np.full(len(ridges), np.nan)
    pulls = -masses * slope  # precision times working response
    scaled = design * np.sqrt(precision)[:, None].astype(np.float32)
    means, pull = precision @ design / total, pulls.sum() / total
    square = (scaled.T @ scaled).astype(np.float64) - total * np.outer(means, means)
    sums = design.T @ (pulls - pull * precision)
    known = precision > 0
    whole = (pulls[known] ** 2 / precision[known]).sum() - total * pull**2
    values, vectors = np.linalg.eigh(square)
    values, parts = values.clip(0.0), (vectors.T @ sums) ** 2
    left = whole - (parts / (values + ridges[:, None])).sum(1)
    volume = np.log1p(values / ridges[:, None]).sum(1)
    evidence: FloatArray = -0.5 * masses.sum() * np.log(left) - 0.5 * volume
    return evidence


def measures(problem: Problem) -> tuple[Marginal, Marginal]:
    """Measures of all features on the nodes of main effects and on the nodes of pairs.

    Positions blend ranks and values. They are ranks if the curvature of the loss is unbounded:
    Newton steps of the smooth start that are free to grow in the tails would go too far there.
    """
    axes = problem.encoder.axes
    measure = Marginal.of if problem.objective.steep else Marginal.blended
    return measure(axes[1]), measure(axes.get(2, axes[1]))


def zero_start(problem: Problem, constants: FloatArray) -> Tables:
    """Return grids of zeros with the given intercepts (K,)."""
    axes = problem.encoder.axes
    fine, coarse = (max(a.n_nodes for a in order) for order in (axes[1], axes.get(2, axes[1])))
    n_outputs, n_mains = len(constants), len(problem.coded[0].features)
    n_pairs = len(problem.coded[1].features) if len(problem.coded) > 1 else 0
    mains = np.zeros((n_outputs, n_mains, fine, 1), np.float32)
    pairs = np.zeros((n_outputs, n_pairs, coarse, coarse), np.float32)
    return Tables([mains, pairs], constants)


def smooth_starts(
    problem: Problem, l2: float | None, limits: Limits, workers: Workers
) -> list[Tables]:
    """Smooth start of every bag; pairs are solved on fewer nodes than they grow on."""
    fine, coarse = measures(problem)
    solved: list[Dictionary] = [_main_dictionary(problem, fine, l2)]
    coded = [problem.coded[0]]
    for part in problem.coded[1:]:
        coarser, codes = coarsen(coarse, part.codes, SOLVED_PAIR_NODES)
        solved.append(PairDictionary(coarser, part.features))
        solved[1].forget(are_frozen(part.features.tolist(), problem))
        coded.append(CodedComponents(codes, part.features, coarser.n_nodes))
    ridge = RidgeStart(solved, coded, problem.rows, problem.objective, l2)
    best = ridge.fit(problem.best_constant, workers, limits)
    mains = solved[0].tables(best.coefficients[0])
    mains = _shaped_mains(mains, problem)[:, :, None]
    pairs = np.empty((0, coarse.n_nodes, coarse.n_nodes, len(best.intercepts)), np.float32)
    for part in problem.coded[1:]:
        tables = PairDictionary(coarse, part.features).tables(best.coefficients[1])
        pairs = tables.reshape(-1, *pairs.shape[1:])
    starts = []
    for lanes in np.split(np.arange(len(best.intercepts)), problem.n_bags):
        by_order = [np.moveaxis(part[..., lanes], -1, 0) for part in (mains, pairs)]
        starts.append(Tables(by_order, best.intercepts[lanes].astype(np.float64)))
    return starts


def _main_dictionary(problem: Problem, marginal: Marginal, l2: float | None) -> MainDictionary:
    """Functions of the main effects; unless ``l2`` is given, their ridge is the evident one."""
    features = problem.coded[0].features
    mains = MainDictionary(marginal, features[:, 0])
    mains.forget(are_frozen(features.tolist(), problem))
    if l2 is None:
        few = float(few_rows(np.array(problem.distinct.size)))
        mains.penalise(evident_ridge(problem, mains.bases, marginal, few) / few)
    return mains


def _shaped_mains(tables: Float32Array, problem: Problem) -> Float32Array:
    """Project the main effects (n_features, M, n_lanes) that have a shape onto it, in place."""
    axes, shapes = problem.encoder.axes[1], problem.shapes
    for row, feature in enumerate(problem.coded[0].features[:, 0].tolist()):
        if feature in shapes:
            _project_lanes(tables[row], axes[feature], shapes[feature])
    return tables


def _project_lanes(table: Float32Array, axis: Axis, shape: str) -> None:
    """Project every lane of a main effect (M, n_lanes) onto a shape, in place."""
    for lane in range(table.shape[1]):
        known = table[: axis.n_nodes, lane].astype(np.float64)
        table[: axis.n_nodes, lane] = project_main(known, axis, shape)


PAIR_SCALE = 0.1  # prior size of pairs relative to main effects
RIDGE_ROWS, LARGEST_RIDGE_SHARE = 3.0, 0.01  # ridge in rows, and its largest share of all rows
SOLVED_PAIR_NODES = 32  # per feature of a pair, while solving
MAX_ITERATIONS, PATIENCE_ITERATIONS = 60, 4
LARGEST_COEFFICIENT = 1e6  # on the training scale
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
        return _products(self.bases, coefficients)

    def adjoint(self, tables: RealArray) -> RealArray:
        """Transpose of the linear map ``tables``."""
        return _products(self.bases.transpose(0, 2, 1), tables)


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
        along_second = _products(self.second, swapped).reshape(n_pairs, nodes, size, -1)
        swapped = along_second.transpose(0, 2, 1, 3).reshape(n_pairs, size, -1)
        return _products(self.first, swapped).reshape(n_pairs, nodes * nodes, -1)

    def adjoint(self, tables: RealArray) -> RealArray:
        """Transpose of the linear map ``tables``."""
        n_pairs, nodes, size = self.first.shape
        cells = tables.reshape(n_pairs, nodes, -1)
        along_first = _products(self.first.transpose(0, 2, 1), cells)
        along_first = along_first.reshape(n_pairs, size, nodes, -1)
        swapped = along_first.transpose(0, 2, 1, 3).reshape(n_pairs, nodes, -1)
        back = _products(self.second.transpose(0, 2, 1), swapped)
        return back.reshape(n_pairs, size, size, -1).transpose(0, 2, 1, 3)


def _products(matrices: Float32Array, others: RealArray) -> RealArray:
    """Products of matrices (n, M, D) and (n, D, R), added up in the same order on every processor.

    A BLAS adds in another order on another processor, and growth would make much of it.
    """
    products: RealArray = np.einsum("nij,njk->nik", matrices, others)
    return products


Dictionary = MainDictionary | PairDictionary


@dataclass
class BestCoefficients:
    """Best coefficients of every bag so far."""

    coefficients: list[RealArray]  # (..., n_bags * K), one per order
    intercepts: RealArray  # (n_bags * K,)

    def update(
        self, improved: BoolArray, coefficients: list[RealArray], intercepts: RealArray
    ) -> None:
        """Adopt the new values of the bags (n_bags,) that improved and have not run away.

        Without a penalty, coefficients of rows that can be told apart have no maximum.
        """
        sizes = [np.abs(new).reshape(-1, len(intercepts)).max(0, initial=0) for new in coefficients]
        is_near = np.max(sizes, axis=0) < LARGEST_COEFFICIENT  # false for NaN
        adopted = improved & is_near.reshape(len(improved), -1).all(1)
        lanes = np.repeat(adopted, len(intercepts) // len(improved))
        self.intercepts[lanes] = intercepts[lanes]
        for kept, new in zip(self.coefficients, coefficients, strict=True):
            kept[..., lanes] = new[..., lanes]


class RidgeStart:
    """Solves the ridge problems of all bags by conjugate gradients."""

    def __init__(
        self,
        dictionaries: Sequence[Dictionary],  # one per order
        coded: Sequence[CodedComponents],  # one per order
        rows: TrainingRows,
        objective: Objective,
        l2: float | None = None,  # as a share of the rows; by default worth a few rows
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
