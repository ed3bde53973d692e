"""Figures in a notebook: each is drawn once, whoever draws it."""

from __future__ import annotations

import pytest

from tests.notebook.conftest import Cell


def n_pictures(outputs: list[dict[str, object]]) -> int:
    return sum("image/png" in output.get("data", {}) for output in outputs)  # type: ignore[operator]


@pytest.mark.parametrize(
    "line",
    [
        "plots.components(explanation)",
        "explanation.plot('age')",
        "explanation.plot('age').figure",
        "plots.waterfall(explanation).figure",
        "plots.components(explanation); print()",
        "figure = plots.components(explanation); display(figure)",
    ],
)
def test_a_figure_is_drawn_once(cell: Cell, line: str) -> None:
    assert n_pictures(cell(line)) == 1


def test_a_figure_can_be_drawn_again_later(cell: Cell) -> None:
    assert n_pictures(cell("figure = plots.components(explanation)")) == 1
    assert n_pictures(cell("figure")) == 1


def test_two_figures_are_two_pictures(cell: Cell) -> None:
    line = "explanation.plot('age'); explanation.plot('income'); plots.components(explanation)"
    assert n_pictures(cell(line)) == 3
