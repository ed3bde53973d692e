"""Plots of an Explanation: each takes ``ax=None`` and returns the matplotlib Axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tpnn._typing import FloatArray
from tpnn.anova.shapley import share, value_weights
from tpnn.explain.reading import BAND, ComponentTable, Reading, Wanted
from tpnn.table.axis import Axis
from tpnn.table.frame import DATE, DURATION
from tpnn.table.words import DAY, node_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


BLUE, RED, GREY, PALE = "#2a6fbb", "#c3423f", "#8a8f98", "#d9dde3"
COLOURS = ("#2a6fbb", "#c3423f", "#4a9c6d", "#8a5fb0", "#d08a2e", "#4c9fb5")
DIVERGING = "RdBu_r"
SMALL, TINY = 9, 8  # font sizes
MAIN_RANGE, PAIR_RANGE = (0.005, 0.995), (0.01, 0.99)  # shares of the data that a plot shows
SMOOTH = np.array([1, 4, 6, 4, 1]) / 16  # kernel for densities on equal bins
MOST_LABELS = 12  # of levels along an axis
SLICES = (0.1, 0.5, 0.9)  # ranks of the third feature at which an order-3 component is cut


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            'plots: matplotlib is needed and not installed. Run: pip install "tpnn[plots]"'
        ) from error
    return pyplot


def _axes(ax: Axes | None, width: float = 4.2, height: float = 3.0) -> Any:
    if ax is not None:
        return ax
    return _pyplot().subplots(figsize=(width, height), layout="constrained")[1]


def _tidy(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_linewidth(0.7)
    axes.tick_params(length=3, width=0.7, labelsize=TINY)


def _label(names: Sequence[str]) -> str:
    return " × ".join(names)


def _unit(axis: Axis) -> float:
    """Seconds per unit of the plot: dates and durations are drawn in days."""
    return DAY if axis.kind in (DATE, DURATION) else 1.0


def _places(axis: Axis) -> FloatArray:
    """Where the nodes of values that are there stand on a plot: one apart where they are levels."""
    if axis.levels is not None:
        return np.arange(float(axis.n_regular))
    return axis.values[: axis.n_regular] / _unit(axis)


def _shown(axis: Axis, ranks: Sequence[float]) -> tuple[float, float]:
    """Places between which a plot shows a feature."""
    places = _places(axis)
    if axis.n_regular == 0:
        return -0.5, 0.5  # nothing but missing values
    if axis.levels is not None:
        return -0.6, places[-1] + 0.6
    low, high = np.interp(ranks, axis.positions[: axis.n_regular], places)
    return (low, high) if high > low else (places[0] - 0.5, places[-1] + 0.5)


def _missing_place(limits: tuple[float, float]) -> tuple[float, float]:
    """Left and right edge of the strip of missing values, to the right of the others."""
    width = limits[1] - limits[0]
    return limits[1] + 0.04 * width, limits[1] + 0.1 * width


def _label_axis(axis: Axis, name: str, drawn: Any, limits: tuple[float, float]) -> None:
    """Label a matplotlib axis with levels, dates and missing values; ``drawn`` is axes.xaxis."""
    drawn.set_label_text(name + (" (days)" if axis.kind == DURATION else ""), fontsize=SMALL)
    if axis.kind == DATE:
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(maxticks=6)  # type: ignore[no-untyped-call]
        drawn.set_major_locator(locator)
        drawn.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    if axis.levels is not None:
        words = node_words(axis)[: axis.n_regular]
        step = -(-len(words) // MOST_LABELS)
        drawn.set_ticks(_places(axis)[::step], [_short(word) for word in words[::step]])
        if drawn.axis_name == "x" and sum(map(len, words[::step])) > 24:
            drawn.set_tick_params(labelrotation=40)
    if axis.has_missing:
        middle = sum(_missing_place(limits)) / 2
        ticks = [tick for tick in drawn.get_ticklocs() if limits[0] <= tick <= limits[1]]
        format_ticks = drawn.get_major_formatter().format_ticks
        drawn.set_ticks([*ticks, middle], [*format_ticks(ticks), "missing"])


def _short(word: str) -> str:
    return word if len(word) <= 14 else word[:13] + "…"


def component(explanation: Reading, component: Wanted, ax: Axes | None = None) -> Axes:
    """Draw a component of one, two or three features in the way that suits it."""
    _check(explanation)
    names = explanation.component(component).names
    draw = {1: main_effect, 2: pair_effect, 3: triple_effect}.get(len(names))
    if draw is None:
        raise ValueError(
            f"component: one of at most 3 features can be drawn, found {names}. "
            "Read it with explanation.component(...).to_frame()."
        )
    return draw(explanation, component, ax=ax)


def _check(explanation: Any) -> None:
    if not isinstance(explanation, Reading):
        raise TypeError(
            f"explanation: an Explanation is needed, found {type(explanation).__name__}. "
            "Pass model.explain(), or model.explain(X) for plots of rows."
        )


def _table(explanation: Reading, component: Wanted) -> ComponentTable:
    _check(explanation)
    table = explanation.component(component)
    if table.output_names:
        raise ValueError(
            f"explanation: a plot shows one output, found {len(table.output_names)}. "
            f"Choose one, for example explanation.of({table.output_names[0]!r})."
        )
    return table


def main_effect(explanation: Reading, component: Wanted, ax: Axes | None = None) -> Axes:
    """Draw a main effect on the feature's own scale, with two standard deviations of the bags.

    Levels are points, missing values a point to the right of the others. The grey hills or bars
    along the bottom are the density of the data.
    """
    table = _table(explanation, component)
    (axis,) = table.axes
    axes, limits = _axes(ax), _shown(axis, MAIN_RANGE)
    places, n = _places(axis), axis.n_regular
    lower, upper = table.band
    axes.axhline(0, color=GREY, linewidth=0.7, zorder=1)
    if axis.levels is not None:
        _points(axes, places, table.effect[:n], table.spread[:n])
    else:
        axes.fill_between(places, lower[:n], upper[:n], color=BLUE, alpha=0.18, linewidth=0)
        axes.plot(places, table.effect[:n], color=BLUE, linewidth=1.6)
    right = limits[1]
    if axis.has_missing:
        left, right = _missing_place(limits)
        _points(axes, np.array([(left + right) / 2]), table.effect[n:], table.spread[n:])
    inside = (places >= limits[0]) & (places <= limits[1])
    drawn = np.append(inside, [True] * axis.has_missing).astype(bool)
    low, high = float(lower[drawn].min()), float(upper[drawn].max())
    height = (high - low) or 1.0
    axes.set(xlim=(limits[0], right), ylim=(low - 0.22 * height, high + 0.05 * height))
    if table.density is not None:
        _density_hills(axes, axis, table.density, limits)
    _label_axis(axis, table.names[0], axes.xaxis, limits)
    axes.set_xlim(limits[0], right)
    axes.set_ylabel("effect", fontsize=SMALL)
    _tidy(axes)
    return axes  # type: ignore[no-any-return]


def _points(axes: Any, places: FloatArray, effect: FloatArray, spread: FloatArray) -> None:
    axes.errorbar(
        places, effect, BAND * spread, fmt="o", color=BLUE, markersize=4.5, elinewidth=4,
        ecolor=_pale(BLUE),
    )  # fmt: skip


def _pale(colour: str) -> tuple[float, ...]:
    """Return a colour mixed with white, as a band of that colour looks."""
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return tuple(1 - 0.25 * (1 - part) for part in parts)


def _density_hills(axes: Any, axis: Axis, density: FloatArray, limits: tuple[float, float]) -> None:
    hills = axes.inset_axes([0, 0, 1, 0.13], zorder=0)
    places, shares = _places(axis), density[: axis.n_regular]
    if axis.levels is not None:
        hills.bar(places, shares, width=0.7, color=PALE)
        highest = shares.max()
    else:
        edges = np.linspace(*limits, 41)
        counts = np.convolve(np.histogram(places, edges, weights=shares)[0], SMOOTH, mode="same")
        hills.fill_between((edges[:-1] + edges[1:]) / 2, counts, color=PALE, linewidth=0)
        highest = counts.max()
    hills.set(xlim=axes.get_xlim(), ylim=(0, float(highest) * 1.02 or 1.0))
    hills.set_axis_off()


def pair_effect(explanation: Reading, component: Wanted, ax: Axes | None = None) -> Axes:
    """Draw the heat map of a pair on the features' own scales, blue below zero and red above.

    Missing values are a strip of their own. Where rows were explained, contours enclose half and
    nine tenths of them.
    """
    table = _table(explanation, component)
    axes = _axes(ax)
    limit = float(np.quantile(np.abs(table.effect), 0.995)) or 1.0
    image = _heat_map(axes, table.axes, table.names[:2], table.effect, limit)
    is_plane = all(axis.levels is None for axis in table.axes)
    if table.density is not None and is_plane:
        _density_contours(axes, table.axes, table.density)
    _colour_bar(axes, image)
    return axes  # type: ignore[no-any-return]


def _colour_bar(axes: Any, image: Any) -> Any:
    bar = axes.figure.colorbar(image, ax=axes, pad=0.02, aspect=28)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=TINY, length=2)
    return bar


def _heat_map(
    axes: Any, both: Sequence[Axis], names: Sequence[str], effect: FloatArray, limit: float
) -> Any:
    """Draw the four blocks of a table: values that are there, and missing ones, of either axis."""
    shown = [_shown(axis, PAIR_RANGE) for axis in both]
    colours = {"cmap": DIVERGING, "vmin": -limit, "vmax": limit, "rasterized": True}
    is_smooth = all(axis.levels is None and axis.n_regular > 1 for axis in both)
    for x_nodes, x_edges in _blocks(both[0], shown[0]):
        for y_nodes, y_edges in _blocks(both[1], shown[1]):
            block = effect[x_nodes, y_nodes].T
            if is_smooth and min(block.shape) > 1:
                places = (_places(axis) for axis in both)
                image = axes.pcolormesh(*places, block, shading="gouraud", **colours)
            else:
                mesh = axes.pcolormesh(x_edges, y_edges, block, **colours)
                image = mesh if x_nodes.start == y_nodes.start == 0 else image
    for axis, name, drawn, limits in zip(both, names, (axes.xaxis, axes.yaxis), shown, strict=True):
        _label_axis(axis, name, drawn, limits)
        right = _missing_place(limits)[1] if axis.has_missing else limits[1]
        (axes.set_xlim if drawn is axes.xaxis else axes.set_ylim)(limits[0], right)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=3, width=0.7, labelsize=TINY)
    return image


def _blocks(axis: Axis, limits: tuple[float, float]) -> list[tuple[slice, FloatArray]]:
    """Nodes of values that are there and of missing ones, with the edges of their cells."""
    places, blocks = _places(axis), []
    middles = (places[1:] + places[:-1]) / 2
    if axis.n_regular:
        ends = (-0.5, places[-1] + 0.5) if axis.levels is not None else limits
        edges = np.concatenate([[min(ends[0], places[0])], middles, [max(ends[1], places[-1])]])
        blocks.append((slice(0, axis.n_regular), edges))
    if axis.has_missing:
        strip = np.array(_missing_place(limits))
        blocks.append((slice(axis.n_regular, axis.n_nodes), strip))
    return blocks


def _density_contours(axes: Any, both: Sequence[Axis], density: FloatArray) -> None:
    """Outline the smallest regions that hold half and nine tenths of the rows shown."""
    centres, counts = [], density[tuple(slice(axis.n_regular) for axis in both)]
    for number, axis in enumerate(both):
        edges = np.linspace(*_shown(axis, PAIR_RANGE), 25)
        cells = np.digitize(_places(axis), edges) - 1
        bins = (cells == np.arange(24)[:, None]).astype(float)  # (24, M), outside in none
        counts = np.moveaxis(np.tensordot(bins, counts, axes=(1, number)), 0, number)
        centres.append((edges[:-1] + edges[1:]) / 2)
    for number in (0, 1):
        counts = np.apply_along_axis(np.convolve, number, counts, SMOOTH, mode="same")
    if not counts.any():
        return
    ranked = np.sort(counts.ravel())[::-1]
    held = np.cumsum(ranked) / ranked.sum()
    levels = sorted({float(ranked[np.searchsorted(held, part)]) for part in (0.5, 0.9)})
    if counts.max() > levels[0] > 0:
        axes.contour(*centres, counts.T, levels=levels, colors="#20242b", linewidths=0.7, alpha=0.7)


def triple_effect(explanation: Reading, component: Wanted, ax: Axes | None = None) -> Axes:
    """Draw an order-3 component as heat maps of two features at three values of the third."""
    table = _table(explanation, component)
    third = table.axes[2]
    axes = _axes(ax, 7.6, 2.7)
    axes.set_axis_off()
    limit = float(np.quantile(np.abs(table.effect), 0.995)) or 1.0
    nodes = np.searchsorted(third.positions[: third.n_regular], SLICES)
    for number, node in enumerate(np.minimum(nodes, third.n_regular - 1)):
        panel = axes.inset_axes([0.34 * number, 0.1, 0.29, 0.8])
        effect = table.effect[:, :, node]
        image = _heat_map(panel, table.axes[:2], table.names[:2], effect, limit)
        panel.set_title(f"{table.names[2]} = {node_words(third)[node]}", fontsize=SMALL)
        if number:
            panel.set_ylabel("")
            panel.set_yticklabels([])
    _colour_bar(axes, image)
    return axes  # type: ignore[no-any-return]


def importance(explanation: Reading, n_components: int = 10, ax: Axes | None = None) -> Axes:
    """Draw bars of the largest l1 norms, main effects in blue, interactions in grey."""
    _check(explanation)
    ranked = list(explanation.importance().items())[:n_components][::-1]
    axes = _axes(ax, 4.6, 0.8 + 0.24 * len(ranked))
    colours = [BLUE if len(names) == 1 else GREY for names, _ in ranked]
    values = [value for _, value in ranked]
    axes.barh([_label(names) for names, _ in ranked], values, color=colours, height=0.66)
    axes.set_xlabel("importance  E|f|", fontsize=SMALL)
    _tidy(axes)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0, labelsize=SMALL)
    return axes  # type: ignore[no-any-return]


def waterfall(
    explanation: Reading, row: int = 0, n_components: int = 9, ax: Axes | None = None
) -> Axes:
    """Draw how the components lead from the intercept to the raw score of one row.

    The largest contributions are on top; the rest is summed in one bar. An offset is not included.
    """
    scores = _scores(explanation)[row]
    order = np.argsort(-np.abs(scores))
    labels = [_label(explanation.model.component_names[i]) for i in order[:n_components]]
    steps = scores[order[:n_components]].tolist()
    if len(order) > n_components:
        labels.append(f"{len(order) - n_components} others")
        steps.append(float(scores[order[n_components:]].sum()))
    ends = explanation.model.intercept + np.cumsum(steps[::-1])[::-1]  # the smallest comes first
    axes = _axes(ax, 5.2, 0.9 + 0.28 * len(steps))
    for place, (step, end) in enumerate(zip(steps, ends, strict=True)):
        colour = RED if step > 0 else BLUE
        axes.barh(place, step, left=end - step, color=colour, height=0.66)
        axes.annotate(
            f"{step:+.3g}", (end, place), xytext=(3 if step > 0 else -3, 0), va="center",
            ha="left" if step > 0 else "right", textcoords="offset points", fontsize=TINY,
            color=colour,
        )  # fmt: skip
        axes.plot([end, end], [place - 1 if place else -0.5, place], color=GREY, linewidth=0.6)
    axes.axvline(explanation.model.intercept, color=GREY, linewidth=0.6, linestyle=":")
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.use_sticky_edges = False
    axes.margins(x=0.22)
    axes.set_title(f"raw score {ends[0]:.4g}", fontsize=SMALL, loc="right")
    axes.set_xlabel(f"from the intercept, {explanation.model.intercept:.4g}", fontsize=SMALL)
    _tidy(axes)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0, labelsize=SMALL)
    return axes  # type: ignore[no-any-return]


def shap_summary(explanation: Reading, n_features: int = 10, ax: Axes | None = None) -> Axes:
    """Draw the Shapley values of all rows, a line of points per feature, coloured by its value.

    Points stand one above the other where they would overlap. Colours are the ranks of the values:
    blue is low, red is high; levels without order and missing values are grey.
    """
    scores, model = _scores(explanation), explanation.model
    weights = value_weights(model.components.components, len(model.feature_names))
    values = share(scores, weights)
    top = np.argsort(-np.abs(values).mean(0))[:n_features]
    axes = _axes(ax, 5.2, 0.8 + 0.36 * len(top))
    axes.axvline(0, color=GREY, linewidth=0.7)
    columns = explanation.columns
    cmap = _pyplot().get_cmap("coolwarm").with_extremes(bad=GREY)
    reach = np.abs(values[:, top]).max() or 1.0
    for place, feature in enumerate(top):
        points = values[:, feature]
        ranks = _ranks(model.encoder.axes[1][feature], columns[feature])
        swarm = axes.scatter(
            points, place + _swarm(points / reach), c=ranks, cmap=cmap, vmin=0, vmax=1,
            s=5, linewidths=0, rasterized=True, plotnonfinite=True,
        )  # fmt: skip
    bar = axes.figure.colorbar(swarm, ax=axes, pad=0.01, aspect=40, ticks=[0, 1])
    bar.ax.set_yticklabels(["low", "high"], fontsize=TINY)
    bar.ax.tick_params(length=0)
    bar.outline.set_visible(False)
    axes.set_yticks(range(len(top)), [model.feature_names[feature] for feature in top])
    axes.set_ylim(len(top) - 0.5, -0.5)
    axes.set_xlabel("Shapley value", fontsize=SMALL)
    _tidy(axes)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0, labelsize=SMALL)
    return axes  # type: ignore[no-any-return]


def _ranks(axis: Axis, x: FloatArray) -> FloatArray:
    """Rank of each value among the training rows, NaN where it has none."""
    if axis.is_nominal or axis.n_regular == 0:
        return np.full(len(x), np.nan)
    n = axis.n_regular
    return np.where(np.isfinite(x), np.interp(x, axis.values[:n], axis.positions[:n]), np.nan)


def _scores(explanation: Reading) -> FloatArray:
    _check(explanation)
    if explanation.scores.ndim > 2:
        raise ValueError(
            f"explanation: a plot shows one output, found {explanation.scores.shape[2]}. Choose "
            f"one, for example explanation.of({explanation.model.output_names[0]!r})."
        )
    return explanation.scores


def _swarm(points: FloatArray) -> FloatArray:
    """Heights that spread crowded points, within 0.4 of their line."""
    bins = np.round(points * 60).astype(int)
    heights = np.zeros(len(points))
    largest = np.bincount(bins - bins.min()).max()
    for place in np.unique(bins):
        members = np.flatnonzero(bins == place)
        ladder = np.arange(len(members))
        heights[members] = np.where(ladder % 2, -1, 1) * ((ladder + 1) // 2)
    return np.asarray(heights * min(0.06, 0.8 / largest))


def comparison(
    explanations: Mapping[str, Reading] | Sequence[Reading],
    component: Wanted,
    ax: Axes | None = None,
) -> Axes:
    """Draw the same main effect of several fits, as the paper does to show their stability.

    Fits given by name get a colour and an entry in the legend each, others are thin lines alike.
    Levels stand in the order of the first fit, those that only others have behind them.
    """
    named = isinstance(explanations, Mapping)
    fits = list(explanations.values() if isinstance(explanations, Mapping) else explanations)
    labels = list(explanations) if isinstance(explanations, Mapping) else [""] * len(fits)
    axes = _axes(ax)
    axes.axhline(0, color=GREY, linewidth=0.7)
    tables = [_table(fit, component) for fit in fits]
    axis = _with_all_levels([table.axes[0] for table in tables])
    for number, (table, label) in enumerate(zip(tables, labels, strict=True)):
        style = {"color": COLOURS[number % len(COLOURS)], "linewidth": 1.5, "label": label}
        plain = {"color": BLUE, "linewidth": 0.9, "alpha": 0.6}
        places = _places(table.axes[0])
        if axis.levels is not None:
            places = np.array([axis.levels.index(level) for level in table.axes[0].levels or ()])
        order = np.argsort(places)
        axes.plot(places[order], table.effect[order], **(style if named else plain))
    limits = _shown(axis, MAIN_RANGE)
    _label_axis(replace(axis, has_missing=False), tables[0].names[0], axes.xaxis, limits)
    axes.set_xlim(*limits)
    axes.set_ylabel("effect", fontsize=SMALL)
    if named:
        axes.legend(frameon=False, fontsize=TINY)
    _tidy(axes)
    return axes  # type: ignore[no-any-return]


def _with_all_levels(axes: Sequence[Axis]) -> Axis:
    """Return the first axis, with the levels of the others behind its own."""
    first = axes[0]
    if first.levels is None:
        return first
    levels = tuple(dict.fromkeys(level for axis in axes for level in axis.levels or ()))
    return replace(first, values=np.arange(float(len(levels))), levels=levels, has_missing=False)


def components(explanation: Reading, n_components: int = 9, n_columns: int = 3) -> Figure:
    """Draw the most important components of one or two features, a panel each."""
    _check(explanation)
    drawn = [names for names in explanation.importance() if len(names) <= 2][:n_components]
    n_rows = math.ceil(len(drawn) / n_columns)
    figure, panels = _pyplot().subplots(
        n_rows, n_columns, figsize=(3.6 * n_columns, 2.7 * n_rows), layout="constrained",
        squeeze=False,
    )  # fmt: skip
    for names, axes in zip(drawn, panels.flat, strict=False):
        component(explanation, names, ax=axes)
    for axes in panels.flat[len(drawn) :]:
        axes.set_axis_off()
    return figure  # type: ignore[no-any-return]
