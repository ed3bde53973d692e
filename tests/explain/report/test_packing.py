"""Packing: what a page decodes is the model's tables, within half a step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.explain.report.pages import payload, unpack
from tpnn import AnovaModel
from tpnn.explain.report import write_report
from tpnn.explain.report.packing import LARGEST_UNIT, MAX_ERROR, mixed_difference, pack

TASKS = ("regression", "two classes", "three classes", "quantiles", "order 3")


@pytest.mark.parametrize("task", TASKS)
def test_tables_decode_within_half_a_step(
    task: str, models: dict[str, AnovaModel], tmp_path: Path
) -> None:
    model = models[task]
    write_report(model, tmp_path / "page.html")
    packed = payload(tmp_path / "page.html")["packed"]
    doubles, _, units = unpack(packed)
    nodes = [a.values for axes in model.encoder.axes.values() for a in axes]
    assert np.array_equal(doubles, np.concatenate(nodes))
    doubts = [
        (np.abs(table) <= width).astype(float) * (width > 0)
        for table, width in zip(model.tables, half_widths(model), strict=True)
        if table.ndim > 2
    ]
    steps = [packed["step"]] * len(model.tables) + [1] * len(doubts)
    at = 0
    for table, step in zip((*model.tables, *doubts), steps, strict=True):
        for values in np.moveaxis(table, -1, 0):
            decoded = units[at : at + values.size].reshape(values.shape)
            for axis in range(values.ndim):
                decoded = np.cumsum(decoded, axis)
            wrapped = (decoded + 2**31) % 2**32 - 2**31
            assert np.abs(wrapped * step - values).max() <= step * 0.5001
            at += values.size
    assert at == packed["n_cells"]


def half_widths(model: AnovaModel) -> list[np.ndarray]:
    """Half the width of the band of every component, zero where there is none."""
    posteriors = model.evidence.posteriors or (None,) * len(model.tables)
    return [
        np.zeros_like(table) if posterior is None else posterior.uncertainty().half_widths()
        for table, posterior in zip(model.tables, posteriors, strict=True)
    ]


def test_rounding_stays_within_the_largest_error() -> None:
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=(20, 20)) for _ in range(50)]
    found = pack([], [], tables, deviation=3.0)
    assert len(tables) * found.step / 2 <= MAX_ERROR * 3.0 * 1.0001


def test_huge_values_fit_into_whole_numbers() -> None:
    tables = [np.array([1e9, -1e9, 1.0]), np.array([0.1, -0.1])]
    found = pack([], [], tables, deviation=1e-3)
    units = unpack(found._asdict())[2]
    assert np.allclose(np.cumsum(units[:3]) * found.step, tables[0], atol=found.step)


def summed(differences: np.ndarray) -> np.ndarray:
    """Running sums along every axis, modulo 2^32."""
    for axis in range(differences.ndim):
        differences = np.cumsum(differences, axis)
    return (differences + 2**31) % 2**32 - 2**31


@settings(max_examples=60, deadline=None)
@given(
    arrays(
        np.int64, st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple),
        elements=st.integers(-LARGEST_UNIT, LARGEST_UNIT),
    )
)  # fmt: skip
def test_running_sums_undo_the_mixed_difference(table: np.ndarray) -> None:
    """Whatever the values, and although differences of differences overflow 32 bits."""
    differences = mixed_difference(table)
    assert np.abs(differences).max() <= 2**31
    assert np.array_equal(summed(differences), table)


@settings(max_examples=40, deadline=None)
@given(
    tables=st.lists(
        arrays(np.float64, (3, 2), elements=st.floats(-1e6, 1e6)), min_size=1, max_size=4
    ),
    deviation=st.floats(0, 1e6),
)
def test_any_tables_decode(tables: list[np.ndarray], deviation: float) -> None:
    found = pack([np.arange(2.0)], [np.ones(3)], tables, deviation)
    doubles, floats, units = unpack(found._asdict())
    assert doubles.tolist() == [0.0, 1.0]
    assert floats.tolist() == [1.0, 1.0, 1.0]
    assert found.n_cells == 6 * len(tables)
    for place, table in enumerate(tables):
        decoded = summed(units[6 * place : 6 * place + 6].reshape(3, 2)) * found.step
        assert np.abs(decoded - table).max() <= 0.5001 * found.step


def test_nothing_can_be_packed() -> None:
    found = pack([], [], [], deviation=0.0)
    assert (found.n_doubles, found.n_floats, found.n_cells) == (0, 0, 0)
    assert all(len(part) == 0 for part in unpack(found._asdict()))
