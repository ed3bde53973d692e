"""TableSum: sums of tables by hand, of rating tables, and of linear models of scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.anova.components import Component
from tpnn.anova.trees import Trees
from tpnn.export.sheets.bins import BandedModel, Bands
from tpnn.loss.links import CLASS_LINKS, LINKS
from tpnn.model.codec import Label, storable_labels
from tpnn.table.axis import UNSEEN_WORD, Axis
from tpnn.table.encoder import Feature, TableEncoder
from tpnn.table.table import NOMINAL, NUMBER, Table

LOG_MODELS = ("PoissonRegressor", "GammaRegressor")
CLASSIFIERS = ("LogisticRegression", "LogisticRegressionCV")


@dataclass(frozen=True)
class TableSum:
    """A sum of tables that need not be pure, and of trees."""

    encoder: TableEncoder
    tables: dict[Component, FloatArray]  # (M_1, ..., M_d, n_outputs, 1 + n_bags): model, bags
    intercept: FloatArray  # (n_outputs, 1 + n_bags)
    link: str  # name of the link
    output_names: tuple[str, ...] = ()  # empty for one output
    classes: tuple[Label, ...] = ()  # labels of a classifier
    trees: Trees | None = None


def sum_of_tables(
    tables: Mapping[Any, Any], nodes: Mapping[str, Any], intercept: float, link: str
) -> TableSum:
    """Check a dict from feature names to tables, and the nodes that the tables are given on."""
    if link not in LINKS:
        raise ValueError(
            f"link: must be one of {', '.join(LINKS)}, found {link!r}. Pass one of these."
        )
    names = tuple(nodes)
    read = [_read_nodes(name, np.asarray(nodes[name])) for name in names]
    axes = tuple(axis for axis, _ in read)
    summed: dict[Component, FloatArray] = {}
    for key, values in tables.items():
        component, table = _read_table((key,) if isinstance(key, str) else key, values, names, axes)
        summed[component] = summed.get(component, 0.0) + table[..., None, None]
    largest = max(map(len, summed), default=1)
    return TableSum(
        encoder=TableEncoder(
            names=names,
            axes=dict.fromkeys(range(1, largest + 1), axes),
            features=tuple(feature for _, feature in read),
        ),
        tables=summed,
        intercept=np.full((1, 1), float(intercept)),
        link=link,
    )


def _read_table(
    key: Any, values: Any, names: tuple[str, ...], axes: tuple[Axis, ...]
) -> tuple[Component, FloatArray]:
    """Component of a table given by feature names, and the table with its axes in that order."""
    wanted = tuple(key)
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise ValueError(
            f"nodes: every feature of a table needs its nodes, {unknown[0]!r} has none. "
            f"Found nodes of {list(names)[:10]}."
        )
    table, places = np.asarray(values, np.float64), [names.index(name) for name in wanted]
    sizes = tuple(axes[place].n_nodes for place in places)
    if table.shape != sizes or not np.isfinite(table).all():
        raise ValueError(
            f"model: the table of {wanted} must hold finite numbers of shape {sizes}, one per "
            f"node, found shape {table.shape}. Correct the table or its nodes."
        )
    order = sorted(range(len(places)), key=places.__getitem__)
    return tuple(places[place] for place in order), table.transpose(order)


def _read_nodes(name: str, nodes: NDArray[Any]) -> tuple[Axis, Feature]:
    """Axis on which every node has the same mass, and the feature that it stands for."""
    weights = np.full(len(nodes), 1 / max(len(nodes), 1))
    if nodes.dtype.kind in "OU" and nodes.ndim == 1 and len(set(nodes.tolist())) == len(nodes) > 0:
        levels = tuple(storable_labels(nodes))
        return level_axis(levels, weights), Feature(NOMINAL, levels)
    values = nodes.astype(np.float64) if nodes.dtype.kind in "biuf" else np.empty(0)
    increasing = values.ndim == 1 and len(values) and (np.diff(values) > 0).all()
    if not increasing or not np.isfinite(values).all():
        raise ValueError(
            f"nodes: those of {name!r} must be increasing numbers or labels, found "
            f"{nodes.tolist()[:5]}. Sort them, and leave out what is repeated or infinite."
        )
    return Axis(values, weights), Feature(NUMBER)


def level_axis(
    labels: tuple[Label, ...],
    weights: FloatArray,
    *,
    is_open: bool = False,
    kind: str = NOMINAL,
    groups: IntArray | None = None,
) -> Axis:
    """Axis with a node for each label; an open one has two more, for unseen levels and missing.

    ``groups`` has the node of each level; by default each has a label and a node of its own.
    """
    return Axis(
        values=np.arange(float(len(labels) + is_open)),
        weights=weights,
        kind=kind,
        levels=(*labels, *[UNSEEN_WORD] * is_open),
        groups=np.arange(len(labels)) if groups is None else groups,
        has_missing=is_open,
        has_unseen=is_open,
    )


def sum_of_bands(banded: BandedModel) -> TableSum:
    """Read a tariff or a score card: constant on each band, with a jump at every cut."""
    encoder, used = banded.model.encoder, sorted(banded.bands)
    found = {j: _band_axis(banded.bands[j], encoder.features[j]) for j in used}
    place = {feature: number for number, feature in enumerate(used)}
    axes = tuple(found[feature][0] for feature in used)
    largest = max(map(len, banded.tables), default=1)
    tables = {
        tuple(place[j] for j in component): table[np.ix_(*(found[j][1] for j in component))]
        for component, table in banded.tables.items()
    }
    return TableSum(
        encoder=replace(encoder.pick(used), axes=dict.fromkeys(range(1, largest + 1), axes)),
        tables={component: table[..., None, None] for component, table in tables.items()},
        intercept=np.array([[banded.intercept]]),
        link=banded.model.link.name,
        classes=banded.model.classes,
    )


def _band_axis(bands: Bands, feature: Feature) -> tuple[Axis, IntArray]:
    """Axis of a feature, and the band of each of its nodes."""
    if bands.has_levels:
        labels = bands.labels[: bands.n_regular]
        groups = bands.of_point[: len(feature.levels)].astype(np.intp)
        masses, kind = bands.band_masses, feature.kind
        axis = level_axis(tuple(labels), masses, is_open=True, kind=kind, groups=groups)
    else:
        sides = np.union1d(np.nextafter(bands.cuts, -np.inf), bands.cuts)
        values = sides if len(sides) else np.zeros(1)
        band = np.append(bands.locate(values), bands.n_bands - 1)  # of each node
        weights = (bands.band_masses / np.bincount(band, minlength=bands.n_bands))[band]
        axis = Axis(values, weights, feature.kind, has_missing=True)
    return axis, bands.locate(axis.numbers)


def is_linear(model: Any) -> bool:
    """Whether a model is a fitted linear model, with coefficients and a constant."""
    return hasattr(model, "coef_") and hasattr(model, "intercept_")


def sum_of_linear(model: Any, X: Any) -> TableSum:
    """Read a fitted linear model of numbers.

    A linear function is exact on two nodes. They are the ends of the range of the rows X, because
    tables are constant beyond their outer nodes.
    """
    table, link = Table(X), _linear_link(model)
    names = getattr(model, "feature_names_in_", None)
    names = table.names if names is None else tuple(map(str, names))
    if names is not None and table.names is not None:
        table = table.reorder(names)
    slopes = np.reshape(np.asarray(model.coef_, np.float64), (-1, table.n_features))
    intercepts = np.broadcast_to(np.reshape(model.intercept_, -1), len(slopes)).astype(np.float64)
    if link == "softmax":  # a constant over the classes changes no probability
        slopes, intercepts = slopes - slopes.mean(0), intercepts - intercepts.mean()
    axes = tuple(_range_axis(table, feature) for feature in range(table.n_features))
    tables: dict[Component, FloatArray] = {
        (feature,): (axis.values[:, None] * slopes[:, feature])[..., None]
        for feature, axis in enumerate(axes)
    }
    classes = tuple(storable_labels(model.classes_)) if link in CLASS_LINKS else ()
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


def _range_axis(table: Table, feature: int) -> Axis:
    """Two nodes at the ends of the range of a column of numbers."""
    column = table.column(feature)
    if column.kind != NUMBER or np.isnan(column.values).any():
        raise ValueError(
            f"X: a linear model needs numbers without missing values, and {table.name(feature)!r} "
            "has others. Compare it on such rows."
        )
    ends = np.unique([column.values.min(), column.values.max()])
    return Axis(ends, np.full(len(ends), 1 / len(ends)))


def _linear_link(model: Any) -> str:
    """Link of a linear model, by its class."""
    name = type(model).__name__
    if name in CLASSIFIERS:
        several = len(model.classes_) > 2
        if several and getattr(model, "solver", "") == "liblinear":
            raise ValueError(
                "models: this LogisticRegression fits each class against the rest "
                "(solver='liblinear'), and several classes need a softmax. Fit it with another "
                "solver."
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
