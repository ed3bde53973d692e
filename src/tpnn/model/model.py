"""AnovaModel: what survives training. Nodes, tables and a link; predicting needs NumPy only."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpnn._typing import FloatArray
from tpnn.anova.components import Component, ComponentSet, resolve_feature
from tpnn.anova.constraints import SIGNS, Certificate, certificate, constrained
from tpnn.anova.measure import worst_mean
from tpnn.anova.terms import Terms, step_terms
from tpnn.loss.links import LINKS, Link
from tpnn.model.files import read_archive, write_archive
from tpnn.model.flat import flatten_tables
from tpnn.model.interpolate import Predictor
from tpnn.model.presum import SumPredictor
from tpnn.table.axis import Axis
from tpnn.table.encoder import Feature, TableEncoder
from tpnn.table.frame import NOMINAL

Label = str | int | float

ROUNDING = 1e-12  # of the largest value: a component below it is none


@dataclass(frozen=True, eq=False, repr=False)
class AnovaModel:
    """A functional ANOVA model f(x) = intercept + sum_S f_S(x_S), frozen.

    Parameters
    ----------
    encoder : TableEncoder
        Nodes and masses of the features.
    components : ComponentSet
        The subsets S.
    tables : sequence of array of shape (M_1, ..., M_d) or (M_1, ..., M_d, n_outputs)
        Values of each f_S on its nodes; between nodes the model interpolates linearly.
    spreads : sequence of array, shapes as ``tables``
        Standard deviation of each value over the bags.
    intercept : float or array of shape (n_outputs,)
        Mean of f under the product of the marginals.
    link : Link
        From raw score to prediction.
    activation, scale : str
        Which basis the terms refer to.
    stored_terms : sequence of Terms, or None
        The TPNN terms behind each table; None where each table is a sum of steps between nodes.
    output_names : tuple of str
        Classes, quantiles or targets of a model with several outputs; empty for one output.
    shapes : dict from str to str
        Shape of f along some features, by name: "increasing", "decreasing", "convex", "concave".
    classes : tuple of str, int or float
        Labels of a classifier, sorted; of two the second is the one whose log-odds f is.
    """

    encoder: TableEncoder
    components: ComponentSet
    tables: tuple[FloatArray, ...]
    spreads: tuple[FloatArray, ...]
    intercept: Any
    link: Link
    activation: str
    scale: str
    stored_terms: tuple[Terms, ...] | None
    output_names: tuple[str, ...] = ()
    shapes: dict[str, str] = field(default_factory=dict)
    classes: tuple[Label, ...] = ()

    def __repr__(self) -> str:
        outputs = f", {len(self.output_names)} outputs" if self.output_names else ""
        return (
            f"AnovaModel({len(self.components)} components of {self.encoder.n_features} features, "
            f"order {max(self.components.orders, default=0)}, {self.link.name} link{outputs})"
        )

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features."""
        return self.encoder.feature_names

    @property
    def component_names(self) -> list[tuple[str, ...]]:
        """Components as tuples of feature names."""
        return self.components.names(self.feature_names)

    def axes(self, component: Sequence[int]) -> tuple[Axis, ...]:
        """Axes of a component, at the resolution of its order."""
        return tuple(self.encoder.axes[len(component)][feature] for feature in component)

    def raw_scores(self, X: Any, offset: Any = None) -> FloatArray:
        """Intercept plus all components, shape (n_rows,) or (n_rows, n_outputs).

        ``offset``, of shape (n_rows,), is a known part of the raw score that is added.
        """
        table = self.encoder.read(X)
        n_outputs = len(self.output_names) or 1
        raw = np.empty((n_outputs, table.n_rows))
        raw[:] = np.reshape(self.intercept, (-1, 1))
        self._sum_predictor.add(self.encoder.columns(table), raw)
        if offset is not None:
            from tpnn.loss.offset import checked_offset

            raw += checked_offset(offset, table.n_rows)
        return raw.T if self.output_names else raw[0]

    def predict(self, X: Any, offset: Any = None) -> FloatArray:
        """Prediction on the scale of the target: the link's inverse of the raw score.

        Of two classes it is the probability of the second, of survival the relative risk.
        """
        return self.link.inverse(self.raw_scores(X, offset))

    def component_scores(self, X: Any) -> FloatArray:
        """Value of every component on every row, shape (n_rows, n_components[, n_outputs]).

        ``intercept + component_scores(X).sum(1)`` is the raw score.
        """
        table = self.encoder.read(X)
        return self.column_scores(self.encoder.columns(table))

    def column_scores(self, columns: Sequence[FloatArray]) -> FloatArray:
        """Component scores of rows that are numbers already, one column for each feature."""
        n_components, n_outputs = len(self.components), len(self.output_names) or 1
        scores = np.zeros((n_components * n_outputs, len(columns[0])))
        self._predictor.add(columns, range(len(scores)), scores)
        if not self.output_names:
            return scores.T
        return scores.reshape(n_components, n_outputs, scores.shape[1]).transpose(2, 0, 1)

    def __getstate__(self) -> dict[str, Any]:
        made = ("_predictor", "_sum_predictor")
        return {name: value for name, value in vars(self).items() if name not in made}

    @cached_property
    def _predictor(self) -> Predictor:
        return Predictor(self.encoder.axes, flatten_tables(self._output_tables()))

    @cached_property
    def _sum_predictor(self) -> SumPredictor:
        return SumPredictor(self.encoder.axes, self._output_tables(), self._predictor)

    def _output_tables(self) -> dict[Component, FloatArray]:
        """Tables of shape (..., n_outputs), by component."""
        tables = dict(zip(self.components, self.tables, strict=True))
        return tables if self.output_names else {s: t[..., None] for s, t in tables.items()}

    def identifiability_error(self) -> float:
        """Worst |mean along an axis| of any component, relative to its standard deviation.

        Zero, up to rounding, means that the decomposition is the only one of f with respect to the
        training marginals.
        """
        return max(
            worst_mean(table, [axis.weights for axis in self.axes(component)], scale)
            for tables in self._tables_by_output()
            for scale in [max(np.abs(table).max() for table in tables.values())]
            for component, table in tables.items()
        )

    def certificate(self, feature: str, shape: str | None = None) -> Certificate:
        """Smallest step of f along a feature over all inputs, and where it is.

        Exact up to pairs. With larger components it is a lower bound: their minima are added
        although they share features, so a shape that is certified holds, but one that holds need
        not be certified.

        Beyond its outer nodes f stays as it is there: monotone everywhere, but convex and concave
        between them.

        Parameters
        ----------
        feature : str
            Name of the feature.
        shape : str, optional
            "increasing", "decreasing", "convex" or "concave"; by default what the model was
            constrained to, else increasing.
        """
        index = resolve_feature(feature, self.feature_names, "feature")
        asked = shape or self.shapes.get(self.feature_names[index], "increasing")
        check_shape(self.encoder, index, asked, "shape")
        axes = self.encoder.axes
        found = [certificate(tables, axes, index, asked) for tables in self._tables_by_output()]
        return min(found, key=lambda certificate: certificate.minimum)

    def with_shapes(self, shapes: Mapping[Any, str]) -> AnovaModel:
        """Nearby model that has the given shapes, with certificates of at least zero.

        Components are added where clipped interactions leave something of lower order, such as the
        main effect of a feature that has a shape. Spreads stay as they were: they say how much the
        bags differed before the last projection, which moves their mean alone.
        """
        names = self.feature_names
        indices = {resolve_feature(j, names, "monotone"): shape for j, shape in shapes.items()}
        for index, shape in indices.items():
            check_shape(self.encoder, index, shape, "monotone")
        wider = self._with_subsets()
        results = [
            constrained(tables, self.encoder.axes, indices) for tables in wider._tables_by_output()
        ]
        shifts = np.array([shift for shift, _ in results])
        stacked = [np.stack([shaped[s] for _, shaped in results], -1) for s in wider.components]
        rounding = ROUNDING * max(np.abs(table).max() for table in stacked)
        kept = [
            component in self.components.components or bool(np.abs(table).max() > rounding)
            for component, table in zip(wider.components, stacked, strict=True)
        ]
        tables = stacked if self.output_names else [table[..., 0] for table in stacked]
        return replace(
            self,
            components=ComponentSet(tuple(compress(wider.components, kept))),
            tables=tuple(compress(tables, kept)),
            spreads=tuple(compress(wider.spreads, kept)),
            intercept=self.intercept + (shifts if self.output_names else float(shifts[0])),
            stored_terms=None,
            shapes={self.feature_names[index]: shape for index, shape in indices.items()},
        )

    def _with_subsets(self) -> AnovaModel:
        """Add all subsets of the components, zero where they are new."""
        components = self.components.with_subsets()
        last = (len(self.output_names),) if self.output_names else ()

        def filled(tables: Sequence[FloatArray]) -> tuple[FloatArray, ...]:
            known = dict(zip(self.components, tables, strict=True))
            shapes = {s: tuple(axis.n_nodes for axis in self.axes(s)) for s in components}
            return tuple(known.get(s, np.zeros((*shapes[s], *last))) for s in components)

        return replace(
            self, components=components, tables=filled(self.tables), spreads=filled(self.spreads)
        )

    def _tables_by_output(self) -> list[dict[Component, FloatArray]]:
        """Tables of each output, by component."""
        tables = dict(zip(self.components, self.tables, strict=True))
        if not self.output_names:
            return [tables]
        count = range(len(self.output_names))
        return [{s: table[..., k] for s, table in tables.items()} for k in count]

    def terms(self) -> list[Terms]:
        """TPNN terms (features, b, gamma, beta) of each component, features by name.

        On the nodes their sum is the table.
        """
        stored = self.stored_terms or [
            step_terms(table, self.axes(component))
            for component, table in zip(self.components, self.tables, strict=True)
        ]
        return [
            terms._replace(features=names)
            for names, terms in zip(self.component_names, stored, strict=True)
        ]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file; ``tpnn.load_model`` reads it back exactly."""
        axes = [axis for per_order in self.encoder.axes.values() for axis in per_order]
        groups = [axis.groups for axis in axes if axis.groups is not None]
        header = {
            "names": self.encoder.names,
            "features": self.encoder.features,
            "orders": list(self.encoder.axes),
            "n_nodes": [axis.n_nodes for axis in axes],
            "levels": [axis.levels for axis in axes],
            "has_missing": [axis.has_missing for axis in axes],
            "components": self.components.components,
            "n_terms": [len(terms.beta) for terms in self.stored_terms or ()],
            "outputs": self.output_names,
            "link": self.link.name,
            "shapes": self.shapes,
            "activation": self.activation,
            "scale": self.scale,
            "classes": self.classes,
        }
        arrays = {
            "node_values": _flatten([axis.values for axis in axes]),
            "node_weights": _flatten([axis.weights for axis in axes]),
            "level_nodes": _flatten([*groups, np.empty(0, np.intp)]).astype(np.uint16),
            "intercept": np.reshape(self.intercept, -1),
            "tables": _flatten(self.tables),
            "spreads": _flatten(self.spreads),
        }
        for name in ("b", "gamma", "beta") if self.stored_terms else ():
            arrays[f"term_{name}"] = _flatten([getattr(t, name) for t in self.stored_terms or ()])
        write_archive(path, header, arrays)


def load_model(path: str | os.PathLike[str]) -> AnovaModel:
    """Read a model written by ``AnovaModel.save``.

    The file holds numbers and names only; reading it cannot run code. A truncated, changed or newer
    file raises ValueError.
    """
    header, arrays = read_archive(path)
    try:
        return _model_from(header, arrays)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ValueError(
            f"path: must be a whole model, found a file that lacks a part of it ({error!r}). "
            "Save the model again."
        ) from error


def _model_from(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> AnovaModel:
    components = ComponentSet(tuple(tuple(s) for s in header["components"]))
    encoder = _load_encoder(header, arrays)
    outputs = tuple(header["outputs"])
    last = (len(outputs),) if outputs else ()
    shapes = [(*(encoder.axes[len(s)][j].n_nodes for j in s), *last) for s in components]
    return AnovaModel(
        encoder,
        components,
        tuple(_unflatten(arrays["tables"], shapes)),
        tuple(_unflatten(arrays["spreads"], shapes)),
        arrays["intercept"] if outputs else float(arrays["intercept"][0]),
        LINKS[header["link"]],
        header["activation"],
        header["scale"],
        _load_terms(components, header["n_terms"], arrays),
        outputs,
        header["shapes"],
        tuple(header.get("classes", ())),  # files of older versions have none
    )


def _load_encoder(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> TableEncoder:
    sizes = [(size,) for size in header["n_nodes"]]
    values = _unflatten(arrays["node_values"], sizes)
    weights = _unflatten(arrays["node_weights"], sizes)
    features = tuple(Feature(kind, tuple(levels)) for kind, levels in header["features"])
    n_orders = len(header["orders"])
    kinds = [feature.kind for feature in features] * n_orders
    levels = [None if labels is None else tuple(labels) for labels in header["levels"]]
    groups = _load_groups(features * n_orders, arrays["level_nodes"])
    axes = map(Axis, values, weights, kinds, levels, groups, header["has_missing"])
    by_order = {order: tuple(islice(axes, len(features))) for order in header["orders"]}
    return TableEncoder(tuple(header["names"]) if header["names"] else None, by_order, features)


def _load_groups(features: Sequence[Feature], flat: NDArray[Any]) -> list[Any]:
    """Node of each level, for the axes of nominal features."""
    nodes = iter(flat.astype(np.intp))
    return [
        np.array(list(islice(nodes, len(feature.levels))), np.intp)
        if feature.kind == NOMINAL
        else None
        for feature in features
    ]


def _load_terms(
    components: ComponentSet, counts: list[int], arrays: dict[str, NDArray[Any]]
) -> tuple[Terms, ...] | None:
    if not counts:
        return None
    shapes = [(len(s), count) for s, count in zip(components, counts, strict=True)]
    b = _unflatten(arrays["term_b"], shapes)
    gamma = _unflatten(arrays["term_gamma"], shapes)
    beta = _unflatten(arrays["term_beta"], [(count,) for count in counts])
    return tuple(map(Terms, components, b, gamma, beta))


def check_shape(encoder: TableEncoder, index: int, shape: str, argument: str) -> None:
    """Refuse a shape that there is not, or of a feature without order."""
    if shape not in SIGNS:
        raise ValueError(
            f"{argument}: must be one of {', '.join(SIGNS)}, found {shape!r}. "
            "Pass 'increasing', for example."
        )
    if encoder.features[index].kind == NOMINAL:
        raise ValueError(
            f"{argument}: a shape needs an order, found the nominal feature "
            f"{encoder.feature_names[index]!r}. Leave it out, or make it an ordered category."
        )


def storable_labels(labels: Any) -> list[Label]:
    """Labels as str, int, float or bool, which a saved model can hold.

    >>> storable_labels(np.array([True, False])), storable_labels(np.array(["a"]))
    ([True, False], ['a'])
    """
    values = np.asarray(labels).tolist()
    return [value if isinstance(value, str | int | float) else str(value) for value in values]


def _flatten(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate([array.ravel() for array in arrays])


def _unflatten(flat: NDArray[Any], shapes: Sequence[tuple[int, ...]]) -> list[NDArray[Any]]:
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    pieces = np.split(flat, ends[:-1])
    return [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]
