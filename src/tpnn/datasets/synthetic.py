"""Samples of the synthetic functions of the ANOVA-TPNN paper."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from tpnn._utils.arrays import FloatArray
from tpnn.datasets.decomposition import mean_and_variance
from tpnn.datasets.functions import get_function


@dataclass(frozen=True)
class Synthetic:
    """A sample of a synthetic regression problem.

    Attributes
    ----------
    name : str
        Name of the synthetic function, for :func:`true_component` and :func:`true_importance`.
    X : DataFrame of shape (n, p)
        Features ``X1`` to ``Xp``.
    y : Series of shape (n,)
        Target ``Y``: the noise-free values plus Gaussian noise.
    f : array of shape (n,)
        Noise-free values.
    intercept : float
        Mean of f(X) under the distribution of the features.
    noise_variance : float
        Variance of the noise.
    """

    name: str
    X: pd.DataFrame
    y: pd.Series
    f: FloatArray
    intercept: float
    noise_variance: float


def make_synthetic(
    name: str,
    n_samples: int = 15000,
    signal_to_noise: float = 5.0,
    random_state: int | np.random.Generator | None = None,
) -> Synthetic:
    r"""Draw a sample of one of the paper's three synthetic regression problems.

    .. math::

        f^{(1)} &= 10 X_1 + 10 X_2 + 20 (X_3 - 0.3)(X_3 - 0.6) + 20 X_4 + 5 X_5
                   + 10 \sin(\pi X_1 X_2) \\
        f^{(2)} &= \pi^{X_1 X_2} \sqrt{2 X_3} - \arcsin X_4 + \log(X_3 + X_5)
                   - \frac{X_9}{X_{10}} \sqrt{\frac{X_7}{X_8}} - X_2 X_7 \\
        f^{(3)} &= \exp|X_1 - X_2| + |X_2 X_3| - |X_3|^{2 |X_4|}
                   + \log(X_4^2 + X_5^2 + X_7^2 + X_8^2) + X_9 + \frac{1}{1 + X_{10}^2}

    The features are independent and uniform: f1 has 5 on (0, 1); f2 has 10, with
    :math:`X_4, X_5, X_8, X_{10}` on (0.6, 1) and the others on (0, 1); f3 has 10 on (-1, 1).
    In f2 and f3, :math:`X_6` is irrelevant.

    The target is :math:`Y = f(X) + \epsilon` with :math:`\epsilon \sim N(0, \sigma^2)`. The
    paper states a signal-to-noise ratio of 5 but no formula for it. Here it is the ratio of
    variances :math:`\mathrm{Var} f(X) / \sigma^2`, where the variance of f(X) is that of the
    distribution of the features, not of the sample.

    Parameters
    ----------
    name : {"f1", "f2", "f3"}
        Name of the function.
    n_samples : int
        Number of rows.
    signal_to_noise : float
        Ratio of the variance of f(X) to that of the noise; infinity for no noise.
    random_state : int, Generator or None
        Seed of the sample, or the generator to draw it from.

    Returns
    -------
    Synthetic
        The sample with its noise-free values.

    Examples
    --------
    >>> from tpnn.datasets import make_synthetic
    >>> data = make_synthetic("f1", n_samples=100, random_state=0)
    >>> data.X.shape, list(data.X.columns)
    ((100, 5), ['X1', 'X2', 'X3', 'X4', 'X5'])
    >>> round(data.intercept, 3)
    29.013
    """
    function = get_function(name)
    if not signal_to_noise > 0:
        raise ValueError(
            f"signal_to_noise: must be positive, found {signal_to_noise}. "
            "Use float('inf') for no noise."
        )
    rng = np.random.default_rng(random_state)
    lower, upper = np.transpose(function.bounds)  # (p,) each
    x = rng.uniform(lower, upper, size=(n_samples, len(lower)))  # (n, p)
    mean, variance = mean_and_variance(name)
    noise_variance = variance / signal_to_noise
    f = function(x)  # (n,)
    return Synthetic(
        name=name,
        X=pd.DataFrame(x, columns=[f"X{j + 1}" for j in range(len(lower))]),
        y=pd.Series(f + rng.normal(0.0, np.sqrt(noise_variance), size=n_samples), name="Y"),
        f=f,
        intercept=mean,
        noise_variance=noise_variance,
    )
