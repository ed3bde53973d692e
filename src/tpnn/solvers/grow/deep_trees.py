"""Deep trees on coded rows, grown level by level.

A question is a column and a cut: does the code lie above the cut? An oblivious tree asks all leaves
of a level the same question, so that it is a sum of tensor products of steps. A free tree asks each
leaf its own. Either way a question is the one that lowers the loss most,

    gain = sum over leaves and outputs of G_left^2 / (H_left + r) + G_right^2 / (H_right + r)

with G and H the sums of residuals and hessians, and a ridge r. Both are whole numbers of 32 bits,
packed into one word of 64, so that one addition serves both and no sum depends on the order of the
rows. The rows of each leaf are kept together. Of two children only the smaller one is summed; the
other is the difference to their parent.

Nodes are numbered by levels: the children of node n are 2n + 1 and 2n + 2. A node that has nothing
to ask sends all its rows to the left, by a cut that no code lies above.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn._utils.compile import compiled
from tpnn.anova.components import Component, InteractionRules
from tpnn.solvers.grow.rectangles import increasing
from tpnn.solvers.problem.rows import scrambled

MOST_CODES = 256  # of a column: a code is one byte
SUM_BITS = 30  # of a sum over all rows, in half a word
HALF, LOW_HALF = np.int64(32), np.int64((1 << 32) - 1)  # of a word
N_DRAWS = 1024  # weights that are drawn
SMALLEST_SUM = 1e-250  # what is smaller is rounding


class TreeRules(NamedTuple):
    """What shapes a tree."""

    depth: int  # number of questions on the way to a leaf
    is_oblivious: bool  # whether all leaves of a level ask the same question
    most_features: int  # different features in a tree
    rate: float  # share of the Newton step that a leaf takes
    ridge: float  # added to the hessian of a leaf, in rows
    column_share: float  # share of the columns that a level may ask about
    largest_step: float  # of a leaf before the rate
    random_levels: int = 0  # whose questions are drawn at random, each about another feature


class Meetings(NamedTuple):
    """Which features may meet in a tree; sets of features are padded with -1."""

    listed: (
        IntArray  # (n_sets, longest): all features of a tree are in one of these, if there are any
    )
    forbidden: IntArray  # (n_sets, longest): no tree has all features of one of these


class Tree(NamedTuple):
    """Questions and leaf values of one tree."""

    columns: IntArray  # (2**depth - 1,): of node n, whose children are 2n + 1 and 2n + 2
    cuts: IntArray  # (2**depth - 1,): codes above the cut go right
    values: FloatArray  # (2**depth, K)


def _weights_to_draw() -> FloatArray:
    """Square roots of exponential quantiles, of mean 1: the weights of a Bayesian bootstrap.

    They are rounded, so that they are the same on every machine.
    """
    roots = np.sqrt(-np.log1p(-(np.arange(N_DRAWS) + 0.5) / N_DRAWS))
    return np.asarray((roots / roots.mean()).round(4))


WEIGHTS = _weights_to_draw()


@compiled(inline="always")
def _pack(residual: Any, hessian: Any, weights: Any, seed: Any, packed: Any, units: Any) -> None:
    """Weigh the rows at random; pack residual and hessian (n,) of a row into one word.

    ``units`` gets what a whole number stands for, of residuals and of hessians.
    """
    drawn = np.empty(len(residual), np.int64)
    sizes = np.zeros(2)
    for i in range(len(residual)):
        drawn[i] = np.int64(scrambled(seed + np.uint64(i)) >> np.uint64(54))
        sizes[0] += abs(residual[i]) * weights[drawn[i]]
        sizes[1] += hessian[i] * weights[drawn[i]]
    for half in range(2):
        units[half] = math.ldexp(1.0, math.frexp(max(sizes[half], SMALLEST_SUM))[1] - SUM_BITS)
    for i in range(len(residual)):
        slope = np.int64(np.rint(residual[i] * weights[drawn[i]] / units[0]))
        mass = np.int64(np.rint(hessian[i] * weights[drawn[i]] / units[1]))
        packed[i] = (slope << HALF) + mass


@compiled()
def _sum_leaf(codes: Any, rows: Any, packed: Any, some: Any, sums: Any) -> None:
    """Sum the packed numbers (K, n) of the rows of a leaf by their codes in each column.

    Four columns at a time share what is read of a row, which takes a third of the time away.
    """
    n_in_fours = len(codes) - len(codes) % 4
    for output in range(len(packed)):
        for i in range(len(rows)):
            some[i] = packed[output, rows[i]]
        for place in range(0, n_in_fours, 4):
            a, b, c, d = codes[place], codes[place + 1], codes[place + 2], codes[place + 3]
            of_a, of_b = sums[place, output], sums[place + 1, output]
            of_c, of_d = sums[place + 2, output], sums[place + 3, output]
            for i in range(len(rows)):
                row, number = rows[i], some[i]
                of_a[a[row]] += number
                of_b[b[row]] += number
                of_c[c[row]] += number
                of_d[d[row]] += number
        for place in range(n_in_fours, len(codes)):
            column, cells = codes[place], sums[place, output]
            for i in range(len(rows)):
                cells[column[rows[i]]] += some[i]


@compiled(error_model="numpy")  # no check of the divisor, so that the loop becomes vectors
def _add_gains(cells: Any, n_codes: int, units: Any, ridge: float, sums: Any, gains: Any) -> None:
    """Add what each cut of a leaf is worth to ``gains``, given the cells (n_codes,) of the leaf."""
    running = np.int64(0)
    for code in range(n_codes):
        running += cells[code]
        sums[code] = running
    of_slope, of_mass = units[0], units[1]
    slope, mass = np.int32(running >> HALF) * of_slope, np.int32(running & LOW_HALF) * of_mass
    for cut in range(n_codes - 1):
        left, low = np.int32(sums[cut] >> HALF) * of_slope, np.int32(sums[cut] & LOW_HALF) * of_mass
        right, high = slope - left, mass - low + ridge
        low += ridge
        gains[cut] += (left * left * high + right * right * low) / (low * high)


@compiled()
def _n_features(padded: Any) -> int:
    """Count the features of a set that is padded with -1."""
    count = 0
    for feature in padded:
        count += feature >= 0
    return count


@compiled()
def _holds(features: Any, used: Any, n_used: int) -> bool:
    """Whether a set of features, padded with -1, holds all that are used."""
    for i in range(n_used):
        is_in = False
        for feature in features:
            is_in |= feature == used[i]
        if not is_in:
            return False
    return True


@compiled(inline="always")
def _is_permitted(feature: int, used: Any, n_used: int, most: int, meetings: Any) -> bool:
    """Whether a tree that asks about the used features may ask about another one."""
    for i in range(n_used):
        if used[i] == feature:
            return True
    if n_used >= most:
        return False
    if n_used == 0:
        return True
    used[n_used] = feature  # there is room for it
    is_permitted = len(meetings.listed) == 0
    for number in range(len(meetings.listed)):
        is_permitted |= _holds(meetings.listed[number], used, n_used + 1)
    for number in range(len(meetings.forbidden)):
        together = meetings.forbidden[number]
        is_permitted &= not _holds(used[: n_used + 1], together, _n_features(together))
    return is_permitted


@compiled(inline="always")
def _sampled(permitted: Any, share: float, seed: Any) -> Any:
    """Draw a share of the places that are permitted (n,), at least one of them."""
    keys = np.full(len(permitted), np.uint64(2**64 - 1))
    n_permitted = 0
    for place in range(len(permitted)):
        if permitted[place]:
            keys[place] = scrambled(seed + np.uint64(place)) >> np.uint64(1)
            n_permitted += 1
    count = min(max(math.ceil(share * n_permitted), 1), n_permitted)
    if count == n_permitted:
        return permitted.copy()
    return keys <= keys[increasing(keys)[count - 1]]


@compiled(inline="always")
def _best_question(sums: Any, starts: Any, asked: Any, sizes: Any, units: Any, ridge: float) -> Any:
    """Return the best column among those that may be asked about, and its best cut.

    The column is -1 if no question gains anything. A leaf without rows has no sums.
    """
    best, best_column, best_cut = 0.0, -1, 0
    running, gains = np.empty(MOST_CODES, np.int64), np.empty(MOST_CODES)
    for column in range(len(asked)):
        n_codes = sizes[column]
        if not asked[column] or n_codes < 2:
            continue
        gains[:n_codes] = 0.0
        for leaf in range(len(starts) - 1):
            if starts[leaf] == starts[leaf + 1]:
                continue
            for output in range(sums.shape[2]):
                cells = sums[leaf, column, output]
                _add_gains(cells, n_codes, units[output], ridge, running, gains)
        for cut in range(n_codes - 1):
            if gains[cut] > best:
                best, best_column, best_cut = gains[cut], column, cut
    return best_column, best_cut


@compiled(inline="always")
def _random_question(permitted: Any, features: Any, sizes: Any, used: Any, seed: Any) -> Any:
    """Draw a column that is permitted, of a feature that is not used, and one of its cuts."""
    is_new = permitted & (sizes > 1)
    for column in range(len(features)):
        is_new[column] &= not _holds(used, features[column : column + 1], 1)
    if not is_new.any():
        return -1, 0
    column = int(np.argmax(_sampled(is_new, 0.0, seed)))
    cut = scrambled(seed + np.uint64(len(features))) % np.uint64(sizes[column] - 1)
    return column, np.int64(cut)


@compiled(inline="always")
def _divide(codes: Any, tree: Any, rows: Any, starts: Any, right: Any) -> None:
    """Divide the rows of all leaves, both sides in their order; ``starts`` become of children.

    ``tree`` are the columns and cuts (n_leaves,) of the leaves.
    """
    asked, cuts = tree
    n_leaves = len(asked)
    ends = starts[: n_leaves + 1].copy()
    starts[2 * n_leaves] = ends[n_leaves]
    for leaf in range(n_leaves):
        column, cut = codes[asked[leaf]], cuts[leaf]
        n_left, n_right = ends[leaf], 0
        for i in range(ends[leaf], ends[leaf + 1]):
            row = rows[i]
            if column[row] > cut:
                right[n_right] = row
                n_right += 1
            else:
                rows[n_left] = row
                n_left += 1
        for i in range(n_right):
            rows[n_left + i] = right[i]
        starts[2 * leaf], starts[2 * leaf + 1] = ends[leaf], n_left


@compiled(inline="always")
def _sum_children(
    codes: Any,
    rows: Any,
    starts: Any,
    n_leaves: int,
    packed: Any,
    some: Any,
    sums: Any,
    halves: Any,
) -> None:
    """Sum over the children of all leaves, given the sums of the leaves; ``starts`` are theirs.

    What has no rows is left as it is: nobody looks there.
    """
    for leaf in range(n_leaves):
        first, middle, last = starts[2 * leaf], starts[2 * leaf + 1], starts[2 * leaf + 2]
        if first == last:
            continue
        small, large, low, high = 2 * leaf, 2 * leaf + 1, first, middle
        if middle - first > last - middle:
            small, large, low, high = large, small, middle, last
        halves[small] = 0
        _sum_leaf(codes, rows[low:high], packed, some, halves[small])
        for place in range(len(codes)):
            for output in range(len(packed)):
                parent, one = sums[leaf, place, output], halves[small, place, output]
                other = halves[large, place, output]
                for code in range(len(parent)):
                    other[code] = parent[code] - one[code]


@compiled(inline="always")
def _newton_steps(residual: Any, hessian: Any, leaf_of: Any, rules: Any, values: Any) -> None:
    """Set the values (n_leaves, K) of the leaves; rows count with their own weights."""
    masses = np.zeros(values.shape)
    for i in range(len(residual)):
        for output in range(values.shape[1]):
            values[leaf_of[i], output] += residual[i, output]
            masses[leaf_of[i], output] += hessian[i, output]
    most = rules.largest_step
    for leaf in range(len(values)):
        for output in range(values.shape[1]):
            step = values[leaf, output] / (masses[leaf, output] + rules.ridge)
            values[leaf, output] = rules.rate * min(max(step, -most), most)


@compiled(inline="always")
def _ask_level(
    sums: Any, starts: Any, columns: Any, meetings: Any, rules: Any, seed: Any, used: Any, tree: Any
) -> bool:
    """Choose the questions of a level, and say whether there is any.

    ``columns`` are the sizes and features of all columns, and the units of their sums. ``used``
    (n_leaves, depth + 1) has the features on the way to each leaf, padded with -1. ``tree`` are the
    columns and cuts of the level, which are set.
    """
    (sizes, features, units), (asked, cuts) = columns, tree
    n_leaves, permitted, is_any = len(asked), np.empty(len(sizes), np.bool_), False
    width = n_leaves if rules.is_oblivious else 1  # leaves that share a question
    for first in range(0, n_leaves, width):
        if starts[first + width] - starts[first] < 2:
            continue
        n_used = _n_features(used[first])
        for c in range(len(sizes)):
            permitted[c] = _is_permitted(
                features[c], used[first], n_used, rules.most_features, meetings
            )
            used[first, n_used] = -1
        draw, after = scrambled(seed + np.uint64(first)), first + width
        if n_used < rules.random_levels:
            column, cut = _random_question(permitted, features, sizes, used[first, :n_used], draw)
        else:
            some = _sampled(permitted, rules.column_share, draw)
            column, cut = _best_question(
                sums[first:after], starts[first : after + 1], some, sizes, units, rules.ridge
            )
        if column < 0:
            continue
        is_any = True
        for leaf in range(first, first + width):
            asked[leaf], cuts[leaf] = column, cut
            if not _holds(used[leaf, :n_used], features[column : column + 1], 1):
                used[leaf, n_used] = features[column]
    return is_any


@compiled(inline="always")
def _handed_down(used: Any) -> Any:
    """Features on the way to the children of each leaf, given those on the way to the leaves."""
    children = np.empty((2 * len(used), used.shape[1]), used.dtype)
    for child in range(len(children)):
        for place in range(used.shape[1]):  # to assign whole rows takes a second to compile
            children[child, place] = used[child // 2, place]
    return children


@compiled()
def grow_tree(
    codes: Any,  # (n_columns, n) uint8
    sizes: Any,  # (n_columns,): codes of each column
    features: Any,  # (n_columns,): feature of each column
    meetings: Any,
    residual: Any,  # (n, K), weights included
    hessian: Any,  # (n, K)
    rules: Any,
    weights: Any,  # WEIGHTS
    seed: Any,  # uint64
    space: Any,  # (2, 2**(depth - 1), n_columns, K, widest) int64, for sums
    leaf_of: Any,  # (n,): is set to the leaf of every row
) -> Any:
    """Columns, cuts and leaf values of the next tree; it ends where no question gains anything."""
    n, n_outputs = residual.shape
    packed, units = np.empty((n_outputs, n), np.int64), np.empty((n_outputs, 2))
    for output in range(n_outputs):  # a row has the same random weight in all outputs
        _pack(residual[:, output], hessian[:, output], weights, seed, packed[output], units[output])
    sums, halves = space[0], space[1]
    rows, some, right = np.arange(n), np.empty(n, np.int64), np.empty(n, np.int64)
    sums[0] = 0
    _sum_leaf(codes, rows, packed, some, sums[0])
    starts = np.zeros((1 << rules.depth) + 1, np.int64)
    starts[1] = n
    used = np.full((1, rules.depth + 1), -1)
    asked = np.zeros((1 << rules.depth) - 1, np.int64)
    cuts, level = np.full(len(asked), MOST_CODES), 0
    while level < rules.depth:
        n_leaves = 1 << level
        here, draw = slice(n_leaves - 1, 2 * n_leaves - 1), seed + np.uint64(len(asked) * level)
        tree, columns = (asked[here], cuts[here]), (sizes, features, units)
        if not _ask_level(sums, starts, columns, meetings, rules, scrambled(draw), used, tree):
            break
        _divide(codes, tree, rows, starts, right)
        level += 1
        if level < rules.depth:
            used = _handed_down(used)
            _sum_children(codes, rows, starts, n_leaves, packed, some, sums, halves)
            sums, halves = halves, sums
    for leaf in range(1 << level):
        for i in range(starts[leaf], starts[leaf + 1]):
            leaf_of[rows[i]] = leaf
    values, n_nodes = np.zeros((1 << level, n_outputs)), (1 << level) - 1
    _newton_steps(residual, hessian, leaf_of, rules, values)
    return asked[:n_nodes], cuts[:n_nodes], values


@compiled()
def add_leaves(values: Any, leaf_of: Any, raw: Any) -> None:
    """Add the value of its leaf to the raw scores (n, K) of every row."""
    for i in range(len(leaf_of)):
        for output in range(raw.shape[1]):
            raw[i, output] += values[leaf_of[i], output]


@compiled()
def add_tree(codes: Any, columns: Any, cuts: Any, values: Any, raw: Any) -> None:
    """Add the values of a tree to the raw scores (n, K) of coded rows."""
    leaf_of = np.zeros(len(raw), np.int32)
    first = 0
    while first < len(columns):
        for i in range(len(raw)):
            node = first + leaf_of[i]
            leaf_of[i] = 2 * leaf_of[i] + (codes[columns[node], i] > cuts[node])
        first = 2 * first + 1
    add_leaves(values, leaf_of, raw)


@compiled()
def unfold(columns: Any, cuts: Any) -> Any:
    """Unfold a tree into nodes, without the questions whose answer is known on the way to them.

    Returns the node of the tree that each node was (n,), its children (n, 2), in which a negative
    number m stands for leaf -1 - m of the result, and the leaf of the tree that each leaf was.
    """
    n_whole = len(columns)
    nodes, children = np.empty(n_whole, np.int32), np.empty((n_whole, 2), np.int32)
    leaves, n_leaves, n_nodes = np.empty(n_whole + 1, np.int32), 0, 0
    # Each entry waits to become a node or a leaf: its node in the tree, its parent and its side.
    waiting = np.empty((2 * n_whole + 2, 3), np.int64)
    waiting[0, 0], waiting[0, 1], waiting[0, 2] = 0, -1, 0
    first, last = 0, 1
    while first < last:
        node, parent, side = waiting[first, 0], waiting[first, 1], waiting[first, 2]
        first += 1
        while node < n_whole:
            answer = 0 if cuts[node] >= MOST_CODES else -1
            below = node
            while below > 0:
                above, bit = (below - 1) // 2, (below - 1) % 2
                if columns[above] == columns[node]:
                    if bit == 1 and cuts[node] <= cuts[above]:
                        answer = 1
                    elif bit == 0 and cuts[node] >= cuts[above]:
                        answer = 0
                below = above
            if answer < 0:
                break
            node = 2 * node + 1 + answer
        if node >= n_whole:
            leaves[n_leaves] = node - n_whole
            n_leaves += 1
            here = -n_leaves
        else:
            here = n_nodes
            nodes[here] = node
            n_nodes += 1
            for answer in range(2):
                waiting[last, 0], waiting[last, 1] = 2 * node + 1 + answer, here
                waiting[last, 2] = answer
                last += 1
        if parent >= 0:
            children[parent, side] = here
    return nodes[:n_nodes], children[:n_nodes], leaves[:n_leaves]


def meetings_of(rules: InteractionRules) -> Meetings:
    """Turn rules into arrays. Features that are required together may meet outside the groups."""
    listed = (*rules.groups, *rules.required) if rules.groups else ()
    return Meetings(_padded(listed), _padded(rules.forbidden))


ANY_MEETINGS = Meetings(np.empty((0, 1), np.int64), np.empty((0, 1), np.int64))


def meetings_within(components: Sequence[Component]) -> Meetings:
    """Say that all features of a tree are in one of some components."""
    return Meetings(_padded(components), _padded(()))


def _padded(sets: Sequence[Component]) -> NDArray[np.int64]:
    padded = np.full((len(sets), max(map(len, sets), default=1)), -1)
    for row, features in zip(padded, sets, strict=True):
        row[: len(features)] = features
    return padded
