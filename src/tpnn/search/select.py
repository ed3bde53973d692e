"""Selection: which fitted components the held-out rows can tell from noise.

Every bag holds out some rows. There the loss is computed with and without a component; the mean
difference is the component's contribution, and its spread over the rows gives a standard error.
What is kept is the mean of the bags, whose noise is smaller than that of each bag: half the
variance of the component over the bags, times the curvature of the loss, is added to its
contribution.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import compress

import numpy as np

from tpnn._typing import FloatArray
from tpnn.anova.components import Component, ComponentSet
from tpnn.model.constrain import constrain
from tpnn.model.model import AnovaModel
from tpnn.search.held_out import HeldOut

N_STANDARD_ERRORS_CLEAR = 3.0  # from which a contribution cannot be noise


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
    shapes : dict from feature name to shape
        Shapes that every model of the path has.
    """

    full: AnovaModel
    order: list[Component]
    steps: list[Step]
    chosen: int
    shapes: dict[str, str] = field(default_factory=dict)

    def model(self, n_components: int) -> AnovaModel:
        """Model of the best components, in its shapes."""
        if not 1 <= n_components <= len(self.order):
            raise ValueError(
                f"n_components: must be a whole number from 1 to {len(self.order)}, found "
                f"{n_components}. Pass the n_components of a step of the path."
            )
        sparse = self.full.restrict(self.order[:n_components])
        return constrain(sparse, self.shapes) if self.shapes else sparse

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
        return cls(
            method=method,
            most=most,
            heredity=heredity,
            tolerance=float(screened),
            certain=frozenset(certain),
            required=frozenset(required),
        )


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


@dataclass(frozen=True)
class Ranked:
    """Components, best first.

    Parameters
    ----------
    indices : list of int
        Places of the components in the solution.
    clarity : array of shape (n_components,)
        Contribution of each in standard errors; larger where it is known not to be noise.
    noise : array of shape (n_components,)
        Loss that its noise costs each bag but not their mean.
    """

    indices: list[int]
    clarity: FloatArray
    noise: FloatArray


def select(
    held_out: HeldOut,
    full: AnovaModel,
    rule: Rule,
    evident: Collection[Component] = (),
    shapes: Mapping[str, str] | None = None,
) -> Path:
    """Path of a fitted model with the number of components that a rule keeps.

    What a screen has found ``evident`` need not be told from noise once more, unless the held-out
    rows speak against it. ``shapes``, by feature name, hold for every model of the path.
    """
    components = [tuple(sorted(s)) for s in held_out.components]
    names = dict(zip(full.components, full.component_names, strict=True))
    ranked = _ranked(held_out, components, rule, evident)
    steps = [
        Step(count, names[components[index]], held_out.loss + mean, error)
        for count, (index, (mean, error)) in enumerate(
            zip(ranked.indices, _changes(held_out, ranked), strict=True), 1
        )
    ]
    order = [components[index] for index in ranked.indices]
    path = Path(full, order, steps, len(steps), dict(shapes or {}))
    return replace(path, chosen=_chosen(path, ranked.clarity, rule))


def _ranked(
    held_out: HeldOut, components: list[Component], rule: Rule, evident: Collection[Component]
) -> Ranked:
    """Rank components by how clearly the held-out rows tell them from noise."""
    indices = range(len(components))
    noise = np.array([held_out.averaged_noise(index) for index in indices])
    alone = [held_out.change(held_out.raw - held_out.values(index)) for index in indices]
    pairs = zip(alone, noise, strict=True)
    own = np.array([(mean + n) / max(error, 1e-300) for (mean, error), n in pairs])
    known = [s in evident for s in components] & (own > 0)
    known |= [s in rule.certain | rule.required for s in components]
    clarity = np.where(known, np.maximum(own, N_STANDARD_ERRORS_CLEAR), own)
    if rule.heredity:  # equally clear then: the subset first
        clarity = _inherited(components, clarity)
    order = sorted(
        indices,
        key=lambda i: (
            components[i] not in rule.required, -clarity[i], rule.heredity * len(components[i]),
            -own[i], components[i],
        ),
    )  # fmt: skip
    return Ranked(order, clarity[order], noise[order])


def _changes(held_out: HeldOut, ranked: Ranked) -> list[tuple[float, float]]:
    """Change of the loss, and its standard error, of the model of the best k components."""
    changes, raw, removed = [(0.0, 0.0)], held_out.raw, 0.0
    for place in reversed(range(1, len(ranked.indices))):
        raw = raw - held_out.values(ranked.indices[place])
        removed = removed + ranked.noise[place]
        mean, error = held_out.change(raw)
        changes.append((mean + removed, error))
    return changes[::-1]


def _chosen(path: Path, clarity: FloatArray, rule: Rule) -> int:
    """Count the components that a rule keeps; never none, and never less than are required."""
    chosen = len(path.steps)
    if rule.method == "one_se":
        chosen = path.one_standard_error().n_components
    elif rule.method == "noise":
        clear = max(int((clarity >= N_STANDARD_ERRORS_CLEAR).sum()), 1)
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
