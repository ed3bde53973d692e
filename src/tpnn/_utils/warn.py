"""Warnings that point at the line of the user's code that called this package."""

from __future__ import annotations

import sys
import warnings

# Packages whose lines say nothing to a user: ours, and those whose functions call or wrap ours.
PASSED_OVER = ("tpnn", "sklearn", "joblib", "contextlib", "functools")


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn of something at the innermost line outside of this package and of wrappers around it."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _package(frame.f_globals) in PASSED_OVER:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _package(known: dict[str, object]) -> str:
    """Package of the module that has these global names."""
    return str(known.get("__name__", "")).partition(".")[0]
