"""A model as one JSON document, which other languages can read; docs/deploy.md has its fields.

Numbers are written with as many digits as it takes to read the same doubles again. JSON has no NaN,
so the node of missing values, the last one where ``has_missing`` is true, has no value. Versions
and parts that a reader does not know follow the rule of ``tpnn.model.codec``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.anova.components import ComponentSet
from tpnn.anova.posterior import Posterior
from tpnn.anova.terms import Terms
from tpnn.loss.links import LINKS
from tpnn.model.archive import NEWEST_VERSION, unreadable
from tpnn.model.codec import Fields, file_version
from tpnn.model.edit_log import EditLog, check_records
from tpnn.model.evidence import Baseline, Calibration, Facts
from tpnn.model.provenance import Provenance
from tpnn.table.axis import Axis
from tpnn.table.encoder import Feature, KeptFeatures, TableEncoder
from tpnn.table.table import OffsetColumn

JSON_FORMAT = "tpnn-model-json"
POSTERIOR_ARRAYS = ("shifts", "roots", "rough", "units")  # besides the factors


def is_json(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as a JSON document does, and not as an archive."""
    if Path(path).is_dir():
        return False
    with open(path, "rb") as file:
        return file.read(1) in (b"{", b" ", b"\n")


def json_text(fields: Fields) -> str:
    """Write all fields of a model as one JSON document."""
    encoder, baseline, provenance = fields["encoder"], fields["baseline"], fields["provenance"]
    column = encoder.offset_column
    document = {
        "format": JSON_FORMAT,
        "version": file_version(fields),
        "link": fields["link"].name,
        "intercepts": fields["intercepts"].tolist(),
        "outputs": fields["output_names"],
        "classes": fields["classes"],
        "has_names": encoder.names is not None,
        "features": [
            {"name": name, **feature._asdict()}
            for name, feature in zip(encoder.feature_names, encoder.features, strict=True)
        ],
        "kept": None if encoder.kept is None else encoder.kept._asdict(),
        "column_labels": encoder.labels,
        "offset_column": None if column is None else column._asdict(),
        "has_offset": fields["has_offset"],
        "axes": {order: list(map(_axis, axes)) for order, axes in encoder.axes.items()},
        "components": _components(fields),
        "activation": fields["activation"],
        "scale": fields["scale"],
        "shapes": dict(fields["shapes"]),
        "baseline": None
        if baseline is None
        else {name: array.tolist() for name, array in baseline._asdict().items()},
        "provenance": None if provenance is None else provenance.as_dict(),
    }
    if fields["calibration"] is not None:
        document["calibration"] = fields["calibration"].as_dict()
    if fields["edits"] is not None:  # the log; what it takes to undo is in files of ``save`` alone
        document["edits"] = {"log": fields["edits"].records}
    if fields["facts"] is not None:
        document["facts"] = fields["facts"].as_dict()
    return json.dumps(document, allow_nan=False)


def _axis(axis: Axis) -> dict[str, Any]:
    return {
        "values": axis.values.tolist(),
        "masses": axis.weights.tolist(),
        "labels": axis.levels,
        "level_nodes": None if axis.groups is None else axis.groups.tolist(),
        "has_missing": axis.has_missing,
        "has_unseen": axis.has_unseen,
    }


def _components(fields: Fields) -> list[dict[str, Any]]:
    stored: Sequence[Terms | None] = fields["stored_terms"] or [None] * len(fields["tables"])
    known: Sequence[Posterior | None] = fields["posteriors"] or [None] * len(fields["tables"])
    parts = zip(
        fields["components"], fields["tables"], fields["spreads"], stored, known, strict=True
    )
    return [
        {
            "features": features,
            "values": table.tolist(),
            "spreads": spread.tolist(),
            "terms": terms
            and {name: getattr(terms, name).tolist() for name in ("b", "gamma", "beta")},
            **({} if posterior is None else {"posterior": _posterior(posterior)}),
        }
        for features, table, spread, terms, posterior in parts
    ]


def _posterior(posterior: Posterior) -> dict[str, Any]:
    arrays = {name: getattr(posterior, name).tolist() for name in POSTERIOR_ARRAYS}
    return {"factors": [factor.tolist() for factor in posterior.factors], **arrays}


def _posteriors(parts: Sequence[Mapping[str, Any]]) -> tuple[Posterior | None, ...] | None:
    stored: list[Any] = [part.get("posterior") for part in parts]
    if not any(stored):
        return None
    found: list[Posterior | None] = []
    for given in stored:
        if given is None:  # an edit made it void
            found.append(None)
            continue
        factors = tuple(_numbers(factor).astype(np.float32) for factor in given["factors"])
        rough, units = _numbers(given["rough"]).astype(np.float32), _numbers(given["units"])
        k, n_outputs = factors[0].shape[1], len(units)
        shifts = _numbers(given["shifts"]).reshape(k, n_outputs).astype(np.float32)
        roots = _numbers(given["roots"]).reshape(n_outputs, k, k).astype(np.float32)
        found.append(Posterior(factors, shifts, roots, rough, units))
    return tuple(found)


def read_json(path: str | os.PathLike[str]) -> Mapping[str, Any]:
    """Read a JSON document, and check that it is a model and not of a newer version."""
    try:
        document = json.loads(Path(path).read_bytes())
        known, version = document["format"] == JSON_FORMAT, int(document["version"])
    except Exception as error:  # whatever json raises on damaged text
        raise unreadable(path, error) from error
    if not known or version > NEWEST_VERSION:
        raise ValueError(
            f"path: must be a {JSON_FORMAT} file of version {NEWEST_VERSION} or older, found "
            f"{os.fspath(path)!r}, of the format {document['format']!r} and version {version}. "
            "Upgrade tpnn to read it."
        )
    found: Mapping[str, Any] = document
    return found


def fields_of_json(document: Mapping[str, Any]) -> Fields:
    """Fields of a model from what ``json_text`` made of them."""
    parts, provenance = document["components"], document["provenance"]
    components = ComponentSet(tuple(tuple(part["features"]) for part in parts))
    baseline, known = document["baseline"], document.get("calibration")
    return Fields(
        encoder=_encoder(document),
        components=components,
        tables=tuple(_numbers(part["values"]) for part in parts),
        spreads=tuple(_numbers(part["spreads"]) for part in parts),
        intercepts=_numbers(document["intercepts"]),
        link=LINKS[document["link"]],
        activation=document["activation"],
        scale=document["scale"],
        stored_terms=_terms(parts),
        output_names=tuple(document["outputs"]),
        shapes=document["shapes"],
        classes=tuple(document["classes"]),
        has_offset=document["has_offset"],
        baseline=baseline
        and Baseline(_numbers(baseline["times"]), _numbers(baseline["log_hazard"])),
        provenance=None if provenance is None else Provenance.of(provenance),
        posteriors=_posteriors(parts),
        calibration=None if known is None else Calibration.of(known),
        edits=_edits(document.get("edits")),
        facts=Facts.of(document["facts"]) if "facts" in document else None,
    )


def _edits(stored: Mapping[str, Any] | None) -> EditLog | None:
    if stored is None:
        return None
    check_records(stored["log"])
    return EditLog(tuple(stored["log"]))


def _encoder(document: Mapping[str, Any]) -> TableEncoder:
    known = document["features"]
    features = tuple(Feature(f["kind"], tuple(f["levels"]), f["are_text"]) for f in known)
    column, labels = document["offset_column"], document["column_labels"]
    kept = document["kept"]
    axes = {
        int(order): tuple(
            _read_axis(axis, feature.kind) for axis, feature in zip(found, features, strict=True)
        )
        for order, found in document["axes"].items()
    }
    return TableEncoder(
        names=tuple(feature["name"] for feature in known) if document["has_names"] else None,
        axes=axes,
        features=features,
        offset_column=None if column is None else OffsetColumn(**column),
        labels=None if labels is None else tuple(labels),
        kept=kept and KeptFeatures(tuple(kept["places"]), kept["n_features"]),
    )


def _read_axis(axis: Mapping[str, Any], kind: str) -> Axis:
    labels, groups = axis["labels"], axis["level_nodes"]
    return Axis(
        values=_numbers(axis["values"]),
        weights=_numbers(axis["masses"]),
        kind=kind,
        levels=None if labels is None else tuple(labels),
        groups=None if groups is None else _whole_numbers(groups),
        has_missing=axis["has_missing"],
        has_unseen=axis["has_unseen"],
    )


def _terms(parts: Sequence[Mapping[str, Any]]) -> tuple[Terms, ...] | None:
    stored = [part["terms"] for part in parts]
    if not any(stored):
        return None
    return tuple(
        Terms(tuple(part["features"]), *(_numbers(terms[name]) for name in ("b", "gamma", "beta")))
        for part, terms in zip(parts, stored, strict=True)
    )


def _numbers(values: Any) -> FloatArray:
    """Nested lists of numbers as an array of doubles; no text is taken for a number."""
    array = np.array(values)
    if array.dtype.kind not in "iuf" and array.size:
        raise TypeError(f"numbers are needed, found {array.dtype}")
    return array.astype(np.float64)


def _whole_numbers(values: Any) -> IntArray:
    array = np.array(values)
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"whole numbers are needed, found {array.dtype}")
    return array.astype(np.intp)
