"""What every model of the experiments looks like, ours and the others."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Component = tuple[int, ...]


class Rows(NamedTuple):
    """Features and targets of some rows.

    Parameters
    ----------
    X : array of shape (n, p)
        Features, categories coded one-hot.
    y : array of shape (n,)
        A number, or the class counted from 0.
    """

    X: FloatArray
    y: NDArray[Any]


class Task(NamedTuple):
    """What is predicted.

    Parameters
    ----------
    kind : {"regression", "binary", "multiclass"}
        The kind of target.
    n_outputs : int
        Raw scores of a row: 1, or the number of classes if there are more than two.
    """

    kind: Literal["regression", "binary", "multiclass"]
    n_outputs: int = 1


class Model(Protocol):
    """A model that chooses whatever it has to choose on the validation rows."""

    def fit(self, training: Rows, validation: Rows) -> Self:
        """Fit to the training rows."""
        ...

    def raw_scores(self, X: FloatArray) -> FloatArray:
        """Return expected target, logit, or a score of each class, shape (n, n_outputs)."""
        ...


@runtime_checkable
class Additive(Model, Protocol):
    """A model whose raw score is an intercept plus a sum of components.

    ``intercept + component_scores(X).sum(1)`` are the raw scores.
    """

    components: list[Component]  # features of each component, counted from 0
    intercept: FloatArray  # (n_outputs,)

    def component_scores(self, X: FloatArray) -> FloatArray:
        """Value of every component on every row, shape (n, n_components, n_outputs)."""
        ...


def both(training: Rows, validation: Rows) -> Rows:
    """Return all rows, for models that hold rows out by themselves."""
    return Rows(*(np.concatenate(parts) for parts in zip(training, validation, strict=True)))
