"""``tpnn report``: a page in which the model runs."""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

import tpnn
from tpnn._utils.files import is_stream
from tpnn.cli.columns import check_event, features_of, targets_of
from tpnn.cli.rows import read_rows
from tpnn.cli.writing import check_output
from tpnn.explain.report import write_report


def run(given: argparse.Namespace) -> None:
    """Write the report."""
    check_output(given.output, given.model, given.data)
    X = y = None
    model = tpnn.load_model(given.model)
    check_event(model, given)
    if given.data is not None:
        table = pd.DataFrame(read_rows(model, given.data, given))
        y = targets_of(table, given) if given.target else None
        X = features_of(table, given)
    elif given.target:
        raise ValueError("--target: rows are needed to score, found no data. Name a file of rows.")
    words = {"title": given.title, "target": given.target or "prediction"}
    write_report(model, given.output, X, y, **words)
    if not is_stream(given.output):
        size = Path(given.output).stat().st_size
        print(f"{given.output}: {size / 1e6:.2f} MB")
