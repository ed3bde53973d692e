"""``tpnn report``: a page in which the model runs."""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

import tpnn
from tpnn._utils.files import is_stream
from tpnn.cli.frames import check_event, features_of, targets_of
from tpnn.cli.output import check_output, write_table
from tpnn.cli.tables import read_rows
from tpnn.explain.metrics import measure
from tpnn.explain.report import write_report


def run_report(given: argparse.Namespace) -> None:
    """Write the report."""
    check_output(given.output, given.model, given.data)
    X = y = None
    model = tpnn.load(given.model).model_
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


def run_compare(given: argparse.Namespace) -> None:
    """Write a line of scores for each model, and one for the best constant."""
    check_output(given.output, *given.models, given.data)
    lines = []
    for path in given.models:
        model = tpnn.load(path).model_
        check_event(model, given)
        table = pd.DataFrame(read_rows(model, given.data, given))
        X, y = features_of(table, given), targets_of(table, given)
        scores = measure(model, X, y).scores
        lines.append({"model": path} | {score.name: score.value for score in scores})
    lines.append({"model": "constant"} | {score.name: score.constant for score in scores})
    table = pd.DataFrame(lines)
    if given.output is None:
        print(table.to_string(index=False, na_rep="", float_format="{:.4g}".format))
    else:
        write_table({str(name): table[name].tolist() for name in table}, given.output)
