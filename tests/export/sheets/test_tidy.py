"""The tidy table: one line for each node, from which raw scores can be looked up."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.export.sheets.models import mixed_model, mixed_rows
from tests.models import random_model, with_bands, with_evidence, with_remainder
from tpnn.export.sheets.tidy import values_at


def same(left: object, right: object) -> bool:
    return bool(left == right) or (pd.isna(left) and pd.isna(right))  # type: ignore[call-overload]


def looked_up(table: pd.DataFrame, row: pd.Series) -> float:
    """Raw score of a row on nodes, found line by line as a person would."""
    total = 0.0
    for _, lines in table.groupby("component", sort=False):
        found = [
            line["effect"]
            for _, line in lines.iterrows()
            if all(
                line[f"feature_{k}"] is None
                or same(line[f"value_{k}"], row[str(line[f"feature_{k}"])])
                for k in (1, 2)
            )
        ]
        assert len(found) == 1
        total += found[0]
    return total


def test_the_sum_over_looked_up_lines_is_the_raw_score() -> None:
    model = mixed_model()
    table = model.to_table()
    rows = {}
    for feature, name in enumerate(model.feature_names):
        lines = table[(table["feature_2"] == name)]["value_2"].unique()
        if feature == 0:
            lines = table[(table["feature_1"] == name) & (table["feature_2"] == "count")]["value_1"]
        rows[name] = [value for value in lines if value != "(other levels)"]
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {name: [values[i] for i in rng.integers(0, len(values), 12)] for name, values in
         rows.items()}
    )  # fmt: skip
    X = X.astype({"amount": float, "size": mixed_rows()["size"].dtype})
    expected = model.raw_scores(X)
    found = [looked_up(table, row) for _, row in X.iterrows()]
    assert np.allclose(found, expected, rtol=0, atol=1e-13)


def test_masses_are_the_measure_of_the_sum_to_zero_law() -> None:
    table = mixed_model().to_table()
    for _, lines in table[table["component"] != "(intercept)"].groupby("component"):
        assert lines["mass"].sum() == pytest.approx(1.0)
        assert (lines["mass"] * lines["effect"]).sum() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("link", ["log", "logit", "identity"])
def test_relativities_are_factors(link: str) -> None:
    table = mixed_model(1, link).to_table()
    assert ("relativity" in table) == (link != "identity")
    if link != "identity":
        assert np.array_equal(table["relativity"], np.exp(table["effect"]))


def test_bands_effects_and_outputs_are_those_of_the_model() -> None:
    model = with_bands(random_model(3, 3, n_outputs=2))
    assert model.evidence.posteriors is not None
    table = model.to_table()
    assert list(table["output"][:4]) == ["output 0", "output 1"] * 2
    effects = np.concatenate([model.intercepts, *(grid.ravel() for grid in model.tables)])
    assert np.array_equal(table["effect"], effects)
    widths = [p.uncertainty().half_widths(0.95).ravel() for p in model.evidence.posteriors]
    half = np.concatenate([[np.nan, np.nan], *widths])
    assert np.allclose(table["upper"] - table["effect"], half, equal_nan=True)
    assert np.allclose(table["effect"] - table["lower"], half, equal_nan=True)
    assert with_evidence(model, posteriors=None).to_table()["upper"].isna().all()
    triple = table[table["component"] == "x0 x x1 x x2"]
    assert set(triple["value_3"]) == set(model.axes((0, 1, 2))[2].values)


def test_a_model_without_components_is_its_intercept() -> None:
    table = random_model(2, 1).restrict([]).to_table()
    assert list(table) == ["component", "effect", "lower", "upper", "mass"]
    assert len(table) == 1


def test_a_remainder_has_a_line_without_a_number() -> None:
    model = mixed_model()
    table = with_remainder(model).to_table()
    pd.testing.assert_frame_equal(table[:-1], model.to_table())
    assert table["component"].iloc[-1] == "(remainder)"
    assert np.isnan(table["effect"].iloc[-1])


def test_values_at_are_the_component_scores() -> None:
    model = mixed_model(3)
    X = mixed_rows(50, seed=5)
    columns = model.encoder.columns(model.encoder.read(X))
    scores = model.component_scores(X)
    for place, component in enumerate(model.components):
        for row in range(5):
            at = [columns[feature][row : row + 1] for feature in component]
            assert values_at(model, component, at).item() == pytest.approx(scores[row, place])
