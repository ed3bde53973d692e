"""Plots of rows: the contributions of one row, and the Shapley values of all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.explain.plots.axes import label_through
from tpnn.explain.plots.labels import (
    LEVEL_LETTERS,
    SHORTEST_NAME,
    inches_for_names,
    letters_beside,
    shortened_among,
    shortened_together,
)
from tpnn.explain.plots.style import (
    BLUE,
    GREY,
    LABEL_SIZE,
    RED,
    TICK_SIZE,
    axes_or_new,
    check_one_output,
    load_pyplot,
    tidy_names,
    write_factor,
)
from tpnn.explain.response import RAW, RESPONSE, is_factor
from tpnn.loss.links import LINKS
from tpnn.model.remainder import remainder_name
from tpnn.table.axis import Axis
from tpnn.table.words import value_word

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tpnn.explain.explanation import Explanation


VALUE_LETTERS = 19  # of a value: a date with its time
N_SWARM_BINS = 60  # from zero to the largest value; points of one bin are spread
SWARM_STEP, SWARM_HEIGHT = 0.06, 0.8  # from point to point and at most in all, in lines


def waterfall(
    explanation: Explanation,
    row: int = 0,
    n_components: int = 9,
    ax: Axes | None = None,
    *,
    scale: str = RAW,
    reference: Any = None,
) -> Axes:
    """Draw how the components lead from the intercept to the raw score of one row.

    The largest contributions are at the top, with the values that the row has; one bar sums the
    rest, and the remainder is the last. An offset is not included.

    Parameters
    ----------
    explanation : Explanation
        What is drawn: an explanation of rows.
    row : int, default=0
        Number of the row among those explained.
    n_components : int, default=9
        Largest number of components with a bar of their own.
    ax : Axes, optional
        Where to draw; by default a new figure.
    scale : {"raw", "response"}, default="raw"
        On the response scale the axis shows predictions, and contributions are written as factors
        where the link is a log or a logit.
    reference : dict from feature to value, optional
        Begin at the score of a reference row instead of the intercept; features that it leaves out
        take their most frequent level or their median.
    """
    check_one_output(explanation)
    link, n_parts = explanation.model.link, len(explanation.model.components)
    scores = explanation.steps_from(reference)[row]
    intercept = explanation.raw_score_at(reference)
    write = write_factor if is_factor(link, scale) else _signed
    order = np.argsort(-np.abs(scores[:n_parts]))
    letters = letters_beside(ax)
    labels = [_component_in_words(explanation, i, row, letters) for i in order[:n_components]]
    steps = scores[order[:n_components]].tolist()
    if len(order) > n_components:
        labels.append(f"{len(order) - n_components} others")
        steps.append(float(scores[order[n_components:]].sum()))
    if len(scores) > n_parts:
        labels.extend(remainder_name(explanation.model.feature_names))
        steps.append(float(scores[-1]))
    ends = intercept + np.cumsum(steps[::-1])[::-1]  # the smallest comes first
    axes = axes_or_new(ax, 3.4 + inches_for_names(labels), 0.9 + 0.28 * len(steps))
    _draw_steps(axes, steps, ends, [write(step) for step in steps])
    axes.axvline(intercept, color=GREY, linewidth=0.6, linestyle=":")
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.use_sticky_edges = False
    both = np.array([ends[0], intercept])
    total, start = link.inverse(both) if scale == RESPONSE else both
    title = "prediction" if scale == RESPONSE else "raw score"
    axes.set_title(f"{title} {total:.4g}", fontsize=LABEL_SIZE, loc="right")
    origin = "intercept" if reference is None else "reference"
    axes.set_xlabel(f"from the {origin}, {start:.4g}", fontsize=LABEL_SIZE)
    if scale == RESPONSE:
        label_through(axes.xaxis, link, axes.get_xlim())
    tidy_names(axes)
    return axes  # type: ignore[no-any-return]


def _draw_steps(axes: Any, steps: list[float], ends: FloatArray, words: list[str]) -> None:
    """Draw a bar for each step, joined to the next one, with its size at the right margin."""
    for place, (step, end, word) in enumerate(zip(steps, ends, words, strict=True)):
        colour = RED if step > 0 else BLUE
        axes.barh(place, step, left=end - step, color=colour, height=0.66)
        axes.annotate(
            word, (1, place), xycoords=axes.get_yaxis_transform(), xytext=(4, 0), va="center",
            textcoords="offset points", fontsize=TICK_SIZE, color=colour,
        )  # fmt: skip
        axes.plot([end, end], [place - 1 if place else -0.5, place], color=GREY, linewidth=0.6)


def _signed(step: float) -> str:
    return f"{step:+.3g}".replace("-", "\N{MINUS SIGN}")


def _component_in_words(explanation: Explanation, index: int, row: int, letters: int) -> str:
    """Features of a component with their values in a row: "age = 42 × town = Ulm"."""
    model, words = explanation.model, list[str]()
    features = model.components.components[index]
    each = max((letters - 3 * (len(features) - 1)) // len(features), LEVEL_LETTERS)
    for j in features:
        feature = model.encoder.features[j]
        word = value_word(feature, explanation.columns[j][row])
        value = f" = {shortened_among(word, VALUE_LETTERS, list(map(str, feature.levels)))}"
        room = max(each - len(value), SHORTEST_NAME)
        words.append(shortened_among(model.feature_names[j], room, model.feature_names) + value)
    return " × ".join(words)


def shap_summary(
    explanation: Explanation,
    n_features: int = 10,
    ax: Axes | None = None,
    *,
    scale: str = RAW,
    reference: Any = None,
) -> Axes:
    """Draw the Shapley values of all rows, a line of points per feature, coloured by its value.

    Points stand one above the other where they would overlap. Colours are the ranks of the values:
    blue is low, red is high; levels without order and missing values are grey. On the response
    scale of a log or logit link the axis shows factors. ``reference`` is that of
    :func:`tpnn.plots.waterfall`.
    """
    check_one_output(explanation)
    model, values = explanation.model, explanation.shapley(reference)
    as_factor = is_factor(model.link, scale)
    top = np.argsort(-np.abs(values).mean(0))[:n_features]
    short = shortened_together(model.feature_names, letters_beside(ax))
    names = [short[j] for j in top]
    axes = axes_or_new(ax, 4.0 + inches_for_names(names), 0.8 + 0.36 * len(top))
    axes.axvline(0, color=GREY, linewidth=0.7)
    columns = explanation.columns
    cmap = load_pyplot().get_cmap("coolwarm").with_extremes(bad=GREY)
    reach = np.abs(values[:, top]).max() or 1.0
    for place, feature in enumerate(top):
        points = values[:, feature]
        ranks = _ranks(model.encoder.axes[1][feature], columns[feature])
        swarm = axes.scatter(
            points, place + _swarm(points / reach), c=ranks, cmap=cmap, vmin=0, vmax=1,
            s=5, linewidths=0, rasterized=True, plotnonfinite=True,
        )  # fmt: skip
    bar = axes.figure.colorbar(swarm, ax=axes, pad=0.01, aspect=40, ticks=[0, 1])
    bar.ax.set_yticklabels(["low", "high"], fontsize=TICK_SIZE)
    bar.ax.tick_params(length=0)
    bar.outline.set_visible(False)
    axes.set_yticks(range(len(top)), names)
    axes.set_ylim(len(top) - 0.5, -0.5)
    axes.set_xlabel("Shapley value", fontsize=LABEL_SIZE)
    if as_factor:
        label_through(axes.xaxis, LINKS["log"], axes.get_xlim(), "×")
    tidy_names(axes)
    return axes  # type: ignore[no-any-return]


def _ranks(axis: Axis, x: FloatArray) -> FloatArray:
    """Rank of each value among the training rows, NaN where it has none."""
    if axis.is_nominal or axis.is_empty:
        return np.full(len(x), np.nan)
    ranks = np.interp(x, axis.values, axis.positions[axis.regular])
    return np.where(np.isfinite(x), ranks, np.nan)


def _swarm(points: FloatArray) -> FloatArray:
    """Heights that spread crowded points, at most half of SWARM_HEIGHT from their line."""
    bins = np.round(points * N_SWARM_BINS).astype(int)
    heights = np.zeros(len(points))
    largest = np.bincount(bins - bins.min()).max()
    for place in np.unique(bins):
        members = np.flatnonzero(bins == place)
        ladder = np.arange(len(members))
        heights[members] = np.where(ladder % 2, -1, 1) * ((ladder + 1) // 2)
    return np.asarray(heights * min(SWARM_STEP, SWARM_HEIGHT / largest))
