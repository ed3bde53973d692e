"""What every model looks like, ours and the others, and the rows that it sees."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, Literal, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import FloatArray

Component = tuple[int, ...]
Kind = Literal["regression", "binary", "multiclass"]


class Rows(NamedTuple):
    """Features and targets of some rows."""

    X: Any  # (n, p), numbers; a data frame where a model takes levels as they are
    y: NDArray[Any]  # (n,), a number, or the class counted from 0


class Split(NamedTuple):
    """Rows to train, to choose by, and to test."""

    training: Rows
    validation: Rows
    test: Rows

    @property
    def fitted(self) -> Rows:
        """All rows that a model may see: those to train and those to choose by."""
        return both(self.training, self.validation)


class Halves(NamedTuple):
    """Rows to fit to, of which a model may hold some out by itself, and rows to test on."""

    fitted: Rows
    test: Rows


class Task(NamedTuple):
    """What is predicted."""

    kind: Kind
    n_outputs: int = 1  # raw scores of a row: 1, or the number of classes if more than two


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

    @property
    def components(self) -> Sequence[Component]:
        """Features of each component, counted from 0."""
        ...

    @property
    def intercept(self) -> FloatArray:
        """Intercept, shape (n_outputs,)."""
        ...

    def component_scores(self, X: FloatArray) -> FloatArray:
        """Value of every component on every row, shape (n, n_components, n_outputs)."""
        ...


def both(training: Rows, validation: Rows) -> Rows:
    """Return all rows, for models that hold rows out by themselves."""
    return Rows(*(np.concatenate(parts) for parts in zip(training, validation, strict=True)))


def components_up_to(
    n_features: int, order: int, pairs: Sequence[Component] | None = None
) -> list[Component]:
    """Return the main effects, then the pairs where the order is 2.

    >>> components_up_to(3, 2)
    [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]
    """
    mains: list[Component] = [(feature,) for feature in range(n_features)]
    if order == 1:
        return mains
    return mains + list(combinations(range(n_features), 2) if pairs is None else pairs)
