"""Rows scored by onnxruntime, with columns prepared as the documentation says."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tpnn import AnovaModel

MISSING_WHOLE = -(2**63)


def session_of(model: AnovaModel, contributions: bool = True) -> Any:
    """Session of the checked file that a model writes."""
    import onnx
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        model.to_onnx(path, contributions=contributions)
        onnx.checker.check_model(path, full_check=True)
        return onnxruntime.InferenceSession(path)


def feeds(session: Any, rows: pd.DataFrame) -> dict[str, np.ndarray]:
    """What a session reads, (n_rows, 1) for each input."""
    facts = session.get_modelmeta().custom_metadata_map
    column_of = {known["name"]: known["column"] for known in json.loads(facts["inputs"])}
    types = {known.name: known.type for known in session.get_inputs()}
    return {
        name: _values(rows[column_of[name]], kind, facts["missing_text"])[:, None]
        for name, kind in types.items()
    }


def _values(column: pd.Series, kind: str, missing_text: str) -> np.ndarray:
    if kind == "tensor(string)":
        return column.astype(object).where(column.notna(), missing_text).to_numpy(object)
    if kind == "tensor(double)":
        return column.to_numpy(np.float64)
    if column.dtype.kind in "mM":
        return column.to_numpy(f"{column.dtype.kind}8[us]").astype(np.int64)
    return column.fillna(MISSING_WHOLE).to_numpy(np.int64)


def outputs(session: Any, rows: pd.DataFrame) -> dict[str, np.ndarray]:
    """All that a session gives back, by name."""
    names = [known.name for known in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds(session, rows)), strict=True))


def in_onnxruntime(model: AnovaModel, rows: pd.DataFrame) -> np.ndarray:
    """Raw scores, predictions and contributions, side by side."""
    found = outputs(session_of(model), rows)
    means = found["probabilities"] if "label" in found else found["variable"]
    if model.n_outputs == 1:
        means = means[:, -1:]  # of two classes, the second
    effects = found["contributions"].reshape(len(rows), -1)
    return np.hstack([found["raw_score"], means, effects])
