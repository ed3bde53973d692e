"""Plots of rows draw the scores and Shapley values of the explanation."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tpnn import Explanation, TPNNRegressor, plots
from tpnn.explain.plots.local import _ranks, _swarm
from tpnn.table.axis import Axis


@pytest.mark.parametrize("n_components", [3, 50])
def test_waterfall_leads_from_intercept_to_score(local: Explanation, n_components: int) -> None:
    axes = plots.waterfall(local, row=7, n_components=n_components)
    first, last = axes.patches[-1], axes.patches[0]
    assert first.get_x() == pytest.approx(local.model.intercept)
    raw = local.model.intercept + local.scores[7].sum()
    assert last.get_x() + last.get_width() == pytest.approx(raw)
    assert len(axes.patches) == min(n_components + 1, local.scores.shape[1])


def test_shap_summary_draws_every_row(local: Explanation) -> None:
    axes = plots.shap_summary(local, n_features=3)
    values = local.shap_values().values
    top = np.argsort(-np.abs(values).mean(0))[:3]
    for feature, points in zip(top, axes.collections, strict=True):
        assert np.allclose(points.get_offsets()[:, 0], values[:, feature])
    heights = axes.collections[0].get_offsets()[:, 1]
    assert np.abs(heights).max() <= 0.5


def test_unseen_levels_have_no_rank_and_are_grey(table: Any, quick: Any) -> None:
    X, y = table
    grade = pd.Categorical(np.array(["low", "mid", "top"])[X["level"].astype(int)], ordered=True)
    model = TPNNRegressor(**quick).fit(X.assign(level=grade), y)
    unseen = model.explain(X[:20].assign(level=np.where(np.arange(20) % 2, "mid", "best")))
    with pytest.warns(UserWarning, match="^X: levels or missing values"):
        axes = plots.shap_summary(unseen)
    (level,) = (p for p in axes.collections if np.isnan(np.ma.filled(p.get_array(), np.nan)).any())
    assert np.isnan(np.ma.filled(level.get_array(), np.nan)).tolist() == [True, False] * 10


def test_bars_of_a_waterfall_join_and_are_coloured_by_their_sign(local: Explanation) -> None:
    axes = plots.waterfall(local, row=3)
    bars = axes.patches
    for above, below in pairwise(bars):
        assert above.get_x() == pytest.approx(below.get_x() + below.get_width())
    colours = {bar.get_width() > 0: bar.get_facecolor() for bar in bars}
    assert colours[True] != colours[False]
    assert [label.get_text() for label in axes.get_yticklabels()][-1] == "1 others"


def test_a_row_that_is_not_there(local: Explanation) -> None:
    with pytest.raises(IndexError):
        plots.waterfall(local, row=10**6)


def test_ranks_of_values() -> None:
    axis = Axis(np.array([0.0, 1.0]), np.array([0.5, 0.3, 0.2]), has_missing=True)
    found = _ranks(axis, np.array([-5.0, 0.5, 9.0, np.nan, np.inf]))
    low, high = axis.positions[:2]
    assert found[:3] == pytest.approx([low, (low + high) / 2, high])
    assert np.isnan(found[3:]).all()
    nominal = Axis(np.arange(2.0), np.ones(2) / 2, "nominal", groups=np.arange(2))
    assert np.isnan(_ranks(nominal, np.zeros(3))).all()


@settings(max_examples=40, deadline=None)
@given(arrays(np.float64, st.integers(1, 200), elements=st.floats(-1, 1)))
def test_a_swarm_stays_near_its_line_and_spreads_equal_points(points: np.ndarray) -> None:
    heights = _swarm(points)
    assert np.abs(heights).max() <= 0.5
    for value in np.unique(points):
        same = heights[points == value]
        assert len(np.unique(same)) == len(same)


def test_bars_of_a_waterfall_name_the_values_of_the_row(
    mixed: pd.DataFrame, mixed_local: Explanation
) -> None:
    axes = plots.waterfall(mixed_local, row=8, n_components=50)
    labels = {label.get_text() for label in axes.get_yticklabels()}
    town, day = mixed["town"][8], mixed["since"][8]
    assert f"town = {town}" in labels
    assert f"since = {day:%Y-%m-%d}" in labels
    assert f"skewed = (missing) × town = {town}" in labels


def test_steps_of_a_waterfall_do_not_run_into_names(local: Explanation) -> None:
    axes = plots.waterfall(local, row=2)
    axes.figure.canvas.draw()
    right = axes.get_window_extent().x1
    assert len(axes.texts) == len(axes.patches)
    assert all(text.get_window_extent().x0 > right for text in axes.texts)


def test_a_waterfall_of_counts_shows_factors(table: Any, quick: Any) -> None:
    X, y = table
    model = TPNNRegressor(**{**quick, "objective": "poisson"}).fit(X, np.exp(y - y.max()))
    local = model.explain(X[:3])
    axes = plots.waterfall(local, row=1, n_components=50, scale="response")
    factors = [float(text.get_text().removeprefix("×")) for text in axes.texts]
    drawn = [np.exp(bar.get_width()) for bar in axes.patches]
    assert factors == pytest.approx(drawn, rel=0.01)
    assert axes.get_title(loc="right") == f"prediction {model.predict(X[1:2])[0]:.4g}"
    places = axes.get_xticks()
    shown = [float(label.get_text()) for label in axes.get_xticklabels()]
    assert np.exp(places) == pytest.approx(shown)
    summary = plots.shap_summary(local, scale="response")
    assert {label.get_text()[0] for label in summary.get_xticklabels()} == {"×"}
