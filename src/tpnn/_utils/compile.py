"""Compilation: the one decorator of all loops that numba compiles.

Compiled loops are kept in a folder, so that the next process need not compile them again. Where no
folder can be written, for example on a read-only file system or a full disk, every process
compiles them anew; the results are the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import numba as nb
from numba.core.caching import FunctionCache

Function = TypeVar("Function", bound=Callable[..., Any])

LOGGER = logging.getLogger("tpnn")


class _ForgivingCache(FunctionCache):
    """Numba's cache of one function; files that cannot be read or written are no error."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled code of a signature, or None if it must be compiled."""
        try:
            return super().load_overload(sig, target_context)
        except OSError:
            _say_uncached()
        except Exception:  # left by another version, whose types are gone, or cut off
            self._forget()
        return None

    def _forget(self) -> None:
        """Throw away the compiled code that is kept."""
        try:
            self.flush()
        except OSError:
            _say_uncached()

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the compiled code of a signature where that is possible."""
        try:
            super().save_overload(sig, data)
        except OSError:
            _say_uncached()


def compiled(**options: Any) -> Callable[[Function], Function]:
    """Decorate a function that numba compiles, without the interpreter lock.

    Parameters
    ----------
    **options
        Further options of ``numba.njit``, such as ``fastmath=True``.
    """

    def decorated(function: Function) -> Function:
        compiled_function: Any = nb.njit(nogil=True, **options)(function)
        try:
            compiled_function._cache = _ForgivingCache(function)  # what cache=True does
        except RuntimeError:  # numba found no folder that it can write
            _say_uncached()
        result: Function = compiled_function
        return result

    return decorated


def is_kept(function: Any) -> bool:
    """Whether an earlier process has left compiled code of a function that is not out of date.

    Numba has no public word for it. Where its private one fails, the answer is no.
    """
    try:
        return bool(function._cache._cache_file._load_index())
    except Exception:  # whatever an index of another version, or a damaged one, raises
        return False


@cache
def _say_uncached() -> None:
    """Log, once per process, that compiled code is not kept."""
    LOGGER.warning(
        "Compiled code cannot be kept, so every process compiles it again. Point the environment "
        "variable NUMBA_CACHE_DIR to a folder that can be written."
    )
