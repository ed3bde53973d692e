"""Labels: none runs into another, whatever the names, levels, dates and ranges."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import pyplot

from tpnn import Explanation, TPNNRegressor, plots, purify
from tpnn.explain.plots.labels import (
    joined_names,
    shortened,
    shortened_levels,
    shortened_together,
)

LONG = "number_of_trades_with_high_utilisation_ratio_in_the_last_{}_months"


@given(st.text(min_size=1, max_size=60), st.integers(3, 40))
def test_a_short_word_keeps_its_ends(word: str, letters: int) -> None:
    short = shortened(word, letters)
    if len(word) <= letters:
        assert short == word
    else:
        start, end = short.split("…") if "…" not in word else (short[: letters // 2], short[-1])
        assert len(short) == letters
        assert word.startswith(start)
        assert word.endswith(end)


def test_levels_stay_different() -> None:
    levels = [f"Region number {number} of the country" for number in range(24)]
    assert len(set(shortened_levels(levels))) == 24
    assert shortened_levels(["Constantinople, the city", "Ulm"]) == ["Constan…e city", "Ulm"]


@given(st.lists(st.text("ab _", max_size=40), max_size=8), st.integers(3, 20))
def test_different_words_stay_different(words: list[str], letters: int) -> None:
    short = shortened_together(words, letters)
    assert len(set(short)) == len(set(words))
    for word, cut in zip(words, short, strict=True):
        assert cut == word or "…" in cut


def test_words_that_differ_in_their_middle_show_where() -> None:
    words = [f"in the end {number} of all things in this place" for number in ("first", "second")]
    assert shortened_together(words, 16) == ["…first o…s place", "…second …s place"]
    assert shortened_together([*words, "age"], 16)[2] == "age"


def test_names_that_differ_in_their_middle_stay_different_in_all_plots() -> None:
    first, second = (f"a very long name of the {number} thing in detail" for number in (1, 2))
    names = {first: np.arange(9.0), second: np.arange(9.0)}
    tables = {(first,): np.arange(9.0), (second,): np.arange(9.0), (first, second): np.eye(9)}
    local = Explanation(purify(tables, nodes=names), pd.DataFrame(names))
    panel = pyplot.subplots(figsize=(2.4, 1.8), layout="constrained")[1]
    pair = plots.component(local, (first, second), panel)
    assert pair.get_xlabel() != pair.get_ylabel()
    for draw in (plots.importance, plots.waterfall, plots.shap_summary):
        small = pyplot.subplots(figsize=(2.4, 1.8), layout="constrained")[1]
        labels = [label.get_text() for label in draw(local, ax=small).get_yticklabels()]
        assert len(set(labels)) == len(labels)
    bars = [label.get_text() for label in plots.importance(local).get_yticklabels()]
    one, other = next(label for label in bars if "×" in label).split(" × ")
    assert one != other


def test_names_are_joined() -> None:
    assert joined_names(["a"]) == "a"
    assert joined_names(["a", "b"]) == "a × b"
    assert len(joined_names([LONG, LONG, LONG], 40)) <= 40
    assert joined_names(["the first day of it"], 9, ["the third day of it"]) == "…firs… it"


def overlaps(axis: Any) -> list[tuple[str, str]]:
    """Pairs of tick labels of one axis whose boxes overlap; the figure must be laid out."""
    low, high = sorted(axis.get_view_interval())
    labels = [
        label
        for tick, label in zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)
        if low <= tick <= high and label.get_text() and label.get_rotation() in (0, 90)
    ]
    boxes = [(label.get_text(), label.get_window_extent()) for label in labels]
    return [(a, b) for (a, x), (b, y) in combinations(boxes, 2) if x.overlaps(y)]


@pytest.fixture(scope="module")
def hard(quick: Any) -> Explanation:
    """Long names, many long levels, heavy tails, dates and missing values."""
    rng = np.random.default_rng(0)
    n = 600
    X = pd.DataFrame(
        {
            LONG.format(12): rng.normal(size=n),
            LONG.format(24): 1e5 * rng.normal(size=n),
            "income": np.exp(rng.normal(10, 1.6, n)),
            "profit": 100 * np.sinh(rng.normal(0, 3, n)),
            "region": rng.choice([f"Region number {i} of the country" for i in range(24)], n),
            "since": pd.Timestamp("2019-03-01") + pd.to_timedelta(rng.integers(0, 1500, n), "D"),
        }
    )
    X.loc[::9, "income"] = np.nan
    X.loc[::11, "since"] = pd.NaT
    X.loc[::7, "region"] = None
    y = X.iloc[:, 0] * X.iloc[:, 1] / 1e5 + np.log(X["income"].fillna(1e4))
    triples = [(0, 1, 5), (2, 4, 3), (2, 5, 4)]
    pairs = list(combinations(range(6), 2))
    settings = {**quick, "order": 3, "interactions": [*pairs, *triples]}
    return TPNNRegressor(**settings).fit(X, y).explain(X)


@pytest.mark.parametrize("scale", ["raw", "response"])
def test_no_labels_of_components_overlap(hard: Explanation, scale: str) -> None:
    """And no layout gives a warning, which would be an error here."""
    for names in hard.model.component_names:
        axes = plots.component(hard, names, scale=scale)
        axes.figure.canvas.draw()
        for drawn in axes.child_axes if len(names) == 3 else [axes]:
            assert overlaps(drawn.xaxis) == [], names
            assert overlaps(drawn.yaxis) == [], names
        pyplot.close("all")


def test_no_labels_of_panels_overlap(hard: Explanation) -> None:
    figure = plots.components(hard, 12)
    figure.canvas.draw()
    for axes in figure.axes:
        assert overlaps(axes.xaxis) == []
        assert overlaps(axes.yaxis) == []


def test_levels_that_differ_in_their_middle_stay_different_in_a_small_panel(
    hard: Explanation,
) -> None:
    ax = pyplot.subplots(figsize=(3.6, 2.7), layout="constrained")[1]
    labels = [label.get_text() for label in plots.main_effect(hard, "region", ax).get_xticklabels()]
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize("draw", [plots.importance, plots.waterfall, plots.shap_summary])
def test_long_names_leave_room_for_the_plot(hard: Explanation, draw: Any) -> None:
    figure, (_, right) = pyplot.subplots(1, 2, figsize=(12, 4), layout="constrained")
    for axes in (draw(hard), draw(hard, ax=right)):
        axes.figure.canvas.draw()
        assert axes.get_window_extent().width > 0.2 * figure.bbox.width / 2
        assert overlaps(axes.yaxis) == []
        outside = [
            label.get_text()
            for label in axes.get_yticklabels()
            if label.get_window_extent().x0 < -1
        ]
        assert outside == []


def test_every_level_is_labelled(hard: Explanation) -> None:
    labels = [label.get_text() for label in plots.main_effect(hard, "region").get_xticklabels()]
    assert len(labels) == 25
    assert {f"Region number {i} of the country" for i in range(24)} < set(labels)
    assert labels[-1] == "missing"
    assert len(plots.pair_effect(hard, ("income", "region")).get_yticklabels()) > 10


def test_every_level_is_labelled_in_a_panel_among_others() -> None:
    levels = [f"level number {number} of the region" for number in range(25)]
    tables = {("region",): np.arange(25.0), ("x",): np.arange(9.0), ("region", "x"): np.eye(25, 9)}
    pure = purify(tables, nodes={"region": levels, "x": np.arange(9.0)})
    figure = plots.components(Explanation(pure))
    figure.canvas.draw()
    shown = [axes for axes in figure.axes if axes.get_xlabel() == "region"]
    assert len(shown) == 2
    for axes in shown:
        words = [label.get_text() for label in axes.get_xticklabels()]
        assert len(words) == 25
        assert all(f"{number} of the region" in word for number, word in enumerate(words))
        assert overlaps(axes.xaxis) == []


def test_hundreds_of_levels_are_labelled_as_far_as_they_fit() -> None:
    levels = [f"{number}" for number in range(400)]
    pure = purify({("town",): np.arange(400.0)}, nodes={"town": levels})
    axes = plots.main_effect(Explanation(pure), "town")
    axes.figure.canvas.draw()
    assert 40 < len(axes.get_xticklabels()) < 400
    assert overlaps(axes.xaxis) == []


@pytest.mark.parametrize(
    "days", [1e-4, 0.01, 0.2, 0.9, 2, 3, 7, 20, 45, 59, 61, 100, 300, 720, 740, 1500, 4e3, 2e4, 4e4]
)
@pytest.mark.parametrize("has_missing", [True, False])
def test_dates_of_any_range(days: float, has_missing: bool, quick: Any) -> None:
    """No warning of the locator, no overlap, and the year is always to be read."""
    rng = np.random.default_rng(1)
    start = pd.Timestamp("1960-02-11 07:00:12")
    since = pd.Series(start + pd.to_timedelta(days * 86_400 * rng.random(120), "s"))
    if has_missing:
        since[::6] = pd.NaT
    X = pd.DataFrame({"since": since})
    local = TPNNRegressor(**{**quick, "order": 1}).fit(X, rng.normal(size=120)).explain()
    for axes in (plots.main_effect(local, "since"), plots.components(local).axes[0]):
        axes.figure.canvas.draw()
        assert overlaps(axes.xaxis) == []
        words = [axes.get_xlabel(), *(label.get_text() for label in axes.get_xticklabels())]
        assert any(str(year) in word for word in words for year in range(1960, 2070)), words
