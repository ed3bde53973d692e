"""Axis: one feature seen through its nodes.

A row's value lies between two nodes; the frozen model interpolates linearly between them, and
training uses the nearer one. The mass of the training rows is shared between the two nodes in the
same proportion, so that a function that averages to zero over the nodes averages to zero over the
training rows, exactly. Levels and missing values have nodes of their own.

Regular nodes are the nodes of values, and have the same numbers as these. Only this module, and the
few that tests/test_architecture.py names, use the number of the node of missing values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import BoolArray, FloatArray, IntArray, RealArray
from tpnn.table.columns import SMALLEST_SIZE
from tpnn.table.table import NOMINAL, NUMBER, PERIODIC

UNSEEN_LEVEL = np.inf  # a level that fit has not seen, among numbers that are finite or NaN
OTHERS, UNSEEN_WORD = "(other levels)", "(unseen level)"
VALUE_SHARE = 0.6  # weight of values in positions that blend ranks and values
OUTER_RANKS = (0.1, 0.9)  # the lower and the upper tenth
CLIP_RANGES = 3.0  # values are clipped at this many times the range between the outer ranks


@dataclass(frozen=True, repr=False)
class Axis:
    """One feature seen through M nodes. Its arrays are read-only."""

    # (n_values,): regular nodes in the feature's unit, increasing, or numbers of levels
    values: FloatArray
    # (M,): share of the training mass at each node, the measure of the sum-to-zero law
    weights: FloatArray
    kind: str = NUMBER  # what the values stand for, one of the six of ``tpnn.table.table``
    levels: tuple[Any, ...] | None = None  # label of every regular node of a feature with levels
    groups: IntArray | None = None  # (n_levels,): node of each level of a nominal feature
    has_missing: bool = False  # whether there is a node for missing values
    # whether the last regular node stands for levels that fit has not seen
    has_unseen: bool = False

    def __post_init__(self) -> None:
        self.__setstate__(vars(self))

    def __repr__(self) -> str:
        missing = ", one of missing values" if self.has_missing else ""
        return f"Axis({self.kind}, {self.n_nodes} nodes{missing})"

    def __setstate__(self, state: dict[str, Any]) -> None:  # a pickled array comes back writable
        arrays = {name: state[name] for name in ("values", "weights", "groups")}
        frozen = {name: read_only(array) for name, array in arrays.items() if array is not None}
        vars(self).update(state, **frozen)

    @property
    def numbers(self) -> FloatArray:
        """Each node as the encoder reads it, (M,): its value, or the number of its first level.

        >>> axis = Axis(np.arange(2.0), np.ones(2) / 2, NOMINAL, groups=np.array([1, 0, 1]))
        >>> axis.numbers
        array([1., 0.])
        """
        numbers = self.values
        if self.groups is not None:
            numbers = np.full(len(numbers), UNSEEN_LEVEL)
            nodes, first = np.unique(self.groups, return_index=True)
            numbers[nodes] = first
        return self.with_missing(numbers, np.nan)

    @property
    def n_nodes(self) -> int:
        """Number of nodes M, the one of missing values included."""
        return len(self.values) + self.has_missing

    @property
    def regular(self) -> slice:
        """Nodes of values: an index of everything that has an entry for each node."""
        return slice(0, len(self.values))

    @property
    def seen(self) -> slice:
        """Nodes of values that fit has seen: all regular nodes but the node of unseen levels."""
        return slice(0, len(self.values) - self.has_unseen)

    @property
    def unseen(self) -> slice:
        """Node of levels that fit has not seen, or no node."""
        return slice(self.seen.stop, len(self.values))

    @property
    def missing(self) -> slice:
        """Node of missing values, or no node."""
        return slice(len(self.values), self.n_nodes)

    @property
    def missing_node(self) -> int:
        """Node of missing values; M, where every component is zero, if fit has seen none."""
        return len(self.values)

    @property
    def unseen_node(self) -> int:
        """Node of levels that fit has not seen; M, where every component is zero, without one."""
        return len(self.values) - 1 if self.has_unseen else self.n_nodes

    @property
    def outer_nodes(self) -> tuple[float, float]:
        """First and last node, between which values are searched; levels are not searched."""
        if self.groups is not None:
            return -np.inf, np.inf
        return (self.values[0], self.values[-1]) if len(self.values) else (0.0, 0.0)

    def with_missing(self, entries: NDArray[Any], entry: Any) -> NDArray[Any]:
        """Append the entry of missing values to the entries of regular nodes, if it has a node.

        >>> Axis(np.arange(2.0), np.ones(3) / 3, has_missing=True).with_missing(np.ones(2), 0.0)
        array([1., 1., 0.])
        """
        if not self.has_missing:
            return entries
        return np.concatenate([entries, np.broadcast_to(entry, (1, *entries.shape[1:]))])

    @property
    def is_nominal(self) -> bool:
        """Whether the nodes have no order."""
        return self.kind == NOMINAL

    @property
    def is_empty(self) -> bool:
        """Whether fit has seen no value, so that all values are missing."""
        return len(self.values) == 0

    @property
    def has_steps(self) -> bool:
        """Whether the nodes are ordered and there is a step from one value to the next."""
        return not self.is_nominal and len(self.values) > 1

    @property
    def positions(self) -> FloatArray:
        """Mid-rank of each node among the non-missing values, in [0, 1]: the argument of bases.

        NOTE[DIFF] ranks are taken among the training rows, whatever rows are scored later.
        """
        regular = self.weights[self.regular]
        ranks = (np.cumsum(regular) - regular / 2) / (regular.sum() or 1.0)
        return self.with_missing(ranks, 1.0)

    @property
    def blended_positions(self) -> FloatArray:
        """Mean of rank and value of each node, both in [0, 1]: where smooth functions are smooth.

        Ranks alone flatten the tails, where small tables have their signal. Values alone follow
        outliers, so they are clipped. Only ranks are used for levels without order, and where one
        value fills the range between the outer ranks.
        """
        positions = self.positions
        if self.is_nominal or self._is_nearly_constant():
            return positions
        ranks = positions[self.regular]
        with np.errstate(over="ignore", invalid="ignore"):  # differences of huge values
            low, high = np.interp(OUTER_RANKS, ranks, self.values)
            reach = CLIP_RANGES * (high - low)
            clipped = np.clip(self.values, low - reach, high + reach)
            span = clipped[-1] - clipped[0]
            if not 0 < span < np.inf:
                return positions
            values = (clipped - clipped[0]) / span
        return self.with_missing((1 - VALUE_SHARE) * ranks + VALUE_SHARE * values, 1.0)

    def _is_nearly_constant(self) -> bool:
        """Whether one node holds all the mass between the outer ranks."""
        cumulated = np.cumsum(self.weights[self.regular])
        if len(cumulated) < 2:
            return True
        first, last = np.searchsorted(cumulated, np.array(OUTER_RANKS) * cumulated[-1])
        return bool(first == last)

    @property
    def tenths_range(self) -> float:
        """Distance from the lower to the upper tenth of the training rows, or of all nodes.

        >>> Axis(np.array([0.0, 1.0, 5.0]), np.array([0.2, 0.6, 0.2])).tenths_range
        5.0
        """
        nodes, ranks = self.values, np.cumsum(self.weights[self.regular])
        low, high = np.searchsorted(ranks, np.array(OUTER_RANKS) * ranks[-1])
        last = len(nodes) - 1
        return float(nodes[min(high, last)] - nodes[min(low, last)] or nodes[-1] - nodes[0] or 1.0)

    def locate(self, x: FloatArray) -> tuple[IntArray, FloatArray]:
        """Lower node of each value and how far it lies towards the next one, in [0, 1).

        Values beyond the outer nodes stay on them, so that nothing is extrapolated. A new level, or
        the first missing value, is on its own node if the axis has one, else on node M, where every
        component is zero.
        """
        missing, unseen = np.isnan(x), np.isinf(x)
        odd = missing | unseen
        lower, fraction = self._locate_finite(np.where(odd, 0.0, x) if odd.any() else x)
        lower[missing] = self.missing_node
        lower[unseen] = self.unseen_node
        fraction[odd] = 0.0
        return lower, fraction

    def _locate_finite(self, x: FloatArray) -> tuple[IntArray, FloatArray]:
        fraction = np.zeros(len(x))
        if self.groups is not None:
            return self.groups[x.astype(np.intp)], fraction
        nodes = self.values
        if len(nodes) < 2:
            return np.zeros(len(x), np.intp), fraction
        x = np.clip(x, nodes[0], nodes[-1])
        lower = np.searchsorted(nodes, x, side="right") - 1
        halves = nodes / 2  # the difference of two huge values must not overflow
        steps = np.append(np.diff(halves), 0.0)[lower]
        np.divide(x / 2 - halves[lower], steps, out=fraction, where=steps > 0)
        return lower, fraction

    def masses_of(self, x: FloatArray, masses: Any = 1.0) -> FloatArray:
        """Mass that values give to their neighbouring nodes, (M + 1,); last that without a node."""
        lower, fraction = self.locate(x)
        shared = np.zeros(self.n_nodes + 2)  # the null node, and a neighbour of it
        np.add.at(shared, lower, (1 - fraction) * masses)
        np.add.at(shared, lower + 1, fraction * masses)
        return shared[:-1]

    def coarsened(self, most: int) -> Axis:
        """Axis with at most ``most`` regular nodes, all of them nodes of this one."""
        if len(self.values) <= most:
            return self
        if self.groups is not None:
            return self._with_rarest_merged(self.groups, most)
        masses, is_closed = self.weights[self.regular], self.kind == PERIODIC
        nodes = place_nodes(self.values, masses, most, is_closed)
        axis = make_axis(self.numbers, self.weights, nodes, self.kind)
        if self.levels is None:
            return axis
        numbers = np.searchsorted(self.values, nodes)
        return replace(axis, levels=tuple(self.levels[number] for number in numbers))

    def opened(self) -> Axis:
        """Axis of levels with one more node, for levels that come later; no row is there yet."""
        return replace(
            self,
            values=np.arange(len(self.values) + 1.0),
            weights=np.insert(self.weights, len(self.values), 0.0),
            levels=(*(self.levels or ()), UNSEEN_WORD),
            has_unseen=True,
        )

    def _with_rarest_merged(self, groups: IntArray, most: int) -> Axis:
        """Nominal axis whose last nodes, those of the rarest levels, are one."""
        last = most - 1
        regular, missing = self.weights[self.regular], self.weights[self.missing]
        values = np.arange(float(most))
        masses = np.concatenate([regular[:last], [regular[last:].sum()], missing])
        levels = (*(self.levels or ())[:last], OTHERS)
        merged = np.minimum(groups, last)
        return replace(self, values=values, weights=masses, groups=merged, levels=levels)

    @property
    def ends(self) -> FloatArray:
        """Largest value that is nearest to each regular node of an ordered axis but the last."""
        nodes = self.values
        middles = nodes[:-1] / 2 + nodes[1:] / 2
        below = np.nextafter(nodes[1:], -np.inf)  # the middle of neighbours rounds to either
        return np.minimum(middles, below)

    def codes(self, x: FloatArray) -> IntArray:
        """Nearest node of each training value, (n,)."""
        if self.groups is not None:
            nearest = self.groups[np.nan_to_num(x).astype(np.intp)]
        else:
            nearest = np.searchsorted(self.ends, x, side="left")
        return np.where(np.isnan(x), self.missing_node, nearest)


def read_only(array: RealArray) -> RealArray:
    """View of an array through which it cannot be changed."""
    view = array.view()
    view.flags.writeable = False
    return view


def place_nodes(
    values: FloatArray, masses: FloatArray, max_nodes: int, reach_ends: bool = False
) -> FloatArray:
    """Nodes for a feature with the given distinct values and masses.

    A value that alone holds 1/max_nodes of the mass is a node of its own; the other nodes are
    quantiles of the remaining mass, so that one heavy value leaves nodes for the rest. With
    ``reach_ends`` the outer values are nodes, too.

    >>> place_nodes(np.arange(5.0), np.full(5, 0.2), max_nodes=8)
    array([0., 1., 2., 3., 4.])
    >>> heavy = np.array([0.9] + [0.001] * 100)
    >>> len(place_nodes(np.arange(101.0), heavy, max_nodes=11))
    11
    """
    if len(values) <= max_nodes:
        return values
    atom = masses >= masses.sum() / max_nodes
    if reach_ends and max_nodes > 1:
        atom[[0, -1]] = True
        inner = np.flatnonzero(atom)[1:-1]
        lightest = np.argsort(masses[inner], kind="stable")
        atom[inner[lightest[: max(len(inner) + 2 - max_nodes, 0)]]] = False
    n_quantiles = max_nodes - int(atom.sum())
    rest, light = (values[~atom], masses[~atom]) if atom.any() else (values, masses)
    cumulated = np.cumsum(light)
    levels = (np.arange(n_quantiles) + 0.5) / max(n_quantiles, 1) * cumulated[-1]
    return np.union1d(values[atom], rest[np.searchsorted(cumulated, levels)])


def within_period(x: FloatArray, period: float) -> FloatArray:
    """Numbers without their whole periods; every export computes it so, to the same bits.

    Where ``x / period`` rounds up to a whole number, the difference is below 0. Numbers that are
    huge beside their period have no place in it that doubles know; they stay inside.

    >>> within_period(np.array([25.0, -1.0, np.nan]), 24.0)
    array([ 1., 23., nan])
    """
    with np.errstate(over="ignore"):
        return np.clip(x - np.floor(x / period) * period, 0.0, period)


def with_period(
    values: FloatArray, masses: FloatArray, period: float
) -> tuple[FloatArray, FloatArray]:
    """Add both ends of a period, without mass, to distinct values inside it.

    >>> with_period(np.array([0.0, 6.0, np.nan]), np.ones(3), 24.0)
    (array([ 0.,  6., 24., nan]), array([1., 1., 0., 1.]))
    """
    ends = np.setdiff1d([0.0, period], values)
    order = np.argsort(np.append(values, ends), kind="stable")  # NaN stays last
    return np.append(values, ends)[order], np.append(masses, np.zeros(len(ends)))[order]


def distinct(x: FloatArray, weights: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Distinct values, NaN last, and the mass of each; values without mass are left out.

    Numbers too small for exact differences, below 2**-1020 in size, are 0.
    """
    if weights is None:
        from tpnn.table.axis_numba import run_lengths, sort_column

        values, masses = run_lengths(sort_column(x))
        return values, masses
    x = np.where(np.abs(x) < SMALLEST_SIZE, 0.0, x)  # -0.0 too
    order = np.lexsort((weights, x))  # sums do not depend on the order of the rows
    values, starts = np.unique(x[order], return_index=True)
    masses = np.add.reduceat(weights[order], starts)
    return values[masses > 0], masses[masses > 0]


def make_axis(
    values: FloatArray, masses: FloatArray, nodes: FloatArray, kind: str = NUMBER
) -> Axis:
    """Axis of an ordered feature: each value's mass is shared by its two neighbours.

    ``values`` may end with NaN for missing values, which get a node after the others.
    """
    from tpnn.table.axis_numba import share_masses

    has_missing = bool(np.isnan(values[-1]))
    n_present, total = len(values) - has_missing, masses.sum()
    weights = np.zeros(len(nodes) + 1)  # one more, to which the last node gives nothing
    share_masses(values[:n_present], masses, total, nodes, weights)
    weights = np.append(weights[:-1], masses[n_present:] / total)
    return Axis(values=nodes, weights=weights, kind=kind, has_missing=has_missing)


def nested_axes(
    values: FloatArray,
    masses: FloatArray,
    sizes: Sequence[int],
    kind: str,
    levels: tuple[Any, ...],
    reach_ends: bool = False,
) -> list[Axis]:
    """One axis per size; the nodes of each are nodes of every finer one.

    So a piecewise linear function on coarse nodes is one on fine nodes too. ``reach_ends`` is that
    of :func:`place_nodes`.
    """
    axes: dict[int, Axis] = {}
    n_present = len(values) - int(np.isnan(values[-1]))
    nodes, weights = values[:n_present], masses[:n_present]
    for size in sorted(set(sizes), reverse=True):
        nodes = place_nodes(nodes, weights, size, reach_ends or kind == PERIODIC)
        axis = make_axis(values, masses, nodes, kind)
        if levels:
            axis = replace(axis, levels=tuple(levels[int(number)] for number in nodes))
        axes[size], weights = axis, axis.weights[axis.regular]
    return [axes[size] for size in sizes]


def nominal_axes(
    values: FloatArray,
    masses: FloatArray,
    sizes: Sequence[int],
    levels: tuple[Any, ...],
    rare: BoolArray,
) -> list[Axis]:
    """One axis per size for levels without order, most frequent first.

    Values marked as ``rare``, and the rarest where there are more levels than nodes, share the last
    node.
    """
    present = ~np.isnan(values)
    numbers = values[present].astype(np.intp)
    level_masses, apart = np.zeros(len(levels)), np.zeros(len(levels), bool)
    level_masses[numbers], apart[numbers] = masses[present], ~rare[present]
    order = np.lexsort((-level_masses, ~apart))
    most = min(int(apart.sum()) + 1, len(levels))
    axes = []
    for size in sizes:
        n_nodes = min(size, most)
        groups = np.empty(len(levels), np.intp)
        groups[order] = np.minimum(np.arange(len(levels)), n_nodes - 1)
        labels = [levels[number] for number in order[:n_nodes]]
        if n_nodes < len(levels):
            labels[-1] = OTHERS
        of_nodes = np.append(np.bincount(groups, level_masses, n_nodes), masses[~present])
        axis = Axis(
            values=np.arange(float(n_nodes)),
            weights=of_nodes / of_nodes.sum(),
            kind=NOMINAL,
            levels=tuple(labels),
            groups=groups,
            has_missing=bool((~present).any()),
        )
        axes.append(axis)
    return axes
