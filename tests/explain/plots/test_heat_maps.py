"""Heat maps draw the cells of pairs, and slices of triples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.contour import ContourSet

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
    tables = [table for table in local.model.tables if table.ndim == 3]
    limit = max(np.quantile(np.abs(table), 0.995) for table in tables)
    assert len(tables) > 1
    assert mesh.get_clim() == pytest.approx((-limit, limit))


def test_missing_values_and_levels_are_cells(mixed_local: Explanation) -> None:
    """One block of cells each for values and for missing ones, which add up to the table."""
    table = mixed_local.component(("skewed", "town"))
    axes = plots.pair_effect(mixed_local, ("skewed", "town"))
    meshes = [c for c in axes.collections if c.get_cmap().name == "RdBu_r"]
    regular, missing = (mesh.get_array() for mesh in meshes)
    assert np.allclose(regular.ravel(), table.effect[:-1].T.ravel())
    assert np.allclose(missing.ravel(), table.effect[-1])


def test_contours_enclose_the_rows_explained(explanation: Explanation, local: Explanation) -> None:
    """Where no rows are explained the joint density is not known, and none is drawn."""
    with_rows = plots.pair_effect(local, ("smooth", "skewed"))
    without = plots.pair_effect(explanation, ("smooth", "skewed"))
    (lines,) = (each for each in with_rows.collections if isinstance(each, ContourSet))
    assert not any(isinstance(each, ContourSet) for each in without.collections)
    vertices = np.concatenate([path.vertices for path in lines.get_paths()])
    x = local.columns[0]
    assert x.min() <= vertices[:, 0].min() < vertices[:, 0].max() <= x.max()


def test_rows_outside_the_plot_have_no_contour(local: Explanation) -> None:
    """All rows at one point far from the nodes that are shown: every cell there is hatched."""
    far = pd.DataFrame({name: [1e9] * 300 for name in local.model.feature_names})
    axes = plots.pair_effect(Explanation(local.model, far), ("smooth", "skewed"))
    assert not any(isinstance(each, ContourSet) for each in axes.collections)
    (hatched,) = (each for each in axes.collections if each.get_hatch())
    assert len(hatched.get_paths()) > 0


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


def test_cells_within_the_band_are_faded_and_cells_without_rows_are_hatched(
    mixed_local: Explanation,
) -> None:
    """A pair of a number with missing values and of levels has cells alone, in two blocks."""
    table = mixed_local.component(("skewed", "town"))
    lower, upper = table.band
    axes = plots.pair_effect(mixed_local, ("skewed", "town"))
    veils = [each.get_array() for each in axes.collections if each.get_cmap().name == "veil"]
    within = ((lower <= 0) & (upper >= 0)).astype(float)
    assert np.array_equal(np.concatenate([veil.T.ravel() for veil in veils]), within.ravel())
