"""Files in the ONNX format give the model's own numbers in onnxruntime."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks.speed.exports.sessions import feeds, run_session, session_of
from tests.conftest import QUICK
from tests.export.cases import (
    INJECTION,
    TASKS,
    TOLERANCE,
    assert_equal_to_model,
    expected,
    fuzzed_rows,
    model_of,
    remainder_model,
)
from tests.models import small_model
from tpnn import AnovaModel, ComponentSet, TPNNClassifier, TPNNRegressor, TPNNSurvival
from tpnn.loss.links import LINKS
from tpnn.table.encoder import LevelRules, TableEncoder
from tpnn.table.table import Table

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

pytestmark = pytest.mark.filterwarnings("ignore:X. levels")


def in_onnxruntime(model: AnovaModel, rows: pd.DataFrame) -> np.ndarray:
    return run_session(model, rows, contributions=True).answers


def outputs(model: AnovaModel, rows: pd.DataFrame) -> dict[str, np.ndarray]:
    """All that a session gives back, by name."""
    session, _ = session_of(model)
    names = [known.name for known in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds(session, rows)), strict=True))


def model_on(
    rows: pd.DataFrame,
    components: Sequence[tuple[int, ...]] | None = None,
    nominal: Sequence[int] = (),
    least_rows: int = 1,
) -> AnovaModel:
    """A model with random values, of main effects where nothing else is said."""
    rules = LevelRules(nominal=nominal, least_rows=least_rows)
    encoder = TableEncoder.fit(Table(rows), {1: 8, 2: 4}, rules=rules)
    chosen = components if components is not None else [(j,) for j in range(rows.shape[1])]
    rng = np.random.default_rng(0)
    tables = tuple(
        rng.normal(size=[*(encoder.axes[len(s)][j].n_nodes for j in s), 1]) for s in chosen
    )
    return AnovaModel(
        encoder=encoder,
        components=ComponentSet(tuple(chosen)),
        tables=tables,
        intercepts=np.array([0.7]),
        link=LINKS["identity"],
    )


@pytest.mark.parametrize("task", TASKS)
def test_a_session_equals_the_model(task: str) -> None:
    model = model_of(task)
    rows = fuzzed_rows(model, 3000)
    assert_equal_to_model(in_onnxruntime(model, rows), model, rows)


@pytest.mark.parametrize("is_oblivious", [True, False])
@pytest.mark.parametrize("task", TASKS)
def test_a_session_equals_a_model_with_a_remainder(task: str, is_oblivious: bool) -> None:
    model = remainder_model(task, is_oblivious)
    rows = fuzzed_rows(model, 1500)
    assert_equal_to_model(in_onnxruntime(model, rows), model, rows)
    alone = run_session(model, rows, contributions=False).answers
    truth = expected(model, rows)["raw"]
    unit = TOLERANCE * truth.std()
    np.testing.assert_allclose(alone[:, : len(model.intercepts)], truth, rtol=0, atol=unit)


def test_a_remainder_of_refused_rows_is_nan() -> None:
    model = remainder_model("regression")
    rows = fuzzed_rows(model, 2)
    rows["holes"] = [1.0, np.inf]
    found = outputs(model, rows)
    assert np.isfinite(found["remainder"][0]).all()
    for name in ("variable", "raw_score", "contributions", "remainder"):
        assert np.isnan(found[name][1]).all()


def test_a_remainder_without_components_is_exported() -> None:
    model = remainder_model("regression")
    alone = replace(model.restrict([]), remainder=model.remainder)
    rows = fuzzed_rows(alone, 50)
    assert_equal_to_model(in_onnxruntime(alone, rows), alone, rows)


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_every_order_and_one_row_alone(order: int, n_outputs: int) -> None:
    model = small_model(order, n_outputs=n_outputs)
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(40, 3)), columns=model.feature_names)
    for some in (rows, rows[:1]):
        found = outputs(model, some)["contributions"]
        np.testing.assert_allclose(found, model.component_scores(some), rtol=0, atol=1e-13)


def test_what_the_model_refuses_is_nan() -> None:
    model = model_of("counts")
    rows = fuzzed_rows(model, 7).assign(exposure=[1.0, 0.0, -1.0, np.nan, np.inf, 1.0, 1.0])
    rows.loc[5, "holes"] = np.inf
    rows.loc[6, "code"] = -np.inf
    found = outputs(model, rows)
    for name in ("variable", "raw_score", "contributions"):
        refused = np.isnan(found[name].reshape(7, -1))
        np.testing.assert_array_equal(refused.all(1), [False] + [True] * 6)
        np.testing.assert_array_equal(refused.any(1), [False] + [True] * 6)


@pytest.mark.parametrize("task", ["regression", "two classes", "several classes", "quantiles"])
def test_predictions_of_refused_rows_are_nan(task: str) -> None:
    model = model_of(task)
    rows = fuzzed_rows(model, 2)
    rows.loc[1, "holes"] = -np.inf
    found = outputs(model, rows)
    means = found["probabilities"] if "label" in found else found["variable"]
    assert np.isfinite(means[0]).all()
    assert np.isnan(means[1]).all()


def test_unseen_and_missing_levels_have_nodes_of_their_own() -> None:
    levels = ["a", "b", "c"] * 20 + ["rare", None, None]
    rows = pd.DataFrame({"level": levels, "x": np.arange(63.0)})
    model = model_on(rows, [(0,), (0, 1)], least_rows=3)
    axes = {
        order: (replace(level, has_unseen=True), x)
        for order, (level, x) in model.encoder.axes.items()
    }
    model = replace(model, encoder=replace(model.encoder, axes=axes))
    asked = pd.DataFrame({"level": ["a", None, "rare", "new", "", "None"], "x": 5.0})
    assert_equal_to_model(in_onnxruntime(model, asked), model, asked)
    effects = model.component_scores(asked)[:, 0]
    assert len({0.0, effects[1], effects[3]}) == 3


def test_the_text_of_missing_values_is_no_level() -> None:
    rows = pd.DataFrame({"level": ["<missing>", "<missing>_", None, "a"] * 5})
    model = model_on(rows)
    session, _ = session_of(model)
    assert session.get_modelmeta().custom_metadata_map["missing_text"] == "<missing>__"
    assert_equal_to_model(in_onnxruntime(model, rows), model, rows)


def test_columns_of_every_other_kind() -> None:
    rng = np.random.default_rng(0)
    n = 200
    sizes = [3.5, 2.0, 1.0]
    large = pd.array(rng.choice([2**53, 2**53 + 1, -(2**62)], n), "Int64")
    rows = pd.DataFrame(
        {
            "wait": rng.integers(-(10**12), 10**12, n).astype("timedelta64[us]"),
            "large": large,
            "truth": rng.random(n) < 0.5,
            "falling": pd.Categorical(
                rng.choice([3.5, 2.0, 1.0], n), [3.5, 2.0, 1.0], ordered=True
            ),
            "empty": np.nan,
        }
    )
    rows.loc[:5, ["wait", "large", "falling"]] = None
    model = model_on(rows, nominal=[1, 2])
    asked = rows.assign(empty=np.where(rng.random(n) < 0.5, 1.0, np.nan))
    asked["large"] = asked["large"].mask(rng.random(n) < 0.2, 2**53 + 2)
    asked["falling"] = rng.choice([*sizes, 0.0, -0.0, np.nan, 1e300], n)
    assert_equal_to_model(in_onnxruntime(model, asked), model, asked)


def test_a_range_that_overflows() -> None:
    rows = pd.DataFrame({"x": [-1.7e308, -1.0, 0.0, 1.0, 1.7e308] * 4})
    model = model_on(rows)
    asked = pd.DataFrame({"x": [*rows["x"][:5], 1.79e308, -1.79e308, 1e307]})
    assert_equal_to_model(in_onnxruntime(model, asked), model, asked)


NAMES = ["label", "raw_score", "variable_", "variable", "", "tpnn", "tpnn_3", INJECTION, 'a"\n;ä三']


def test_names_are_only_names() -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(50, len(NAMES))), columns=NAMES)
    rows[INJECTION] = rng.choice([INJECTION, "", "\n", '"', "two words"], 50)
    model = model_on(rows)
    session, _ = session_of(model)
    names = [known.name for known in session.get_inputs()]
    assert [x for x in names if x in NAMES] == [
        x for x in NAMES if x not in ("raw_score", "variable", "")
    ]
    assert_equal_to_model(in_onnxruntime(model, rows), model, rows)
    known = json.loads(session.get_modelmeta().custom_metadata_map["components"])
    assert [tuple(names) for names in known] == model.component_names


def test_an_offset_that_was_passed_to_fit_is_an_input() -> None:
    rows = pd.DataFrame({"offset": np.arange(20.0), "x": np.arange(20.0) % 3})
    model = replace(model_on(rows), has_offset=True)
    session, _ = session_of(model)
    known = np.linspace(-1, 1, 20)
    passed = feeds(session, rows)
    passed["offset_"] = known[:, None]
    (raw,) = session.run(["raw_score"], passed)
    np.testing.assert_allclose(raw[:, 0], model.raw_scores(rows, offset=known), atol=1e-13)


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_a_constant_model_counts_the_rows(n_outputs: int) -> None:
    rows = pd.DataFrame({"a": ["u", "v"] * 5, "b": np.arange(10.0)})
    model = replace(model_on(rows, components=[]), intercepts=0.7 + np.arange(n_outputs))
    found = outputs(model, rows)
    np.testing.assert_array_equal(found["variable"], np.tile(model.intercepts, (10, 1)))
    assert found["contributions"].shape == model.component_scores(rows).shape


@pytest.mark.parametrize(
    "labels", [["no", "yes"], [3, -1], [False, True], [0.0, 1.0], ["c", "", "a"], [7, 5, 6]]
)
def test_labels_are_those_of_the_classifier(labels: list[Any]) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(120, 2)), columns=["a", "b"])
    y = np.array(labels)[rng.integers(0, len(labels), 120)]
    model = TPNNClassifier(**QUICK).fit(X, y)
    found = outputs(model.model_, X)
    names = ["label", "probabilities", "raw_score", "contributions", "remainder"]
    assert list(found) == names[: 4 if model.model_.remainder is None else 5]
    assert found["label"].dtype == (object if isinstance(labels[0], str) else np.int64)
    assert found["label"].tolist() == model.predict(X).tolist()
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(X), atol=1e-14)


def test_estimators_of_other_tasks() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    frame = pd.DataFrame(X, columns=["x0", "x1"])
    levels = {"name": "quantile", "levels": [0.1, 0.9]}
    quantiles = TPNNRegressor(objective=levels, **QUICK).fit(X, X[:, 0])
    found = outputs(quantiles.model_, frame)
    np.testing.assert_allclose(found["variable"], quantiles.predict(X), atol=1e-13)
    survival = TPNNSurvival(**QUICK).fit(X, np.c_[np.exp(X[:, 0]), X[:, 1] < 1])
    found = outputs(survival.model_, frame)
    np.testing.assert_allclose(found["variable"][:, 0], survival.model_.predict(X), rtol=1e-13)


def test_the_file_is_small_and_old_enough(tmp_path: Path) -> None:
    model = model_of("several classes")
    model.to_onnx(tmp_path / "model.onnx")
    file = onnx.load(tmp_path / "model.onnx")
    assert {known.domain: known.version for known in file.opset_import} == {"": 12, "ai.onnx.ml": 2}
    assert file.ir_version == 7
    assert len(file.graph.node) < 400
    assert [known.name for known in file.graph.output] == ["label", "probabilities", "raw_score"]


def test_onnx_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"to_onnx: needs onnx.*tpnn\[onnx\]"):
        model_of("regression").to_onnx(tmp_path / "model.onnx")


def test_levels_that_no_type_holds_are_refused(tmp_path: Path) -> None:
    model = model_on(
        pd.DataFrame({"code": np.array([2**63 + 1, 2**63 + 5, 3], np.uint64)}), nominal=[0]
    )
    with pytest.raises(ValueError, match="whole numbers of 64 bits to be exported, found 92233"):
        model.to_onnx(tmp_path / "model.onnx")
    model = model_on(pd.DataFrame({"name": ["\ud800", "a"] * 5}))
    with pytest.raises(ValueError, match=r"must be valid Unicode to be exported, found '\\ud800'"):
        model.to_onnx(tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()
