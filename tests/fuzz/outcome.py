"""Outcome: what became of one random table."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fuzz import explanations, laws, lives, refits
from tests.fuzz.cases import Case
from tests.fuzz.faults import argument_of, case_of

LIVES_SHARE = 2  # one table of so many has a model that lives on,
REFIT_SHARE = 3  # and one of so many is fitted a second time
OWN_WARNING = r"(X|y|offset|sample_weight|shapes|time_limit): "
DRIVER_WARNING = "CUDA initialization: "  # torch, of a card whose driver it cannot use


@dataclass(frozen=True)
class Outcome:
    """What became of one seed.

    Parameters
    ----------
    seed : int
        What it was made from.
    kind : str
        "fitted" or "refused: argument" where all is well, "skipped: library" where a library is
        not installed; else "failed: " and what is wrong.
    detail : str
        Where it failed.
    """

    seed: int
    kind: str
    detail: str = ""

    @property
    def is_failure(self) -> bool:
        """Whether something is wrong."""
        return self.kind.startswith("failed")


def try_table(seed: int) -> Outcome:
    """Fit the table of a seed and check all laws."""
    with strict_warnings():
        return _tried(seed, case_of(seed))


def try_deep(seed: int) -> Outcome:
    """Fit the table of a seed by deep trees, and check all laws."""
    with strict_warnings():
        return _tried(seed, case_of(seed, is_deep=True))


@contextmanager
def strict_warnings() -> Iterator[None]:
    """Raise all warnings but our own and those that say something about the environment."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", OWN_WARNING, UserWarning)
        warnings.filterwarnings("ignore", DRIVER_WARNING, UserWarning)
        warnings.filterwarnings("ignore", category=PendingDeprecationWarning)  # import shap
        yield


def _tried(seed: int, case: Case) -> Outcome:
    if case.lacks:
        return Outcome(seed, f"skipped: {case.lacks}")
    try:
        trial = laws.trial_of(case)
    except Exception as error:  # whatever a fit raises is judged here
        argument = argument_of(error)
        if argument in case.faults | case.doubts:
            return Outcome(seed, f"refused: {argument}")
        return failure(seed, error)
    if case.faults:
        return Outcome(seed, "failed: fitted", f"though {sorted(case.faults)} are wrong")
    try:
        laws.check_all(trial)
        explanations.check_all(trial)
        if seed % LIVES_SHARE == 0:
            lives.check_all(trial)
        if seed % REFIT_SHARE == 0:
            refits.check_one(trial)
    except Exception as error:
        return failure(seed, error)
    return Outcome(seed, "fitted")


def failure(seed: int, error: Exception) -> Outcome:
    """Outcome of an error, with the last lines of its trace."""
    trace: Any = traceback.extract_tb(error.__traceback__)
    places = " < ".join(f"{Path(at.filename).name}:{at.lineno}" for at in trace[:-5:-1])
    message = f"{type(error).__name__}: {error}"
    return Outcome(seed, f"failed: {message[:160]}", places)
