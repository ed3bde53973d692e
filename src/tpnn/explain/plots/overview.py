"""Overviews: the importance of all components, and the most important ones side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

from tpnn.explain.plots.heat_maps import LEFT_BY_COLOUR_BAR, pair_effect, triple_effect
from tpnn.explain.plots.labels import (
    inches_for_names,
    inches_of_panel,
    joined_names,
    letters_beside,
    literal,
)
from tpnn.explain.plots.main_effects import main_effect
from tpnn.explain.plots.style import (
    BLUE,
    GREY,
    INK,
    LABEL_SIZE,
    PALE,
    PURPLE,
    TICK_SIZE,
    axes_or_new,
    check_explanation,
    finished,
    new_panels,
    tidy_names,
)
from tpnn.explain.response import RAW
from tpnn.explain.selection_path import SelectionPath
from tpnn.model.remainder import remainder_name
from tpnn.model.summary import importance_interval_of
from tpnn.table.axis import Axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tpnn.explain.explanation import Explanation, Wanted


PANEL_INCHES = 3.6, 2.7  # width and height of one of many panels
MOST_PANEL_INCHES = 5.4, 4.05  # where it has many levels
MOST_WIDE = 20.0  # inches of all panels of a row of outputs


def component(
    explanation: Explanation,
    component: Wanted,
    ax: Axes | None = None,
    *,
    scale: str = RAW,
    reference: Any = None,
    log_axes: bool = True,
) -> Axes:
    """Draw a component of one, two or three features in the way that suits it.

    The arguments are those of :func:`tpnn.plots.main_effect`.
    """
    check_explanation(explanation)
    names = explanation.component(component).names
    draw = {1: main_effect, 2: pair_effect, 3: triple_effect}.get(len(names))
    if draw is None:
        raise ValueError(
            f"component: one of at most 3 features can be drawn, found {names}. "
            "Read it with explanation.component(...).to_frame()."
        )
    return draw(explanation, component, ax, scale=scale, reference=reference, log_axes=log_axes)


def components(
    explanation: Explanation,
    n_components: int = 9,
    n_columns: int = 3,
    *,
    scale: str = RAW,
    reference: Mapping[str, Any] | None = None,
    log_axes: bool = True,
) -> Figure:
    """Draw the most important components of one or two features, one in each panel.

    The last panel is the remainder, if the model has one. A model of several outputs has a row for
    each component and a column for each output; the main effects of a row have one scale.

    Parameters
    ----------
    explanation : Explanation
        What is drawn.
    n_components, n_columns : int
        Largest number of panels, and number of panels in a row.
    scale, log_axes
        As in :func:`tpnn.plots.main_effect`.
    reference : dict from feature to value, optional
        References of the response scale; other features take their median or most frequent level.
    """
    check_explanation(explanation)
    ranked, rest = ranked_components(explanation)
    most = n_components - (rest is not None)
    drawn = [names for names, _ in ranked if len(names) <= 2][:most]
    outputs = explanation.model.output_names
    parts = [explanation.of(name) for name in outputs] or [explanation]
    n_columns = len(outputs) or n_columns
    n_panels = len(drawn) * len(parts) + (rest is not None)
    n_rows = math.ceil(n_panels / n_columns)
    width, height = _panel_inches([explanation.component(names).axes for names in drawn])
    whole = width * n_columns if not outputs else min(width * n_columns, MOST_WIDE)
    figure, panels = new_panels(n_rows, n_columns, whole, height * n_rows)
    wanted = [(part, names) for names in drawn for part in parts]
    for (part, names), axes in zip(wanted, panels.flat, strict=False):
        component(part, names, axes, scale=scale, reference=reference, log_axes=log_axes)
    if rest is not None:
        _put_names_on_bars(remainder(explanation, panels.flat[len(wanted)]))
    for axes in panels.flat[n_panels:]:
        axes.set_axis_off()
    for names, row in zip(drawn if outputs else (), panels, strict=False):
        if len(names) == 1:
            ends = [axes.get_ylim() for axes in row]
            low, high = min(end[0] for end in ends), max(end[1] for end in ends)
            for axes in row:
                axes.set_ylim(low, high)
    for output, axes in zip(outputs, panels[0], strict=False):
        axes.set_title(literal(output), fontsize=LABEL_SIZE)
    return figure  # type: ignore[no-any-return]


def _put_names_on_bars(axes: Axes) -> None:
    """Let the names of bars stand on them, where they take no room from other panels."""
    for bar in axes.patches:
        bar.set_facecolor(PALE)
    for label in axes.get_yticklabels():
        label.set_horizontalalignment("left")
    axes.tick_params(axis="y", length=0, pad=-4)


def _panel_inches(drawn: Sequence[Sequence[Axis]]) -> tuple[float, float]:
    """Width and height of all panels: more than usual where one of them has many levels."""
    width, height = PANEL_INCHES
    for x, *y in drawn:
        if x.levels is not None:
            width = max(width, inches_of_panel(x.n_nodes, LEFT_BY_COLOUR_BAR if y else 1.0))
        if y and y[0].levels is not None:
            height = max(height, inches_of_panel(y[0].n_nodes))
    most_wide, most_high = MOST_PANEL_INCHES
    return min(width, most_wide), min(height, most_high)


def importance(explanation: Explanation, n_components: int = 10, ax: Axes | None = None) -> Axes:
    """Draw bars of the largest l1 norms, main effects in blue, interactions in purple.

    Whiskers are intervals of 95 %. A component whose interval holds 0 may be nothing, and is grey.
    The last bar, a pale one, is the remainder, if the model has one.
    """
    check_explanation(explanation)
    ranked, rest = ranked_components(explanation)
    shown = ranked[:n_components]
    intervals = [
        importance_interval_of(explanation.model, explanation.find(names)) for names, _ in shown
    ]
    colours = [
        GREY if interval is not None and interval[0] == 0 else BLUE if len(names) == 1 else PURPLE
        for (names, _), interval in zip(shown, intervals, strict=True)
    ]
    if rest is not None:
        shown, colours, intervals = [*shown, rest], [*colours, PALE], [*intervals, None]
    axes = _named_bars(explanation, shown, colours, "importance  E|f|", ax)
    for place, interval in enumerate(intervals[::-1]):
        if interval is not None:
            axes.plot(interval, (place, place), color=INK, linewidth=0.9, marker="|", markersize=4)
    return axes  # type: ignore[no-any-return]


def remainder(explanation: Explanation, ax: Axes | None = None) -> Axes:
    """Draw the largest sets of features in the remainder, by their shares of the variance."""
    check_explanation(explanation)
    rest, (name,) = explanation.model.remainder, remainder_name(explanation.model.feature_names)
    if rest is None:
        raise ValueError(
            "explanation: the model has no remainder, so there is nothing to draw. Fit with "
            "remainder=True, or draw the components."
        )
    bars = [(each.features, 100 * each.share) for each in rest.largest]
    axes = _named_bars(explanation, bars, [GREY] * len(bars), "% of the variance", ax)
    whole = 100 * explanation.sobol()[name,]
    axes.set_title(f"{name}, {whole:.2g} % in all", fontsize=LABEL_SIZE)
    return axes  # type: ignore[no-any-return]


Bar = tuple[tuple[str, ...], float]  # names of features, and a size


def ranked_components(explanation: Explanation) -> tuple[list[Bar], Bar | None]:
    """Rank all components by importance; the remainder, if there is one, stands apart."""
    sizes = explanation.importance()
    if explanation.model.remainder is None:
        return list(sizes.items()), None
    name = remainder_name(explanation.model.feature_names)
    rest = name, sizes.pop(name)
    return list(sizes.items()), rest


def _named_bars(
    explanation: Explanation, bars: Sequence[Bar], colours: Sequence[str], label: str, ax: Any
) -> Any:
    """Draw a bar for each set of features, the first at the top."""
    others, letters = explanation.model.feature_names, letters_beside(ax)
    labels = [joined_names(names, letters, others) for names, _ in bars[::-1]]
    axes = axes_or_new(ax, 3.0 + inches_for_names(labels), 0.8 + 0.24 * len(bars))
    sizes = [size for _, size in bars[::-1]]
    axes.barh(range(len(bars)), sizes, color=colours[::-1], height=0.66)
    axes.locator_params(axis="x", nbins=4)
    axes.set_yticks(range(len(bars)), labels)
    axes.set_xlabel(label, fontsize=LABEL_SIZE)
    tidy_names(axes)
    return axes


MARKS = "x+sd"  # of the models of all components up to an order


def path(path: SelectionPath, ax: Axes | None = None) -> Axes:
    """Draw the held-out loss of the models of a path against their number of components.

    Bars are standard errors of the difference to the full model, which has a ring. Grey marks are
    the models of all components up to a lower order: where the full model has pairs but no triples,
    order 1 alone, and the full model is that of order 2. The line shows the size of the fitted
    model.

    Parameters
    ----------
    path : SelectionPath
        What ``model.path()`` returns.
    ax : Axes, optional
        Where to draw; by default a new figure.
    """
    if not isinstance(path, SelectionPath):
        raise TypeError(
            f"path: must be a path of models, found {type(path).__name__}. "
            "Pass model.path() of a fitted estimator."
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
    orders = [len(component) for step in path.steps for component in step.added]
    full = f"full, order {max(orders)}" if orders else "full"
    axes.plot(sizes[-1], losses[-1], color=GREY, label=full, **ring)
    axes.set_xscale("log")
    axes.set_xticks(sizes, [str(size) for size in sizes], fontsize=TICK_SIZE)
    axes.minorticks_off()
    return finished(axes, "number of components", "held-out loss", True)  # type: ignore[no-any-return]
