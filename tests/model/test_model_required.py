"""Features that no component has: not asked for, not in the file, not in the report."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.conftest import QUICK
from tests.explain.report.pages import payload
from tpnn import TPNNRegressor, load
from tpnn.model.model import pruned

LISTED = [("a",), ("a", "d")]


@pytest.fixture(scope="module")
def rows() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 4)), columns=list("abcd"))
    X["c"] = rng.choice(["secret", "hidden"], 300)
    return X, (X.a + X.a * X.d).to_numpy()


@pytest.fixture(scope="module")
def model(rows: Any) -> TPNNRegressor:
    return TPNNRegressor(**QUICK, components=LISTED).fit(*rows)


def test_columns_without_use_are_not_asked_for(
    model: TPNNRegressor, rows: Any, tmp_path: Path
) -> None:
    X, y = rows
    assert model.model_.required_features == ("a", "d")
    assert model.n_features_in_ == 4
    model.model_.save(tmp_path / "saved")
    assert list(load(tmp_path / "saved").feature_names_in_) == ["a", "d"]
    loaded = load(tmp_path / "saved").model_
    expected = model.predict(X)
    for table in (X, X[["d", "a"]], X.drop(columns="c").assign(e=1)):
        assert np.array_equal(model.predict(table), expected)
        assert np.array_equal(model.model_.predict(table), expected)
        assert np.array_equal(loaded.predict(table), expected)
        assert model.score(table, y) == model.score(X, y)
    assert model.shap_values(X[["d", "a"]]).values.sum(1) == pytest.approx(
        expected - model.intercept_
    )
    with pytest.raises(ValueError, match=r"^X: the columns seen during fit are needed, \['d'\]"):
        model.predict(X[["a", "b", "c"]])


def test_arrays_keep_their_positions(rows: Any, tmp_path: Path) -> None:
    X = rows[0].drop(columns="c").to_numpy()
    model = TPNNRegressor(**QUICK, components=[(1,), (1, 2)]).fit(X, rows[1])
    assert model.model_.required_features == ("x1", "x2")
    model.model_.save(tmp_path / "saved")
    loaded = load(tmp_path / "saved").model_
    assert loaded.feature_names == ("x1", "x2")
    other = X.copy()
    other[:, 0] = np.nan
    assert np.array_equal(loaded.predict(other), model.predict(X))
    assert np.array_equal(loaded.component_scores(X), model.model_.component_scores(X))
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "saved").read_bytes()
    for few in (X[:, 1:], X[:, :2]):
        with pytest.raises(ValueError, match=r"^X: the number of columns must be that of fit"):
            loaded.predict(few)


def test_arrays_with_an_exposure(rows: Any, tmp_path: Path) -> None:
    X, y = rows[0].drop(columns="c").to_numpy(), np.abs(rows[1])
    years = np.random.default_rng(1).uniform(0.5, 2, 300)
    table = np.column_stack([X[:, 0], years, X[:, 1:]])  # x1 is the exposure
    settings: dict[str, Any] = {**QUICK, "objective": "poisson", "exposure": 1}
    model = TPNNRegressor(**settings, components=[(2, 3), (3,)]).fit(table, y)
    assert model.model_.required_features == ("x2", "x3")
    model.model_.save(tmp_path / "saved")
    loaded = load(tmp_path / "saved").model_
    changed = table.copy()
    changed[:, 0] = 7
    assert np.array_equal(loaded.predict(changed), model.predict(table))
    doubled = table.copy()
    doubled[:, 1] *= 2
    assert loaded.predict(doubled) == pytest.approx(2 * model.predict(table))


def test_neither_file_nor_report_knows_them(
    model: TPNNRegressor, rows: Any, tmp_path: Path
) -> None:
    model.model_.save(tmp_path / "saved")
    with zipfile.ZipFile(tmp_path / "saved") as archive:
        header = archive.read("header.json").decode()
    assert "secret" not in header
    assert '"b"' not in header
    model.report(tmp_path / "page.html", *rows)
    page = (tmp_path / "page.html").read_text()
    assert "secret" not in page
    assert [feature["name"] for feature in payload(tmp_path / "page.html")["features"]] == [
        "a",
        "d",
    ]


def test_pruning_changes_no_value(rows: Any) -> None:
    X, y = rows
    full = TPNNRegressor(**QUICK, order=2).fit(X, y).model_
    assert pruned(full) is full
    few = full.restrict([(0,), (0, 3)])
    assert few.feature_names == ("a", "b", "c", "d")
    needed = pruned(few)
    assert needed.feature_names == needed.required_features == few.required_features == ("a", "d")
    assert needed.component_names == few.component_names
    assert np.array_equal(needed.raw_scores(X[["a", "d"]]), few.raw_scores(X))
    assert needed.identifiability_error() == few.identifiability_error()
