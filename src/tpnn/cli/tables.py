"""Columns of a table that options name: target, event and others."""

from __future__ import annotations

import argparse
import csv
import io
import math
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import tpnn
from tpnn._utils.arrays import FloatArray
from tpnn.cli.csv_files import (
    COMMA_NUMBER,
    CsvFormat,
    decimal_commas,
    is_parquet,
    no_rows,
    opened_csv,
    wrong_line,
)


def column_of(table: pd.DataFrame, name: str, option: str) -> pd.Series[Any]:
    """Column that an option names."""
    if name not in table:
        raise ValueError(
            f"{option}: must be a column of the table, found {name!r}. "
            f"The columns are {list(table)[:10]}."
        )
    return table[name]


def targets_of(table: pd.DataFrame, given: argparse.Namespace) -> Any:
    """Targets, (n_rows,); for survival, times and events as the columns of a frame."""
    target = column_of(table, given.target, "--target")
    if given.event is None:
        return target
    event = column_of(table, given.event, "--event")
    return pd.DataFrame({"time": target, "event": event})


def check_event(model: tpnn.AnovaModel, given: argparse.Namespace) -> None:
    """Refuse targets that are times without events, or events of a model that knows none."""
    known = model.provenance
    has_baseline = model.evidence.baseline is not None
    is_survival = has_baseline or (known is not None and known.task == "survival")
    if given.target is None or is_survival == (given.event is not None):
        return
    if is_survival:
        raise ValueError(
            f"--event: times and events are needed to score a survival model, found --target "
            f"{given.target} alone. Name the column that is 1 where the event was observed."
        )
    raise ValueError(
        f"--event: is for survival models, found a model with the {model.link.name} link. "
        "Leave it out."
    )


def features_of(table: pd.DataFrame, given: argparse.Namespace) -> pd.DataFrame:
    """Table without the targets, so that a model without feature names finds its columns."""
    return table.drop(columns=[name for name in (given.target, given.event) if name in table])


NUMBERS, DATES, TEXT, ANYTHING = "numbers", "dates", "text", "anything"
ROWS_PER_CHUNK = 65_536
MISSING = frozenset((  # what pandas, which reads the table of a fit, takes for a missing value
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
))  # fmt: skip
TRUTHS = {"True": True, "TRUE": True, "true": True, "False": False, "FALSE": False, "false": False}


def read_rows(model: tpnn.AnovaModel, path: str, given: argparse.Namespace) -> Any:
    """Read rows as a model knows them: its levels as text, its dates as dates.

    Returns a data frame for Parquet, else a dict of columns. Columns of a CSV file that neither the
    model nor the options name hold None.
    """
    if is_parquet(path):
        from tpnn.cli.frames import read_parquet

        return read_parquet(path)
    form = CsvFormat.of(given)
    with opened_csv(path, form) as (file, encoding, separator):
        lines = csv.reader(io.TextIOWrapper(file, encoding, newline=""), delimiter=separator)
        header = next((line for line in lines if line), None)
        if header is None:
            raise no_rows(path)
        names = _names(header)
        kinds = _kinds(model, names, given)
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
    for place, given in enumerate(header):
        name, count = given or f"Unnamed: {place}", 0
        while name in names or (count and name in header):
            count += 1
            name = f"{given}.{count}"
        names.append(name)
    return names


def _kinds(
    model: tpnn.AnovaModel, names: Sequence[str], given: argparse.Namespace
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
        elif feature.kind == "number" and axis.n_regular:
            kinds[name] = NUMBERS
    for option in ("event", "target"):
        named: str | None = getattr(given, option, None)
        if named is not None:
            is_label = option == "target" and _are_words(model.classes)
            kinds[named] = TEXT if is_label else ANYTHING
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
