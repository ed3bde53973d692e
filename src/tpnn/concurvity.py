"""Concurvity: how far the other components could imitate one under the data's real distribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tpnn.axes import Axis
from tpnn.model import AnovaModel

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

N_HATS = 8  # piecewise linear functions of each feature
MOST_ROWS = 20_000  # a share of variance needs no more
RIDGE = 1e-4  # relative to the variance of a column
WORTH_A_WARNING = 0.5


@dataclass(frozen=True)
class Concurvity:
    """What others could imitate of one component.

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
        """A sentence where the share is worth one, else the empty string."""
        if self.share < WORTH_A_WARNING:
            return ""
        return (
            f"{' x '.join(self.names)}: {100 * self.share:.0f} % of this effect could be imitated "
            f"by other components on these rows, mostly through {self.closest}. Read them together."
        )


def concurvity(
    model: AnovaModel, columns: Sequence[FloatArray], scores: FloatArray
) -> dict[tuple[str, ...], Concurvity]:
    """Concurvity of every component, largest first.

    The imitators of f_S are all functions of single features, piecewise linear on a few knots, of
    those outside S alone if f_S is a main effect, and all other interactions as they were fitted.
    The share is the R2 of a linear regression of f_S on them, adjusted for their number; zero means
    that no other component could take its place.

    Parameters
    ----------
    model : AnovaModel
        The model.
    columns : sequence of array of shape (n_rows,)
        Rows that stand for the real distribution, as numbers.
    scores : array of shape (n_rows, n_components)
        Component scores of these rows.
    """
    step = -(-len(scores) // MOST_ROWS)
    features = range(len(columns))
    hats = [hat_functions(model.encoder.axes[1][j], columns[j][::step]) for j in features]
    components = model.components.components
    blocks = [*hats, *(scores[::step, index, None] for index in range(len(components)))]
    owners = np.repeat(np.arange(len(blocks)), [block.shape[1] for block in blocks])
    gram, n_rows = _correlations(np.concatenate(blocks, axis=1))
    inverse = np.asarray(np.linalg.inv(gram + RIDGE * np.eye(len(gram))), np.float64)
    found = []
    for index, (component, names) in enumerate(zip(components, model.component_names, strict=True)):
        own = np.flatnonzero(owners == len(columns) + index)
        hidden = np.flatnonzero(owners == component[0]) if len(component) == 1 else own[:0]
        share = _explained(inverse, own, hidden, n_rows)
        others = [feature for feature in features if feature not in component]
        closest = max(others or component, key=lambda f: _r2(gram, own, owners == f))
        found.append(Concurvity(names, share, model.feature_names[closest]))
    return {found.names: found for found in sorted(found, key=lambda found: -found.share)}


def hat_functions(axis: Axis, x: FloatArray) -> FloatArray:
    """Functions of one feature, (n_rows, about N_HATS): indicators of levels, hats on quantiles."""
    if axis.is_nominal:
        nodes = np.minimum(axis.locate(x)[0], N_HATS)  # rare levels together; frequent ones first
        return np.equal(nodes[:, None], np.arange(1, N_HATS + 1)).astype(np.float64)
    missing = ~np.isfinite(x)  # or a level that fit has not seen
    known = x[~missing] if not missing.all() else np.zeros(1)
    knots = np.unique(np.quantile(known, np.linspace(0, 1, N_HATS)))
    filled = np.where(missing, knots[0], x)
    hats = [np.interp(filled, knots, at_knots) for at_knots in np.eye(len(knots))[1:]]
    return np.array([*hats, missing.astype(np.float64)]).T


def _correlations(columns: FloatArray) -> tuple[FloatArray, int]:
    """Correlation matrix, constant columns being uncorrelated with all, and the number of rows."""
    centred = columns - columns.mean(0)
    deviations = np.sqrt((centred**2).mean(0))
    centred /= np.where(deviations > 0, deviations, 1.0)
    return centred.T @ centred / len(centred), len(centred)


def _explained(inverse: FloatArray, own: IntArray, hidden: IntArray, n_rows: int) -> float:
    """R2 of column ``own`` on all columns but itself and the hidden ones, adjusted.

    The residual covariance of a block given all others is the inverse of its block in the inverse
    of the Gram matrix.
    """
    block = np.concatenate([own, hidden])
    residual = np.linalg.inv(inverse[np.ix_(block, block)])[0, 0]
    n_imitators = len(inverse) - len(block)
    adjusted = residual * (n_rows - 1) / max(n_rows - 1 - n_imitators, 1)
    return float(np.clip(1 - adjusted, 0.0, 1.0))


def _r2(gram: FloatArray, own: IntArray, imitators: NDArray[np.bool_]) -> float:
    """R2 of column ``own`` on the imitators alone."""
    inner = gram[np.ix_(imitators, imitators)]
    cross = gram[imitators][:, own[0]]
    return float(cross @ np.linalg.solve(inner + RIDGE * np.eye(len(inner)), cross))
