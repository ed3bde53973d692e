"""Small problems and their solutions, as the pipeline hands them to the recipe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tpnn.estimators import pipeline
from tpnn.estimators.pipeline import Solved


@contextmanager
def caught() -> Iterator[list[Solved]]:
    """Collect what the solver of every fit returns."""
    solved: list[Solved] = []

    def with_bands(found: Solved, limits: Any) -> Solved:
        solved.append(found)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "with_bands", with_bands)
        yield solved


def solved(estimator: Any, X: Any, y: Any) -> Solved:
    """Problem and solution of a fit."""
    with caught() as found:
        estimator.fit(X, y)
    return found[-1]
