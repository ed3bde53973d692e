"""``tpnn predict``: the prediction of every row, of one file or of many."""

from __future__ import annotations

import argparse
import os
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tpnn
from tpnn.cli.csv_files import CsvFormat, read_rows
from tpnn.cli.output import check_output, write_table
from tpnn.table.files.source import Source


def run_predict(options: argparse.Namespace) -> None:
    """Write the prediction of every row."""
    if is_of_many_files(options.data):
        if CsvFormat.of(options) != CsvFormat():
            raise ValueError(
                "data: --separator, --decimal and --encoding are for one CSV file, found "
                f"{options.data!r}. Leave them out, or predict one file after the other."
            )
        predict_files(options.model, options.data, options.output, options.keep)
        return
    check_output(options.output, options.model, options.data)
    model = tpnn.load(options.model).model_
    rows = read_rows(model, options.data, options)
    predicted, names = model.predict(rows), prediction_names(model)
    check_keys(options.keep, list(rows), names)
    columns = predicted.reshape(-1, len(names)).T.tolist()
    keys = {name: rows[name].tolist() for name in options.keep}
    write_table(keys | dict(zip(names, columns, strict=True)), options.output, each_alone=True)


def check_keys(keys: Sequence[str], names: Sequence[str], predictions: Sequence[str]) -> None:
    """Refuse columns to keep that are not there, or would be taken for predictions."""
    for key in keys:
        if key not in names or key in predictions:
            found = "the name of a prediction" if key in predictions else "no such column"
            raise ValueError(
                f"--keep: must be a column of the rows, found {found}: {key!r}. The columns are "
                f"{list(names)[:10]}."
            )


PATTERN_CHARACTERS = "*?["


def is_of_many_files(data: str) -> bool:
    """Whether a path is a folder, a pattern rather than the name of a file, or an address."""
    if "://" in data:
        return True
    is_pattern = any(character in data for character in PATTERN_CHARACTERS)
    return os.path.isdir(data) or (is_pattern and not os.path.exists(data))


def predict_files(model_path: str, data: str, output: str | None, keys: Sequence[str]) -> None:
    """Write a Parquet file of predictions for each file of a folder, pattern or address.

    The files have the names, and the folders, of those that are read, and those of CSV files end in
    .parquet besides; their rows are in the same order, and the columns of the keys come first. Some
    thousand rows are in memory at a time.
    """
    from tpnn.table.files.csv_copy import csv_files
    from tpnn.table.files.reading import Telling

    source = Source(data)
    names = csv_files(data)[1] or [fragment.path for fragment in source.fragments]
    folder, base = _checked_folder(output, names), os.path.commonpath(map(os.path.dirname, names))
    model = tpnn.load(model_path).model_
    check_keys(keys, source.names, prediction_names(model))
    telling, done = Telling(source.n_rows), 0
    for fragment, name in zip(source.fragments, names, strict=True):
        ending = "" if source.copy is None else ".parquet"
        target = folder / (os.path.relpath(name, base) + ending)
        for n_rows in _write(target, model, source, fragment, keys):
            done += n_rows
            telling.tell(f"Predicting: {done:,} of {source.n_rows:,} rows", done)


def prediction_names(model: tpnn.AnovaModel) -> list[str]:
    """Names of the columns of a model's predictions."""
    if model.output_names:
        return list(model.output_names)
    if model.task.kind != "classes":
        return ["relative risk" if model.task.kind == "survival" else "prediction"]
    return [f"probability of {model.classes[1]}" if model.classes else "probability"]


def _checked_folder(output: str | None, files: list[str]) -> Path:
    """Folder to write to, made if it is not there; refuse one with files that are read."""
    if output is None or os.path.isfile(output):
        raise ValueError(
            f"--output: for many files a folder is needed, found {output!r}. Pass -o folder."
        )
    folder = Path(output)
    if any(folder.resolve() in Path(file).resolve().parents for file in files):
        raise ValueError(
            f"--output: must not be a folder of files that are read, found {output!r}. Write to "
            "another folder."
        )
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _write(
    target: Path, model: tpnn.AnovaModel, source: Source, fragment: Any, keys: Sequence[str]
) -> Iterator[int]:
    """Write the predictions of one file; yield the number of rows each time some are written."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = prediction_names(model)
    kept = [source.dataset.schema.field(key) for key in keys]
    schema = pa.schema([*kept, *((name, pa.float64()) for name in names)])
    columns_read = model.encoder.column_names
    read = None if columns_read is None else [*columns_read, *keys]
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}")
    try:
        with pq.ParquetWriter(unfinished, schema) as writer:
            for table in source.tables(read, fragment):
                columns = model.predict(table).reshape(-1, len(names)).T
                with_keys = {key: table.column(key) for key in keys}
                with_keys |= dict(zip(names, columns, strict=True))
                writer.write_table(pa.table(with_keys, schema))
                yield table.num_rows
        os.replace(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)
