"""The archive of a model: header and named arrays as one zip file, checked before they are used.

The file holds ``header.json``, one ``.npy`` per array, and ``digest.txt`` with the SHA-256 of all
of them. NumPy and the standard library read it; nothing in it can run code.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.files import write_file

FORMAT_NAME = "tpnn-model"
FORMAT_VERSION = 1  # of all files
SECOND_VERSION = 2  # but those with an offset column or with nodes of unseen levels
NEWEST_VERSION = 3  # and those without names from which features were left out
SMALLEST_SIZE_LIMIT = 1 << 28  # bytes, unpacked, of a file of any size,
LARGEST_COMPRESSION = 200  # or this many times its size; models of real numbers compress 2-fold
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # others unpack without a limit
ARCHIVE_DATE = (1980, 1, 1, 0, 0, 0)  # of every entry, so that the same model gives the same bytes

ARRAY_HEADERS = {  # by version of NumPy's format
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}

Header = dict[str, Any]
Arrays = dict[str, NDArray[Any]]


def write_archive(
    path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write header and arrays so that a crash leaves either the old file or the new one."""
    named = {"format": FORMAT_NAME, "version": FORMAT_VERSION, **header}
    entries = {"header.json": json.dumps(named).encode()}
    for name, array in arrays.items():
        content = io.BytesIO()
        np.lib.format.write_array(content, np.ascontiguousarray(array), allow_pickle=False)
        entries[f"{name}.npy"] = content.getvalue()
    buffer = io.BytesIO()
    _write_zip(buffer, entries | {"digest.txt": _digest(entries).encode()})
    write_file(path, buffer.getvalue())


def read_archive(path: str | os.PathLike[str]) -> tuple[Header, Arrays]:
    """Header and arrays of a file, after checking that it is complete, unchanged and not newer."""
    if Path(path).is_dir():
        raise IsADirectoryError(
            f"path: must be a file written by AnovaModel.save, found the folder "
            f"{os.fspath(path)!r}. Pass the file in it."
        )
    data = Path(path).read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            _check_entries(archive, len(data))
            entries = {entry.filename: _unpacked(archive, entry) for entry in archive.infolist()}
        header = json.loads(entries["header.json"])
        digest = entries.pop("digest.txt").decode()
        known, version = header["format"] == FORMAT_NAME, int(header["version"])
    except Exception as error:  # whatever zip, zlib and json raise on damaged bytes
        raise unreadable(path, error) from error
    if not known or version > NEWEST_VERSION:
        raise ValueError(
            f"path: must be a {FORMAT_NAME} file of version {NEWEST_VERSION} or older, found "
            f"{os.fspath(path)!r}, of the format {header['format']!r} and version {version}. "
            "Upgrade tpnn to read it."
        )
    if digest != _digest(entries):
        raise ValueError(
            f"path: the content of {os.fspath(path)!r} must match its own checksum, found that it "
            "does not: the file was changed after it was saved. Save the model again."
        )
    stored = {name: data for name, data in entries.items() if name.endswith(".npy")}
    try:
        return header, {name.removesuffix(".npy"): _array(data) for name, data in stored.items()}
    except Exception as error:  # whatever NumPy raises on a wrong header
        raise unreadable(path, error) from error


def unreadable(path: str | os.PathLike[str], error: Exception) -> ValueError:
    """Return the error of a file that is no model."""
    return ValueError(
        f"path: must be a file written by AnovaModel.save, found {os.fspath(path)!r}, which is "
        f"truncated or of another kind ({error!r}). Save the model again."
    )


def _array(data: bytes) -> NDArray[Any]:
    """Array of an entry; nothing is allocated for numbers that its header promises and lacks."""
    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    shape, is_fortran, dtype = ARRAY_HEADERS[version](file)
    if dtype.hasobject or is_fortran or min(shape, default=0) < 0:
        raise ValueError(f"an array of shape {shape} and type {dtype}")
    return np.frombuffer(data[file.tell() :], dtype, math.prod(shape)).reshape(shape).copy()


def _check_entries(archive: zipfile.ZipFile, size: int) -> None:
    """Refuse an archive that would fill the memory; a model is not that much smaller on disk."""
    for entry in archive.infolist():
        if entry.compress_type not in COMPRESSIONS:
            raise ValueError(f"an entry that is compressed in the way {entry.compress_type}")
    unpacked = sum(entry.file_size for entry in archive.infolist())
    if unpacked > max(SMALLEST_SIZE_LIMIT, LARGEST_COMPRESSION * size):
        raise ValueError(f"{size} bytes that would unpack to {unpacked}")


def _unpacked(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """Content of an entry; no more is unpacked than the size that it promises."""
    with archive.open(entry) as file:
        return file.read(entry.file_size)


def _write_zip(file: IO[bytes], entries: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            entry = zipfile.ZipInfo(name, date_time=ARCHIVE_DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)


def _digest(entries: Mapping[str, bytes]) -> str:
    whole = hashlib.sha256()
    for name in sorted(entries):
        whole.update(name.encode() + b"\0" + hashlib.sha256(entries[name]).digest())
    return whole.hexdigest()
