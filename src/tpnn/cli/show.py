"""Commands that show a model: ``explain``, ``summary``, ``log``, ``compare`` and ``report``.

The first three need NumPy alone, so pandas is imported late.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

import tpnn
from tpnn._utils.files import is_stream
from tpnn.cli.csv_files import read_rows
from tpnn.cli.output import Lines, check_output, counted, print_table, printable, write_table
from tpnn.model.archive import FORMAT_VERSION
from tpnn.model.edit_log import check_last_hash, digest, edit_words
from tpnn.model.model import part_names


def run_explain(options: argparse.Namespace) -> None:
    """Write the importance of all components or, given rows, the contributions to each row."""
    check_output(options.output, options.model, options.data)
    model = tpnn.load(options.model).model_
    if options.data is None:
        write_table(ranking(tpnn.Explanation(model)), options.output)
        return
    local = tpnn.Explanation(model, read_rows(model, options.data, options))
    table = _contributions(local) if options.reasons is None else _reasons(local, options.reasons)
    write_table(table, options.output)


def ranking(explanation: tpnn.Explanation) -> Lines:
    """Components and their importance, largest first."""
    norms = explanation.importance()
    relative, shares = explanation.importance(normalise=True), explanation.sobol()
    return {
        "component": [" x ".join(names) for names in norms],
        "importance": list(norms.values()),
        "relative": [relative[names] for names in norms],
        "variance_share": [shares[names] for names in norms],
    }


def _contributions(local: tpnn.Explanation) -> Lines:
    columns = [
        name + (f" ({output})" if output else "")
        for name in part_names(local.model)
        for output in local.model.output_names or ("",)
    ]
    scores = local.steps_from(None).reshape(-1, len(columns)).T.tolist()
    return dict(zip(columns, scores, strict=True))


def _reasons(local: tpnn.Explanation, n_reasons: int) -> Lines:
    lines = [
        (row, rank, reason.feature, reason.words)
        for row, reasons in enumerate(local.reasons(n_reasons))
        for rank, reason in enumerate(reasons, 1)
    ]
    names = ("row", "reason", "feature", "words")
    return {name: [line[place] for line in lines] for place, name in enumerate(names)}


FACT_NAMES = {  # of the provenance
    "version": "fitted_by_version",
    "n_rows": "n_training_rows",
    "n_columns": "n_training_columns",
    "scores": "held_out_scores",
}


def run_summary(options: argparse.Namespace) -> None:
    """Print facts, features and components of a model, as tables or as JSON."""
    model = tpnn.load(options.model).model_
    facts = _facts(model) | {"format_version": FORMAT_VERSION}
    features = _features(model)
    if options.json:
        components = ranking(tpnn.Explanation(model))
        whole = facts | {"features": _records(features), "components": _records(components)}
        print(json.dumps(whole))
        return
    width = max(map(len, facts)) + 2
    for name, value in facts.items():
        words = name.removeprefix("n_").removeprefix("has_").replace("_", " ")
        print(printable(f"{words:<{width}}{_words(value)}"))
    print()
    print_table(features)
    print()
    for line in str(model.summary()).splitlines():
        print(printable(line))


def _records(table: Lines) -> list[dict[str, Any]]:
    """Lines of a table, each as a dict."""
    return [dict(zip(table, line, strict=True)) for line in zip(*table.values(), strict=True)]


def _facts(model: tpnn.AnovaModel) -> dict[str, Any]:
    """Facts about a model; those about its origin are None in files that do not say."""
    origin = tpnn.Provenance.__dataclass_fields__
    known = {} if model.provenance is None else model.provenance.as_dict()
    return {
        "link": model.link.name,
        "classes": list(model.classes),
        "outputs": list(model.output_names),
        "intercept": model.intercepts.tolist(),
        "offset": _offset(model),
        "has_baseline": model.evidence.baseline is not None,
        "shapes": dict(model.shapes),
        "n_features": len(model.feature_names),
        "n_components": len(model.components),
        "n_components_by_order": dict(Counter(map(len, model.components))),
        **{FACT_NAMES.get(name, name): known.get(name) for name in origin},
    }


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
        inner = {key: _words(item) for key, item in value.items()}
        inner |= {k: f"{{{inner[k]}}}" for k, x in value.items() if isinstance(x, dict | list)}
        return ", ".join(f"{key}: {words}" for key, words in inner.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(_words, value)) or "none"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _features(model: tpnn.AnovaModel) -> Lines:
    """Kind, levels, nodes and share of the variance, interactions included, of every feature."""
    indices, axes = tpnn.Explanation(model).sobol_indices(), model.encoder.axes[1]
    return {
        "feature": model.feature_names,
        "kind": [feature.kind for feature in model.encoder.features],
        "levels": [len(feature.levels) for feature in model.encoder.features],
        "nodes": [len(axis.values) for axis in axes],
        "missing_values": [axis.has_missing for axis in axes],
        "variance_share": [indices[name].total for name in model.feature_names],
    }


EMPTY = "not said"


def run_log(options: argparse.Namespace) -> None:
    """Print all records of the log, as text or as JSON; a broken chain is an error."""
    model = tpnn.load(options.model, verify=options.verify).model_
    records: list[dict[str, Any]] = [] if model.edits is None else list(model.edits.records)
    fault = None
    try:
        model.log()
    except ValueError as error:  # somebody tampered with it
        fault = error
    if options.json:
        print(json.dumps({"whole": fault is None, "records": records}))
    else:
        for record in records:
            print("\n".join(map(printable, _lines(record))), end="\n\n")
    if fault is not None:
        raise fault
    if options.expect is not None:
        check_last_hash(model, options.expect, "--expect")
    if not options.json:
        again = 0 if model.edits is None else len(model.edits.formers)
        whole = f"{counted(len(records), 'edit')}, {again} made again, the chain is whole"
        print(f"{whole}; the model is {digest(model)}")


def _lines(record: dict[str, Any]) -> list[str]:
    """Write one record as lines of text, below those of models that were merged."""
    changed, effect, edit = record["changed"], record["effect"], record["edit"]
    sizes = [f"{' x '.join(names)} by up to {size:.6g}" for names, size in changed["components"]]
    removed = [f"{' x '.join(names)} removed" for names in changed["removed"]]
    lost = [f"{name} loses its shape" for name in changed["shapes_lost"]]
    before, after = (", ".join(f"{x:.6g}" for x in values) for values in changed["intercept"])
    loss, merged = "unknown, no held-out rows were given", list[str]()
    if effect is not None:
        loss = f"{effect['before']:.6g} -> {effect['after']:.6g}"
        loss += f" ({effect['loss']}, {effect['n_rows']} rows)"
    for part in edit.get("merge", ()):  # the log of one of the models that were merged
        share, edits = f"{part['share']:.1%} of the mean", part["edits"]
        merged.append(f"{share}: {part['model']}, {counted(len(edits), 'edit')}")
        merged += [f"   {line}" for inner in edits for line in _lines(inner)]
    return [
        *merged,
        f"{record['number']}. {edit_words(edit)}",
        f"   why: {record['why'] or EMPTY}",
        f"   by: {record['by'] or EMPTY}, {record['when']}, tpnn {record['version']}",
        f"   changed: {', '.join([*sizes, *removed, *lost]) or 'the intercept alone'}",
        f"   intercept: {before} -> {after}",
        f"   held-out loss: {loss}",
        f"   hash: {record['hash']}",
    ]


def run_report(options: argparse.Namespace) -> None:
    """Write the report."""
    from tpnn.cli.frames import read_scored
    from tpnn.explain.report import write_report

    check_output(options.output, options.model, options.data)
    model = tpnn.load(options.model).model_
    if options.data is None and options.target:
        raise ValueError("--target: is for scores, which need rows. Name a file of rows.")
    X, y = (None, None) if options.data is None else read_scored(model, options)
    write_report(model, options.output, X, y, title=options.title, target=options.target)
    if not is_stream(options.output):
        print(f"{options.output}: {Path(options.output).stat().st_size / 1e6:.2f} MB")


def run_compare(options: argparse.Namespace) -> None:
    """Write a line of scores for each model, and one for the best constant."""
    import pandas as pd

    from tpnn.cli.frames import read_scored
    from tpnn.explain.metrics import measure

    check_output(options.output, *options.models, options.data)
    lines = []
    for path in options.models:
        model = tpnn.load(path).model_
        scores = measure(model, *read_scored(model, options)).scores
        lines.append({"model": path} | {score.name: score.value for score in scores})
    lines.append({"model": "constant"} | {score.name: score.constant for score in scores})
    table = pd.DataFrame(lines)
    if options.output is None:
        print(table.to_string(index=False, na_rep="", float_format="{:.4g}".format))
    else:
        write_table({str(name): table[name].tolist() for name in table}, options.output)
