"""Card: the memory, the kernels and the few driver functions of an NVIDIA card."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module, resources
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tpnn.solvers.problem.problem import Problem

THREADS_PER_BLOCK = 512
BLOCKS_PER_KERNEL = 64  # bags run side by side, each with so many
LARGEST_FAST_BYTES = 96 * 1024  # of a block
KERNELS = ("visit", "scores")
OPTIONS = ("--std=c++17", "--fmad=false")  # a fused multiplication would round once, not twice


class CardError(ValueError):
    """A card was asked for that is not there, does not work or has too little memory."""


class Functions(NamedTuple):
    """Functions of the driver that compiled loops call; they return 0 or the number of an error."""

    launch: Any  # starts a kernel
    copy: Any  # copies bytes of the host to the card
    wait: Any  # waits until a stream of work is done

    @classmethod
    def of(cls, library: Any) -> Functions:
        """Functions of a library with the driver's interface."""
        address, number = ctypes.c_int64, ctypes.c_int32
        launch, copy = library.cuLaunchKernel, library.cuMemcpyHtoDAsync_v2
        wait = library.cuStreamSynchronize
        launch.argtypes = [address, *7 * [number], address, address, address]
        copy.argtypes = [address, address, address, address]
        wait.argtypes = [address]
        for function in (launch, copy, wait):
            function.restype = number
        return cls(launch, copy, wait)


class Memory(Protocol):
    """An array on the card."""

    address: int

    def write(self, values: NDArray[Any]) -> None:
        """Copy values of the same shape and type to the card."""

    def read(self) -> NDArray[Any]:
        """Copy the values to the host."""


class Card(Protocol):
    """What growth needs of a card."""

    functions: Functions
    kernels: Mapping[str, int]  # handles, by name

    @property
    def n_blocks(self) -> int:
        """Blocks of a kernel."""

    @property
    def n_threads(self) -> int:
        """Threads of a block."""

    def filled(self, values: NDArray[Any]) -> Memory:
        """Array on the card with the given values."""

    def shared(self, values: NDArray[Any]) -> NDArray[Any]:
        """Copy of values in memory of the host that the card can reach too."""

    def new_stream(self) -> Any:
        """Begin a stream of work, whose handle is its ``ptr``."""

    def require(self, n_bytes: float) -> None:
        """Raise CardError if the card has not so much memory free."""


class _CupyMemory:
    """An array of CuPy."""

    def __init__(self, array: Any) -> None:
        self._array, self.address = array, int(array.data.ptr)

    def write(self, values: NDArray[Any]) -> None:
        """Copy values to the card."""
        self._array.set(np.ascontiguousarray(values))

    def read(self) -> NDArray[Any]:
        """Copy the values to the host."""
        values: NDArray[Any] = self._array.get()
        return values


class NvidiaCard:
    """The first card of this machine, through CuPy."""

    n_blocks, n_threads = BLOCKS_PER_KERNEL, THREADS_PER_BLOCK

    def __init__(self) -> None:
        self._cupy, self._pinned = import_module("cupy"), import_module("cupyx")
        name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
        self.functions = Functions.of(ctypes.CDLL(name))
        source = resources.files(__package__).joinpath("visit.cu").read_text("utf-8")
        self._module = self._cupy.RawModule(code=source, options=OPTIONS)
        functions = {name: self._module.get_function(name) for name in KERNELS}
        for function in functions.values():
            function.max_dynamic_shared_size_bytes = LARGEST_FAST_BYTES
        self.kernels: Mapping[str, int] = {
            name: function.kernel.ptr for name, function in functions.items()
        }

    def filled(self, values: NDArray[Any]) -> _CupyMemory:
        """Array on the card with the given values."""
        array = self._cupy.empty(values.shape, values.dtype)
        memory = _CupyMemory(array)
        memory.write(values)
        return memory

    def shared(self, values: NDArray[Any]) -> NDArray[Any]:
        """Copy of values in page-locked memory, which has one address for host and card."""
        copy: NDArray[Any] = self._pinned.empty_pinned(values.shape, values.dtype)
        copy[...] = values
        return copy

    def new_stream(self) -> Any:
        """Begin a stream, which waits for no other."""
        return self._cupy.cuda.Stream(non_blocking=True)

    def require(self, n_bytes: float) -> None:
        """Raise CardError if the card has not so much memory free."""
        self._cupy.get_default_memory_pool().free_all_blocks()
        free, _ = self._cupy.cuda.runtime.memGetInfo()
        if n_bytes > free:
            raise CardError(
                f"device: the rows need {n_bytes / 1e9:.1f} GB of the card's memory, found "
                f"{free / 1e9:.1f} GB free. Pass device='cpu', which gives the same model."
            )


@cache
def nvidia_card() -> NvidiaCard:
    """Return the card of this process; raise CardError if there is none that works."""
    try:
        return NvidiaCard()
    except ImportError as error:
        raise CardError(
            "device: growth on a card needs CuPy, which is not installed. Run "
            "`pip install 'tpnn[cuda]'`, or pass device='cpu', which gives the same model."
        ) from error
    except Exception as error:  # whatever a driver, a card or a compiler says
        raise CardError(
            f"device: no NVIDIA card can be used: {error}. Check it with `nvidia-smi`, or pass "
            "device='cpu', which gives the same model."
        ) from error


def check(status: int) -> None:
    """Raise RuntimeError if a function of the driver failed."""
    if status:
        raise RuntimeError(
            f"device: the card failed with error {status} of the CUDA driver. Try again, or pass "
            "device='cpu', which gives the same model."
        )


FEWEST_ROWS = 200_000  # from which on "auto" looks for a card
BYTES_PER_ROW = 20  # of one output of one bag: two slopes; numbers and raw scores of its rows


def card_for(device: str, problem: Problem) -> Card | None:
    """Card on which a problem grows, or None for the memory of the host.

    "cuda" raises CardError where no card can be used. "auto" then stays in memory, as it does
    without CuPy and with few rows: the model is the same. So it is with frozen components, whose
    parts are taken out of steps in memory.
    """
    n_rows, has_frozen = len(problem.rows.y), problem.base is not None and problem.base.frozen
    is_small = n_rows < FEWEST_ROWS or not find_spec("cupy")
    if device == "cpu" or has_frozen or (device == "auto" and is_small):
        return None
    try:
        card = nvidia_card()
        card.require(bytes_needed(problem))
    except CardError:
        if device == "cuda":
            raise
        return None
    return card


def bytes_needed(problem: Problem) -> float:
    """Memory of the card that the rows of a problem need."""
    codes = sum(part.nbytes for part in problem.codes.by_order.values())
    n_lanes = problem.n_bags * problem.objective.n_outputs
    return float(codes + BYTES_PER_ROW * n_lanes * len(problem.rows.y))
