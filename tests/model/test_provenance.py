"""Provenance: it survives files, every field of it is checked, and no prediction depends on it."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tpnn
from tests.conftest import QUICK
from tests.models import small_model
from tpnn import Grow, Provenance, TPNNClassifier, TPNNRegressor, load
from tpnn.estimators.fit_record import json_value, target_names
from tpnn.model.archive import read_document, write_archive

GOOD = Provenance(
    task="regressor", version="1.2.3", date="2026-01-31T12:00:00Z", targets=("y",),
    settings={"order": 2, "shapes": {"a": "increasing"}, "l2": None}, fingerprint="0f" * 32,
    n_rows=10, n_columns=3, scores={"R2": 0.5},
)  # fmt: skip


@pytest.fixture(scope="module")
def rows() -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=200), "b": rng.choice(["u", "v"], 200)})
    return X, pd.Series(X.a + (X.b == "u"), name="price")


def test_a_fit_says_where_the_model_comes_from(rows: Any) -> None:
    X, y = rows
    before = datetime.now(UTC)
    model = TPNNRegressor(**QUICK | {"shapes": {"a": "increasing"}}).fit(X, y)
    found = model.model_.provenance
    assert (found.task, found.version, found.targets) == (
        "regressor", tpnn.__version__, ("price",)
    )  # fmt: skip
    written = datetime.strptime(found.date, "%Y-%m-%dT%H:%M:%S%z")
    assert -1 < (written - before).total_seconds() < 600
    assert (found.n_rows, found.n_columns) == (200, 2)
    assert found.fingerprint == tpnn.fingerprint(X, y)
    assert found.settings == json.loads(json.dumps(json_value(model.get_params(deep=False))))
    assert found.settings["shapes"] == {"a": "increasing"}
    best = pd.DataFrame(model.history_).groupby("bag")["validation_loss"].min().mean()
    assert found.scores == {"squared_error, training scale": pytest.approx(best)}


def test_the_same_fit_at_the_same_time_gives_the_same_file(
    rows: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    for name in ("one", "other"):
        TPNNRegressor(**QUICK).fit(*rows).model_.save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    assert load(tmp_path / "one").model_.provenance.date == "2023-11-14T22:13:20Z"


@pytest.mark.parametrize("form", ["archive", "json"])
def test_it_survives_a_file(tmp_path: Path, form: str) -> None:
    model = replace(small_model(2), provenance=GOOD)
    model.save(tmp_path / "model") if form == "archive" else model.to_json(tmp_path / "model")
    assert load(tmp_path / "model").model_.provenance == GOOD


def test_parts_of_later_versions_are_ignored(tmp_path: Path) -> None:
    model = replace(small_model(2), provenance=GOOD)
    model.save(tmp_path / "model")
    document = read_document(tmp_path / "model")
    document["weather"] = {"rain": np.zeros(3)}
    document["provenance"]["licence"] = "MIT"
    write_archive(tmp_path / "more", document)
    loaded = load(tmp_path / "more").model_
    assert loaded.provenance == GOOD
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


@pytest.mark.parametrize(
    "change",
    [
        {"task": "ranker"}, {"task": None}, {"task": "classifier"}, {"version": 1},
        {"version": "x" * 20_000}, {"date": "yesterday"}, {"date": "2026-01-31T12:00:00+01:00"},
        {"targets": [1]}, {"targets": None}, {"settings": []}, {"settings": {"a": float("nan")}},
        {"settings": {"a": [[[[[[[[[[]]]]]]]]]]}}, {"settings": {"a": [0] * 200_000}},
        {"fingerprint": "0F" * 32}, {"fingerprint": ""}, {"n_rows": 0}, {"n_rows": 1.5},
        {"n_rows": True}, {"n_columns": -1}, {"n_columns": 2**60}, {"scores": {"R2": "high"}},
        {"scores": {"R2": float("inf")}}, {"scores": {"R2": {}}}, {"scores": None},
    ],
    ids=str,
)  # fmt: skip
def test_every_field_is_checked(change: dict[str, Any], tmp_path: Path) -> None:
    replace(small_model(2), provenance=GOOD).save(tmp_path / "model")
    document = read_document(tmp_path / "model")
    document["provenance"] |= change
    write_archive(tmp_path / "model", document)
    with pytest.raises(ValueError, match=r"^path: must be a complete model"):
        load(tmp_path / "model")


@pytest.mark.parametrize("name", list(GOOD.as_dict()))
def test_every_field_is_needed(name: str, tmp_path: Path) -> None:
    replace(small_model(2), provenance=GOOD).save(tmp_path / "model")
    document = read_document(tmp_path / "model")
    del document["provenance"][name]
    write_archive(tmp_path / "model", document)
    with pytest.raises(ValueError, match=f"lacks a part of it .*{name}"):
        load(tmp_path / "model")


def test_scores_belong_to_the_whole_model() -> None:
    model = replace(small_model(2), provenance=GOOD)
    assert model.restrict([(0,)]).provenance == replace(GOOD, scores={})
    assert model.provenance == GOOD


def test_models_of_a_path_say_it_too(rows: Any) -> None:
    estimator = TPNNRegressor(**QUICK).fit(*rows)
    found = estimator.path().model(1).provenance
    assert found == replace(estimator.model_.provenance, scores={})


def test_long_and_odd_settings_are_told_briefly(rows: Any, tmp_path: Path) -> None:
    settings = {"categorical": ["b"] * 100_000, "random_state": np.random.RandomState(0)}
    X, y = rows
    model = TPNNClassifier(**QUICK | settings).fit(X, y > 0.5).model_
    model.save(tmp_path / "model")
    found = load(tmp_path / "model").model_.provenance.settings
    assert found["categorical"] == "list of length 100000"
    assert found["random_state"] == "RandomState"
    with zipfile.ZipFile(tmp_path / "model") as archive:
        assert archive.getinfo("header.json").file_size < 100_000


def test_json_values() -> None:
    def my_loss(y: Any, raw: Any) -> Any:
        return y - raw

    assert json_value(my_loss) == "my_loss"
    assert json_value(Grow(l2=0.5))["l2"] == 0.5
    assert json_value(Grow())["name"] == "Grow"
    assert json_value({"levels": np.array([0.1, 0.9])}) == {"levels": [0.1, 0.9]}


def test_names_of_targets() -> None:
    assert target_names(pd.Series([1], name="y")) == ("y",)
    assert target_names(pd.DataFrame({"time": [1], 3: [2]})) == ("time", "3")
    assert target_names(np.zeros(1, [("t", float), ("e", bool)])) == ("t", "e")
    for nameless in ([1], np.ones(2), pd.Series([1]), None):
        assert target_names(nameless) == ()
