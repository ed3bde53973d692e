"""Concurvity: how far other components could imitate one, under the data's real distribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tpnn._utils.arrays import BoolArray, FloatArray, IntArray
from tpnn.model.model import AnovaModel
from tpnn.table.axis import Axis

N_HATS = 8  # piecewise linear functions of each feature
MAX_ROWS = 20_000  # more change a share of variance little
RELATIVE_RIDGE = 1e-4  # relative to the variance of a column
WARNING_SHARE = 0.5  # of a component's variance, from which a warning is given


@dataclass(frozen=True)
class Concurvity:
    """How much of one component the others could imitate.

    Parameters
    ----------
    names : tuple of str
        Features of the component.
    share : float
        Share of its variance that others can imitate, in [0, 1].
    closest : str
        The single other feature whose functions imitate most of it.
    """

    names: tuple[str, ...]
    share: float
    closest: str

    @property
    def warning(self) -> str:
        """A sentence where the share is large, else the empty string."""
        if self.share < WARNING_SHARE:
            return ""
        return (
            f"{' x '.join(self.names)}: on these rows other components could imitate "
            f"{100 * self.share:.0f} % of this effect, mostly through {self.closest}. "
            "Read them together."
        )


def concurvity(
    model: AnovaModel,
    columns: Sequence[FloatArray],  # (n_rows,) each: rows that stand for the real distribution
    scores: FloatArray,  # (n_rows, n_components) of these rows
) -> dict[tuple[str, ...], Concurvity]:
    """Concurvity of every component, largest first.

    What could imitate f_S: every function of a single feature that is piecewise linear on a few
    knots (if f_S is a main effect, only of the other features), and every other interaction as it
    was fitted. The share is the R2 of a linear regression of f_S on them, adjusted for the rank of
    their columns; zero means that no other component could take its place.
    """
    imitation, shares = Imitation.of(model, columns, scores), []
    components = zip(model.components, model.component_names, strict=True)
    for index, (component, names) in enumerate(components):
        others = [feature for feature in range(len(columns)) if feature not in component]
        closest = model.feature_names[imitation.closest(index, others or component)]
        shares.append(Concurvity(names, imitation.share(index), closest))
    return {one.names: one for one in sorted(shares, key=lambda one: -one.share)}


@dataclass(frozen=True, eq=False)
class Imitation:
    """Functions that could imitate the components, and their correlations."""

    imitators: Imitators  # functions of single features, then interactions as they were fitted
    owners: IntArray  # (n_columns,), feature of each imitator; an interaction has its own number
    hidden_owners: list[int]  # for each component, the owner of the imitators that it must not use
    cross: FloatArray  # (n_components, n_columns), correlations of components with imitators

    @classmethod
    def of(cls, model: AnovaModel, columns: Sequence[FloatArray], scores: FloatArray) -> Imitation:
        """Imitators on at most MAX_ROWS of the rows; parameters are those of ``concurvity``."""
        step = -(-len(scores) // MAX_ROWS)
        axes, some = model.encoder.axes[1], scores[::step]
        hats = [hat_functions(axes[j], column[::step]) for j, column in enumerate(columns)]
        components = model.components.components
        several = [index for index, component in enumerate(components) if len(component) > 1]
        places = {index: len(hats) + place for place, index in enumerate(several)}
        imitators = Imitators(np.concatenate([*hats, some[:, several]], axis=1))
        sizes = [*(hat.shape[1] for hat in hats), *[1] * len(several)]
        return cls(
            imitators,
            np.repeat(np.arange(len(sizes)), sizes),
            [places.get(index, component[0]) for index, component in enumerate(components)],
            imitators.correlations(some),
        )

    def share(self, index: int) -> float:
        """Share of a component that others could imitate."""
        hidden = np.flatnonzero(self.owners == self.hidden_owners[index])
        return self.imitators.share(self.cross[index], hidden)

    def closest(self, index: int, features: Sequence[int]) -> int:
        """Return the feature, one of several, whose functions imitate most of a component."""
        cross, owners = self.cross[index], self.owners
        return max(features, key=lambda feature: self.imitators.r2(cross, owners == feature))


def hat_functions(axis: Axis, x: FloatArray) -> FloatArray:
    """Functions of one feature, (n_rows, about N_HATS): indicators of levels, hats on quantiles."""
    if axis.is_nominal:
        nodes = np.minimum(axis.locate(x)[0], N_HATS)  # rare levels together; frequent ones first
        return np.equal(nodes[:, None], np.arange(1, N_HATS + 1)).astype(np.float64)
    missing = ~np.isfinite(x)  # or a level that fit has not seen
    present = x[~missing] if not missing.all() else np.zeros(1)
    halves = np.quantile(present / 2, np.linspace(0, 1, N_HATS))  # their differences are finite
    knots = 2 * np.unique(halves)
    lower, fraction = Axis(knots, np.zeros(len(knots))).locate(np.where(missing, knots[0], x))
    rows, hats = np.arange(len(x)), np.zeros((len(x), len(knots) + 1))
    hats[rows, lower] = 1 - fraction
    hats[rows, lower + 1] += fraction
    hats[:, -1] = missing
    return hats[:, 1:]


def _standardised(columns: FloatArray) -> FloatArray:
    """Columns of mean 0 and variance 1; constant ones are 0."""
    exponents = np.frexp(np.abs(columns).max(0))[1]  # in units of powers of two no square overflows
    relative = np.ldexp(columns, -exponents)
    centred = relative - relative.mean(0)
    deviations = np.sqrt((centred**2).mean(0))
    return np.asarray(centred / np.where(deviations > 0, deviations, 1.0))


class Imitators:
    """Ridge regressions of a target on all columns but a few hidden ones, all standardised.

    With A = (G + r I)^-1, where G holds the correlations of all columns and r is RELATIVE_RIDGE,
    and b = A c, where c holds their correlations with a target, hiding the columns H raises the
    residual by b_H' A_HH^-1 b_H.
    """

    def __init__(self, columns: FloatArray) -> None:  # (n_rows, n_columns)
        self.n_rows, n_columns = columns.shape
        self.columns = _standardised(columns)
        self.gram = self.columns.T @ self.columns / self.n_rows
        self.inverse: FloatArray = np.linalg.inv(self.gram + RELATIVE_RIDGE * np.eye(n_columns))
        self.squared = self.inverse @ self.inverse

    def correlations(self, targets: FloatArray) -> FloatArray:
        """Correlations of targets (n_rows, n_targets) with the columns, (n_targets, n_columns)."""
        return np.asarray(_standardised(targets).T @ self.columns / self.n_rows)

    def share(self, cross: FloatArray, hidden: IntArray) -> float:
        """R2 of a target that has the correlations ``cross``, (n_columns,), adjusted.

        The number of imitators is their rank: the trace of G (G + r I)^-1 without the hidden ones.
        """
        # One inverse serves all components: hiding columns is a small update of it.
        weights, block = self.inverse @ cross, np.ix_(hidden, hidden)
        residual = 1 - cross @ weights
        residual += weights[hidden] @ np.linalg.solve(self.inverse[block], weights[hidden])
        trace = np.trace(self.inverse)
        trace -= np.trace(np.linalg.solve(self.inverse[block], self.squared[block]))
        rank = len(cross) - len(hidden) - RELATIVE_RIDGE * trace
        adjusted = residual * (self.n_rows - 1) / max(self.n_rows - 1 - rank, 1)
        return float(np.clip(1 - adjusted, 0.0, 1.0))

    def r2(self, cross: FloatArray, imitators: BoolArray) -> float:
        """R2 of a target on some imitators alone."""
        inner = self.gram[np.ix_(imitators, imitators)]
        inner = inner + RELATIVE_RIDGE * np.eye(len(inner))
        return float(cross[imitators] @ np.linalg.solve(inner, cross[imitators]))
