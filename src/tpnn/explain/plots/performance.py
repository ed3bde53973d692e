"""Plots of predictions beside targets: by feature, by prediction, and of two models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.explain.doubt import REACH, share_interval
from tpnn.explain.plots.labels import (
    label_levels,
    legend_words,
    literal,
    name_axis,
    points_along,
)
from tpnn.explain.plots.style import (
    BLUE,
    COLOURS,
    GREY,
    INK,
    LABEL_SIZE,
    PALE,
    RED,
    TICK_SIZE,
    axes_or_new,
    finished,
    write_ticks,
)
from tpnn.model.model import AnovaModel, offset_of
from tpnn.model.task import Task, even_groups
from tpnn.table.axis import UNSEEN_WORD
from tpnn.table.words import MISSING_WORD, value_word, written

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tpnn.explain.metrics.curves import Groups

MOST_LEVELS = 30  # that stand apart; the rarest others are one
POINTS: Any = {"s": 4, "color": BLUE, "alpha": 0.25, "linewidths": 0, "rasterized": True}


class Scored(NamedTuple):
    """One prediction and one target for each row, (n_rows,) each, per unit of exposure."""

    model: AnovaModel
    columns: list[FloatArray]
    task: Task
    raw: FloatArray
    offset: FloatArray
    actual: FloatArray
    predicted: FloatArray
    exposure: FloatArray


def scored(model: Any, X: Any, y: Any, offset: Any) -> Scored:
    """Read rows and targets for a model or a fitted estimator with one output."""
    (one,) = scored_outputs(model, X, y, offset, most=1).values()
    return one


def scored_outputs(
    model: Any, X: Any, y: Any, offset: Any, most: float = np.inf
) -> dict[str, Scored]:
    """Read rows and targets of each class of several, by name, or of the only output."""
    frozen = getattr(model, "model_", model)
    n_outputs, is_many = len(frozen.intercepts), frozen.link.kind == "classes"
    if n_outputs > (most if is_many else 1) or frozen.evidence.baseline is not None:
        raise ValueError(
            "model: this plot needs one prediction and one target for each row, found a model with "
            "several outputs or of survival. Use the report, or tpnn.metrics."
        )
    rows = frozen.encoder.read(X)
    added = offset_of(frozen, rows, offset)
    known = np.zeros(rows.n_rows) if added is None else np.asarray(added, np.float64)
    passed = offset if frozen.encoder.offset_column is None else None
    raw, task = frozen.raw_scores(rows, passed), frozen.task.told(y)
    exposure = np.exp(known) if frozen.link.kind == "rates" else np.ones(rows.n_rows)
    actual, predicted = task.targets(y, rows.n_rows), frozen.link.inverse(raw)
    columns = frozen.encoder.columns(rows)
    return {
        name: Scored(
            model=frozen,
            columns=columns,
            task=task,
            raw=raw.reshape(rows.n_rows, -1)[:, k],
            offset=known,
            actual=actual[:, k] / exposure,
            predicted=predicted.reshape(rows.n_rows, -1)[:, k] / exposure,
            exposure=exposure,
        )
        for k, name in enumerate(frozen.output_names or ("",))
    }


class Means(NamedTuple):
    """Weighted means of rows in groups, (n_groups,) each."""

    exposure: FloatArray
    actual: FloatArray
    predicted: FloatArray
    lower: FloatArray  # interval of 95 % of the mean target
    upper: FloatArray


def grouped_means(rows: Scored, groups: IntArray) -> Means:
    """Means of targets and predictions in groups that are numbered from 0, without empty ones."""
    weights, sizes = rows.exposure, np.bincount(groups).astype(float)
    exposure: FloatArray = np.bincount(groups, weights).astype(np.float64)
    actual, predicted = (
        np.bincount(groups, weights * values) / exposure for values in (rows.actual, rows.predicted)
    )
    if rows.task.kind == "classes":
        return Means(exposure, actual, predicted, *share_interval(actual, sizes))
    errors = weights * (rows.actual - actual[groups])
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.sqrt(np.bincount(groups, errors**2) * sizes / (sizes - 1)) / exposure
    reach = np.where(sizes > 1, REACH * spread, np.nan)
    return Means(exposure, actual, predicted, actual - reach, actual + reach)


def one_way(
    model: Any, X: Any, y: Any, feature: str, ax: Axes | None = None, *, offset: Any = None
) -> Axes:
    """Draw the mean target beside the mean prediction along a feature, with bars of exposure.

    Numbers are cut into about ten groups of the same exposure. Points of the targets have intervals
    of 95 %. The bars, on an axis of their own, are rows or, where the model has one, exposure. Each
    of several classes has its own colour.

    Parameters
    ----------
    model : AnovaModel or fitted estimator
        A model of classes, or with one output: of numbers, counts or amounts.
    X, y : table and array
        Rows that the model has not seen, and their targets.
    feature : str
        Name of the feature.
    ax : Axes, optional
        Where to draw; by default a new figure.
    offset : array of shape (n_rows,), optional
        Known part of the raw scores, as in ``predict``.
    """
    outputs = scored_outputs(model, X, y, offset)
    rows = next(iter(outputs.values()))
    names = list(rows.model.feature_names)
    if feature not in names:
        raise ValueError(f"feature: must be one of the model's, found {feature!r}. It has {names}.")
    groups, words = _along(rows, names.index(feature))
    means = {name: grouped_means(one, groups) for name, one in outputs.items()}
    exposure, places = np.bincount(groups, rows.exposure), np.arange(len(words))
    axes = axes_or_new(ax, max(4.2, 1.6 + 0.24 * len(words)), 3.2)
    bars = axes.twinx()
    bars.bar(places, exposure, color=PALE, width=0.8, zorder=0)
    bars.set_ylim(0, 4 * exposure.max())
    bars.set_yticks([])
    bars.spines[:].set_visible(False)
    axes.set_zorder(bars.get_zorder() + 1)
    axes.patch.set_visible(False)
    if len(means) == 1:
        _draw_means(axes, places, means[next(iter(means))])
    else:
        shown = legend_words(list(map(str, means)))
        for number, (name, one) in enumerate(zip(shown, means.values(), strict=True)):
            again, place = divmod(number, len(COLOURS))
            _draw_means(axes, places, one, COLOURS[place], COLOURS[place], name)
            axes.lines[-1].set_linestyle("--" if again else "-")
    axes.set_xlim(-0.6, len(words) - 0.4)
    points = points_along(axes.xaxis)
    label_levels(axes.xaxis, places.tolist(), words, points)
    name_axis(axes.xaxis, feature, names, "", points)
    beside = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)} if len(means) > 1 else {}
    axes.legend(frameon=False, fontsize=TICK_SIZE, **beside)
    y_label = "mean" if rows.task.kind == "numbers" else _share_or_rate(rows)
    return finished(axes, y=y_label)  # type: ignore[no-any-return]


def _share_or_rate(rows: Scored) -> str:
    if rows.task.kind == "classes":
        return (
            literal(f"share of {rows.task.classes[1]}") if len(rows.task.classes) == 2 else "share"
        )
    return "mean per unit of exposure" if np.ptp(rows.exposure) else "mean"


def _draw_means(
    axes: Any, places: Any, means: Means, points: str = INK, line: str = BLUE, of: str = ""
) -> None:
    """Draw targets as points and predictions as a line, which has the name of a class."""
    axes.errorbar(
        places, means.actual, _reach(means), fmt="o", color=points, markersize=4, elinewidth=1,
        label=None if of else "actual",
    )  # fmt: skip
    axes.plot(places, means.predicted, "-", color=line, linewidth=1.6, label=of or "predicted")


def _reach(means: Means | Groups) -> FloatArray:
    """How far the intervals go down and up, (2, n_groups); 0 where they are not known."""
    reach = np.stack([means.actual - means.lower, means.upper - means.actual])
    return np.nan_to_num(reach).clip(0)


def _along(rows: Scored, number: int) -> tuple[IntArray, list[str]]:
    """Group of each row by a feature, and the groups in words; missing values are the last one."""
    feature, column = rows.model.encoder.features[number], rows.columns[number]
    finite, groups, words = np.isfinite(column), np.empty(len(column), np.intp), list[str]()
    if finite.any() and not feature.levels:
        groups[finite] = even_groups(column[finite], rows.exposure[finite])
        for group in range(groups[finite].max() + 1):
            ends = column[finite][groups[finite] == group]
            low, high = value_word(feature, ends.min()), value_word(feature, ends.max())
            words.append(low if low == high else f"{low} to {high}")
    elif finite.any():
        shown, codes = np.unique(column[finite], return_inverse=True)
        sizes = np.bincount(codes, rows.exposure[finite])
        rare = np.argsort(-sizes, kind="stable")[MOST_LEVELS:]
        place = np.cumsum(~np.isin(np.arange(len(shown)), rare)) - 1
        place[rare] = MOST_LEVELS
        groups[finite] = place[codes]
        words = [value_word(feature, x) for k, x in enumerate(shown) if k not in set(rare.tolist())]
        words += ["other levels"] * (len(rare) > 0)
    for is_odd, word in ((np.isposinf(column), UNSEEN_WORD), (np.isnan(column), MISSING_WORD)):
        if is_odd.any():
            groups[is_odd] = len(words)
            words.append(word)
    return groups, words


def double_lift(
    models: Mapping[str, Any], X: Any, y: Any, ax: Axes | None = None, *, offset: Any = None
) -> Axes:
    """Draw two models beside the targets, from rows that the second puts lower to higher ones.

    Rows are sorted by the difference of raw scores, in ten groups of the same exposure. The better
    model is the one whose line follows the points. Arguments are those of
    :func:`tpnn.plots.one_way`; ``models`` has two models by name.
    """
    if not isinstance(models, Mapping) or len(models) != 2:
        raise ValueError(
            "models: two models by name are needed, as in {'old': old, 'new': new}. "
            f"Found {len(models) if isinstance(models, Mapping) else type(models).__name__}."
        )
    first, second = (scored(model, X, y, offset) for model in models.values())
    groups = even_groups(second.raw - first.raw, first.exposure)
    both = [grouped_means(rows, groups) for rows in (first, second)]
    axes, places = axes_or_new(ax), np.arange(1, len(both[0].actual) + 1)
    names = legend_words(list(map(str, models)))
    _draw_means(axes, places, both[0])
    axes.lines[-1].set(color=GREY, label=names[0])
    axes.plot(places, both[1].predicted, "-", color=BLUE, linewidth=1.6, label=names[1])
    axes.set_xticks(places)
    x_label = f"group, by {' less '.join(name.strip() for name in names[::-1])}"
    return finished(axes, x_label, _share_or_rate(first), True)  # type: ignore[no-any-return]


def dislocation(comparison: Any, by: Any = None, ax: Axes | None = None) -> Axes:
    """Draw how many rows pay more or less by how much, of a tariff that follows another.

    Parameters
    ----------
    comparison : RowComparison
        What ``tpnn.compare`` returns of two models by their predictions.
    by : str or array of shape (n_rows,), optional
        A column of its rows, or a label for each of them: then every label has a bar.
    ax : matplotlib Axes, optional
        Where to draw; by default in a new figure.
    """
    frame = comparison.dislocation(by)
    if by is None:
        words, labels, shares = list(frame["band"]), [""], frame["share"].to_numpy()[None]
    else:
        words = list(frame.columns[list(frame.columns).index("change") + 1 :])
        labels, shares = list(map(str, frame.iloc[:, 0])), frame[words].to_numpy()
    axes = axes_or_new(ax, height=max(3.0, 0.3 * len(labels)))
    middle = (len(words) - 1) / 2
    for band, word in enumerate(words):  # from falls to rises, the paler the smaller
        colour, size = (BLUE, RED)[band > middle], abs(band - middle) / max(middle, 1.0)
        shade: Any = {"color": colour if size else GREY, "alpha": 0.35 + 0.65 * size}
        if by is None:
            axes.barh(band, shares[0, band], **shade)
            axes.text(shares[0, band], band, f" {100 * shares[0, band]:.3g} %", va="center",
                      fontsize=TICK_SIZE)  # fmt: skip
        else:
            left = shares[:, :band].sum(1)
            axes.barh(np.arange(len(labels)), shares[:, band], left=left, label=word, **shade)
    if by is None:
        axes.set_yticks(range(len(words)), words)
    else:
        label_levels(axes.yaxis, range(len(labels)), labels, points_along(axes.yaxis))
    axes.invert_yaxis()
    return finished(axes, "share of the rows", "", by is not None)  # type: ignore[no-any-return]


def gain(
    model: Any, X: Any, y: Any, ax: Axes | None = None, *, offset: Any = None, lorenz: bool = False
) -> Axes:
    """Draw the share of the target that the rows with the largest predictions have.

    ``lorenz=True`` begins at the smallest predictions. The dashed line is a model that knows
    nothing, the grey one a perfect order; the title has the Gini index, the area between curve and
    dashed line over that of the perfect order. Other arguments are those of
    :func:`tpnn.plots.one_way`; targets must not be negative.
    """
    rows = scored(model, X, y, offset)
    if rows.actual.min() < 0 or rows.actual.max() <= 0:
        raise ValueError(
            "y: shares need targets of at least 0 that are not all 0, found others. Use residuals "
            "or predicted_actual."
        )
    sign, axes = 1.0 if lorenz else -1.0, axes_or_new(ax)
    curves = {
        name: _shares(rows, sign * ranked)
        for name, ranked in (("perfect order", rows.actual), ("model", rows.predicted))
    }
    for (name, (x, share)), colour in zip(curves.items(), (GREY, BLUE), strict=True):
        axes.plot(x, share, color=colour, linewidth=1.6, label=name)
    axes.plot([0, 1], [0, 1], "--", color=GREY, linewidth=0.8)
    areas = ((np.diff(x) * (share[1:] + share[:-1]) / 2).sum() for x, share in curves.values())
    best, own = (abs(float(area) - 0.5) for area in areas)
    axes.set_title(f"Gini {written(own / best if best else 0.0)}", fontsize=LABEL_SIZE, loc="right")
    x_label = f"share of rows with the {'smallest' if lorenz else 'largest'} predictions"
    return _between_numbers(axes, x_label, "their share of the target", has_legend=True)


def _shares(rows: Scored, ranked: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Shares of exposure and of the target up to each value; rows of one value are one step."""
    _, steps = np.unique(ranked, return_inverse=True)
    exposure = np.bincount(steps, rows.exposure)
    target = np.bincount(steps, rows.exposure * rows.actual)
    x, share = (np.r_[0.0, np.cumsum(part) / part.sum()] for part in (exposure, target))
    return x, share


def residuals(model: Any, X: Any, y: Any, ax: Axes | None = None, *, offset: Any = None) -> Axes:
    """Draw target less prediction against the prediction, and its mean in ten groups.

    Points of the means have intervals of 95 %: where one does not hold zero the model is off.
    Arguments are those of :func:`tpnn.plots.one_way`.
    """
    rows = scored(model, X, y, offset)
    means = grouped_means(rows, even_groups(rows.predicted, rows.exposure))
    axes, errors = axes_or_new(ax), means.actual - means.predicted
    axes.scatter(rows.predicted, rows.actual - rows.predicted, **POINTS)
    axes.errorbar(means.predicted, errors, _reach(means), fmt="o", color=INK, markersize=4)
    axes.axhline(0.0, color=GREY, linewidth=0.7)
    return _between_numbers(axes, "prediction", "target less prediction")


def predicted_actual(
    model: Any, X: Any, y: Any, ax: Axes | None = None, *, offset: Any = None
) -> Axes:
    """Draw targets against predictions, row by row; on the dashed line they are the same.

    Arguments are those of :func:`tpnn.plots.one_way`.
    """
    rows, axes = scored(model, X, y, offset), axes_or_new(ax)
    axes.scatter(rows.predicted, rows.actual, **POINTS)
    ends = [float(rows.predicted.min()), float(rows.predicted.max())]
    axes.plot(ends, ends, "--", color=RED, linewidth=1.0)
    return _between_numbers(axes, "prediction", "target")


def reliability(model: Any, X: Any, y: Any, ax: Axes | None = None, *, offset: Any = None) -> Axes:
    """Draw mean target against mean prediction in about ten groups, as the report does.

    Bars are intervals of 95 %, and the area of a point is its number of rows. Arguments are those
    of :func:`tpnn.plots.one_way`.
    """
    from tpnn.explain.metrics.curves import calibration_groups  # needs scikit-learn

    rows, axes = scored(model, X, y, offset), axes_or_new(ax)
    target = (rows.actual * rows.exposure)[:, None]
    (groups,) = calibration_groups(rows.task, target, rows.raw, rows.offset)
    style = {"color": BLUE, "elinewidth": 4, "ecolor": PALE, "fmt": "none"}
    axes.errorbar(groups.predicted, groups.actual, _reach(groups), **style)
    axes.scatter(groups.predicted, groups.actual, 30 * groups.n_rows / groups.n_rows.max())
    ends = [float(groups.predicted.min()), float(groups.predicted.max())]
    axes.plot(ends, ends, "--", color=GREY, linewidth=0.8)
    return _between_numbers(axes, "mean prediction", "mean target")


def _between_numbers(axes: Any, x: str, y: str, has_legend: bool = False) -> Axes:
    write_ticks(axes.xaxis)
    axes.xaxis.set_tick_params(labelsize=TICK_SIZE)
    return finished(axes, x, y, has_legend)  # type: ignore[no-any-return]
