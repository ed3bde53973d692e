"""Values of rows besides the features: numbers and offsets, read and checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.table.table import NUMBER, OffsetColumn, Table


def refuse_masked(name: str, values: Any) -> None:
    """Refuse values under a mask: NumPy would use the hidden values."""
    if not np.ma.isMaskedArray(values):
        return
    n_masked = int(np.ma.flatten_mask(np.ma.getmaskarray(values)).sum())
    if n_masked:
        raise ValueError(
            f"{name}: every row needs a value, found {n_masked} masked ones. Drop those rows."
        )


def checked_numbers(name: str, values: Any) -> FloatArray:
    """Values of an argument as an array of floats."""
    refuse_masked(name, values)
    try:
        array = np.asarray(values)
        if array.dtype.kind in "mM":
            raise TypeError(f"dates or durations ({array.dtype})")
        return array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: must be numbers, found {error}. Pass numbers.") from error


def checked_offset(offset: Any, n_rows: int) -> FloatArray:
    """Offsets as an array of shape (n_rows,), zeros where there are none."""
    if offset is None:
        return np.zeros(n_rows)
    values = checked_numbers("offset", offset)
    if values.shape != (n_rows,) or not np.isfinite(values).all():
        bad = int((~np.isfinite(values)).sum())
        fault = f"NaN or inf in {bad} rows" if bad else f"shape {values.shape} for {n_rows} rows"
        raise ValueError(
            f"offset: one finite number per row is needed, found {fault}. Pass the known part of "
            "the raw score of each row."
        )
    return values


def column_offset(table: Table, wanted: OffsetColumn) -> FloatArray:
    """Offsets (n_rows,) from the offset column of a table: its logarithm if it is an exposure.

    ``wanted`` is the column that the model was fitted with.
    """
    argument = "exposure" if wanted.is_exposure else "offset"
    if table.offset_column is None:
        raise ValueError(
            f"X: {wanted.words} is needed, because it is the {argument} of each row, found "
            f"{table.column_names[:10]}. Pass a table that has it."
        )
    kind, values, _ = table.read_offset_column()
    rule = "positive and finite" if wanted.is_exposure else "finite"
    if kind != NUMBER:
        raise ValueError(
            f"{argument}: {wanted.words} must hold numbers, found {kind} values. Convert it."
        )
    valid = np.isfinite(values) & (values > 0 if wanted.is_exposure else True)
    if not valid.all():
        raise ValueError(
            f"{argument}: every number of {wanted.words} must be {rule}, found "
            f"{int((~valid).sum())} of {len(values)} that are not, such as {values[~valid][0]}. "
            "Correct those rows, or drop them."
        )
    return np.log(values) if wanted.is_exposure else values
