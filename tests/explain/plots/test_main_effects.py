"""Curves draw the tables of main effects."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.models import table_model
from tpnn import Explanation, TPNNRegressor, plots, purify
from tpnn.explain.plots.axes import MAIN_RANKS, shown_range
from tpnn.loss.links import LINKS
from tpnn.table.words import MINUS, THIN_SPACE


def test_main_effect_draws_the_table(local: Explanation) -> None:
    axes = plots.main_effect(local, "skewed")
    drawn = max(axes.lines, key=lambda line: len(line.get_xdata()))
    axis = local.model.encoder.axes[1][1]
    low, high = shown_range(axis, MAIN_RANKS)
    inside = (axis.values > low) & (axis.values < high)
    x, y = drawn.get_data()
    assert np.array_equal(x[1:-1], axis.values[inside])
    assert np.array_equal(y[1:-1], local.model.tables[1][inside, 0])


def drawn_points(axes: Any) -> tuple[np.ndarray, np.ndarray]:
    """Places and heights of all error bars of a plot."""
    data = [container[0].get_data() for container in axes.containers]
    return np.concatenate([x for x, _ in data]), np.concatenate([y for _, y in data])


def test_the_band_is_that_of_the_table(local: Explanation) -> None:
    axes = plots.main_effect(local, "smooth")
    (band,) = axes.collections
    corners = band.get_paths()[0].vertices
    axis, ends = local.model.encoder.axes[1][0], local.component("smooth").band
    inside = np.clip(axis.values, *shown_range(axis, MAIN_RANKS))
    lower, upper = (np.interp(inside, axis.values, end) for end in ends)
    assert corners[:, 1].min() == pytest.approx(lower.min())
    assert corners[:, 1].max() == pytest.approx(upper.max())


def test_levels_and_missing_values_are_points(mixed_local: Explanation) -> None:
    table = mixed_local.component("town")
    places, heights = drawn_points(plots.main_effect(mixed_local, "town"))
    assert places.tolist() == [0, 1, 2]
    assert np.array_equal(heights, table.effect)
    axes = plots.main_effect(mixed_local, "skewed")
    places, heights = drawn_points(axes)
    assert heights.tolist() == [mixed_local.component("skewed").effect[-1]]
    assert places[0] > axes.get_xlim()[1] - 0.2 * np.ptp(axes.get_xlim())


def test_bands_of_levels_are_within_the_limits(mixed_local: Explanation) -> None:
    axes = plots.main_effect(mixed_local, "town")
    lower, upper = mixed_local.component("town").band
    low, high = axes.get_ylim()
    assert low < lower.min() < upper.max() < high


def test_density_is_drawn_along_the_bottom(mixed_local: Explanation) -> None:
    (bars,) = plots.main_effect(mixed_local, "town").child_axes
    shares = mixed_local.component("town").density
    assert [bar.get_height() for bar in bars.patches] == pytest.approx(shares)
    (hills,) = plots.main_effect(mixed_local, "smooth").child_axes
    assert len(hills.collections) == 1
    assert hills.get_xlim() == plots.main_effect(mixed_local, "smooth").get_xlim()


def test_unknown_component(local: Explanation) -> None:
    with pytest.raises(ValueError, match=r"^component: features must be names or .*, found 'age'"):
        plots.main_effect(local, "age")


@pytest.mark.parametrize("with_rows", [True, False])
def test_a_column_without_values(table: Any, quick: Any, with_rows: bool) -> None:
    """Its effect is the one point of missing values, alone and beside every other feature."""
    X, y = table
    X = X[["smooth"]].assign(town=np.where(X["level"] > 1, "u", "v"), empty=np.nan, other=np.nan)
    listed = [*((name,) for name in X.columns), *combinations(X.columns, 2)]
    model = TPNNRegressor(**quick, components=listed).fit(X, y)
    explanation = model.explain(X if with_rows else None)
    for names in explanation.model.component_names:
        plots.component(explanation, names).figure.canvas.draw()
    (point,) = plots.main_effect(explanation, "empty").containers
    assert point[0].get_ydata() == pytest.approx([0.0])
    plots.comparison([explanation], "empty")
    if with_rows:
        assert len(plots.shap_summary(explanation).collections) == 4


def test_comparison_draws_each_fit(local: Explanation) -> None:
    fits = {"one": local, "two": local}
    axes = plots.comparison(fits, "smooth")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["one", "two"]
    assert len(plots.comparison(list(fits.values()), "smooth").lines) == 3  # and the zero line


def test_comparison_aligns_levels_by_their_labels() -> None:
    """The most frequent level comes first, so its place differs between fits."""
    tables: list[dict[Any, Any]] = [{("town",): [2.0, 1.0, 0.0]}, {("town",): [5.0, 0.0, 1.0]}]
    nodes = [{"town": ["u", "v", "w"]}, {"town": ["x", "w", "v"]}]
    pure = [purify(table, nodes=at) for table, at in zip(tables, nodes, strict=True)]
    axes = plots.comparison([Explanation(model) for model in pure], "town")
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert labels == ["u", "v", "w", "x"]
    for line, table, at, model in zip(axes.lines[1:], tables, nodes, pure, strict=True):
        drawn = {labels[int(x)]: y + model.intercept for x, y in zip(*line.get_data(), strict=True)}
        given = dict(zip(at["town"], table["town",], strict=True))
        assert drawn == pytest.approx(given)


def test_relativities_are_drawn_around_one() -> None:
    tables: dict[Any, Any] = {("town",): [0.0, 1.0, 3.0]}
    model = replace(purify(tables, nodes={"town": ["u", "v", "w"]}), link=LINKS["log"])
    axes = plots.main_effect(Explanation(model), "town", scale="response", reference="v")
    assert drawn_points(axes)[1] == pytest.approx(np.exp([-1.0, 0.0, 2.0]))
    assert axes.lines[0].get_ydata()[0] == 1.0
    assert axes.get_ylabel() == "relativity"
    assert axes.get_title(loc="right") == "1 at town = v"
    lines = plots.comparison(
        [Explanation(model)] * 2, "town", scale="response", reference="v"
    ).lines
    assert lines[1].get_ydata() == pytest.approx(np.exp([-1.0, 0.0, 2.0]))


@pytest.mark.parametrize("column", [[0, 1], [1, 2, 3, 4, 7], [0.0, 0.5, 1.0, 1.5]])
def test_numbers_with_few_values_are_drawn_as_levels(column: list[float]) -> None:
    """As points and flat cells, with a tick for each value, as the report draws them."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"few": rng.choice(column, 200), "many": rng.normal(size=200)})
    explanation = table_model(X, order=2).explain(X)
    axes = plots.main_effect(explanation, "few")
    table = explanation.component("few")
    assert drawn_points(axes)[1] == pytest.approx(table.effect)
    assert [float(label.get_text()) for label in axes.get_xticklabels()] == column
    heat = plots.pair_effect(explanation, ("few", "many"))
    mesh = heat.collections[0]
    assert type(mesh).__name__ == "QuadMesh"
    assert mesh.get_array().size == explanation.component(("few", "many")).effect.size
    assert not plots.main_effect(explanation, "many").containers


def test_two_values_that_are_no_whole_numbers_are_a_line() -> None:
    X = pd.DataFrame({"x": np.tile([0.0, 0.7], 50)})
    axes = plots.main_effect(table_model(X, order=1).explain(X), "x")
    assert not axes.containers


def test_ratios_have_a_logarithmic_axis() -> None:
    """Twice and half are equally far from 1; every tick parses back to its number."""
    X = pd.DataFrame({"x": np.linspace(0, 1, 100)})
    model = table_model(X, order=1, link="log")
    axes = plots.main_effect(model.explain(X), "x", scale="response")
    assert axes.get_yscale() == "log"
    axes.figure.canvas.draw()
    to_pixels = axes.transData.transform
    heights = [to_pixels((0, y))[1] for y in (0.5, 1.0, 2.0)]
    assert heights[2] - heights[1] == pytest.approx(heights[1] - heights[0])
    ticks = [(label.get_text(), label.get_position()[1]) for label in axes.get_yticklabels()]
    assert len(ticks) >= 2
    assert all(float(word) == pytest.approx(place, rel=0.01) for word, place in ticks)
    raw = plots.main_effect(model.explain(X), "x")
    assert raw.get_yscale() == "linear"


@pytest.mark.parametrize("unit", [1e-3, 1.0, 2.5e4, 3e6])
def test_ticks_are_written_as_the_report_writes_numbers(unit: float) -> None:
    """With one number of decimals, thin spaces, k and M; every tick parses back."""
    X = pd.DataFrame({"x": np.linspace(0, 1, 100)})
    axes = plots.main_effect(table_model(X, order=1, unit=unit).explain(X), "x")
    axes.figure.canvas.draw()
    sizes = {"k": 1e3, "M": 1e6, "bn": 1e9, "": 1.0}
    for label in axes.get_yticklabels():
        number, _, suffix = label.get_text().replace(MINUS, "-").partition(" ")
        value = float(number.replace(THIN_SPACE, "")) * sizes[suffix]
        assert value == pytest.approx(label.get_position()[1], rel=1e-9, abs=1e-12 * unit)


def test_a_curve_ends_before_the_point_of_missing_values() -> None:
    """Whatever nodes lie beyond the outer 0.5 % of the rows: curve and band end at the limits."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.standard_t(2, size=2000)})
    X.loc[::10, "x"] = np.nan
    model = table_model(X, order=1)
    axes = plots.main_effect(model.explain(X), "x", log_axes=False)
    low, high = shown_range(model.encoder.axes[1][0], MAIN_RANKS)
    x, y = next(line for line in axes.lines if len(line.get_xdata()) > 2).get_data()
    assert (x[0], x[-1]) == (pytest.approx(low), pytest.approx(high))
    axis = model.encoder.axes[1][0]
    table = model.tables[0][axis.regular, 0]
    assert np.allclose(y, np.interp(x, axis.values, table))
    (missing,) = (one for one in axes.containers if len(one[0].get_xdata()) == 1)
    assert missing[0].get_xdata()[0] > high
