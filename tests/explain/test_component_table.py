"""ComponentTable: a component's values at its nodes, written as the user wrote them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models import random_model
from tpnn import Explanation, TPNNRegressor
from tpnn.explain.component_table import ComponentTable, joint_density
from tpnn.explain.response import BAND_DEVIATIONS
from tpnn.table.axis import Axis


def test_component_table_is_the_model_on_its_nodes(
    explanation: Explanation, local: Explanation, table: Any
) -> None:
    X, _ = table
    pair = local.component(("level", "smooth"))
    assert pair.names == ("smooth", "level")
    assert pair.density is not None
    assert pair.density.sum() == pytest.approx(1.0)
    frame = pair.to_frame()
    assert list(frame) == ["smooth", "level", "effect", "lower", "upper", "density"]
    rows = pd.DataFrame(0.0, index=frame.index, columns=X.columns)
    rows[["smooth", "level"]] = frame[["smooth", "level"]]
    scores = explanation.model.component_scores(rows)[:, local.find(("smooth", "level"))]
    assert np.allclose(scores, frame["effect"])
    assert explanation.component("smooth").density is not None  # of the training rows
    assert explanation.component(("smooth", "level")).density is None


def test_features_named_like_the_columns_of_a_frame(table: Any, quick: Any) -> None:
    X, y = table
    X = X.set_axis(["effect", "lower", "effect (feature)", "output"], axis=1)
    explanation = TPNNRegressor(**{**quick, "interactions": "all"}).fit(X, y).explain()
    frame = explanation.component(("effect", "effect (feature)")).to_frame()
    assert list(frame)[:3] == ["effect (feature)", "effect (feature) (feature)", "effect"]
    table_of = explanation.component("lower")
    frame = table_of.to_frame()
    assert np.array_equal(frame["lower (feature)"], table_of.axes[0].values)
    assert np.array_equal(frame["lower"], table_of.band[0])


def test_original_scales(mixed: pd.DataFrame, mixed_local: Explanation) -> None:
    """Labels, dates and missing values come back as they were given."""
    local = mixed_local
    assert set(local.component("town").to_frame()["town"]) == {"Ulm", "Bonn", "Trier"}
    assert set(local.component("since").to_frame()["since"]) <= set(mixed["since"])
    assert local.component("skewed").to_frame()["skewed"].isna().sum() == 1
    frame = local.component(("skewed", "town")).to_frame()
    assert frame.loc[frame["skewed"].isna(), "density"].sum() == pytest.approx(1 / 8)
    by_town = frame.groupby("town")["density"].sum()
    assert np.allclose(by_town, mixed["town"].value_counts(normalize=True)[by_town.index])


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_a_frame_has_one_line_per_node_and_output(n_outputs: int) -> None:
    model = random_model(3, 2, n_outputs=n_outputs)
    pair = Explanation(model).component((0, 2))
    frame = pair.to_frame()
    assert len(frame) == model.by_component()[0, 2].size
    assert ("output" in frame) == (n_outputs > 1)
    for name, group in frame.groupby("output") if n_outputs > 1 else [("", frame)]:
        k = model.output_names.index(name) if name else 0
        wide = group.pivot(index="x0", columns="x2", values="effect")
        assert np.array_equal(wide.to_numpy(), model.by_component()[0, 2][..., k])
        assert np.array_equal(wide.index, pair.axes[0].values)


def test_the_band_is_symmetric_and_two_deviations_wide() -> None:
    axis = Axis(np.arange(3.0), np.ones(3) / 3)
    effect, spread = np.array([1.0, 0.0, -1.0]), np.array([0.0, 0.5, 2.0])
    table = ComponentTable(("a",), (axis,), effect, spread, None)
    lower, upper = table.band
    assert np.array_equal((lower + upper) / 2, effect)
    assert np.array_equal(upper - lower, 2 * BAND_DEVIATIONS * spread)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_joint_density_counts_rows_at_their_nearest_nodes(seed: int, sizes: list[int]) -> None:
    rng = np.random.default_rng(seed)
    axes = [Axis(np.arange(float(size)), np.full(size, 1 / size)) for size in sizes]
    columns = [rng.choice([*np.arange(-1, size + 1, 0.25), np.nan], 40) for size in sizes]
    expected = np.zeros(sizes)
    for row in zip(*columns, strict=True):
        if not np.isnan(row).any():
            near = [
                np.abs(np.arange(size) - x).argmin() for x, size in zip(row, sizes, strict=True)
            ]
            expected[tuple(near)] += 1 / 40
    assert np.allclose(joint_density(axes, columns), expected)


def test_no_rows_have_no_density() -> None:
    axis = Axis(np.arange(2.0), np.ones(2) / 2)
    assert joint_density([axis], [np.empty(0)]).tolist() == [0.0, 0.0]
