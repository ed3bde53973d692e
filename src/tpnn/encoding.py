"""TableEncoder: a table becomes codes on nodes, and nodes become axis values again.

Every feature is seen through a small set of *nodes*. A row's value lies between two nodes; the
frozen model interpolates linearly between them, and training uses the nearer one. The mass of the
training rows is shared between the two nodes in the same proportion, so that a function that
averages to zero over the nodes averages to zero over the training rows, exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]


class Table:
    """Columns of finite floats read from whatever the user passed.

    Columns are converted one at a time, so that a wide table is never copied as a whole.

    Parameters
    ----------
    X : array of shape (n_rows, n_features) or DataFrame
        Numeric table.
    """

    def __init__(self, X: Any) -> None:
        self.names: tuple[str, ...] | None = None
        if hasattr(X, "columns") and hasattr(X, "__getitem__"):
            self.names = _checked_names(X.columns)
            self._source = X
        else:
            self._source = _checked_matrix(X)
        self.n_rows, self.n_features = (int(size) for size in self._source.shape)
        if self.n_features == 0:
            raise ValueError(
                f"X: a table needs columns, found 0 feature(s) (shape=({self.n_rows}, 0)) "
                "while a minimum of 1 is required. Pass at least one column."
            )

    def name(self, feature: int) -> str:
        """Name of a column, ``x0, x1, ...`` where the table has none."""
        return self.names[feature] if self.names else f"x{feature}"

    def column(self, feature: int) -> FloatArray:
        """Column as float64 of shape (n_rows,), checked to be finite."""
        if self.names:
            raw = self._source[self.names[feature]]
        else:
            raw = getattr(self._source, "iloc", self._source)[:, feature]
        values = _as_floats(np.asarray(raw), self.name(feature))
        finite = np.isfinite(values)
        if not finite.all():
            found = "NaN" if np.isnan(values).any() else "inf"
            raise ValueError(
                f"X: every value must be finite, found {found} in column {self.name(feature)!r} "
                f"({int((~finite).sum())} of {self.n_rows} rows). Drop or impute those rows "
                "(input contains NaN or inf)."
            )
        return values

    def reorder(self, names: Sequence[str]) -> Table:
        """Table with its columns in the order of ``names``; extra columns are left out."""
        assert self.names is not None
        missing = [name for name in names if name not in self.names]
        if missing:
            raise ValueError(
                f"X: the columns seen during fit are needed, {missing[:5]} "
                f"{'is' if len(missing) == 1 else 'are'} missing. Found {list(self.names)[:10]}. "
                "Pass a table with those names."
            )
        table = object.__new__(Table)
        table.names, table._source = tuple(names), self._source
        table.n_rows, table.n_features = self.n_rows, len(names)
        return table


def _checked_names(columns: Iterable[Any]) -> tuple[str, ...] | None:
    """Column names, or None where columns are numbered rather than named."""
    names = tuple(columns)
    if not any(isinstance(name, str) for name in names):
        return None
    if not all(isinstance(name, str) for name in names):
        odd = next(name for name in names if not isinstance(name, str))
        raise TypeError(
            f"X: feature names must all be strings, found {odd!r} of type {type(odd).__name__}. "
            "Rename the columns, for example X.columns = X.columns.astype(str). "
            "(Feature names are only supported if all input features have string names.)"
        )
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(
            f"X: column names must be unique, found {twice[:5]} more than once. "
            "Rename or drop the repeated columns."
        )
    return names


def _checked_matrix(X: Any) -> NDArray[Any]:
    if hasattr(X, "toarray") or type(X).__module__.startswith("scipy.sparse"):
        raise TypeError(
            "X: a dense table is needed, found a sparse matrix. Pass X.toarray() "
            "(sparse input is not supported)."
        )
    matrix = np.asarray(X)
    if matrix.ndim != 2:
        raise ValueError(
            f"X: a 2-dimensional table is needed, found shape {matrix.shape}. Reshape your data: "
            "array.reshape(-1, 1) for one feature, array.reshape(1, -1) for one row."
        )
    return matrix


def _as_floats(raw: NDArray[Any], name: str) -> FloatArray:
    if np.iscomplexobj(raw):
        raise ValueError(
            f"X: columns must be real numbers, found complex numbers in {name!r}. "
            "Complex data not supported: pass the real and imaginary parts as two columns."
        )
    if raw.dtype.kind in "mM":
        raise TypeError(
            f"X: columns must be numeric, found {raw.dtype} in {name!r}. Turn dates and durations "
            "into numbers, for example days since a fixed day."
        )
    try:
        return np.asarray(raw, dtype=np.float64)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(
            f"X: columns must be numeric, found {raw.dtype} in {name!r} ({error}). "
            "Encode it as numbers, for example with pandas.get_dummies."
        ) from error


@dataclass(frozen=True)
class Axis:
    """One feature seen through M nodes.

    Parameters
    ----------
    values : array of shape (M,)
        Nodes in the feature's own unit, increasing.
    weights : array of shape (M,)
        Share of the training mass at each node; the measure of the sum-to-zero law.
    """

    values: FloatArray
    weights: FloatArray

    @property
    def n_nodes(self) -> int:
        """Number of nodes M."""
        return len(self.values)

    @property
    def positions(self) -> FloatArray:
        """Mid-rank of each node, in [0, 1]: the scale on which the bases live.

        NOTE[DIFF] ranks are those of the training rows, whatever rows are scored later.
        """
        return np.cumsum(self.weights) - self.weights / 2

    def locate(self, x: FloatArray) -> tuple[IntArray, FloatArray]:
        """Lower node of each value and how far it lies towards the next one, in [0, 1].

        Values beyond the outer nodes stay on them: an outlier cannot extrapolate.
        """
        if self.n_nodes == 1:
            return np.zeros(len(x), np.intp), np.zeros(len(x))
        x = np.clip(x, self.values[0], self.values[-1])
        lower = np.minimum(np.searchsorted(self.values, x, side="right") - 1, self.n_nodes - 2)
        halves = self.values / 2  # the difference of two huge values must not overflow
        step = np.diff(halves)[lower]
        fraction = np.zeros(len(x))
        np.divide(x / 2 - halves[lower], step, out=fraction, where=step > 0)
        return lower, fraction

    def codes(self, x: FloatArray) -> NDArray[np.uint16]:
        """Nearest node of each value, (n,)."""
        middles = self.values[:-1] / 2 + self.values[1:] / 2
        return np.searchsorted(middles, x, side="left").astype(np.uint16)


def place_nodes(values: FloatArray, masses: FloatArray, max_nodes: int) -> FloatArray:
    """Nodes for a feature with the given distinct values and masses.

    A value that alone holds 1/max_nodes of the mass is a node of its own; the other nodes are
    quantiles of the remaining mass, so that one heavy value cannot starve the rest.

    >>> place_nodes(np.arange(5.0), np.full(5, 0.2), max_nodes=8)
    array([0., 1., 2., 3., 4.])
    >>> heavy = np.array([0.9] + [0.001] * 100)
    >>> len(place_nodes(np.arange(101.0), heavy, max_nodes=11))
    11
    """
    if len(values) <= max_nodes:
        return values
    atom = masses >= masses.sum() / max_nodes
    n_quantiles = max_nodes - int(atom.sum())
    rest, cumulated = values[~atom], np.cumsum(masses[~atom])
    levels = (np.arange(n_quantiles) + 0.5) / max(n_quantiles, 1) * cumulated[-1]
    return np.union1d(values[atom], rest[np.searchsorted(cumulated, levels)])


def _distinct(x: FloatArray, weights: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    if weights is None:
        values, counts = np.unique(x, return_counts=True)
        return values, counts.astype(np.float64)
    order = np.argsort(x, kind="stable")
    values, starts = np.unique(x[order], return_index=True)
    masses = np.add.reduceat(weights[order], starts)
    return values[masses > 0], masses[masses > 0]


def make_axis(values: FloatArray, masses: FloatArray, nodes: FloatArray) -> Axis:
    """Axis with the given nodes: each value's mass is shared by its two neighbours."""
    axis = Axis(nodes, np.empty(0))
    lower, fraction = axis.locate(values)
    shares = masses / masses.sum()
    weights = np.zeros(axis.n_nodes)
    np.add.at(weights, lower, shares * (1 - fraction))
    np.add.at(weights, np.minimum(lower + 1, axis.n_nodes - 1), shares * fraction)
    return Axis(axis.values, weights)


def _nested_axes(values: FloatArray, masses: FloatArray, sizes: list[int]) -> list[Axis]:
    """One axis per size; the nodes of each are nodes of every finer one.

    So a piecewise linear function on coarse nodes is one on fine nodes too.
    """
    axes: dict[int, Axis] = {}
    nodes, weights = values, masses
    for size in sorted(set(sizes), reverse=True):
        nodes = place_nodes(nodes, weights, size)
        axes[size] = make_axis(values, masses, nodes)
        weights = axes[size].weights
    return [axes[size] for size in sizes]


@dataclass(frozen=True)
class TableEncoder:
    """Nodes of every feature, at one resolution per order of interaction.

    Parameters
    ----------
    names : tuple of str, or None
        Feature names where the training table had them.
    axes : dict of int to tuple of Axis
        For each order of interaction, the axis of every feature.
    """

    names: tuple[str, ...] | None
    axes: dict[int, tuple[Axis, ...]]

    @classmethod
    def fit(
        cls, table: Table, max_nodes: dict[int, int], weights: FloatArray | None = None
    ) -> TableEncoder:
        """Place the nodes of every column by its weighted distribution.

        Parameters
        ----------
        table : Table
            Training rows.
        max_nodes : dict of int to int
            For each order of interaction, the largest number of nodes of a feature.
        weights : array of shape (n_rows,), optional
            Mass of each row; rows of mass zero leave no trace.
        """
        by_feature = [
            _nested_axes(*_distinct(table.column(feature), weights), list(max_nodes.values()))
            for feature in range(table.n_features)
        ]
        by_order = zip(*by_feature, strict=True)
        return cls(table.names, dict(zip(max_nodes, by_order, strict=True)))

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(next(iter(self.axes.values())))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, ``x0, x1, ...`` where the table had none."""
        return self.names or tuple(f"x{feature}" for feature in range(self.n_features))

    def read(self, X: Any, reader: str = "AnovaModel") -> Table:
        """Read a table to predict on: columns found by name, or by position where there is none.

        ``reader`` is the class that the error message speaks of.
        """
        table = X if isinstance(X, Table) else Table(X)
        if self.names is not None and table.names is not None:
            return table.reorder(self.names)
        if table.n_features != self.n_features:
            raise ValueError(
                f"X: the number of columns must be that of fit: X has {table.n_features} features, "
                f"but {reader} is expecting {self.n_features} features as input. "
                f"The features are {list(self.feature_names)[:10]}."
            )
        return table

    def codes(self, table: Table, order: int, rows: IntArray) -> NDArray[np.uint8 | np.uint16]:
        """Nearest nodes of the given rows, (n_features, len(rows)), one byte each if it can be."""
        axes = self.axes[order]
        wide = max(axis.n_nodes for axis in axes) > 256
        codes = np.empty((len(axes), len(rows)), dtype=np.uint16 if wide else np.uint8)
        for feature, axis in enumerate(axes):
            codes[feature] = axis.codes(table.column(feature)[rows])
        return codes

    def canonical_order(self) -> list[int]:
        """Features in an order that does not depend on how the table's columns are arranged.

        By name where there are names, else by the nodes themselves. Training runs in this order,
        which makes a permutation of the columns a mere permutation of the answer.
        """
        finest = next(iter(self.axes.values()))

        def key(feature: int) -> tuple[str | bytes, bytes]:
            axis = finest[feature]
            return self.names[
                feature
            ] if self.names else axis.values.tobytes(), axis.weights.tobytes()

        return sorted(range(self.n_features), key=key)
