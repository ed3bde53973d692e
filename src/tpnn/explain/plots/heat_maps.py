"""Heat maps: pairs, and triples as slices of two features at values of the third."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tpnn._typing import FloatArray
from tpnn.explain.plots.checks import check_one_output
from tpnn.explain.plots.scales import (
    PAIR_RANKS,
    label_axis,
    missing_strip,
    node_places,
    shown_range,
)
from tpnn.explain.plots.style import (
    DIVERGING,
    LABEL_SIZE,
    SMOOTHING_KERNEL,
    TICK_SIZE,
    axes_or_new,
    colour_bar,
)
from tpnn.explain.reading import Reading, Wanted
from tpnn.table.axis import Axis
from tpnn.table.words import node_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SLICE_RANKS = (0.1, 0.5, 0.9)  # of the third feature, where a component of order 3 is cut
COLOUR_RANK = 0.995  # share of the cells whose colours are told apart; the rest saturates
CONTOUR_SHARES = (0.5, 0.9)  # of the rows that a contour encloses
CONTOUR_COLOUR = "#20242b"
N_CONTOUR_BINS = 24


def pair_effect(explanation: Reading, component: Wanted, ax: Axes | None = None) -> Axes:
    """Draw the heat map of a pair on the features' own scales, blue below zero and red above.

    Missing values are a strip of their own. Where rows were explained, contours enclose half and
    nine tenths of the rows.
    """
    check_one_output(explanation)
    table = explanation.component(component)
    axes = axes_or_new(ax)
    limit = _colour_limit(table.effect)
    image = _heat_map(axes, table.axes, table.names[:2], table.effect, limit)
    is_plane = all(axis.levels is None for axis in table.axes)
    if table.density is not None and is_plane:
        _density_contours(axes, table.axes, table.density)
    colour_bar(axes, image)
    return axes  # type: ignore[no-any-return]


def triple_effect(explanation: Reading, component: Wanted, ax: Axes | None = None) -> Axes:
    """Draw an order-3 component as heat maps of two features at three values of the third."""
    check_one_output(explanation)
    table = explanation.component(component)
    third = table.axes[2]
    axes = axes_or_new(ax, 7.6, 2.7)
    axes.set_axis_off()
    limit = _colour_limit(table.effect)
    nodes = np.searchsorted(third.positions[: third.n_regular], SLICE_RANKS)
    for number, node in enumerate(np.minimum(nodes, third.n_regular - 1)):
        panel = axes.inset_axes([0.34 * number, 0.1, 0.29, 0.8])
        effect = table.effect[:, :, node]
        image = _heat_map(panel, table.axes[:2], table.names[:2], effect, limit)
        panel.set_title(f"{table.names[2]} = {node_words(third)[node]}", fontsize=LABEL_SIZE)
        if number:
            panel.set_ylabel("")
            panel.set_yticklabels([])
    colour_bar(axes, image)
    return axes  # type: ignore[no-any-return]


def _colour_limit(effect: FloatArray) -> float:
    """Effect that has the strongest colour."""
    return float(np.quantile(np.abs(effect), COLOUR_RANK)) or 1.0


def _heat_map(
    axes: Any, both: Sequence[Axis], names: Sequence[str], effect: FloatArray, limit: float
) -> Any:
    """Draw the blocks of a table: non-missing and missing values of either feature."""
    shown = [shown_range(axis, PAIR_RANKS) for axis in both]
    colours = {"cmap": DIVERGING, "vmin": -limit, "vmax": limit, "rasterized": True}
    is_smooth = all(axis.levels is None and axis.n_regular > 1 for axis in both)
    for x_nodes, x_edges in _blocks(both[0], shown[0]):
        for y_nodes, y_edges in _blocks(both[1], shown[1]):
            block = effect[x_nodes, y_nodes].T
            if is_smooth and min(block.shape) > 1:
                places = (node_places(axis) for axis in both)
                image = axes.pcolormesh(*places, block, shading="gouraud", **colours)
            else:
                mesh = axes.pcolormesh(x_edges, y_edges, block, **colours)
                image = mesh if x_nodes.start == y_nodes.start == 0 else image
    for axis, name, drawn, limits in zip(both, names, (axes.xaxis, axes.yaxis), shown, strict=True):
        label_axis(axis, name, drawn, limits)
        right = missing_strip(limits)[1] if axis.has_missing else limits[1]
        (axes.set_xlim if drawn is axes.xaxis else axes.set_ylim)(limits[0], right)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=3, width=0.7, labelsize=TICK_SIZE)
    return image


def _blocks(axis: Axis, limits: tuple[float, float]) -> list[tuple[slice, FloatArray]]:
    """Nodes of non-missing and of missing values, with the edges of their cells."""
    places, blocks = node_places(axis), []
    middles = (places[1:] + places[:-1]) / 2
    if axis.n_regular:
        ends = (-0.5, places[-1] + 0.5) if axis.levels is not None else limits
        edges = np.concatenate([[min(ends[0], places[0])], middles, [max(ends[1], places[-1])]])
        blocks.append((slice(0, axis.n_regular), edges))
    if axis.has_missing:
        strip = np.array(missing_strip(limits))
        blocks.append((slice(axis.n_regular, axis.n_nodes), strip))
    return blocks


def _density_contours(axes: Any, both: Sequence[Axis], density: FloatArray) -> None:
    """Outline the smallest regions that hold CONTOUR_SHARES of the rows shown."""
    centres, counts = [], density[tuple(slice(axis.n_regular) for axis in both)]
    for number, axis in enumerate(both):
        edges = np.linspace(*shown_range(axis, PAIR_RANKS), N_CONTOUR_BINS + 1)
        cells = np.digitize(node_places(axis), edges) - 1
        bins = (cells == np.arange(N_CONTOUR_BINS)[:, None]).astype(
            float
        )  # (n_bins, M); no bin for the rest
        counts = np.moveaxis(np.tensordot(bins, counts, axes=(1, number)), 0, number)
        centres.append((edges[:-1] + edges[1:]) / 2)
    for number in (0, 1):
        counts = np.apply_along_axis(np.convolve, number, counts, SMOOTHING_KERNEL, mode="same")
    if not counts.any():
        return
    ranked = np.sort(counts.ravel())[::-1]
    held = np.cumsum(ranked) / ranked.sum()
    levels = sorted({float(ranked[np.searchsorted(held, part)]) for part in CONTOUR_SHARES})
    if counts.max() > levels[0] > 0:
        line = {"colors": CONTOUR_COLOUR, "linewidths": 0.7, "alpha": 0.7}
        axes.contour(*centres, counts.T, levels=levels, **line)
