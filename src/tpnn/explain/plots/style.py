"""Style: colours, sizes and figures that all plots share."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tpnn._utils.rules import optional
from tpnn.loss.links import LINKS
from tpnn.table.words import column

if TYPE_CHECKING:
    from matplotlib.axes import Axes


BLUE, RED, GREY, PALE = "#2a6fbb", "#c3423f", "#8a8f98", "#d9dde3"
INK, PURPLE = "#20242b", "#8a5fb0"
COLOURS = ("#2a6fbb", "#c3423f", "#4a9c6d", "#8a5fb0", "#d08a2e", "#4c9fb5")
DIVERGING = "RdBu_r"
LABEL_SIZE, TICK_SIZE = 9, 8  # font sizes in points
MOST_INCHES = 12.0  # of a figure that grows with its labels
EMBEDDED_FONTS: Any = {"pdf.fonttype": 42, "ps.fonttype": 42}  # TrueType: text stays text
SMOOTHING_KERNEL = np.array([1, 4, 6, 4, 1]) / 16  # for densities on bins of equal width


def load_pyplot() -> Any:
    """Import pyplot, or say how to install it."""
    return optional("matplotlib.pyplot", "plots", "tpnn[plots]")


def axes_or_new(ax: Axes | None, width: float = 4.2, height: float = 3.0) -> Any:
    """Return ``ax``, or the axes of a new figure; width and height in inches."""
    return new_panels(1, 1, width, height)[1][0, 0] if ax is None else ax


def new_panels(n_rows: int, n_columns: int, width: float, height: float) -> tuple[Any, Any]:
    """Return a new figure and its axes, (n_rows, n_columns); width and height in inches."""
    figure, panels = load_pyplot().subplots(
        n_rows, n_columns, figsize=(width, height), layout="constrained", squeeze=False,
        FigureClass=_figure_class(),
    )  # fmt: skip
    return figure, panels


@cache
def _figure_class() -> type:
    """Figures that a notebook draws once and that are saved with fonts that embed.

    A notebook draws the value of a cell's last line and then every open figure of pyplot, so an
    ordinary figure that is returned is drawn twice. This one is closed in pyplot when it is drawn.
    """
    from matplotlib import get_backend, pyplot, rc_context
    from matplotlib.figure import Figure

    class PlotFigure(Figure):
        def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
            if "inline" in get_backend().lower():
                pyplot.close(self)
            return {}  # the notebook's own formatters make the picture

        def savefig(self, *arguments: Any, **options: Any) -> None:
            with rc_context(EMBEDDED_FONTS):
                super().savefig(*arguments, **options)

        def __reduce__(self) -> tuple[Any, ...]:
            return Figure, (), self.__getstate__()  # pickle cannot name a class inside a function

    return PlotFigure


def write_ticks(drawn: Any) -> None:
    """Let the number writer of the report write the ticks of an axis that has none of its own."""
    from matplotlib.ticker import ScalarFormatter

    if type(drawn.get_major_formatter()) is ScalarFormatter and drawn.get_scale() == "linear":
        drawn.set_major_formatter(_formatter_class()())


@cache
def _formatter_class() -> type:
    from matplotlib.ticker import ScalarFormatter

    class Ticks(ScalarFormatter):
        def format_ticks(self, values: Any) -> list[str]:
            return tick_words(values)

        def __reduce__(self) -> tuple[Any, ...]:
            return ScalarFormatter, (), vars(self)  # as figures, pickle cannot name it

    return Ticks


def tick_words(values: Any) -> list[str]:
    """Write numbers at equal distances, with the decimals of their step.

    >>> tick_words([0.0, 2.5, 5.0]), tick_words([-1e5, 0.0, 1e5])
    (['0.0', '2.5', '5.0'], ['−100 k', '0', '100 k'])
    """
    numbers = [float(f"{x:.12g}") for x in values]
    steps = np.diff(sorted(set(numbers)))
    if not len(steps):
        return column(numbers)
    power = 10.0 ** np.floor(np.log10(steps.min()) + 1e-9)
    is_round = abs(steps.min() / power - round(steps.min() / power)) < 1e-6
    return column(numbers, 2 * power if is_round else power / 5)


def tidy(axes: Any) -> None:
    """Leave two thin lines and small ticks around a plot."""
    write_ticks(axes.yaxis)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_linewidth(0.7)
    axes.tick_params(length=3, width=0.7)
    axes.yaxis.set_tick_params(labelsize=TICK_SIZE)


def tidy_names(axes: Any) -> None:
    """Tidy a plot whose y axis is a list of names: without its line and ticks."""
    tidy(axes)
    write_ticks(axes.xaxis)
    axes.xaxis.set_tick_params(labelsize=TICK_SIZE)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0, labelsize=LABEL_SIZE)


def finished(axes: Any, x: str = "", y: str = "", has_legend: bool = False) -> Any:
    """Name what is along the sides of a plot, where they have no names yet, and tidy it."""
    if x:
        axes.set_xlabel(x, fontsize=LABEL_SIZE)
    if y:
        axes.set_ylabel(y, fontsize=LABEL_SIZE)
    if has_legend:
        axes.legend(frameon=False, fontsize=TICK_SIZE)
    tidy(axes)
    return axes


def legend_above(axes: Any) -> None:
    """Put the legend between the title and the plot, where it hides nothing."""
    axes.legend(frameon=False, fontsize=TICK_SIZE, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)


def colour_bar(axes: Any, image: Any, label: str = "") -> Any:
    """Add a thin colour bar."""
    bar = axes.figure.colorbar(image, ax=axes, pad=0.02, aspect=28)
    bar.set_label(label, fontsize=LABEL_SIZE)
    bar.outline.set_visible(False)
    write_ticks(bar.ax.yaxis)
    bar.ax.tick_params(labelsize=TICK_SIZE, length=2)
    return bar


def write_factor(number: float, _: Any = None) -> str:
    """Write exp of a number as a factor.

    >>> write_factor(0.4)
    '×1.49'
    """
    return f"×{LINKS['log'].inverse(np.array(number)):.3g}"


def paler(colour: str) -> tuple[float, ...]:
    """Return a colour mixed with white: one part of the colour to three of white."""
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return tuple(1 - 0.25 * (1 - channel) for channel in channels)


def check_explanation(explanation: Any) -> None:
    """Refuse anything but an explanation, such as the estimator itself."""
    if not hasattr(explanation, "check_one_output"):
        raise TypeError(
            f"explanation: an Explanation is needed, found {type(explanation).__name__}. "
            "Pass model.explain(), or model.explain(X) for plots of rows."
        )


def check_one_output(explanation: Any) -> None:
    """Refuse anything but an explanation of a single output."""
    check_explanation(explanation)
    explanation.check_one_output()
