"""What a fit does is sent to the logger "tpnn": silent unless somebody listens."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from tests.conftest import QUICK
from tpnn import TPNNRegressor


def heard(caplog: pytest.LogCaptureFixture, level: int) -> TPNNRegressor:
    """Fit with a screen of pairs while somebody listens at a level."""
    X = np.random.default_rng(0).normal(size=(200, 20))
    with caplog.at_level(level, logger="tpnn"):
        return TPNNRegressor(**{**QUICK, "interactions": 3}).fit(X, X[:, 0] * X[:, 1])


def test_the_search_and_the_model_at_level_info(caplog: pytest.LogCaptureFixture) -> None:
    model = heard(caplog, logging.INFO)
    *told, last = (record.getMessage() for record in caplog.records)
    searched = [event for event in model.history_ if event["stage"] == "search"]
    assert searched
    for line, event in zip(told, searched, strict=True):
        assert line.startswith(f"search: {event['note']} (n_components {event['n_components']}, ")
    assert last == f"TPNNRegressor: 200 rows, {model.model_!r}"


def test_every_event_at_level_debug(caplog: pytest.LogCaptureFixture) -> None:
    model = heard(caplog, logging.DEBUG)
    told = [r.getMessage() for r in caplog.records if r.levelno == logging.DEBUG]
    solved = [event for event in model.history_ if event["stage"] == "grow"]
    assert solved
    losses = sorted(f"validation_loss {event['validation_loss']:.4g}" for event in solved)
    assert sorted(line.split(", ")[-2] for line in told) == losses


def test_nothing_is_said_unasked(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    heard(caplog, logging.WARNING)
    assert caplog.records == []
    assert capsys.readouterr() == ("", "")
