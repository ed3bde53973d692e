"""Predictor: rows in many tasks, values that fit has not seen, and any choice of sums."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from tests.models import small_model
from tpnn.model.flat import flatten_tables
from tpnn.model.interpolate import ROWS_PER_TASK, Predictor, compiled_module, in_tasks

ROWS = np.random.default_rng(1).normal(size=(30, 3))


def predictor(order: int) -> Predictor:
    model = small_model(order)
    return Predictor(model.encoder.axes, flatten_tables(model.by_component()))


@pytest.mark.parametrize("n_rows", [0, 1, ROWS_PER_TASK, ROWS_PER_TASK + 1, 5 * ROWS_PER_TASK - 3])
def test_every_row_is_done_once(n_rows: int) -> None:
    done, lock = np.zeros(n_rows, int), threading.Lock()

    def count(rows: slice) -> None:
        with lock:
            done[rows] += 1

    in_tasks(count, n_rows)
    assert (done == 1).all()


def test_a_row_among_many_is_the_row_alone() -> None:
    model = small_model(2)
    X = np.random.default_rng(0).normal(size=(ROWS_PER_TASK + 4000, 3))
    edge = slice(ROWS_PER_TASK - 5, ROWS_PER_TASK + 5)
    assert np.array_equal(model.raw_scores(X)[edge], model.raw_scores(X[edge]))


def test_tables_are_added_to_the_sums_they_are_sent_to() -> None:
    """Whatever stands there already stays."""
    tables = predictor(2)
    apart = np.zeros((6, 30))
    tables.add(list(ROWS.T), range(6), apart)
    targets = [1, 0, 1, 1, 0, 2]
    sums = np.arange(4.0)[:, None] * np.ones(30)
    tables.add(list(ROWS.T), targets, sums)
    for target in range(4):
        chosen = [t for t, into in enumerate(targets) if into == target]
        assert np.allclose(sums[target], target + apart[chosen].sum(0))


def test_what_fit_has_not_seen_contributes_nothing() -> None:
    """Neither alone nor in an interaction: the components of its feature are zero."""
    tables = predictor(3)
    X = ROWS.copy()
    X[:10, 0], X[10:20, 2] = np.inf, np.nan
    scores = np.zeros((7, 30))
    tables.add(list(X.T), range(7), scores)
    with_first = [0 in table.component for table in tables.tables]
    with_last = [2 in table.component for table in tables.tables]
    assert not scores[with_first, :10].any()
    assert not scores[with_last, 10:20].any()
    assert scores[~np.array(with_first), :10].any()
    seen = np.zeros((7, 30))
    tables.add(list(ROWS.T), range(7), seen)
    assert np.array_equal(scores[:, 20:], seen[:, 20:])


def test_orders_are_those_of_the_tables() -> None:
    assert predictor(3).orders == [1, 2, 3]


def test_loops_are_compiled_only_for_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tpnn.model.interpolate.MIN_COMPILED_ROWS", 10)
    assert compiled_module(9) is None
    assert compiled_module(10).__name__ == "tpnn.model.interpolate_numba"


@pytest.mark.parametrize("failure", [ImportError, OSError, AttributeError])
def test_numpy_does_it_where_numba_does_not_load(
    monkeypatch: pytest.MonkeyPatch, failure: type[Exception]
) -> None:
    def refuse(name: str) -> Any:
        raise failure(name)

    expected = small_model(2).raw_scores(ROWS)
    monkeypatch.setattr("tpnn.model.interpolate.MIN_COMPILED_ROWS", 0)
    monkeypatch.setattr("tpnn.model.interpolate.import_module", refuse)
    assert compiled_module(10**6) is None
    assert np.array_equal(small_model(2).raw_scores(ROWS), expected)
