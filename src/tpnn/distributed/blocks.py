"""Blocks: ranges of the coded rows, written by the driver and loaded by whoever holds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpnn._shelf import Shelf
from tpnn._typing import CodeArray, Float32Array
from tpnn.distributed.storage import Storage
from tpnn.problem.problem import Problem
from tpnn.problem.rows import KeyArray, TrainingRows
from tpnn.problem.states import digest_of

ROWS_PER_BLOCK = 1 << 18
HELD_ORDERS = (1, 2)  # whose components grow where the rows are


@dataclass(frozen=True)
class Block:
    """A range of the rows, in their canonical order.

    Parameters
    ----------
    first, last : int
        The rows from the first to that before the last.
    key_sum : int
        Sum of the keys of the rows, modulo 2^64.
    """

    first: int
    last: int
    key_sum: int

    def file_in(self, folder: str) -> str:
        """Name of its file in a folder of the storage."""
        return f"{folder}/{self.first:012}-{self.last:012}.npz"


@dataclass(frozen=True)
class Share:
    """The blocks of one holder.

    Parameters
    ----------
    rows, bags : str
        Folders with the coded rows, and with their weights in the bags.
    blocks : list of Block
        Its blocks.
    sizes : array of shape (n_bags,)
        Number of rows that the training side of each bag represents.
    """

    rows: str
    bags: str
    blocks: Sequence[Block]
    sizes: Float32Array

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(block.last - block.first for block in self.blocks)


def ranges(n_rows: int, n_holders: int) -> list[tuple[int, int]]:
    """Ranges of rows, none too long, and at least as many as there are holders.

    >>> ranges(n_rows=5, n_holders=2)
    [(0, 2), (2, 5)]
    """
    n_parts = max(n_holders, -(-n_rows // ROWS_PER_BLOCK))
    return list(pairwise(n_rows * part // n_parts for part in range(n_parts + 1)))


def key_sum(keys: KeyArray) -> int:
    """Sum of keys modulo 2^64."""
    return int(keys.sum(dtype=np.uint64))


def folders_of(problem: Problem) -> tuple[str, str]:
    """Names of the folders of a problem's rows and of its bags, which tell their content."""
    rows, keys = problem.rows, problem.distinct.keys
    codes = [problem.codes.by_order[d] for d in HELD_ORDERS if d in problem.codes.by_order]
    by_row = digest_of((codes, rows.y, rows.offset, keys))
    by_bag = digest_of((rows.training, rows.validation, keys))
    return f"rows-{by_row}", f"bags-{by_bag}"


def write_blocks(
    storage: Storage, problem: Problem, folders: tuple[str, str], n_holders: int
) -> list[Block]:
    """Write all rows and their weights in the bags, but for what an earlier call has written."""
    rows, keys, codes = problem.rows, problem.distinct.keys, problem.codes.by_order
    by_row, by_bag = folders
    blocks = []
    for first, last in ranges(len(keys), n_holders):
        block = Block(first, last, key_sum(keys[first:last]))
        some = slice(first, last)
        if not is_written(storage, by_row, block):
            known: dict[str, Any] = {
                f"codes_{d}": codes[d][:, some] for d in HELD_ORDERS if d in codes
            }
            known |= {"y": rows.y[some], "offset": rows.offset[some], "keys": keys[some]}
            storage.write(block.file_in(by_row), known)
        if not is_written(storage, by_bag, block):
            weights = {"training": rows.training[some], "validation": rows.validation[some]}
            storage.write(block.file_in(by_bag), weights | {"keys": keys[some]})
        blocks.append(block)
    return blocks


def is_written(storage: Storage, folder: str, block: Block) -> bool:
    """Whether an earlier call has written a block; one with other rows is refused."""
    file = block.file_in(folder)
    if not storage.has(file):
        return False
    check_keys(storage, folder, block, storage.read(file, ["keys"])["keys"])
    return True


def check_keys(storage: Storage, folder: str, block: Block, keys: KeyArray) -> None:
    """Refuse a file with other rows than those of its block."""
    if (len(keys), key_sum(keys)) != (block.last - block.first, block.key_sum):
        raise ValueError(
            f"storage: must not change during a fit, found other rows in "
            f"{block.file_in(folder)!r} of {storage.words!r}. Fit again, with a folder to "
            "which nothing else writes."
        )


def dealt(blocks: Sequence[Block], n_holders: int) -> list[list[Block]]:
    """Deal blocks to holders, neighbours to the same one.

    >>> [len(part) for part in dealt(5 * [Block(0, 9, 0)], n_holders=3)]
    [1, 2, 2]
    """
    ends = [len(blocks) * holder // n_holders for holder in range(n_holders + 1)]
    return [list(blocks[a:b]) for a, b in pairwise(ends)]


def load(storage: Storage, share: Share, shelf: Shelf) -> tuple[dict[int, CodeArray], TrainingRows]:
    """Codes, by order, and targets and bag weights of the rows of a share."""
    rows = _loaded(storage, share.rows, share, shelf)
    bags = _loaded(storage, share.bags, share, shelf)
    codes = {d: rows[f"codes_{d}"] for d in HELD_ORDERS if f"codes_{d}" in rows}
    known = rows["y"], rows["offset"], bags["training"], bags["validation"]
    return codes, TrainingRows(*known, share.sizes)


def _loaded(storage: Storage, folder: str, share: Share, shelf: Shelf) -> dict[str, NDArray[Any]]:
    """Arrays of a folder over the rows of a share; the rows are the last axis of codes."""
    loaded: dict[str, NDArray[Any]] = {}
    start = 0
    for block in share.blocks:
        arrays = storage.read(block.file_in(folder))
        keys = arrays.pop("keys")
        check_keys(storage, folder, block, keys)
        for name, part in arrays.items():
            is_coded = name.startswith("codes")
            shape = (len(part), share.n_rows) if is_coded else (share.n_rows, part.shape[1])
            whole = loaded.get(name)
            if whole is None:
                whole = loaded[name] = shelf.empty(shape, part.dtype)
            rows = slice(start, start + len(keys))
            whole[(slice(None), rows) if is_coded else rows] = part
        start += len(keys)
    return loaded
