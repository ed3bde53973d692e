"""Selection: which components held-out rows tell from noise, and in which order."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np

from tpnn._utils.arrays import BoolArray, FloatArray, RealArray
from tpnn.anova.components import Component, ComponentSet
from tpnn.loss.objectives import Objective
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.solution import Limits, Solution

ENOUGH_HELD_OUT_ROWS = 200_000  # bags beyond these add little


class HeldOut:
    """Raw scores and losses of the held-out rows of all bags."""

    def __init__(
        self,
        problem: Problem,
        solution: Solution,
        counted: BoolArray | None = None,  # (n,): rows that count; None for all
    ) -> None:
        self.objective, self.codes = problem.objective, problem.codes
        self.components, self.tables = solution.components, solution.tables
        validation = problem.rows.validation
        if counted is not None:
            validation = validation * counted[:, None]
            validation = validation * (validation.shape[1] / validation.sum())
        n_rows = np.cumsum(np.count_nonzero(validation, 0))
        validation = validation[:, : int(np.searchsorted(n_rows, ENOUGH_HELD_OUT_ROWS)) + 1]
        self.bags, self.rows = np.nonzero(validation.T)
        self.weights = validation[self.rows, self.bags].astype(np.float64) / validation.shape[1]
        n_outputs = self.objective.n_outputs
        self.lanes = self.bags[:, None] * n_outputs + np.arange(n_outputs)
        self.y: RealArray = problem.rows.y[self.rows]
        self.raw = problem.raw_scores(solution, self.rows, self.lanes)
        self._score()

    def _score(self) -> None:
        self.losses = self._losses(self.raw)
        self.curvature = self.objective.slopes(self.y, self.raw, self.weights[:, None])[1]

    @property
    def loss(self) -> float:
        """Mean loss."""
        return float(self.weights @ self.losses)

    def with_raw(self, raw: FloatArray) -> HeldOut:
        """Return the same rows with other raw scores (n_held_out, K)."""
        new = copy(self)
        new.raw = raw
        new._score()
        return new

    def reported(self, problem: Problem, objective: Objective) -> HeldOut:
        """Return the same rows in the user's unit, with losses as they are reported.

        ``objective`` is that of the task, which no dispersion has divided.
        """
        new, relative = copy(self), objective.is_relative
        scale = np.tile(np.broadcast_to(problem.scale, objective.n_outputs), problem.n_bags)
        new.objective = objective.reported(float(problem.scale[0]))
        new.y = self.y * (np.exp(problem.shift) if relative else problem.scale)
        new.raw = problem.shift + self.raw if relative else problem.scale * self.raw
        new.tables = [scale * table for table in self.tables]
        new._score()
        return new

    def values(self, index: int) -> FloatArray:
        """Values of one component on the held-out rows, (n_held_out, K)."""
        return self.codes.values(self.components[index], self.tables[index], self.rows, self.lanes)

    def averaged_noise(self, index: int) -> float:
        """Loss that a component's noise adds to each bag but not to the mean of the bags."""
        table = self.tables[index]
        by_bag = table.reshape(*table.shape[:-1], -1, self.lanes.shape[1])
        variance = by_bag.var(-2)[self.codes.cells(self.components[index], self.rows)]
        return float(0.5 * self.weights @ (self.curvature * variance).sum(1))

    def change(self, raw: FloatArray) -> tuple[float, float]:
        """Mean change of the loss if the raw scores are ``raw``, and its standard error.

        For the standard error, a row that several bags hold out counts once.
        """
        difference = self._losses(raw) - self.losses
        mean = float(self.weights @ difference)
        deviations = np.bincount(self.rows, self.weights * (difference - mean))
        return mean, float(np.sqrt(deviations @ deviations))

    def _losses(self, raw: FloatArray) -> FloatArray:
        losses: FloatArray = self.objective.losses(self.y, raw, self.weights[:, None])[:, 0]
        return losses


SMALLEST_SIZE = 1e-9  # of the largest component; less is the rounding of zero
N_STANDARD_ERRORS_CLEAR = 3.0  # a contribution of at least this size is not noise


@dataclass(frozen=True)
class Selection:
    """Components from best to worst, and how many of them to keep."""

    order: list[Component]  # best first; with heredity each comes after its subsets
    losses: FloatArray  # (n_components,): held-out loss of the best 1, 2, ...; NaN if time ran out
    errors: FloatArray  # (n_components,): standard error of each loss less the last one
    chosen: int  # number of components to keep

    @classmethod
    def of_all(cls, order: Iterable[Component], chosen: int | None = None) -> Selection:
        """Components in a given order, none of them scored; by default all are kept."""
        listed = list(order)
        return cls(listed, np.empty(0), np.empty(0), chosen or len(listed))

    @property
    def kept(self) -> ComponentSet:
        """The components to keep."""
        return ComponentSet(tuple(self.order[: self.chosen]))


@dataclass(frozen=True, kw_only=True)
class Keep:
    """How many components to keep."""

    method: str  # "noise" drops what noise explains, "one_se" what costs little, "none" nothing
    most: int | None  # largest number of components
    heredity: bool  # whether the subsets of a kept component are kept
    tolerance: float  # standard errors that dropping noise may cost
    certain: frozenset[Component]  # components that are not noise, whatever held-out rows say
    required: frozenset[Component]  # that every model has; with heredity their subsets too

    def drops_none_of(self, n_components: int) -> bool:
        """Whether all of so many components are kept, whatever the held-out rows say."""
        return self.method == "none" and n_components <= (self.most or n_components)

    @classmethod
    def read(
        cls,
        *,
        method: str,
        most: int | None,
        heredity: bool,
        may_be_noise: bool,
        certain: Iterable[Component],
        required: Iterable[Component],
    ) -> Keep:
        """Read an estimator's parameters; "auto" drops noise where there may be some."""
        if method == "auto":
            method = "noise" if may_be_noise else "none"
        return cls(
            method=method,
            most=most,
            heredity=heredity,
            tolerance=float(may_be_noise),
            certain=frozenset(certain),
            required=frozenset(required),
        )


KEEP_ALL = Keep(
    method="none",
    most=None,
    heredity=False,
    tolerance=0.0,
    certain=frozenset(),
    required=frozenset(),
)


def required_components(
    required: tuple[Component, ...], heredity: bool, most: int | None
) -> ComponentSet:
    """Return the required components, with heredity their subsets too; refuse too many."""
    needed = ComponentSet(required)
    needed = needed.with_subsets() if heredity else needed
    if most is not None and most < len(needed):
        raise ValueError(
            "max_components: must cover all required interactions, with heredity their subsets "
            f"too, and linear and random features, found {most} for {len(needed)} of them. Raise "
            "max_components, or require fewer."
        )
    return needed


@dataclass(frozen=True)
class Ranked:
    """Components, best first."""

    indices: list[int]  # positions of the components in the solution
    clarity: FloatArray  # (n_components,): contribution in standard errors; raised if certain
    noise: FloatArray  # (n_components,): loss that its noise adds to each bag, not to their mean
    n_useful: int  # those after them are zero everywhere, and nobody asked for them


def select(
    held_out: HeldOut,
    keep: Keep,
    limits: Limits | None = None,
) -> Selection:
    """Rank the components of a solution, and count those that ``keep`` asks for.

    Where ``limits`` are reached, the components not yet ranked follow those that contribute, the
    loss of the sparser models is NaN, and none of these is chosen unless ``keep`` allows no more.
    """
    limits = limits or Limits()
    components = [tuple(sorted(s)) for s in held_out.components]
    ranked = _ranked(held_out, components, keep, limits)
    changes = np.array(_changes(held_out, ranked, limits))  # (n_components, 2)
    order = [components[index] for index in ranked.indices]
    losses, errors = held_out.loss + changes[:, 0], changes[:, 1]
    whole = Selection(order, losses, errors, len(order))
    return replace(whole, chosen=_chosen(whole, ranked, keep))


def ranking(held_out: HeldOut, keep: Keep) -> list[Component]:
    """Components by their contribution to the held-out loss, best first; required ones lead."""
    components = [tuple(sorted(s)) for s in held_out.components]
    ranked = _ranked(held_out, components, replace(keep, method="none"), Limits())
    return [components[index] for index in ranked.indices]


def _ranked(
    held_out: HeldOut,
    components: list[Component],
    keep: Keep,
    limits: Limits,
) -> Ranked:
    """Rank components by their contribution; where noise is dropped, what is clear comes first."""
    indices = range(len(components))
    noise, own, gain = np.zeros((3, len(components)))
    for index in indices:
        if limits.are_reached():
            break
        noise[index] = held_out.averaged_noise(index)
        mean, error = held_out.change(held_out.raw - held_out.values(index))
        gain[index] = mean + noise[index]
        with np.errstate(over="ignore"):  # an infinite clarity is clear
            own[index] = gain[index] / max(error, 1e-300)
    known = np.array([s in keep.certain | keep.required for s in components], bool)
    clarity = np.where(known, np.maximum(own, N_STANDARD_ERRORS_CLEAR), own)
    sizes = np.array([np.abs(table).max() for table in held_out.tables])
    is_useful = sizes > SMALLEST_SIZE * sizes.max(initial=0.0)
    is_useful |= [s in keep.required for s in components]
    if keep.heredity:  # subsets become as good as what contains them, and come first
        clarity, gain = _inherited(components, clarity), _inherited(components, gain)
        is_useful = _inherited(components, is_useful)
    is_clear = (clarity >= N_STANDARD_ERRORS_CLEAR) | (keep.method != "noise")
    order = sorted(
        indices,
        key=lambda i: (
            components[i] not in keep.required, not is_useful[i], not is_clear[i], -gain[i],
            keep.heredity * len(components[i]), -own[i],
            i,  # in canonical order, whatever the places of the columns
        ),
    )  # fmt: skip
    return Ranked(order, clarity[order], noise[order], int(is_useful.sum()))


def _changes(held_out: HeldOut, ranked: Ranked, limits: Limits) -> list[tuple[float, float]]:
    """Change of the loss, and its standard error, when only the best k components are kept.

    NaN for the sparser models where the limits are reached.
    """
    changes, raw, removed = [(0.0, 0.0)], held_out.raw, 0.0
    for place in reversed(range(1, len(ranked.indices))):
        if limits.are_reached():
            changes += [(np.nan, np.nan)] * place
            break
        raw = raw - held_out.values(ranked.indices[place])
        removed = removed + ranked.noise[place]
        mean, error = held_out.change(raw)
        changes.append((float(mean + removed), error))
    return changes[::-1]


def _chosen(whole: Selection, ranked: Ranked, keep: Keep) -> int:
    """Count the components that ``keep`` asks for: at least one, and at least the required ones."""
    clarity = ranked.clarity
    losses, errors, chosen = whole.losses, whole.errors, len(whole.order)
    if keep.method == "one_se":
        chosen = int(np.argmax(losses <= np.nanmin(losses) + errors)) + 1
    elif keep.method == "noise":
        clear = max(int((clarity >= N_STANDARD_ERRORS_CLEAR).sum()), 1)
        fits = losses <= losses[-1] + keep.tolerance * errors
        fits[: clear - 1] = False
        chosen = int(np.argmax(fits)) + 1
    n_required = sum(component in keep.required for component in whole.order)
    return max(min(chosen, keep.most or chosen, max(ranked.n_useful, 1)), n_required)


def _inherited(components: list[Component], values: FloatArray) -> FloatArray:
    """Give every component the largest value of those that contain it."""
    sets = [set(s) for s in components]
    return np.array([max(compress(values, (s <= t for t in sets))) for s in sets])
