"""Plots of an Explanation: each takes ``ax=None`` and returns the matplotlib Axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tpnn.explain import Explanation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, GREY = "#2a6fbb", "#8a8f98"


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            'plots: matplotlib is needed and not installed. Run: pip install "tpnn[plots]"'
        ) from error
    return pyplot


def _axes(ax: Axes | None) -> Any:
    return _pyplot().subplots(figsize=(4.2, 3.0), layout="constrained")[1] if ax is None else ax


def _find(explanation: Explanation, component: Sequence[str]) -> int:
    names = explanation.model.component_names
    wanted = (component,) if isinstance(component, str) else tuple(component)
    for index, candidate in enumerate(names):
        if set(candidate) == set(wanted):
            return index
    raise ValueError(
        f"component: must be one of the model's components, found {wanted}. "
        f"It has {len(names)}, such as {names[0]} and {names[-1]}."
    )


def _tidy(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(length=3, labelsize=8)


def main_effect(explanation: Explanation, component: Sequence[str], ax: Axes | None = None) -> Axes:
    """Draw a main effect on the feature's own scale, with two standard deviations of the bags.

    Ticks along the bottom are the deciles of the feature.
    """
    index = _find(explanation, component)
    model = explanation.model
    (axis,) = model.axes(model.components.components[index])
    mean, spread = model.tables[index], model.spreads[index]
    axes = _axes(ax)
    axes.axhline(0, color=GREY, linewidth=0.7)
    axes.fill_between(
        axis.values, mean - 2 * spread, mean + 2 * spread, color=BLUE, alpha=0.18, linewidth=0
    )
    axes.plot(axis.values, mean, color=BLUE, linewidth=1.6)
    deciles = np.interp(np.linspace(0.1, 0.9, 9), axis.positions, axis.values)
    axes.plot(deciles, np.zeros(9), "|", color=GREY, transform=axes.get_xaxis_transform())
    axes.set_xlim(*np.interp([0.005, 0.995], axis.positions, axis.values))
    axes.set_xlabel(model.component_names[index][0], fontsize=9)
    axes.set_ylabel("effect", fontsize=9)
    _tidy(axes)
    return axes  # type: ignore[no-any-return]


def pair_effect(explanation: Explanation, component: Sequence[str], ax: Axes | None = None) -> Axes:
    """Draw the heat map of a pair on the features' own scales, blue below zero and red above."""
    index = _find(explanation, component)
    model = explanation.model
    first, second = model.axes(model.components.components[index])
    table = model.tables[index]
    limit = float(np.quantile(np.abs(table), 0.995)) or 1.0
    axes = _axes(ax)
    image = axes.pcolormesh(
        first.values, second.values, table.T, cmap="RdBu_r", vmin=-limit, vmax=limit,
        shading="gouraud" if min(table.shape) > 1 else "nearest", rasterized=True,
    )  # fmt: skip
    axes.figure.colorbar(image, ax=axes, pad=0.02).ax.tick_params(labelsize=7)
    axes.set_xlim(*np.interp([0.01, 0.99], first.positions, first.values))
    axes.set_ylim(*np.interp([0.01, 0.99], second.positions, second.values))
    names = model.component_names[index]
    axes.set_xlabel(names[0], fontsize=9)
    axes.set_ylabel(names[1], fontsize=9)
    axes.tick_params(length=3, labelsize=8)
    return axes  # type: ignore[no-any-return]


def importance(explanation: Explanation, n_components: int = 10, ax: Axes | None = None) -> Axes:
    """Draw bars of the largest l1 norms, the most important component on top."""
    ranked = list(explanation.importance().items())[:n_components][::-1]
    axes = _axes(ax)
    colours = [BLUE if len(names) == 1 else GREY for names, _ in ranked]
    axes.barh([" x ".join(names) for names, _ in ranked], [v for _, v in ranked], color=colours)
    axes.set_xlabel("importance E|f_S|", fontsize=9)
    _tidy(axes)
    return axes  # type: ignore[no-any-return]


def components(explanation: Explanation, n_components: int = 9, n_columns: int = 3) -> Figure:
    """Draw the most important components of one or two features, a panel each."""
    drawn = [names for names in explanation.importance() if len(names) <= 2][:n_components]
    n_rows = math.ceil(len(drawn) / n_columns)
    figure, panels = _pyplot().subplots(
        n_rows, n_columns, figsize=(3.6 * n_columns, 2.7 * n_rows), layout="constrained",
        squeeze=False,
    )  # fmt: skip
    for names, axes in zip(drawn, panels.flat, strict=False):
        (main_effect if len(names) == 1 else pair_effect)(explanation, names, ax=axes)
    for axes in panels.flat[len(drawn) :]:
        axes.set_axis_off()
    return figure  # type: ignore[no-any-return]
