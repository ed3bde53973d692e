"""Plots of rows: the contributions of one row, and the Shapley values of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tpnn._typing import FloatArray
from tpnn.anova.shapley import share, value_weights
from tpnn.explain.plots.checks import check_one_output
from tpnn.explain.plots.style import (
    BLUE,
    GREY,
    LABEL_SIZE,
    RED,
    TICK_SIZE,
    axes_or_new,
    joined_names,
    load_pyplot,
    tidy_names,
)
from tpnn.explain.reading import Reading
from tpnn.table.axis import Axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_SWARM_BINS = 60  # from zero to the largest value; points of one bin are spread
SWARM_STEP, SWARM_HEIGHT = 0.06, 0.8  # from point to point and at most in all, in lines


def waterfall(
    explanation: Reading, row: int = 0, n_components: int = 9, ax: Axes | None = None
) -> Axes:
    """Draw how the components lead from the intercept to the raw score of one row.

    The largest contributions are at the top; one bar sums the rest. An offset is not included.
    """
    check_one_output(explanation)
    scores = explanation.scores[row]
    order = np.argsort(-np.abs(scores))
    labels = [joined_names(explanation.model.component_names[i]) for i in order[:n_components]]
    steps = scores[order[:n_components]].tolist()
    if len(order) > n_components:
        labels.append(f"{len(order) - n_components} others")
        steps.append(float(scores[order[n_components:]].sum()))
    ends = explanation.model.intercept + np.cumsum(steps[::-1])[::-1]  # the smallest comes first
    axes = axes_or_new(ax, 5.2, 0.9 + 0.28 * len(steps))
    for place, (step, end) in enumerate(zip(steps, ends, strict=True)):
        colour = RED if step > 0 else BLUE
        axes.barh(place, step, left=end - step, color=colour, height=0.66)
        axes.annotate(
            f"{step:+.3g}", (end, place), xytext=(3 if step > 0 else -3, 0), va="center",
            ha="left" if step > 0 else "right", textcoords="offset points", fontsize=TICK_SIZE,
            color=colour,
        )  # fmt: skip
        axes.plot([end, end], [place - 1 if place else -0.5, place], color=GREY, linewidth=0.6)
    axes.axvline(explanation.model.intercept, color=GREY, linewidth=0.6, linestyle=":")
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.use_sticky_edges = False
    axes.margins(x=0.22)
    axes.set_title(f"raw score {ends[0]:.4g}", fontsize=LABEL_SIZE, loc="right")
    axes.set_xlabel(f"from the intercept, {explanation.model.intercept:.4g}", fontsize=LABEL_SIZE)
    tidy_names(axes)
    return axes  # type: ignore[no-any-return]


def shap_summary(explanation: Reading, n_features: int = 10, ax: Axes | None = None) -> Axes:
    """Draw the Shapley values of all rows, a line of points per feature, coloured by its value.

    Points stand one above the other where they would overlap. Colours are the ranks of the values:
    blue is low, red is high; levels without order and missing values are grey.
    """
    check_one_output(explanation)
    model = explanation.model
    weights = value_weights(model.components.components, len(model.feature_names))
    values = share(explanation.scores, weights)
    top = np.argsort(-np.abs(values).mean(0))[:n_features]
    axes = axes_or_new(ax, 5.2, 0.8 + 0.36 * len(top))
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
    axes.set_yticks(range(len(top)), [model.feature_names[feature] for feature in top])
    axes.set_ylim(len(top) - 0.5, -0.5)
    axes.set_xlabel("Shapley value", fontsize=LABEL_SIZE)
    tidy_names(axes)
    return axes  # type: ignore[no-any-return]


def _ranks(axis: Axis, x: FloatArray) -> FloatArray:
    """Rank of each value among the training rows, NaN where it has none."""
    if axis.is_nominal or axis.n_regular == 0:
        return np.full(len(x), np.nan)
    n = axis.n_regular
    return np.where(np.isfinite(x), np.interp(x, axis.values[:n], axis.positions[:n]), np.nan)


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
