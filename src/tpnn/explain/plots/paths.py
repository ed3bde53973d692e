"""The path from sparse to full models: error against the number of components."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

from tpnn.explain.path import Path
from tpnn.explain.plots.style import BLUE, GREY, LABEL_SIZE, PALE, TICK_SIZE, axes_or_new, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKS = "x+sd"  # of the models of all components up to an order


def path(path: Path, ax: Axes | None = None) -> Axes:
    """Draw the held-out loss of the models of a path against their number of components.

    Bars are standard errors of the difference to the full model, which has a ring. Grey marks are
    the models of all components up to a lower order: where the full model has pairs but no triples,
    order 1 alone, and the full model is that of order 2. The line shows the size of the fitted
    model.

    Parameters
    ----------
    path : Path
        What ``model.path()`` returns.
    ax : Axes, optional
        Where to draw; by default a new figure.
    """
    if not isinstance(path, Path):
        raise TypeError(
            f"path: must be a Path, found {type(path).__name__}. Pass model.path() of a fitted "
            "estimator."
        )
    axes = axes_or_new(ax)
    sizes = [step.n_components for step in path.steps]
    losses = [step.loss for step in path.steps]
    errors = [step.standard_error for step in path.steps]
    line = {"color": BLUE, "marker": "o", "markersize": 4, "linewidth": 1.2}
    axes.axvline(path.chosen, color=PALE, linewidth=1.2, label="fitted model")
    axes.errorbar(sizes, losses, errors, label="best components", **line)
    for (name, step), mark in zip(path.landmarks.items(), cycle(MARKS)):
        axes.plot(step.n_components, step.loss, mark, color=GREY, label=name)
    ring = {"marker": "o", "markersize": 9, "fillstyle": "none", "linestyle": ""}
    axes.plot(sizes[-1], losses[-1], color=GREY, label=_full_name(path), **ring)
    axes.set_xscale("log")
    axes.set_xticks(sizes, [str(size) for size in sizes], fontsize=TICK_SIZE)
    axes.minorticks_off()
    axes.set_xlabel("number of components", fontsize=LABEL_SIZE)
    axes.set_ylabel("held-out loss", fontsize=LABEL_SIZE)
    axes.legend(frameon=False, fontsize=TICK_SIZE)
    tidy(axes)
    return axes  # type: ignore[no-any-return]


def _full_name(path: Path) -> str:
    """Say that the last model has all components, and up to which order."""
    orders = [len(component) for step in path.steps for component in step.added]
    return f"full, order {max(orders)}" if orders else "full"
