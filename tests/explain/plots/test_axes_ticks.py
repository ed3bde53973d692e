"""Logarithmic axes for heavy tails, and ticks at round numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tpnn import Explanation, TPNNRegressor, plots
from tpnn.explain.plots.axes import has_heavy_tails, round_places
from tpnn.table.axis import Axis


@pytest.fixture(scope="module")
def tails(quick: Any) -> Explanation:
    """Features of all shapes: heavy tails above zero, from zero on and on both sides."""
    rng = np.random.default_rng(2)
    n = 500
    income = np.exp(rng.normal(10, 1.6, n))
    X = pd.DataFrame(
        {
            "income": np.where(rng.random(n) < 0.1, np.nan, income),
            "gain": np.where(rng.random(n) < 0.7, 0.0, np.exp(rng.normal(8, 1.6, n))),
            "profit": 100 * np.sinh(rng.normal(0, 3, n)),
            "normal": rng.normal(size=n),
            "spike": np.where(rng.random(n) < 0.7, 0.0, rng.normal(size=n)),
            "waiting": rng.exponential(size=n),
        }
    )
    y = np.log(income) + X["normal"] * X["waiting"]
    settings = {**quick, "order": 3, "interactions": [(0, 3), (1, 2), (0, 1, 3)]}
    return TPNNRegressor(**settings).fit(X, y).explain(X)


@pytest.mark.parametrize(
    ("feature", "scale"),
    [
        ("income", "log"),
        ("gain", "symlog"),
        ("profit", "symlog"),
        ("normal", "linear"),
        ("spike", "linear"),
        ("waiting", "linear"),
    ],
)
def test_heavy_tails_ask_for_a_logarithmic_axis(
    tails: Explanation, feature: str, scale: str
) -> None:
    assert plots.main_effect(tails, feature).get_xscale() == scale
    assert plots.comparison([tails, tails], feature).get_xscale() == scale
    assert plots.main_effect(tails, feature, log_axes=False).get_xscale() == "linear"


def test_a_feature_has_the_same_axis_in_all_plots(tails: Explanation) -> None:
    pair = plots.component(tails, ("gain", "profit"))
    assert (pair.get_xscale(), pair.get_yscale()) == ("symlog", "symlog")
    panels = plots.component(tails, ("income", "gain", "normal")).child_axes
    assert {(p.get_xscale(), p.get_yscale()) for p in panels} == {("log", "symlog")}
    flat = plots.component(tails, ("gain", "profit"), log_axes=False)
    assert (flat.get_xscale(), flat.get_yscale()) == ("linear", "linear")


def test_the_curve_on_a_logarithmic_axis_is_linear_between_the_nodes(tails: Explanation) -> None:
    axes = plots.main_effect(tails, "income")
    x, y = max((line.get_data() for line in axes.lines), key=lambda data: len(data[0]))
    table = tails.component("income")
    n = len(table.axes[0].values)
    assert np.allclose(y, np.interp(x, table.axes[0].values, table.effect[:n]))
    assert len(x) > 2 * n


def test_missing_values_stay_to_the_right(tails: Explanation) -> None:
    axes = plots.main_effect(tails, "income")
    assert axes.get_xticklabels()[-1].get_text() == "missing"
    assert axes.get_xticks()[-1] == max(axes.get_xticks())
    assert axes.get_xticks()[-1] < axes.get_xlim()[1]


def test_few_nodes_have_no_tails() -> None:
    assert not has_heavy_tails(Axis(np.array([1.0, 2.0, 1e9]), np.ones(3) / 3))


def test_round_places_are_inside_and_few() -> None:
    for low, high in [(1e-8, 3e9), (2.0, 9.0), (30.0, 500.0), (0.9, 1.1), (2.1, 4.3)]:
        places = round_places((low, high), 4)
        assert 2 <= len(places) <= 4
        assert ((places >= low) & (places <= high)).all()
