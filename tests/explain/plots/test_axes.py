"""Scales: where values stand, and what the axes say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot

from tpnn import TPNNRegressor, plots
from tpnn.explain.plots.axes import (
    MAIN_RANKS,
    missing_strip,
    node_places,
    shown_range,
)
from tpnn.table.axis import Axis
from tpnn.table.words import shown_unit


def test_levels_dates_and_missing_values_are_labelled(table: Any, quick: Any) -> None:
    X, y = table
    rng = np.random.default_rng(0)
    since = pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 500, len(X)), "D")
    mixed = pd.DataFrame({"a": X["smooth"], "town": rng.choice(["u", "v"], len(X)), "since": since})
    mixed.loc[::8, "a"] = np.nan
    all_pairs = {**quick, "interactions": "all"}
    local = TPNNRegressor(**all_pairs).fit(mixed, y).explain(mixed)

    def words(axis: Any) -> list[str]:
        axis.axes.figure.canvas.draw()
        return [label.get_text() for label in axis.get_ticklabels()]

    assert sorted(words(plots.main_effect(local, "town").xaxis)) == ["u", "v"]
    assert words(plots.main_effect(local, "a").xaxis)[-1] == "missing"
    assert any("2022" in word for word in words(plots.main_effect(local, "since").xaxis))
    heat = plots.pair_effect(local, ("town", "a"))
    assert words(heat.xaxis)[-1] == "missing"
    assert sorted(words(heat.yaxis)) == ["u", "v"]
    assert len(plots.shap_summary(local).collections) == 3


def test_dates_and_durations_are_drawn_in_days() -> None:
    values, weights = np.array([0.0, 86_400.0]), np.ones(2) / 2
    for kind, expected in [("date", [0.0, 1.0]), ("duration", [0.0, 1.0]), ("number", values)]:
        axis = Axis(values, weights, kind)
        assert np.array_equal(node_places(axis), expected)
        assert shown_unit(axis.kind) == (1.0 if kind == "number" else 86_400.0)


def test_the_range_shown_leaves_out_the_tails() -> None:
    axis = Axis(np.arange(1001.0), np.full(1001, 1 / 1001))
    low, high = shown_range(axis, MAIN_RANKS)
    assert low == pytest.approx(0.005 * 1001 - 0.5)
    assert high == pytest.approx(0.995 * 1001 - 0.5)


@pytest.mark.parametrize(
    ("axis", "expected"),
    [
        (Axis(np.array([3.0]), np.ones(1)), (2.5, 3.5)),
        (Axis(np.empty(0), np.ones(1), has_missing=True), (-0.5, 0.5)),
        (Axis(np.arange(2.0), np.ones(2) / 2, "ordered", ("low", "high")), (-0.6, 1.6)),
    ],
)
def test_the_range_of_one_value_of_none_and_of_levels(axis: Axis, expected: Any) -> None:
    assert shown_range(axis, MAIN_RANKS) == pytest.approx(expected)


def test_missing_values_have_a_strip_to_the_right() -> None:
    axes = pyplot.subplots()[1]
    left, right = missing_strip(axes.xaxis, (10.0, 20.0))
    assert 20.0 < left < right < 22.0
    axes.set_xscale("log")
    assert missing_strip(axes.xaxis, (10.0, 1000.0))[1] == pytest.approx(1000 * 100**0.1)


def test_durations_are_labelled_in_days(table: Any, quick: Any) -> None:
    X, y = table
    waited = pd.DataFrame({"waited": pd.to_timedelta(X["skewed"] * 100, "h"), "other": X["atom"]})
    local = TPNNRegressor(**{**quick, "order": 1}).fit(waited, y).explain(waited)
    axes = plots.main_effect(local, "waited")
    assert axes.get_xlabel() == "waited (days)"
    assert axes.get_xlim()[1] < waited["waited"].max().total_seconds() / 86_400 + 1
