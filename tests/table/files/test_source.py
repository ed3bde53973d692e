"""Sources: which files they are, and what is refused with the name of the file and the remedy."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tests.conftest import QUICK
from tests.table.files.tables import mixed_table, write_parts
from tpnn import TPNNClassifier, TPNNRegressor
from tpnn.table.files.paths import find_files
from tpnn.table.files.source import Source


def write(path: Path, **columns: Any) -> str:
    """Write one file, and return its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return str(path)


def message(call: Any) -> str:
    """What a call says when it refuses."""
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    return str(caught.value)


def refused(source: Any, y: Any = "y", **more: Any) -> str:
    """What a fit says when it refuses a source."""
    return message(lambda: TPNNRegressor(**QUICK).fit(source, y, **more))


def test_files_are_found_in_folders_and_by_patterns(tmp_path: Path) -> None:
    for name in ("b.parquet", "a.PQ", "in/c.parquet", "_hidden.parquet", ".d/e.parquet", "f.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    relative = [str(Path(file).relative_to(tmp_path)) for file in find_files(str(tmp_path))]
    assert relative == ["a.PQ", "b.parquet", str(Path("in/c.parquet"))]
    assert find_files(str(tmp_path / "*.parquet")) == [
        str(tmp_path / "_hidden.parquet"),
        str(tmp_path / "b.parquet"),
    ]


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    said = refused(tmp_path)
    assert said.startswith(f"X: there are no Parquet or CSV files at {str(tmp_path)!r}. Check")
    assert refused(str(tmp_path / "*.parquet")).startswith("X: there are no Parquet or CSV files")


@pytest.mark.parametrize("reason", ["no such store", "nothing there", "no network"])
def test_an_address_that_cannot_be_reached(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if reason == "no such store":
        said = refused("foo://bucket/table/")
        assert said.startswith("X: the store of 'foo://bucket/table/' cannot be reached (")
    elif reason == "nothing there":
        assert refused("file:///no/such/x.parquet").startswith("X: there is nothing at 'file:///no")
    else:

        def fail(uri: str) -> Any:
            raise OSError("Could not resolve host")

        monkeypatch.setattr("pyarrow.fs.FileSystem", SimpleNamespace(from_uri=fail))
        said = refused("s3://bucket/x.parquet")
        assert "cannot be reached (Could not resolve host). Check the address, the net" in said
        assert "damaged" not in said


def test_an_address_is_read_as_a_path_is(tmp_path: Path) -> None:
    file = write(tmp_path / "a.parquet", x=[1.0, 2.0], y=[0.0, 1.0])
    assert Source(f"file://{file}").n_rows == 2
    assert Source(tmp_path.as_uri()).names == ("x", "y")


def test_zero_rows_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", x=pa.array([], pa.float64()), y=pa.array([], pa.float64()))
    assert refused(tmp_path).startswith("X: there are no rows in")
    write(tmp_path / "b.parquet", x=[1.0, 2.0], y=[1.0, 2.0])
    empty = ds.dataset(tmp_path).filter(ds.field("x") > 5)
    assert refused(empty).startswith("X: there are no rows in the dataset. Check")


@pytest.mark.parametrize("as_dataset", [False, True])
def test_a_column_that_a_file_lacks_is_named(tmp_path: Path, as_dataset: bool) -> None:
    first = write(tmp_path / "a.parquet", x=[1.0, 2.0], z=[1, 2], y=[1.0, 2.0])
    second = write(tmp_path / "b.parquet", x=[1.0, 2.0], y=[1.0, 2.0])
    said = refused(ds.dataset(tmp_path) if as_dataset else tmp_path)
    assert f"found 'z' in {first!r} but not in {second!r}" in said


@pytest.mark.parametrize("as_dataset", [False, True])
def test_a_column_of_text_and_numbers_is_refused(tmp_path: Path, as_dataset: bool) -> None:
    first = write(tmp_path / "a.parquet", x=[1, 2], y=[1.0, 2.0])
    second = write(tmp_path / "b.parquet", x=["1", "2"], y=[1.0, 2.0])
    said = refused(ds.dataset(tmp_path) if as_dataset else tmp_path)
    assert f"found 'x' as int64 in {first!r} and as string in {second!r}. Convert it" in said


def test_a_file_that_is_no_parquet_is_named(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", x=[1.0, 2.0], y=[1.0, 2.0])
    (tmp_path / "b.parquet").write_text("nonsense")
    assert f"found {str(tmp_path / 'b.parquet')!r} damaged or of another format" in refused(
        tmp_path
    )


@pytest.mark.parametrize("share", [0.0, 1.0], ids=["in files", "in memory"])
def test_a_damaged_row_group_is_named(
    tmp_path: Path, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tpnn.estimators.inputs.TABLE_MEMORY_SHARE", share)
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        write(tmp_path / f"{name}.parquet", x=rng.normal(size=9000), y=rng.normal(size=9000))
    file = tmp_path / "b.parquet"
    place = pq.ParquetFile(file).metadata.row_group(0).column(0).data_page_offset
    content = bytearray(file.read_bytes())
    content[place : place + 4000] = bytes([255]) * 4000
    file.write_bytes(content)
    said = refused(tmp_path)
    assert said.startswith(f"X: every file must be readable, found {str(file)!r} damaged")
    assert "in column 'x'" in said


@pytest.mark.parametrize("value", [None, float("nan")])
def test_missing_targets_and_weights_are_refused(tmp_path: Path, value: float | None) -> None:
    write(tmp_path / "a.parquet", x=[1.0, 2.0], y=[1.0, 2.0], w=[1.0, 1.0])
    second = write(tmp_path / "b.parquet", x=[1.0, 2.0], y=[1.0, value], w=[value, value])
    said = refused(tmp_path)
    assert said.startswith("y: every row needs a value, found 1 of 4 missing in column 'y'")
    assert f"the first in {second!r}" in said
    said = refused(tmp_path, "x", sample_weight="w")
    assert said.startswith("sample_weight: every row needs a value, found 2 of 4 missing")


def test_missing_labels_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", x=[1.0, 2.0, 3.0], y=["a", None, "b"])
    said = message(lambda: TPNNClassifier(**QUICK).fit(tmp_path, "y"))
    assert said.startswith("y: every row needs a value, found 1 of 3 missing in column 'y'")


def test_columns_are_named(folder: Path) -> None:
    assert refused(folder, "z").startswith("y: must be a column of")
    assert refused(folder, np.ones(3)).startswith("y: for a table in files the name of a column")
    said = refused(folder, sample_weight=np.ones(3))
    assert said.startswith("sample_weight: for a table in files the name of a column is needed")


def test_a_feature_is_needed_besides_the_target(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", y=[1.0, 2.0])
    assert refused(tmp_path).startswith("X: a feature is needed besides the target, and")


def test_the_index_that_pandas_writes_is_no_column(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0], "y": [3.0, 4.0]}, index=[7, 5])
    frame.to_parquet(tmp_path / "a.parquet")
    assert "__index_level_0__" in pq.read_schema(tmp_path / "a.parquet").names
    assert Source(tmp_path).names == ("x", "y")


def test_predict_says_where_files_are_passed(folder: Path) -> None:
    table = mixed_table()
    model = TPNNRegressor(**{**QUICK, "order": 1}).fit(table.select(["single"]), table["y"])
    for source in (str(folder), ds.dataset(folder)):
        said = message(lambda source=source: model.predict(source))
        assert said.startswith("X: a table in memory is needed, found")
        assert "predict_batches" in said


def test_batches_predict_what_the_table_does(folder: Path, tmp_path: Path) -> None:
    table = mixed_table()
    model = TPNNRegressor(**{**QUICK, "order": 1, "offset": "known"})
    model.fit(table.drop_columns(["y", "label"]), table["y"].to_numpy())
    expected = model.predict(table)
    for source in (folder, ds.dataset(folder)):
        parts = list(model.predict_batches(source))
        assert len(parts) > 1
        assert np.array_equal(np.concatenate(parts), expected)
    write_parts(table.drop_columns(["single"]), tmp_path)
    assert "'single'" in message(lambda: list(model.predict_batches(tmp_path)))


def test_batches_read_only_the_columns_of_the_model(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = mixed_table()
    model = TPNNClassifier(**{**QUICK, "order": 1}).fit(
        table.select(["single", "town"]), table["label"].to_pandas()
    )
    asked, batches = [], Source.batches

    def noted(self: Source, names: list[str], fragment: Any = None) -> Any:
        asked.append(names)
        return batches(self, names, fragment)

    monkeypatch.setattr(Source, "batches", noted)
    found = np.concatenate(list(model.predict_batches(folder)))
    assert asked == [["single", "town"]]
    assert np.array_equal(found, model.predict(table.select(["single", "town"])))
