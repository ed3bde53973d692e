"""The edits of a model in its file: the log, and what it takes to undo.

Earlier versions differ from the next one in a few places. So of each of their arrays only the
middle is stored, after as many values as are the same at the beginning and before as many as are
the same at the end: ``edits_0_tables`` is the middle of the tables before the first edit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import FloatArray
from tpnn.anova.components import ComponentSet
from tpnn.anova.posterior import Posterior
from tpnn.anova.terms import Terms
from tpnn.loss.links import LINKS, Link
from tpnn.model.archive import FORMAT_VERSION, NEWEST_VERSION, SECOND_VERSION, Arrays, Header
from tpnn.model.edit_log import EditLog, check_records
from tpnn.model.evidence import Baseline, Calibration, Facts
from tpnn.model.provenance import Provenance
from tpnn.model.read_only import read_only_arrays
from tpnn.table.axis import Axis
from tpnn.table.encoder import Feature, KeptFeatures, TableEncoder
from tpnn.table.table import NOMINAL, OffsetColumn

Packed = tuple[dict[str, Any], Arrays]
Unpack = Callable[[Mapping[str, Any], Mapping[str, NDArray[Any]]], Any]


def pack_edits(log: EditLog, arrays: Arrays, pack: Callable[[Any], Packed]) -> Packed:
    """Header and arrays of a log.

    Parameters
    ----------
    log : EditLog
        The log.
    arrays : dict from str to array
        Those of the model as it is now.
    pack : callable
        Turns the fields of a model into header and arrays.
    """
    versions: list[dict[str, Any]] = []
    stored: Arrays = {}
    later = arrays
    for number in reversed(range(len(log.formers))):
        header, own = pack(log.formers[number])
        ends = {name: _common_ends(array, later.get(name)) for name, array in own.items()}
        for name, (start, end) in ends.items():
            middle = own[name].ravel()[start : own[name].size - end]
            if middle.size:
                stored[f"edits_{number}_{name}"] = middle
        versions.insert(0, {"header": header, "common": ends})
        later = own
    return {"log": list(log.records), "formers": versions}, stored


def _common_ends(array: NDArray[Any], later: NDArray[Any] | None) -> tuple[int, int]:
    """Count the values that two arrays share at the beginning and at the end, bit by bit."""
    if later is None or later.dtype != array.dtype:
        return 0, 0
    one, two = _bits(array), _bits(later)
    size = min(len(one), len(two))
    differ = np.flatnonzero(one[:size] != two[:size])
    start = int(differ[0]) if len(differ) else size
    rest = size - start
    back = np.flatnonzero(one[len(one) - rest :][::-1] != two[len(two) - rest :][::-1])
    return start, int(back[0]) if len(back) else rest


def _bits(array: NDArray[Any]) -> NDArray[Any]:
    """Values of an array in a row, as whole numbers: equal ones have equal bits, NaN included."""
    flat = np.ascontiguousarray(array).ravel()
    return flat.view(f"u{flat.dtype.itemsize}")


def unpack_edits(
    stored: Mapping[str, Any] | None,
    arrays: Mapping[str, NDArray[Any]],
    unpack: Unpack,
) -> EditLog | None:
    """Log of a model from what ``pack_edits`` made of it; None for a model without edits."""
    if stored is None:
        return None
    try:
        check_records(stored["log"])
        formers = _formers(stored.get("formers", []), len(stored["log"]), arrays, unpack)
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"the log of edits was tampered with: its records and the earlier versions of the "
            f"model do not fit, {error}"
        ) from error
    return EditLog(tuple(stored["log"]), tuple(formers))


def _formers(
    versions: Sequence[Mapping[str, Any]], n_edits: int, arrays: Mapping[str, NDArray[Any]],
    unpack: Unpack,
) -> list[Mapping[str, Any]]:  # fmt: skip
    """Fields of the model before each edit, oldest first."""
    if len(versions) not in (0, n_edits):
        raise ValueError("every edit must have the model before it")
    formers: list[Mapping[str, Any]] = []
    later = {name: array for name, array in arrays.items() if not name.startswith("edits_")}
    for number in reversed(range(len(versions))):
        later = _joined(versions[number]["common"], later, arrays, f"edits_{number}_")
        fields = unpack(versions[number]["header"], later)
        formers.insert(0, {**fields, **read_only_arrays(fields), "edits": None})
    return formers


def _joined(
    common: Mapping[str, Sequence[int]],
    later: Mapping[str, NDArray[Any]],
    arrays: Mapping[str, NDArray[Any]],
    prefix: str,
) -> Arrays:
    """Arrays of a version from those of the next one and the middles that are stored."""
    found: Arrays = {}
    for name, (start, end) in common.items():
        known = later.get(name, np.empty(0)).ravel()
        middle = arrays.get(prefix + name, np.empty(0, known.dtype)).ravel()
        if not 0 <= start <= known.size - end <= known.size:
            raise ValueError("arrays of earlier versions must fit")
        parts = [known[:start], middle, known[known.size - end :]]
        found[name] = np.concatenate([part.astype(middle.dtype) for part in parts])
    return found


Label = str | int | float


class Fields(TypedDict):
    """Everything that a model consists of, by the names of its fields."""

    encoder: TableEncoder
    components: ComponentSet
    tables: tuple[FloatArray, ...]
    spreads: tuple[FloatArray, ...]
    intercepts: FloatArray
    link: Link
    activation: str
    scale: str
    stored_terms: tuple[Terms, ...] | None
    output_names: tuple[str, ...]
    shapes: Mapping[str, str]
    classes: tuple[Label, ...]
    has_offset: bool
    baseline: Baseline | None
    provenance: Provenance | None
    posteriors: tuple[Posterior | None, ...] | None
    edits: EditLog | None
    facts: Facts | None
    calibration: Calibration | None


def pack(fields: Fields) -> tuple[Header, Arrays]:
    """Header and arrays from which ``unpack`` makes the same fields again."""
    encoder, stored = fields["encoder"], fields["stored_terms"] or ()
    axes = [axis for per_order in encoder.axes.values() for axis in per_order]
    groups = [axis.groups for axis in axes if axis.groups is not None]
    header: Header = {
        "version": file_version(fields),
        "names": encoder.names,
        "features": [tuple(f) if f.are_text else (f.kind, f.levels) for f in encoder.features],
        "orders": list(encoder.axes),
        "n_nodes": [axis.n_nodes for axis in axes],
        "levels": [axis.levels for axis in axes],
        "has_missing": [axis.has_missing for axis in axes],
        "components": fields["components"].components,
        "n_terms": [len(terms.beta) for terms in stored],
        "outputs": fields["output_names"],
        "link": fields["link"].name,
        "shapes": dict(fields["shapes"]),
        "activation": fields["activation"],
        "scale": fields["scale"],
        "classes": fields["classes"],
    }
    if fields["has_offset"]:  # files of models without an offset are as they always were
        header["has_offset"] = True
    if encoder.offset_column is not None:
        header["offset_column"] = encoder.offset_column._asdict()
    if encoder.labels:
        header["labels"] = encoder.labels
    if any(axis.has_unseen for axis in axes):
        header["has_unseen"] = [axis.has_unseen for axis in axes]
    if encoder.kept is not None:
        header["kept"] = encoder.kept._asdict()
    if fields["provenance"] is not None:
        header["provenance"] = fields["provenance"].as_dict()
    if fields["facts"] is not None:
        header["facts"] = fields["facts"].as_dict()
    arrays = {
        "node_values": _flatten([axis.with_missing(axis.values, np.nan) for axis in axes]),
        "node_weights": _flatten([axis.weights for axis in axes]),
        "level_nodes": _flatten([*groups, np.empty(0, np.intp)]).astype(np.uint16),
        "intercept": fields["intercepts"],
        "tables": _flatten(fields["tables"]),
        "spreads": _flatten(fields["spreads"]),
    }
    for name in ("b", "gamma", "beta") if stored else ():
        arrays[f"term_{name}"] = _flatten([getattr(terms, name) for terms in stored])
    if fields["baseline"] is not None:
        arrays["baseline_times"], arrays["baseline_log_hazard"] = fields["baseline"]
    if fields["posteriors"] is not None:
        header["n_functions"] = [p and p.roots.shape[-1] for p in fields["posteriors"]]
        arrays |= _pack_posteriors([p for p in fields["posteriors"] if p is not None])
    if fields["calibration"] is not None:
        header["calibration"], numbers = fields["calibration"].packed()
        arrays |= numbers
    if fields["edits"] is not None:
        header["edits"], before = pack_edits(fields["edits"], arrays, pack)
        arrays |= before
    return header, arrays


def file_version(fields: Fields) -> int:
    """Oldest version of which readers predict a model right."""
    encoder = fields["encoder"]
    has_unseen = any(axis.has_unseen for axes in encoder.axes.values() for axis in axes)
    if encoder.kept is not None and encoder.names is None:
        return NEWEST_VERSION
    is_second = encoder.offset_column is not None or has_unseen
    return SECOND_VERSION if is_second else FORMAT_VERSION


def unpack(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Fields:
    """Fields of a model from what ``pack`` made of them."""
    components = ComponentSet(tuple(tuple(features) for features in header["components"]))
    encoder = _unpack_encoder(header, arrays)
    n_outputs, provenance = len(arrays["intercept"]), header.get("provenance")
    known = header.get("calibration")
    shapes = [(*(encoder.axes[len(s)][j].n_nodes for j in s), n_outputs) for s in components]
    return Fields(
        encoder=encoder,
        components=components,
        tables=tuple(_unflatten(arrays["tables"], shapes)),
        spreads=tuple(_unflatten(arrays["spreads"], shapes)),
        intercepts=arrays["intercept"],
        link=LINKS[header["link"]],
        activation=header["activation"],
        scale=header["scale"],
        stored_terms=_unpack_terms(components, header["n_terms"], arrays),
        output_names=tuple(header["outputs"]),
        shapes=header["shapes"],
        classes=tuple(header.get("classes", ())),  # the first files have no labels
        has_offset=header.get("has_offset", False),
        baseline=_unpack_baseline(arrays),
        provenance=None if provenance is None else Provenance.of(provenance),
        posteriors=_unpack_posteriors(header.get("n_functions"), shapes, arrays),
        calibration=None if known is None else Calibration.unpacked(known, arrays),
        edits=unpack_edits(header.get("edits"), arrays, unpack),
        facts=Facts.of(header["facts"]) if "facts" in header else None,
    )


def _unpack_baseline(arrays: Mapping[str, NDArray[Any]]) -> Baseline | None:
    if not {"baseline_times", "baseline_log_hazard"} & arrays.keys():
        return None
    return Baseline(arrays["baseline_times"], arrays["baseline_log_hazard"])


def _pack_posteriors(posteriors: Sequence[Posterior]) -> Arrays:
    """Arrays of all posteriors, those of one kind one after the other."""
    nothing = np.empty(0, np.float32)
    return {
        "posterior_factors": _flatten([nothing, *(f for p in posteriors for f in p.factors)]),
        "posterior_shifts": _flatten([nothing, *(p.shifts for p in posteriors)]),
        "posterior_roots": _flatten([nothing, *(p.roots for p in posteriors)]),
        "posterior_rough": _flatten([nothing, *(p.rough for p in posteriors)]),
        "posterior_units": _flatten([np.empty(0), *(p.units for p in posteriors)]),
    }


def _unpack_posteriors(
    counts: Sequence[int | None] | None,
    shapes: Sequence[tuple[int, ...]],
    arrays: Mapping[str, NDArray[Any]],
) -> tuple[Posterior | None, ...] | None:
    """Posteriors of components whose grids have these shapes; None if the model has no bands."""
    if counts is None:
        return None
    each = [(s, count) for s, count in zip(shapes, counts, strict=True) if count is not None]
    shapes = [shape for shape, _ in each]
    sizes = [(size, count) for shape, count in each for size in shape[:-1]]
    factors = iter(_unflatten(arrays["posterior_factors"], sizes))
    by_component = [tuple(islice(factors, len(shape) - 1)) for shape in shapes]
    shifts = _unflatten(arrays["posterior_shifts"], [(count, shape[-1]) for shape, count in each])
    roots = _unflatten(arrays["posterior_roots"], [(s[-1], count, count) for s, count in each])
    rough = _unflatten(arrays["posterior_rough"], shapes)
    units = _unflatten(arrays["posterior_units"], [shape[-1:] for shape in shapes])
    found = map(Posterior, by_component, shifts, roots, rough, units)
    return tuple(None if count is None else next(found) for count in counts)


def _unpack_encoder(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> TableEncoder:
    sizes = [(size,) for size in header["n_nodes"]]
    nodes = zip(_unflatten(arrays["node_values"], sizes), header["has_missing"], strict=True)
    values = [row[: len(row) - has_missing] for row, has_missing in nodes]
    weights = _unflatten(arrays["node_weights"], sizes)
    features = tuple(
        Feature(kind, tuple(levels), *text) for kind, levels, *text in header["features"]
    )
    n_orders = len(header["orders"])
    kinds = [feature.kind for feature in features] * n_orders
    levels = [None if labels is None else tuple(labels) for labels in header["levels"]]
    has_unseen = header.get("has_unseen", [False] * len(sizes))
    groups = _unpack_groups(features * n_orders, has_unseen, arrays["level_nodes"])
    axes = map(Axis, values, weights, kinds, levels, groups, header["has_missing"], has_unseen)
    by_order = {order: tuple(islice(axes, len(features))) for order in header["orders"]}
    names, labels = header["names"], header.get("labels")
    column, kept = header.get("offset_column"), header.get("kept")
    return TableEncoder(
        names=tuple(names) if names else None,
        axes=by_order,
        features=features,
        offset_column=None if column is None else OffsetColumn(**column),
        labels=tuple(labels) if labels else None,
        kept=kept and KeptFeatures(tuple(kept["places"]), kept["n_features"]),
    )


def _unpack_groups(
    features: Sequence[Feature], has_unseen: Sequence[bool], flat: NDArray[Any]
) -> list[Any]:
    """Node of each level for nominal features and open ordered ones, None for the others."""
    if flat.size and flat.dtype.kind not in "iu":
        raise TypeError(f"nodes of levels must be whole numbers, found {flat.dtype}")
    nodes = iter(flat.astype(np.intp))
    return [
        np.array(list(islice(nodes, len(feature.levels))), np.intp)
        if feature.kind == NOMINAL or is_open
        else None
        for feature, is_open in zip(features, has_unseen, strict=True)
    ]


def _unpack_terms(
    components: ComponentSet, counts: Sequence[int], arrays: Mapping[str, NDArray[Any]]
) -> tuple[Terms, ...] | None:
    if not counts:
        return None
    shapes = [(len(s), count) for s, count in zip(components, counts, strict=True)]
    b = _unflatten(arrays["term_b"], shapes)
    gamma = _unflatten(arrays["term_gamma"], shapes)
    beta = _unflatten(arrays["term_beta"], [(count,) for count in counts])
    return tuple(map(Terms, components, b, gamma, beta))


def _flatten(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate([array.ravel() for array in arrays] or [np.empty(0)])


def _unflatten(flat: NDArray[Any], shapes: Sequence[tuple[int, ...]]) -> list[NDArray[Any]]:
    ends = np.cumsum([math.prod(shape) for shape in shapes], dtype=np.intp)
    pieces = np.split(flat, ends[:-1]) if shapes else []
    return [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]


def storable_labels(labels: Any) -> list[Label]:
    """Labels as str, int, float or bool, which a saved model can hold.

    >>> storable_labels(np.array([True, False])), storable_labels(np.array(["a"]))
    ([True, False], ['a'])
    """
    values = np.asarray(labels).tolist()
    return [value if isinstance(value, str | int | float) else str(value) for value in values]
