"""Worker: a reader and holder of rows in a process of its own, somewhere in a cluster."""

from __future__ import annotations

import tempfile
import time

from tpnn import __version__
from tpnn._utils.shelf import Shelf
from tpnn.solvers.cluster.blocks import Share, load
from tpnn.solvers.cluster.holder import Holder, Session
from tpnn.solvers.cluster.messages import Answer, Message, combined
from tpnn.solvers.cluster.passes import Pass, Read
from tpnn.solvers.cluster.storage import Storage


class Worker:
    """Reads a part of the table, loads its blocks from a storage and answers for their rows.

    Parameters
    ----------
    storage : Storage
        Where the blocks are.
    """

    def __init__(self, storage: Storage) -> None:
        self.storage, self.shelf = storage, Shelf(tempfile.gettempdir())
        self._began = time.process_time()

    def version(self) -> str:
        """Version of tpnn on this machine."""
        return __version__

    def read(self, asked: Pass) -> Read:
        """Make a pass over some columns or rows of the table."""
        return asked.run(self.shelf)

    def hold(self, share: Share) -> None:
        """Load blocks."""
        self.holder = Holder(*load(self.storage, share, self.shelf), self.shelf)

    def begin(self, session: Session) -> None:
        """Begin growths."""
        self.holder.begin(session)

    def answer(self, message: Message) -> Answer:
        """Apply steps, then answer questions for the rows that are held here."""
        return self.holder.answer(message)

    def add(self, *answers: Answer) -> Answer:
        """Combine the answers of some workers, so that the driver gets fewer of them."""
        return combined(answers)

    def busy_seconds(self) -> float:
        """Return the seconds that its core was busy since it began."""
        return time.process_time() - self._began
