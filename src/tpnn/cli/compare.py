"""``tpnn compare``: the scores of models, and of a constant, on the same rows."""

from __future__ import annotations

import argparse

import pandas as pd

import tpnn
from tpnn.cli.columns import features_of, targets_of
from tpnn.cli.reading import read_rows
from tpnn.cli.scoring import constant_scores, scores_of
from tpnn.cli.writing import check_output, write_table


def run(given: argparse.Namespace) -> None:
    """Write a line of scores for each model, and one for the best constant."""
    check_output(given.output, *given.models, given.data)
    lines = []
    for path in given.models:
        model = tpnn.load_model(path)
        table = read_rows(model, given.data, given)
        X, y = features_of(table, given), targets_of(table, given)
        lines.append({"model": path, **scores_of(model, X, y)})
    lines.append({"model": "constant", **constant_scores(model, X, y)})
    table = pd.DataFrame(lines)
    if given.output is None:
        print(table.to_string(index=False, na_rep="", float_format="{:.4g}".format))
    else:
        write_table(table, given.output)
