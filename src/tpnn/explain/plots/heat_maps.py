"""Heat maps: pairs, and triples as slices of two features at values of the third."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tpnn._utils.arrays import BoolArray, FloatArray
from tpnn.explain.doubt import COLOUR_RANK, VEIL, colour_limit, without_rows
from tpnn.explain.plots.axes import (
    PAIR_RANKS,
    drawn_axes,
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
    GREY,
    INK,
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

    from tpnn.explain.component_table import ComponentTable
    from tpnn.explain.explanation import Explanation, Wanted

SLICE_RANKS = (0.1, 0.5, 0.9)  # of the third feature, where a component of order 3 is cut
HATCH = "/////"  # of cells without rows
CONTOUR_SHARES = (0.5, 0.9)  # of the rows that a contour encloses
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

    All pairs of a model have the same scale of colours. Cells are faded where the band holds "no
    effect", and missing values are a strip of their own. Where rows were explained, contours
    enclose half and nine tenths of them, and cells that none of them is near are hatched. The
    arguments are those of :func:`tpnn.plots.main_effect`.
    """
    check_one_output(explanation)
    table = explanation.component(component)
    scaled, both = table.on_scale(scale, reference), _drawn(explanation, table)
    axes = axes_or_new(ax, *map_inches(both))
    limit = _colour_limit(explanation, scaled)
    tails = heavy_tails(explanation.model, table.names, log_axes)
    others, doubt = explanation.model.feature_names, _doubt(explanation, table, scaled)
    effect = scaled.difference
    image = heat_map(axes, both, table.names, others, effect, limit, tails, doubt)
    is_plane = all(axis.levels is None for axis in both)
    if table.density is not None and is_plane:
        _density_contours(axes, both, table.density)
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
    scaled, (*both, third) = table.on_scale(scale, reference), _drawn(explanation, table)
    width, height = map_inches(both)
    axes = axes_or_new(ax, max(8.4, 4.2 + width), height / SLICE_HEIGHT)
    axes.set_axis_off()
    limit, doubt = _colour_limit(explanation, scaled), _doubt(explanation, table, scaled)
    tails = heavy_tails(explanation.model, table.names[:2], log_axes)
    others, words, nodes = explanation.model.feature_names, node_words(third), _slices(third)
    values = shortened_together([words[node] for node in nodes], LEVEL_LETTERS)
    for number, (node, value) in enumerate(zip(nodes, values, strict=True)):
        panel = axes.inset_axes([0.36 * number, 0.1, 0.28, SLICE_HEIGHT])
        slice_of = scaled.difference[:, :, node]
        shown = Doubt(doubt.faded[:, :, node], doubt.hatched[:, :, node])
        image = heat_map(panel, both, table.names, others, slice_of, limit, tails, shown)
        letters = int(points_along(panel.xaxis) / (LETTER_WIDTH * LABEL_SIZE))
        room = max(letters - len(value) - 3, SHORTEST_NAME)
        name = shortened_among(table.names[2], room, others)
        panel.set_title(f"{name} = {value}", fontsize=LABEL_SIZE)
        if number:
            panel.set_ylabel("")
            panel.set_yticklabels([])
    _label_colours(axes, image, scaled)
    return axes  # type: ignore[no-any-return]


def _drawn(explanation: Explanation, table: ComponentTable) -> list[Axis]:
    return drawn_axes(explanation.model, table.names, table.axes)


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


def _colour_limit(explanation: Explanation, scaled: ScaledEffect) -> float:
    """Raw effect with the strongest colour: the same for all pairs, or for all to one reference."""
    if not scaled.at:
        return colour_limit(explanation.model)
    return float(np.quantile(np.abs(scaled.difference), COLOUR_RANK)) or 1.0


class Doubt(NamedTuple):
    """Cells that the band or the rows do not speak for, (M_1, M_2) each."""

    faded: BoolArray
    hatched: BoolArray


def _doubt(explanation: Explanation, table: ComponentTable, scaled: ScaledEffect) -> Doubt:
    """Find the cells where the band holds "no effect", and those that no row is near."""
    lower, upper = scaled.band()
    n_rows = 0 if explanation.rows is None else explanation.rows.n_rows
    faded = (lower <= scaled.neutral) & (scaled.neutral <= upper) & (lower < upper)
    return Doubt(faded, without_rows(table.axes, table.density, n_rows))


def heat_map(
    axes: Any,
    both: Sequence[Axis],
    names: Sequence[str],
    others: Sequence[str],
    effect: FloatArray,
    limit: float,
    are_logarithmic: Sequence[bool],
    doubt: Doubt | None = None,
) -> Any:
    """Draw the blocks of a table: non-missing and missing values of either feature."""
    from matplotlib.patches import Rectangle

    shown = [shown_range(axis, PAIR_RANKS) for axis in both]
    sides = (axes.xaxis, axes.yaxis)
    for axis, side, is_logarithmic in zip(both, sides, are_logarithmic, strict=True):
        if is_logarithmic:
            set_logarithmic(axis, side)
    colours = {"cmap": DIVERGING, "vmin": -limit, "vmax": limit, "rasterized": True}
    is_smooth = all(axis.levels is None and axis.has_steps for axis in both)
    image = None
    for x, y in product(*(_blocks(*of) for of in zip(both, sides, shown, strict=True))):
        values, places = effect[x.nodes, y.nodes].T, [x.edges, y.edges]
        shading = "gouraud" if is_smooth and min(values.shape) > 1 else "flat"
        if shading == "gouraud":
            places = [node_places(axis) for axis in both]
        mesh = axes.pcolormesh(*places, values, shading=shading, **colours)
        image = image or mesh
        for drawn in (mesh, *_drawn_doubt(axes, doubt, (x, y), places, shading)):
            (left, right), (below, above) = x.span, y.span
            box = Rectangle((left, below), right - left, above - below, transform=axes.transData)
            drawn.set_clip_path(box)  # a mesh may reach beyond its part of the axes
    labelled = zip(both, names[:2], sides, shown, strict=True)
    for axis, name, side, limits in reversed(list(labelled)):  # y first: it takes room from x
        room = LEFT_BY_COLOUR_BAR if side is axes.xaxis else 1.0
        label_axis(axis, name, others, side, limits, room)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=3, width=0.7)
    return image


def _drawn_doubt(
    axes: Any, doubt: Doubt | None, blocks: Sequence[Block], places: Any, shading: str
) -> list[Any]:
    """Draw a veil over faded cells, with soft edges over a smooth map, and hatch others."""
    if doubt is None:
        return []
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import LinearSegmentedColormap, to_rgb

    drawn, (x, y) = [], blocks
    faded, hatched = (mask[x.nodes, y.nodes].T for mask in doubt)
    if faded.any():
        veil = [(*to_rgb(axes.get_facecolor()), share) for share in (0.0, VEIL)]
        drawn.append(
            axes.pcolormesh(
                *places, faded.astype(float), shading=shading, vmin=0, vmax=1, rasterized=True,
                cmap=LinearSegmentedColormap.from_list("veil", veil),
            )
        )  # fmt: skip
    if hatched.any():
        corners = [
            [(x.edges[i + a], y.edges[j + b]) for a, b in ((0, 0), (1, 0), (1, 1), (0, 1))]
            for j, i in np.argwhere(hatched)
        ]
        style: Any = {"facecolor": "none", "edgecolor": GREY, "linewidth": 0, "hatch": HATCH}
        drawn.append(axes.add_collection(PolyCollection(corners, **style)))
    return drawn


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
        line = {"colors": INK, "linewidths": 0.7, "alpha": 0.7}
        axes.contour(*centres, counts.T, levels=levels, **line)
