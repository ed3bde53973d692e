"""The log of decisions: a line of JSON for each prediction, chained by hashes.

Each record has its ``number``, the time ``when``, the digest of the ``model``, the hash of its
``input``, the ``prediction``, the ``raw_score``, the ``reasons``, which are the largest
contributions to the raw score, the hash of the record before as ``previous``, and its own ``hash``.
So nobody can change, remove or insert a line that is not the last without the chain showing it, and
who keeps a row can prove that a line is about it.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import numpy as np

from tpnn._utils.files import lock
from tpnn.model.edit_log import FIRST, digest, record_hash
from tpnn.model.model import AnovaModel, offset_of, part_names, part_scores
from tpnn.table.table import Table
from tpnn.table.words import originals

N_REASONS = 4
LONGEST_LINE = 1 << 20  # bytes; the last record is looked for in so many
ONE_WRITER = threading.Lock()

cached_digest = lru_cache(maxsize=8)(digest)  # a model cannot be changed in place


def log_decisions(
    path: str | os.PathLike[str], model: AnovaModel, table: Table, offset: Any, predictions: Any
) -> None:
    """Append a record for every row of a table that the encoder has read."""
    hashes, raw = input_hashes(model, table, offset), model.raw_scores(table, offset)
    parts = part_scores(model, model.encoder.columns(table))
    sizes = np.abs(parts.reshape(*parts.shape[:2], -1)).max(2, initial=0.0)
    reasons = np.argsort(-sizes, axis=1, kind="stable")[:, :N_REASONS]
    names, of_model = part_names(model), cached_digest(model)
    with ONE_WRITER, Path(path).open("a+b") as file:
        lock(file)
        number, previous = _last(file)
        lines = []
        for row, input_hash in enumerate(hashes):
            number += 1
            record = {
                "number": number,
                "when": datetime.now(UTC).isoformat(),
                "model": of_model,
                "input": input_hash,
                "prediction": np.asarray(predictions)[row].tolist(),
                "raw_score": np.asarray(raw)[row].tolist(),
                "reasons": [[names[k], parts[row, k].tolist()] for k in reasons[row]],
                "previous": previous,
            }
            previous = record_hash(record)
            lines.append(json.dumps(record | {"hash": previous}, separators=(",", ":")) + "\n")
        file.write("".join(lines).encode())
        file.flush()
        os.fsync(file.fileno())


def input_hashes(model: AnovaModel, X: Any, offset: Any = None) -> list[str]:
    """SHA-256 of each row as the model reads it: its values by feature, and its offset.

    A level counts as its label and a number as a double, so the hash does not depend on the types
    of the columns; columns that the model does not read do not count.
    """
    table = model.encoder.read(X)
    values = {
        name: [_plain(value) for value in _values(model, table, feature)]
        for feature, name in enumerate(model.feature_names)
    }
    known = offset_of(model, table, offset)
    if known is not None:
        values["(offset)"] = known.tolist()
    rows = ({name: column[row] for name, column in values.items()} for row in range(table.n_rows))
    return [hashlib.sha256(json.dumps(row, sort_keys=True).encode()).hexdigest() for row in rows]


def _values(model: AnovaModel, table: Table, feature: int) -> Any:
    """Values of a feature: numbers, or labels of levels, also of those that fit has not seen."""
    numbers, levels = model.encoder.numbers(table, feature), model.encoder.features[feature].levels
    if not levels:
        return numbers
    labels, column = originals("", numbers, levels), table.column(feature)
    for row in np.flatnonzero(np.isinf(numbers)):
        code = column.values[row]
        labels[row] = column.levels[int(code)] if column.levels else code
    return labels


def _plain(value: Any) -> Any:
    """Value of JSON: text, or a double; null where it is missing."""
    if value is None or isinstance(value, str):
        return value
    number = float(value)
    return None if np.isnan(number) else number


def _last(file: IO[bytes]) -> tuple[int, str]:
    """Read number and hash of the last record of an open file."""
    size = file.seek(0, os.SEEK_END)
    if not size:
        return 0, FIRST
    file.seek(max(0, size - LONGEST_LINE))
    try:
        record = json.loads(file.read().splitlines()[-1])
        return int(record["number"]), str(record["hash"])
    except (ValueError, TypeError, LookupError) as error:
        raise ValueError(
            f"log: must be a log of decisions, found {file.name!r}, whose last line is none "
            f"({error!r}). Pass another path."
        ) from error


def check_decisions(path: str | os.PathLike[str]) -> tuple[int, str]:
    """Count the records of a log of decisions, and return the hash of the last one, too.

    A log that was changed raises ValueError. Only a hash that is kept elsewhere shows that the last
    records were cut off.

    Parameters
    ----------
    path : path
        A file that ``predict(X, log=path)`` of loaded models has written.

    Returns
    -------
    n_records : int
        Number of records.
    last_hash : str
        Hash of the last one; 64 zeros of an empty log.
    """
    previous, number = FIRST, 0
    for number, line in enumerate(Path(path).read_text("utf-8").splitlines(), 1):
        try:
            record = json.loads(line)
            is_next = record["number"] == number and record["previous"] == previous
            is_whole = is_next and record["hash"] == record_hash(record)
        except (ValueError, TypeError, LookupError):
            is_whole = False
        if not is_whole:
            raise ValueError(
                f"path: every record must follow the one before, and line {number} of "
                f"{os.fspath(path)!r} does not: it, or a line before it, was changed. Restore the "
                "file from a copy."
            )
        previous = record["hash"]
    return number, previous
