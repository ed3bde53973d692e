"""Shelves: arrays in memory or in files, with the same values and nothing left behind."""

from __future__ import annotations

import gc
import os
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

from tpnn._utils import shelf as _shelf
from tpnn._utils.shelf import MEMORY, Shelf


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    """A shelf that keeps everything in files."""
    monkeypatch.setattr(_shelf, "SMALLEST_FILE_BYTES", 0)
    return Shelf(tmp_path)


def is_mapped(array: np.ndarray) -> bool:
    """Whether the values of an array lie in a file."""
    base = array
    while base is not None and not isinstance(base, np.memmap):
        base = base.base if isinstance(base, np.ndarray) else None
    return base is not None


def test_values_are_kept_in_files(shelf: Shelf) -> None:
    values = np.arange(12.0).reshape(3, 4)
    kept = shelf.keep(values)
    assert type(kept) is np.ndarray
    assert is_mapped(kept)
    assert np.array_equal(kept, values)
    kept += 1
    assert np.array_equal(kept, values + 1)


def test_memory_keeps_the_array_itself() -> None:
    values = np.arange(3.0)
    assert MEMORY.keep(values) is values
    assert not is_mapped(MEMORY.empty((2, 3), np.uint8))


def test_small_arrays_stay_in_memory(tmp_path: Path) -> None:
    values = np.arange(3.0)
    assert Shelf(tmp_path).keep(values) is values


def test_an_array_without_rows_is_no_file(shelf: Shelf) -> None:
    assert shelf.empty((0, 3), np.float32).shape == (0, 3)


def test_no_file_is_left_behind(shelf: Shelf, tmp_path: Path) -> None:
    kept = shelf.keep(np.ones(1000))
    assert list(tmp_path.iterdir()) == [] or os.name == "nt"
    del kept
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_refused_at_once(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(_shelf.shutil, "disk_usage", lambda folder: usage(10, 9, 1))
    with pytest.raises(OSError, match=r"TMPDIR: 8\.0 GB are needed .* found 0\.0 GB free"):
        shelf.empty((1000, 1000, 1000), np.float64)
