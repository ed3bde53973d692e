"""Graph: operators of ONNX and the constants that they read, as they are being written.

Only operators are used whose meaning has not changed since version 12 of the operator set, so that
a graph can be part of a larger one of any later version.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

ML_DOMAIN = "ai.onnx.ml"
OPERATOR_SETS = {"": 12, ML_DOMAIN: 2}  # the lowest in which the graph is valid
FLOAT, DOUBLE = 1, 11  # codes of types in ONNX

Value = str | NDArray[Any]  # name of a value, or a constant


class Node(NamedTuple):
    """An operator with its inputs, outputs and attributes."""

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    domain: str = ""


class Graph:
    """Operators and constants that are being written; names in ``taken`` are not used."""

    def __init__(self, taken: Collection[str] = (), prefix: str = "tpnn") -> None:
        self.nodes: list[Node] = []  # in the order in which they run
        self.constants: dict[str, NDArray[Any]] = {}  # by name
        while any(name.startswith(prefix) for name in taken):
            prefix += "_"
        self._new_names = (f"{prefix}_{number}" for number in count())

    def add(self, operator: str, *inputs: Value, output: str = "", **attributes: Any) -> str:
        """Apply an operator with one output; return the name of its result."""
        name = output or next(self._new_names)
        self.nodes.append(Node(operator, self._names(inputs), (name,), attributes))
        return name

    def add_sorted(self, values: str, n_columns: int) -> str:
        """Sort the numbers of each row of (n_rows, n_columns)."""
        inputs = self._names([values, np.array([n_columns])])
        name = next(self._new_names)
        outputs = (name, f"{name}_places")
        self.nodes.append(Node("TopK", inputs, outputs, {"largest": 0, "axis": 1}))
        return name

    def add_codes(self, texts: str, codes: dict[str, int], default: int) -> str:
        """Code of each text."""
        name = next(self._new_names)
        attributes = {
            "keys_strings": list(codes), "values_int64s": list(codes.values()),
            "default_int64": default,
        }  # fmt: skip
        self.nodes.append(Node("LabelEncoder", (texts,), (name,), attributes, ML_DOMAIN))
        return name

    def add_picked(self, values: str, positions: str, shape: Sequence[int]) -> str:
        """Pick columns of values (n, n_values) by positions; the result has this shape.

        ``ArrayFeatureExtractor`` is about twenty times as fast as ``Gather`` in onnxruntime.
        """
        flat = self.add("Reshape", positions, np.array([-1]))
        name = next(self._new_names)
        self.nodes.append(Node("ArrayFeatureExtractor", (values, flat), (name,), {}, ML_DOMAIN))
        return self.add("Reshape", name, np.array(shape))

    def add_last_below(self, x: str, axes: Sequence[NDArray[Any]]) -> tuple[str, NDArray[Any]]:
        """Search the last number at or below x in sorted axes by halving, for all axes at once.

        ``x`` is (n_axes, n_rows). Returns its positions in the joined axes, (n_axes, n_rows), and
        the position of the first number of each axis, (n_axes, 1). A number below its whole axis
        gets this first position.
        """
        sizes = np.array([len(axis) for axis in axes])[:, None]
        first = np.cumsum(sizes, axis=0) - sizes
        numbers = self.constant(np.concatenate(axes)[None])
        position: Value = first
        n_halvings = max(int(sizes.max() - 1).bit_length(), 1)
        for step in 2 ** np.arange(n_halvings)[::-1]:
            next_one = self.add("Min", self.add("Add", position, step), first + sizes - 1)
            is_below = self.add("Less", x, self.add_picked(numbers, next_one, [len(axes), -1]))
            position = self.add("Where", is_below, position, next_one)
        assert isinstance(position, str)
        return position, first

    def _names(self, values: Sequence[Value]) -> tuple[str, ...]:
        return tuple(x if isinstance(x, str) else self.constant(x) for x in values)

    def constant(self, values: NDArray[Any]) -> str:
        """Name of a new constant."""
        name = next(self._new_names)
        self.constants[name] = np.asarray(values)
        return name
