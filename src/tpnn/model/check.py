"""Integrity of a model that was read from a file: every field is checked before it is used.

A checksum tells whether a file was changed by accident. These checks tell whether it makes sense:
compiled loops read tables without looking at bounds, so a node that is out of range must never get
that far.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.anova.shapes import SHAPES
from tpnn.model.codec import Fields
from tpnn.table.axis import Axis
from tpnn.table.encoder import Feature, TableEncoder
from tpnn.table.table import DATE, DURATION, NOMINAL, NUMBER, ORDERED

KINDS = (NUMBER, DATE, DURATION, ORDERED, NOMINAL)
LINKS_OF_SEVERAL_OUTPUTS = ("softmax", "quantiles")
MASS_TOLERANCE = 1e-6  # of the masses of a feature, which sum to one
MOST_NODES = 65_536
LONGEST_TIME = 2.0**63 / 1e6  # seconds from 1970, or of a duration: 64 bits of microseconds


def check_fields(fields: Fields) -> None:
    """Raise ValueError for the first field of a model that cannot be right."""
    _check_encoder(fields["encoder"])
    _check_components(fields)
    _check_outputs(fields)
    numbers = [*fields["tables"], *fields["spreads"], fields["intercepts"]]
    for terms in fields["stored_terms"] or ():
        shape = (len(terms.features), len(terms.beta))
        fits = terms.b.shape == terms.gamma.shape == shape and terms.beta.ndim == 1
        _require(fits, "terms must have their features")
        numbers += [terms.b, terms.gamma, terms.beta]
    _require(all(map(_is_finite, numbers)), "tables, spreads, intercept and terms must be finite")
    _require(all((s >= 0).all() for s in fields["spreads"]), "spreads must not be negative")
    _check_offset_column(fields)
    _check_baseline(fields)
    _check_provenance(fields)
    _check_posteriors(fields)
    if fields["facts"] is not None:
        broken = fields["facts"].first_broken_rule(len(fields["components"]))
        _require(broken is None, f"facts: {broken}")
    _check_calibration(fields)


def _require(holds: bool, rule: str) -> None:
    if not holds:
        raise ValueError(rule)


def _is_finite(array: FloatArray) -> bool:
    return array.dtype == np.float64 and bool(np.isfinite(array).all())


def _are_labels(values: Iterable[Any]) -> bool:
    """Whether values are text or numbers; NaN stands for a missing value, never for a label."""
    return all(isinstance(value, str | int | float) and value == value for value in values)


def _check_encoder(encoder: TableEncoder) -> None:
    n_features = encoder.n_features
    _require(n_features > 0, "there must be a feature")
    for names, size in ((encoder.names, n_features), (encoder.labels, encoder.n_columns)):
        texts = all(isinstance(name, str) for name in names or ())
        named = names is None or len(names) == size
        _require(texts and named, "every feature must have a name")
        _require(len(set(names or ())) == len(names or ()), "names of features must differ")
    if encoder.kept is not None:
        places, count = encoder.kept
        whole = all(type(number) is int for number in (*places, count))
        _require(whole and len(places) == n_features, "every feature must have a position")
        rising = list(places) == sorted(set(places)) and places[0] >= 0 and places[-1] < count
        _require(rising, "positions of features must be those of columns")
    orders = list(encoder.axes)
    _require(orders == list(range(1, len(orders) + 1)), "orders must count up from 1")
    for axes in encoder.axes.values():
        _require(len(axes) == n_features, "every feature must have nodes at every order")
        for axis, feature in zip(axes, encoder.features, strict=True):
            _check_axis(axis, feature)


def _check_axis(axis: Axis, feature: Feature) -> None:
    _require(
        feature.kind in KINDS and _are_labels(feature.levels), "kinds and levels must be known"
    )
    flags = (axis.has_missing, axis.has_unseen, feature.are_text)
    _require(all(isinstance(flag, bool) for flag in flags), "flags must be true or false")
    _require(1 <= axis.n_nodes <= MOST_NODES, f"a feature must have 1 to {MOST_NODES} nodes")
    rows = (axis.values, axis.values if axis.groups is None else axis.groups)
    _require(all(row.ndim == 1 for row in rows), "nodes must be in a row")
    nodes, masses = axis.values[: axis.n_regular], axis.weights
    increasing = _is_finite(nodes) and bool((np.diff(nodes) > 0).all())
    _require(increasing, "nodes must be finite and increasing")
    is_time = feature.kind in (DATE, DURATION)
    _require(not is_time or bool((abs(nodes) < LONGEST_TIME).all()), "nodes must be dates")
    _require(not axis.has_missing or bool(np.isnan(axis.values[-1])), "missing values come last")
    shared = _is_finite(masses) and (masses >= 0).all() and abs(masses.sum() - 1) < MASS_TOLERANCE
    _require(bool(shared), "masses must not be negative and sum to one")
    _require(masses.shape == axis.values.shape, "every node must have a mass")
    _check_levels(axis, feature)


def _check_levels(axis: Axis, feature: Feature) -> None:
    levels, n_regular = feature.levels, axis.n_regular
    _require(axis.groups is not None or not axis.has_unseen, "only levels can be unseen")
    texts = all(isinstance(level, str) for level in levels)
    _require(texts or not feature.are_text, "levels that are text must be strings")
    if feature.kind not in (NOMINAL, ORDERED):
        without = not levels and axis.levels is None and axis.groups is None
        _require(without, f"a {feature.kind} must have no levels")
        return
    labels = axis.levels or ()
    _require(len(levels) > 0 and axis.levels is not None, "levels must have labels")
    labelled = len(labels) == n_regular and _are_labels(labels)
    _require(labelled, "every node of a level must have a label")
    _require(axis.groups is not None or feature.kind == ORDERED, "levels must have nodes")
    if axis.groups is None:
        numbers = axis.values[:n_regular]
        inside = (numbers >= 0) & (numbers < len(levels)) & (numbers == np.floor(numbers))
        _require(bool(inside.all()), "nodes must be levels")
    else:
        inside = (axis.groups >= 0) & (axis.groups < n_regular - axis.has_unseen)
        all_inside = len(inside) == len(levels) and bool(inside.all())
        _require(all_inside, "levels must have nodes")


def _check_components(fields: Fields) -> None:
    encoder, tables = fields["encoder"], fields["tables"]
    for component in fields["components"]:
        whole = all(
            type(feature) is int and 0 <= feature < encoder.n_features for feature in component
        )
        distinct = len(set(component)) == len(component)
        _require(
            whole and distinct and len(component) in encoder.axes, "components must be features"
        )
    _require(len(tables) == len(fields["components"]), "every component must have a table")
    for component, table, spread in zip(
        fields["components"], tables, fields["spreads"], strict=True
    ):
        nodes = [encoder.axes[len(component)][feature].n_nodes for feature in component]
        shape = (*nodes, len(fields["intercepts"]))
        _require(table.shape == spread.shape == shape, "tables must have the shape of their nodes")
    known = set(encoder.feature_names)
    shapes = fields["shapes"]
    valid = (
        isinstance(shapes, dict) and set(shapes) <= known and set(shapes.values()) <= set(SHAPES)
    )
    _require(valid, "shapes must be those of features")


def _check_outputs(fields: Fields) -> None:
    names, n_outputs = fields["output_names"], len(fields["intercepts"])
    _require(fields["intercepts"].ndim == 1, "every output must have one intercept")
    counted = len(names) == (n_outputs if n_outputs > 1 else 0)
    _require(n_outputs > 0 and counted, "every one of several outputs must have a name")
    _require(all(isinstance(name, str) for name in names), "names of outputs must be text")
    several = fields["link"].name not in LINKS_OF_SEVERAL_OUTPUTS or n_outputs > 1
    _require(several, "this link needs several outputs")
    classes: Sequence[Any] = fields["classes"]
    _require(_are_labels(classes) and len(classes) in (0, max(n_outputs, 2)), "classes must fit")
    _require(isinstance(fields["has_offset"], bool), "has_offset must be true or false")
    _require(fields["activation"] in ("sigmoid", "relu"), "the activation must be known")
    _require(fields["scale"] in ("centred", "paper"), "the scale must be known")


def _check_offset_column(fields: Fields) -> None:
    encoder = fields["encoder"]
    if encoder.offset_column is None:
        return
    name, place, is_exposure = encoder.offset_column
    named = name is None if encoder.names is None else isinstance(name, str)
    _require(named and name not in (encoder.names or ()), "the offset must be no feature")
    inside = type(place) is int and 0 <= place < encoder.n_columns
    _require(inside, "the offset must be a column of the table")
    _require(isinstance(is_exposure, bool), "is_exposure must be true or false")
    _require(not is_exposure or fields["link"].name == "log", "an exposure needs a log link")


def _check_baseline(fields: Fields) -> None:
    if fields["baseline"] is None:
        return
    times, log_hazard = fields["baseline"]
    cox = fields["link"].name == "log" and len(fields["intercepts"]) == 1
    _require(cox, "a baseline needs one output and a log link")
    paired = times.ndim == 1 and times.shape == log_hazard.shape and len(times) > 0
    _require(paired and _is_finite(times) and _is_finite(log_hazard), "a baseline must be finite")
    rising = (np.diff(times) > 0).all() and (np.diff(log_hazard) >= 0).all()
    _require(bool(rising and times[0] >= 0), "a baseline must rise with time")


def _check_provenance(fields: Fields) -> None:
    provenance = fields["provenance"]
    if provenance is None:
        return
    broken = provenance.first_broken_rule()
    _require(broken is None, f"provenance: {broken}")
    links = {"classifier": ("logit", "softmax"), "survival": ("log",)}.get(provenance.task)
    _require(links is None or fields["link"].name in links, "the task must fit the link")


def _check_posteriors(fields: Fields) -> None:
    for posterior in filter(None, fields["posteriors"] or ()):
        *numbers, units = posterior.arrays
        single = all(array.dtype == np.float32 for array in numbers)
        finite = _is_finite(units) and all(np.isfinite(array).all() for array in numbers)
        _require(single and finite, "posteriors must be finite, in single precision")
        positive = (posterior.rough >= 0).all() and (units >= 0).all()
        _require(bool(positive), "variances and units of posteriors must not be negative")


def _check_calibration(fields: Fields) -> None:
    calibration = fields["calibration"]
    if calibration is None:
        return
    sizes = tuple(axis.n_nodes for axis in fields["encoder"].axes[1])
    broken = calibration.first_broken_rule(sizes, len(fields["intercepts"]))
    _require(broken is None, f"calibration: {broken}")
    are_classes = fields["link"].name in ("logit", "softmax")
    has_intervals = len(calibration.scores) > 0
    needs_scale = has_intervals and not are_classes
    _require(needs_scale == (calibration.scale is not None), "a scale is for intervals of numbers")
