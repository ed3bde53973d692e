"""Plots draw the numbers of the explanation and return the Axes they were given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot

from tests.explain.test_explanation import random_model
from tpnn import Explanation, TPNNRegressor, plots, purify


@pytest.fixture(scope="module")
def explanation(table: Any, quick: Any) -> Explanation:
    X, y = table
    return TPNNRegressor(**quick).fit(X, y).explain(X)


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    pyplot.close("all")


def test_axes_are_returned_and_labelled(explanation: Explanation) -> None:
    assert plots.main_effect(explanation, "smooth").get_xlabel() == "smooth"
    heat = plots.pair_effect(explanation, ("level", "smooth"))
    assert (heat.get_xlabel(), heat.get_ylabel()) == ("smooth", "level")
    ax = pyplot.subplots()[1]
    assert plots.main_effect(explanation, ("level",), ax=ax) is ax
    assert explanation.plot("skewed").get_xlabel() == "skewed"
    assert len(explanation.plot().patches) == 10
    assert len(plots.components(explanation, n_components=5).axes) >= 6


def test_main_effect_draws_the_table(explanation: Explanation) -> None:
    axes = plots.main_effect(explanation, "skewed")
    drawn = max(axes.lines, key=lambda line: len(line.get_xdata()))
    axis = explanation.model.encoder.axes[1][1]
    assert np.array_equal(drawn.get_xdata(), axis.values)
    assert np.array_equal(drawn.get_ydata(), explanation.model.tables[1])


def test_importance_bars_are_the_norms(explanation: Explanation) -> None:
    bars = plots.importance(explanation, n_components=4).patches
    norms = list(explanation.importance().values())[:4]
    assert [bar.get_width() for bar in bars] == pytest.approx(norms[::-1])


@pytest.mark.parametrize("n_components", [3, 50])
def test_waterfall_leads_from_intercept_to_score(
    explanation: Explanation, n_components: int
) -> None:
    axes = plots.waterfall(explanation, row=7, n_components=n_components)
    first, last = axes.patches[-1], axes.patches[0]
    assert first.get_x() == pytest.approx(explanation.model.intercept)
    raw = explanation.model.intercept + explanation.scores[7].sum()
    assert last.get_x() + last.get_width() == pytest.approx(raw)
    assert len(axes.patches) == min(n_components + 1, explanation.scores.shape[1])


def test_shap_summary_draws_every_row(explanation: Explanation) -> None:
    axes = plots.shap_summary(explanation, n_features=3)
    values = explanation.shap_values().values
    top = np.argsort(-np.abs(values).mean(0))[:3]
    for feature, points in zip(top, axes.collections, strict=True):
        assert np.allclose(points.get_offsets()[:, 0], values[:, feature])
    heights = axes.collections[0].get_offsets()[:, 1]
    assert np.abs(heights).max() <= 0.5


def test_unseen_levels_have_no_rank_and_are_grey(table: Any, quick: Any) -> None:
    X, y = table
    grade = pd.Categorical(np.array(["low", "mid", "top"])[X["level"].astype(int)], ordered=True)
    model = TPNNRegressor(**quick).fit(X.assign(level=grade), y)
    local = model.explain(X[:20].assign(level=np.where(np.arange(20) % 2, "mid", "best")))
    with pytest.warns(UserWarning, match="^X: levels or missing values"):
        axes = plots.shap_summary(local)
    (level,) = (p for p in axes.collections if np.isnan(np.ma.filled(p.get_array(), np.nan)).any())
    assert np.isnan(np.ma.filled(level.get_array(), np.nan)).tolist() == [True, False] * 10


def test_comparison_draws_each_fit(explanation: Explanation) -> None:
    fits = {"one": explanation, "two": explanation}
    axes = plots.comparison(fits, "smooth")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["one", "two"]
    assert len(plots.comparison(list(fits.values()), "smooth").lines) == 3  # and the zero line


def test_triples_are_cut_into_slices() -> None:
    model = random_model(3, 3)
    panels = plots.component(Explanation(model), model.component_names[-1]).child_axes
    assert len(panels) == 3
    values = [axis.values for axis in model.axes((0, 1, 2))]
    middle = int(np.searchsorted(model.axes((0, 1, 2))[2].positions, 0.5))
    assert panels[1].get_title() == f"x2 = {values[2][middle]:.6g}"
    assert np.allclose(panels[1].collections[0].get_array().ravel(),
                       model.tables[-1][:, :, middle].T.ravel())  # fmt: skip


def test_orders_above_three_are_not_drawn() -> None:
    model = random_model(4, 4)
    with pytest.raises(ValueError, match=r"^component: one of at most 3 features can be drawn"):
        plots.component(Explanation(model), model.component_names[-1])


def test_unknown_component(explanation: Explanation) -> None:
    with pytest.raises(ValueError, match=r"^component: features must be names or .*, found 'age'"):
        plots.main_effect(explanation, "age")


@pytest.mark.parametrize(
    "draw", [plots.component, plots.main_effect, plots.importance, plots.waterfall,
             plots.shap_summary, plots.components],
)  # fmt: skip
def test_an_estimator_is_no_explanation(draw: Any, table: Any) -> None:
    model = TPNNRegressor(order=1, n_bags=1, max_steps=2).fit(*table)
    arguments = ("smooth",) if draw in (plots.component, plots.main_effect) else ()
    with pytest.raises(TypeError, match=r"^explanation: .* found TPNNRegressor\. Pass model\.expl"):
        draw(model, *arguments)


@pytest.mark.parametrize("local", [True, False])
def test_a_column_without_values(table: Any, quick: Any, local: bool) -> None:
    """Its effect is the one point of missing values, alone and beside every other feature."""
    X, y = table
    X = X[["smooth"]].assign(town=np.where(X["level"] > 1, "u", "v"), empty=np.nan, other=np.nan)
    explanation = TPNNRegressor(**quick).fit(X, y).explain(X if local else None)
    for names in explanation.model.component_names:
        plots.component(explanation, names).figure.canvas.draw()
    (point,) = plots.main_effect(explanation, "empty").containers
    assert point[0].get_ydata() == pytest.approx([0.0])
    plots.comparison([explanation], "empty")
    if local:
        assert len(plots.shap_summary(explanation).collections) == 4


def test_missing_matplotlib(explanation: Explanation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "tpnn\[plots\]"'):
        plots.main_effect(explanation, "smooth")


def test_levels_dates_and_missing_values_are_labelled(table: Any) -> None:
    X, y = table
    rng = np.random.default_rng(0)
    since = pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 500, len(X)), "D")
    mixed = pd.DataFrame({"a": X["smooth"], "town": rng.choice(["u", "v"], len(X)), "since": since})
    mixed.loc[::8, "a"] = np.nan
    settings = {"n_bags": 2, "max_steps": 30, "random_state": 0, "verbose": 0}
    explanation = TPNNRegressor(**settings).fit(mixed, y).explain(mixed)

    def words(axis: Any) -> list[str]:
        axis.axes.figure.canvas.draw()
        return [label.get_text() for label in axis.get_ticklabels()]

    assert sorted(words(plots.main_effect(explanation, "town").xaxis)) == ["u", "v"]
    assert words(plots.main_effect(explanation, "a").xaxis)[-1] == "missing"
    assert any("2022" in word for word in words(plots.main_effect(explanation, "since").xaxis))
    heat = plots.pair_effect(explanation, ("town", "a"))
    assert words(heat.xaxis)[-1] == "missing"
    assert sorted(words(heat.yaxis)) == ["u", "v"]
    assert len(plots.shap_summary(explanation).collections) == 3


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
