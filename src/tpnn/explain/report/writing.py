"""write_report: a model as one page in which it runs, with styles, scripts and data inside."""

from __future__ import annotations

import hashlib
import json
import math
import os
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpnn._utils.files import write_file
from tpnn.explain.explanation import Explanation
from tpnn.explain.metrics import measure
from tpnn.explain.report.cases import targets_of
from tpnn.explain.report.data import FitFacts, describe, shown_rows, summarise
from tpnn.loss.row_values import checked_offset
from tpnn.model.model import AnovaModel, offset_of, pruned

if TYPE_CHECKING:
    import pandas as pd

FRAME_HEIGHT = 640  # of the page in a notebook, in pixels
FRAME_HEAD = '<head>\n<base href="about:srcdoc">'  # without it, links are those of the notebook


@dataclass(frozen=True)
class Report:
    """A page: its path, if it was written, which ``open`` accepts too; a notebook shows the page.

    Parameters
    ----------
    path : Path or None
        Where the page is; None for one that was not written.
    page : str
        The text of a page that was not written.

    Examples
    --------
    >>> report = Report(Path("report.html"))
    >>> os.fspath(report)
    'report.html'
    """

    path: Path | None
    page: str = field(default="", repr=False)

    def __fspath__(self) -> str:
        if self.path is None:
            raise TypeError(
                "path: this report was not written to a file, so it has none. Call report(path)."
            )
        return os.fspath(self.path)

    def _repr_html_(self) -> str:
        """Link to the page and, as long as the file is there, show it in a frame.

        The frame holds the page itself: notebooks may not open files of other folders. Its links
        stay in it.
        """
        if self.path is None:
            return _framed(self.page)
        link = f'<a href="{escape(self.path.as_posix())}">{escape(str(self.path))}</a>'
        if not self.path.is_file():
            return link
        return link + _framed(self.path.read_text(encoding="utf-8"))


def _framed(page: str) -> str:
    """Put a page into a frame of its own."""
    text = escape(in_frame(page))
    style = f"width: 100%; height: {FRAME_HEIGHT}px; border: 0"
    return f'<iframe style="{style}" srcdoc="{text}"></iframe>'


def in_frame(page: str) -> str:
    """Page whose links stay in its frame."""
    return page.replace("<head>", FRAME_HEAD, 1)


def saved_page(path: str | os.PathLike[str], page: str) -> Report:
    """Write a whole page to a file."""
    write_file(path, page.encode("utf-8", "backslashreplace"))  # JSON writes lone surrogates so
    return Report(Path(path))


PAGE = Path(__file__).parent / "page"
SCRIPTS = (
    "trees.js", "model.js", "numbers.js", "words.js", "grids.js", "charts.js", "curves.js",
    "parts.js", "edits.js", "editor.js", "overview.js", "story.js", "view.js",
)  # fmt: skip


def write_report(
    model: AnovaModel,
    path: str | os.PathLike[str] | None = None,
    X: Any = None,
    y: Any = None,
    *,
    title: str = "Model report",
    target: str | None = None,
    offset: Any = None,
    facts: FitFacts | None = None,
) -> Report:
    """Write one self-contained HTML page in which the model runs.

    The arguments are those of :meth:`TPNNRegressor.report`; ``facts`` say how the model was fitted.

    Examples
    --------
    >>> import tempfile
    >>> from tpnn import TPNNRegressor, datasets
    >>> X, y = datasets.load("abalone")
    >>> model = TPNNRegressor(order=1, n_bags=2, random_state=0).fit(X[500:], y[500:])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = write_report(model.model_, f"{folder}/report.html", X[:500], y[:500])
    ...     report.path.name
    'report.html'
    """
    if y is not None and X is None:
        raise ValueError("X: rows are needed to score targets, found None. Pass X with y.")
    model = pruned(model)
    explanation = Explanation(model, X)
    n_rows = 0 if X is None else explanation.rows.n_rows
    added = offset if X is None else offset_of(model, explanation.rows, offset)
    fit, metrics = facts or FitFacts.of(model.provenance), None
    if y is not None:
        passed = added if model.encoder.offset_column is None else None  # it is in the rows
        metrics = measure(model, explanation.rows, y, passed)
    targets = targets_of(model, y, n_rows, shown_rows(explanation))
    named = target or str(getattr(y, "name", None) or "prediction")
    texts = {"title": title, "target": named, "targets": targets}
    shown = summarise(model, explanation, checked_offset(added, n_rows))
    summary = texts | shown | describe(fit, metrics)
    page = render(summary)
    return Report(None, page) if path is None else saved_page(path, page)


def render(summary: Mapping[str, Any]) -> str:
    """Put the summary, the styles and the scripts into the page."""
    data = json.dumps(finite(summary), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    scripts = [(PAGE / name).read_text(encoding="utf-8") for name in SCRIPTS]
    script = "\n".join(['"use strict";', *scripts])
    texts = {
        "/*POLICY*/": policy(script),
        "/*STYLE*/": (PAGE / "style.css").read_text(encoding="utf-8"),
        "/*SCRIPT*/": script,
        "/*DATA*/": data.replace("<", "\\u003c"),  # no text of the data can end the script
    }
    page = (PAGE / "page.html").read_text(encoding="utf-8")
    for mark, text in texts.items():
        page = page.replace(mark, text)
    return page


def policy(script: str = "") -> str:
    """Tag by which a browser runs this script alone, and loads and sends nothing."""
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = f"script-src 'sha256-{digest}'; " if script else ""
    rules = f"default-src 'none'; {allowed}style-src 'unsafe-inline'; img-src data:"
    return f'<meta http-equiv="Content-Security-Policy" content="{rules}; form-action \'none\'">'


def records(frame: pd.DataFrame) -> Any:
    """Lines of a frame as values that JSON can hold."""
    return json.loads(frame.to_json(orient="records"))


def finite(value: Any) -> Any:
    """Replace numbers that JSON does not have, NaN and infinities, by None.

    >>> finite({"a": [1.0, float("inf")], "b": "text"})
    {'a': [1.0, None], 'b': 'text'}
    """
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
