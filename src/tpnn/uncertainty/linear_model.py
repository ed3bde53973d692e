"""LinearModel: the joint posterior of the coefficients of one output, group by group.

Components are divided into groups, so that no matrix gets too large. The posterior of a group is
joint for its components, given the means of all others. Main effects belong to every group, because
they share features with all interactions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.solvers.limits import Limits
from tpnn.uncertainty.design import Design
from tpnn.uncertainty.equations import (
    ByFunctions,
    ByRows,
    Coefficients,
    Covariance,
    Equations,
    Factored,
)
from tpnn.uncertainty.variances import Blocks, variances, widened

MOST_FUNCTIONS = 800  # per group; divided by sqrt(n_outputs), so many outputs take the time of two
MOST_SHARED = 0.5  # share of a group that main effects may take; else they are not in all groups
ENOUGH_ROWS = 20_000  # to choose variances and for a Gram matrix
FEW_ROWS = 0.6  # per function, below which equations of rows are faster to solve
PURPOSE = "bands"  # what a time limit may leave no time for
N_SWEEPS = 2  # over the groups, if there are several
N_GRADIENTS = 3  # steps of conjugate gradients if G is that of some rows
LARGEST_LOSS = 4.0  # of a posterior mean, relative to zeros; at most 1 in exact arithmetic


def groups(
    sizes: Sequence[int], orders: Sequence[int], strengths: Sequence[float], most: int
) -> list[list[int]]:
    """Numbers of the components of each group, with about ``most`` functions at most.

    Each group gets strong and weak interactions, so that the variances of a kind are pooled over
    the same mixture. A component takes its posterior from the first group that has it.

    >>> groups([2, 2, 3, 3, 3, 3], [1, 1, 2, 2, 2, 2], [9, 9, 1, 3, 2, 4], most=10)
    [[0, 1, 5, 4], [0, 1, 3, 2]]
    """
    shared = [number for number, order in enumerate(orders) if order == 1]
    if sum(sizes[number] for number in shared) > MOST_SHARED * most:
        shared = []
    others = [number for number in range(len(sizes)) if number not in set(shared)]
    others.sort(key=lambda number: (-strengths[number], number))
    room = most - sum(sizes[number] for number in shared)
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


class LinearModel:
    """Solves linear models of one output, each from the coefficients of the one before."""

    def __init__(
        self,
        design: Design,
        fitted: Sequence[FloatArray],  # (k,) of each component, to start from
        most: int,  # functions of a group
    ) -> None:
        self.design, spans = design, design.spans
        scaled = [c / span.deviations for c, span in zip(fitted, spans, strict=True)]
        self.beta: FloatArray = np.concatenate([np.empty(0), *scaled])
        self.step = -(-len(design.codes.rows) // ENOUGH_ROWS)
        self.posteriors: list[Coefficients] = []
        self.information = 0.0  # about the intercept
        sizes, orders = [span.size for span in spans], [len(span.factors) for span in spans]
        strengths, places = [float(c @ c) for c in fitted], design.places
        self.groups = []
        for numbers in groups(sizes, orders, strengths, most):
            columns = np.concatenate([places[number] for number in numbers])
            smaller = design.of(numbers)
            self.groups.append(Group(numbers, columns, smaller, Blocks.of(smaller.spans)))

    def solve(self, response: FloatArray, precision: FloatArray, limits: Limits) -> FloatArray:
        """Find the posterior given observations z (n,) and precisions P; return their fit (n,).

        Raises TimeoutError if the limits are reached, and LinAlgError if rounding has destroyed the
        solution: a posterior mean is no worse than zeros.
        """
        residual = response - self.design.values(self.beta)
        self.information = float(precision.sum())
        by_number: dict[int, Coefficients] = {}
        for sweep in range(N_SWEEPS if len(self.groups) > 1 else 1):
            by_number = {}
            for group in self.groups:
                limits.check(PURPOSE)
                if sweep == 0:
                    self._choose_variances(group, residual, precision)
                joint = self._posterior(group, residual, precision)
                each = [joint.of(place) for place in group.design.places]
                # The first group that has a component gives its posterior.
                by_number = dict(zip(group.numbers, each, strict=True)) | by_number
        self.posteriors = [by_number[number] for number in range(len(by_number))]
        with np.errstate(over="ignore", invalid="ignore"):  # NaN is refused below
            mean = np.average(residual, weights=precision)
            loss, loss_of_zeros = (precision @ rest**2 for rest in (residual - mean, response))
        if not loss <= LARGEST_LOSS * loss_of_zeros:
            raise np.linalg.LinAlgError("the posterior is lost in rounding")
        return response - residual + mean

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
