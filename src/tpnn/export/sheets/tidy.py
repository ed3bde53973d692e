"""tidy_table: all components in one frame; and helpers that all sheets share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.anova.components import Component
from tpnn.anova.measure import interpolated
from tpnn.loss.links import LINKS
from tpnn.model.model import AnovaModel
from tpnn.table.axis import Axis
from tpnn.table.columns import require_pandas
from tpnn.table.words import originals

if TYPE_CHECKING:
    import pandas as pd


def title(names: Sequence[str]) -> str:
    """Name of a component.

    >>> title(("age", "town"))
    'age x town'
    """
    return " x ".join(names)


def band_of(model: AnovaModel, place: int) -> tuple[FloatArray, FloatArray]:
    """Lower and upper end of the pointwise band of 95 % of a component; NaN without a band."""
    table = model.tables[place]
    posterior = model.evidence.posterior(place)
    reach = np.nan if posterior is None else posterior.uncertainty().half_widths()
    return table - reach, table + reach


def values_at(model: AnovaModel, component: Component, numbers: Sequence[FloatArray]) -> FloatArray:
    """First output of a component on a grid of values of its features, (n_1, ..., n_d).

    Values are numbers as the encoder reads them: NaN is missing, inf an unseen level.
    """
    grid = model.tables[model.components.components.index(component)][..., 0]
    for place, axis in enumerate(model.axes(component)):
        grid = interpolated(grid, place, axis, numbers[place])
    return grid


INTERCEPT, REMAINDER = "(intercept)", "(remainder)"


def refuse_remainder(model: AnovaModel, what: str) -> None:
    """Refuse a model of which tables of components would leave out a part."""
    if model.remainder is not None:
        n_trees = len(model.remainder.trees.roots)
        raise ValueError(
            f"model: {what} holds nothing but components, and this model adds a remainder of "
            f"{n_trees:,} trees to them. Fit with remainder=False."
        )


def tidy_table(model: AnovaModel) -> pd.DataFrame:
    """All components in one frame, with a line for each node or cell and output.

    The first lines are the intercept. For a row whose values are nodes, the sum of ``effect`` over
    the intercept and one line of each component is its raw score; between nodes the model
    interpolates linearly. A level or a missing value that fit has not seen has no line and
    contributes nothing; levels that share a node have one line, "(other levels)". A remainder has a
    line without a number, because no table can hold it.

    Returns
    -------
    DataFrame
        ``component``, the names of its features joined by " x "; ``output``, where there are
        several; ``feature_1``, ``value_1``, ``feature_2``, ...: each feature and its value on the
        feature's own scale, None where it is missing, both None where a component has fewer
        features; ``effect``, in units of the raw score; ``lower`` and ``upper``, the ends of a band
        that covers the true effect over 95 % of the data, on average (NaN for the intercept and for
        models without bands); ``mass``, the share of the training mass at the node, for a cell the
        product of these: the measure under which a component averages to zero; and, for log and
        logit links, ``relativity``, exp(effect): the factor on the prediction or the odds.
    """
    require_pandas("to_table")
    import pandas as pd

    blocks = [_constant_lines(model, INTERCEPT, model.intercepts)]
    blocks += [_component_lines(model, *one) for one in enumerate(model.components)]
    if model.remainder is not None:
        blocks.append(_constant_lines(model, REMAINDER, np.full(len(model.intercepts), np.nan)))
    order = max(model.components.orders, default=0)
    of_features = [f"{what}_{k}" for k in range(1, order + 1) for what in ("feature", "value")]
    output = ["output"] * bool(model.output_names)
    columns: dict[str, Any] = {
        name: np.concatenate([b.get(name, _repeated(None, len(b["effect"]))) for b in blocks])
        for name in ("component", *output, *of_features, "effect", "lower", "upper", "mass")
    }
    if model.link.ratio:
        columns["relativity"] = LINKS["log"].inverse(columns["effect"])
    typed = {name: pd.Series(values, dtype=values.dtype) for name, values in columns.items()}
    return pd.DataFrame(typed)  # no guess at types: levels can have any


def _repeated(value: str | None, n_lines: int) -> Any:
    return np.full(n_lines, value, dtype=object)


def _constant_lines(model: AnovaModel, name: str, effects: FloatArray) -> dict[str, Any]:
    n_outputs = len(effects)
    return {
        "component": _repeated(name, n_outputs),
        "output": np.array(model.output_names, dtype=object),
        "effect": effects,
        "lower": np.full(n_outputs, np.nan),
        "upper": np.full(n_outputs, np.nan),
        "mass": np.ones(n_outputs),
    }


def _component_lines(model: AnovaModel, place: int, component: Component) -> dict[str, Any]:
    axes, effect = model.axes(component), model.tables[place]
    names = model.component_names[place]
    nodes = np.indices(effect.shape).reshape(effect.ndim, -1)
    lines: dict[str, Any] = {"component": _repeated(title(names), effect.size)}
    for k, (name, axis) in enumerate(zip(names, axes, strict=True)):
        lines[f"feature_{k + 1}"] = _repeated(name, effect.size)
        lines[f"value_{k + 1}"] = node_values(axis)[nodes[k]]
    if model.output_names:
        lines["output"] = np.array(model.output_names, dtype=object)[nodes[-1]]
    masses = cell_masses(axes)[tuple(nodes[:-1])]
    lower, upper = map(np.ravel, band_of(model, place))
    return {**lines, "effect": effect.ravel(), "lower": lower, "upper": upper, "mass": masses}


def node_values(axis: Axis) -> Any:
    """Nodes as a user wrote them, (M,), of any type; None for missing values."""
    if axis.levels is not None:
        return axis.with_missing(np.array(axis.levels, object), None)
    import pandas as pd  # which has dates and durations as objects

    values = pd.Series(originals(axis.kind, axis.values)).astype(object).to_numpy()
    return axis.with_missing(values, None)


def cell_masses(axes: tuple[Axis, ...]) -> FloatArray:
    """Product of the node masses, (M_1, ..., M_d)."""
    return reduce(np.multiply.outer, [axis.weights for axis in axes])
