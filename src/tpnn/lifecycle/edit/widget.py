"""editor: a model that is edited in a notebook, in its own report, and comes back edited."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from tpnn._utils.rules import optional
from tpnn.explain.report.writing import PAGE, in_frame
from tpnn.lifecycle.edit.edit import held_out_rows, replayed
from tpnn.lifecycle.merge import as_model
from tpnn.model.predicting import Predicts


def editor(model: Any, X: Any = None, y: Any = None, *, offset: Any = None) -> Any:
    """Show the report of a model in a notebook; edits made there come back to Python.

    It needs anywidget: ``pip install "tpnn[widget]"``.

    Parameters
    ----------
    model : AnovaModel, fitted estimator or loaded model
        The model; it stays as it is.
    X, y : table and targets, optional
        Held-out rows. The page shows what edits do to them, and the log states the loss before and
        after each edit.
    offset : array of shape (n_rows,), optional
        Known part of the raw score of these rows, as in ``predict``.

    Returns
    -------
    anywidget.AnyWidget
        What the notebook shows. Its ``edited_`` is the ``AnovaModel`` after the edits so far, with
        a log of why and by whom they were made. An estimator has it too: ``model.edited_``. Where
        Python refuses edits, it stays as it was, and the page shows the ``error``.

    Examples
    --------
    >>> import tpnn
    >>> widget = tpnn.editor(model, X_new, y_new)  # doctest: +SKIP
    >>> model.edited_.save("edited.tpnn")  # doctest: +SKIP
    """
    frozen = as_model(model)
    reporter = model if hasattr(model, "report") else frozen  # estimators know about the fit
    keeps_edits = isinstance(model, Predicts)
    page = in_frame(reporter.report(None, X, y, offset=offset).page)
    rows, widget = held_out_rows(X, y, offset) if y is not None else None, _class()(page=page)

    def take(text: str) -> None:
        try:
            edited = replayed(frozen, json.loads(text), "the notebook", rows)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            widget.error = f"{error} These edits are not in edited_, which stays as it was."
            return
        widget.error, widget.edited_ = "", edited
        if keeps_edits:
            model.edited_ = edited

    take(widget.edits)
    widget.observe(lambda change: take(change["new"]), names="edits")
    return widget


@cache
def _class() -> Any:
    widgets = optional("anywidget", "editor", "tpnn[widget]")
    from traitlets import Unicode

    class Editor(widgets.AnyWidget):  # type: ignore[misc, name-defined]
        _esm = (PAGE / "widget.js").read_text(encoding="utf-8")
        page = Unicode().tag(sync=True)
        error = Unicode().tag(sync=True)  # why the last edits were refused
        edits = Unicode("[]").tag(sync=True)  # JSON, as in an edit file

    return Editor
