"""Curves draw the tables of main effects."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from tpnn import Explanation, TPNNRegressor, plots, purify
from tpnn.loss.links import LINKS


def test_main_effect_draws_the_table(local: Explanation) -> None:
    axes = plots.main_effect(local, "skewed")
    drawn = max(axes.lines, key=lambda line: len(line.get_xdata()))
    axis = local.model.encoder.axes[1][1]
    assert np.array_equal(drawn.get_xdata(), axis.values)
    assert np.array_equal(drawn.get_ydata(), local.model.tables[1][:, 0])


def drawn_points(axes: Any) -> tuple[np.ndarray, np.ndarray]:
    """Places and heights of all error bars of a plot."""
    data = [container[0].get_data() for container in axes.containers]
    return np.concatenate([x for x, _ in data]), np.concatenate([y for _, y in data])


def test_the_band_is_that_of_the_table(local: Explanation) -> None:
    axes = plots.main_effect(local, "smooth")
    (band,) = axes.collections
    corners = band.get_paths()[0].vertices
    lower, upper = local.component("smooth").band
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
