"""A model as one document: dicts and lists of plain values and arrays, without NaN.

The document has the fields of the records that a model consists of, by their names, so a new field
of a record needs no line here. ``tpnn.model.archive`` stores a document, as a zip file or as JSON;
``tpnn.model.check`` checks the model that is read from it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import BoolArray, Float32Array, FloatArray, Int32Array
from tpnn.anova.components import ComponentSet
from tpnn.loss.links import LINKS, Link
from tpnn.table.axis import Axis

LATER = {"came": "later"}  # metadata of fields that older files lack; None is left out
Document = dict[str, Any]
LevelNodes = NDArray[np.uint16]
ARRAYS: dict[Any, type[np.generic]] = {
    FloatArray: np.float64,
    Float32Array: np.float32,
    LevelNodes: np.uint16,
    Int32Array: np.int32,
    BoolArray: np.bool_,
}


STORED_AXIS: dict[str, tuple[str, Any]] = {  # by name in a document, field of an axis and its type
    "kind": ("kind", str),
    "values": ("values", FloatArray),  # of regular nodes: that of missing values has none
    "masses": ("weights", FloatArray),
    "labels": ("levels", tuple[Any, ...] | None),
    "level_nodes": ("groups", LevelNodes | None),
    "has_missing": ("has_missing", bool),
    "has_unseen": ("has_unseen", bool),
}


def encode(value: Any) -> Any:
    """Return the document of a model, or of any record in it; arrays are not copied."""
    if isinstance(value, Link):
        return value.name
    if isinstance(value, ComponentSet):
        return encode(value.components)
    if isinstance(value, Axis):
        stored = {name: getattr(value, own) for name, (own, _) in STORED_AXIS.items()}
        nodes = value.groups if value.groups is None else value.groups.astype(np.uint16)
        value = stored | {"level_nodes": nodes}
    if is_dataclass(value):
        named = [(field, getattr(value, field.name)) for field in fields(value)]
        present = [(f, one) for f, one in named if one is not None or f.metadata != LATER]
        return {field.name: encode(one) for field, one in present}
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def decode(kind: Any, value: Any) -> Any:
    """Make what ``encode`` was given again, of a type such as ``AnovaModel``.

    A field that is missing or of another type is an error, and one that is not known is ignored.
    """
    if kind is Any:
        json.dumps(value)  # raises TypeError for an array, which has no place there
        return value
    if kind is Link:
        return LINKS[value]
    if kind is ComponentSet:
        return ComponentSet(decode(tuple[tuple[int, ...], ...], value))
    if kind is Axis:
        stored = _plain(dict, value)
        parts = {own: decode(hint, stored[name]) for name, (own, hint) in STORED_AXIS.items()}
        nodes = parts["groups"]
        return Axis(**parts | {"groups": None if nodes is None else nodes.astype(np.intp)})
    if kind in ARRAYS:
        return _array(ARRAYS[kind], value)
    if kind in (str, int, float, bool):
        return _plain(kind, value)
    return _nested(kind, value)


def _nested(kind: Any, value: Any) -> Any:
    """Decode what consists of parts: an optional value, a tuple, a dict or a record."""
    arguments = get_args(kind)
    if get_origin(kind) in (Union, UnionType):
        if value is None and NoneType in arguments:
            return None
        one, *others = (argument for argument in arguments if argument is not NoneType)
        return value if others and isinstance(value, (one, *others)) else decode(one, value)
    if get_origin(kind) is tuple:
        return tuple(decode(arguments[0], item) for item in _plain(list, value))
    if get_origin(kind) in (dict, Mapping):
        of_key, of_item = arguments
        return {of_key(key): decode(of_item, item) for key, item in _plain(dict, value).items()}
    optional = {n: None for n, d in getattr(kind, "_field_defaults", {}).items() if d is None}
    if is_dataclass(kind):
        optional = {field.name: None for field in fields(kind) if field.metadata == LATER}
    stored = optional | _plain(dict, value)  # older files lack the parts that came later
    return kind(**{name: decode(hint, stored[name]) for name, hint in _hints(kind).items()})


@lru_cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _plain(kind: type, value: Any) -> Any:
    """Return a value of a type of JSON; a number that is not known is null there."""
    if kind is float and (value is None or type(value) is int):
        return math.nan if value is None else float(value)
    if type(value) is not kind:
        raise TypeError(f"a value of type {kind.__name__} is needed, found {value!r:.50}")
    return value


def _array(dtype: type[np.generic], value: Any) -> NDArray[Any]:
    """Return an array, which is nested lists in JSON; no text is taken for a number."""
    if isinstance(value, np.ndarray):
        if value.dtype != dtype:
            raise TypeError(f"an array of {dtype.__name__} is needed, found {value.dtype}")
        return value
    if isinstance(value, dict):
        shape = decode(tuple[int, ...], value["shape"])
        if math.prod(shape) != 0:
            raise ValueError("only an array without numbers can have a shape alone")
        return np.empty(shape, dtype)
    array, kind = np.array(value), np.dtype(dtype).kind
    if array.size and array.dtype.kind not in {"f": "iuf", "b": "b"}.get(kind, "iu"):
        raise TypeError(f"numbers of type {dtype.__name__} are needed, found {array.dtype}")
    with np.errstate(over="ignore"):  # what is not finite is refused by the check
        numbers = array.astype(dtype)
    if kind in "iu" and not np.array_equal(numbers, array):
        raise ValueError(f"numbers of nodes must be below {1 << (16 if kind == 'u' else 31)}")
    return numbers


Label = str | int | float


def storable_labels(labels: Any) -> list[Label]:
    """Labels as str, int, float or bool, which a saved model can hold.

    >>> storable_labels(np.array([True, False])), storable_labels(np.array(["a"]))
    ([True, False], ['a'])
    """
    values = np.asarray(labels).tolist()
    return [value if isinstance(value, str | int | float) else str(value) for value in values]
