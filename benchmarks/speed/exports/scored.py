"""What an export answered, and what it cost."""

from __future__ import annotations

from typing import NamedTuple

from tpnn._utils.arrays import FloatArray


class Scored(NamedTuple):
    """What a target answered.

    Parameters
    ----------
    answers : array of shape (n_rows, n_answers)
        Raw scores, predictions and, if asked for, contributions; NaN for refused rows.
    seconds : float
        Processor time for scoring, in databases for reading the rows, too; in PostgreSQL, which
        is another process, the time until the answer.
    size : int
        Bytes of the export.
    """

    answers: FloatArray
    seconds: float
    size: int
