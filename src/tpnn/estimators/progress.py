"""ProgressBar: shows how far a fit has come, on a terminal or in a notebook."""

from __future__ import annotations

import logging
import sys
import warnings
from typing import Any

from tpnn._utils.compile import has_screen
from tpnn.solvers.solution import Event

DELAY_SECONDS = 0.5  # shorter fits show no bar unless verbose=1


class ProgressBar:
    """A progress bar; in a notebook a widget, or text if ipywidgets is not installed.

    With verbose="auto" it is shown on a terminal or in a notebook, if a fit takes a while.
    """

    def __init__(self, title: str, verbose: str | int) -> None:
        self.title, self.delay = title, DELAY_SECONDS if verbose == "auto" else 0.0
        self.is_shown = has_screen() if verbose == "auto" else bool(verbose)
        self._bar_class = _bar_class()
        self._bar: Any = None

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *exception: object) -> None:
        self._close()

    def begin(self, total: int, unit: str) -> None:
        """Show a new bar for the expected number of events; ``unit`` says what one event is."""
        self._close()
        self._bar = self._bar_class(
            total=total, desc=self.title, unit=unit, leave=self.is_shown,
            disable=not self.is_shown, delay=self.delay,
        )  # fmt: skip

    def advance(self, event: Event) -> None:
        """Move the bar by one event, and log it."""
        event.log(logging.DEBUG)
        self._bar.set_postfix(validation_loss=f"{event.validation_loss:.4f}", refresh=False)
        self._bar.update(1)

    def say(self, text: str) -> None:
        """Write a line above the bar, where one may be shown."""
        if self.is_shown:
            self._bar_class.write(text, file=sys.stderr)

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.total = self._bar.n  # a fit that stops early shows a full bar
            self._bar.close()


def _bar_class() -> Any:
    """Bar for this place: a widget in a notebook, else text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # text will do where there are no widgets
        from tqdm.auto import tqdm
    return tqdm
