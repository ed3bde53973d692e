"""Thinning: fewer nodes and digits, and a bound on the raw scores that is true."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tpnn
from tests.export.cases import TASKS, expected, fuzzed_rows, model_of, remainder_model
from tpnn.model.thin import raw_spread, thinned
from tpnn.table.axis import Axis

BOUND = re.compile(r"by at most ([\d.e+, -]+), ([\d.e+-]+) of their spread")


def said(printed: str) -> tuple[np.ndarray, float]:
    (found,) = BOUND.findall(printed)
    return np.array([float(number) for number in found[0].split(", ")]), float(found[1])


@pytest.mark.parametrize("make", [model_of, remainder_model])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.filterwarnings("ignore:X. levels")
def test_no_raw_score_is_farther_than_is_said(task: str, make: Any, capsys: Any) -> None:
    model = make(task)
    rows = fuzzed_rows(model, 5000)
    for thin in (1e-4, 1e-2, 0.3):
        few = thinned(model, thin)
        most, share = said(capsys.readouterr().out)
        off = np.abs(expected(few, rows)["raw"] - expected(model, rows)["raw"]).max(0)
        assert (off > 0).any()
        assert (off <= 1.06 * most).all()  # two digits are printed
        assert (off <= thin * raw_spread(model)).all()
        assert share <= 1.06 * thin
        assert sum(t.size for t in few.tables) <= sum(t.size for t in model.tables)


@pytest.mark.filterwarnings("ignore:X. levels")
def test_exports_are_those_of_the_thin_model(tmp_path: Path, capsys: Any) -> None:
    model = model_of("regression")
    few = thinned(model, 1e-2)
    for write in (lambda m, **o: m.to_sql("duckdb", **o), lambda m, **o: m.to_code("c", **o)):
        assert write(model, thin=1e-2) == write(few)
        assert write(model, thin=0) == write(model)
        assert len(write(few)) < len(write(model))
    assert model.to_json(thin=1e-2) == few.to_json()
    model.to_onnx(tmp_path / "model.onnx", thin=1e-2)
    model.to_excel(tmp_path / "model.xlsx", thin=1e-2)
    assert capsys.readouterr().out.count("raw scores differ") == 6


def line_model(n_nodes: int = 50) -> tpnn.AnovaModel:
    """A main effect of two straight pieces, and a pair that is a plane along one feature."""
    model = model_of("regression")
    x = np.sort(np.random.default_rng(0).normal(size=n_nodes))
    axis = Axis(x, np.append(np.full(n_nodes, 0.9 / n_nodes), 0.1), has_missing=True)
    axes = {order: (*axes[:1], axis, *axes[2:]) for order, axes in model.encoder.axes.items()}
    other = axes[2][0].n_nodes
    bent = np.append(np.abs(x - x[20]), 7.0)[:, None]
    plane = np.outer(np.sin(np.arange(other)), np.append(3 * x, -1.0))[..., None]
    return replace(
        model,
        encoder=replace(model.encoder, axes=axes),
        components=tpnn.ComponentSet(((1,), (0, 1))),
        tables=(bent, plane),
    )


def test_what_lies_on_a_line_is_left_out() -> None:
    model = line_model()
    few = thinned(model, 1e-6)
    main, pair = (axes[1] for order, axes in few.encoder.axes.items() if order < 3)
    known = model.encoder.axes[1][1].values
    assert main.values.tolist() == known[[0, 20, -1]].tolist()
    assert pair.values.tolist() == known[[0, -1]].tolist()
    assert few.tables[0].ravel()[-1] == pytest.approx(7.0, abs=1e-6)  # that of missing values
    assert main.weights.sum() == pytest.approx(1)
    mean = float(model.encoder.axes[1][1].weights @ model.tables[0][:, 0])
    assert float(main.weights @ few.tables[0][:, 0]) == pytest.approx(mean, abs=1e-6)


def test_a_fitted_model_keeps_bands_and_intervals(
    table: tuple[pd.DataFrame, pd.Series], quick: dict[str, Any], tmp_path: Path
) -> None:
    X, y = table
    model = tpnn.TPNNRegressor(**quick).fit(X, y).model_
    model.to_json(tmp_path / "model.json", thin=1e-3)
    loaded = tpnn.load(tmp_path / "model.json").model_
    np.testing.assert_allclose(
        loaded.raw_scores(X), model.raw_scores(X), rtol=0, atol=1e-3 * raw_spread(model)[0]
    )
    for found, known in zip(loaded.predict_interval(X), model.predict_interval(X), strict=True):
        np.testing.assert_allclose(found, known, rtol=0.05, atol=0.05)
    errors = model.standard_errors(X)
    np.testing.assert_allclose(loaded.standard_errors(X), errors, rtol=0.05, atol=0.01)


def test_zero_changes_nothing_and_prints_nothing(capsys: Any) -> None:
    model = model_of("regression")
    assert thinned(model, 0) is model
    assert not capsys.readouterr().out


@pytest.mark.parametrize("thin", [-1e-3, 1.0, True, None, "all"])
def test_a_wrong_tolerance_is_refused(thin: Any) -> None:
    with pytest.raises(ValueError, match=r"thin: must be a share of the raw score's spread"):
        thinned(model_of("regression"), thin)


def test_single_precision_is_written_with_few_digits(tmp_path: Path) -> None:
    from tpnn.model.archive import _lists

    numbers = np.random.default_rng(0).normal(size=10_000).astype(np.float32)
    written = np.array(_lists(numbers))
    np.testing.assert_array_equal(written.astype(np.float32), numbers)
    assert len(repr(_lists(numbers))) < 0.7 * len(repr(numbers.tolist()))
