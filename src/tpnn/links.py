"""Links between the raw score f(x) and the prediction, in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Link:
    """A link g with f(x) = g(E[Y | x]).

    Parameters
    ----------
    name : str
        Name under which a saved model refers to it.
    forward : callable
        g, from means to raw scores.
    inverse : callable
        g^-1, from raw scores to means.
    """

    name: str
    forward: Callable[[FloatArray], FloatArray]
    inverse: Callable[[FloatArray], FloatArray]


def _same(values: FloatArray) -> FloatArray:
    return values


def _logit(means: FloatArray) -> FloatArray:
    return np.log(means) - np.log1p(-means)


def _expit(scores: FloatArray) -> FloatArray:
    decay = np.exp(-np.abs(scores))
    return np.where(scores >= 0, 1.0, decay) / (1.0 + decay)


LINKS = {
    link.name: link for link in (Link("identity", _same, _same), Link("logit", _logit, _expit))
}
