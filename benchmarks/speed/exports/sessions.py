"""Files in the ONNX format, run by onnxruntime with columns prepared as the documentation says."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.speed.exports import Scored
from tpnn import AnovaModel

MISSING_WHOLE = -(2**63)
BATCH = 1024  # rows that are scored at once

Feeds = dict[str, NDArray[Any]]  # of the name of an input to values (n_rows, 1)


def run_session(model: AnovaModel, rows: pd.DataFrame, contributions: bool) -> Scored:
    """Score rows in batches."""
    session, size = session_of(model, contributions)
    batches = [feeds(session, rows[start : start + BATCH]) for start in range(0, len(rows), BATCH)]
    began = time.process_time()
    ran = [session.run(None, batch) for batch in batches]
    seconds = time.process_time() - began
    names = [known.name for known in session.get_outputs()]
    found = {name: np.concatenate(x) for name, x in zip(names, zip(*ran, strict=True), strict=True)}
    means = found["probabilities"] if "label" in found else found["variable"]
    answers = [found["raw_score"], means[:, -len(model.intercepts) :]]  # of two classes, the second
    if contributions:
        answers.append(found["contributions"].reshape(len(rows), -1))
    if "remainder" in found:
        answers.append(found["remainder"])
    return Scored(np.hstack(answers), seconds, size)


def session_of(model: AnovaModel, contributions: bool = True) -> tuple[Any, int]:
    """Session with one thread of the checked file that a model writes, and the size of the file."""
    import onnx.checker
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        model.to_onnx(path, contributions=contributions)
        onnx.checker.check_model(path, full_check=True)
        return onnxruntime.InferenceSession(path, options), path.stat().st_size


def feeds(session: Any, rows: pd.DataFrame) -> Feeds:
    """Columns as a session reads them."""
    facts = session.get_modelmeta().custom_metadata_map
    column_of = {known["name"]: known["column"] for known in json.loads(facts["inputs"])}
    return {
        known.name: _values(rows[column_of[known.name]], known.type, facts["missing_text"])[:, None]
        for known in session.get_inputs()
    }


def _values(column: Any, kind: str, missing_text: str) -> NDArray[Any]:
    """Column of a data frame in the type of an input, (n_rows,)."""
    if kind == "tensor(string)":
        text = column.astype(object).where(column.notna(), missing_text)
        return np.asarray(text, object)
    if kind == "tensor(double)":
        return np.asarray(column, np.float64)
    if column.dtype.kind in "mM":
        return np.asarray(column.to_numpy(f"{column.dtype.kind}8[us]").astype(np.int64))
    return np.asarray(column.fillna(MISSING_WHOLE), np.int64)
