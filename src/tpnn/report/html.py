"""HTML: the summary of a model becomes one page that needs nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tpnn.explain import Explanation
from tpnn.model import AnovaModel
from tpnn.report.summary import summarise

PAGE = Path(__file__).parent / "page"
SCRIPTS = ("model.js", "charts.js", "view.js")


def write_report(
    model: AnovaModel,
    path: str | os.PathLike[str],
    X: Any = None,
    *,
    scores: Mapping[str, float] | None = None,
    title: str = "Model report",
    target: str = "prediction",
) -> None:
    """Write one self-contained HTML page in which the model runs.

    Parameters
    ----------
    model : AnovaModel
        The model.
    path : path
        Where to write the page.
    X : table, optional
        Rows for the density of pairs, for concurvity and to start from. Up to 200 of them are
        written into the page.
    scores : dict from str to float, optional
        Scores on held-out rows, by name.
    title : str, default="Model report"
        Heading of the page.
    target : str, default="prediction"
        What is predicted.
    """
    rows = None if X is None else model.encoder.read(X)
    texts = {"title": title, "target": target}
    summary = summarise(model, Explanation(model, rows), scores or {}, texts)
    Path(path).write_text(render(summary), encoding="utf-8")


def render(summary: Mapping[str, Any]) -> str:
    """Put the summary, the styles and the scripts into the page."""
    data = json.dumps(summary, separators=(",", ":"), ensure_ascii=False)
    parts = {
        "/*STYLE*/": (PAGE / "style.css").read_text(encoding="utf-8"),
        "/*SCRIPT*/": "\n".join((PAGE / name).read_text(encoding="utf-8") for name in SCRIPTS),
        "/*DATA*/": data.replace("<", "\\u003c"),  # no text of the data can end the script
    }
    page = (PAGE / "page.html").read_text(encoding="utf-8")
    for mark, text in parts.items():
        page = page.replace(mark, text)
    return page
