"""Checks: what a plot can draw, and the error that says what to pass instead."""

from __future__ import annotations

from typing import Any

from tpnn.explain.reading import Reading


def check_explanation(explanation: Any) -> None:
    """Refuse what is not an explanation, such as the estimator itself."""
    if not isinstance(explanation, Reading):
        raise TypeError(
            f"explanation: an Explanation is needed, found {type(explanation).__name__}. "
            "Pass model.explain(), or model.explain(X) for plots of rows."
        )


def check_one_output(explanation: Any) -> None:
    """Refuse what is not an explanation of a single output."""
    check_explanation(explanation)
    explanation.check_one_output()
