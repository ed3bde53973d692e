"""load_model: a frozen model from its file."""

from __future__ import annotations

import os
from typing import cast

from tpnn._utils.files import check_path
from tpnn.model.archive import read_archive
from tpnn.model.files import Fields, unpack
from tpnn.model.integrity import check_fields
from tpnn.model.json_form import fields_of_json, is_json, read_json
from tpnn.model.model import AnovaModel


def load_model(path: str | os.PathLike[str]) -> AnovaModel:
    """Read a model written by ``AnovaModel.save`` or ``AnovaModel.to_json``.

    The file holds numbers and names only; reading it cannot run code. A truncated, changed or newer
    file raises ValueError, and what is no path TypeError.
    """
    check_path(path)
    document = read_json(path) if is_json(path) else None
    header, arrays = ({}, {}) if document else read_archive(path)
    try:
        fields = fields_of_json(document) if document else unpack(header, arrays)
        for former in fields["edits"].formers if fields["edits"] else ():
            check_fields(cast(Fields, former))
        check_fields(fields)
        return AnovaModel(**fields)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"path: must be a complete model, found {os.fspath(path)!r}, which lacks a part of it "
            f"or has a wrong one ({error!r}). Save the model again."
        ) from error
