"""CSV files: how they are written, and how they are opened."""

from __future__ import annotations

import argparse
import bz2
import codecs
import gzip
import io
import lzma
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

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


@contextmanager
def opened_csv(path: str, form: CsvFormat) -> Iterator[tuple[Any, str, str]]:
    """Open a CSV file as bytes; yield it, its encoding and its separator."""
    if not Path(path).exists():
        raise ValueError(f"data: a file is needed, found no {path!r}. Check the path.")
    with io.BufferedReader(_open(path), HEAD_BYTES) as file:
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
    return ValueError(
        f"data: a header and rows are needed, found nothing in {path!r}. Check the file."
    )


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
