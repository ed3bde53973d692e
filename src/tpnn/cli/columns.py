"""Columns of a table that options name: target, event and others."""

from __future__ import annotations

import argparse
from typing import Any

import pandas as pd

import tpnn


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
    is_survival = model.baseline is not None or (known is not None and known.task == "survival")
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
