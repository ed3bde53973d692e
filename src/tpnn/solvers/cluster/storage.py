"""Storage: the folder of a distributed fit, which all machines can read.

It holds coded rows in blocks, states of growths, and a note on the fit to which they belong.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

NOTE = "tpnn.json"  # which fit this is
STATES = "states"  # folder of the states of growths
STORES_OF_OBJECTS = ("s3", "gcs", "abfs")  # where a file is seen when it is complete


class Storage:
    """A folder of this machine, or of a store in the network.

    Parameters
    ----------
    location : path
        Such as ``"runs/7"`` or ``"s3://bucket/runs/7"``.
    """

    def __init__(self, location: str | os.PathLike[str]) -> None:
        from pyarrow.fs import FileSystem

        self.words = os.fspath(location)
        is_address = "://" in self.words
        place = self.words if is_address else os.path.abspath(os.path.expanduser(self.words))
        self.files, self.folder = FileSystem.from_uri(place)
        self._note: dict[str, str] = {}
        self._is_signed = False

    def claim(self, note: Mapping[str, str]) -> None:
        """Refuse a folder that belongs to something else.

        The ``note`` tells the fit from others. It is left in the folder before anything else is
        written, so that a call that fails early leaves nothing behind.
        """
        found = self._found_note()
        for name, value in note.items():
            if found.get(name, value) != value:
                raise ValueError(
                    f"storage: must be empty or of the same fit, found one with other {name} in "
                    f"{self.words!r}. Pass another folder, or delete this one."
                )
        self._note |= note
        self._is_signed = False

    def _found_note(self) -> dict[str, Any]:
        """Note of the fit that the folder belongs to; empty if the folder is new or empty."""
        names = self.names()
        if not names:
            return {}
        if NOTE not in names:
            raise ValueError(
                f"storage: must be empty or of the same fit, found {names[0]!r} in "
                f"{self.words!r}. Pass another folder."
            )
        note: dict[str, Any] = json.loads(self.read_bytes(NOTE) or b"{}")
        return note

    def names(self, folder: str = "") -> list[str]:
        """Names of the files of a folder, but for those half written."""
        from pyarrow.fs import FileSelector

        selector = FileSelector(f"{self.folder}/{folder}".rstrip("/"), allow_not_found=True)
        names = (file.base_name for file in self.files.get_file_info(selector))
        return sorted(name for name in names if not name.startswith("."))

    def has(self, name: str) -> bool:
        """Whether a file is there, which is then complete."""
        return bool(self.files.get_file_info(f"{self.folder}/{name}").is_file)

    def read_bytes(self, name: str) -> bytes | None:
        """Content of a file; None if it is not there."""
        if not self.has(name):
            return None
        with self.files.open_input_file(f"{self.folder}/{name}") as file:
            content: bytes = file.read()
        return content

    def sign(self) -> None:
        """Leave the note in the folder, before this process or others write anything else."""
        if not self._is_signed:
            self._is_signed = True
            self.write_bytes(NOTE, json.dumps(self._note, indent=1).encode())

    def write_bytes(self, name: str, content: bytes) -> None:
        """Write a file in one step, in place of an earlier one."""
        self.sign()
        path = f"{self.folder}/{name}"
        folder, base = os.path.split(path)
        shows_whole_files = self.files.type_name in STORES_OF_OBJECTS
        written = path if shows_whole_files else f"{folder}/.{base}.part"
        try:
            self.files.create_dir(folder, recursive=True)
            with self.files.open_output_stream(written) as stream:
                stream.write(content)
            if written != path:
                self.files.move(written, path)
        except OSError as error:
            raise OSError(
                f"storage: must be a folder that can be written and has room, found "
                f"{self.words!r} ({error}). Pass another folder, or make room."
            ) from error

    def write(self, name: str, arrays: Mapping[str, Any]) -> None:
        """Write arrays into one file."""
        import pyarrow as pa

        stream = pa.BufferOutputStream()
        np.savez(stream, **dict(arrays))
        self.write_bytes(name, stream.getvalue())

    def read(self, name: str, arrays: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
        """Read the arrays of a file, or some of them."""
        try:
            with (
                self.files.open_input_file(f"{self.folder}/{name}") as stream,
                np.load(stream) as found,
            ):
                return {array: found[array] for array in (found if arrays is None else arrays)}
        except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
            raise OSError(
                f"storage: every machine must be able to read {self.words!r}, found {name!r} "
                f"missing or damaged ({error}). Pass a folder that all machines share; delete a "
                "damaged file, which the same call writes again."
            ) from error


class StatesInStorage:
    """Files with the states of growths, as a checkpoint has them on one machine.

    Parameters
    ----------
    storage : Storage
        Where they are.
    """

    argument = "storage"

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def path(self, name: str) -> str:
        """Where a file is, for messages."""
        return f"{self.storage.words}/{STATES}/{name}"

    def names(self) -> list[str]:
        """Names of all files."""
        return self.storage.names(STATES)

    def read(self, name: str) -> bytes | None:
        """Content of a file; None if it is not there."""
        return self.storage.read_bytes(f"{STATES}/{name}")

    def write(self, name: str, data: bytes) -> None:
        """Write a file, in place of an earlier one."""
        self.storage.write_bytes(f"{STATES}/{name}", data)
