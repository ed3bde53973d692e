"""CSV files: how they are opened, and rows to predict on, read without pandas."""

from __future__ import annotations

import argparse
import bz2
import codecs
import csv
import gzip
import io
import lzma
import math
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import tpnn
from tpnn._utils.arrays import FloatArray

if TYPE_CHECKING:
    import pandas as pd

NUMBERS, DATES, TEXT, ANYTHING = "numbers", "dates", "text", "anything"
ROWS_PER_CHUNK = 65_536
MISSING = frozenset((  # what pandas, which reads the table of a fit, takes for a missing value
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
))  # fmt: skip
TRUTHS = {"True": True, "TRUE": True, "true": True, "False": False, "FALSE": False, "false": False}
QUOTED = r'"[^"]*"'
COMMA_NUMBER = r"\s*[+-]?\d+(,\d+)?\s*"
HEAD_BYTES = 1 << 16  # read to guess encoding and separator
SEPARATORS = ",;\t|"  # the first one wins a tie
ENCODINGS = {  # by the byte order mark; that of UTF-16 begins that of UTF-32
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def _open_zip(path: str, mode: str) -> Any:
    """Open the first file of a zip archive."""
    archive = zipfile.ZipFile(path)
    return archive.open(archive.namelist()[0])


OPENERS: dict[str, Callable[..., Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zip": _open_zip,
}


class CsvFormat(NamedTuple):
    """How a CSV file is written; None is read off the file."""

    separator: str | None = None
    decimal: str = "."
    encoding: str | None = None

    @classmethod
    def of(cls, options: argparse.Namespace) -> CsvFormat:
        """Format that the options ask for."""
        return cls(options.separator, options.decimal, options.encoding)


def is_parquet(path: str) -> bool:
    """Whether a file is Parquet, by its name."""
    return Path(path).suffix.lower() in (".parquet", ".pq")


def read_parquet(path: str) -> pd.DataFrame:
    """Read a Parquet file."""
    import pandas as pd

    _check_path(path)
    return pd.read_parquet(path)


def _check_path(path: str) -> None:
    if not Path(path).exists():
        raise ValueError(f"data: there is no file {path!r}. Check the path.")


@contextmanager
def opened_csv(path: str, form: CsvFormat) -> Iterator[tuple[Any, str, str]]:
    """Open a CSV file as bytes; yield it, its encoding and its separator."""
    _check_path(path)
    opener = OPENERS.get(Path(path).suffix.lower())  # of compressed files
    unbuffered = opener(path, "rb") if opener else io.FileIO(path)
    with io.BufferedReader(unbuffered, HEAD_BYTES) as file:
        head = file.peek()
        encoding = _known_encoding(form.encoding) or _encoding(head, path)
        separator = form.separator or _separator(head, encoding)
        try:
            yield file, encoding, separator
        except UnicodeError as error:
            raise ValueError(
                f"data: the text of {path!r} must be {encoding}, found {error}. Name the encoding, "
                "for example --encoding latin-1, or cp1252 for files of Windows."
            ) from error


def no_rows(path: str) -> ValueError:
    """Return the error of a file without a header."""
    return ValueError(f"data: {path!r} is empty, and a header and rows are needed. Check the file.")


def wrong_line(path: str, separator: str, found: str) -> ValueError:
    """Return the error of a line that does not fit the header."""
    return ValueError(
        f"data: every line of {path!r} must have the fields of the header, separated by "
        f"{separator!r}, found {found}. Correct the line, or name the separator, for example "
        "--separator ';'."
    )


def decimal_commas(example: str, column: str) -> ValueError:
    """Return the error of numbers with commas in place of points."""
    return ValueError(
        f"data: numbers must have a decimal point, found {example!r} in column {column!r}. Pass "
        f"--decimal , or, if these are labels, fit with --categorical {column}."
    )


def _known_encoding(name: str | None) -> str | None:
    try:
        return name and codecs.lookup(name).name
    except LookupError as error:
        raise ValueError(
            f"--encoding: must be one that Python knows, found {name!r}. "
            "Pass utf-8, latin-1, cp1252 or utf-16, for example."
        ) from error


def _encoding(head: bytes, path: str) -> str:
    """Name the encoding by the byte order mark; without one it is UTF-8."""
    for mark, encoding in ENCODINGS.items():
        if head.startswith(mark):
            return encoding
    if b"\0" in head:
        raise ValueError(
            f"data: {path!r} must be a CSV file, or Parquet with a name in .parquet, found zero "
            "bytes. If it is text, name the encoding, for example --encoding utf-16-le."
        )
    return "utf-8"


def _separator(head: bytes, encoding: str) -> str:
    """Separator that splits the header into most fields.

    >>> _separator(b'a;"b,c,d"', "utf-8"), _separator(b"a", "utf-8")
    (';', ',')
    """
    header = io.StringIO(head.decode(encoding, "ignore"), newline="")
    line = next((line for line in header if line.strip()), "")
    return max(SEPARATORS, key=re.sub(QUOTED, "", line).count)


def read_rows(model: tpnn.AnovaModel, path: str, options: argparse.Namespace) -> Any:
    """Read rows as a model knows them: its levels as text, its dates as dates.

    Returns a data frame for Parquet, else a dict of columns. Columns of a CSV file that neither the
    model nor the options name hold None.
    """
    if is_parquet(path):
        return read_parquet(path)
    form = CsvFormat.of(options)
    with opened_csv(path, form) as (file, encoding, separator):
        lines = csv.reader(io.TextIOWrapper(file, encoding, newline=""), delimiter=separator)
        header = next((line for line in lines if line), None)
        if header is None:
            raise no_rows(path)
        names = _names(header)
        kinds = _kinds(model, names, options)
        parts: dict[str, list[Any]] = {name: [] for name in kinds}
        n_rows = 0
        for chunk in _chunks(lines, len(names), path, separator):
            for name, kind in kinds.items():
                texts = chunk[names.index(name)]
                is_number = kind == NUMBERS
                part = _numbers(texts, name, n_rows, form.decimal) if is_number else texts
                parts[name].append(part)
            n_rows += len(chunk[0])
    nothing = np.broadcast_to(np.array(None, object), n_rows)
    return {
        name: _column(parts[name], kinds[name], form.decimal) if name in kinds else nothing
        for name in names
    }


def _names(header: Sequence[str]) -> list[str]:
    """Names of the columns; those that are empty or repeated get a number, as pandas gives them.

    >>> _names(["a", "", "a"])
    ['a', 'Unnamed: 1', 'a.1']
    """
    names: list[str] = []
    for number, title in enumerate(header):
        name, count = title or f"Unnamed: {number}", 0
        while name in names or (count and name in header):
            count += 1
            name = f"{title}.{count}"
        names.append(name)
    return names


def _kinds(
    model: tpnn.AnovaModel, names: Sequence[str], options: argparse.Namespace
) -> dict[str, str]:
    """Tell what each column must hold that the model or an option names."""
    encoder, kinds = model.encoder, dict[str, str]()
    if encoder.names is None:  # columns are found by position
        kinds = dict.fromkeys(names, ANYTHING)
    elif encoder.offset_column is not None and encoder.offset_column.name is not None:
        kinds[encoder.offset_column.name] = ANYTHING
    known = zip(encoder.feature_names, encoder.features, encoder.axes[1], strict=True)
    for name, feature, axis in known:
        kinds[name] = ANYTHING
        if _are_words(feature.levels):
            kinds[name] = TEXT
        elif feature.kind == "date":
            kinds[name] = DATES
        elif feature.kind in ("number", "periodic number") and not axis.is_empty:
            kinds[name] = NUMBERS
    for option in ("event", "target"):
        named: str | None = getattr(options, option, None)
        if named is not None:
            is_label = option == "target" and _are_words(model.classes)
            kinds[named] = TEXT if is_label else ANYTHING
    for name in getattr(options, "keep", ()):
        kinds.setdefault(name, TEXT)  # as it stands, zeros in front of a number included
    return {name: kind for name, kind in kinds.items() if name in names}


def _are_words(levels: Sequence[Any]) -> bool:
    return any(isinstance(level, str) for level in levels)


def _chunks(lines: Any, n_columns: int, path: str, separator: str) -> Iterator[list[Any]]:
    """Yield the fields of some thousand lines at a time, column by column."""
    try:
        while chunk := [line for line in islice(lines, ROWS_PER_CHUNK) if line]:
            for line in chunk:
                if len(line) > n_columns:
                    found = f"{len(line)} fields for {n_columns} columns: {separator.join(line)!r}"
                    raise wrong_line(path, separator, found)
                line += [""] * (n_columns - len(line))
            yield list(zip(*chunk, strict=True))
    except csv.Error as error:
        raise wrong_line(path, separator, f"{error} in line {lines.line_num}") from error


def _numbers(texts: Sequence[str], name: str, n_before: int, decimal: str) -> FloatArray:
    """Text as the numbers that it held in fit, or say where there is something else."""
    try:
        return _floats(texts, decimal)
    except ValueError:
        pass
    for place, text in enumerate(texts):
        try:
            _floats([text], decimal)
        except ValueError:
            if "," in text and re.fullmatch(COMMA_NUMBER, text):
                raise decimal_commas(text, name) from None
            raise ValueError(
                f"data: column {name!r} must hold numbers, as in fit, found {text!r} in row "
                f"{n_before + place + 1} below the header. Correct the value or, if these are "
                f"labels, fit again with --categorical {name}."
            ) from None
    return np.empty(0)


def _floats(texts: Sequence[str], decimal: str) -> FloatArray:
    """Text as numbers, true and false as 1 and 0; ValueError where one is something else."""
    if decimal != ".":
        texts = [text.replace(decimal, ".") for text in texts]
    if "_" in "".join(texts):  # which Python allows within numbers
        raise ValueError("an underscore")
    return np.array(
        [math.nan if t in MISSING else TRUTHS[t] if t in TRUTHS else float(t) for t in texts],
        np.float64,
    )


def _column(parts: Sequence[Any], kind: str, decimal: str) -> NDArray[Any]:
    """Column of which all chunks were read."""
    if kind == NUMBERS:
        return np.concatenate([np.empty(0), *parts])
    texts = list(chain.from_iterable(parts))
    if kind == ANYTHING:
        return _guessed(texts, decimal)
    return _dates(texts) if kind == DATES else _labels(texts)


def _labels(texts: Sequence[str]) -> NDArray[Any]:
    shared: dict[str, str] = {}  # one string for all rows of a level
    values = (None if text in MISSING else shared.setdefault(text, text) for text in texts)
    return np.fromiter(values, object, len(texts))


def _guessed(texts: Sequence[str], decimal: str) -> NDArray[Any]:
    """Truths, whole numbers, numbers or, where some text is none of these, labels."""
    if texts and all(text in TRUTHS for text in texts):
        return np.array([TRUTHS[text] for text in texts])
    try:
        numbers = _floats(texts, decimal)
    except ValueError:
        return _labels(texts)
    try:
        return np.array([int(text) for text in texts], np.int64) if texts else numbers
    except (ValueError, OverflowError):
        return numbers


def _dates(texts: Sequence[str]) -> NDArray[Any]:
    """Dates in UTC where all text is ISO dates, else labels."""
    try:
        times = [None if text in MISSING else datetime.fromisoformat(text) for text in texts]
    except ValueError:
        return _labels(texts)
    plain = [time and (time.astimezone(UTC).replace(tzinfo=None) if time.tzinfo else time)
             for time in times]  # fmt: skip
    return np.array(plain, "datetime64[us]")
