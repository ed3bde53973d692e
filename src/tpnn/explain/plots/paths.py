"""The path from sparse to full models: error against the number of components."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpnn.explain.path import Path
from tpnn.explain.plots.style import BLUE, GREY, LABEL_SIZE, PALE, TICK_SIZE, axes_or_new, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def path(path: Path, ax: Axes | None = None) -> Axes:
    """Draw the held-out loss of the models of a path against their number of components.

    Bars are standard errors of the difference to the full model. Grey crosses are the models of all
    components up to an order; the line shows the size of the fitted model.

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
    axes.axvline(path.chosen, color=PALE, linewidth=1.0)
    axes.errorbar(sizes, losses, errors, color=BLUE, marker="o", markersize=4, linewidth=1.2)
    marked = {**path.landmarks, "full": path.steps[-1]}
    for name, step in marked.items():
        if name in path.landmarks:
            axes.plot(step.n_components, step.loss, "x", color=GREY)
        axes.annotate(
            name, (step.n_components, step.loss), (0, 6), textcoords="offset points",
            ha="center", fontsize=TICK_SIZE, color=GREY,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_xticks(sizes, [str(size) for size in sizes], fontsize=TICK_SIZE)
    axes.minorticks_off()
    axes.set_xlabel("number of components", fontsize=LABEL_SIZE)
    axes.set_ylabel("held-out loss", fontsize=LABEL_SIZE)
    tidy(axes)
    return axes  # type: ignore[no-any-return]
