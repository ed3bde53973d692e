"""Report: what ``report()`` returns knows its path and is shown by a notebook."""

from __future__ import annotations

import os
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

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


def test_without_a_path_a_page_is_shown_and_not_written(tmp_path: Path) -> None:
    model = random_model(3, 2)
    shown, written = write_report(model), write_report(model, tmp_path / "page.html")
    times = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC")
    page = written.path.read_text(encoding="utf-8") if written.path else ""
    assert times.sub("", shown.page) == times.sub("", page)
    frame = "<iframe" + written._repr_html_().split("<iframe", 1)[1]
    assert times.sub("", shown._repr_html_()) == times.sub("", frame)
    with pytest.raises(TypeError, match="not written to a file"):
        os.fspath(shown)


def test_estimators_return_it(table: Any, quick: Any, tmp_path: Path) -> None:
    X, y = table
    model = TPNNRegressor(**{**quick, "order": 1}).fit(X, y)
    assert model.report(str(tmp_path / "one.html")).path.is_file()
    model = distill(model, X, order=1, n_queries=400, random_state=0, verbose=0)
    assert model.report(tmp_path / "two.html").path.is_file()
