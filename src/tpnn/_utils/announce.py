"""Announcements: who waits at a screen is told that numba is compiling."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from numba.core.caching import NullCache
from numba.core.event import Listener, register

LOGGER = logging.getLogger("tpnn")

Say = Callable[[str], object]


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and "IPKernelApp" in shell.config


def has_screen() -> bool:
    """Whether somebody sees what is written to stderr: on a terminal or in a notebook."""
    on_terminal = sys.stderr is not None and sys.stderr.isatty()  # a window may have no stderr
    return on_terminal or is_notebook()


def _say_on_screen(text: str) -> None:
    if has_screen():
        sys.stderr.write(text + "\n")


class Announcer(Listener):
    """Says in one line that our loops are being compiled, once for each kind of work.

    The line is a record of level INFO of the logger "tpnn". Where nobody listens to that, it goes
    to the fit that began last, else to the screen.
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
            is_kept = not isinstance(event.data["dispatcher"]._cache, NullCache)
            often = "once for each installation" if is_kept else "in every process"
            text = f"Compiling the loops that {work}: {wait}, {often}."
            self.tell(text)

    def tell(self, text: str) -> None:
        """Log a line; where nobody listens to the log, pass it to the fit or to the screen."""
        LOGGER.info(text)
        if not LOGGER.isEnabledFor(logging.INFO):
            self.says[-1](text)

    def on_end(self, event: Any) -> None:
        """Do nothing."""


@cache
def announcer() -> Announcer:
    """Return the one announcer of this process, which listens to numba from now on."""
    listener = Announcer()
    register("numba:compile", listener)  # type: ignore[no-untyped-call]
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
