"""Heat maps draw the cells of pairs, and slices of triples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tests.models import random_model
from tpnn import Explanation, plots, purify
from tpnn.loss.links import LINKS


def test_triples_are_cut_into_slices() -> None:
    model = random_model(3, 3)
    panels = plots.component(Explanation(model), model.component_names[-1]).child_axes
    assert len(panels) == 3
    values = [axis.values for axis in model.axes((0, 1, 2))]
    middle = int(np.searchsorted(model.axes((0, 1, 2))[2].positions, 0.5))
    assert panels[1].get_title() == f"x2 = {values[2][middle]:.6g}"
    assert np.allclose(panels[1].collections[0].get_array().ravel(),
                       model.tables[-1][:, :, middle].T.ravel())  # fmt: skip


def test_a_pair_of_numbers_is_its_table(local: Explanation) -> None:
    mesh = plots.pair_effect(local, ("smooth", "skewed")).collections[0]
    table = local.component(("smooth", "skewed"))
    assert np.allclose(mesh.get_array().ravel(), table.effect.T.ravel())
    assert np.allclose(mesh.get_coordinates()[0, :, 0], table.axes[0].values)
    assert np.allclose(mesh.get_coordinates()[:, 0, 1], table.axes[1].values)


def test_colours_are_symmetric_around_zero(local: Explanation) -> None:
    mesh = plots.pair_effect(local, ("smooth", "skewed")).collections[0]
    limit = np.quantile(np.abs(local.component(("smooth", "skewed")).effect), 0.995)
    assert mesh.get_clim() == pytest.approx((-limit, limit))


def test_missing_values_and_levels_are_cells(mixed_local: Explanation) -> None:
    """One block of cells each for values and for missing ones, which add up to the table."""
    table = mixed_local.component(("skewed", "town"))
    axes = plots.pair_effect(mixed_local, ("skewed", "town"))
    regular, missing = (mesh.get_array() for mesh in axes.collections)
    assert np.allclose(regular.ravel(), table.effect[:-1].T.ravel())
    assert np.allclose(missing.ravel(), table.effect[-1])


def test_contours_enclose_the_rows_explained(explanation: Explanation, local: Explanation) -> None:
    """Where no rows are explained the joint density is not known, and none is drawn."""
    with_rows = plots.pair_effect(local, ("smooth", "skewed"))
    without = plots.pair_effect(explanation, ("smooth", "skewed"))
    assert len(with_rows.collections) == len(without.collections) + 1
    vertices = np.concatenate([path.vertices for path in with_rows.collections[1].get_paths()])
    x = local.columns[0]
    assert x.min() <= vertices[:, 0].min() < vertices[:, 0].max() <= x.max()


def test_rows_outside_the_plot_have_no_contour(local: Explanation) -> None:
    """All rows at one point far from the nodes that are shown."""
    far = pd.DataFrame({name: [1e9] * 3 for name in local.model.feature_names})
    axes = plots.pair_effect(Explanation(local.model, far), ("smooth", "skewed"))
    assert len(axes.collections) == 1


def test_a_component_of_zeros_is_drawn() -> None:
    pure = purify({("a", "b"): np.zeros((3, 2))}, nodes={"a": [0, 1, 2], "b": [0, 1]})
    mesh = plots.pair_effect(Explanation(pure), ("a", "b")).collections[0]
    assert mesh.get_clim() == (-1.0, 1.0)


def test_slices_of_levels_are_the_most_frequent_ones() -> None:
    rng = np.random.default_rng(0)
    towns = ["rare", "often", "mostly", "seldom"]
    rows = pd.DataFrame({"a": np.arange(20) % 2, "b": np.arange(20) % 2.0,
                         "town": np.repeat(towns, [1, 6, 10, 3])})  # fmt: skip
    nodes = {"a": [0.0, 1.0], "b": [0.0, 1.0], "town": towns}
    model = purify({("a", "b", "town"): rng.normal(size=(2, 2, 4))}, nodes=nodes, X=rows)
    panels = plots.triple_effect(Explanation(model), ("a", "b", "town")).child_axes
    titles = [panel.get_title() for panel in panels]
    assert titles == ["town = mostly", "town = often", "town = seldom"]


def test_a_slice_is_drawn_once() -> None:
    nodes = {"a": [0.0, 1.0], "b": [0.0, 1.0], "c": [0.0, 1.0]}
    model = purify({("a", "b", "c"): np.arange(8.0).reshape(2, 2, 2) ** 2}, nodes=nodes)
    panels = plots.triple_effect(Explanation(model), ("a", "b", "c")).child_axes
    assert [panel.get_title() for panel in panels] == ["c = 0", "c = 1"]


def test_colours_of_relativities_are_labelled_as_factors() -> None:
    pure = purify({("a", "b"): [[0.0, 1.0], [0.0, 0.0]]}, nodes={"a": [0, 1], "b": [0, 1]})
    explanation = Explanation(replace(pure, link=LINKS["log"]))
    figure = plots.pair_effect(explanation, ("a", "b"), scale="response").figure
    (bar,) = (axes for axes in figure.axes if axes.get_ylabel() == "relativity")
    for place, label in zip(bar.get_yticks(), bar.get_yticklabels(), strict=True):
        assert float(label.get_text().removeprefix("×")) == pytest.approx(np.exp(place))
