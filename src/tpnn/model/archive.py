"""The file of a model: its document as a zip file or as JSON, checked before it is used.

The zip file holds ``header.json``, one ``.npy`` for each type of number, ``digest.txt`` with the
SHA-256 of all of them and, if the file was signed, ``signature.txt`` with a signature of that. The
header has the document without its arrays, and a list that says where each array belongs and which
of the numbers it has; arrays that are the same are stored once.
NumPy and the standard library read it; nothing in it can run code.

JSON has the document with arrays as nested lists, in which numbers have as many digits as it takes
to read the same doubles again. An array without numbers that has several axes is
``{"shape": [0, 2]}``. What it takes to undo edits is in zip files alone.

The checksum of a file, which depends on every byte of its content, is what is signed. Only who has
the private key can sign a file that was changed; everybody can verify it by the public key.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import zipfile
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.files import write_file
from tpnn._utils.rules import optional
from tpnn.model.codec import Document

SIGNED = "tpnn-model:"  # before the checksum, so that no signature of anything else is one


def signature(checksum: str, key: Any) -> str:
    """Sign the checksum of a file by a private key, or by the one in a PEM file."""
    signed: bytes = _key(key, "sign").sign(f"{SIGNED}{checksum}".encode())
    return signed.hex()


def check_signature(checksum: str, signed: str | None, key: Any) -> None:
    """Refuse a file that was not signed by the private key of a public one."""
    from cryptography.exceptions import InvalidSignature

    public = _key(key, "verify")
    if signed is None:
        raise ValueError(
            "verify: the file must be signed, and it has no signature. Ask who wrote it for one "
            "that was saved with sign=."
        )
    try:
        public.verify(bytes.fromhex(signed), f"{SIGNED}{checksum}".encode())
    except (InvalidSignature, ValueError) as error:
        raise ValueError(
            "verify: the file must be signed by the owner of this key, and its signature is "
            "another one. Do not trust the file, or verify it by the right key."
        ) from error


def _key(key: Any, argument: str) -> Any:
    """Private or public key of cryptography, read from a PEM file if it is a path."""
    serialization, ed25519 = (
        optional(f"cryptography.hazmat.primitives.{part}", argument, "tpnn[sign]")
        for part in ("serialization", "asymmetric.ed25519")
    )
    is_private = argument == "sign"
    kind = ed25519.Ed25519PrivateKey if is_private else ed25519.Ed25519PublicKey
    if isinstance(key, str | os.PathLike):
        data = Path(key).read_bytes()
        try:
            key = (
                serialization.load_pem_private_key(data, None)
                if is_private
                else serialization.load_pem_public_key(data)
            )
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{argument}: must be a PEM file with a key and no password, found "
                f"{os.fspath(key)!r} ({error}). Write one by openssl, for example."
            ) from error
    if not isinstance(key, kind):
        raise TypeError(
            f"{argument}: must be an {kind.__name__} of cryptography, or the path of its PEM file, "
            f"found {type(key).__name__}. Pass the {'private' if is_private else 'public'} key."
        )
    return key


FORMAT_NAME = "tpnn-model"
JSON_FORMAT = "tpnn-model-json"
FORMAT_VERSION = 1
SMALLEST_SIZE_LIMIT = 1 << 28  # bytes that a file of any size may unpack to,
LARGEST_COMPRESSION = 200  # or this many times its size; models of real numbers compress 2-fold
MOST_SIGNS = 1 << 22  # of lists and objects in a header, or one for each byte of its file
MOST_LEVEL_NODES = 1 << 27  # which are not shared: a GB in memory
MOST_USES = 1001  # average uses of a number: by a model and by each of its earlier versions
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # others unpack without a limit
ARCHIVE_DATE = (1980, 1, 1, 0, 0, 0)  # of every entry, so that the same model gives the same bytes
JSON_BEGINNINGS = (b"{", b" ", b"\n")

ARRAY_HEADERS = {  # by version of NumPy's format
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}

Arrays = Mapping[str, NDArray[Any]]


def write_archive(path: str | os.PathLike[str], document: Document, sign: Any = None) -> None:
    """Write a document, signed by a key, so that a crash leaves the old file or the new one."""
    arrays: list[tuple[list[Any], NDArray[Any]]] = []  # each with the keys that lead to it
    header = {
        "format": FORMAT_NAME,
        "version": FORMAT_VERSION,
        "document": _without_arrays(document, [], arrays),
    }
    header["arrays"], numbers = _pooled(arrays)
    entries = {"header.json": json.dumps(header).encode()}
    for name, array in numbers.items():
        content = io.BytesIO()
        np.lib.format.write_array(content, array, allow_pickle=False)
        entries[f"{name}.npy"] = content.getvalue()
    digest, whole = _digest(entries), io.BytesIO()
    entries["digest.txt"] = digest.encode()
    if sign is not None:
        entries["signature.txt"] = signature(digest, sign).encode()
    with zipfile.ZipFile(whole, "w") as archive:
        for name, data in entries.items():
            entry = zipfile.ZipInfo(name, date_time=ARCHIVE_DATE)
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    write_file(path, whole.getvalue())


def _without_arrays(value: Any, keys: list[Any], arrays: list[Any]) -> Any:
    """Document with null for each array; ``arrays`` gets it with the keys that lead to it."""
    if isinstance(value, np.ndarray):
        arrays.append((keys, value))
        return None
    if isinstance(value, dict):
        return {key: _without_arrays(item, [*keys, key], arrays) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_arrays(item, [*keys, i], arrays) for i, item in enumerate(value)]
    return value


def _pooled(arrays: Sequence[tuple[list[Any], NDArray[Any]]]) -> tuple[list[Any], Arrays]:
    """Keys, type, first number and shape of each array; and all numbers by type."""
    listed, starts = [], {}
    pieces: dict[str, list[NDArray[Any]]] = {}
    sizes: dict[str, int] = {}
    for keys, array in arrays:
        flat, name = np.ascontiguousarray(array).ravel(), array.dtype.name
        key = name, hashlib.sha256(flat.tobytes()).digest()
        if key not in starts:
            starts[key] = sizes.get(name, 0)
            sizes[name] = starts[key] + flat.size
            pieces.setdefault(name, []).append(flat)
        listed.append([keys, name, starts[key], array.shape])
    return listed, {name: np.concatenate(flats) for name, flats in pieces.items()}


def json_text(document: Document) -> str:
    """Write a document as JSON, without the earlier versions of an edited model."""
    if document["edits"] is not None:
        document = document | {"edits": document["edits"] | {"formers": []}}
    whole = {"format": JSON_FORMAT, "version": FORMAT_VERSION, **document}
    return json.dumps(whole, allow_nan=False, default=_lists, separators=(",", ":"))


def _lists(array: NDArray[Any]) -> Any:
    if array.size == 0 and array.ndim > 1:
        return {"shape": array.shape}
    if array.dtype != np.float32:
        return array.tolist()
    shortest = array.astype(str).astype(np.float64)  # fewest digits that single precision needs
    return np.where(shortest.astype(np.float32) == array, shortest, array).tolist()


def read_document(path: str | os.PathLike[str], verify: Any = None) -> Document:
    """Document of a file, after checks that it is complete, unchanged, not newer, and signed."""
    if Path(path).is_dir():
        raise IsADirectoryError(
            f"path: {os.fspath(path)!r} is a folder, and not a file that AnovaModel.save has "
            "written. Pass the path of the file."
        )
    data, entries = Path(path).read_bytes(), {}
    is_json = data[:1] in JSON_BEGINNINGS
    name = JSON_FORMAT if is_json else FORMAT_NAME
    try:
        entries = {"header.json": data} if is_json else _entries(data)
        _check_header(entries["header.json"], len(data))
        header = json.loads(entries["header.json"], object_pairs_hook=without_twins)
        digest = None if is_json else entries.pop("digest.txt").decode()
        signed = entries.pop("signature.txt", b"").decode() or None
        is_format, version = header["format"] == name, int(header["version"])
    except Exception as error:  # whatever zip, zlib and json raise on damaged bytes
        raise _unreadable(path, error) from error
    if not is_format or version > FORMAT_VERSION:
        raise ValueError(
            f"path: must be a {name} file of version {FORMAT_VERSION}, found "
            f"{os.fspath(path)!r}, of the format {header['format']!r} and version {version}. "
            "Upgrade tpnn to read it."
        )
    if is_json and verify is None:
        return dict(header)
    if not is_json and digest != _digest(entries):
        raise _changed(path)
    if verify is not None:
        check_signature(digest or "", signed, verify)
    try:
        return _joined(header, entries)
    except Exception as error:  # whatever NumPy raises on a wrong header
        raise _unreadable(path, error) from error


def without_twins(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Object of JSON, for ``json.loads``: two values of one name would be read either way."""
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"two values of {max(names, key=names.count)!r:.50}")
    return content


def _unreadable(path: str | os.PathLike[str], error: Exception) -> ValueError:
    if isinstance(error, zlib.error) or "CRC-32" in str(error):  # of an entry of a whole zip file
        return _changed(path)
    return ValueError(
        f"path: must be a file written by AnovaModel.save, found {os.fspath(path)!r}, which is "
        f"truncated or of another kind ({error!r}). Save the model again."
    )


def _changed(path: str | os.PathLike[str]) -> ValueError:
    return ValueError(
        f"path: the content of {os.fspath(path)!r} does not match its own checksum: the file was "
        "changed or damaged after it was saved. Copy it again, or save the model again."
    )


def _joined(header: Mapping[str, Any], entries: Mapping[str, bytes]) -> Document:
    """Document of a header with its arrays, which share the numbers of the entries."""
    stored = {name: _array(data) for name, data in entries.items() if name.endswith(".npy")}
    numbers = {name.removesuffix(".npy"): array.ravel() for name, array in stored.items()}
    document, n_used = header["document"], Counter[str]()
    for (*parents, last), name, start, shape in header["arrays"]:
        if any(type(number) is not int or number < 0 for number in (start, *shape)):
            raise ValueError(f"an array of shape {shape} from the number {start}")
        end = start + math.prod(shape)
        n_used[name] += end - start
        reduce(getitem, parents, document)[last] = numbers[name][start:end].reshape(shape)
    too_many = n_used.total() > MOST_USES * sum(map(len, numbers.values()))
    if too_many or n_used["uint16"] > MOST_LEVEL_NODES:
        raise ValueError(f"arrays of {n_used.total()} numbers, many more than there are")
    return dict(document)


def _array(data: bytes) -> NDArray[Any]:
    """Array of an entry; no memory is allocated for numbers that the entry does not contain."""
    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    shape, is_fortran, dtype = ARRAY_HEADERS[version](file)
    if dtype.hasobject or is_fortran or min(shape, default=0) < 0:
        raise ValueError(f"an array of shape {shape} and type {dtype}")
    return np.frombuffer(data[file.tell() :], dtype, math.prod(shape)).reshape(shape).copy()


def _entries(data: bytes) -> dict[str, bytes]:
    """Content of all entries of an archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        _check_entries(archive, len(data))
        # at most the size that the header of an entry states is unpacked
        return {e.filename: archive.open(e).read(e.file_size) for e in archive.infolist()}


def _check_entries(archive: zipfile.ZipFile, size: int) -> None:
    """Refuse an archive that would fill the memory; a model is not that much smaller on disk."""
    for entry in archive.infolist():
        if entry.compress_type not in COMPRESSIONS:
            raise ValueError(f"an entry that is compressed in the way {entry.compress_type}")
    names = archive.namelist()
    if len(set(names)) < len(names):
        raise ValueError(f"two entries {max(names, key=names.count)!r:.50}")
    unpacked = sum(entry.file_size for entry in archive.infolist())
    if unpacked > max(SMALLEST_SIZE_LIMIT, LARGEST_COMPRESSION * size):
        raise ValueError(f"{size} bytes that would unpack to {unpacked}")


def _check_header(header: bytes, size: int) -> None:
    """Refuse a header that would fill the memory: a few bytes of it become an object of Python."""
    n_signs = sum(map(header.count, (b",", b"[", b"{")))
    if n_signs > max(MOST_SIGNS, size):
        raise ValueError(f"{size} bytes with a header of {n_signs} values")


def _digest(entries: Mapping[str, bytes]) -> str:
    whole = hashlib.sha256()
    for name in sorted(entries):
        whole.update(name.encode() + b"\0" + hashlib.sha256(entries[name]).digest())
    return whole.hexdigest()
