"""largest_sum and monotone_shift: what holds for all inputs of a score card at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.anova.components import Component

MAX_CELLS = 4_000_000  # of a table that elimination makes; above it the maximum is bounded

Tables = list[tuple[Component, FloatArray]]


def largest_sum(tables: Mapping[Component, FloatArray]) -> tuple[float, bool]:
    """Maximum of sum_S t_S(x_S) over all x, and whether it is exact or an upper bound.

    Features are eliminated one after the other: all tables of a feature are added and their sum is
    maximised over it. Where that sum would have too many cells, groups of tables are maximised
    apart, which can only give more.

    >>> largest_sum({(0,): np.array([0.0, 1.0]), (0, 1): np.array([[5.0, 0.0], [0.0, 3.0]])})
    (5.0, True)
    """
    left: Tables = [(component, np.asarray(table)) for component, table in tables.items()]
    is_exact = True
    while any(component for component, _ in left):
        feature = min({j for s, _ in left for j in s}, key=lambda j: _n_cells(_with(left, j)))
        groups = _groups(_with(left, feature))
        is_exact &= len(groups) == 1
        left = [(s, table) for s, table in left if feature not in s]
        left += [_maximised(group, feature) for group in groups]
    return float(sum(float(table) for _, table in left)), is_exact


def _with(tables: Tables, feature: int) -> Tables:
    return [(component, table) for component, table in tables if feature in component]


def _sizes(tables: Tables) -> dict[int, int]:
    return {
        j: n for component, table in tables for j, n in zip(component, table.shape, strict=True)
    }


def _n_cells(tables: Tables) -> int:
    return math.prod(_sizes(tables).values())


def _groups(tables: Tables) -> list[Tables]:
    """Tables together as long as their sum has few cells, largest first."""
    groups: list[Tables] = []
    for one in sorted(tables, key=lambda pair: -pair[1].size):
        fitting = (group for group in groups if _n_cells([*group, one]) <= MAX_CELLS)
        group = next(fitting, None)
        if group is None:
            groups.append([one])
        else:
            group.append(one)
    return groups


def _maximised(tables: Tables, feature: int) -> tuple[Component, FloatArray]:
    """Sum of tables, maximised over one feature."""
    scope = tuple(sorted(_sizes(tables)))
    total = reduce(np.add, [_aligned(component, table, scope) for component, table in tables])
    rest = tuple(j for j in scope if j != feature)
    return rest, total.max(scope.index(feature))


def _aligned(component: Component, table: FloatArray, scope: Sequence[int]) -> FloatArray:
    sizes = dict(zip(component, table.shape, strict=True))
    return table.reshape([sizes.get(j, 1) for j in scope])


def monotone_shift(
    points: Mapping[Component, IntArray], feature: int, n_regular: int, direction: int
) -> IntArray:
    """Whole points to add to a main effect so that all sums are monotone along its feature.

    The smallest step from band b to b + 1 is that of the main effect plus, for each pair, the
    smallest over the bands of the other feature: a_b. The shift u needs u_{b+1} - u_b >= -a_b. With
    G_b the sum of -a up to b, v = u - G must not fall, and the u of least largest size is G plus
    the middle between the running maximum of -G and its running minimum from the end.

    The first ``n_regular`` bands have an order, and get a shift each. With direction 1 sums must
    rise, with -1 they must fall.
    """
    steps = np.zeros(max(n_regular - 1, 0), np.int64)
    for component, table in points.items():
        if feature in component:
            along = np.moveaxis(table, component.index(feature), 0)[:n_regular]
            rises = direction * np.diff(along, axis=0)
            steps += rises.reshape(len(rises), -1).min(1) if len(rises) else 0
    needed = np.concatenate([[0], np.cumsum(-steps)])[:n_regular].astype(np.int64)
    up = np.maximum.accumulate(-needed)
    down = np.minimum.accumulate(-needed[::-1])[::-1]
    shift: IntArray = direction * ((up + down) // 2 + needed)
    return shift
