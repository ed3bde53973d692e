"""Compilation: the one decorator of all loops that numba compiles.

Compiled loops are kept in a folder, so that the next process need not compile them again. Where no
folder can be written, for example on a read-only file system or a full disk, every process
compiles them anew; the results are the same.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import numba as nb
from numba.core.caching import FunctionCache, NullCache
from numba.core.event import Listener, register

Function = TypeVar("Function", bound=Callable[..., Any])

LOGGER = logging.getLogger("tpnn")


class _ForgivingCache(FunctionCache):
    """Numba's cache of one function, in which unreadable or unwritable files are no error."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled code of a signature, or None if it must be compiled."""
        try:
            return super().load_overload(sig, target_context)
        except OSError:
            _say_uncached()
        except Exception:  # left by another version, whose types are gone, or cut off
            try:
                self.flush()
            except OSError:
                _say_uncached()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the compiled code of a signature where that is possible."""
        try:
            super().save_overload(sig, data)
        except OSError:
            _say_uncached()


def compiled(**options: Any) -> Callable[[Function], Function]:
    """Decorate a function that numba compiles, without the interpreter lock.

    The options are those of ``numba.njit``. With ``fastmath`` the order of sums, and so the bits of
    a model, would depend on the processor.

    A part that has one caller is compiled within it (``inline="always"``): all that lies below a
    part of its own is optimised once more for it. Assigning arrays to rows of arrays, and
    sorting, would take a second each.
    """

    def decorated(function: Function) -> Function:
        compiled_function: Any = nb.njit(nogil=True, **options)(function)
        try:
            compiled_function._cache = _ForgivingCache(function)  # what cache=True does
        except RuntimeError:  # numba has no folder that it can write
            _say_uncached()
        result: Function = compiled_function
        return result

    return decorated


def is_kept(function: Any) -> bool:
    """Whether an earlier process has left compiled code of a function that is still up to date.

    Numba has no public function for it. Where its private one fails, the answer is no.
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


Say = Callable[[str], object]


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and "IPKernelApp" in shell.config


def has_screen() -> bool:
    """Whether a person sees what is written to stderr: on a terminal or in a notebook."""
    on_terminal = sys.stderr is not None and sys.stderr.isatty()  # a window may have no stderr
    return on_terminal or is_notebook()


def _say_on_screen(text: str) -> None:
    if has_screen():
        sys.stderr.write(text + "\n")


class Announcer(Listener):
    """Says in one line that our loops are being compiled, once for each kind of work.

    The line is a record of level INFO of the logger "tpnn". If that logger leaves out INFO, the
    line goes to the fit that began last, else to the screen.
    """

    def __init__(self) -> None:
        self.says: list[Say] = [_say_on_screen]  # one more for each fit under way, in any thread
        self._announced: set[str] = set()

    def on_start(self, event: Any) -> None:
        """Announce the compilation of one of our functions."""
        module = event.data["dispatcher"].py_func.__module__
        if not module.startswith("tpnn."):
            return
        work, wait = "fit", "about half a minute"
        if module.startswith("tpnn.model."):
            work, wait = "predict large tables", "a few seconds"
        if work not in self._announced:
            self._announced.add(work)
            has_cache = not isinstance(event.data["dispatcher"]._cache, NullCache)
            often = "once for each installation" if has_cache else "in every process"
            self.tell(f"Compiling the loops that {work}: {wait}, {often}.")

    def tell(self, text: str) -> None:
        """Log a line; if the logger leaves out INFO, pass the line to the fit or to the screen."""
        LOGGER.info(text)
        if not LOGGER.isEnabledFor(logging.INFO):
            self.says[-1](text)

    def on_end(self, event: Any) -> None:
        """Do nothing."""


@cache
def announcer() -> Announcer:
    """Return the one announcer of this process, which listens to numba from now on."""
    listener = Announcer()
    register("numba:compile", listener)
    return listener


@contextmanager
def announcing(say: Say) -> Iterator[None]:
    """Pass announcements to ``say`` for the duration of the context."""
    says = announcer().says
    says.append(say)
    try:
        yield
    finally:
        says.remove(say)
