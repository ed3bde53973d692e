"""Design: values, sums and Gram matrices are those of the dense matrix."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tpnn._utils.threads import Workers
from tpnn.solvers.problem.coded import Codes
from tpnn.table.encoder import TableEncoder
from tpnn.table.table import Table
from tpnn.uncertainty.design import Design, spans

COMPONENTS = [(0,), (2,), (1, 0), (2, 1), (0, 1, 2)]


@pytest.fixture(scope="module")
def design() -> Design:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(500, 2)), columns=["a", "b"])
    frame.loc[::7, "b"] = np.nan
    frame["town"] = rng.choice(["Ulm", "Bonn", "Trier"], 500)
    table = Table(frame)
    encoder = TableEncoder.fit(table, {1: 40, 2: 10, 3: 6})
    codes = Codes(table, encoder, np.arange(500))
    return Design(COMPONENTS, spans(COMPONENTS, encoder.axes), codes, Workers(2))


def dense(design: Design) -> np.ndarray:
    """X, column by column."""
    columns = []
    for component, span in zip(design.components, design.spans, strict=True):
        for i in range(span.size):
            table = span.tables(np.eye(span.size)[i] * span.deviations)
            columns.append(design.codes.values(component, table))
    return np.column_stack(columns)


def test_values_and_sums(design: Design) -> None:
    X, rng = dense(design), np.random.default_rng(1)
    beta, v = rng.normal(size=design.size), rng.normal(size=500)
    assert design.values(beta) == pytest.approx(X @ beta)
    assert design.sums(v) == pytest.approx(X.T @ v)
    part = design.of([3, 0])
    kept = np.concatenate([design.places[3], design.places[0]])
    assert part.sums(v) == pytest.approx(X[:, kept].T @ v)


def test_the_gram_matrix_is_centred_under_the_precisions(design: Design) -> None:
    X, precision = dense(design), np.random.default_rng(1).random(500)
    centred = X - precision @ X / precision.sum()
    expected = centred.T @ (precision[:, None] * centred)
    gram = design.gram(precision)
    assert gram == pytest.approx(expected, abs=1e-4 * np.abs(expected).max())
    alone = replace(design, workers=Workers(1)).gram(precision)
    assert np.array_equal(gram, alone)


def test_sparse_rows_have_the_same_gram_matrix() -> None:
    """Of many levels, alone and beside numbers, and about any centre."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(900, 2)), columns=["a", "b"])
    frame["town"] = np.char.add("town ", rng.integers(0, 40, 900).astype(str))
    table, components = Table(frame), [(0,), (2,), (2, 1), (1, 0), (2, 0, 1)]
    encoder = TableEncoder.fit(table, {1: 40, 2: 64, 3: 6})
    codes = Codes(table, encoder, np.arange(900))
    design = Design(components, spans(components, encoder.axes), codes, Workers(2), step=2)
    assert [span.sparse is not None for span in design.spans] == [False, True, True, False, False]
    X, weights = dense(design)[::2], rng.random(450)
    centre = rng.normal(size=design.size)
    for c, found in (
        (weights @ X / weights.sum(), design.gram(weights)),
        (centre, design.square(weights, centre)),
    ):
        expected = (X - c).T @ (weights[:, None] * (X - c))
        assert found == pytest.approx(expected, abs=1e-10 * np.abs(expected).max())


def test_every_third_row(design: Design) -> None:
    X, some = dense(design)[::3], replace(design, step=3)
    precision, beta = np.random.default_rng(1).random(len(X)), np.ones(design.size)
    assert some.values(beta) == pytest.approx(X @ beta)
    assert some.sums(precision) == pytest.approx(X.T @ precision)
    centred = X - precision @ X / precision.sum()
    expected = centred.T @ (precision[:, None] * centred)
    assert some.gram(precision) == pytest.approx(expected, abs=1e-4 * np.abs(expected).max())
