"""Tables with columns of every kind, written as several Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

N_ROWS, N_FILES = 5_000, 4


def mixed_table(n_rows: int = N_ROWS) -> pa.Table:
    """Numbers of several types, text, categories, dates, truths, missing values; some rows twice.

    Some levels occur in the last rows alone, which are in the last file.
    """
    rng = np.random.default_rng(0)
    half = n_rows // 2
    number = rng.normal(size=n_rows).round(2)
    town = rng.choice(["Ulm", "Oslo", "Lima"], n_rows).astype(object)
    town[-half // 5 :: 3], town[::7] = "Rome", None
    columns: dict[str, Any] = {
        "number": pa.array(number, mask=rng.random(n_rows) < 0.1),
        "single": rng.normal(size=n_rows).astype(np.float32),
        "count": pa.array(rng.integers(0, 40, n_rows), pa.int16()),
        "large": pa.array(2**60 + rng.integers(0, 3, n_rows)),
        "town": pa.array(town, pa.string()),
        "size": pa.array(rng.choice(["S", "M"], n_rows)).dictionary_encode(),
        "day": np.datetime64("2020-01-01") + rng.integers(0, 400, n_rows),
        "flag": rng.random(n_rows) < 0.3,
        "weight": rng.integers(0, 3, n_rows).astype(float),
        "known": rng.normal(size=n_rows),
    }
    signal = number + np.sin(np.asarray(columns["count"])) * columns["single"] + (town == "Rome")
    columns["y"] = signal + columns["known"] + 0.1 * rng.normal(size=n_rows)
    columns["label"] = np.where(signal > 0, "yes", "no")
    table = pa.table(columns)
    return pa.concat_tables([table, table.slice(0, 100)])


def write_parts(table: pa.Table, folder: Path, n_files: int = N_FILES) -> Path:
    """Write a table as several files with several row groups each."""
    folder.mkdir(parents=True, exist_ok=True)
    each = -(-len(table) // n_files)
    for part in range(n_files):
        rows = table.slice(part * each, each)
        pq.write_table(rows, folder / f"part-{part}.parquet", row_group_size=max(each // 4, 1))
    return folder
