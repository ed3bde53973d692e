"""LinearModel: the posterior of a group of components, and what it says of rows and of zero."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from tpnn._utils.arrays import BoolArray, FloatArray, IntArray
from tpnn.solvers.solution import Limits
from tpnn.uncertainty.design import Design
from tpnn.uncertainty.equations import (
    Blocks,
    ByFunctions,
    ByRows,
    Coefficients,
    Covariance,
    Equations,
    Factored,
    Seen,
    variances,
    widened,
)

MOST_FUNCTIONS = 800  # per group; divided by sqrt(n_outputs), so many outputs take the time of two
MOST_SHARED = 0.5  # share of a group that main effects may take; else they are not in all groups
ENOUGH_ROWS = 20_000  # to choose variances and for a Gram matrix
ENOUGH_LEFT_OUT = 2_000  # rows of a bag that say what the posterior is without them
FEW_ROWS = 0.6  # per function, below which equations of rows are faster to solve
PURPOSE = "bands"  # what a time limit may leave no time for
N_SWEEPS = 2  # over the groups, if there are several
N_GRADIENTS = 3  # steps of conjugate gradients if G is that of some rows
LARGEST_LOSS = 4.0  # of a posterior mean, relative to zeros; at most 1 in exact arithmetic


def groups(
    sizes: Sequence[int],
    orders: Sequence[int],
    strengths: Sequence[float],
    most: int,
    together: Collection[int] = (),
) -> list[list[int]]:
    """Numbers of the components of each group, with about ``most`` functions at most.

    Each group gets strong and weak interactions, so that the variances of a kind are pooled over
    the same mixture. A component takes its posterior from the first group that has it. Those that
    must be ``together`` are in all groups.

    >>> groups([2, 2, 3, 3, 3, 3], [1, 1, 2, 2, 2, 2], [9, 9, 1, 3, 2, 4], most=10)
    [[0, 1, 5, 4], [0, 1, 3, 2]]
    """
    shared = [number for number, order in enumerate(orders) if order == 1]
    if sum(sizes[number] for number in shared) > MOST_SHARED * most:
        shared = []
    shared = sorted({*shared, *together})
    others = [number for number in range(len(sizes)) if number not in set(shared)]
    others.sort(key=lambda number: (-strengths[number], number))
    room = max(most - sum(sizes[number] for number in shared), most // 4)
    n_groups = max(-(-sum(sizes[number] for number in others) // room), 1)
    grouped, taken = [list(shared) for _ in range(n_groups)], np.zeros(n_groups, np.intp)
    for number in others:
        emptiest = int(taken.argmin())
        grouped[emptiest].append(number)
        taken[emptiest] += sizes[number]
    return grouped


def most_functions(n_outputs: int) -> int:
    """Largest number of functions of a group."""
    return int(MOST_FUNCTIONS / np.sqrt(n_outputs))


@dataclass(eq=False)
class Group:
    """Some components, with their prior and the covariance of their coefficients."""

    numbers: list[int]  # of the components
    columns: IntArray  # (K,), places of their functions among all
    design: Design
    blocks: Blocks
    tau: FloatArray | None = None  # (n_blocks,), once they are chosen
    diagonal: FloatArray = field(default_factory=lambda: np.empty(0))  # (K,): D, prior precision
    covariance: Covariance = field(default_factory=lambda: Factored(np.empty((0, 0))))  # (G + D)^-1
    joint: Coefficients | None = None  # posterior of all of its coefficients
    # (K, m): how far the means of m draws of what is missing are from their mean, in the unit of
    # a root of their covariance
    between: FloatArray | None = None


class LinearModel:
    """Solves linear models of one output, each from the coefficients of the one before."""

    def __init__(
        self,
        design: Design,
        fitted: Sequence[FloatArray],  # (k,) of each component, to start from
        most: int,  # functions of a group
        together: Collection[int] = (),  # components that every group must have
    ) -> None:
        self.design, spans = design, design.spans
        scaled = [c / span.deviations for c, span in zip(fitted, spans, strict=True)]
        self.beta: FloatArray = np.concatenate([np.empty(0), *scaled])
        self.step = -(-len(design.codes.rows) // ENOUGH_ROWS)
        self.residual, self.precision = np.empty((2, 0))  # (n,) of each row
        sizes, orders = [span.size for span in spans], [len(span.factors) for span in spans]
        strengths, places = [float(c @ c) for c in fitted], design.places
        self.groups = []
        for numbers in groups(sizes, orders, strengths, most, together):
            columns = np.concatenate([places[number] for number in numbers])
            smaller = design.of(numbers)
            self.groups.append(Group(numbers, columns, smaller, Blocks.of(smaller.spans)))

    def solve(self, response: FloatArray, precision: FloatArray, limits: Limits) -> FloatArray:
        """Find the posterior given observations z (n,) and precisions P; return their fit (n,).

        Raises TimeoutError if the limits are reached, and LinAlgError if rounding has destroyed the
        solution: a posterior mean is no worse than zeros.
        """
        residual = response - self.design.values(self.beta)
        for sweep in range(N_SWEEPS if len(self.groups) > 1 else 1):
            for group in self.groups:
                limits.check(PURPOSE)
                if sweep == 0:
                    self._choose_variances(group, residual, precision)
                group.joint = self._posterior(group, residual, precision)
        with np.errstate(over="ignore", invalid="ignore"):  # NaN is refused below
            mean = np.average(residual, weights=precision)
            loss, loss_of_zeros = (precision @ rest**2 for rest in (residual - mean, response))
        if not loss <= LARGEST_LOSS * loss_of_zeros:
            raise np.linalg.LinAlgError("the posterior is lost in rounding")
        self.residual, self.precision = residual - mean, precision
        return response - residual + mean

    @property
    def posteriors(self) -> list[Coefficients]:
        """Posterior of each component, from the first group that has it."""
        found: dict[int, Coefficients] = {}
        for group in self.groups:
            for number, place in zip(group.numbers, group.design.places, strict=True):
                if number not in found and group.joint is not None:
                    found[number] = group.joint.of(place)
        return [found[number] for number in range(len(found))]

    def joint(self, numbers: Collection[int]) -> Coefficients:
        """Posterior of some components together, which the first group must have."""
        group = self.groups[0]
        if group.joint is None:
            raise ValueError("joint: there is none before solve() is called.")
        places = dict(zip(group.numbers, group.design.places, strict=True))
        return group.joint.of(np.concatenate([places[number] for number in numbers]))

    def add_robust(self, scores: RowScores) -> None:
        """Give the posteriors the covariance S D S + S M S, with M of the scores of rows.

        With M = G, which precisions claim, it is S.
        """
        for group in self.groups:
            design = replace(group.design, step=self.step)
            centre = group.design.sums(self.precision) / float(self.precision.sum())
            covariance, square = group.covariance.matrix, scores.square(design, centre)
            square[np.diag_indices_from(square)] += group.diagonal
            if group.joint is not None:
                group.joint = replace(group.joint, robust=covariance @ square @ covariance)

    def add_draws(self, draws: IntArray, count: int) -> None:
        """Add to the covariances that of the posterior means of single draws, by Rubin's rules.

        ``draws`` (n,) is the draw that a row belongs to, or -1. With m draws of covariance B,
        S + (1 + 1 / m) B is the covariance. One step leads from the mean of all draws to that of
        one: its rows differ little from all.
        """
        for group in self.groups:
            own, steps = group.diagonal * self.beta[group.columns], []
            for draw in range(count):
                precision = self.precision * np.where(draws < 0, 1.0, count * (draws == draw))
                right = _sums(group.design, self.residual, precision) - own
                steps.append(group.covariance.times(right))
            apart = np.transpose(steps) - np.mean(steps, axis=0)[:, None]
            group.between = apart * np.sqrt((1 + 1 / count) / (count - 1))
            if group.joint is not None and group.joint.robust is not None:
                robust = group.joint.robust + group.between @ group.between.T
                group.joint = replace(group.joint, robust=robust)

    def left_out(self, held_out: BoolArray, limits: Limits) -> FloatArray:
        """Posterior means (K, n_bags) without the rows (n, n_bags) that each bag holds out.

        Variances and centres are those of all rows. With the residuals r of the rows and their
        scaled functions A the means are lower by (S^-1 - A' A)^-1 A' r. Of many rows some stand
        for all in A' A.
        """
        means = np.repeat(self.beta[:, None], held_out.shape[1], axis=1)
        centres = [g.design.sums(self.precision) / float(self.precision.sum()) for g in self.groups]
        for bag, rows in enumerate(map(np.flatnonzero, held_out.T)):
            limits.check(PURPOSE)
            if not len(rows):
                continue
            codes, precision = self.design.codes.take(rows), self.precision[rows]
            some = np.arange(0, len(rows), -(-len(rows) // ENOUGH_LEFT_OUT) or 1)
            few, weights = codes.take(some), precision[some] * (len(rows) / max(len(some), 1))
            weighted = precision * self.residual[rows]
            for group, centre in zip(reversed(self.groups), reversed(centres), strict=True):
                right = replace(group.design, codes=codes, step=1).sums(weighted)
                seen = Seen(replace(group.design, codes=few, step=1), weights, centre)
                right -= weighted.sum() * centre
                try:
                    lost = group.covariance.without(seen, right)
                except np.linalg.LinAlgError:  # some rows that do not stand for all
                    lost = group.covariance.times(right)
                means[group.columns, bag] = self.beta[group.columns] - lost
        return means

    def _choose_variances(self, group: Group, residual: FloatArray, precision: FloatArray) -> None:
        """Let the evidence of some rows choose the variances; scale G up to all rows."""
        design, some = replace(group.design, step=self.step), precision[:: self.step]
        equations = _equations(design, residual[:: self.step], some, self.beta[group.columns])
        group.tau = variances(equations, group.blocks, group.tau)
        equations = equations.scaled(float(precision.sum()) / float(some.sum()))
        group.diagonal = group.blocks.repeated(1 / widened(equations, group.blocks, group.tau))
        group.covariance = equations.solved(group.diagonal).covariance

    def _posterior(self, group: Group, residual: FloatArray, precision: FloatArray) -> Coefficients:
        """Posterior of a group; its mean replaces the coefficients so far, also in ``residual``.

        The step from beta to beta_hat solves (G + D) step = X' P (z - X beta) - D beta.
        """
        before = self.beta[group.columns]
        right = _sums(group.design, residual, precision) - group.diagonal * before
        is_exact = self.step == 1
        change = group.covariance.times(right) if is_exact else _refined(group, right, precision)
        residual -= group.design.values(change)
        self.beta[group.columns] = before + change
        return Coefficients(before + change, group.covariance, group.diagonal)


@dataclass(frozen=True, eq=False)
class RowScores:
    """Slopes of the loss at held-out scores: what rows, or groups of rows, say by themselves."""

    slopes: FloatArray  # (n,), times the number of rows that a row stands for, over the dispersion
    masses: FloatArray  # (n,), that number
    groups: IntArray | None  # (n,), increasing, where the user named them

    def square(self, design: Design, centre: FloatArray) -> FloatArray:
        """Covariance (K, K) of their sum: of the functions, centred, times the slopes.

        Copies of a row are independent. Of many rows without groups some stand for all.
        """
        if self.groups is not None:
            return self._by_group(replace(design, step=1), centre, self.groups)
        all_weights = self.slopes**2 / np.maximum(self.masses, SMALLEST_MASS)
        weights = all_weights[design.rows]
        if not weights.any():  # every row is met exactly
            return np.zeros((design.size, design.size))
        factor = float(all_weights.sum()) / max(float(weights.sum()), SMALLEST_MASS)
        return factor * design.square(weights, centre)

    def _by_group(self, design: Design, centre: FloatArray, groups: IntArray) -> FloatArray:
        square, rest, last = np.zeros((design.size, design.size)), np.zeros(design.size), -1
        for low in range(0, len(groups), ROWS_PER_BLOCK):
            high = min(low + ROWS_PER_BLOCK, len(groups))
            rows = (design.block(low, high) - centre) * self.slopes[low:high, None]
            starts = np.flatnonzero(np.diff(groups[low:high], prepend=-1))
            sums = np.add.reduceat(rows, starts)
            if groups[low] == last:
                sums[0] += rest
            else:
                square += np.outer(rest, rest)
            square += sums[:-1].T @ sums[:-1]
            rest, last = sums[-1], groups[high - 1]
        n_groups = int(groups[-1]) + 1
        square += np.outer(rest, rest)
        return square * n_groups / max(n_groups - 1, 1)


def _equations(
    design: Design, residual: FloatArray, precision: FloatArray, beta: FloatArray
) -> Equations:
    """Equations of all coefficients of a design, given what coefficients (K,) leave of z (n,)."""
    if len(precision) < FEW_ROWS * design.size:
        rows = design.scaled_rows(precision)
        centred = residual - np.average(residual, weights=precision)
        return ByRows(rows, np.sqrt(precision) * centred + rows @ beta)
    gram = design.gram(precision)
    return ByFunctions(gram, _sums(design, residual, precision) + gram @ beta)


def _sums(design: Design, values: FloatArray, precision: FloatArray) -> FloatArray:
    """X' P v, (K,), with v centred under P; so X need not be."""
    return design.sums(precision * (values - np.average(values, weights=precision)))


def _refined(group: Group, right: FloatArray, precision: FloatArray) -> FloatArray:
    """Solution of (G + D) x = right for the G of all rows, by conjugate gradients.

    The solution for the G of some rows is the preconditioner.
    """
    solution, rest = np.zeros(len(right)), right.copy()
    direction, size = np.zeros(len(right)), 1.0
    for number in range(N_GRADIENTS):
        downhill = group.covariance.times(rest)
        before, size = size, float(rest @ downhill)
        direction = downhill + (size / before if number and before > 0 else 0.0) * direction
        image = _sums(group.design, group.design.values(direction), precision)
        image += group.diagonal * direction
        length = size / max(float(direction @ image), np.finfo(float).tiny)
        solution, rest = solution + length * direction, rest - length * image
    return solution


ENOUGH_JOINT_ROWS = 4000
ROWS_PER_BLOCK = 1024
BIAS_SHARE = 0.5  # of the rough rest that may be bias
NEIGHBOUR_WIDTHS = {1: 0.03, 2: 0.06, 3: 0.1}  # of the pooling kernel, on the rank scale
SMALLEST_MASS = 1e-12
MOST_POOLED = 1_000  # nodes of a kernel, of which more say nothing more


@dataclass(frozen=True, eq=False)
class RowErrors:
    """Standard errors (n, K) of the raw scores of every ``step``-th distinct row."""

    step: int
    errors: FloatArray


def row_errors(
    models: Sequence[LinearModel],  # one for each output
    rests: Sequence[FloatArray],  # (M_1, ..., M_d, n_bags, K), rough rest of each component
    remainder: FloatArray | None,  # (n, n_bags, K), of all rows
    trained: float,  # share q of the rows that a bag trains on
) -> RowErrors:
    """Errors of some rows, in the unit of the training scale."""
    whole = models[0].design
    step = -(-len(whole.codes.rows) // ENOUGH_JOINT_ROWS)
    with np.errstate(over="ignore"):  # infinite errors are refused with the posteriors
        squares = np.stack([_smooth_variances(model, step) for model in models], axis=1)
    rough = _rough_variances(whole, rests, remainder, step, trained)
    return RowErrors(step, np.sqrt(squares + rough))


def _smooth_variances(model: LinearModel, step: int) -> FloatArray:
    """Variance (n,) of the intercept and of the smooth parts of all components."""
    squares, seen = np.array(1 / float(model.precision.sum())), set[int]()
    for group in model.groups:
        squares = squares + _group_variances(group, seen, step)
        seen |= set(group.numbers)
    return squares


def _group_variances(group: Group, seen: set[int], step: int) -> FloatArray:
    """Variance (n,) of the components of a group that no group before it has."""
    new = [place for place, number in enumerate(group.numbers) if number not in seen]
    places = group.design.places
    columns = np.concatenate([np.empty(0, np.intp), *(places[place] for place in new)])
    design = replace(group.design.of(new), step=step)
    covariance = group.covariance.of(columns)
    n_rows = len(design.codes.rows[design.rows])
    squares = np.empty(n_rows)
    for low in range(0, n_rows, ROWS_PER_BLOCK):
        high = min(low + ROWS_PER_BLOCK, n_rows)
        block = design.block(low, high)
        squares[low:high] = covariance.squares(block)
        if group.between is not None:
            squares[low:high] += ((block @ group.between[columns]) ** 2).sum(1)
    return squares


def _rough_variances(
    design: Design,
    rests: Sequence[FloatArray],
    remainder: FloatArray | None,
    step: int,
    trained: float,
) -> FloatArray:
    """Variance of the rough parts and the remainder of each output (K,), its mean over the rows.

    With a single bag, or bags of the same rows, all of the rest may be wrong, as in
    ``rough_variance``.
    """
    rows = slice(None, None, step)
    total = sum(
        design.codes.values(component, rest, rows)
        for component, rest in zip(design.components, rests, strict=True)
    )  # (n, n_bags, K)
    if remainder is not None:
        total = total + remainder[rows]
    if np.shape(total)[1] == 1 or trained == 1:
        return np.asarray((np.asarray(total).mean(1) ** 2).mean(0))
    return np.asarray(trained / (1 - trained) * np.var(total, axis=1, ddof=1).mean(0))


def rough_variance(rest: FloatArray, weights: Sequence[FloatArray], trained: float) -> FloatArray:
    """Variance of the rough rest (M_1, ..., M_d, n_bags, K), pooled over neighbouring nodes.

    ``trained`` is the share q of the rows that a bag trains on. With a single bag, or bags that
    all train on the same rows, all of the rest may be wrong.
    """
    mean, n_bags = rest.mean(-2), rest.shape[-2]
    if n_bags == 1 or trained == 1:
        return _pooled(mean**2, weights)
    jackknife = trained / (1 - trained) * rest.var(-2, ddof=1)
    return _pooled(jackknife + BIAS_SHARE**2 * mean**2, weights)


def _pooled(values: FloatArray, weights: Sequence[FloatArray]) -> FloatArray:
    """Mean of a grid over neighbouring nodes, by mass and by a normal kernel on their ranks.

    More nodes than ``MOST_POOLED`` share as many intervals of ranks.
    """
    width = NEIGHBOUR_WIDTHS[min(len(weights), max(NEIGHBOUR_WIDTHS))]
    for axis, by_node in enumerate(weights):
        masses = np.maximum(by_node, SMALLEST_MASS)
        ranks = np.cumsum(masses) - masses / 2
        values, groups = np.moveaxis(values, axis, 0), np.arange(len(masses))
        if len(masses) > MOST_POOLED:
            groups = np.unique((ranks / ranks[-1] * MOST_POOLED).astype(np.intp), False, True)[1]
            starts = np.flatnonzero(np.diff(groups, prepend=-1))
            moments = np.add.reduceat(masses * ranks, starts)
            values = np.add.reduceat((masses * values.T).T, starts)
            masses = np.add.reduceat(masses, starts)
            ranks, values = moments / masses, (values.T / masses).T
        kernel = np.exp(-0.5 * ((ranks[:, None] - ranks) / width) ** 2) * masses
        kernel /= kernel.sum(1, keepdims=True)
        values = np.moveaxis(np.tensordot(kernel, values, (1, 0))[groups], 0, axis)
    return values


DETECTABLE = 10.0  # information of the best known coefficient, relative to its prior precision
DETECTABLE_OF_LEVELS = 1000.0
LARGEST_COMBINED = 0.999  # p-value; a larger one would outweigh any small one
SMALLEST_SHARE = 1e-9  # of the largest information; less is rounding
SMALLEST_P_VALUE = 1e-300
LARGEST_VALUE = 1e6  # in units of the largest weight; the probability beyond it is zero
N_STEPS, SMALLEST_STEP = 50, 1e-14  # of Newton's method, and relative to where it stands
NEAR_MEAN = 1e-4  # distance from the mean, in standard deviations, at which the tail has a limit


class ZeroTest(NamedTuple):
    """Whether a component is zero, or several are.

    Parameters
    ----------
    degrees : float
        Effective degrees of freedom, summed over the outputs.
    p_value : float
        The smallest of the outputs, times their number.
    """

    degrees: float
    p_value: float

    @classmethod
    def of(cls, outputs: Sequence[Coefficients], are_levels: bool = False) -> ZeroTest:
        """Test of the coefficients of each output of a component."""
        smallest = min(p_value(output, are_levels) for output in outputs)
        return cls(sum(map(degrees_of_freedom, outputs)), min(len(outputs) * smallest, 1.0))


def degrees_of_freedom(posterior: Coefficients) -> float:
    """Effective degrees of freedom: trace(I - S D), the coefficients that the data determine."""
    return float((1 - posterior.covariance.variances * posterior.precision).sum())


def p_value(posterior: Coefficients, are_levels: bool = False) -> float:
    """P-value of the hypothesis that all coefficients are zero.

    Of levels without order a rare one may carry all of the effect. There two tests are combined by
    Cauchy's rule (Liu and Xie, 2020), of which one has nearly equal weights for all directions.
    """
    usual = _quadratic_test(posterior, DETECTABLE)
    if not are_levels:
        return usual
    both = np.array([usual, _quadratic_test(posterior, DETECTABLE_OF_LEVELS)])
    if both.min() == 1:  # there is no information
        return 1.0
    mean = (1 / np.tan(np.pi * both.clip(max=LARGEST_COMBINED))).mean()
    return float(np.arctan2(1.0, mean) / np.pi)


def _quadratic_test(posterior: Coefficients, detectable: float) -> float:
    """Probability of a Q at least as large if the component is zero; 1 without information."""
    if not len(posterior.mean):
        return 1.0
    inverse = np.linalg.inv(posterior.covariance.matrix)
    information = inverse - np.diag(posterior.precision)
    a, vectors = np.linalg.eigh((information + information.T) / 2)
    kept = a > SMALLEST_SHARE * max(a[-1], 0.0)
    if not kept.any():
        return 1.0
    a, vectors = a[kept], vectors[:, kept]
    score, weights = (inverse @ posterior.mean) @ vectors, 1 / (a + a[-1] / detectable)
    spread = a * weights
    if posterior.robust is not None:
        scaled = (inverse @ vectors) * np.sqrt(weights)
        own = (vectors * np.sqrt(weights)).T @ (posterior.precision[:, None] * vectors)
        square = scaled.T @ posterior.robust @ scaled - own * np.sqrt(weights)
        spread = np.linalg.eigvalsh(square).clip(SMALLEST_SHARE * spread.max())
    return chi_square_tail(spread, float(weights @ score**2))


def chi_square_tail(weights: FloatArray, value: float) -> float:
    """P(sum_i w_i z_i^2 >= value) for standard normal z, by the saddlepoint of Kuonen (1999).

    With K(t) = -sum_i log(1 - 2 w_i t) / 2 and K'(t) = value,

        P = 1 - Phi(r + log(v / r) / r),  r = sign(t) sqrt(2 (t value - K)),  v = t sqrt(K'').

    >>> round(chi_square_tail(np.array([1.0]), 3.841), 2), chi_square_tail(np.ones(2), 0.0)
    (0.05, 1.0)
    """
    from scipy.special import ndtr

    if value <= 0:
        return 1.0
    value, w = value / weights.max(), weights / weights.max()
    if value > LARGEST_VALUE:
        return SMALLEST_P_VALUE
    deviation = float(np.sqrt(2 * (w**2).sum()))
    if abs(value - w.sum()) < NEAR_MEAN * deviation:  # the formula is 0 / 0 at the mean
        sides = (w.sum() + side * NEAR_MEAN * deviation for side in (-2.0, 2.0))
        return float(np.mean([chi_square_tail(w, side) for side in sides]))
    t = _saddlepoint(w, value)
    cumulant = -0.5 * np.log1p(-2 * w * t).sum()
    curvature = (2 * (w / (1 - 2 * w * t)) ** 2).sum()
    r = np.sign(t) * np.sqrt(2 * (t * value - cumulant))
    v = t * np.sqrt(curvature)
    return float(np.clip(ndtr(-(r + np.log(v / r) / r)), SMALLEST_P_VALUE, 1.0))


def _saddlepoint(w: FloatArray, value: float) -> float:
    """Solve sum_i w_i / (1 - 2 w_i t) = value for weights of at most one, the largest of one.

    One over the left side is concave and falls, and it is nearly a line: Newton's method, started
    above the solution, comes down to it in a few steps.
    """
    t = (1 - 1 / value) / 2
    for _ in range(N_STEPS):
        terms = w / (1 - 2 * w * t)
        step = terms.sum() * (1 - terms.sum() / value) / (2 * (terms**2).sum())
        t += min(step, 0.0)
        if step > -SMALLEST_STEP * abs(t):
            break
    return float(t)
