"""Stability: how much the components of several fits agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.model.model import AnovaModel


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


def stability_scores(estimates: FloatArray) -> FloatArray:
    """Stability score of every component; smaller is more stable.

    With f^j the estimate of a component in the j-th of J fits and f its mean over j,

        SC = mean over rows i of sum_j (f^j(x_i) - f(x_i))^2 / sum_j f^j(x_i)^2,

    between 0, where all fits agree, and 1, where they cancel. Rows where all are zero count 0.

    Parameters
    ----------
    estimates : array of shape (J, n_rows, ...)
        Values of the components on the same rows.

    Returns
    -------
    array of shape (...)
        A score for each.

    Examples
    --------
    >>> x = np.array([-1.0, 1.0])[:, None]
    >>> stability_scores(np.stack([x, x])), stability_scores(np.stack([x, -x]))
    (array([0.]), array([1.]))
    """
    spread = ((estimates - estimates.mean(0)) ** 2).sum(0)
    size = (estimates**2).sum(0)
    ratios = np.divide(spread, size, out=np.zeros_like(size), where=size > 0)
    return np.asarray(ratios.mean(0))


def stability(models: Sequence[Any], X: Any) -> Stability:
    """Stability score of the paper over several fits of the same features.

    The mean of ``stability_scores`` over the components. A component that a fit does not have
    counts as zero there.

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
    >>> fits = [model.fit(data.X[half::2], data.y[half::2]).model_ for half in (0, 1)]
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
    names, by_component = frozen[0].feature_names, dict[tuple[str, ...], float]()
    zero = np.zeros_like(next(iter(scores[0].values())))
    for component in sorted(set().union(*scores), key=lambda s: (len(s), s)):
        estimates = np.stack([fit.get(component, zero) for fit in scores])
        score = float(stability_scores(estimates).mean())
        by_component[tuple(names[feature] for feature in component)] = score
    ranked = dict(sorted(by_component.items(), key=lambda item: -item[1]))
    return Stability(float(np.mean(list(ranked.values()))), ranked)
