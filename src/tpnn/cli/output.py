"""Writing: tables, and which outputs are refused before any work is done."""

from __future__ import annotations

import csv
import io
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tpnn._utils.files import is_stream, write_file
from tpnn.cli.csv_files import is_parquet
from tpnn.model.summary import p_value_words
from tpnn.table.words import THIN_SPACE, column

Lines = Mapping[str, Sequence[Any]]  # columns of a table by name


def check_output(output: str | None, *inputs: str | None) -> None:
    """Refuse an output that cannot be written, or that is one of the files that are read."""
    if output is None or is_stream(output):
        return
    path = Path(output)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise ValueError(
            f"--output: must be a file in a folder that exists, found {output!r}. "
            "Create the folder, or write elsewhere."
        )
    for known in inputs:
        if known is not None and path.exists() and os.path.samefile(path, known):
            raise ValueError(
                f"--output: must not be a file that is read, found {output!r}. Write elsewhere."
            )


def write_table(table: Lines, path: str | None, each_alone: bool = False) -> None:
    """Write a table to a CSV or Parquet file, or print it: for people on a terminal, else CSV."""
    if path is not None and is_parquet(path):
        import pandas as pd

        buffer = io.BytesIO()
        pd.DataFrame(table).to_parquet(buffer, index=False)
        write_file(path, buffer.getvalue())
    elif path is None and sys.stdout.isatty():
        print_table(table, each_alone)
    elif path is None:
        _write_csv(table, sys.stdout)
    else:
        text = io.StringIO()
        _write_csv(table, text)
        write_file(path, text.getvalue().encode())


def _write_csv(table: Lines, file: Any) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(harmless, table))
    for line in zip(*table.values(), strict=True):
        writer.writerow(map(harmless, line))


FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what begins like one is run by spreadsheets
NUMBER = r"[+-]?\d+(\.\d*)?(e[+-]?\d+)?"


def harmless(cell: Any) -> Any:
    """Cell of a CSV file; text that a spreadsheet would run as a formula gets a quotation mark.

    >>> list(map(harmless, ["=1+1", "-1", "a", -0.5]))
    ["'=1+1", '-1', 'a', -0.5]
    """
    is_formula = isinstance(cell, str) and cell.startswith(FORMULA)
    return f"'{cell}" if is_formula and not re.fullmatch(NUMBER, cell) else cell


def counted(count: int, word: str) -> str:
    """Count things.

    >>> counted(1, "row"), counted(200, "row")
    ('1 row', '200 rows')
    """
    return f"{count} {word}{'s' * (count != 1)}"


def printable(line: str) -> str:
    r"""Line in which no character moves the cursor, hides text or turns its direction.

    >>> print(printable("a\n\x1b[8mb\u202ec"))
    a\n\x1b[8mb\u202ec
    """
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in line
    )


def print_table(table: Lines, each_alone: bool = False) -> None:
    """Print a table with aligned columns; floats have the same decimals, or each digits alone."""
    columns = []
    for name, values in table.items():
        are_numbers = all(isinstance(value, int | float) for value in values)
        words = _words(name, values, each_alone)
        cells = [printable(cell) for cell in (name, *words)]
        width = max(map(len, cells))
        columns.append([cell.rjust(width) if are_numbers else cell.ljust(width) for cell in cells])
    for line in zip(*columns, strict=True):
        print("  ".join(line).rstrip())


def _words(name: str, values: Sequence[Any], each_alone: bool) -> list[str]:
    """Cells of a column in words; whole numbers may be years or identifiers, of which all counts.

    >>> _words("n_rows", [1234567], False), _words("share", [0.25, 0.1], False)
    (['1234567'], ['0.25', '0.10'])
    >>> _words("p_value", [2e-12], False), _words("rate", [2e-7, 2024.0], True)
    (['< 0.001'], ['2e-07', '2024'])
    """
    if not all(isinstance(value, float) for value in values):
        return list(map(str, values))
    if each_alone:
        return [f"{x:.0f}" if x.is_integer() and abs(x) < 1e15 else f"{x:.6g}" for x in values]
    if name == "p_value":
        return list(map(p_value_words, values))
    return [word.replace(THIN_SPACE, " ") for word in column(list(values))]
