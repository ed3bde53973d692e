"""Writing: tables, and which outputs are refused before any work is done."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pandas as pd

from tpnn._writing import is_stream, write_file
from tpnn.cli.reading import is_parquet


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


def write_table(table: pd.DataFrame, path: str | None) -> None:
    """Write a table to a CSV or Parquet file, or as CSV to the screen."""
    if path is None:
        table.to_csv(sys.stdout, index=False)
    elif is_parquet(path):
        buffer = io.BytesIO()
        table.to_parquet(buffer, index=False)
        write_file(path, buffer.getvalue())
    else:
        write_file(path, table.to_csv(index=False).encode())
