"""Compiled loops over trees and their leaves: scores, components, Shapley values."""

from __future__ import annotations

from typing import Any

import numpy as np

from tpnn._utils.compile import compiled


@compiled()
def add_scores(
    answers: Any, roots: Any, questions: Any, children: Any, values: Any, scores: Any
) -> None:
    """Add the values of all trees to scores (n_rows, K), given answers (n_questions, n_rows)."""
    for root in roots:
        for row in range(len(scores)):
            place = root
            while place >= 0:
                place = children[place, np.intp(answers[questions[place], row])]
            for output in range(scores.shape[1]):
                scores[row, output] += values[-1 - place, output]


@compiled()
def _product_of_others(shares: Any, slots: Any, n_slots: int, chosen: Any, n_chosen: int) -> float:
    """Product of the shares of all slots of a leaf but the chosen ones."""
    product = 1.0
    for slot in range(n_slots):
        is_other = True
        for i in range(n_chosen):
            is_other &= chosen[i] != slot
        if is_other:
            product *= shares[slots[slot]]
    return product


@compiled()
def _find(keys: Any, key: int) -> int:
    """Position of a key among sorted ones, or -1."""
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low if low < len(keys) and keys[low] == key else -1


@compiled()
def _add_box(value: Any, factor: float, order: int, corners: Any, strides: Any, cells: Any) -> None:
    """Add a value (K,) to a box of a grid: to its corners (order, 2) in a grid of differences."""
    for corner in range(1 << order):
        cell, sign = 0, factor
        for axis in range(order):
            side = (corner >> axis) & 1
            cell += corners[axis, side] * strides[axis]
            sign = -sign if side else sign
        for output in range(len(value)):
            cells[cell, output] += sign * value[output]


@compiled(inline="always")
def _add_runs(
    value: Any, factor: float, order: int, one: int, two: int, three: int, run_starts: Any,
    nodes: Any, strides: Any, corners: Any, cells: Any,
) -> None:  # fmt: skip
    """Add a value (K,) to the product of up to three intervals, each a union of runs of nodes."""
    for a in range(run_starts[one], run_starts[one + 1]):
        corners[0, 0], corners[0, 1] = nodes[a, 0], nodes[a, 1]
        if order == 1:
            _add_box(value, factor, order, corners, strides, cells)
            continue
        for b in range(run_starts[two], run_starts[two + 1]):
            corners[1, 0], corners[1, 1] = nodes[b, 0], nodes[b, 1]
            if order == 2:
                _add_box(value, factor, order, corners, strides, cells)
                continue
            for c in range(run_starts[three], run_starts[three + 1]):
                corners[2, 0], corners[2, 1] = nodes[c, 0], nodes[c, 1]
                _add_box(value, factor, order, corners, strides, cells)


@compiled()
def add_components(
    leaf_starts: Any,  # (n_leaves + 1,): slots of each leaf
    slots: Any,  # (n_slots,): interval of each slot; features of a leaf increase
    values: Any,  # (n_leaves, K)
    features: Any,  # (n_intervals,)
    shares: Any,  # (n_intervals,)
    run_starts: Any,  # (n_intervals + 1,)
    nodes: Any,  # (orders, n_runs, 2): first node of each run, and first node after it
    base: int,  # number of features + 1, of the keys
    keys: Any,  # (C,): sorted keys of the components
    offsets: Any,  # (C,): first cell of each component
    strides: Any,  # (C, 3)
    cells: Any,  # (n_cells, K): grids of differences, to which all is added
    constant: Any,  # (K,)
) -> None:
    """Add every leaf to the components that its features contain, and to the constant."""
    chosen, corners = np.zeros(3, np.int64), np.zeros((3, 2), np.int64)
    for leaf in range(len(values)):
        some = slots[leaf_starts[leaf] : leaf_starts[leaf + 1]]
        n = len(some)
        factor = _product_of_others(shares, some, n, chosen, 0)
        for output in range(len(constant)):
            constant[output] += values[leaf, output] * factor
        for a in range(n):
            for b in range(a, n if len(nodes) > 1 else a + 1):
                for c in range(b, n if len(nodes) > 2 and b > a else b + 1):
                    # (a, a, a) is a main effect, (a, b, b) a pair, (a, b, c) a triple
                    chosen[0], chosen[1], chosen[2] = a, b, c
                    order, key = 1 + (b > a) + (c > b), 0
                    for i in range(order):
                        key = key * base + features[some[chosen[i]]] + 1
                    place = _find(keys, key)
                    if place >= 0:
                        factor = _product_of_others(shares, some, n, chosen, order)
                        _add_runs(
                            values[leaf], factor, order, some[a], some[b], some[c], run_starts,
                            nodes[order - 1], strides[place], corners, cells[offsets[place] :],
                        )  # fmt: skip


@compiled()
def add_shapley(
    leaf_starts: Any, slots: Any, values: Any, features: Any, shares: Any, excess: Any, points: Any,
    weights: Any, phi: Any,
) -> None:  # fmt: skip
    """Add the Shapley values of all leaves to phi (p, K), given e of each interval in the row.

    With e = 1 or 0 less the share p, feature i gets the integral over t from 0 to 1 of
    e_i prod_(j != i) (p_j + t e_j), a polynomial that the points and weights integrate exactly.
    """
    before, product = np.empty(len(shares)), np.empty(len(shares))
    for leaf in range(len(values)):
        own = slots[leaf_starts[leaf] : leaf_starts[leaf + 1]]
        product[: len(own)] = 0.0
        for k in range(len(points)):
            others = weights[k]
            for slot in range(len(own)):
                before[slot] = others
                others *= shares[own[slot]] + points[k] * excess[own[slot]]
            others = 1.0
            for slot in range(len(own) - 1, -1, -1):
                product[slot] += before[slot] * others
                others *= shares[own[slot]] + points[k] * excess[own[slot]]
        for slot in range(len(own)):
            for output in range(phi.shape[1]):
                amount = excess[own[slot]] * product[slot] * values[leaf, output]
                phi[features[own[slot]], output] += amount


@compiled()
def add_interactions(
    leaf_starts: Any, slots: Any, values: Any, features: Any, shares: Any, excess: Any, points: Any,
    weights: Any, found: Any,
) -> None:  # fmt: skip
    """Add half of the interaction index of every pair (i, j) to found[i, j] and found[j, i].

    The index is the integral over t of e_i e_j prod_(k != i, j) (p_k + t e_k); found is (p, p, K).
    """
    for leaf in range(len(values)):
        own = slots[leaf_starts[leaf] : leaf_starts[leaf + 1]]
        for a in range(len(own)):
            for b in range(a):
                integral = 0.0
                for k in range(len(points)):
                    others = weights[k]
                    for slot in range(len(own)):
                        if slot not in (a, b):
                            others *= shares[own[slot]] + points[k] * excess[own[slot]]
                    integral += others
                half = 0.5 * excess[own[a]] * excess[own[b]] * integral
                one, other = features[own[a]], features[own[b]]
                for output in range(found.shape[2]):
                    found[one, other, output] += half * values[leaf, output]
                    found[other, one, output] += half * values[leaf, output]
