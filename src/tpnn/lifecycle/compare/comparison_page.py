"""Page of a comparison: scores, components, curves and heat maps, rows that flip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.anova.components import Component
from tpnn.explain.plots.axes import (
    MAIN_RANKS,
    drawn_axes,
    heavy_tails,
    label_axis,
    set_logarithmic,
    shown_range,
)
from tpnn.explain.plots.heat_maps import heat_map, map_inches
from tpnn.explain.plots.labels import literal, shortened
from tpnn.explain.plots.main_effects import draw_effect, new_axes
from tpnn.explain.plots.style import (
    BLUE,
    GREY,
    LABEL_SIZE,
    RED,
    colour_bar,
    legend_above,
    new_panels,
    tidy,
)
from tpnn.explain.report.static import Section, page, picture, pictures, table
from tpnn.model.model import AnovaModel, tables_by_component
from tpnn.model.regrid import lifted_tables
from tpnn.table.axis import Axis
from tpnn.table.encoder import TableEncoder
from tpnn.table.table import NUMBER, PERIODIC
from tpnn.table.words import node_words, signed_column, written

if TYPE_CHECKING:
    from tpnn.lifecycle.compare.compare import Comparison


MOST_CHARTS, MOST_MAPS = 24, 4  # a heat map takes a third of a second to draw
STYLES = (BLUE, -0.15), (RED, 0.15)  # colours, and how far points stand beside their level
TITLE_LETTERS = 30  # of a model's name above a heat map


def with_rows(axis: Axis) -> IntArray:
    """Nodes where there are rows, or could be: not those of what no row has.

    Models differ in what they say about missing values and unseen levels without having seen any.

    >>> with_rows(Axis(np.array([0.0, 1.0]), np.array([0.5, 0.5, 0.0]), has_missing=True))
    array([0, 1])
    """
    is_shown = axis.weights > 0
    is_shown[axis.seen] = True
    return np.flatnonzero(is_shown)


def comparison_page(comparison: Comparison) -> str:
    """Write the page."""
    first, second = comparison.names
    frame, flips = comparison.frame, comparison.flips
    n_rows = len(comparison.raw[0])
    moved = frame[frame["component"] != "(intercept)"]["status"].value_counts()
    facts: list[tuple[str, Any]] = [("Rows", n_rows)]
    facts += [("Decisions that flip", len(flips))] * comparison.has_decisions
    facts += [(f"Components {status}", int(count)) for status, count in moved.items()]
    mains, values = _ranked(comparison, 1)[:MOST_CHARTS], tables_by_component(comparison.difference)
    pairs = [(s, k) for s, k in _ranked(comparison, 2) if values[s][..., k].any()][:MOST_MAPS]
    sections = [
        Section(
            "Scores",
            "Both models on the same rows. The standard error is that of the paired difference."
            if len(comparison.scores)
            else "No targets were given.",
            (table(comparison.scores),) if len(comparison.scores) else (),
        ),
        Section(
            "Components",
            "Means of absolute contributions over the rows, both models split under the masses of "
            "these rows. The differences of a row sum to the difference of its raw scores.",
            (table(frame),),
        ),
        Section(
            "Curves",
            "Main effects over each other, those that differ most first; bands of 95 % where both "
            "models have them.",
            (pictures(_curve(comparison, *one) for one in mains),),
        ),
        Section(
            "Interactions",
            f"Pairs that differ most, up to {MOST_MAPS}, the old and the new grid of values and "
            "their difference in the same colours; one map of a pair that only one model has."
            if pairs
            else "No pair differs between the two models.",
            (pictures(_maps(comparison, *one) for one in pairs),),
        ),
        *[Section("Flips", "Rows for which the two models decide differently.", (table(flips),))]
        * comparison.has_decisions,
    ]
    return page(f"{first} and {second}", comparison.verdict, facts, sections)


def _ranked(comparison: Comparison, order: int) -> list[tuple[Component, int]]:
    """Components of an order with the number of an output, the largest differences first."""
    difference, frame = comparison.difference, comparison.frame
    named = {" x ".join(n): s for n, s in zip(difference.component_names, difference.components,
                                              strict=True) if len(s) == order}  # fmt: skip
    outputs = difference.output_names or ("",)
    pairs = zip(frame["component"], frame.get("output", [""] * len(frame)), strict=True)
    return [(named[name], outputs.index(output)) for name, output in pairs if name in named]


def _title(comparison: Comparison, component: Component, output: int) -> str:
    names = [comparison.difference.feature_names[feature] for feature in component]
    outputs = comparison.difference.output_names
    return " × ".join(names) + (f": {outputs[output]}" if outputs else "")


def _shown(axis: Axis) -> Axis:
    """Return an axis without the nodes of what no row has."""
    has_unseen = bool(axis.weights[axis.unseen].any())
    regular = axis.regular if has_unseen else axis.seen
    return replace(
        axis,
        values=axis.values[regular],
        weights=axis.weights[with_rows(axis)],
        levels=axis.levels and axis.levels[regular],
        has_missing=bool(axis.weights[axis.missing].any()),
        has_unseen=has_unseen,
    )


def _values(
    model: AnovaModel, component: Component, output: int, axes: Sequence[Axis]
) -> FloatArray:
    """Values of a component where there are rows; zero where the model does not have it."""
    nodes = np.ix_(*map(with_rows, axes))
    values = tables_by_component(model).get(component)
    return np.zeros([n.size for n in nodes]) if values is None else values[..., output][nodes]


def _maps(comparison: Comparison, component: Component, output: int) -> str:
    """Draw a pair of both models and their difference, and say where that is largest."""
    difference, (first, second) = comparison.difference, comparison.names
    models = {first: comparison.old, second: comparison.new, f"{second} less {first}": difference}
    axes = difference.axes(component)
    names = [difference.feature_names[feature] for feature in component]
    shown = [_shown(axis) for axis in drawn_axes(difference, names, axes)]
    grids = [_values(model, component, output, axes) for model in models.values()]
    limit = max(float(np.abs(grid).max()) for grid in grids)
    tails = heavy_tails(difference, names, log_axes=True)
    width, height = map_inches(shown)
    held = [place for place in (0, 1) if grids[place].any()]
    drawn = held if len(held) == 1 else [0, 1, 2]  # of an interaction of one model there is one map
    figure, panels = new_panels(1, len(drawn), len(drawn) * width, height)
    for number, panel in zip(drawn, panels[0], strict=True):
        label, grid = list(models)[number], grids[number]
        image = heat_map(panel, shown, names, difference.feature_names, grid, limit, tails)
        panel.set_title(literal(shortened(label, TITLE_LETTERS)), fontsize=LABEL_SIZE)
        if panel is not panels[0, 0]:
            panel.set_ylabel("")
            panel.tick_params(labelleft=False)
    colour_bar(panels[0, -1], image)
    place = np.unravel_index(int(np.abs(grids[-1]).argmax()), grids[-1].shape)
    where = " and ".join(
        f"{name} = {_word(axis, int(node))}"
        for name, axis, node in zip(names, shown, place, strict=True)
    )
    only = f"Gained: {first}" if held == [1] else f"Lost: {second}"
    alone = f"{only} does not have it. " if len(held) == 1 else ""
    largest = signed_column([grids[-1][place]])[0]
    note = f"{alone}Largest difference: {largest} at {where}."
    return picture(_title(comparison, component, output), figure, note)


def _word(axis: Axis, node: int) -> str:
    """Write a node, a number with a few digits."""
    is_number = axis.kind in (NUMBER, PERIODIC) and node < len(axis.values)
    return written(axis.values[node]) if is_number else node_words(axis)[node]


def _curve(comparison: Comparison, component: Component, output: int) -> str:
    """Draw a main effect of both models over each other, with bands where both have them."""
    (axis,) = comparison.difference.axes(component)
    names, nodes = comparison.difference.feature_names, with_rows(axis)
    (name,) = (names[feature] for feature in component)
    shown = _shown(*drawn_axes(comparison.difference, [name], [axis]))
    encoder = comparison.difference.encoder
    reaches = [_reach(model, name, encoder, output) for model in comparison.originals]
    with_bands = all(reach is not None for reach in reaches)
    axes, limits = new_axes(None, shown), shown_range(shown, MAIN_RANKS)
    if heavy_tails(comparison.difference, [name], log_axes=True)[0]:
        set_logarithmic(shown, axes.xaxis)
    axes.axhline(0.0, color=GREY, linewidth=0.7)
    models = zip((comparison.old, comparison.new), comparison.names, reaches, STYLES, strict=True)
    for model, label, reach, (colour, shift) in models:
        values = _values(model, component, output, [axis])
        half = reach[nodes] if with_bands and reach is not None else np.zeros(len(nodes))
        draw_effect(axes, shown, values, values - half, values + half,
                    colour=colour, label=literal(label), shift=shift)  # fmt: skip
    label_axis(shown, name, names, axes.xaxis, limits)
    legend_above(axes)
    tidy(axes)
    return picture(_title(comparison, component, output), axes.figure)


def _reach(model: AnovaModel, name: str, encoder: TableEncoder, output: int) -> FloatArray | None:
    """Half the width of a model's own band at common nodes.

    It is zero where the model has no main effect, and None where it has no band, for example
    because an edit made it void.
    """
    if model.evidence.posteriors is None:
        return None
    if (name,) not in model.component_names:
        return np.zeros(encoder.axes[1][encoder.feature_names.index(name)].n_nodes)
    place = model.component_names.index((name,))
    posterior = model.evidence.posteriors[place]
    if posterior is None:
        return None
    reaches = {model.components.components[place]: posterior.uncertainty().half_widths()}
    (reach,) = lifted_tables(model, reaches, encoder).values()
    return reach[..., output]
