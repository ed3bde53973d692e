"""Heat maps: pairs, and triples as slices of two features at values of the third."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.explain.plots.axes import (
    PAIR_RANKS,
    even_places,
    heavy_tails,
    label_axis,
    label_through,
    missing_strip,
    node_places,
    set_logarithmic,
    shown_range,
)
from tpnn.explain.plots.labels import (
    LETTER_WIDTH,
    LEVEL_LETTERS,
    SHORTEST_NAME,
    inches_for_levels,
    name_reference,
    points_along,
    shortened_among,
    shortened_together,
)
from tpnn.explain.plots.style import (
    DIVERGING,
    LABEL_SIZE,
    MOST_INCHES,
    SMOOTHING_KERNEL,
    axes_or_new,
    check_one_output,
    colour_bar,
)
from tpnn.explain.response import RAW, ScaledEffect
from tpnn.loss.links import LINKS
from tpnn.table.axis import Axis
from tpnn.table.words import node_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tpnn.explain.explanation import Explanation, Wanted

SLICE_RANKS = (0.1, 0.5, 0.9)  # of the third feature, where a component of order 3 is cut
COLOUR_RANK = 0.995  # share of the cells whose colours are told apart; the rest saturates
CONTOUR_SHARES = (0.5, 0.9)  # of the rows that a contour encloses
CONTOUR_COLOUR = "#20242b"
N_CONTOUR_BINS = 24
LEFT_BY_COLOUR_BAR = 0.8  # share of the width
SLICE_HEIGHT = 0.8  # of a triple's axes


def pair_effect(
    explanation: Explanation,
    component: Wanted,
    ax: Axes | None = None,
    *,
    scale: str = RAW,
    reference: Any = None,
    log_axes: bool = True,
) -> Axes:
    """Draw the heat map of a pair on the features' own scales, blue below zero and red above.

    Missing values are a strip of their own. Where rows were explained, contours enclose half and
    nine tenths of the rows. The arguments are those of :func:`tpnn.plots.main_effect`.
    """
    check_one_output(explanation)
    table = explanation.component(component)
    scaled = table.on_scale(scale, reference)
    axes = axes_or_new(ax, *map_inches(table.axes))
    limit = _colour_limit(scaled.difference)
    tails = heavy_tails(explanation.model, table.names, log_axes)
    others = explanation.model.feature_names
    image = heat_map(axes, table.axes, table.names, others, scaled.difference, limit, tails)
    is_plane = all(axis.levels is None for axis in table.axes)
    if table.density is not None and is_plane:
        _density_contours(axes, table.axes, table.density)
    _label_colours(axes, image, scaled)
    return axes  # type: ignore[no-any-return]


def triple_effect(
    explanation: Explanation,
    component: Wanted,
    ax: Axes | None = None,
    *,
    scale: str = RAW,
    reference: Any = None,
    log_axes: bool = True,
) -> Axes:
    """Draw a triple as heat maps of two features, at three values of the third.

    These are a low, the median and a high value, or the most frequent levels. The arguments are
    those of :func:`tpnn.plots.main_effect`.
    """
    check_one_output(explanation)
    table = explanation.component(component)
    scaled, third = table.on_scale(scale, reference), table.axes[2]
    width, height = map_inches(table.axes[:2])
    axes = axes_or_new(ax, max(8.4, 4.2 + width), height / SLICE_HEIGHT)
    axes.set_axis_off()
    limit = _colour_limit(scaled.difference)
    tails = heavy_tails(explanation.model, table.names[:2], log_axes)
    others, words, nodes = explanation.model.feature_names, node_words(third), _slices(third)
    values = shortened_together([words[node] for node in nodes], LEVEL_LETTERS)
    for number, (node, value) in enumerate(zip(nodes, values, strict=True)):
        panel = axes.inset_axes([0.36 * number, 0.1, 0.28, SLICE_HEIGHT])
        slice_of = scaled.difference[:, :, node]
        image = heat_map(panel, table.axes[:2], table.names, others, slice_of, limit, tails)
        letters = int(points_along(panel.xaxis) / (LETTER_WIDTH * LABEL_SIZE))
        room = max(letters - len(value) - 3, SHORTEST_NAME)
        name = shortened_among(table.names[2], room, others)
        panel.set_title(f"{name} = {value}", fontsize=LABEL_SIZE)
        if number:
            panel.set_ylabel("")
            panel.set_yticklabels([])
    _label_colours(axes, image, scaled)
    return axes  # type: ignore[no-any-return]


def _slices(third: Axis) -> list[int]:
    """Nodes of the third feature at which a triple is cut, at most three."""
    if third.is_empty:
        return [0]  # nothing but missing values
    if third.is_nominal:
        frequent = np.argsort(-third.weights[third.regular], kind="stable")[: len(SLICE_RANKS)]
        return [int(node) for node in frequent]
    nodes = np.searchsorted(third.positions[third.regular], SLICE_RANKS)
    return [int(node) for node in np.unique(np.minimum(nodes, len(third.values) - 1))]


def map_inches(both: Sequence[Axis]) -> tuple[float, float]:
    """Width and height of a figure with room for the labels of all levels."""
    words = [() if axis.levels is None else node_words(axis) for axis in both]
    (x_along, x_across), (y_along, y_across) = map(inches_for_levels, words)
    width = max(4.2, max(x_along, 2.6) + 1.6 + y_across)
    height = max(3.0, max(y_along, 2.0) + 0.8 + x_across)
    return min(width, MOST_INCHES), min(height, MOST_INCHES)


def _label_colours(axes: Any, image: Any, scaled: ScaledEffect) -> None:
    bar = colour_bar(axes, image, "" if scaled.label == "effect" else scaled.label)
    if scaled.is_factor:
        label_through(bar.ax.yaxis, LINKS["log"], image.get_clim(), "×")
    name_reference(axes, scaled)


def _colour_limit(difference: FloatArray) -> float:
    """Raw effect that has the strongest colour."""
    return float(np.quantile(np.abs(difference), COLOUR_RANK)) or 1.0


def heat_map(
    axes: Any,
    both: Sequence[Axis],
    names: Sequence[str],
    others: Sequence[str],
    effect: FloatArray,
    limit: float,
    are_logarithmic: Sequence[bool],
) -> Any:
    """Draw the blocks of a table: non-missing and missing values of either feature."""
    shown = [shown_range(axis, PAIR_RANKS) for axis in both]
    sides = (axes.xaxis, axes.yaxis)
    for axis, side, is_logarithmic in zip(both, sides, are_logarithmic, strict=True):
        if is_logarithmic:
            set_logarithmic(axis, side)
    colours = {"cmap": DIVERGING, "vmin": -limit, "vmax": limit, "rasterized": True}
    is_smooth = all(axis.levels is None and axis.has_steps for axis in both)
    image = None
    for x, y in product(*(_blocks(*of) for of in zip(both, sides, shown, strict=True))):
        values = effect[x.nodes, y.nodes].T
        if is_smooth and min(values.shape) > 1:
            places = (node_places(axis) for axis in both)
            mesh = axes.pcolormesh(*places, values, shading="gouraud", **colours)
        else:
            mesh = axes.pcolormesh(x.edges, y.edges, values, **colours)
        image = image or mesh
        _clip(axes, mesh, x.span, y.span)
    labelled = zip(both, names[:2], sides, shown, strict=True)
    for axis, name, side, limits in reversed(list(labelled)):  # y first: it takes room from x
        room = LEFT_BY_COLOUR_BAR if side is axes.xaxis else 1.0
        label_axis(axis, name, others, side, limits, room)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=3, width=0.7)
    return image


class Block(NamedTuple):
    """Values of one feature that are drawn side by side: the non-missing or the missing ones."""

    nodes: slice
    edges: FloatArray  # (n_nodes + 1,), of their cells
    span: tuple[float, float]  # of the axis, which they may fill


def _blocks(axis: Axis, side: Any, limits: tuple[float, float]) -> list[Block]:
    places, blocks = node_places(axis), []
    middles = (places[1:] + places[:-1]) / 2
    if not axis.is_empty:
        ends = (-0.5, places[-1] + 0.5) if axis.levels is not None else limits
        edges = np.concatenate([[min(ends[0], places[0])], middles, [max(ends[1], places[-1])]])
        blocks.append(Block(axis.regular, edges, limits))
    if axis.has_missing:
        strip = missing_strip(side, limits)
        blocks.append(Block(axis.missing, np.array(strip), strip))
    return blocks


def _clip(axes: Any, mesh: Any, x: tuple[float, float], y: tuple[float, float]) -> None:
    """Show only the part of a mesh that is between two places on either axis."""
    from matplotlib.patches import Rectangle

    corner, width, height = (x[0], y[0]), x[1] - x[0], y[1] - y[0]
    mesh.set_clip_path(Rectangle(corner, width, height, transform=axes.transData))


def _density_contours(axes: Any, both: Sequence[Axis], density: FloatArray) -> None:
    """Outline the smallest regions that hold CONTOUR_SHARES of the rows shown."""
    centres, counts = [], density[tuple(axis.regular for axis in both)]
    for number, (axis, side) in enumerate(zip(both, (axes.xaxis, axes.yaxis), strict=True)):
        places = even_places(side, shown_range(axis, PAIR_RANKS), 2 * N_CONTOUR_BINS + 1)
        cells = np.digitize(node_places(axis), places[::2]) - 1  # out of range: in no bin
        bins = (cells == np.arange(N_CONTOUR_BINS)[:, None]).astype(float)  # (n_bins, M)
        counts = np.moveaxis(np.tensordot(bins, counts, axes=(1, number)), 0, number)
        centres.append(places[1::2])
    for number in (0, 1):
        counts = np.apply_along_axis(np.convolve, number, counts, SMOOTHING_KERNEL, mode="same")
    if not counts.any():
        return
    ranked = np.sort(counts.ravel())[::-1]
    held = np.cumsum(ranked) / ranked.sum()
    levels = sorted({float(ranked[np.searchsorted(held, share)]) for share in CONTOUR_SHARES})
    if counts.max() > levels[0] > 0:
        line = {"colors": CONTOUR_COLOUR, "linewidths": 0.7, "alpha": 0.7}
        axes.contour(*centres, counts.T, levels=levels, **line)
