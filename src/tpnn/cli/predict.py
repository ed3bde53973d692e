"""``tpnn predict``: the prediction of every row."""

from __future__ import annotations

import argparse

import tpnn
from tpnn.cli.rows import read_rows
from tpnn.cli.writing import check_output, write_table


def run(given: argparse.Namespace) -> None:
    """Write the prediction of every row."""
    check_output(given.output, given.model, given.data)
    model = tpnn.load_model(given.model)
    predicted = model.predict(read_rows(model, given.data, given))
    names = list(model.output_names) or [_prediction_name(model)]
    columns = predicted.reshape(-1, len(names)).T.tolist()
    write_table(dict(zip(names, columns, strict=True)), given.output)


def _prediction_name(model: tpnn.AnovaModel) -> str:
    if model.link.name != "logit":
        return "prediction" if model.baseline is None else "relative risk"
    return f"probability of {model.classes[1]}" if model.classes else "probability"
