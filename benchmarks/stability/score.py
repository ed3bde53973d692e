"""The stability score of the ANOVA-TPNN paper."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def stability_scores(values: FloatArray) -> FloatArray:
    """Stability score SC of every component, shape (n_components,); smaller is more stable.

    With f^j the estimate of a component from the j-th of J training sets and f its mean over j,

        SC = 1/n sum_i [ sum_j (f^j(x_i) - f(x_i))^2 / sum_j f^j(x_i)^2 ],

    between 0, where all estimates agree, and 1, where they cancel. A row on which all estimates are
    zero counts 0. The estimates are centred first, each to mean zero over the rows: a constant may
    stand in any component, and a large one would hide all differences.

    Parameters
    ----------
    values : array of shape (J, n, n_components)
        Values of all components on the same n rows.

    Examples
    --------
    >>> x = np.array([-1.0, 1.0])[:, None]
    >>> stability_scores(np.stack([x, x + 3])), stability_scores(np.stack([x, -x]))
    (array([0.]), array([1.]))
    """
    values = values - values.mean(1, keepdims=True)
    spread = ((values - values.mean(0)) ** 2).sum(0)  # (n, n_components)
    size = (values**2).sum(0)
    scores: FloatArray = np.divide(spread, size, where=size > 0, out=np.zeros_like(size)).mean(0)
    return scores
