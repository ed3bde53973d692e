"""Predictor: rows in many tasks, values that fit has not seen, and any choice of sums."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tests.models import small_model
from tpnn.model.flat import flatten_tables
from tpnn.model.interpolate import ROWS_PER_TASK, Predictor, in_tasks
from tpnn.model.model import tables_by_component

ROWS = np.random.default_rng(1).normal(size=(30, 3))


def predictor(order: int) -> Predictor:
    model = small_model(order)
    return Predictor(model.encoder.axes, flatten_tables(tables_by_component(model)))


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


@pytest.mark.parametrize("n_sums", [1, 2, 3])
def test_tables_are_added_to_the_sums_in_turn(n_sums: int) -> None:
    """Whatever stands there already stays."""
    model = small_model(2, n_outputs=6)
    tables = Predictor(model.encoder.axes, flatten_tables(tables_by_component(model)))
    apart = np.zeros((36, 30))
    tables.add(list(ROWS.T), apart)
    sums = np.arange(float(n_sums))[:, None] * np.ones(30)
    tables.add(list(ROWS.T), sums)
    for target in range(n_sums):
        assert np.allclose(sums[target], target + apart[target::n_sums].sum(0))


@pytest.mark.parametrize("n_rows", [0, 1, 100_000])
def test_a_model_without_components_is_its_intercept(n_rows: int, all_compiled: None) -> None:
    model = small_model(1).restrict([])
    assert model.raw_scores(np.zeros((n_rows, 3))).tolist() == [0.3] * n_rows


def test_what_fit_has_not_seen_contributes_nothing() -> None:
    """Neither alone nor in an interaction: the components of its feature are zero."""
    tables = predictor(3)
    X = ROWS.copy()
    X[:10, 0], X[10:20, 2] = np.inf, np.nan
    scores = np.zeros((7, 30))
    tables.add(list(X.T), scores)
    with_first = [0 in table.component for table in tables.tables]
    with_last = [2 in table.component for table in tables.tables]
    assert not scores[with_first, :10].any()
    assert not scores[with_last, 10:20].any()
    assert scores[~np.array(with_first), :10].any()
    seen = np.zeros((7, 30))
    tables.add(list(ROWS.T), seen)
    assert np.array_equal(scores[:, 20:], seen[:, 20:])
