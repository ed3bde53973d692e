"""``tpnn predict``: the prediction of every row, of one file or of many."""

from __future__ import annotations

import argparse

import tpnn
from tpnn.cli.many_files import is_of_many_files, predict_files, prediction_names
from tpnn.cli.rows import read_rows
from tpnn.cli.writing import check_output, write_table


def run(given: argparse.Namespace) -> None:
    """Write the prediction of every row."""
    if is_of_many_files(given.data):
        predict_files(given.model, given.data, given.output)
        return
    check_output(given.output, given.model, given.data)
    model = tpnn.load_model(given.model)
    predicted = model.predict(read_rows(model, given.data, given))
    names = prediction_names(model)
    columns = predicted.reshape(-1, len(names)).T.tolist()
    write_table(dict(zip(names, columns, strict=True)), given.output)
