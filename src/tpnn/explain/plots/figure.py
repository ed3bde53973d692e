"""PlotFigure: the figure of a plot, drawn once in a notebook and saved with fonts that embed."""

from __future__ import annotations

from typing import Any

from matplotlib import get_backend, pyplot, rc_context
from matplotlib.figure import Figure

EMBEDDED_FONTS: Any = {"pdf.fonttype": 42, "ps.fonttype": 42}  # TrueType: text stays text


class PlotFigure(Figure):
    """A figure of pyplot that a notebook draws exactly once.

    A notebook draws the value of a cell's last line and then every open figure of pyplot, so an
    ordinary figure that is returned is drawn twice. This one is closed in pyplot when it is drawn.
    """

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """Close the figure in pyplot; the notebook's own formatters make the picture."""
        if "inline" in get_backend().lower():
            pyplot.close(self)
        return {}

    def savefig(self, *arguments: Any, **options: Any) -> None:
        """Save the figure; in PDF and PostScript its letters stay letters that can be searched."""
        with rc_context(EMBEDDED_FONTS):
            super().savefig(*arguments, **options)
