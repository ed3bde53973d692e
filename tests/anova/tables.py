"""Random axes and tables, and what they say, computed without the package's own interpolation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product

import numpy as np
from scipy.interpolate import RegularGridInterpolator

from tpnn.table.axis import Axis, distinct, nested_axes, nominal_axes

Component = tuple[int, ...]
Tables = dict[Component, np.ndarray]
Axes = dict[int, tuple[Axis, ...]]


def random_axes(
    rng: np.random.Generator,
    n_features: int = 3,
    sizes: Sequence[int] = (7, 4, 3),
    nominal: Sequence[int] = (),
    missing: Sequence[int] = (),
) -> Axes:
    """Axes of every order on random rows; coarser ones have fewer nodes."""
    by_feature = []
    for feature in range(n_features):
        gaps = [np.nan] * 4 * (feature in missing)
        if feature in nominal:
            numbers = np.r_[np.arange(5.0), rng.integers(0, 5, 30), gaps]
            values, masses = distinct(numbers, None)
            labels = tuple("abcde")
            axes = nominal_axes(values, masses, sizes, labels, np.zeros(len(values), bool))
        else:
            values, masses = distinct(np.r_[rng.normal(size=40).round(1), gaps], None)
            axes = nested_axes(values, masses, sizes, "number", ())
        by_feature.append(axes)
    return {size + 1: tuple(axes[size] for axes in by_feature) for size in range(len(sizes))}


def random_tables(rng: np.random.Generator, axes: Axes, order: int = 2) -> Tables:
    """A table of normal numbers for every component up to an order."""
    n_features = len(axes[1])
    components = (s for size in range(1, order + 1) for s in combinations(range(n_features), size))
    return {s: rng.normal(size=[axes[len(s)][j].n_nodes for j in s]) for s in components}


def value(table: np.ndarray, axes: Sequence[Axis], x: Sequence[float]) -> float:
    """Value of a component at a point of numbers: linear between nodes, constant beyond them."""
    at = [np.clip(x_j, a.values[0], a.values[-1]) for x_j, a in zip(x, axes, strict=True)]
    regular = table[tuple(axis.regular for axis in axes)]
    several = [place for place, axis in enumerate(axes) if len(axis.values) > 1]
    regular = regular.reshape([len(axes[place].values) for place in several])
    if not several:
        return float(regular)
    nodes = [axes[place].values for place in several]
    return float(RegularGridInterpolator(nodes, regular)([at[place] for place in several])[0])


def total(tables: Mapping[Component, np.ndarray], axes: Axes, x: Sequence[float]) -> float:
    """Sum of all components at a point of numbers."""
    return sum(
        value(table, [axes[len(s)][j] for j in s], [x[j] for j in s]) for s, table in tables.items()
    )


def on_grid(tables: Tables, axes: Axes, features: Sequence[int]) -> np.ndarray:
    """Sum of all components on the grid of the fine nodes of some features, which must be all."""
    nodes = [axes[1][j].values for j in features]
    points = [total(tables, axes, x) for x in product(*nodes)]
    return np.reshape(points, [len(n) for n in nodes])


def masses_of(axes: Axes, component: Component) -> list[np.ndarray]:
    return [axes[len(component)][feature].weights for feature in component]
