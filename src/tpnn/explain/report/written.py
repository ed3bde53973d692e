"""Report: a page that was written, as a path and as something that a notebook shows."""

from __future__ import annotations

import os
from dataclasses import dataclass
from html import escape
from pathlib import Path

FRAME_HEIGHT = 640  # of the page in a notebook, in pixels


@dataclass(frozen=True)
class Report:
    """A page that was written: its path, which ``open`` accepts too; a notebook shows the page.

    Parameters
    ----------
    path : Path
        Where the page is.

    Examples
    --------
    >>> report = Report(Path("report.html"))
    >>> os.fspath(report)
    'report.html'
    """

    path: Path

    def __fspath__(self) -> str:
        return os.fspath(self.path)

    def _repr_html_(self) -> str:
        """Link to the page and, as long as the file is there, show it in a frame.

        The frame holds the page itself: notebooks may not open files of other folders.
        """
        link = f'<a href="{escape(self.path.as_posix())}">{escape(str(self.path))}</a>'
        if not self.path.is_file():
            return link
        page = escape(self.path.read_text(encoding="utf-8"))
        style = f"width: 100%; height: {FRAME_HEIGHT}px; border: 0"
        return f'{link}<iframe style="{style}" srcdoc="{page}"></iframe>'
