"""The edits of a model in its file: the log, and what it takes to undo.

Earlier versions differ from the next one in a few places. So of each of their arrays only the
middle is stored, after as many values as are the same at the beginning and before as many as are
the same at the end: ``edits_0_tables`` is the middle of the tables before the first edit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpnn.model.log import EditLog, check_records
from tpnn.model.read_only import read_only_arrays

Arrays = dict[str, NDArray[Any]]
Packed = tuple[dict[str, Any], Arrays]
Unpack = Callable[[Mapping[str, Any], Mapping[str, NDArray[Any]]], Any]


def pack_edits(log: EditLog, arrays: Arrays, pack: Callable[[Any], Packed]) -> Packed:
    """Header and arrays of a log.

    Parameters
    ----------
    log : EditLog
        The log.
    arrays : dict from str to array
        Those of the model as it is now.
    pack : callable
        Turns the fields of a model into header and arrays.
    """
    versions: list[dict[str, Any]] = []
    stored: Arrays = {}
    later = arrays
    for number in reversed(range(len(log.formers))):
        header, own = pack(log.formers[number])
        ends = {name: _common_ends(array, later.get(name)) for name, array in own.items()}
        for name, (start, end) in ends.items():
            middle = own[name].ravel()[start : own[name].size - end]
            if middle.size:
                stored[f"edits_{number}_{name}"] = middle
        versions.insert(0, {"header": header, "common": ends})
        later = own
    return {"log": list(log.records), "formers": versions}, stored


def _common_ends(array: NDArray[Any], later: NDArray[Any] | None) -> tuple[int, int]:
    """Count the values that two arrays share at the beginning and at the end, bit by bit."""
    if later is None or later.dtype != array.dtype:
        return 0, 0
    one, two = _bits(array), _bits(later)
    size = min(len(one), len(two))
    differ = np.flatnonzero(one[:size] != two[:size])
    start = int(differ[0]) if len(differ) else size
    rest = size - start
    back = np.flatnonzero(one[len(one) - rest :][::-1] != two[len(two) - rest :][::-1])
    return start, int(back[0]) if len(back) else rest


def _bits(array: NDArray[Any]) -> NDArray[Any]:
    """Values of an array in a row, as whole numbers: equal ones have equal bits, NaN included."""
    flat = np.ascontiguousarray(array).ravel()
    return flat.view(f"u{flat.dtype.itemsize}")


def unpack_edits(
    stored: Mapping[str, Any] | None,
    arrays: Mapping[str, NDArray[Any]],
    unpack: Unpack,
) -> EditLog | None:
    """Log of a model from what ``pack_edits`` made of it; None for a model without edits."""
    if stored is None:
        return None
    try:
        check_records(stored["log"])
        formers = _formers(stored.get("formers", []), len(stored["log"]), arrays, unpack)
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"the log of edits was tampered with: its records and the earlier versions of the "
            f"model do not fit, {error}"
        ) from error
    return EditLog(tuple(stored["log"]), tuple(formers))


def _formers(
    versions: Sequence[Mapping[str, Any]], n_edits: int, arrays: Mapping[str, NDArray[Any]],
    unpack: Unpack,
) -> list[Mapping[str, Any]]:  # fmt: skip
    """Fields of the model before each edit, oldest first."""
    if len(versions) not in (0, n_edits):
        raise ValueError("every edit must have the model before it")
    formers: list[Mapping[str, Any]] = []
    later = {name: array for name, array in arrays.items() if not name.startswith("edits_")}
    for number in reversed(range(len(versions))):
        later = _joined(versions[number]["common"], later, arrays, f"edits_{number}_")
        fields = unpack(versions[number]["header"], later)
        formers.insert(0, {**fields, **read_only_arrays(fields), "edits": None})
    return formers


def _joined(
    common: Mapping[str, Sequence[int]],
    later: Mapping[str, NDArray[Any]],
    arrays: Mapping[str, NDArray[Any]],
    prefix: str,
) -> Arrays:
    """Arrays of a version from those of the next one and the middles that are stored."""
    found: Arrays = {}
    for name, (start, end) in common.items():
        known = later.get(name, np.empty(0)).ravel()
        middle = arrays.get(prefix + name, np.empty(0, known.dtype)).ravel()
        if not 0 <= start <= known.size - end <= known.size:
            raise ValueError("arrays of earlier versions must fit")
        parts = [known[:start], middle, known[known.size - end :]]
        found[name] = np.concatenate([part.astype(middle.dtype) for part in parts])
    return found
