"""Every export beside the model: what runs it in databases, languages and ONNX sessions."""

from __future__ import annotations

from typing import NamedTuple

from tpnn._utils.arrays import FloatArray


class Scored(NamedTuple):
    """What a target answered."""

    # (n_rows, n_answers); raw scores, predictions and, if asked for, contributions; NaN for
    # refused rows
    answers: FloatArray
    # processor time for scoring, in databases for reading the rows, too; in PostgreSQL,
    # which is another process, the time until the answer
    seconds: float
    size: int  # bytes of the export
