"""``tpnn predict``: the prediction of every row, of one file or of many."""

from __future__ import annotations

import argparse
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tpnn
from tpnn.cli.csv_files import read_rows
from tpnn.cli.output import check_output, write_table
from tpnn.table.files.source import Source


def run(options: argparse.Namespace) -> None:
    """Write the prediction of every row."""
    if is_of_many_files(options.data):
        predict_files(options.model, options.data, options.output)
        return
    check_output(options.output, options.model, options.data)
    model = tpnn.load(options.model).model_
    predicted = model.predict(read_rows(model, options.data, options))
    names = prediction_names(model)
    columns = predicted.reshape(-1, len(names)).T.tolist()
    write_table(dict(zip(names, columns, strict=True)), options.output)


PATTERN_CHARACTERS = "*?["


def is_of_many_files(data: str) -> bool:
    """Whether a path is a folder, or a pattern rather than the name of a file."""
    is_pattern = any(character in data for character in PATTERN_CHARACTERS)
    return os.path.isdir(data) or (is_pattern and not os.path.exists(data))


def predict_files(model_path: str, data: str, output: str | None) -> None:
    """Write a Parquet file of predictions for each file of a folder or pattern.

    The files have the names, and the folders, of those that are read; their rows are in the same
    order. Some thousand rows are in memory at a time.
    """
    from tpnn.table.files.reading import Telling

    source = Source(data)
    names = [fragment.path for fragment in source.fragments]
    folder, base = _checked_folder(output, names), os.path.commonpath(map(os.path.dirname, names))
    model = tpnn.load(model_path).model_
    telling, done = Telling(source.n_rows), 0
    for fragment in source.fragments:
        target = folder / os.path.relpath(fragment.path, base)
        for n_rows in _write(target, model, source, fragment):
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


def _write(target: Path, model: tpnn.AnovaModel, source: Source, fragment: Any) -> Iterator[int]:
    """Write the predictions of one file; yield the number of rows each time some are written."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = prediction_names(model)
    schema = pa.schema([(name, pa.float64()) for name in names])
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}")
    try:
        with pq.ParquetWriter(unfinished, schema) as writer:
            for table in source.tables(model.encoder.column_names, fragment):
                columns = model.predict(table).reshape(-1, len(names)).T
                writer.write_table(pa.table(dict(zip(names, columns, strict=True)), schema))
                yield table.num_rows
        os.replace(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)
