"""AnovaModel: what survives training. Nodes, tables and a link; it needs NumPy only."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpnn.components import ComponentSet
from tpnn.encoding import Axis, Table, TableEncoder
from tpnn.links import LINKS, Link
from tpnn.marginals import worst_mean
from tpnn.solution import Terms
from tpnn.storage import read_archive, write_archive
from tpnn.workers import Workers, split

FloatArray = NDArray[np.float64]

Consumer = Callable[[int, slice, FloatArray], object]

STEP_WIDTH = 1e-3  # gamma of a step relative to the smallest gap between nodes: exact in doubles
COMPILED_FROM = 50_000  # rows; below, loading numba would take longer than NumPy needs
ROWS_PER_TASK = 8192  # rows interpolated at a time, small enough to stay in the cache


@dataclass(frozen=True, eq=False)
class AnovaModel:
    """A functional ANOVA model f(x) = intercept + sum_S f_S(x_S), frozen.

    Parameters
    ----------
    encoder : TableEncoder
        Nodes and masses of the features.
    components : ComponentSet
        The subsets S.
    tables : sequence of array of shape (M_1, ..., M_d)
        Values of each f_S on its nodes; between nodes the model interpolates linearly.
    spreads : sequence of array, shapes as ``tables``
        Standard deviation of each value over the bags.
    intercept : float
        Mean of f under the product of the marginals.
    link : Link
        From raw score to prediction.
    activation, scale : str
        Which basis the terms refer to.
    stored_terms : sequence of Terms, or None
        The TPNN terms behind each table; None where each table is a sum of steps between nodes.
    """

    encoder: TableEncoder
    components: ComponentSet
    tables: tuple[FloatArray, ...]
    spreads: tuple[FloatArray, ...]
    intercept: float
    link: Link
    activation: str
    scale: str
    stored_terms: tuple[Terms, ...] | None

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

    def raw_scores(self, X: Any) -> FloatArray:
        """Intercept plus all components, shape (n_rows,)."""
        table = self.encoder.read(X)
        raw = np.full(table.n_rows, self.intercept)
        self._for_each_component(
            table, lambda _, rows, values: np.add(raw[rows], values, raw[rows])
        )
        return raw

    def predict(self, X: Any) -> FloatArray:
        """Prediction on the scale of the target: the link's inverse of the raw score, (n_rows,)."""
        return self.link.inverse(self.raw_scores(X))

    def component_scores(self, X: Any) -> FloatArray:
        """Value of every component on every row, shape (n_rows, n_components).

        ``intercept + component_scores(X).sum(1)`` is the raw score.
        """
        table = self.encoder.read(X)
        scores = np.empty((len(self.components), table.n_rows))
        self._for_each_component(table, lambda i, rows, values: np.copyto(scores[i, rows], values))
        return scores.T

    def identifiability_error(self) -> float:
        """Worst |mean along an axis| of any component, relative to its standard deviation.

        Zero, up to rounding, means that the decomposition is the only one of f with respect to the
        training marginals.
        """
        return max(
            worst_mean(table, [axis.weights for axis in self.axes(component)])
            for component, table in zip(self.components, self.tables, strict=True)
        )

    def terms(self) -> list[Terms]:
        """TPNN terms (features, b, gamma, beta) of each component, features by name.

        On the nodes their sum is the table.
        """
        stored = self.stored_terms or [
            _step_terms(table, self.axes(component))
            for component, table in zip(self.components, self.tables, strict=True)
        ]
        return [
            terms._replace(features=names)
            for names, terms in zip(self.component_names, stored, strict=True)
        ]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file; ``tpnn.load_model`` reads it back exactly."""
        axes = [axis for per_order in self.encoder.axes.values() for axis in per_order]
        header = {
            "names": self.encoder.names,
            "n_features": self.encoder.n_features,
            "orders": list(self.encoder.axes),
            "n_nodes": [axis.n_nodes for axis in axes],
            "components": self.components.components,
            "n_terms": [len(terms.beta) for terms in self.stored_terms or ()],
            "intercept": self.intercept,
            "link": self.link.name,
            "activation": self.activation,
            "scale": self.scale,
        }
        arrays = {
            "node_values": _flatten([axis.values for axis in axes]),
            "node_weights": _flatten([axis.weights for axis in axes]),
            "tables": _flatten(self.tables),
            "spreads": _flatten(self.spreads),
        }
        for name in ("b", "gamma", "beta") if self.stored_terms else ():
            arrays[f"term_{name}"] = _flatten([getattr(t, name) for t in self.stored_terms or ()])
        write_archive(path, header, arrays)

    def _for_each_component(self, table: Table, consume: Consumer) -> None:
        """Call ``consume(component number, rows, values)`` for all components, block by block."""
        columns = [table.column(feature) for feature in range(table.n_features)]
        cells = [values.ravel() for values in self.tables]
        strides = [_strides(values.shape) for values in self.tables]

        compiled = _compiled_kernels(table.n_rows, max(self.components.orders))
        interpolate = compiled.interpolate if compiled else _interpolate
        locators: dict[tuple[int, int], Any] = {}
        for component in self.components:
            for feature, axis in zip(component, self.axes(component), strict=True):
                fast = compiled is not None and axis.n_nodes > 1
                locators[len(component), feature] = compiled.Locator(axis.values) if fast else axis

        def work(task: tuple[int, int]) -> None:
            rows = slice(*task)
            located = {key: locators[key].locate(columns[key[1]][rows]) for key in locators}
            for index, component in enumerate(self.components):
                nodes, fractions = zip(
                    *(located[len(component), j] for j in component), strict=True
                )
                consume(index, rows, interpolate(cells[index], nodes, fractions, strides[index]))

        tasks = split(table.n_rows, ROWS_PER_TASK)
        with Workers(1 if len(tasks) == 1 else None) as workers:
            workers.map(work, tasks)


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
    shapes = [tuple(encoder.axes[len(s)][j].n_nodes for j in s) for s in components]
    return AnovaModel(
        encoder,
        components,
        tuple(_unflatten(arrays["tables"], shapes)),
        tuple(_unflatten(arrays["spreads"], shapes)),
        float(header["intercept"]),
        LINKS[header["link"]],
        header["activation"],
        header["scale"],
        _load_terms(components, header["n_terms"], arrays),
    )


def _load_encoder(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> TableEncoder:
    sizes = [(size,) for size in header["n_nodes"]]
    values = _unflatten(arrays["node_values"], sizes)
    weights = _unflatten(arrays["node_weights"], sizes)
    axes = map(Axis, values, weights)
    by_order = {o: tuple(islice(axes, header["n_features"])) for o in header["orders"]}
    return TableEncoder(tuple(header["names"]) if header["names"] else None, by_order)


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


def _flatten(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate([array.ravel() for array in arrays])


def _unflatten(flat: NDArray[Any], shapes: Sequence[tuple[int, ...]]) -> list[NDArray[Any]]:
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    pieces = np.split(flat, ends[:-1])
    return [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]


def _step_terms(table: FloatArray, axes: Sequence[Axis]) -> Terms:
    """Terms of a table as a sum of steps between its nodes.

    A centred table is sum_k beta_k prod_j (eta_jk - s_jk) with a step s_jk in the middle between
    neighbouring nodes and beta the mixed differences of the table, up to their sign.
    """
    beta = table
    for axis in range(len(axes)):
        beta = -np.diff(beta, axis=axis)
    middles = [(axis.positions[1:] + axis.positions[:-1]) / 2 for axis in axes]
    narrow = [
        np.full(len(m), STEP_WIDTH * _gap(a.positions)) for m, a in zip(middles, axes, strict=True)
    ]
    b, gamma = (
        np.stack([grid.ravel() for grid in np.meshgrid(*values, indexing="ij")])
        for values in (middles, narrow)
    )
    return Terms((), b, gamma, beta.ravel())


def _gap(positions: FloatArray) -> float:
    """Smallest positive distance between neighbours."""
    gaps = np.diff(positions)
    return float(gaps[gaps > 0].min(initial=1.0))


def _strides(shape: tuple[int, ...]) -> list[int]:
    """Cells from one node to the next along each axis; none where there is one node only."""
    return [math.prod(shape[a + 1 :]) if size > 1 else 0 for a, size in enumerate(shape)]


def _interpolate(
    cells: FloatArray,
    nodes: Sequence[NDArray[np.intp]],
    fractions: Sequence[FloatArray],
    strides: Sequence[int],
) -> FloatArray:
    """Multilinear interpolation in a table of any number of axes."""

    def along(base: NDArray[np.intp], axis: int) -> FloatArray:
        """Along one axis, between two interpolations along the rest."""
        if axis == len(strides):
            return cells.take(base)
        lower, upper = along(base, axis + 1), along(base + strides[axis], axis + 1)
        return lower + fractions[axis] * (upper - lower)

    return along(sum(map(operator.mul, nodes, strides)), 0)


def _compiled_kernels(n_rows: int, order: int) -> Any:
    """Compiled kernels where they pay and numba is there, else None."""
    if n_rows < COMPILED_FROM or order > 2:
        return None
    try:
        return import_module("tpnn.compiled")
    except ImportError:
        return None
