"""Agreement: how much the components of several fits agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpnn.model import AnovaModel

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Stability:
    """Stability scores, between 0 (all fits agree) and 1.

    Parameters
    ----------
    score : float
        Mean over the components.
    components : dict from tuple of str to float
        Score of each component, least stable first.
    """

    score: float
    components: dict[tuple[str, ...], float]


def stability(models: Sequence[Any], X: Any) -> Stability:
    """Stability score of the paper over several fits of the same features.

    SC(f_S) = mean over rows of sum_j (f_S^j(x) - mean f_S(x))^2 / sum_j f_S^j(x)^2, j running over
    the fits, and SC(f) is the mean over the components. A component that a fit does not have is
    zero there; where it is zero in all, they agree.

    Parameters
    ----------
    models : sequence of AnovaModel or of fitted estimators
        At least two fits.
    X : table
        Rows on which the components are compared.

    Examples
    --------
    >>> from tpnn import TPNNRegressor, datasets
    >>> data = datasets.make_synthetic("f1", n_samples=300, random_state=0)
    >>> model = TPNNRegressor(order=1, n_bags=1, random_state=0)
    >>> fits = [model.fit(data.X[part::2], data.y[part::2]).model_ for part in (0, 1)]
    >>> 0 < stability(fits, data.X).score < 0.5
    True
    """
    frozen = [fit if isinstance(fit, AnovaModel) else fit.model_ for fit in models]
    if len(frozen) < 2:
        raise ValueError(
            f"models: at least two fits are needed, found {len(frozen)}. Fit on other samples."
        )
    if len({model.feature_names for model in frozen}) > 1:
        raise ValueError(
            "models: all fits must have the same features in the same order, found "
            f"{[list(model.feature_names)[:5] for model in frozen[:3]]}. Fit them on equal columns."
        )
    scores = [
        dict(zip(m.components, np.moveaxis(m.component_scores(X), 1, 0), strict=True))
        for m in frozen
    ]
    components = sorted(set().union(*scores), key=lambda s: (len(s), s))
    names = frozen[0].feature_names
    by_component = {
        tuple(names[feature] for feature in component): _disagreement(
            np.stack([fit[component] for fit in scores if component in fit]), len(frozen)
        )
        for component in components
    }
    ranked = dict(sorted(by_component.items(), key=lambda item: -item[1]))
    return Stability(float(np.mean(list(ranked.values()))), ranked)


def _disagreement(scores: FloatArray, n_fits: int) -> float:
    """SC of one component from its scores, (fits that have it, n_rows)."""
    mean = scores.sum(0) / n_fits
    spread = ((scores - mean) ** 2).sum(0) + (n_fits - len(scores)) * mean**2
    squares = (scores**2).sum(0)
    return float(np.divide(spread, squares, out=np.zeros_like(mean), where=squares > 0).mean())
