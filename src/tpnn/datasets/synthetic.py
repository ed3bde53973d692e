"""The synthetic functions of the paper, whose components are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tpnn._utils.arrays import FloatArray
from tpnn._utils.rules import check_parameters, choice_of


@dataclass(frozen=True)
class Term:
    """One summand of a synthetic function."""

    features: tuple[int, ...]  # counted from 0, in the order of the arguments of `function`
    function: Callable[..., FloatArray]  # vectorised; its arguments broadcast against each other
    # Whether the term is even in each of its features, whose ranges are symmetric about 0.
    # Means are then taken over the upper half of each range, where the term has no kink.
    even: bool = False
    diagonal_kink: bool = False  # whether it has two features and a kink where they are equal


@dataclass(frozen=True)
class SyntheticFunction:
    r"""A function :math:`f(x) = \sum_i t_i(x_{T_i})` of independent uniform features."""

    bounds: tuple[tuple[float, float], ...]  # ends of the uniform distribution of each feature
    terms: tuple[Term, ...]  # the summands t_i
    mean: float  # of f(X), by quadrature
    variance: float

    def __call__(self, x: FloatArray) -> FloatArray:
        """Return the values at the rows of `x`, shape (n, p), as an array of shape (n,)."""
        total = np.zeros(len(x))  # (n,)
        for term in self.terms:
            total += term.function(*(x[:, j] for j in term.features))
        return total


_UNIT, _HIGH, _SYMMETRIC = (0.0, 1.0), (0.6, 1.0), (-1.0, 1.0)

_F1 = SyntheticFunction(
    bounds=(_UNIT,) * 5,
    terms=(
        Term((0,), lambda x1: 10 * x1),
        Term((1,), lambda x2: 10 * x2),
        Term((2,), lambda x3: 20 * (x3 - 0.3) * (x3 - 0.6)),
        Term((3,), lambda x4: 20 * x4),
        Term((4,), lambda x5: 5 * x5),
        Term((0, 1), lambda x1, x2: 10 * np.sin(np.pi * x1 * x2)),
    ),
    mean=29.013297342419882,
    variance=88.21780472983379,
)

_F2 = SyntheticFunction(
    bounds=(_UNIT, _UNIT, _UNIT, _HIGH, _HIGH, _UNIT, _UNIT, _HIGH, _UNIT, _HIGH),
    terms=(
        Term((0, 1, 2), lambda x1, x2, x3: np.pi ** (x1 * x2) * np.sqrt(2 * x3)),
        Term((3,), lambda x4: -np.arcsin(x4)),
        Term((2, 4), lambda x3, x5: np.log(x3 + x5)),
        Term((6, 7, 8, 9), lambda x7, x8, x9, x10: -x9 / x10 * np.sqrt(x7 / x8)),
        Term((1, 6), lambda x2, x7: -x2 * x7),
    ),
    mean=-0.1604547133194661,
    variance=0.8442680372893834,
)

_F3 = SyntheticFunction(
    bounds=(_SYMMETRIC,) * 10,
    terms=(
        Term((0, 1), lambda x1, x2: np.exp(np.abs(x1 - x2)), diagonal_kink=True),
        Term((1, 2), lambda x2, x3: np.abs(x2 * x3), even=True),
        Term((2, 3), lambda x3, x4: -(np.abs(x3) ** (2 * np.abs(x4))), even=True),
        Term((3, 4, 6, 7), lambda x4, x5, x7, x8: np.log(x4**2 + x5**2 + x7**2 + x8**2), even=True),
        Term((8,), lambda x9: x9),
        Term((9,), lambda x10: 1 / (1 + x10**2)),
    ),
    mean=2.8397563157327688,
    variance=2.3469304570190026,
)

FUNCTIONS = {"f1": _F1, "f2": _F2, "f3": _F3}


def get_function(name: str) -> SyntheticFunction:
    """Return the synthetic function called `name`, or raise a ValueError that lists the names."""
    check_parameters({"name": name}, {"name": choice_of(*FUNCTIONS)})
    return FUNCTIONS[name]


@dataclass(frozen=True)
class Synthetic:
    """A sample of a synthetic regression problem.

    Attributes
    ----------
    name : str
        Name of the synthetic function.
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
    noise_variance = function.variance / signal_to_noise
    f = function(x)  # (n,)
    return Synthetic(
        name=name,
        X=pd.DataFrame(x, columns=[f"X{j + 1}" for j in range(len(lower))]),
        y=pd.Series(f + rng.normal(0.0, np.sqrt(noise_variance), size=n_samples), name="Y"),
        f=f,
        intercept=function.mean,
        noise_variance=noise_variance,
    )
