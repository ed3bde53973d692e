"""Fits to tables in files give the model of the table in memory, bit for bit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tests.conftest import QUICK
from tests.table.files.tables import mixed_table, write_parts
from tpnn import TPNNClassifier, TPNNRegressor, TPNNSurvival
from tpnn.estimators import pipeline
from tpnn.table.columns import StoredColumns
from tpnn.table.files.reading import SourceColumns, read_training
from tpnn.table.files.source import Source

EXTRA = ["weight", "known", "y", "label"]


def assert_same(one: Any, other: Any) -> None:
    """Two fitted estimators have the same model in every bit, from the same rows."""
    a, b = one.model_, other.model_
    assert a.components == b.components
    assert np.array_equal(a.intercepts, b.intercepts)
    for table, expected in zip(a.tables, b.tables, strict=True):
        assert np.array_equal(table, expected)
    assert a.encoder.names == b.encoder.names
    assert a.encoder.features == b.encoder.features
    assert a.provenance.fingerprint == b.provenance.fingerprint


def features(*others: str) -> pa.Table:
    """The table without targets and weights, but with some of them."""
    return mixed_table().drop_columns([name for name in EXTRA if name not in others])


def files(folder: Path, *others: str) -> Any:
    """The same columns, and the target, as a dataset."""
    names = [*features(*others).column_names, "y", "label", "weight"]
    schema = ds.dataset(folder).schema
    return ds.dataset(folder, pa.schema([schema.field(name) for name in dict.fromkeys(names)]))


def without(folder: Path, name: str) -> Any:
    """The dataset without a column that is no feature here."""
    schema = ds.dataset(folder).schema
    kept = [field for field in schema if field.name not in (name, "known")]
    return ds.dataset(folder, pa.schema(kept))


@pytest.fixture(params=["in memory", "in files"])
def place(request: pytest.FixtureRequest) -> str:
    """Where the table of a fit is: read as a whole, or left in its files."""
    if request.param == "in files":
        request.getfixturevalue("no_memory")
    return str(request.param)


def test_a_regression_has_the_same_bits(folder: Path, place: str) -> None:
    table = mixed_table()
    expected = TPNNRegressor(**QUICK).fit(
        features(), table["y"].to_numpy(), sample_weight=table["weight"].to_numpy()
    )
    found = TPNNRegressor(**QUICK).fit(without(folder, "label"), "y", sample_weight="weight")
    assert_same(found, expected)
    assert found.model_.provenance.targets == ("y",)


def test_a_classifier_has_the_same_bits(folder: Path, place: str) -> None:
    labels = mixed_table()["label"].to_numpy(zero_copy_only=False)
    expected = TPNNClassifier(**QUICK).fit(features("weight"), labels)
    found = TPNNClassifier(**QUICK).fit(without(folder, "y"), "label")
    assert_same(found, expected)
    assert found.classes_.tolist() == ["no", "yes"]


@pytest.mark.parametrize(
    "settings",
    [
        {"categorical": ["large", "count"]},
        {"offset": "known"},
        {"shapes": {"number": "increasing"}},
        {"objective": "huber"},
        {"order": 3, "interactions": [("number", "count", "single"), ("number", "town")]},
    ],
    ids=lambda settings: next(iter(settings)),
)
@pytest.mark.usefixtures("no_memory")
def test_every_setting_has_the_same_bits(folder: Path, settings: dict[str, Any]) -> None:
    table = mixed_table()
    extra = ["known"] if "offset" in settings else []
    expected = TPNNRegressor(**{**QUICK, **settings}).fit(features(*extra), table["y"].to_numpy())
    schema = ds.dataset(folder).schema
    names = [*features(*extra).column_names, "y"]
    source = ds.dataset(folder, pa.schema([schema.field(name) for name in names]))
    assert_same(TPNNRegressor(**{**QUICK, **settings}).fit(source, "y"), expected)


@pytest.mark.usefixtures("no_memory")
def test_triples_that_a_search_finds_have_the_same_bits(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(-1, 1, size=(600, 3)), columns=list("abc"))
    y = 5 * frame.a * frame.b * frame.c + 0.1 * rng.normal(size=600)
    write_parts(pa.Table.from_pandas(frame.assign(y=y)), tmp_path)
    expected = TPNNRegressor(**QUICK).fit(frame, y)
    assert ("a", "b", "c") in expected.components_
    assert_same(TPNNRegressor(**QUICK).fit(tmp_path, "y"), expected)


def test_groups_are_a_column_too(tmp_path: Path, place: str) -> None:
    table = mixed_table(600).select(["number", "single", "town", "y"])
    policy = np.arange(len(table)) // 7
    whole = table.append_column("policy", pa.array(policy))
    write_parts(whole, tmp_path)
    X, y = table.drop_columns(["y"]), table["y"].to_numpy()
    expected = TPNNRegressor(**QUICK).fit(X, y, groups=policy)
    assert_same(TPNNRegressor(**QUICK).fit(tmp_path, "y", groups="policy"), expected)


@pytest.mark.usefixtures("no_memory")
def test_several_targets_are_a_list_of_names(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 3)), columns=list("abc"))
    frame["p"], frame["q"] = frame.a + frame.b, frame.c
    write_parts(pa.Table.from_pandas(frame), tmp_path)
    expected = TPNNRegressor(**QUICK).fit(frame[list("abc")], frame[["p", "q"]])
    assert_same(TPNNRegressor(**QUICK).fit(tmp_path, ["p", "q"]), expected)


@pytest.mark.usefixtures("no_memory")
@pytest.mark.parametrize("pattern", ["", "*.parquet", "**/*.parquet"])
def test_paths_folders_and_patterns_are_the_same_source(tmp_path: Path, pattern: str) -> None:
    frame = pd.DataFrame({"a": np.arange(200.0), "y": np.arange(200) % 7})
    write_parts(pa.Table.from_pandas(frame), tmp_path / "one", n_files=2)
    expected = TPNNRegressor(**QUICK).fit(frame[["a"]], frame.y)
    path = str(tmp_path / "one" / pattern) if pattern else tmp_path / "one"
    assert_same(TPNNRegressor(**QUICK).fit(path, "y"), expected)


@pytest.mark.usefixtures("no_memory")
def test_names_of_folders_are_a_column_and_whole_numbers_become_numbers(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": np.arange(200), "y": np.arange(200) % 7, "year": 2001})
    frame.loc[100:, "year"] = 2002
    for year, rows in frame.groupby("year"):
        part = rows.drop(columns="year").astype({"a": "int64" if year == 2001 else "float64"})
        write_parts(pa.Table.from_pandas(part), tmp_path / f"year={year}", n_files=1)
    expected = TPNNRegressor(**QUICK).fit(frame[["a", "year"]], frame.y)
    assert_same(TPNNRegressor(**QUICK).fit(tmp_path, "y"), expected)


@pytest.mark.usefixtures("no_memory")
def test_a_filtered_dataset_has_the_rows_that_pass(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": np.arange(300.0), "y": np.arange(300) % 7})
    write_parts(pa.Table.from_pandas(frame), tmp_path)
    kept = frame[frame.a > 99]
    expected = TPNNRegressor(**QUICK).fit(kept[["a"]], kept.y)
    source = ds.dataset(tmp_path).filter(ds.field("a") > 99)
    assert_same(TPNNRegressor(**QUICK).fit(source, "y"), expected)


def test_the_limit_of_memory_decides_where_the_table_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source(folder)
    needed = source.memory_bytes(source.names)
    assert isinstance(read_training(folder, "y", None, None, needed)[0], pa.Table)
    assert isinstance(read_training(folder, "y", None, None, needed - 1)[0], StoredColumns)


@pytest.mark.usefixtures("no_memory")
def test_survival_is_refused_beyond_memory(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": np.arange(50.0), "time": np.arange(1.0, 51), "event": True})
    write_parts(pa.Table.from_pandas(frame), tmp_path)
    with pytest.raises(ValueError, match="X: a survival model needs all rows in memory") as caught:
        TPNNSurvival(**QUICK).fit(tmp_path, ["time", "event"])
    assert "50 rows of 1 columns" in str(caught.value)


def test_survival_in_memory_is_fitted(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=200), "event": rng.random(200) < 0.7})
    frame["time"] = rng.exponential(np.exp(-frame.a))
    write_parts(pa.Table.from_pandas(frame), tmp_path)
    expected = TPNNSurvival(**QUICK).fit(frame[["a"]], frame[["time", "event"]])
    assert_same(TPNNSurvival(**QUICK).fit(tmp_path, ["time", "event"]), expected)


def test_a_source_that_changes_between_passes_is_refused(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": np.arange(100.0), "y": np.arange(100.0)})
    write_parts(pa.Table.from_pandas(frame), tmp_path, n_files=2)
    columns = SourceColumns(Source(tmp_path), ["a", "y"], None)  # type: ignore[arg-type]
    assert np.array_equal(columns["a"], frame.a)
    assert np.array_equal(columns["a"], frame.a)
    pq.write_table(pa.Table.from_pandas(frame[:20]), tmp_path / "part-1.parquet")
    with pytest.raises(ValueError, match="must not change during a fit") as caught:
        columns["a"]
    assert "part-1.parquet" in str(caught.value)


def test_values_that_change_behind_the_same_files_are_noticed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = SourceColumns(Source(folder), ["single", "town"], None)  # type: ignore[arg-type]
    before = [columns["single"], columns["town"]]
    batches = Source.batches

    def reversed_batches(self: Source, names: list[str], fragment: Any = None) -> Any:
        yield from list(batches(self, names, fragment))[::-1]

    monkeypatch.setattr(Source, "batches", reversed_batches)
    for name in ("single", "town"):
        with pytest.raises(ValueError, match=f"column '{name}' .* changed"):
            columns[name]
    assert len(before[0]) == len(before[1])


def test_lines_tell_how_far_the_reading_has_come(
    folder: Path, no_memory: None, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    from tpnn.table.files import reading as telling

    monkeypatch.setattr(telling, "SECONDS_BETWEEN_LINES", 0.0)
    TPNNRegressor(**{**QUICK, "verbose": 1, "order": 1}).fit(without(folder, "label"), "y")
    lines = re.findall(
        r"Reading the table, pass (\d): column (\d+) of (\d+), .*", capsys.readouterr().err
    )
    assert {number for number, _, _ in lines} >= {"1", "2", "3"}
    assert {int(column) for _, column, _ in lines} == set(range(1, int(lines[0][2]) + 1))


def test_tables_with_very_many_rows_have_no_bands(monkeypatch: pytest.MonkeyPatch) -> None:
    table = mixed_table(500)
    X, y = table.select(["number", "single"]), table["y"].to_numpy()
    assert TPNNRegressor(**QUICK).fit(X, y).model_.evidence.posteriors is not None
    monkeypatch.setattr(pipeline, "MOST_ROWS_OF_BANDS", 100)
    model = TPNNRegressor(**QUICK).fit(X, y)
    assert model.model_.evidence.posteriors is None
    assert "no bands: 500 rows" in [event["note"][:18] for event in model.history_]
