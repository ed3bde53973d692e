"""ComponentTable: a component's values at its nodes, written as the user wrote them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models import random_model, with_bands, with_evidence
from tpnn import Explanation, TPNNRegressor
from tpnn.explain.component_table import joint_density
from tpnn.model.model import tables_by_component
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
    assert len(frame) == tables_by_component(model)[0, 2].size
    assert ("output" in frame) == (n_outputs > 1)
    for name, group in frame.groupby("output") if n_outputs > 1 else [("", frame)]:
        k = model.output_names.index(name) if name else 0
        wide = group.pivot(index="x0", columns="x2", values="effect")
        assert np.array_equal(wide.to_numpy(), tables_by_component(model)[0, 2][..., k])
        assert np.array_equal(wide.index, pair.axes[0].values)


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("kind", ["pointwise", "simultaneous"])
def test_the_band_is_that_of_the_posterior(n_outputs: int, kind: str) -> None:
    model = with_bands(random_model(3, 2, n_outputs=n_outputs))
    assert model.evidence.posteriors is not None
    for place, component in enumerate(model.components):
        table = Explanation(model).component(component)
        frame = table.to_frame(level=0.8, kind=kind)
        widths = model.evidence.posteriors[place].uncertainty().half_widths(0.8, kind)
        assert np.allclose(frame["upper"] - frame["effect"], widths.ravel())
        assert np.allclose(frame["effect"] - frame["lower"], widths.ravel())
        lower, upper = table.band
        default = table.to_frame()
        assert np.array_equal(default["lower"], lower.ravel())
        assert np.array_equal(default["upper"], upper.ravel())


def test_one_output_has_the_band_it_has_among_all() -> None:
    model = with_bands(random_model(2, 2, n_outputs=3))
    frame = Explanation(model).component((0, 1)).to_frame(level=0.9)
    one = Explanation(model).of("output 1").component((0, 1)).to_frame(level=0.9)
    among = frame[frame["output"] == "output 1"]
    assert np.allclose(one["lower"], among["lower"], rtol=1e-12)


def test_a_model_without_bands_says_so_and_shows_none() -> None:
    model = random_model(2, 2)
    model = with_evidence(model, spreads=tuple(map(np.ones_like, model.tables)))
    table = Explanation(model).component(0)
    assert table.to_frame()[["lower", "upper"]].isna().all(axis=None)
    for ask in (lambda: table.to_frame(level=0.95), lambda: table.band):
        with pytest.raises(ValueError, match=r"^level: this model or component has no bands"):
            ask()
    with pytest.raises(ValueError, match=r"^kind: this model .* or leave kind out\.$"):
        table.to_frame(kind="simultaneous")


@pytest.mark.parametrize("level", [0, 1, -0.1, 95, float("nan"), "0.95", None])
def test_levels_are_shares(level: Any) -> None:
    table = Explanation(with_bands(random_model(2, 1))).component(0)
    if level is None:
        assert table.to_frame(level=level).equals(table.to_frame(level=0.95))
        return
    with pytest.raises(ValueError, match=r"^level: must be a number above 0 and below 1, found"):
        table.to_frame(level=level)
    with pytest.raises(ValueError, match=r"^kind: must be 'pointwise' or 'simultaneous', found 1"):
        table.to_frame(kind=1)  # type: ignore[arg-type]


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


def test_levels_that_are_no_unicode_are_written_as_they_are() -> None:
    """Also where pandas makes Arrow strings of text, which cannot hold half a surrogate pair."""
    levels = np.array(["\ud800", "a"], dtype=object)
    X = pd.DataFrame({"name": pd.Series(levels[np.arange(40) % 2], dtype=object)})
    model = TPNNRegressor(n_bags=2, verbose=0).fit(X, np.arange(40.0) % 2)
    with pd.option_context("future.infer_string", True):
        frame = model.explain().component("name").to_frame()
        tidy = model.model_.to_table()
    assert set(frame["name"]) == set(levels) == set(tidy["value_1"].dropna())
