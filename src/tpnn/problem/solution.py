"""Solution: what a solver hands over to be frozen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tpnn._typing import FloatArray
from tpnn.anova.terms import Terms

Progress = Callable[[dict[str, float]], None]


@dataclass(frozen=True)
class Solution:
    """Fitted components on the training scale, in the order of the component set.

    Parameters
    ----------
    intercepts : array of shape (n_bags * K,)
        Intercept of each bag, the K outputs of a bag together.
    tables : list of array of shape (M_1, ..., M_d, n_bags * K)
        Values of each component on its nodes.
    terms : list of Terms, or None
        Each component's bases over all bags; their sum is the mean of the bags' tables. None where
        the tables themselves, as sums of steps between nodes or levels, are the terms.
    history : list of dict
        What happened at each step.
    """

    intercepts: FloatArray
    tables: list[FloatArray]
    terms: list[Terms] | None
    history: list[dict[str, float]]
