"""Selection: which fitted components the held-out rows can tell from noise.

Every bag holds out some rows. There the loss is computed with and without a component; the mean
difference is the component's contribution, and its spread over the rows gives a standard error.
What is kept is the mean of the bags, whose noise is smaller than that of each bag: half the
variance of the component over the bags, times the curvature of the loss, is added to its
contribution.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np

from tpnn._typing import FloatArray, IntArray
from tpnn.anova.components import Component, ComponentSet
from tpnn.model.model import AnovaModel
from tpnn.problem.problem import Problem
from tpnn.problem.solution import Solution

CLEAR = 3.0  # standard errors from which a contribution cannot be noise
ENOUGH = 200_000  # held-out rows; further bags add little


class HeldOut:
    """Scores of the held-out rows of the bags.

    Parameters
    ----------
    problem : Problem
        Coded rows, targets, bags.
    solution : Solution
        Tables of every component and bag.
    """

    def __init__(self, problem: Problem, solution: Solution) -> None:
        self.objective, self.tables = problem.objective, solution.tables
        validation = problem.rows.validation
        enough = int(np.searchsorted(np.cumsum(np.count_nonzero(validation, 0)), ENOUGH)) + 1
        validation = validation[:, :enough]
        self.bags, self.rows = np.nonzero(validation.T)
        self.weights = validation[self.rows, self.bags].astype(np.float64) / validation.shape[1]
        n_outputs = self.objective.n_outputs
        self.lanes = self.bags[:, None] * n_outputs + np.arange(n_outputs)
        self.y = problem.rows.y[self.rows]
        self.components = problem.ordered
        self.codes = {part.features.shape[1]: part.codes for part in problem.coded}
        raw = problem.rows.offset[self.rows] + solution.intercepts[self.lanes]
        for component in range(len(self.components)):
            raw = raw + self.values(component)
        self.raw: FloatArray = raw
        self.losses = self._losses(raw)
        self.curvature = self.objective.slopes(self.y, raw, self.weights[:, None])[1]

    @property
    def loss(self) -> float:
        """Mean loss."""
        return float(self.weights @ self.losses)

    def values(self, component: int) -> FloatArray:
        """Values of one component on the held-out rows, (n_held_out, K)."""
        cells = (codes[:, None] for codes in self._cells(component))
        values: FloatArray = self.tables[component][(*cells, self.lanes)]
        return values

    def averaged_noise(self, component: int) -> float:
        """Loss that a component's noise costs each bag but not their mean."""
        table = self.tables[component]
        by_bag = table.reshape(*table.shape[:-1], -1, self.lanes.shape[1])
        variance = by_bag.var(-2)[self._cells(component)]
        return float(0.5 * self.weights @ (self.curvature * variance).sum(1))

    def change(self, raw: FloatArray) -> tuple[float, float]:
        """Mean difference of the loss of other scores to that of the model, and standard error.

        A row that several bags hold out counts once.
        """
        difference = self._losses(raw) - self.losses
        mean = float(self.weights @ difference)
        deviations = np.bincount(self.rows, self.weights * (difference - mean))
        return mean, float(np.sqrt(deviations @ deviations))

    def _losses(self, raw: FloatArray) -> FloatArray:
        losses: FloatArray = self.objective.losses(self.y, raw, self.weights[:, None])[:, 0]
        return losses

    def _cells(self, component: int) -> tuple[IntArray, ...]:
        features = self.components[component]
        codes = self.codes[len(features)]
        return tuple(codes[feature][self.rows] for feature in features)


@dataclass(frozen=True)
class Step:
    """A model on the path from sparse to full.

    Parameters
    ----------
    n_components : int
        How many of the components, best first, it keeps.
    added : tuple of str
        The component that the sparser model lacks.
    loss : float
        Loss on the held-out rows in the units of training: half the squared error over the variance
        of y, pinball and Huber loss of y in standard deviations, counts and means behind a log link
        relative to their dispersion; log-loss as it is.
    standard_error : float
        Of the difference to the loss of the full model.
    """

    n_components: int
    added: tuple[str, ...]
    loss: float
    standard_error: float


@dataclass(frozen=True)
class Path:
    """Models from sparse to full, and the one that was chosen.

    Parameters
    ----------
    full : AnovaModel
        The model with all components that were fitted.
    order : list of tuple of int
        Its components, best first; with heredity none before its subsets.
    steps : list of Step
        One model for each number of components.
    chosen : int
        Number of components of the fitted model.
    """

    full: AnovaModel
    order: list[Component]
    steps: list[Step]
    chosen: int

    def model(self, n_components: int) -> AnovaModel:
        """Model of the best components."""
        if not 1 <= n_components <= len(self.order):
            raise ValueError(
                f"n_components: must be a whole number from 1 to {len(self.order)}, found "
                f"{n_components}. Pass the n_components of a step of the path."
            )
        return restrict(self.full, self.order[:n_components])

    def one_standard_error(self) -> Step:
        """Sparsest step whose loss is within one standard error of the lowest."""
        lowest = min(step.loss for step in self.steps)
        return next(step for step in self.steps if step.loss <= lowest + step.standard_error)


@dataclass(frozen=True)
class Rule:
    """How many components to keep.

    Parameters
    ----------
    method : {"noise", "one_se", "none"}
        Drop what noise explains, or all that costs less than a standard error, or nothing.
    most : int or None
        Most components.
    heredity : bool
        Whether the subsets of a component that is kept are kept too: they precede it on the path,
        so that every model on it has them.
    tolerance : float
        Standard errors that dropping noise may cost: one where everything had its chance to stand
        out in a screen, else none.
    certain : set of tuple of int
        Components that are no noise, whatever the held-out rows say.
    required : set of tuple of int
        Components that every model has; with heredity their subsets too.
    """

    method: str
    most: int | None
    heredity: bool
    tolerance: float
    certain: frozenset[Component]
    required: frozenset[Component]

    @classmethod
    def read(
        cls,
        method: str,
        most: int | None,
        heredity: bool,
        screened: bool,
        certain: Iterable[Component],
        required: Iterable[Component],
    ) -> Rule:
        """Rule of the estimators' parameters; "auto" drops noise that a screen let through."""
        if method == "auto":
            method = "noise" if screened else "none"
        return cls(method, most, heredity, float(screened), frozenset(certain), frozenset(required))


def required_components(
    required: tuple[Component, ...], heredity: bool, most: int | None
) -> ComponentSet:
    """Return what is required, with heredity its subsets too; refuse more than there may be."""
    needed = ComponentSet(required)
    needed = needed.with_subsets() if heredity else needed
    if most is not None and most < len(needed):
        raise ValueError(
            "max_components: required interactions count too, and with heredity their subsets, "
            f"found {most} for {len(needed)} of them. Raise max_components, or require fewer."
        )
    return needed


def select(
    problem: Problem,
    solution: Solution,
    full: AnovaModel,
    rule: Rule,
    evident: Collection[Component],
) -> Path:
    """Path of a fitted model with the number of components that a rule keeps.

    What a screen has found ``evident`` need not be told from noise once more, unless the held-out
    rows speak against it.
    """
    held_out = HeldOut(problem, solution)
    components = [tuple(sorted(s)) for s in held_out.components]
    names = dict(zip(full.components, full.component_names, strict=True))
    noise = [held_out.averaged_noise(index) for index in range(len(components))]
    alone = [held_out.change(held_out.raw - held_out.values(i)) for i in range(len(components))]
    clarity = np.array(
        [(mean + n) / max(error, 1e-300) for (mean, error), n in zip(alone, noise, strict=True)]
    )
    alone_clarity = clarity
    known = [s in evident for s in components] & (clarity > 0)
    known |= [s in rule.certain | rule.required for s in components]
    clarity = np.where(known, np.maximum(clarity, CLEAR), clarity)
    if rule.heredity:  # equally clear then: the subset first
        clarity = _inherited(components, clarity)
    ranked = sorted(
        range(len(components)),
        key=lambda i: (
            components[i] not in rule.required, -clarity[i], rule.heredity * len(components[i]),
            -alone_clarity[i], components[i],
        ),
    )  # fmt: skip
    changes, raw, removed = [(0.0, 0.0)], held_out.raw, 0.0
    for index in reversed(ranked[1:]):
        raw, removed = raw - held_out.values(index), removed + noise[index]
        mean, error = held_out.change(raw)
        changes.append((mean + removed, error))
    steps = [
        Step(count, names[components[index]], held_out.loss + mean, error)
        for count, index, (mean, error) in zip(
            range(1, len(ranked) + 1), ranked, reversed(changes), strict=True
        )
    ]
    path = Path(full, [components[index] for index in ranked], steps, len(steps))
    return replace(path, chosen=_chosen(path, clarity[ranked], rule))


def _chosen(path: Path, clarity: FloatArray, rule: Rule) -> int:
    """Count the components that a rule keeps; never none, and never less than are required."""
    chosen = len(path.steps)
    if rule.method == "one_se":
        chosen = path.one_standard_error().n_components
    elif rule.method == "noise":
        clear = max(int((clarity >= CLEAR).sum()), 1)
        most = [path.steps[-1].loss + rule.tolerance * step.standard_error for step in path.steps]
        chosen = next(
            step.n_components
            for step, limit in zip(path.steps, most, strict=True)
            if step.n_components >= clear and step.loss <= limit
        )
    n_required = sum(component in rule.required for component in path.order)
    return max(min(chosen, rule.most or chosen), n_required)


def _inherited(components: list[Component], clarity: FloatArray) -> FloatArray:
    """Every component is as clear as the clearest that contains it."""
    sets = [set(s) for s in components]
    return np.array([max(compress(clarity, (s <= t for t in sets))) for s in sets])


def restrict(model: AnovaModel, components: Iterable[Component]) -> AnovaModel:
    """Sum of some of a model's components and its intercept; still the unique decomposition."""
    chosen = ComponentSet(tuple(components))
    kept = [component in set(chosen) for component in model.components]
    terms = None if model.stored_terms is None else tuple(compress(model.stored_terms, kept))
    return replace(
        model,
        components=chosen,
        tables=tuple(compress(model.tables, kept)),
        spreads=tuple(compress(model.spreads, kept)),
        stored_terms=terms,
    )
