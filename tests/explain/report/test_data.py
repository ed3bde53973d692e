"""Summary: everything that the page shows is what the model and its explanation say."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tpnn
from tests.explain.report.pages import payload
from tests.models import random_model
from tpnn import AnovaModel, Explanation, TPNNRegressor
from tpnn.explain.report.data import MAX_ROWS, _plain, _quantiles, summarise
from tpnn.table.axis import Axis
from tpnn.table.encoder import Feature


def summary_of(model: AnovaModel, rows: Any = None, offset: Any = None) -> dict[str, Any]:
    explanation = Explanation(model, rows)
    n_rows = 0 if rows is None else len(rows)
    known = np.zeros(n_rows) if offset is None else offset
    return summarise(model, explanation, known)


def test_shapes_are_shown_with_certificates(mixed: Any, fast: Any, tmp_path: Path) -> None:
    X, y = mixed
    model = TPNNRegressor(**{**fast, "shapes": {"age": "increasing"}}).fit(X, y)
    model.report(tmp_path / "page.html")
    assert payload(tmp_path / "page.html")["shapes"] == [["age", ["increasing"]]]


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_numbers_are_those_of_the_model(n_outputs: int) -> None:
    model = random_model(3, 2, n_outputs=n_outputs)
    found, explanation = summary_of(model), Explanation(model)
    assert found["intercept"] == model.intercepts.tolist()
    assert found["error"] == model.identifiability_error()
    assert found["outputs"] == list(model.output_names)
    shares, norms = explanation.sobol(), explanation.importance(normalise=True)
    for component, names in zip(found["components"], model.component_names, strict=True):
        assert tuple(f"x{feature}" for feature in component["features"]) == names
        assert component["share"] == shares[names]
        assert component["importance"] == norms[names]
    places = {name: place for place, name in enumerate(model.feature_names)}
    expected = [[places[n], *i[:3]] for n, i in explanation.sobol_indices().items()]
    assert found["sobol"] == expected
    doubtful = [t for t, s in zip(model.tables, model.components, strict=True) if len(s) > 1]
    n_cells = sum(table.size for table in (*model.tables, *doubtful))
    assert found["packed"]["n_cells"] == n_cells
    assert found["rows"] == []


def test_everything_can_be_written_as_json(models: dict[str, AnovaModel], mixed: Any) -> None:
    X, _ = mixed
    for task, model in models.items():
        rows = None if task == "order 3" else X
        assert json.loads(json.dumps(summary_of(model, rows), allow_nan=False))["features"]


def test_levels_dates_and_missing_values_of_features(
    models: dict[str, AnovaModel], mixed: Any
) -> None:
    X, _ = mixed
    features = {f["name"]: f for f in summary_of(models["regression"])["features"]}
    assert features["income"]["missing"] == pytest.approx(X["income"].isna().mean())
    assert features["age"]["missing"] == 0.0
    assert features["grade"]["levels"] == ["low", "mid", "top"]
    assert features["grade"]["axes"][0]["words"] == ["low", "mid", "top"]
    assert features["since"]["kind"] == "date"
    assert features["age"]["quantiles"][::4] == [X["age"].min(), X["age"].max()]
    assert features["grade"]["quantiles"][::4] == [0, 2]
    seconds = X["since"].astype("datetime64[s]").astype("int64")
    assert features["since"]["quantiles"][::4] == [seconds.min(), seconds.max()]
    assert sorted(features["age"]["quantiles"]) == features["age"]["quantiles"]
    town = features["town </script>"]
    assert town["quantiles"] == []
    assert sorted(town["axes"][0]["groups"]) == [0, 1, 2]


def test_quantiles_of_an_axis() -> None:
    axis = Axis(np.arange(100.0), np.full(100, 0.01))
    known = Feature("number", ends=(-7.5, 1e6))
    assert _quantiles(known, axis) == pytest.approx([-7.5, 4.0, 49.0, 94.0, 1e6], abs=1)
    assert _quantiles(Feature("number"), axis)[::4] == [None, None]
    assert _quantiles(known, Axis(np.empty(0), np.ones(1), has_missing=True)) == []


def test_the_largest_value_is_that_of_the_rows_and_no_node(fast: Any, tmp_path: Path) -> None:
    """Heavy tails have values far beyond the last node, also after saving, loading and merging."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"amount": rng.lognormal(0, 3, 400), "x": rng.normal(size=400)})
    model = TPNNRegressor(**fast).fit(X, np.log(X["amount"])).model_
    model.save(tmp_path / "model.tpnn")
    other = TPNNRegressor(**fast).fit(X - 100.0, X["x"]).model_
    joint = {"amount": (X["amount"].min() - 100, X["amount"].max())}
    alone = {"amount": (X["amount"].min(), X["amount"].max())}
    for known, ends in (
        (model, alone), (tpnn.load(tmp_path / "model.tpnn").model_, alone),
        (tpnn.merge([model, other]), joint),
    ):  # fmt: skip
        (feature, *_) = summary_of(known)["features"]
        assert feature["name"] == "amount"
        assert tuple(feature["quantiles"][::4]) == ends["amount"]


def test_a_few_rows_spread_over_all_are_kept_with_their_offsets() -> None:
    model, rows = random_model(3, 1), np.random.default_rng(0).normal(size=(1001, 3))
    offset = np.arange(1001.0)
    found = summary_of(model, rows, offset)
    assert found["nRows"] == 1001
    assert len(found["rows"]) == len(found["offsets"]) == MAX_ROWS
    assert found["offsets"][0] == 0.0
    assert found["offsets"][-1] == 1000.0
    assert np.array_equal(found["rows"], rows[np.array(found["offsets"]).astype(int)])


def test_shapes_that_a_model_has_by_chance_are_shown_too() -> None:
    model = random_model(2, 1)
    rising = tuple(np.sort(table, axis=0) for table in model.tables)
    assert summary_of(replace(model, tables=rising))["shapes"] == [
        ("x0", ["increasing"]), ("x1", ["increasing"]),
    ]  # fmt: skip
    flat = tuple(map(np.zeros_like, model.tables))
    assert summary_of(replace(model, tables=flat))["shapes"] == [
        ("x0", ["constant"]), ("x1", ["constant"]),
    ]  # fmt: skip


def test_warnings_are_those_of_concurvity() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=500)
    copies = np.column_stack([x, x, rng.normal(size=500)])
    for n_outputs in (1, 2):
        found = summary_of(random_model(3, 1, n_outputs=n_outputs), copies)["warnings"]
        assert sorted(text.split(":")[0] for text in found) == ["through x0", "through x1"]
        assert all(re.fullmatch(r"through .+: .+ \(\d+ %\)", text) for text in found)


@pytest.mark.parametrize(
    ("value", "written"),
    [(3.0, "3"), (0.5, "0.5"), (float("nan"), "null"), (float("inf"), '"unseen"'), (1e300, None)],
)
def test_numbers_are_written_short(value: float, written: str | None) -> None:
    text = json.dumps(_plain(value))
    assert written is None or text == written
    assert written is not None or json.loads(text) == value
