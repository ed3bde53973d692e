"""Links between the raw score f(x) and the prediction, in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tpnn._utils.arrays import FloatArray

SMALLEST_MEAN = 1e-12  # the logit of a class without weight must stay finite
LARGEST_SCORE = 300.0  # sums of exponentials of larger scores could overflow


@dataclass(frozen=True)
class Link:
    """A link g with f(x) = g(E[Y | x])."""

    name: str  # in saved models
    kind: str  # what is predicted: "numbers", "rates", "classes" or "quantiles"
    forward: Callable[[FloatArray], FloatArray]  # g, from means to raw scores
    inverse: Callable[[FloatArray], FloatArray]  # g^-1; several outputs are on the last axis
    ratio: str = ""  # name of exp(effect) where it is a factor, on the mean or on the odds
    couples_outputs: bool = False  # whether a prediction needs the raw scores of several outputs

    def errors_of_means(self, means: FloatArray, raw: FloatArray, errors: FloatArray) -> FloatArray:
        """Turn standard errors of raw scores into those of means, by the inverse's derivative.

        Quantiles are sorted raw scores; their errors go with them.
        """
        if self.name == "log":
            return means * errors
        if self.name == "logit":
            return means * (1 - means) * errors
        if self.name == "quantiles":
            return np.take_along_axis(errors, np.argsort(raw, axis=-1, kind="stable"), axis=-1)
        if self.name == "softmax":  # sum over l of (p_k [k = l] - p_k p_l)^2 se_l^2
            squares = errors**2
            others = (means**2 * squares).sum(-1, keepdims=True) - means**2 * squares
            return np.asarray(means * np.sqrt((1 - means) ** 2 * squares + others))
        return errors


def _same(values: FloatArray) -> FloatArray:
    return values


def _logit(means: FloatArray) -> FloatArray:
    inside = np.clip(means, SMALLEST_MEAN, 1 - SMALLEST_MEAN)
    return np.log(inside) - np.log1p(-inside)


def _expit(scores: FloatArray) -> FloatArray:
    decay = np.exp(-np.abs(scores))
    return np.where(scores >= 0, 1.0, decay) / (1.0 + decay)


def _log(means: FloatArray) -> FloatArray:
    return np.log(np.maximum(means, SMALLEST_MEAN))


def _exp(scores: FloatArray) -> FloatArray:
    return np.exp(np.clip(scores, -LARGEST_SCORE, LARGEST_SCORE))


def _centred_log(means: FloatArray) -> FloatArray:
    logs = _log(means)
    centred: FloatArray = logs - logs.mean(-1, keepdims=True)
    return centred


def _softmax(scores: FloatArray) -> FloatArray:
    odds = np.exp(scores - scores.max(-1, keepdims=True))
    shares: FloatArray = odds / odds.sum(-1, keepdims=True)
    return shares


def _increasing(scores: FloatArray) -> FloatArray:
    """Quantiles of one distribution, which cannot cross."""
    return np.sort(scores, axis=-1)


LINKS = {
    link.name: link
    for link in (
        Link("identity", "numbers", _same, _same),
        Link("logit", "classes", _logit, _expit, "odds ratio"),
        Link("log", "rates", _log, _exp, "relativity"),
        Link("softmax", "classes", _centred_log, _softmax, couples_outputs=True),
        Link("quantiles", "quantiles", _same, _increasing, couples_outputs=True),
    )
}
CLASS_LINKS = tuple(link.name for link in LINKS.values() if link.kind == "classes")
