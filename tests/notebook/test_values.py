"""What a notebook shows of the objects that methods return, and of a fit."""

from __future__ import annotations

import pytest

from tests.notebook.conftest import Cell


@pytest.mark.parametrize(
    "line",
    [
        "explanation.component('age')",
        "explanation.component(('income', 'debt'))",
        "model.model_.terms()",
        "model.model_.terms()[0]",
        "model.path()",
        "explanation",
    ],
)
def test_no_arrays_are_dumped(cell: Cell, line: str) -> None:
    (shown,) = cell(line)
    assert "array(" not in shown["data"]["text/plain"]
    assert len(shown["data"]["text/plain"]) < 1000


def test_a_component_is_shown_as_a_table(cell: Cell) -> None:
    (shown,) = cell("explanation.component('age')")
    assert "<table" in shown["data"]["text/html"]
    assert "effect" in shown["data"]["text/html"]


def test_a_report_is_shown_and_knows_its_path(cell: Cell) -> None:
    (shown,) = cell("page = model.report('page.html', X); page")
    assert "<iframe" in shown["data"]["text/html"]
    assert 'href="page.html"' in shown["data"]["text/html"]
    (printed,) = cell("print(page.path.is_file(), open(page).read(15))")
    assert printed["text"] == "True <!doctype html>\n"


def test_a_fit_shows_a_bar_that_is_a_widget(cell: Cell) -> None:
    shown = cell("fitted = TPNNRegressor(verbose=1, **quick).fit(X, y)")
    assert any("application/vnd.jupyter.widget-view+json" in part.get("data", {}) for part in shown)


def test_a_bar_is_shown_by_default(cell: Cell) -> None:
    cell("from tpnn.estimators.base import ProgressBar")
    (printed,) = cell("print(ProgressBar('a fit', 'auto').is_shown)")
    assert printed["text"] == "True\n"
    assert cell("fitted = TPNNRegressor(verbose=0, **quick).fit(X, y)") == []
