"""The stability score, after every estimate has been centred."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tpnn import stability_scores

FloatArray = NDArray[np.float64]


def centred_scores(values: FloatArray) -> FloatArray:
    """Stability score of every component, shape (n_components,), of centred estimates.

    A constant may stand in any component of a rival, and a large one would hide all differences.

    Parameters
    ----------
    values : array of shape (J, n, n_components)
        Values of all components on the same n rows.

    Examples
    --------
    >>> x = np.array([-1.0, 1.0])[:, None]
    >>> centred_scores(np.stack([x, x + 3])), centred_scores(np.stack([x, -x]))
    (array([0.]), array([1.]))
    """
    return stability_scores(values - values.mean(1, keepdims=True))
