"""One file that holds named arrays and a JSON header, without pickle.

The file is a zip archive: ``header.json``, one ``.npy`` per array, and ``digest.txt`` with the
SHA-256 of all of them. NumPy and the standard library read it; nothing in it can run code.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import uuid
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FORMAT = "tpnn-model"
VERSION = 1


def write_archive(
    path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write header and arrays so that a crash leaves either the old file or the new one."""
    entries = {"header.json": json.dumps({"format": FORMAT, "version": VERSION, **header}).encode()}
    for name, array in arrays.items():
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, np.ascontiguousarray(array), allow_pickle=False)
        entries[f"{name}.npy"] = buffer.getvalue()
    target = Path(os.path.realpath(path))
    if target.is_dir() or not target.parent.is_dir():
        raise FileNotFoundError(
            f"path: must be a file in a folder that exists, found {os.fspath(path)!r}. "
            "Create the folder, or save elsewhere."
        )
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    try:
        with open(temporary, "xb") as file:
            _write_zip(file, entries | {"digest.txt": _digest(entries).encode()})
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_archive(
    path: str | os.PathLike[str],
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Header and arrays of a file, after checking that it is whole, unchanged and not too new."""
    if Path(path).is_dir():
        raise IsADirectoryError(
            f"path: must be a file written by AnovaModel.save, found the folder "
            f"{os.fspath(path)!r}. Pass the file in it."
        )
    data = Path(path).read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = {name: archive.read(name) for name in archive.namelist()}
        header = json.loads(entries["header.json"])
        digest = entries.pop("digest.txt").decode()
        known, version = header["format"] == FORMAT, int(header["version"])
    except Exception as error:  # whatever zip, zlib and json raise on damaged bytes
        raise ValueError(
            f"path: must be a file written by AnovaModel.save, found {os.fspath(path)!r} which is "
            f"truncated or of another kind ({error!r}). Save the model again."
        ) from error
    if not known or version > VERSION:
        raise ValueError(
            f"path: must be a {FORMAT} file of version {VERSION} or older, found "
            f"{header['format']!r} version {version}. Upgrade tpnn to read it."
        )
    if digest != _digest(entries):
        raise ValueError(
            f"path: the content of {os.fspath(path)!r} does not match its own checksum, so it was "
            "changed after it was saved. Save the model again."
        )
    return header, {
        name.removesuffix(".npy"): np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
        for name, data in entries.items()
        if name.endswith(".npy")
    }


def _write_zip(file: Any, entries: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))  # same model, same bytes
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)


def _digest(entries: Mapping[str, bytes]) -> str:
    whole = hashlib.sha256()
    for name in sorted(entries):
        whole.update(name.encode() + b"\0" + hashlib.sha256(entries[name]).digest())
    return whole.hexdigest()
