"""HTML: the summary of a model becomes one page that needs no other file and no network."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tpnn._writing import write_file
from tpnn.explain.explanation import Explanation
from tpnn.loss.offset import checked_offset
from tpnn.model.model import AnovaModel
from tpnn.report.scoring import held_out_scores
from tpnn.report.summary import summarise

PAGE = Path(__file__).parent / "page"
SCRIPTS = ("model.js", "charts.js", "view.js")


def write_report(
    model: AnovaModel,
    path: str | os.PathLike[str],
    X: Any = None,
    y: Any = None,
    *,
    title: str = "Model report",
    target: str = "prediction",
    scores: Mapping[str, float] | None = None,
    offset: Any = None,
) -> None:
    """Write one self-contained HTML page in which the model runs.

    Parameters
    ----------
    model : AnovaModel
        The model.
    path : path
        Where to write the page.
    X : table, optional
        Rows to measure concurvity on and to start from; the page holds up to 200 of them.
    y : array, optional
        Targets of these rows, if they were held out: the page then shows scores.
    title : str, default="Model report"
        Heading of the page.
    target : str, default="prediction"
        What is predicted.
    scores : dict from str to float, optional
        Further scores to show, by name.
    offset : array of shape (n_rows,), optional
        Known part of the raw score of these rows, as in ``predict``. A column of X that is the
        offset counts by itself.

    Examples
    --------
    >>> import tempfile
    >>> from tpnn import TPNNRegressor, datasets
    >>> X, y = datasets.load("abalone")
    >>> model = TPNNRegressor(order=1, n_bags=2, random_state=0).fit(X[500:], y[500:])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(model.model_, f"{folder}/report.html", X[:500], y[:500])
    """
    if y is not None and X is None:
        raise ValueError("X: rows are needed to score targets, found None. Pass X with y.")
    explanation = Explanation(model, X)
    n_rows = 0 if X is None else explanation.rows.n_rows
    known = offset if X is None else model.offset_of(explanation.rows, offset)
    shown = dict(scores or {})
    if y is not None:
        passed = known if model.encoder.offset_column is None else None  # it is in the rows
        shown |= held_out_scores(model, explanation.rows, y, passed)
    texts = {"title": title, "target": target}
    summary = summarise(model, explanation, checked_offset(known, n_rows), shown, texts)
    page = render(summary).encode("utf-8", "backslashreplace")  # JSON writes lone surrogates so
    write_file(path, page)


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
