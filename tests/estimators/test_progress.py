"""The progress bar: shown when asked for, full at the end, one for every stage."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from tests.conftest import with_solver
from tpnn import TPNNClassifier, TPNNRegressor
from tpnn.estimators.base import ProgressBar
from tpnn.solvers.solution import Event


def test_no_bar_unless_one_is_asked_for(
    table: Any, settings: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    X, y = table
    TPNNRegressor(**settings).fit(X, y)
    TPNNRegressor(**{**settings, "verbose": "auto"}).fit(X, y)  # not on a terminal
    assert capsys.readouterr() == ("", "")


def test_a_bar_is_full_at_the_end(
    table: Any, settings: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    X, y = table
    TPNNRegressor(**{**settings, "verbose": 1}).fit(X, y)
    shown = capsys.readouterr().err
    assert "TPNNRegressor: 100%" in shown
    assert "validation_loss" in shown


def test_seconds_of_the_stages_follow_the_bar_where_they_are_asked_for(
    table: Any, quick: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    X, y = table
    began = time.monotonic()
    model = TPNNRegressor(**{**quick, "verbose": 2}).fit(X, y)
    took = time.monotonic() - began
    seconds = {r["note"]: r["seconds"] for r in model.history_ if r["stage"] == "time"}
    assert list(seconds)[:4] == ["read", "encode", "build", "trees"]
    assert 0 < sum(seconds.values()) <= took
    lines = capsys.readouterr().err.splitlines()[-1 - len(seconds) :]
    assert [line.split("  ")[0] for line in lines] == [*seconds, "in all"]


@pytest.mark.parametrize("order", [2, "auto"])
@pytest.mark.parametrize(("n_features", "n_classes"), [(2, 2), (2, 3), (1, 3)])
def test_the_bar_counts_every_growth_of_every_bag(
    n_features: int,
    n_classes: int,
    order: int | str,
    quick: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Deep trees and the core that they find grow once in every bag each."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, n_features)), rng.integers(0, n_classes, 200)
    asked = {**with_solver(quick, max_rounds=5), "n_bags": 3, "verbose": 1, "order": order}
    TPNNClassifier(**asked).fit(X, y)
    shown = capsys.readouterr().err
    assert _totals(shown) == {"/3"}
    assert "growth/s" in shown or "s/growth" in shown
    assert "bag" not in shown


def _totals(shown: str) -> set[str]:
    """Totals of all bars on a screen, such as "/4"."""
    states = (part.split("|")[-1].split()[0] for part in shown.split("\r") if "|" in part)
    return {"/" + state.split("/")[1] for state in states}


def test_an_interrupted_fit_closes_its_bar(capsys: pytest.CaptureFixture[str]) -> None:

    def interrupted() -> None:
        with ProgressBar("a fit", 1) as bar:
            bar.begin(5, "bag")
            bar.advance(Event(stage="grow", validation_loss=0.25, seconds=0.0))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    shown = capsys.readouterr().err
    assert "1/1" in shown.split("\r")[-1]
    assert "validation_loss=0.2500" in shown


def test_a_program_without_a_terminal_shows_no_bar(
    table: Any, quick: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs with windows have no stderr on Windows."""
    X, y = table
    monkeypatch.setattr("sys.stderr", None)
    TPNNRegressor(**{**quick, "verbose": "auto"}).fit(X, y)
