"""Style: colours, sizes and small habits that all plots share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tpnn.explain.reading import Reading
from tpnn.loss.links import LINKS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


BLUE, RED, GREY, PALE = "#2a6fbb", "#c3423f", "#8a8f98", "#d9dde3"
COLOURS = ("#2a6fbb", "#c3423f", "#4a9c6d", "#8a5fb0", "#d08a2e", "#4c9fb5")
DIVERGING = "RdBu_r"
LABEL_SIZE, TICK_SIZE = 9, 8  # font sizes in points
MOST_INCHES = 12.0  # of a figure that grows with its labels
SMOOTHING_KERNEL = np.array([1, 4, 6, 4, 1]) / 16  # for densities on bins of equal width


def load_pyplot() -> Any:
    """Import pyplot, or say how to install it."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            'plots: matplotlib is needed and not installed. Run: pip install "tpnn[plots]"'
        ) from error
    return pyplot


def axes_or_new(ax: Axes | None, width: float = 4.2, height: float = 3.0) -> Any:
    """Return the axes given, or those of a new figure; width and height in inches."""
    return new_panels(1, 1, width, height)[1][0, 0] if ax is None else ax


def new_panels(n_rows: int, n_columns: int, width: float, height: float) -> tuple[Any, Any]:
    """Return a new figure and its axes, (n_rows, n_columns); width and height in inches."""
    pyplot = load_pyplot()
    from tpnn.explain.plots.figure import PlotFigure

    figure, panels = pyplot.subplots(
        n_rows, n_columns, figsize=(width, height), layout="constrained", squeeze=False,
        FigureClass=PlotFigure,
    )  # fmt: skip
    return figure, panels


def tidy(axes: Any) -> None:
    """Leave two thin lines and small ticks around a plot."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_linewidth(0.7)
    axes.tick_params(length=3, width=0.7)
    axes.yaxis.set_tick_params(labelsize=TICK_SIZE)


def tidy_names(axes: Any) -> None:
    """Tidy a plot whose y axis is a list of names: without its line and ticks."""
    tidy(axes)
    axes.xaxis.set_tick_params(labelsize=TICK_SIZE)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0, labelsize=LABEL_SIZE)


def colour_bar(axes: Any, image: Any, label: str = "") -> Any:
    """Add a thin colour bar."""
    bar = axes.figure.colorbar(image, ax=axes, pad=0.02, aspect=28)
    bar.set_label(label, fontsize=LABEL_SIZE)
    bar.outline.set_visible(False)
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
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return tuple(1 - 0.25 * (1 - part) for part in parts)


def check_explanation(explanation: Any) -> None:
    """Refuse what is not an explanation, such as the estimator itself."""
    if not isinstance(explanation, Reading):
        raise TypeError(
            f"explanation: an Explanation is needed, found {type(explanation).__name__}. "
            "Pass model.explain(), or model.explain(X) for plots of rows."
        )


def check_one_output(explanation: Any) -> None:
    """Refuse what is not an explanation of a single output."""
    check_explanation(explanation)
    explanation.check_one_output()
