r"""True functional ANOVA decomposition of the synthetic functions, by quadrature.

If the features are independent, every square-integrable function is a unique sum of components
:math:`f(x) = \sum_{S} f_S(x_S)` that average to zero over each of their features,

.. math:: f_S(x_S) = \sum_{U \subseteq S} (-1)^{|S| - |U|} E[f(X) \mid X_U = x_U].

The decomposition is linear, so the components of a sum of terms are the sums of the components
of the terms, and a term has no component with a feature that it does not depend on. Each
conditional mean is computed by tensor Gauss-Legendre quadrature in at most four dimensions.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import combinations

import numpy as np
import pandas as pd

from tpnn._utils.arrays import FloatArray
from tpnn.datasets.synthetic import SyntheticFunction, Term, get_function

_N_NODES = {1: 64, 2: 32, 3: 16, 4: 16}  # per dimension, by number of dimensions integrated out
_N_NODES_OF_NORMS = {1: 128, 2: 24}  # per quarter of a range, by number of features
_MAX_EVALUATIONS = 2**21  # function values held in memory at once


def true_component(
    name: str, features: tuple[int, ...], X: pd.DataFrame | FloatArray
) -> FloatArray:
    r"""Return a component of the functional ANOVA decomposition of a synthetic function.

    .. math:: f_S(x_S) = \sum_{U \subseteq S} (-1)^{|S| - |U|} E[f(X) \mid X_U = x_U],

    under the independent uniform distributions of the function's features.

    Parameters
    ----------
    name : {"f1", "f2", "f3"}
        The synthetic function, see :func:`tpnn.datasets.make_synthetic`.
    features : tuple of int
        The features of the component, counted from 0; ``()`` is the intercept :math:`E f(X)`.
    X : DataFrame or array of shape (n, p)
        Points at which to evaluate the component, with all p features of the function in order.

    Returns
    -------
    array of shape (n,)
        Values of the component; exactly 0 if no term of the function has all of `features`.

    Examples
    --------
    The fourth main effect of f1 is :math:`20 (x_4 - 1/2)`:

    >>> import numpy as np
    >>> from benchmarks.common.quadrature import true_component
    >>> x = np.full((2, 5), 0.75)
    >>> x[1, 3] = 1.0
    >>> true_component("f1", (3,), x).round(6)
    array([ 5., 10.])
    """
    function = get_function(name)
    points = np.asarray(X, dtype=np.float64)  # (n, p)
    _check(function, features, points)
    return _component(function, features, points)


def true_importance(name: str) -> dict[tuple[int, ...], float]:
    r"""Return the :math:`L_1` norms of the main effects and pairwise interactions.

    .. math:: \|f_S\|_1 = E |f_S(X_S)|, \qquad |S| \le 2.

    The norms have a relative error of about 1e-3, and are exactly 0 for components that are 0.
    So ``norm > 0`` tells the signal components of the paper's component selection.

    Parameters
    ----------
    name : {"f1", "f2", "f3"}
        The synthetic function, see :func:`tpnn.datasets.make_synthetic`.

    Returns
    -------
    dict of tuple of int to float
        Norm of each of the p main effects and p(p - 1)/2 pairs, features counted from 0.

    Examples
    --------
    >>> from benchmarks.common.quadrature import true_importance
    >>> importance = true_importance("f1")
    >>> round(importance[(3,)], 3), importance[(2, 3)]
    (5.0, 0.0)
    """
    return {features: norms[0] for features, norms in _norms(name).items()}


def true_variance(name: str) -> dict[tuple[int, ...], float]:
    r"""Return the variances of the main effects and pairwise interactions.

    .. math:: \|f_S\|_2^2 = E f_S(X_S)^2 = \mathrm{Var} f_S(X_S), \qquad |S| \le 2.

    Parameters
    ----------
    name : {"f1", "f2", "f3"}
        The synthetic function, see :func:`tpnn.datasets.make_synthetic`.

    Returns
    -------
    dict of tuple of int to float
        Variance of each of the p main effects and p(p - 1)/2 pairs, features counted from 0.

    Examples
    --------
    >>> from benchmarks.common.quadrature import true_variance
    >>> round(true_variance("f1")[(3,)], 3)  # 20**2 / 12
    33.333
    """
    return {features: norms[1] for features, norms in _norms(name).items()}


@lru_cache
def mean_and_variance(name: str) -> tuple[float, float]:
    r"""Return the mean and the variance of a synthetic function under its features' distribution.

    .. math:: \mathrm{Var} f = \sum_{i, j} \mathrm{Cov}(t_i, t_j)
    """
    function = get_function(name)
    variance = sum(_variance(t, function) for t in function.terms)
    covariance = sum(_covariance(s, t, function) for s, t in combinations(function.terms, 2))
    return sum(_mean(t, function) for t in function.terms), variance + 2 * covariance


def _check(function: SyntheticFunction, features: tuple[int, ...], x: FloatArray) -> None:
    """Raise a ValueError unless `features` and the shape of `x` fit the function."""
    p = len(function.bounds)
    if len(set(features)) < len(features) or not set(features) <= set(range(p)):
        raise ValueError(
            f"features: must be distinct indices from 0 to {p - 1}, found {features}. "
            "Count the features of the function from 0."
        )
    if x.ndim != 2 or x.shape[1] != p:
        raise ValueError(
            f"X: must have shape (n, {p}), found {x.shape}. Pass all features of the function."
        )


def _component(function: SyntheticFunction, features: tuple[int, ...], x: FloatArray) -> FloatArray:
    """Return the component of `features` at the rows of `x`, shape (n, p)."""
    component = np.zeros(len(x))  # (n,)
    for term in function.terms:
        if not set(features) <= set(term.features):
            continue
        for size in range(len(features) + 1):
            sign = (-1) ** (len(features) - size)
            for fixed in combinations(features, size):
                component += sign * _conditional_mean(term, function, fixed, x)
    return component


def _conditional_mean(
    term: Term, function: SyntheticFunction, fixed: tuple[int, ...], x: FloatArray
) -> FloatArray:
    """Return E[t(X) | X_fixed = x_fixed] at the rows of `x`, shape (n, p)."""
    if not fixed:
        return np.full(len(x), _mean(term, function))
    free = len(term.features) - len(fixed)
    points, inverse = np.unique(x[:, fixed], axis=0, return_inverse=True)  # (u, fixed), (n,)
    chunks = 1 + len(points) * _N_NODES.get(free, 1) ** free // _MAX_EVALUATIONS
    means = [
        _integral(term, function, dict(zip(fixed, chunk.T, strict=True)), free)
        for chunk in np.array_split(points, chunks)
    ]
    return np.concatenate(means)[inverse.reshape(-1)]


def _integral(
    term: Term, function: SyntheticFunction, fixed: dict[int, FloatArray], free: int
) -> FloatArray:
    """Return the mean of a term over its features that are not in `fixed`.

    The features are integrated out one by one, each along a new last axis of the arrays.
    `free` is the number of features to integrate out at the outermost call.
    """
    feature = next((j for j in term.features if j not in fixed), None)
    if feature is None:
        return term.function(*(fixed[j] for j in term.features))
    breaks = _breaks(term, function.bounds[feature], fixed)
    nodes, weights = _rule(breaks, _N_NODES[free])  # (..., q) each
    expanded = {j: values[..., np.newaxis] for j, values in fixed.items()}
    values = _integral(term, function, {**expanded, feature: nodes}, free)  # (..., q)
    return np.asarray(np.einsum("...q,...q->...", values, weights))


def _breaks(term: Term, bounds: tuple[float, float], fixed: dict[int, FloatArray]) -> FloatArray:
    """Return the ends, shape (..., intervals + 1), of the intervals on which a term is smooth."""
    lower, upper = bounds
    if term.diagonal_kink and fixed:
        (other,) = fixed.values()
        kink = np.clip(other, lower, upper)
        return np.stack(np.broadcast_arrays(lower, kink, upper), axis=-1)
    return np.array([(lower + upper) / 2 if term.even else lower, upper])


def _rule(breaks: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    r"""Return nodes and weights (..., k * count) of a mean over k adjacent intervals.

    Gauss-Legendre nodes u in (0, 1) are mapped to :math:`10 u^3 - 15 u^4 + 6 u^5`, which is flat at
    both ends, so that square roots and logarithms at the ends of an interval do no harm. `breaks`
    (..., k + 1) are the ends of the intervals, each of which has `count` nodes. The weights sum to
    1.
    """
    u, w = np.polynomial.legendre.leggauss(count)  # on (-1, 1), (count,) each
    u = (u + 1) / 2
    moved = u**3 * (10 - 15 * u + 6 * u**2)
    slope = 15 * w * (u * (1 - u)) ** 2  # weights of the moved nodes, sum 1
    widths = np.diff(breaks)[..., np.newaxis]  # (..., k, 1)
    nodes = breaks[..., :-1, np.newaxis] + widths * moved  # (..., k, count)
    weights = widths / np.sum(widths, axis=-2, keepdims=True) * slope
    shape = (*breaks.shape[:-1], -1)
    return nodes.reshape(shape), weights.reshape(shape)


def _mean(term: Term, function: SyntheticFunction) -> float:
    """Return E[t(X)]."""
    return float(_integral(term, function, {}, len(term.features)))


def _variance(term: Term, function: SyntheticFunction) -> float:
    """Return Var t(X)."""
    square = replace(term, function=lambda *x: term.function(*x) ** 2)
    return _mean(square, function) - _mean(term, function) ** 2


def _covariance(one: Term, two: Term, function: SyntheticFunction) -> float:
    """Return Cov(t_1(X), t_2(X)): the covariance of their means given the shared features."""
    shared = tuple(j for j in one.features if j in two.features)
    if not shared:
        return 0.0
    points, weights = _grid(function, shared, _N_NODES[len(shared)])
    means = [_conditional_mean(t, function, shared, points) for t in (one, two)]  # (g,) each
    return float(weights @ (means[0] * means[1])) - _mean(one, function) * _mean(two, function)


def _grid(
    function: SyntheticFunction, features: tuple[int, ...], count: int
) -> tuple[FloatArray, FloatArray]:
    """Return points, shape (g, p), and weights, shape (g,), of a mean over `features`.

    Each range is cut into quarters, because the components of f3 and their absolute values have
    kinks at the ends of the quarters. The other features are set to 0.
    """
    rules = [_rule(np.linspace(*function.bounds[j], 5), count) for j in features]
    axes = np.meshgrid(*(nodes for nodes, _ in rules), indexing="ij")
    points = np.zeros((axes[0].size, len(function.bounds)))
    points[:, features] = np.stack([axis.ravel() for axis in axes], axis=-1)
    weights = np.prod(np.meshgrid(*(w for _, w in rules), indexing="ij"), axis=0)
    return points, weights.ravel()


@lru_cache
def _norms(name: str) -> dict[tuple[int, ...], tuple[float, float]]:
    """Return (L1 norm, variance) of all main effects and pairs of a synthetic function."""
    function = get_function(name)
    norms = {}
    for size, count in _N_NODES_OF_NORMS.items():
        for features in combinations(range(len(function.bounds)), size):
            points, weights = _grid(function, features, count)
            values = _component(function, features, points)  # (g,)
            norms[features] = float(weights @ np.abs(values)), float(weights @ values**2)
    return norms
