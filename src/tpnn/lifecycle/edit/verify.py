"""Verify: whether the records of a log say what was done to the models that it keeps.

The hashes of a log show that it is one chain, which anybody can compute anew. Here every edit is
made again from the model before it, and must lead to the model after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.lifecycle.edit.edit import changes, outcome
from tpnn.model.edit_log import Record, first_break
from tpnn.model.model import AnovaModel

TOLERANCE = 1e-9  # of the largest value of a model; sums round differently on other processors


def first_fault(model: AnovaModel) -> str | None:
    """Say where the log of a model was tampered with, also within records; None if it is whole."""
    fault = first_break(model)
    if fault is not None or model.edits is None:
        return fault
    states = [*model.edits.formers, model]
    records = model.edits.records[len(model.edits.records) - len(model.edits.formers) :]
    for record, (before, after) in zip(records, pairwise(states), strict=True):
        if not _is_outcome(before, after, record):
            return (
                f"record {record['number']} says something else than what was done to the model "
                f"(tpnn {record['version']} wrote it)"
            )
    return None


def _is_outcome(before: AnovaModel, after: AnovaModel, record: Record) -> bool:
    """Whether an edit makes one model of another, and changed what its record says."""
    try:
        again, _ = outcome(before, record["edit"])
    except (KeyError, TypeError, ValueError):  # nobody could make this edit
        return False
    told, made = record["changed"], changes(before, after)
    names = [key for key in made if key not in ("intercept", "components")]
    return (
        _have_same_nodes(again, after)
        and _are_close(_values(again), _values(after))
        and all(told.get(name) == made[name] for name in names)
        and _are_close(_sizes(told), _sizes(made))
    )


def _have_same_nodes(one: AnovaModel, other: AnovaModel) -> bool:
    """Whether the features that both models depend on have the same nodes and masses."""
    places = [
        (one.feature_names.index(name), other.feature_names.index(name))
        for name in set(one.required_features) & set(other.required_features)
    ]
    pairs = [
        (axes[mine], other.encoder.axes[order][its])
        for order, axes in one.encoder.axes.items()
        for mine, its in places
    ]
    return all(
        np.array_equal(mine.values, its.values) and np.allclose(mine.weights, its.weights)
        for mine, its in pairs
    )


def _values(model: AnovaModel) -> dict[Any, FloatArray]:
    """Values that predictions are sums of, by names."""
    values = dict(zip(model.component_names, model.tables, strict=True))
    remainder = model.remainder
    kept = [] if remainder is None else [*remainder.tables, remainder.trees.values]
    return {"intercept": model.intercepts, **values, **dict(enumerate(kept))}


def _sizes(changed: Mapping[str, Any]) -> dict[Any, FloatArray]:
    """Numbers of what an edit changed, by names."""
    sizes = {tuple(names): np.array(size) for names, size in changed["components"]}
    return {"intercept": np.array(changed["intercept"]), **sizes}


def _are_close(one: Mapping[Any, FloatArray], other: Mapping[Any, FloatArray]) -> bool:
    """Whether arrays are the same but for rounding; one that is missing is all zeros."""
    both = {**one, **other}
    scale = max((np.abs(array).max(initial=0.0) for array in both.values()), default=0.0)
    return all(
        np.shape(one.get(name, array)) == array.shape
        and np.allclose(one.get(name, 0.0), other.get(name, 0.0), rtol=0, atol=TOLERANCE * scale)
        for name, array in both.items()
    )
