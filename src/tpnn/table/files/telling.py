"""Telling: who waits at a screen is told every few seconds how far the reading has come."""

from __future__ import annotations

import time

from tpnn._utils.announce import announcer

SECONDS_BETWEEN_LINES = 5.0


class Telling:
    """Says how much is done and how long the rest takes.

    Parameters
    ----------
    total : int
        Amount of work; the clock starts now.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self._began = self._last = time.monotonic()

    def tell(self, words: str, done: int) -> None:
        """Say where the work is, and the remaining time, unless the last line is too recent."""
        now = time.monotonic()
        if now - self._last >= SECONDS_BETWEEN_LINES:
            self._last = now
            announcer().tell(f"{words}, about {self.seconds_left(done, now):.0f} s left.")

    def seconds_left(self, done: int, now: float) -> float:
        """Estimate the remaining time from the time that the work took so far."""
        return (now - self._began) * (self.total / max(done, 1) - 1)
