"""``tpnn summary``: what a model consists of."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from typing import Any

import tpnn
from tpnn.cli.explain import ranking
from tpnn.cli.writing import Lines, print_table
from tpnn.model.archive import read_archive
from tpnn.model.json_form import is_json, read_json

FACT_NAMES = {  # of the provenance
    "version": "fitted_by_version",
    "n_rows": "n_training_rows",
    "n_columns": "n_training_columns",
    "scores": "held_out_scores",
}


def run(given: argparse.Namespace) -> None:
    """Print facts, features and components of a model, as tables or as JSON."""
    model = tpnn.load_model(given.model)
    facts = _facts(model) | {"format_version": _format_version(given.model)}
    features, components = _features(model), ranking(tpnn.Explanation(model))
    if given.json:
        whole = facts | {"features": _records(features), "components": _records(components)}
        print(json.dumps(whole))
        return
    width = max(map(len, facts)) + 2
    for name, value in facts.items():
        words = name.removeprefix("n_").removeprefix("has_").replace("_", " ")
        print(f"{words:<{width}}{_words(value)}")
    for table in (features, components):
        print()
        print_table(table)


def _format_version(path: str) -> int:
    stored = read_json(path) if is_json(path) else read_archive(path)[0]
    return int(stored["version"])


def _records(table: Lines) -> list[dict[str, Any]]:
    """Lines of a table, each as a dict."""
    return [dict(zip(table, line, strict=True)) for line in zip(*table.values(), strict=True)]


def _facts(model: tpnn.AnovaModel) -> dict[str, Any]:
    return {
        "link": model.link.name,
        "classes": list(model.classes),
        "outputs": list(model.output_names),
        "intercept": model.intercepts.tolist(),
        "offset": _offset(model),
        "has_baseline": model.baseline is not None,
        "shapes": dict(model.shapes),
        "n_features": len(model.feature_names),
        "n_components": len(model.components),
        "n_components_by_order": dict(Counter(map(len, model.components))),
        **_provenance(model),
    }


def _provenance(model: tpnn.AnovaModel) -> dict[str, Any]:
    """Where the model comes from; every fact is None in files that do not say."""
    names = tpnn.Provenance.__dataclass_fields__
    known = {} if model.provenance is None else model.provenance.as_dict()
    return {FACT_NAMES.get(name, name): known.get(name) for name in names}


def _offset(model: tpnn.AnovaModel) -> str | None:
    """Where the known part of the raw score comes from."""
    column = model.encoder.offset_column
    if column is not None:
        return f"logarithm of {column.words}" if column.is_exposure else column.words
    return "an argument of predict" if model.has_offset else None


def _words(value: Any) -> str:
    """Value in words.

    >>> _words([]), _words(["a", 0.25]), _words({"age": "convex"}), _words(True)
    ('none', 'a, 0.25', 'age: convex', 'yes')
    >>> _words({"solver": {"name": "Grow"}, "order": None, "score": 0.123456789})
    'solver: {name: Grow}, order: none, score: 0.123457'
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_inner(item)}" for key, item in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(_words, value)) or "none"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _inner(value: Any) -> str:
    """Value within another one, in words: one of several parts in braces."""
    return f"{{{_words(value)}}}" if isinstance(value, dict | list) else _words(value)


def _features(model: tpnn.AnovaModel) -> Lines:
    """Kind, levels, nodes and share of the variance, interactions included, of every feature."""
    indices, axes = tpnn.Explanation(model).sobol_indices(), model.encoder.axes[1]
    return {
        "feature": model.feature_names,
        "kind": [feature.kind for feature in model.encoder.features],
        "levels": [len(feature.levels) for feature in model.encoder.features],
        "nodes": [axis.n_regular for axis in axes],
        "missing_values": [axis.has_missing for axis in axes],
        "variance_share": [indices[name].total for name in model.feature_names],
    }
