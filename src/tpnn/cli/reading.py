"""Reading: tables from CSV and Parquet files, as a model needs them."""

from __future__ import annotations

import argparse
import bz2
import codecs
import gzip
import io
import lzma
import re
import zipfile
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import tpnn

ISO_DATE = r"\d{4}-\d{2}-\d{2}([T ].*)?"
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
    def of(cls, given: argparse.Namespace) -> CsvFormat:
        """Format that the options ask for."""
        return cls(given.separator, given.decimal, given.encoding)


def is_parquet(path: str) -> bool:
    """Whether a file is Parquet, by its name."""
    return Path(path).suffix.lower() in (".parquet", ".pq")


def read_table(
    path: str, form: CsvFormat, labels: Collection[str], dates: Collection[str] | None
) -> pd.DataFrame:
    """Read a table.

    Parameters
    ----------
    path : str
        CSV or Parquet file.
    form : CsvFormat
        How a CSV file is written.
    labels : collection of str
        Columns of a CSV file that are read as text, also if all of it is digits.
    dates : collection of str, or None
        Columns of a CSV file that are dates; None where those are of which all text is ISO dates.
    """
    if not Path(path).exists():
        raise ValueError(f"data: a file is needed, found no {path!r}. Check the path.")
    if is_parquet(path):
        return pd.read_parquet(path)
    table = _read_csv(path, form, labels)
    texts = [str(name) for name in table if name not in labels and _is_text(table[name])]
    if dates is None:
        dates = [name for name in texts if _looks_like_dates(table[name])]
    for name in set(texts) & set(dates):
        table[name] = _as_dates(table[name])
    return table


def read_training_table(path: str, form: CsvFormat, labels: Collection[str]) -> pd.DataFrame:
    """Read a table to fit, in which no column of numbers may look like levels."""
    table = read_table(path, form, labels, None)
    if not is_parquet(path):
        for name in table:
            if name not in labels and _is_text(table[name]):
                _refuse_decimal_commas(table[name])
    return table


def read_rows(model: tpnn.AnovaModel, path: str, given: argparse.Namespace) -> pd.DataFrame:
    """Read rows as a model knows them: its levels as text, its dates as dates."""
    known = dict(zip(model.feature_names, model.encoder.features, strict=True))
    labels = {name for name, feature in known.items() if _are_words(feature.levels)}
    target = getattr(given, "target", None)
    if target is not None and _are_words(model.classes):
        labels.add(target)
    dates = [name for name, feature in known.items() if feature.kind == "date"]
    table = read_table(path, CsvFormat.of(given), labels, dates)
    if not is_parquet(path):
        for name in _numbers_of(model):
            if name in table and _is_text(table[name]):
                table[name] = _as_numbers(table[name])
    return table


def _numbers_of(model: tpnn.AnovaModel) -> list[str]:
    """Features that were numbers in fit, where fit saw any value of them."""
    known = zip(model.feature_names, model.encoder.axes[1], strict=True)
    return [name for name, axis in known if axis.kind == "number" and axis.n_regular]


def _is_text(column: pd.Series[Any]) -> bool:
    """Whether some value of a column is text."""
    may_be = pd.api.types.is_string_dtype(column.dtype)  # or objects of any kind
    return may_be and any(isinstance(value, str) for value in column)


def _are_words(levels: Sequence[Any]) -> bool:
    return any(isinstance(level, str) for level in levels)


def _read_csv(path: str, form: CsvFormat, labels: Collection[str]) -> pd.DataFrame:
    with io.BufferedReader(_open(path), HEAD_BYTES) as file:
        head = file.peek()
        encoding = _known_encoding(form.encoding) or _encoding(head, path)
        separator = form.separator or _separator(head, encoding)
        try:
            return pd.read_csv(
                file, sep=separator, decimal=form.decimal, encoding=encoding,
                dtype=dict.fromkeys(labels, str), low_memory=False,  # one type for a whole column
            )  # fmt: skip
        except UnicodeError as error:
            raise ValueError(
                f"data: the text of {path!r} must be {encoding}, found {error}. Name the encoding, "
                "for example --encoding latin-1, or cp1252 for files of Windows."
            ) from error
        except pd.errors.EmptyDataError as error:
            raise ValueError(
                f"data: a header and rows are needed, found nothing in {path!r}. Check the file."
            ) from error
        except pd.errors.ParserError as error:
            raise ValueError(
                f"data: every line of {path!r} must have the fields of the header, separated by "
                f"{separator!r}, found {str(error).strip()}. Correct the line, or name the "
                "separator, for example --separator ';'."
            ) from error


def _open(path: str) -> Any:
    """Open a file unbuffered, decompressed where its name says that it is compressed."""
    opener = OPENERS.get(Path(path).suffix.lower())
    return opener(path, "rb") if opener else io.FileIO(path)


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


def _looks_like_dates(column: pd.Series[Any]) -> bool:
    return bool(column.dropna().astype("string").str.fullmatch(ISO_DATE).all())


def _as_dates(column: pd.Series[Any]) -> pd.Series[Any]:
    """Column as dates where pandas can read them all, else as it is."""
    try:
        return pd.to_datetime(column, format="ISO8601", utc=True)
    except ValueError:
        return column


def _refuse_decimal_commas(column: pd.Series[Any]) -> None:
    """Refuse a column in which all text is numbers, some of them with a comma."""
    words = column.dropna().astype("string")
    if words.str.fullmatch(COMMA_NUMBER).all() and words.str.contains(",").any():
        example = words[words.str.contains(",")].iloc[0]
        raise ValueError(
            f"data: numbers must have a decimal point, found {example!r} in column "
            f"{column.name!r}. Pass --decimal , or, if these are labels, fit with "
            f"--categorical {column.name}."
        )


def _as_numbers(column: pd.Series[Any]) -> pd.Series[Any]:
    """Text as the numbers that it held in fit, or say where there is something else."""
    _refuse_decimal_commas(column)
    numbers = pd.to_numeric(column, errors="coerce")
    odd = np.flatnonzero(numbers.isna() & column.notna())
    if len(odd):
        raise ValueError(
            f"data: column {column.name!r} must hold numbers, as in fit, found "
            f"{column.iloc[odd[0]]!r} in row {odd[0] + 1} below the header. Correct the value or, "
            f"if these are labels, fit again with --categorical {column.name}."
        )
    return numbers
