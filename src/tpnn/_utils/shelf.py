"""Shelf: where large arrays are kept, in memory or in files."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

SMALLEST_FILE_BYTES = 1 << 22  # smaller arrays stay in memory


class Shelf:
    """Makes large arrays: in memory, or in files of a folder that are mapped into memory.

    The system keeps as much of a mapped file in memory as there is room for. The files have no
    names, so nothing is left behind when the arrays are gone, however the process ends.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = folder

    @property
    def is_on_disk(self) -> bool:
        """Whether large arrays are in files."""
        return self.folder is not None

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Array whose values are still to be set; in a file they are zero."""
        n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        if not self.is_on_disk or n_bytes <= SMALLEST_FILE_BYTES:
            return np.empty(shape, dtype)
        with tempfile.TemporaryFile(dir=self.folder) as file:
            self._reserve(file.fileno(), n_bytes)
            mapped = np.memmap(file, dtype, "r+", shape=shape)
        return np.asarray(mapped)

    def zeros(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Array of zeros."""
        array = self.empty(shape, dtype)
        array[...] = 0
        return array

    def keep(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return an array with these values; the same array if it may stay in memory."""
        if not self.is_on_disk or values.nbytes <= SMALLEST_FILE_BYTES:
            return values
        kept = self.empty(values.shape, values.dtype)
        kept[...] = values
        return kept

    def _reserve(self, descriptor: int, n_bytes: int) -> None:
        """Give a file its size; a mapped file on a full disk would end the process later."""
        assert self.folder is not None
        free = shutil.disk_usage(self.folder).free
        if free < n_bytes:
            raise OSError(
                f"TMPDIR: {n_bytes / 1e9:.1f} GB are needed for rows that do not fit into memory, "
                f"found {free / 1e9:.1f} GB free in {os.fspath(self.folder)!r}. Make room, or set "
                "the environment variable TMPDIR to a folder on a larger disk."
            )
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, n_bytes)
        else:
            os.truncate(descriptor, n_bytes)


MEMORY = Shelf()
