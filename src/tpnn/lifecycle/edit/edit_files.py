"""Edit files: edits as JSON, which a report page writes too, applied one after the other."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tpnn._utils.files import write_file
from tpnn.lifecycle.edit.edit import HeldOut, Note, edited
from tpnn.model.edit_log import check_log, digest
from tpnn.model.model import AnovaModel

EDITS_FORMAT, EDITS_VERSION = "tpnn-edits", 1
NOTES = ("why", "by", "when")


def replayed(
    model: AnovaModel, path: str | os.PathLike[str], rows: HeldOut | None = None
) -> AnovaModel:
    """Model after all edits of a file; the same file and model give the same bits.

    The rows, if there are any, measure the effect of each edit.
    """
    document = read_edits(path)
    wanted = document.get("model")
    if wanted is not None and wanted != digest(model):
        raise ValueError(
            f"path: the edits of {os.fspath(path)!r} are for another model, found that its digest "
            f"begins with {str(wanted)[:8]} and not with {digest(model)[:8]}. Load the model that "
            'they were made for, or remove "model" from the file.'
        )
    for number, one in enumerate(document["edits"], 1):
        what = {key: value for key, value in one.items() if key not in (*NOTES, "component")}
        note = Note(**{key: one[key] for key in NOTES if key in one})
        try:
            model = edited(model, one["component"], what, note, rows)
        except ValueError as error:
            raise ValueError(f"edit {number} of {os.fspath(path)!r}: {error}") from error
    return model


def read_edits(path: str | os.PathLike[str]) -> Mapping[str, Any]:
    """Read an edit file and check its form."""
    try:
        document = json.loads(Path(path).read_bytes())
        known = document["format"] == EDITS_FORMAT and document["version"] <= EDITS_VERSION
        listed = isinstance(document["edits"], list)
        if not known or not listed or not all("component" in one for one in document["edits"]):
            raise ValueError(f"a document of the format {document['format']!r}")
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"path: must be an edit file of version {EDITS_VERSION}, found {os.fspath(path)!r}, "
            f"which is none ({error!r}). Export the edits again."
        ) from error
    found: Mapping[str, Any] = document
    return found


def write_edits(model: AnovaModel, path: str | os.PathLike[str]) -> None:
    """Write the edits of a model, which ``replayed`` applies to the model before the first."""
    check_log(model)
    records = () if model.edits is None else model.edits.records
    document = {
        "format": EDITS_FORMAT,
        "version": EDITS_VERSION,
        "model": records[0]["before"] if records else digest(model),
        "edits": [record["edit"] | {key: record[key] for key in NOTES} for record in records],
    }
    write_file(path, (json.dumps(document, indent=1) + "\n").encode())
