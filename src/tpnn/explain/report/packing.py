"""Packing: the arrays and trees of a model as short strings that a page can decode.

Tables are rounded to whole multiples of a step, which is so small that the sum of all components is
off by at most ``MAX_ERROR`` standard deviations of the raw score. Neighbouring cells have similar
values, so their differences along all axes are stored: small whole numbers, with their bytes sorted
by significance, compress well and are decoded exactly.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.anova.trees import Trees
from tpnn.explain.explanation import Explanation
from tpnn.model.remainder import remainder_name

MAX_ERROR = 5e-6  # of a raw score, in its standard deviations
LARGEST_UNIT = 2**30  # a difference of two such whole numbers still fits into 32 bits


class Packed(NamedTuple):
    """Arrays as text: float64 and float32 values, then the bytes of the tables' differences."""

    text: str  # base64 of the deflated bytes
    step: float  # value of one unit of a table
    n_doubles: int
    n_floats: int
    n_cells: int


def pack(
    doubles: Sequence[FloatArray],
    floats: Sequence[FloatArray],
    tables: Sequence[FloatArray],  # (M_1, ..., M_d) each
    deviation: float,  # standard deviation of the raw score
    bands: Sequence[FloatArray] = (),  # half widths
    numbers: Sequence[NDArray[Any]] = (),  # whole numbers, of any shape
    n_summed: int | None = None,  # values of tables in one raw score; by default one of each
) -> Packed:
    """Pack values in double and in single precision, bands and tables, then whole numbers.

    Bands follow the floats, in units of the step: so they are in the range of single precision,
    whatever the unit of the target is.
    """
    n_summed = max(len(tables) if n_summed is None else n_summed, 1)
    largest = max((float(np.abs(table).max()) for table in tables), default=0.0)
    step = max(2 * MAX_ERROR * deviation / n_summed, largest / LARGEST_UNIT) or 1.0
    units = [np.rint(table / step).astype(np.int64) for table in tables]
    units.extend(each.astype(np.int64) for each in numbers)
    signed = _joined([mixed_difference(table) for table in units]).astype(np.int64)
    zigzag = ((signed << 1) ^ (signed >> 63)).astype("<u4")  # small where the difference is small
    planes = np.ascontiguousarray(zigzag.view(np.uint8).reshape(-1, 4).T)
    singles = _joined([*floats, *(width / step for width in bands)])
    arrays = [_joined(doubles).astype("<f8"), singles.astype("<f4"), planes]
    data = b"".join(array.tobytes() for array in arrays)
    text = base64.b64encode(zlib.compress(data, 9)).decode()
    return Packed(text, step, arrays[0].size, arrays[1].size, len(zigzag))


def mixed_difference(table: NDArray[np.int64]) -> NDArray[np.int64]:
    """Difference along every axis, modulo 2^32; running sums along every axis undo it.

    >>> mixed_difference(np.array([[1, 2], [3, 5]]))
    array([[1, 1], [2, 1]])
    """
    for axis in range(table.ndim):
        table = np.diff(table, axis=axis, prepend=0)
    return (table + 2**31) % 2**32 - 2**31


def _joined(arrays: Sequence[NDArray[np.int64] | FloatArray]) -> NDArray[np.float64 | np.int64]:
    return np.concatenate([np.empty(0), *(np.ravel(array) for array in arrays)])


LARGEST_PACKED = 20_000_000  # letters of packed trees; a page of more takes long to load


def summarise_remainder(
    explanation: Explanation, shown: IntArray, deviation: float
) -> dict[str, Any] | None:
    """Collect all that the page shows of the remainder, None if the model has none.

    Trees that are too large for a page are left out: then it has the remainder of the shown rows
    instead. ``deviation`` is the share of the raw score's that the trees may be off by.
    """
    model, remainder = explanation.model, explanation.model.remainder
    if remainder is None:
        return None
    name = remainder_name(model.feature_names)
    share = explanation.sobol()[name]
    grown = share / remainder.share if remainder.share else 0.0  # since the fit, by edits
    trees = packed_trees(remainder.trees, deviation)
    fits, recorded = len(trees["packed"]["text"]) <= LARGEST_PACKED, list[list[float]]()
    if not fits and len(shown):  # the remainder of the rows shown, for every output
        rests = explanation.remainder[shown].reshape(-1, len(model.intercepts))
        recorded = rests.tolist()
    return {
        "name": name[0],
        "importance": explanation.importance(normalise=True)[name],
        "share": share,
        "sentence": remainder.sentence,
        "sets": [[list(each.features), grown * each.share] for each in remainder.largest],
        "held": [list(component) for component in remainder.components],
        "constants": remainder.constants.tolist(),
        "trees": trees if fits else None,
        "recorded": recorded,
    }


def packed_trees(trees: Trees, deviation: float) -> dict[str, Any]:
    """Pack trees; on any row their sum is off by at most ``MAX_ERROR`` deviations.

    Whole numbers follow the values of the leaves: what is asked about, which codes go right, roots,
    questions and children of nodes, and codes of levels.
    """
    features = [(j, trees.features[j]) for j in trees.used]
    groups = [feature.groups for _, feature in features if feature.groups is not None]
    numbers = [trees.asked, trees.right, trees.roots, trees.questions, trees.children.ravel()]
    values: list[FloatArray] = list(np.ascontiguousarray(trees.values.T))
    return {
        "features": [
            {
                "feature": j,
                "codes": feature.n_codes,
                "ends": len(feature.ends),
                "levels": None if feature.groups is None else len(feature.groups),
            }
            for j, feature in features
        ],
        "sizes": [len(trees.values), *map(len, numbers)],
        "packed": pack(
            [feature.ends for _, feature in features], [], values, deviation,
            numbers=[*numbers, *groups], n_summed=len(trees.roots),
        )._asdict(),
    }  # fmt: skip
