"""to_card: what a model knows about itself, in Markdown, with places for what a person must say."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tpnn._utils.files import write_file
from tpnn.model.summary import HEADINGS, summarise

if TYPE_CHECKING:
    from tpnn.model.model import AnovaModel

MOST_LEVELS = 8  # of a feature, written out
TO_WRITE = "*To be written by a person.*"
WRITTEN_BY_HAND = {
    "Use": "What the model is for, who uses it, and what it must not be used for.",
    "Data": "Where the rows come from, of which time and people, and who may not be among them.",
    "Harm": "Who is affected, what was tested for them, and what is left.",
}


def write_card(model: AnovaModel, path: str | os.PathLike[str] | None, title: str) -> str:
    """Model card as Markdown, written to a file if a path is given."""
    sections = [
        _front(title), f"# {title}", _facts(model), *_asked(), "## Features", _features(model),
        "## Components", _components(model), "## Limits", _limits(model), "## How to load it",
        '```python\nimport tpnn\n\nserved = tpnn.load("model.tpnn")\nserved.predict(rows)\n```',
    ]  # fmt: skip
    text = "\n\n".join(sections) + "\n"
    if path is not None:
        write_file(path, text.encode())
    return text


def _front(title: str) -> str:
    """Header that hubs of models read."""
    return f"---\nlibrary_name: tpnn\ntags: [tabular, interpretability]\nmodel_name: {title!r}\n---"


def _facts(model: AnovaModel) -> str:
    facts = dict(summarise(model).header)
    source = model.provenance
    if source is not None:
        facts |= {
            "task": source.task, "fitted": f"{source.date}, with tpnn {source.version}",
            "training rows": f"`{source.fingerprint}`",
        }  # fmt: skip
        facts |= {f"held-out {name}": f"{value:.5g}" for name, value in source.scores.items()}
    if model.classes:
        facts["classes"] = ", ".join(map(str, model.classes))
    if model.edits is not None:
        facts["edits by hand"] = f"{len(model.edits.records)}, which `tpnn log` lists"
    return _table(("", ""), list(facts.items()))


def _asked() -> list[str]:
    return [f"## {name}\n\n{TO_WRITE} {what}" for name, what in WRITTEN_BY_HAND.items()]


def _features(model: AnovaModel) -> str:
    lines = []
    rows = zip(model.feature_names, model.encoder.features, model.encoder.axes[1], strict=True)
    for name, feature, axis in rows:
        if feature.levels:
            shown = ", ".join(map(str, feature.levels[:MOST_LEVELS]))
            values = shown + (", ..." if len(feature.levels) > MOST_LEVELS else "")
        elif feature.kind == "date" and not axis.is_empty:
            ends = np.array(axis.values[[0, -1]] * 1e6, "datetime64[us]").astype("datetime64[D]")
            values = f"{ends[0]} to {ends[1]}"
        else:
            values = "" if axis.is_empty else f"{axis.values[0]:.6g} to {axis.values[-1]:.6g}"
        lines.append((name, feature.kind, values, "yes" if axis.has_missing else "no"))
    return _table(("feature", "kind", "values in the fit", "gaps in the fit"), lines)


def _components(model: AnovaModel) -> str:
    summary = summarise(model)
    lines = [summary.words(line) for line in summary.lines]
    return "\n\n".join([_table(HEADINGS, lines), *summary.notes])


def _limits(model: AnovaModel) -> str:
    limits = [
        "Beyond the smallest and the largest value of the fit a feature changes nothing.",
        "A level, or a gap in a column, that the fit has not seen contributes nothing to a "
        "component, unless it has a node.",
        "Effects are those of the data: they are not causes.",
    ]
    if model.remainder is not None:
        share = f"{100 * model.remainder.share:.1f} %"
        limits.append(f"{share} of the variance is a remainder, which is predicted but not shown.")
    return "\n".join(f"- {limit}" for limit in limits)


def _table(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    cells = [headings, ["---"] * len(headings), *lines]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in cells)


def _cell(text: str) -> str:
    r"""Text in a cell of Markdown, without what would end the cell or the line.

    >>> _cell("a|b")
    'a\\|b'
    """
    return re.sub(r"\s+", " ", str(text)).replace("|", "\\|")
