"""Linear models of scikit-learn, read as sums of tables.

A linear function of a feature is exact on two nodes. These are the ends of the range of the rows
that are given, because tables are constant beyond their outer nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.anova.components import Component
from tpnn.lifecycle.foreign.tables import TableSum
from tpnn.model.codec import storable_labels
from tpnn.table.axis import Axis
from tpnn.table.encoder import Feature, TableEncoder
from tpnn.table.table import NUMBER, Table

LOG_MODELS = ("PoissonRegressor", "GammaRegressor")
CLASSIFIERS = ("LogisticRegression", "LogisticRegressionCV")


def is_linear(model: Any) -> bool:
    """Whether a model is a fitted linear model, with coefficients and a constant."""
    return hasattr(model, "coef_") and hasattr(model, "intercept_")


def sum_of_linear(model: Any, X: Any) -> TableSum:
    """Read a fitted linear model of numbers, on the range of the rows X."""
    table, link = Table(X), _link(model)
    names = getattr(model, "feature_names_in_", None)
    names = table.names if names is None else tuple(map(str, names))
    if names is not None and table.names is not None:
        table = table.reorder(names)
    slopes = np.reshape(np.asarray(model.coef_, np.float64), (-1, table.n_features))
    intercepts = np.broadcast_to(np.reshape(model.intercept_, -1), len(slopes)).astype(np.float64)
    if link == "softmax":  # a constant over the classes changes no probability
        slopes, intercepts = slopes - slopes.mean(0), intercepts - intercepts.mean()
    axes = tuple(_axis(table, feature) for feature in range(table.n_features))
    tables: dict[Component, FloatArray] = {
        (feature,): (axis.values[:, None] * slopes[:, feature])[..., None]
        for feature, axis in enumerate(axes)
    }
    classes = tuple(storable_labels(model.classes_)) if link in ("logit", "softmax") else ()
    return TableSum(
        encoder=TableEncoder(names, {1: axes}, (Feature(NUMBER),) * table.n_features),
        tables=tables,
        intercept=intercepts[:, None],
        link=link,
        output_names=_outputs(link, classes, slopes),
        classes=classes,
    )


def _outputs(link: str, classes: tuple[Any, ...], slopes: FloatArray) -> tuple[str, ...]:
    if len(slopes) == 1:
        return ()
    if link == "softmax":
        return tuple(map(str, classes))
    return tuple(f"y{output}" for output in range(len(slopes)))  # as estimators call them


def _axis(table: Table, feature: int) -> Axis:
    """Two nodes at the ends of the range of a column of numbers."""
    column = table.column(feature)
    if column.kind != NUMBER or np.isnan(column.values).any():
        raise ValueError(
            f"X: a linear model needs columns of numbers without missing values, found another "
            f"one: {table.name(feature)!r}. Compare it on such rows."
        )
    ends = np.unique([column.values.min(), column.values.max()])
    return Axis(ends, np.full(len(ends), 1 / len(ends)))


def _link(model: Any) -> str:
    """Link of a linear model, by its class."""
    name = type(model).__name__
    if name in CLASSIFIERS:
        several = len(model.classes_) > 2
        if several and getattr(model, "solver", "") == "liblinear":
            raise ValueError(
                "models: a softmax is needed for several classes, found a LogisticRegression that "
                "fits each class against the rest (solver='liblinear'). Fit it with another solver."
            )
        return "softmax" if several else "logit"
    if hasattr(model, "classes_"):
        raise TypeError(
            "models: linear classifiers must predict probabilities by a logistic link, found "
            f"{name}. Use LogisticRegression."
        )
    if name in LOG_MODELS:
        return "log"
    if name == "TweedieRegressor":
        automatic = "log" if model.power > 0 else "identity"
        return str(automatic if model.link == "auto" else model.link)
    return "identity"
