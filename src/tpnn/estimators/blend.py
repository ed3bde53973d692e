"""Blend: mixtures of two solutions with the same components, weighed by held-out rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.anova.components import Component
from tpnn.search.select import HeldOut
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.solution import Solution

FIT_SHARES = tuple(share / 10 for share in range(11))  # candidate weights of the fitted core
MOVES = (0.0, 0.25, 0.5, 0.75, 1.0)  # candidate shares of the way to a better estimate
SMALLEST_LOSS = 1e-300
FARTHEST = 30.0  # standard errors: such a candidate counts for nothing


class Candidates:
    """Mixtures of two solutions with candidate weights, and their loss on held-out rows.

    The mean of the bags has less noise than a single bag, but every row is held out by few bags. So
    the loss of single bags is lowered by what the variance between bags adds to it. Only bags that
    have seen a row are compared on it: what they learned by heart is no noise.
    """

    def __init__(self, problem: Problem, fit: Solution, deep: Solution) -> None:
        held_out = HeldOut(problem, fit)
        self.one, self.other = (
            held_out,
            held_out.with_raw(_held_out_scores(problem, deep, held_out)),
        )
        rows = held_out.rows
        has_seen = (problem.rows.training[rows] > 0)[:, :, None]  # (n_held_out, n_bags, 1)
        has_seen |= ~has_seen.any(1, keepdims=True)  # no bag has learned such a row by heart
        n_seen = np.maximum(has_seen.sum(1), 1)
        one, other = (
            has_seen * (raw - (has_seen * raw).sum(1, keepdims=True) / n_seen[:, None])
            for raw in (problem.by_output(problem.raw_scores(each, rows)) for each in (fit, deep))
        )
        self.noise = [
            0.5 * float(held_out.weights @ (self.other.curvature * product.sum(1) / n_seen).sum(1))
            for product in (one * one, one * other, other * other)
        ]

    def at(self, share: float) -> HeldOut:
        """Held-out rows of the mixture in which the first solution has this weight."""
        return self.one.with_raw(_mean(self.one.raw, self.other.raw, share))

    def loss(self, share: float) -> float:
        """Return the expected loss of the mean of the bags."""
        weights = share**2, 2 * share * (1 - share), (1 - share) ** 2
        noise = sum(w * part for w, part in zip(weights, self.noise, strict=True))
        return self.at(share).loss - noise

    def best(self) -> tuple[float, float]:
        """Weight of the first solution, and its loss.

        It is the mean of all candidates, in which those count less that are worse by more than the
        standard error of the difference: few held-out rows do not decide for one side alone.
        """
        losses = np.array([self.loss(share) for share in FIT_SHARES])
        lowest = int(losses.argmin())
        best = self.at(FIT_SHARES[lowest])
        errors = np.array([best.change(self.at(share).raw)[1] for share in FIT_SHARES])
        z = (losses - losses[lowest]) / np.maximum(errors, SMALLEST_LOSS)
        chances = np.exp(-0.5 * np.minimum(z, FARTHEST) ** 2)
        share = float(chances @ FIT_SHARES / chances.sum())
        return share, self.loss(share)


def _held_out_scores(problem: Problem, solution: Solution, held_out: HeldOut) -> FloatArray:
    return problem.raw_scores(solution, held_out.rows, held_out.lanes)


def _mean(one: FloatArray, other: FloatArray, share: float) -> FloatArray:
    return share * one + (1 - share) * other


@dataclass(frozen=True)
class Blend:
    """The mixture of a smooth fit and deep trees that is best on held-out rows.

    The fit has main effects and pairs. Components of more features have a weight of their own: as
    they are pure, they do not stand in for what the fit knows.
    """

    solution: Solution
    share: float  # of the trees in main effects and pairs, and in the remainder
    of_higher: float  # of the trees in components of more features
    loss: float

    @classmethod
    def of(cls, problem: Problem, fit: Solution, deep: Solution) -> Blend:
        """Choose the weights, one after the other; a remainder goes with all of the trees."""
        share, loss = Candidates(problem, fit, deep).best()
        blend, rest = mixed(fit, deep, share), deep.remainder
        if rest is not None:
            rest *= np.float32(1 - share)
            return cls(replace(blend, remainder=rest), 1 - share, 1 - share, loss)
        higher = [len(component) > 2 for component in blend.components]
        if not any(higher):
            return cls(blend, 1 - share, 1 - share, loss)

        def weighted(weight: float) -> Solution:
            each = zip(higher, blend.tables, deep.tables, strict=True)
            tables = [weight * other if is_higher else one for is_higher, one, other in each]
            return replace(blend, tables=tables)

        weight, loss = Candidates(problem, weighted(1.0), weighted(0.0)).best()
        return cls(weighted(weight), 1 - share, weight, loss)

    def worth_of_rest(self, problem: Problem) -> float:
        """Relative rise of the held-out loss without the remainder."""
        without = replace(self.solution, remainder=None)
        between = Candidates(problem, self.solution, without)
        loss = between.loss(1.0)
        return (between.loss(0.0) - loss) / max(abs(loss), SMALLEST_LOSS)

    def words(self, sizes: Mapping[Component, float]) -> str:
        """Say what a mixture is made of; trees that found nothing are one constant."""
        if not sizes:
            return f"{1 - self.share:.0%} main effects, no deep trees"
        higher = f" ({self.of_higher:.0%} beyond pairs)" if self.of_higher != self.share else ""
        return f"{self.share:.0%} deep trees{higher}"


def mixed(fitted: Solution, deep: Solution, share: float) -> Solution:
    """Mean of two solutions with the same components; the first has the given weight."""
    tables = zip(fitted.tables, deep.tables, strict=True)
    return replace(
        fitted,
        intercepts=_mean(fitted.intercepts, deep.intercepts, share),
        tables=[_mean(one, other, share) for one, other in tables],
    )


def moved(problem: Problem, better: Solution, solution: Solution) -> Solution:
    """Move a solution as far towards a better estimate as held-out rows allow.

    They have decided when growth stopped, which favours the solution as it is. So the move goes on
    until it is worse than the best one by more than the standard error of the difference. Nor may
    single bags get worse by more: what their mean gains is a parabola, of no use far away.
    """
    between = Candidates(problem, better, solution)
    changes = [between.at(0.0).change(between.at(share).raw) for share in MOVES]
    shares = [share for share, change in zip(MOVES, changes, strict=True) if change[0] <= change[1]]
    losses = [between.loss(share) for share in shares]
    best = between.at(shares[int(np.argmin(losses))])
    errors = [best.change(between.at(share).raw)[1] for share in shares]
    near = [loss - min(losses) <= error for loss, error in zip(losses, errors, strict=True)]
    return mixed(better, solution, max(compress(shares, near)))
