"""GrowthStates: where growths ended, so that a later fit can continue there.

A state is a few named arrays. Its key is a digest of everything that the growth depends on, rows
included, so that no growth continues from the state of another.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.files import write_file

State = Mapping[str, NDArray[Any]]


class GrowthStates:
    """States of growths by their keys; several threads may use it."""

    keeps_all: ClassVar[bool] = False  # also states of running and of finished growths

    def __init__(self, known: Mapping[str, State] | None = None) -> None:
        self.known: dict[str, State] = dict(known or {})
        self.kept: dict[str, State] = {}

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to go on from."""
        return not self.known

    def find(self, key: str) -> State | None:
        """State of a growth that has begun, or None."""
        return self.known.get(key)

    def keep(self, key: str, state: State, can_go_on: bool) -> None:
        """Keep the state of a growth if it ended because its rounds were up."""
        if can_go_on:
            self.kept[key] = state


@runtime_checkable
class StateFiles(Protocol):
    """Files of a checkpoint, each written in one step."""

    argument: str  # that named the files, for messages

    def path(self, name: str) -> str:
        """Where a file is, for messages."""

    def names(self) -> list[str]:
        """Names of all files."""

    def read(self, name: str) -> bytes | None:
        """Content of a file; None if it is not there."""

    def write(self, name: str, data: bytes) -> None:
        """Write a file, in place of an earlier one."""


class FilesInFolder:
    """Files of a checkpoint in a folder of this machine."""

    argument = "checkpoint"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> str:
        """Where a file is, for messages."""
        return os.fspath(self.folder / name)

    def names(self) -> list[str]:
        """Names of all files but those half written."""
        return [name for name in os.listdir(self.folder) if not name.startswith(".")]

    def read(self, name: str) -> bytes | None:
        """Content of a file; None if it is not there."""
        path = self.folder / name
        return path.read_bytes() if path.exists() else None

    def write(self, name: str, data: bytes) -> None:
        """Write a file, in place of an earlier one."""
        try:
            write_file(self.folder / name, data)
        except OSError as error:
            raise OSError(
                "checkpoint: must be a folder that can be written and has room, found "
                f"{os.fspath(self.folder)!r} ({error}). Free some space, or pass another folder."
            ) from error


def write_sealed(files: StateFiles, name: str, data: bytes) -> None:
    """Write a file of a checkpoint that begins with a digest of its name and its content."""
    files.write(name, _seal(name, data) + data)


def read_sealed(files: StateFiles, name: str) -> bytes | None:
    """Content of a file of a checkpoint; None if it is not there. A file that changed is refused.

    What a growth goes on from is read by compiled loops without bounds, and belongs to this growth.
    """
    sealed = files.read(name)
    if sealed is None:
        return None
    data = sealed[len(_seal(name, b"")) :]
    if sealed != _seal(name, data) + data:
        raise ValueError(
            f"{files.argument}: its files must be as they were written, and "
            f"{files.path(name)!r} is damaged or not its own. Delete it."
        )
    return data


def _seal(name: str, data: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\0" + data).hexdigest().encode() + b"\n"


class StatesOnDisk(GrowthStates):
    """States of all growths in files, so that a fit that is killed can be resumed."""

    keeps_all = True

    def __init__(self, files: StateFiles, known: Mapping[str, State] | None = None) -> None:
        super().__init__(known)
        self.files = files

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to go on from."""
        return False

    def find(self, key: str) -> State | None:
        """State of a growth that has begun, or None."""
        data = read_sealed(self.files, _file(key))
        if data is None:
            return super().find(key)
        with np.load(BytesIO(data), allow_pickle=False) as file:
            return dict(file)

    def keep(self, key: str, state: State, can_go_on: bool) -> None:
        """Write the state of a growth, in place of an earlier one."""
        super().keep(key, state, can_go_on)
        data, arrays = BytesIO(), dict[str, Any](state)
        np.savez(data, **arrays)
        write_sealed(self.files, _file(key), data.getvalue())


def _file(key: str) -> str:
    return f"{key}.npz"


def digest_of(content: Any) -> str:
    """Hexadecimal digest of arrays, numbers and text in lists and tuples of any depth."""
    whole = hashlib.blake2b(digest_size=20)
    _add(whole, content)
    return whole.hexdigest()


def _add(whole: Any, content: Any) -> None:
    if isinstance(content, list | tuple):
        whole.update(f"{len(content)} of ".encode())
        for item in content:
            _add(whole, item)
    elif isinstance(content, np.ndarray):
        whole.update(f"{content.dtype.str}{content.shape} ".encode())
        whole.update(np.ascontiguousarray(content).reshape(-1).view(np.uint8).data)
    else:
        whole.update(f"{content!r} ".encode())
