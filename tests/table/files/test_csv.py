"""CSV files are the table that pandas reads from them, wherever it is during a fit."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.conftest import QUICK
from tests.table.files.tables import mixed_table
from tests.table.files.test_fit import assert_same
from tpnn import TPNNRegressor, distributed
from tpnn.table.files import csv_copy
from tpnn.table.files.source import Source

EXACT: Any = {"float_precision": "round_trip"}  # the default of pandas is off by a bit


@pytest.fixture
def csv_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table as three files, one of them compressed, read in small blocks."""
    monkeypatch.setattr(csv_copy, "BLOCK_BYTES", 1 << 14)
    frame = mixed_table(1500).drop_columns(["label", "known"]).to_pandas()
    (tmp_path / "rows").mkdir()
    for k, part in enumerate(np.array_split(np.arange(len(frame)), 3)):
        name = f"part-{k}.csv" + ".gz" * (k == 1)
        frame.iloc[part].to_csv(tmp_path / "rows" / name, index=False)
    return tmp_path / "rows"


@pytest.mark.parametrize("is_in_files", [False, True])
def test_a_folder_has_the_bits_of_the_table_that_pandas_reads(
    csv_folder: Path, is_in_files: bool, request: pytest.FixtureRequest
) -> None:
    if is_in_files:
        request.getfixturevalue("no_memory")
    parts = [
        pd.read_csv(file, parse_dates=["day"], **EXACT) for file in sorted(csv_folder.iterdir())
    ]
    whole = pd.concat(parts, ignore_index=True)
    X = whole.drop(columns=["y", "weight"])
    expected = TPNNRegressor(**QUICK).fit(X, whole["y"], sample_weight=whole["weight"])
    found = TPNNRegressor(**QUICK).fit(csv_folder, "y", sample_weight="weight")
    assert_same(found, expected)
    batches = list(found.predict_batches(csv_folder / "part-*"))
    np.testing.assert_array_equal(np.concatenate(batches), expected.predict(X))


def test_all_values_of_all_files_decide_what_a_column_holds(tmp_path: Path) -> None:
    (tmp_path / "year=2024").mkdir()
    first = "\ufeffid;share;code;day;at;ok;empty;note\n"
    first += '9007199254740993; 1;7;2024-02-03;2024-02-03 04:05:06;true;;"a;\nb"\n'
    second = "code;id;share;day;at;ok;empty;note\nx7;-1;2.5;NA;;False;; c\n"
    (tmp_path / "year=2024" / "a.csv").write_text(first, "utf-8")
    (tmp_path / "year=2024" / "b.csv").write_text(second, "utf-8")
    (tmp_path / "c.csv").write_text(second.replace("2.5", "inf"), "utf-8")
    source = Source(tmp_path)
    rows = source.read(source.names).to_pylist()
    assert sorted(row["id"] for row in rows) == [-1, -1, 9007199254740993]
    assert sorted(row["share"] for row in rows) == [1.0, 2.5, np.inf]
    one = next(row for row in rows if row["code"] == "7")
    assert one["day"] == pd.Timestamp("2024-02-03")
    assert one["at"] == pd.Timestamp("2024-02-03 04:05:06")
    assert one["ok"] is True
    assert one["empty"] is None
    assert one["note"] == "a;\nb"
    assert one["year"] == 2024
    assert {row["note"] for row in rows} == {"a;\nb", " c"}


def test_the_copy_vanishes_with_its_source(csv_folder: Path) -> None:
    source = Source(csv_folder)
    assert source.copy is not None
    copy = Path(source.copy)
    assert len(list(copy.iterdir())) == 3
    del source
    gc.collect()
    assert not copy.exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,a\n1,2\n", r"a different name for each column, found \['a', 'a'\] in .*bad.csv"),
        ("", "a CSV file needs a first line"),
        ("a,b\n1,2\n1,2,3\n", r"found '.*bad.csv' damaged.*Expected 2 columns, got 3"),
    ],
)
def test_files_that_are_no_tables_are_named(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(ValueError, match=words):
        Source(tmp_path / "bad.csv")


def test_a_cluster_wants_files_that_all_machines_can_read(csv_folder: Path) -> None:
    pytest.importorskip("ray")
    storage = csv_folder.parent / "storage"
    with pytest.raises(ValueError, match="source: all machines must be able to read"):
        distributed.fit(TPNNRegressor(), str(csv_folder), "y", storage=str(storage))


def test_a_file_whose_name_hides_it_is_read_when_it_is_named(tmp_path: Path) -> None:
    for name in ("_data", ".data", "seen"):
        (tmp_path / f"{name}.csv").write_text("a,y\n1,2\n3,4\n")
        assert Source(tmp_path / f"{name}.csv").n_rows == 2
    assert Source(tmp_path).n_rows == 2
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path), "/hidden", recursive=True)
    assert Source("memory://hidden").n_rows == 2
    memory.rm("/hidden", recursive=True)


def test_rows_have_the_order_of_their_files(tmp_path: Path) -> None:
    for k, name in enumerate(("a.csv", "b/x.csv", "c.csv", "year=3/d.csv", "year=3/e.csv")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"x\n{k}\n")
    rows = Source(tmp_path).read(["x", "year"]).to_pydict()
    assert rows == {"x": [0, 1, 2, 3, 4], "year": [None, None, None, 3, 3]}


@pytest.mark.parametrize("text", ["a,a\n1,2\n", "", "a,b\n1,2\n1,2,3\n"])
def test_no_folder_is_left_of_a_file_that_cannot_be_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    (tmp_path / "bad.csv").write_text(text)
    (tmp_path / "copies").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "copies"))
    with pytest.raises(ValueError, match=r"^X: "):
        Source(tmp_path / "bad.csv")
    assert not list((tmp_path / "copies").iterdir())


def test_a_file_that_changes_while_it_is_copied_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rows.csv").write_text("a,y\n1,2\n3,4\n")
    (tmp_path / "copies").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "copies"))
    found = csv_copy._types

    def then_more(*given: Any) -> Any:
        types = found(*given)
        with (tmp_path / "rows.csv").open("a") as file:
            file.write("5,6\n")
        return types

    monkeypatch.setattr(csv_copy, "_types", then_more)
    with pytest.raises(ValueError, match=r"^X: the files must not change .*rows.csv' changed"):
        Source(tmp_path / "rows.csv")
    assert not list((tmp_path / "copies").iterdir())
