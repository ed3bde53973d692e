"""Reading: training tables from CSV and Parquet files.

CSV files are read by pandas. ``read_rows``, which needs only NumPy and the kinds of the columns of
a model, takes four times as long for 100,000 rows of 20 columns (2.1 s, not 0.5 s).
"""

from __future__ import annotations

import argparse
from collections.abc import Collection
from contextlib import suppress
from difflib import get_close_matches
from typing import Any

import pandas as pd

import tpnn
from tpnn.cli.csv_files import (
    COMMA_NUMBER,
    CsvFormat,
    decimal_commas,
    is_parquet,
    no_rows,
    opened_csv,
    read_parquet,
    read_rows,
    wrong_line,
)

MOST_NAMES = 10  # of columns in a message
ISO_DATE = r"\d{4}-\d{2}-\d{2}([T ].*)?"


def read_table(path: str, form: CsvFormat, labels: Collection[str]) -> pd.DataFrame:
    """Read a CSV or Parquet file.

    The columns ``labels`` of a CSV file are read as text, also if all of it is digits. Other
    columns in which all text is ISO dates are dates.
    """
    if is_parquet(path):
        return read_parquet(path)
    table = _read_csv(path, form, labels)
    for name in [str(name) for name in table if name not in labels and _is_text(table[name])]:
        if table[name].dropna().astype("string").str.fullmatch(ISO_DATE).all():
            with suppress(ValueError):  # of a day that is none
                table[name] = pd.to_datetime(table[name], format="ISO8601", utc=True)
    return table


def read_training_table(path: str, form: CsvFormat, labels: Collection[str]) -> pd.DataFrame:
    """Read a table to fit, in which no column of numbers may look like levels."""
    table = read_table(path, form, labels)
    if not is_parquet(path):
        for name in table:
            if name not in labels and _is_text(table[name]):
                _refuse_decimal_commas(table[name])
    return table


def _is_text(column: pd.Series[Any]) -> bool:
    """Whether some value of a column is text."""
    may_be = pd.api.types.is_string_dtype(column.dtype)  # or objects of any kind
    return may_be and any(isinstance(value, str) for value in column)


def _read_csv(path: str, form: CsvFormat, labels: Collection[str]) -> pd.DataFrame:
    with opened_csv(path, form) as (file, encoding, separator):
        try:
            return pd.read_csv(
                file, sep=separator, decimal=form.decimal, encoding=encoding,
                dtype=dict.fromkeys(labels, str), low_memory=False,  # one type for a whole column
            )  # fmt: skip
        except pd.errors.EmptyDataError as error:
            raise no_rows(path) from error
        except pd.errors.ParserError as error:
            raise wrong_line(path, separator, str(error).strip()) from error


def _refuse_decimal_commas(column: pd.Series[Any]) -> None:
    """Refuse a column in which all text is numbers, some of them with a comma."""
    words = column.dropna().astype("string")
    if words.str.fullmatch(COMMA_NUMBER).all() and words.str.contains(",").any():
        raise decimal_commas(words[words.str.contains(",")].iloc[0], str(column.name))


def column_of(table: pd.DataFrame, name: str, option: str) -> pd.Series[Any]:
    """Column that an option names."""
    if name not in table:
        names = [str(column) for column in table]
        meant = [f"Did you mean {close!r}? " for close in get_close_matches(name, names, 1)]
        more = f", and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        raise ValueError(
            f"{option}: must be a column of the table, found {name!r}. {''.join(meant)}"
            f"The columns are {names[:MOST_NAMES]}{more}."
        )
    return table[name]


def targets_of(table: pd.DataFrame, options: argparse.Namespace) -> Any:
    """Targets, (n_rows,); for survival, times and events as the columns of a frame."""
    target = column_of(table, options.target, "--target")
    if options.event is None:
        return target
    event = column_of(table, options.event, "--event")
    return pd.DataFrame({"time": target, "event": event})


def read_scored(model: tpnn.AnovaModel, options: argparse.Namespace) -> tuple[pd.DataFrame, Any]:
    """Read features and targets of rows to score a model on; None for targets without a name."""
    _check_event(model, options)
    table = pd.DataFrame(read_rows(model, options.data, options))
    return features_of(table, options), targets_of(table, options) if options.target else None


def _check_event(model: tpnn.AnovaModel, options: argparse.Namespace) -> None:
    """Refuse targets that are times without events, or events of a model that knows none."""
    is_survival = model.task.kind == "survival"
    if options.target is None or is_survival == (options.event is not None):
        return
    if is_survival:
        raise ValueError(
            f"--event: is needed to score a survival model besides --target {options.target}. Name "
            "the column that is 1 where the event was observed."
        )
    raise ValueError(
        f"--event: is for survival models, and this model has the {model.link.name} link. Leave it "
        "out."
    )


def features_of(table: pd.DataFrame, options: argparse.Namespace) -> pd.DataFrame:
    """Table without the targets, so that a model without feature names finds its columns."""
    return table.drop(columns=[name for name in (options.target, options.event) if name in table])
