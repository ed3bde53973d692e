"""Reader: who makes passes over the rows of files, if not this process.

A fit need not know: whoever starts it says so with ``reading_by``, and the columns of a source get
somebody else who reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tpnn.table.files.source import Source
from tpnn.table.stored import Elsewhere

Reader = Callable[[Source], Elsewhere | None]  # None for a source that others cannot read

_READER: ContextVar[Reader | None] = ContextVar("reader", default=None)


@contextmanager
def reading_by(reader: Reader) -> Iterator[None]:
    """Let tables of fits of this thread be read elsewhere for the duration of the context."""
    token = _READER.set(reader)
    try:
        yield
    finally:
        _READER.reset(token)


def current_reader() -> Reader | None:
    """Return who reads the tables of a fit of this thread; None for this process."""
    return _READER.get()
