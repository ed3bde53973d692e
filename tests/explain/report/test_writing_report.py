"""Report: what ``report()`` returns knows its path and is shown by a notebook."""

from __future__ import annotations

import os
from html import unescape
from pathlib import Path
from typing import Any

from tests.models import random_model
from tpnn import TPNNRegressor, distill
from tpnn.explain.report import Report, write_report


def test_the_frame_holds_the_page(tmp_path: Path) -> None:
    report = write_report(random_model(3, 2), tmp_path / "a <b> & c.html")
    assert Path(os.fspath(report)) == report.path == tmp_path / "a <b> & c.html"
    shown = report._repr_html_()
    assert "<b>" not in shown.split("<iframe")[0]
    page = unescape(shown.split('srcdoc="')[1].rsplit('"></iframe>')[0])
    assert page.replace('\n<base href="about:srcdoc">', "") == report.path.read_text(
        encoding="utf-8"
    )


def test_a_page_that_is_gone_is_a_link(tmp_path: Path) -> None:
    shown = Report(tmp_path / "page.html")._repr_html_()
    assert shown.startswith("<a href=")
    assert "iframe" not in shown


def test_estimators_return_it(table: Any, quick: Any, tmp_path: Path) -> None:
    X, y = table
    model = TPNNRegressor(**{**quick, "order": 1}).fit(X, y)
    assert model.report(str(tmp_path / "one.html")).path.is_file()
    model = distill(model, X, order=1, n_queries=400, random_state=0, verbose=0)
    assert model.report(tmp_path / "two.html").path.is_file()
