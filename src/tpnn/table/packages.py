"""Packages that not every installation has: who needs one says so in plain words."""

from __future__ import annotations

from importlib.util import find_spec


def require_pandas(method: str) -> None:
    """Refuse to make a data frame where pandas is not installed; a model predicts without it."""
    try:
        is_there = find_spec("pandas") is not None
    except ModuleNotFoundError:
        is_there = False
    if not is_there:
        raise ImportError(
            f"{method}: pandas is needed, found that it is not installed. Run: pip install pandas"
        )
