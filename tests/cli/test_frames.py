"""Tables are read as they are meant, or the message names the option that helps."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.cli.commands import run
from tpnn import load
from tpnn.cli.csv_files import CsvFormat
from tpnn.cli.frames import read_table

MANY_ROWS = 300_000  # pandas reads more than one block of such a file
TABLE = pd.DataFrame(
    {"größe": [1.5, 2.5, -3.0], "ort": ["Köln", "Münster", np.nan], "n": [1, 2, 3]}
)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_encodings_and_separators_are_read_off_the_file(
    tmp_path: Path, encoding: str, separator: str
) -> None:
    TABLE.to_csv(tmp_path / "table.csv", index=False, sep=separator, encoding=encoding)
    read = read_table(str(tmp_path / "table.csv"), CsvFormat(), ())
    pd.testing.assert_frame_equal(read, TABLE, check_dtype=False)


@pytest.mark.parametrize("header", ['"a,b,c";d', 'd;"a,b,c"', '"a;b;c",d', "a,b;c,d"])
def test_a_separator_within_a_name_does_not_count(tmp_path: Path, header: str) -> None:
    (tmp_path / "table.csv").write_text(f"{header}\n")
    expected = {
        'd;"a,b,c"': ["d", "a,b,c"],
        '"a,b,c";d': ["a,b,c", "d"],
        '"a;b;c",d': ["a;b;c", "d"],
    }
    read = read_table(str(tmp_path / "table.csv"), CsvFormat(), ())
    assert list(read) == expected.get(header, ["a", "b;c", "d"])


def test_options_come_before_what_the_file_looks_like(tmp_path: Path) -> None:
    path = str(tmp_path / "table.csv")
    TABLE.to_csv(path, index=False, sep=";", decimal=",", encoding="latin-1")
    read = read_table(path, CsvFormat(";", ",", "latin-1"), ())
    pd.testing.assert_frame_equal(read, TABLE, check_dtype=False)
    assert list(read_table(path, CsvFormat("&", encoding="latin-1"), ())) == ["größe;ort;n"]


def _zipped(path: Path, data: bytes) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("table.csv", data)


COMPRESSED: dict[str, Callable[[Path, bytes], object]] = {
    "gz": lambda path, data: path.write_bytes(gzip.compress(data)),
    "bz2": lambda path, data: path.write_bytes(bz2.compress(data)),
    "xz": lambda path, data: path.write_bytes(lzma.compress(data)),
    "zip": _zipped,
}


@pytest.mark.parametrize("suffix", COMPRESSED)
def test_compressed_files(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"table.csv.{suffix}"
    COMPRESSED[suffix](path, TABLE.to_csv(index=False, sep=";").encode())
    read = read_table(str(path), CsvFormat(), ())
    pd.testing.assert_frame_equal(read, TABLE, check_dtype=False)


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of POSIX")
def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    data = TABLE.to_csv(index=False, sep=";").encode()
    writer = threading.Thread(target=lambda: path.write_bytes(data), daemon=True)
    writer.start()
    pd.testing.assert_frame_equal(
        read_table(str(path), CsvFormat(), ()), TABLE, check_dtype=False
    )  # fmt: skip


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        ("größe,y\n1,2\n".encode("latin-1"), (), r"data: the text of .* must be utf-8, found .* "
         r"Name the encoding, for example --encoding latin-1"),
        ("a,y\n1,2\n".encode("utf-16-le"), (), "found zero bytes. If it is text, name"),
        (b"a,y\n1,2\n", ("--encoding", "klingon", "--separator", ","),
         "--encoding: must be one that Python knows"),
        (b"", (), "is empty, and a header and rows are needed"),
        (b"a,y\n1,2\n1,2,3\n", (), "must have the fields of the header, separated by ',', found"),
        (b"a;y\n1,5;2\n2,5;3\n", (), "data: numbers must have a decimal point, found '1,5' in "
         r"column 'a'. Pass --decimal , or, if these are labels, fit with --categorical a\."),
        (b"a,y\n1,2\n", ("--categorical", "b"), "--categorical: must be a column of the table, "
         "found 'b'"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named(
    tmp_path: Path, content: bytes, options: Any, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "table.csv").write_bytes(content)
    arguments = ("--target", "y", *options, "-o", tmp_path / "model")
    assert run("fit", tmp_path / "table.csv", *arguments) == 1
    told = capsys.readouterr().err
    assert pd.Series([told]).str.contains(words).all(), told
    assert told.count("\n") == 1


def test_a_late_level_makes_the_whole_column_levels(tmp_path: Path) -> None:
    codes = ["1", "02"] * (MANY_ROWS // 2) + ["A"]
    path = tmp_path / "codes.csv"
    pd.DataFrame({"code": codes, "y": 1}).to_csv(path, index=False)
    assert read_table(str(path), CsvFormat(), ())["code"].tolist() == codes


@pytest.fixture(scope="module")
def codes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with a column of codes, and a model for which they are labels."""
    path: Path = tmp_path_factory.mktemp("codes")
    rng = np.random.default_rng(0)
    code = rng.choice(["01", "1", "20", "A"], 300)
    y = rng.normal(size=300) + 3 * (code == "01")
    table = pd.DataFrame({"code": code, "x": rng.normal(size=300), "y": y})
    table.to_csv(path / "train.csv", index=False)
    table[table["code"] != "A"].to_csv(path / "digits.csv", index=False)
    options = ("--target", "y", "--bags", 1, "--order", 1, "--held-out", 0)
    assert run("fit", path / "train.csv", *options, "-o", path / "levels.tpnn") == 0
    assert run("fit", path / "digits.csv", *options, "-o", path / "numbers.tpnn") == 0
    labels = ("--categorical", "code", "-o", path / "labels.tpnn")
    assert run("fit", path / "digits.csv", *options, *labels) == 0
    return path


@pytest.mark.parametrize("name", ["levels", "labels"])
def test_only_digits_in_a_column_of_levels(codes: Path, name: str) -> None:
    """They are the levels that fit has seen: "01" and "1" are two of them."""
    model = load(codes / f"{name}.tpnn").model_
    output = codes / "answers.csv"
    assert run("predict", codes / f"{name}.tpnn", codes / "digits.csv", "-o", output) == 0
    rows = pd.read_csv(codes / "digits.csv", dtype={"code": str})
    assert {"01", "1", "20"} <= set(model.encoder.features[0].levels)
    assert np.allclose(pd.read_csv(output)["prediction"], model.predict(rows))


def test_text_where_fit_saw_numbers_names_the_row_and_the_option(
    codes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pd.read_csv(codes / "train.csv", dtype={"code": str})
    first = int(np.flatnonzero(table["code"] == "A")[0]) + 1
    assert run("predict", codes / "numbers.tpnn", codes / "train.csv") == 1
    assert capsys.readouterr().err == (
        "tpnn predict: data: column 'code' must hold numbers, as in fit, found 'A' in row "
        f"{first} below the header. Correct the value or, if these are labels, fit again with "
        "--categorical code.\n"
    )


def test_digits_as_classes_of_words(codes: Path) -> None:
    """Targets of held-out rows are labels like those of fit, also where all are digits."""
    options = ("--target", "code", "--bags", 1, "--order", 1, "--held-out", 0)
    assert run("fit", codes / "train.csv", *options, "-o", codes / "classes.tpnn") == 0
    files = (codes / "classes.tpnn", codes / "digits.csv", "--target", "code")
    assert run("compare", *files, "-o", codes / "scores.csv") == 0
    assert pd.read_csv(codes / "scores.csv")["Accuracy"].notna().all()


def test_numbers_of_a_model_may_come_with_decimal_commas(
    codes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pd.read_csv(codes / "digits.csv")
    table.to_csv(codes / "commas.csv", index=False, sep=";", decimal=",")
    files = (codes / "numbers.tpnn", codes / "commas.csv")
    assert run("predict", *files) == 1
    assert "Pass --decimal ," in capsys.readouterr().err
    assert run("predict", *files, "--decimal", ",", "-o", codes / "answers.csv") == 0
    expected = load(codes / "numbers.tpnn").model_.predict(table)
    assert np.allclose(pd.read_csv(codes / "answers.csv")["prediction"], expected)


def test_a_column_of_which_fit_saw_no_value_may_hold_anything(codes: Path) -> None:
    table = pd.read_csv(codes / "digits.csv").assign(empty=np.nan)
    table.to_csv(codes / "empty.csv", index=False)
    options = ("--target", "y", "--bags", 1, "--order", 1, "--held-out", 0)
    assert run("fit", codes / "empty.csv", *options, "-o", codes / "empty.tpnn") == 0
    table.assign(empty="text").to_csv(codes / "empty.csv", index=False)
    assert run("predict", codes / "empty.tpnn", codes / "empty.csv") == 0  # it has no component
