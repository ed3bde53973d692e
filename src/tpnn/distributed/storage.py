"""Storage: the folder of a distributed fit, which all machines can read.

It holds coded rows in blocks, and a note on the fit to which they belong.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

NOTE = "tpnn.json"  # which fit this is


class Storage:
    """A folder of this machine, or of a store in the network.

    Parameters
    ----------
    location : path
        Such as ``"runs/7"`` or ``"s3://bucket/runs/7"``.
    note : dict
        What tells the fit from others.
    """

    def __init__(
        self, location: str | os.PathLike[str], note: Mapping[str, str] | None = None
    ) -> None:
        from pyarrow.fs import FileSystem

        self.note = dict(note or {})
        self.words = os.fspath(location)
        is_address = "://" in self.words
        place = self.words if is_address else os.path.abspath(os.path.expanduser(self.words))
        self.files, self.folder = FileSystem.from_uri(place)

    def sign(self) -> None:
        """Leave the note in the folder, before anything else is written."""
        self.write_bytes(NOTE, json.dumps(self.note, indent=1).encode())

    def check(self) -> None:
        """Refuse a folder that belongs to something else."""
        found = self._note()
        for name, value in self.note.items():
            if found is not None and found.get(name) != value:
                raise ValueError(
                    f"storage: must be empty or of the same fit, found one with other {name} in "
                    f"{self.words!r}. Pass another folder, or delete this one."
                )

    def _note(self) -> dict[str, Any] | None:
        """Note of the fit that the folder belongs to; None if it is new or empty."""
        from pyarrow.fs import FileSelector

        names = [
            file.base_name
            for file in self.files.get_file_info(FileSelector(self.folder, allow_not_found=True))
        ]
        if not names:
            return None
        if NOTE not in names:
            raise ValueError(
                f"storage: must be empty or of the same fit, found {sorted(names)[0]!r} in "
                f"{self.words!r}. Pass another folder."
            )
        with self.files.open_input_file(f"{self.folder}/{NOTE}") as file:
            note: dict[str, Any] = json.loads(file.read())
        return note

    def write_bytes(self, name: str, content: bytes) -> None:
        """Write a file as a whole."""
        path = f"{self.folder}/{name}"
        try:
            self.files.create_dir(os.path.dirname(path), recursive=True)
            with self.files.open_output_stream(path) as stream:
                stream.write(content)
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

    def read(self, name: str) -> dict[str, NDArray[Any]]:
        """Read the arrays of a file."""
        try:
            with (
                self.files.open_input_file(f"{self.folder}/{name}") as stream,
                np.load(stream) as arrays,
            ):
                return dict(arrays)
        except (OSError, ValueError, KeyError) as error:
            raise OSError(
                f"storage: every machine must be able to read {self.words!r}, found {name!r} "
                f"missing or damaged ({error}). Pass a folder that all machines share, and let "
                "nothing else write to it."
            ) from error
