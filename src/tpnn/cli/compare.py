"""``tpnn compare``: the scores of models, and of a constant, on the same rows."""

from __future__ import annotations

import argparse

import pandas as pd

import tpnn
from tpnn.cli.columns import check_event, features_of, targets_of
from tpnn.cli.rows import read_rows
from tpnn.cli.writing import check_output, write_table
from tpnn.explain.metrics import measure


def run(given: argparse.Namespace) -> None:
    """Write a line of scores for each model, and one for the best constant."""
    check_output(given.output, *given.models, given.data)
    lines = []
    for path in given.models:
        model = tpnn.load_model(path)
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
