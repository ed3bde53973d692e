"""Selection: which fitted components the held-out rows can tell from noise.

Every bag holds out some rows. Their loss is computed with and without a component; the mean
difference is the component's contribution, and its spread over the rows gives a standard error. We
score the averaged model, so a component is not penalised for noise that averaging removes: half its
variance over the bags, times the curvature of the loss, is added to its contribution.
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
from tpnn.problem.stopping import Limits
from tpnn.search.held_out import HeldOut

N_STANDARD_ERRORS_CLEAR = 3.0  # a contribution of at least this size is not noise


@dataclass(frozen=True)
class Step:
    """A model on the path from sparse to full.

    In a fit with shapes, the losses are those of the models before the shapes are imposed.

    Parameters
    ----------
    n_components : int
        Number of components that it keeps, best first.
    added : tuple of str
        The component that the next sparser model lacks.
    loss : float
        Held-out loss in the units of training: half the squared error over the variance of y;
        pinball and Huber loss of y in standard deviations; losses with a log link relative to their
        dispersion; log-loss unchanged. NaN if a time limit came first.
    standard_error : float
        Standard error of the difference between this loss and that of the full model.
    """

    n_components: int
    added: tuple[str, ...]
    loss: float
    standard_error: float


@dataclass(frozen=True, repr=False)
class Path:
    """Models from sparse to full, and the one that was chosen.

    Parameters
    ----------
    full : AnovaModel
        The model with all fitted components.
    order : list of tuple of int
        Its components, best first; with heredity, each comes after its subsets.
    steps : list of Step
        One model for each number of components.
    chosen : int
        Number of components of the fitted model.
    shapes : dict from feature name to shape
        Shapes that every model of the path keeps.
    """

    full: AnovaModel
    order: list[Component]
    steps: list[Step]
    chosen: int
    shapes: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Path({len(self.steps)} models, chosen: the one of {self.chosen} components)"

    def model(self, n_components: int) -> AnovaModel:
        """Model of the best components, with the shapes imposed."""
        if not 1 <= n_components <= len(self.order):
            raise ValueError(
                f"n_components: must be a whole number from 1 to {len(self.order)}, found "
                f"{n_components}. Pass the n_components of a step of the path."
            )
        sparse = self.full.restrict(self.order[:n_components])
        return constrain(sparse, self.shapes) if self.shapes else sparse

    def one_standard_error(self) -> Step:
        """Sparsest step whose loss is within one standard error of the lowest."""
        lowest = np.nanmin([step.loss for step in self.steps])
        return next(step for step in self.steps if step.loss <= lowest + step.standard_error)


@dataclass(frozen=True, kw_only=True)
class Keep:
    """How many components to keep.

    Parameters
    ----------
    method : {"noise", "one_se", "none"}
        "noise" drops what noise explains, "one_se" drops all that costs less than a standard error,
        "none" drops nothing.
    most : int or None
        Largest number of components.
    heredity : bool
        Whether the subsets of a kept component are kept too; they precede it on the path, so every
        model of the path has them.
    tolerance : float
        Number of standard errors that dropping noise may cost: one if a screen has scored every
        component, else zero.
    certain : set of tuple of int
        Components that are not noise, whatever the held-out rows say.
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
        *,
        method: str,
        most: int | None,
        heredity: bool,
        screened: bool,
        certain: Iterable[Component],
        required: Iterable[Component],
    ) -> Keep:
        """Read an estimator's parameters; "auto" drops noise if components were screened."""
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
    """Return the required components, with heredity their subsets too; refuse too many."""
    needed = ComponentSet(required)
    needed = needed.with_subsets() if heredity else needed
    if most is not None and most < len(needed):
        raise ValueError(
            "max_components: must cover all required interactions and, with heredity, their "
            f"subsets, found {most} for {len(needed)} of them. Raise max_components, or require "
            "fewer interactions."
        )
    return needed


@dataclass(frozen=True)
class Ranked:
    """Components, best first.

    Parameters
    ----------
    indices : list of int
        Positions of the components in the solution.
    clarity : array of shape (n_components,)
        Contribution of each in standard errors; raised for components known not to be noise.
    noise : array of shape (n_components,)
        Loss that the noise of each adds to every bag but not to the mean of the bags.
    """

    indices: list[int]
    clarity: FloatArray
    noise: FloatArray


def select(
    held_out: HeldOut,
    full: AnovaModel,
    keep: Keep,
    evident: Collection[Component] = (),
    shapes: Mapping[str, str] | None = None,
    limits: Limits | None = None,
) -> Path:
    """Path of a fitted model, with the number of components that ``keep`` asks for.

    Components that a screen found ``evident`` need not be told from noise again, unless the
    held-out rows speak against them. ``shapes``, by feature name, hold for every model of the path.
    Where ``limits`` are reached, the components not yet ranked follow those that contribute, the
    loss of the sparser models is NaN, and none of these is chosen unless ``keep`` allows no more.
    """
    limits = limits or Limits()
    components = [tuple(sorted(s)) for s in held_out.components]
    names = dict(zip(full.components, full.component_names, strict=True))
    ranked = _ranked(held_out, components, keep, evident, limits)
    steps = [
        Step(count, names[components[index]], held_out.loss + mean, error)
        for count, (index, (mean, error)) in enumerate(
            zip(ranked.indices, _changes(held_out, ranked, limits), strict=True), 1
        )
    ]
    order = [components[index] for index in ranked.indices]
    path = Path(full, order, steps, len(steps), dict(shapes or {}))
    return replace(path, chosen=_chosen(path, ranked.clarity, keep))


def _ranked(
    held_out: HeldOut,
    components: list[Component],
    keep: Keep,
    evident: Collection[Component],
    limits: Limits,
) -> Ranked:
    """Rank components by how clearly the held-out rows tell them from noise."""
    indices = range(len(components))
    noise, own = np.zeros((2, len(components)))
    for index in indices:
        if limits.are_reached():
            break
        noise[index] = held_out.averaged_noise(index)
        mean, error = held_out.change(held_out.raw - held_out.values(index))
        own[index] = (mean + noise[index]) / max(error, 1e-300)
    known = [s in evident for s in components] & (own > 0)
    known |= [s in keep.certain | keep.required for s in components]
    clarity = np.where(known, np.maximum(own, N_STANDARD_ERRORS_CLEAR), own)
    if keep.heredity:  # subsets become as clear as what contains them, and come first
        clarity = _inherited(components, clarity)
    order = sorted(
        indices,
        key=lambda i: (
            components[i] not in keep.required, -clarity[i], keep.heredity * len(components[i]),
            -own[i], i,  # in canonical order, whatever the places of the columns
        ),
    )  # fmt: skip
    return Ranked(order, clarity[order], noise[order])


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


def _chosen(path: Path, clarity: FloatArray, keep: Keep) -> int:
    """Count the components that ``keep`` asks for: at least one, and at least the required ones."""
    chosen = len(path.steps)
    if keep.method == "one_se":
        chosen = path.one_standard_error().n_components
    elif keep.method == "noise":
        clear = max(int((clarity >= N_STANDARD_ERRORS_CLEAR).sum()), 1)
        most = [path.steps[-1].loss + keep.tolerance * step.standard_error for step in path.steps]
        chosen = next(
            step.n_components
            for step, limit in zip(path.steps, most, strict=True)
            if step.n_components >= clear and step.loss <= limit
        )
    n_required = sum(component in keep.required for component in path.order)
    return max(min(chosen, keep.most or chosen), n_required)


def _inherited(components: list[Component], clarity: FloatArray) -> FloatArray:
    """Make every component as clear as the clearest one that contains it."""
    sets = [set(s) for s in components]
    return np.array([max(compress(clarity, (s <= t for t in sets))) for s in sets])
