"""The three synthetic functions of the ANOVA-TPNN paper as sums of low-dimensional terms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tpnn._utils.arrays import FloatArray


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
)

_F3 = SyntheticFunction(
    bounds=(_SYMMETRIC,) * 10,
    terms=(
        Term((0, 1), lambda x1, x2: np.exp(np.abs(x1 - x2)), diagonal_kink=True),
        Term((1, 2), lambda x2, x3: np.abs(x2 * x3), even=True),
        Term((2, 3), lambda x3, x4: -(np.abs(x3) ** (2 * np.abs(x4))), even=True),
        Term(
            (3, 4, 6, 7),
            lambda x4, x5, x7, x8: np.log(x4**2 + x5**2 + x7**2 + x8**2),
            even=True,
        ),
        Term((8,), lambda x9: x9),
        Term((9,), lambda x10: 1 / (1 + x10**2)),
    ),
)

FUNCTIONS = {"f1": _F1, "f2": _F2, "f3": _F3}


def get_function(name: str) -> SyntheticFunction:
    """Return the synthetic function called `name`, or raise a ValueError that lists the names."""
    if name not in FUNCTIONS:
        raise ValueError(
            f"name: must be one of {', '.join(FUNCTIONS)}, found {name!r}. Use one of these."
        )
    return FUNCTIONS[name]
