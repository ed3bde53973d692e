"""Overviews: importance, the panels of many components, and which plot suits a component."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot

from tests.models import random_model, with_remainder
from tpnn import Explanation, TPNNRegressor, plots


def test_axes_are_returned_and_labelled(local: Explanation) -> None:
    assert plots.main_effect(local, "smooth").get_xlabel() == "smooth"
    heat = plots.pair_effect(local, ("level", "smooth"))
    assert (heat.get_xlabel(), heat.get_ylabel()) == ("smooth", "level")
    ax = pyplot.subplots()[1]
    assert plots.main_effect(local, ("level",), ax=ax) is ax
    assert local.plot("skewed").get_xlabel() == "skewed"
    assert len(local.plot().patches) == 10
    assert len(plots.components(local, n_components=5).axes) >= 6


def test_importance_bars_are_the_norms(local: Explanation) -> None:
    bars = plots.importance(local, n_components=4).patches
    norms = list(local.importance().values())[:4]
    assert [bar.get_width() for bar in bars] == pytest.approx(norms[::-1])


def test_orders_above_three_are_not_drawn() -> None:
    model = random_model(4, 4)
    with pytest.raises(ValueError, match=r"^component: one of at most 3 features can be drawn"):
        plots.component(Explanation(model), model.component_names[-1])


@pytest.mark.parametrize(
    "draw", [plots.component, plots.main_effect, plots.importance, plots.waterfall,
             plots.shap_summary, plots.components],
)  # fmt: skip
def test_an_estimator_is_no_explanation(draw: Any, table: Any) -> None:
    model = TPNNRegressor(order=1, n_bags=1, verbose=0).fit(*table)
    arguments = ("smooth",) if draw in (plots.component, plots.main_effect) else ()
    with pytest.raises(TypeError, match=r"^explanation: .* found TPNNRegressor\. Pass model\.expl"):
        draw(model, *arguments)


def test_a_component_is_drawn_by_its_order() -> None:
    explanation = Explanation(random_model(3, 3))
    assert plots.component(explanation, 0).get_ylabel() == "effect"
    assert plots.component(explanation, (0, 1)).get_ylabel() == "x1"
    assert len(plots.component(explanation, (0, 1, 2)).child_axes) == 3


def test_interactions_have_another_colour_than_main_effects() -> None:
    explanation = Explanation(random_model(3, 2))
    axes = plots.importance(explanation)
    labels = [label.get_text() for label in axes.get_yticklabels()]
    colours = {
        " × " in label: bar.get_facecolor() for label, bar in zip(labels, axes.patches, strict=True)
    }
    assert colours[True] != colours[False]


@pytest.mark.parametrize(
    ("n_components", "n_columns", "n_panels"), [(5, 3, 6), (4, 2, 4), (1, 1, 1)]
)
def test_panels_that_are_left_over_are_empty(
    n_components: int, n_columns: int, n_panels: int
) -> None:
    figure = plots.components(Explanation(random_model(3, 2)), n_components, n_columns)
    panels = [axes for axes in figure.axes if axes.get_subplotspec() is not None]
    drawn = [axes for axes in panels if axes.axison and axes.get_xlabel()]
    assert len(drawn) == n_components
    assert len([axes for axes in panels if not axes.axison]) == n_panels - n_components


def test_triples_are_left_out_of_the_panels() -> None:
    explanation = Explanation(random_model(3, 3))
    labels = [axes.get_xlabel() for axes in plots.components(explanation, 20).axes]
    assert sum(map(bool, labels)) == 6


def test_plots_have_it_as_the_last_line() -> None:
    model = with_remainder(random_model(3, 2))
    X = np.random.default_rng(0).normal(size=(9, 3))
    explanation = Explanation(model, X)
    bars = plots.importance(explanation, n_components=3)
    assert bars.get_yticklabels()[0].get_text() == "remainder"
    assert bars.patches[0].get_width() == explanation.importance()["remainder",]
    figure = plots.components(explanation, n_components=3)
    assert figure.axes[2].get_title() == plots.remainder(explanation).get_title() != ""
    axes = plots.waterfall(explanation, row=4, n_components=2)
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels[-1] == "remainder"
    assert axes.patches[-1].get_width() == pytest.approx(explanation.remainder[4])
    assert sum(bar.get_width() for bar in axes.patches) == pytest.approx(
        model.raw_scores(X[4:5])[0] - model.intercept
    )
    with pytest.raises(ValueError, match=r"^explanation: the model has no remainder"):
        plots.remainder(Explanation(random_model(2, 1)))


def test_several_outputs_have_a_column_each() -> None:
    """Main effects of a row have one scale; each panel is that of its output alone."""
    model = random_model(3, 2, n_outputs=2)
    explanation = Explanation(model)
    figure = plots.components(explanation, n_components=4)
    panels = [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]
    assert len(panels) == 8
    assert [axes.get_title() for axes in panels[:2]] == list(model.output_names)
    ranked = list(explanation.importance())[:4]
    for number, names in enumerate(ranked):
        row = panels[2 * number : 2 * number + 2]
        assert row[0].get_xlabel() in names
        if len(names) > 1:
            continue
        assert row[0].get_ylim() == row[1].get_ylim()
        for axes, output in zip(row, model.output_names, strict=True):
            (line,) = (line for line in axes.lines if len(line.get_xdata()) > 2)
            table = explanation.of(output).component(names)
            axis, (x, y) = table.axes[0], line.get_data()
            assert y == pytest.approx(np.interp(x, axis.values, table.effect[axis.regular]))
