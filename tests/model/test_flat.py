"""Flat tables: padding with null nodes changes no value, and interpolation is multilinear."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tpnn.model.flat import FlatTable, flatten_table, flatten_tables, stack_tables

SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)
TABLES = SHAPES.flatmap(lambda shape: arrays(np.float64, shape, elements=st.floats(-9, 9)))


def interpolate(tables: list[FlatTable], nodes: list[int], fractions: list[float]) -> np.ndarray:
    """Values of tables of the same features at one place."""
    order = len(tables[0].component)
    stack = stack_tables(tables, 0, {(order, axis): axis for axis in range(order)})
    place = np.array(nodes)[:, None], np.array(fractions)[:, None]
    return stack.values(slice(None), *place)[:, 0]


@settings(max_examples=60, deadline=None)
@given(table=TABLES)
def test_cells_are_the_table_and_zero_on_the_null_nodes(table: np.ndarray) -> None:
    [flat] = flatten_table(tuple(range(table.ndim)), table[..., None])
    for node in np.ndindex(*(size + 1 for size in table.shape)):
        cell = sum(n * stride for n, stride in zip(node, flat.strides, strict=True))
        inside = all(n < size for n, size in zip(node, table.shape, strict=True))
        assert flat.cells[cell] == (table[node] if inside else 0.0)


@settings(max_examples=60, deadline=None)
@given(table=TABLES, data=st.data())
def test_interpolation_is_the_mean_of_the_corners(table: np.ndarray, data: st.DataObject) -> None:
    """By its definition: a product of weights for each corner of the cell."""
    nodes = [data.draw(st.integers(0, size - 1)) for size in table.shape]
    fractions = [
        0.0 if node == size - 1 else data.draw(st.floats(0, 1, exclude_max=True))
        for node, size in zip(nodes, table.shape, strict=True)
    ]
    padded = np.pad(table, [(0, 1)] * table.ndim)
    expected = sum(
        padded[tuple(np.add(nodes, corner))]
        * np.prod([f if up else 1 - f for f, up in zip(fractions, corner, strict=True)])
        for corner in product((0, 1), repeat=table.ndim)
    )
    [flat] = flatten_table(tuple(range(table.ndim)), table[..., None])
    [twice] = flatten_table(flat.component, 2 * table[..., None])
    found = interpolate([flat, twice], nodes, fractions)
    assert found == pytest.approx([expected, 2 * expected], abs=1e-12)


def test_the_last_null_node_can_be_read_with_its_neighbours() -> None:
    """Values that fit has not seen, in all features at once: zero, and nothing out of range."""
    for shape in [(3,), (2, 3), (2, 1, 3)]:
        [flat] = flatten_table(tuple(range(len(shape))), np.ones((*shape, 1)))
        assert interpolate([flat], list(shape), [0.0] * len(shape)).tolist() == [0.0]


def test_outputs_of_a_component_follow_one_another() -> None:
    rng = np.random.default_rng(0)
    tables = {(0,): rng.normal(size=(3, 2)), (0, 1): rng.normal(size=(3, 4, 2))}
    flat = flatten_tables(tables)
    assert [table.component for table in flat] == [(0,), (0,), (0, 1), (0, 1)]
    for place, (component, table) in enumerate(tables.items()):
        for output in range(2):
            [alone] = flatten_table(component, np.ascontiguousarray(table[..., [output]]))
            assert np.array_equal(flat[2 * place + output].cells, alone.cells)
