"""Storage: the folder of a distributed fit, which all machines can read.

It holds coded rows in blocks, states of growths, and a note on the fit to which they belong.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import CodeArray, Float32Array, IntArray
from tpnn._utils.shelf import Shelf
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.problem.rows import KeyArray, TrainingRows
from tpnn.solvers.states import digest_of
from tpnn.table.encoder import TableEncoder

NOTE = "tpnn.json"  # says to which fit the folder belongs
STATES = "states"  # folder of the states of growths
STORES_OF_OBJECTS = ("s3", "gcs", "abfs")  # they show a file only when it is complete
ROWS_PER_BLOCK = 1 << 18

Range = tuple[int, int]  # rows of the table: the first, and the one after the last


class Storage:
    """A folder of this machine or of a network store: ``"runs/7"``, ``"s3://bucket/runs/7"``."""

    def __init__(self, location: str | os.PathLike[str]) -> None:
        from pyarrow.fs import FileSystem

        self.words = os.fspath(location)
        is_address = "://" in self.words
        address = self.words if is_address else os.path.abspath(os.path.expanduser(self.words))
        self.files, self.folder = FileSystem.from_uri(address)
        self._note: dict[str, str] = {}
        self._is_signed = False

    def claim(self, note: Mapping[str, str]) -> None:
        """Refuse a folder that belongs to another fit.

        The ``note`` identifies the fit. It is written before the first other file, so that a call
        that fails early leaves nothing behind.
        """
        earlier = self._earlier_note()
        for name, value in note.items():
            if earlier.get(name, value) != value:
                raise ValueError(
                    f"storage: must be empty or of the same fit, found one with other {name} in "
                    f"{self.words!r}. Pass another folder, or delete this one."
                )
        self._note |= note
        self._is_signed = False

    def _earlier_note(self) -> dict[str, Any]:
        """Note of the fit that the folder belongs to; empty if the folder is new or empty."""
        names = self.names()
        if not names:
            return {}
        if NOTE not in names:
            raise ValueError(
                f"storage: must be empty or of the same fit, found {names[0]!r} in "
                f"{self.words!r}. Pass another folder."
            )
        try:
            return dict(json.loads(self.read_bytes(NOTE) or b"{}"))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"storage: its files must be as they were written, and {NOTE!r} in {self.words!r} "
                f"is damaged ({error}). Pass another folder."
            ) from error

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
        """Write the note, before this process or others write anything else."""
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
                np.load(stream) as file,
            ):
                return {array: file[array] for array in (file if arrays is None else arrays)}
        except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
            raise OSError(
                f"storage: every machine must be able to read {self.words!r}, found {name!r} "
                f"missing or damaged ({error}). Pass a folder that all machines share; delete a "
                "damaged file, which the same call writes again."
            ) from error


class StatesInStorage:
    """Files with the states of growths, as a checkpoint has them on one machine."""

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


@dataclass(frozen=True)
class Block:
    """Distinct rows of a range of the table, in the order of the table."""

    rows: Range
    n_rows: int  # distinct ones; copies of a row count where the first of them is
    key_sum: int  # of the keys of the distinct rows, modulo 2^64

    def file_in(self, folder: str) -> str:
        """Name of its file in a folder of the storage."""
        return _file(folder, self.rows)


def _file(folder: str, rows: Range) -> str:
    return f"{folder}/{rows[0]:012}-{rows[1]:012}.npz"


@dataclass(frozen=True)
class Folders:
    """Folders of a problem in the storage; their names are digests of their content."""

    codes: str  # of all rows of the table
    rows: str  # which rows are distinct, and their targets
    bags: str  # weights of the distinct rows in the bags

    @classmethod
    def of(cls, problem: Problem) -> Folders:
        """Folders of a problem."""
        rows, distinct = problem.rows, problem.distinct
        codes = codes_folder(problem.encoder)
        by_row = digest_of((codes, distinct.rows, rows.y, rows.offset, distinct.keys))
        by_bag = digest_of((rows.training, rows.validation, distinct.rows, distinct.keys))
        return cls(codes, f"rows-{by_row}", f"bags-{by_bag}")


def codes_folder(encoder: TableEncoder) -> str:
    """Folder of the codes on the nodes of an encoder; a storage is for the rows of one table."""
    axes = [
        (order, [(axis.values, axis.groups, axis.has_missing) for axis in by_feature])
        for order, by_feature in sorted(encoder.axes.items())
    ]
    return f"codes-{digest_of((axes, encoder.features))}"


@dataclass(frozen=True)
class Share:
    """The blocks of one holder."""

    folders: Folders
    blocks: Sequence[Block]
    orders: Sequence[int]  # whose codes are needed
    sizes: Float32Array  # (n_bags,): rows that the training side of each bag represents

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(block.n_rows for block in self.blocks)


def ranges(n_rows: int, n_holders: int) -> list[Range]:
    """Ranges of rows, none too long, and at least as many as there are holders.

    >>> ranges(n_rows=5, n_holders=2)
    [(0, 2), (2, 5)]
    """
    n_parts = max(n_holders, -(-n_rows // ROWS_PER_BLOCK))
    return list(pairwise(n_rows * part // n_parts for part in range(n_parts + 1)))


def key_sum(keys: KeyArray) -> int:
    """Sum of keys modulo 2^64."""
    return int(keys.sum(dtype=np.uint64))


def in_ranges(
    rows: IntArray, bounds: Sequence[Range], n_rows: int
) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield which of the ``rows`` of a table are in each range: where there, and where in ``rows``.

    >>> [found.tolist() for found in next(in_ranges(np.array([4, 0, 3]), [(3, 5)], 5))]
    [[0, 1], [2, 0]]
    """
    places: IntArray = np.full(n_rows, -1)
    places[rows] = np.arange(len(rows))
    for first, last in bounds:
        inside = places[first:last]
        chosen = np.flatnonzero(inside >= 0)
        yield chosen, inside[chosen]


def write_blocks(
    storage: Storage, problem: Problem, folders: Folders, n_holders: int
) -> list[Block]:
    """Write all rows and their weights in the bags, except files of an earlier call.

    Codes are there already if workers have read the table.
    """
    rows, keys, n_rows = problem.rows, problem.distinct.keys, problem.codes.table.n_rows
    bounds, blocks = ranges(n_rows, n_holders), list[Block]()
    for some, (inside, places) in zip(
        bounds, in_ranges(problem.distinct.rows, bounds, n_rows), strict=True
    ):
        block_keys = keys[places]
        block = Block(some, len(inside), key_sum(block_keys))
        if not storage.has(block.file_in(folders.codes)):
            write_codes(storage, folders.codes, some, _spread(problem, some, inside, places))
        if not is_written(storage, folders.rows, block):
            targets = {"y": rows.y[places], "offset": rows.offset[places]}
            storage.write(
                block.file_in(folders.rows), {"rows": inside, **targets, "keys": block_keys}
            )
        if not is_written(storage, folders.bags, block):
            weights = {"training": rows.training[places], "validation": rows.validation[places]}
            storage.write(block.file_in(folders.bags), weights | {"keys": block_keys})
        blocks.append(block)
    return blocks


def _spread(
    problem: Problem, rows: Range, inside: IntArray, places: IntArray
) -> dict[int, CodeArray]:
    """Codes of all rows of a range, by order; copies of a row have zeros."""
    spread: dict[int, CodeArray] = {}
    for order, codes in problem.codes.by_order.items():
        spread[order] = np.zeros((len(codes), rows[1] - rows[0]), codes.dtype)
        spread[order][:, inside] = codes[:, places]
    return spread


def write_codes(storage: Storage, folder: str, rows: Range, codes: Mapping[int, CodeArray]) -> None:
    """Write the codes (n_features, n_rows) of a range of rows, by order."""
    storage.write(_file(folder, rows), {f"codes_{order}": part for order, part in codes.items()})


def has_codes(storage: Storage, folder: str, rows: Range) -> bool:
    """Whether the codes of a range of rows are written."""
    return storage.has(_file(folder, rows))


def read_codes(
    storage: Storage, folder: str, rows: Range, orders: Iterable[int]
) -> dict[int, CodeArray]:
    """Read the codes of a range of rows, by order."""
    names = {order: f"codes_{order}" for order in orders}
    arrays = storage.read(_file(folder, rows), list(names.values()))
    return {order: arrays[name] for order, name in names.items()}


def is_written(storage: Storage, folder: str, block: Block) -> bool:
    """Whether an earlier call has written a block; one with other rows is refused."""
    file = block.file_in(folder)
    if not storage.has(file):
        return False
    check_keys(storage, folder, block, storage.read(file, ["keys"])["keys"])
    return True


def check_keys(storage: Storage, folder: str, block: Block, keys: KeyArray) -> None:
    """Refuse a file with other rows than those of its block."""
    if (len(keys), key_sum(keys)) != (block.n_rows, block.key_sum):
        raise ValueError(
            f"storage: must not change during a fit, found other rows in "
            f"{block.file_in(folder)!r} of {storage.words!r}. Fit again, with a folder to "
            "which nothing else writes."
        )


def dealt(blocks: Sequence[Any], n_holders: int) -> list[list[Any]]:
    """Deal blocks or ranges to holders, neighbours to the same one.

    >>> [len(part) for part in dealt([(0, 9), (9, 12), (12, 13), (13, 14), (14, 18)], n_holders=3)]
    [1, 2, 2]
    """
    ends = [len(blocks) * holder // n_holders for holder in range(n_holders + 1)]
    return [list(blocks[a:b]) for a, b in pairwise(ends)]


def load(storage: Storage, share: Share, shelf: Shelf) -> tuple[dict[int, CodeArray], TrainingRows]:
    """Codes, by order, and targets and bag weights of the rows of a share."""
    codes, by_name = dict[int, CodeArray](), dict[str, NDArray[Any]]()
    start = 0
    for block in share.blocks:
        stop = start + block.n_rows
        arrays = _read(storage, share.folders.rows, block)
        inside = arrays.pop("rows")
        arrays |= _read(storage, share.folders.bags, block)
        for name, part in arrays.items():
            if name not in by_name:
                by_name[name] = shelf.empty((share.n_rows, part.shape[1]), part.dtype)
            by_name[name][start:stop] = part
        coded = read_codes(storage, share.folders.codes, block.rows, share.orders)
        for order, part in coded.items():
            if order not in codes:
                codes[order] = shelf.empty((len(part), share.n_rows), part.dtype)
            for feature, nodes in enumerate(part):
                codes[order][feature, start:stop] = nodes[inside]
        start = stop
    return codes, TrainingRows(**by_name, sizes=share.sizes)


def _read(storage: Storage, folder: str, block: Block) -> dict[str, NDArray[Any]]:
    """Arrays over the distinct rows of a block."""
    arrays = storage.read(block.file_in(folder))
    check_keys(storage, folder, block, arrays.pop("keys"))
    return arrays
