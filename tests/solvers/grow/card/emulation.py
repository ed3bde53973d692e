"""A card that is not there: its kernels, compiled for the host.

A compiler of C++ turns the same source into a library with the interface of the driver. So what the
kernels compute is tested everywhere; that many threads compute it together, only on a card.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tpnn.solvers.grow.card import card as card_module
from tpnn.solvers.grow.card.card import KERNELS, CardError, Functions

HERE = Path(__file__).parent
BYTES_BETWEEN = 64  # addresses of arrays are multiples of it


def aligned(values: NDArray[Any]) -> NDArray[Any]:
    """Copy of an array that begins where four of its values can be loaded at once."""
    room = np.zeros(values.nbytes + BYTES_BETWEEN, np.uint8)
    start = -room.ctypes.data % BYTES_BETWEEN
    copy = room[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    copy[...] = values
    return copy


class HostMemory:
    """Memory of the card that is memory of the host."""

    def __init__(self, values: NDArray[Any]) -> None:
        self.values = aligned(values)
        self.address = self.values.ctypes.data

    def write(self, values: NDArray[Any]) -> None:
        assert values.shape == self.values.shape
        assert values.dtype == self.values.dtype
        self.values[...] = values

    def read(self) -> NDArray[Any]:
        return self.values.copy()


class EmulatedCard:
    """A card whose kernels run on the host."""

    n_blocks, n_threads = 3, 1
    free_bytes = 1e9

    def __init__(self) -> None:
        self.functions = Functions.of(ctypes.CDLL(str(library())))
        self.kernels = dict(zip(KERNELS, (1, 2), strict=True))
        self.n_filled = 0

    def filled(self, values: NDArray[Any]) -> HostMemory:
        self.n_filled += 1
        return HostMemory(values)

    def shared(self, values: NDArray[Any]) -> NDArray[Any]:
        return aligned(values)

    def new_stream(self) -> Any:
        return SimpleNamespace(ptr=0)

    def require(self, n_bytes: float) -> None:
        if n_bytes > self.free_bytes:
            raise CardError("device: too little memory")


@cache
def library() -> Path:
    """Library with the kernels and a driver."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs g++, a compiler of C++")
    path = Path(mkdtemp()) / "emulation.so"
    source = Path(card_module.__file__).parent
    options = [
        "-std=c++17",
        "-O2",
        "-ffp-contract=off",
        "-shared",
        "-fPIC",
        "-Wno-psabi",
        f"-I{source}",
    ]
    subprocess.run([compiler, *options, HERE / "emulation.cpp", "-o", path], check=True)
    return path
