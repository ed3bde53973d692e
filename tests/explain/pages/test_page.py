"""Pages: one file, escaped, long tables folded, charts that say what they show."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from tpnn.explain.report.static import (
    Line,
    Section,
    Side,
    chart,
    charts,
    field,
    heat_maps,
    page,
    table,
)

EMPTY = {"meta", "link", "br", "line", "circle", "polygon", "polyline"}


class Balance(HTMLParser):
    """Tags that are open; closing another one is a mistake."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in EMPTY:
            assert self.open.pop() == tag


def test_every_tag_is_closed_and_all_text_escaped() -> None:
    odd = "<a> & \"b\" 'c'"
    x = np.arange(3.0)
    drawn = chart(odd, [Line(odd, x, x - 1, np.ones(3))])
    points = chart(odd, [Line(odd, x, x)], ticks=[odd, "b", "c"])
    part = Section(
        odd, odd, (table(pd.DataFrame({odd: [odd]})), charts([drawn, points]), field(odd))
    )
    whole = page(odd, odd, [(odd, odd)], [part])
    parser = Balance()
    parser.feed(whole)
    assert parser.open == []
    assert "<a>" not in whole


def test_long_tables_are_folded() -> None:
    long = table(pd.DataFrame({"k": range(25)}))
    assert long.index("<th>9<") < long.index("<details>") < long.index("<th>10<")
    assert "Show all 25" in long
    assert long.count("<tr><th>") == 25 + 2  # and two heads
    assert "<details>" not in table(pd.DataFrame({"k": range(10)}))
    assert "None." in table(pd.DataFrame({"k": []}))


def test_points_lie_where_they_should() -> None:
    drawn = chart("a", [Line("f", np.array([0.0, 5.0, 10.0]), np.array([-1.0, 0.0, 1.0]))])
    points = drawn.split('polyline points="')[1].split('"')[0].split()
    pixels = np.array([point.split(",") for point in points], float)
    assert np.allclose(np.diff(pixels[:, 0]), np.diff(pixels[:, 0])[0], atol=0.1)
    assert pixels[0, 1] > pixels[1, 1] > pixels[2, 1]  # upwards is smaller


@pytest.mark.parametrize("values", [np.zeros(2), np.array([3.0, 3.0])])
def test_a_flat_line_is_drawn(values: np.ndarray) -> None:
    assert "nan" not in chart("flat", [Line("f", np.zeros(2), values)])


def test_charts_beyond_ten_are_folded() -> None:
    drawn = [f"<i>{k}</i>" for k in range(12)]
    assert charts(drawn[:10]).count("<details>") == 0
    assert "Show all 12" in charts(drawn)
    assert charts(drawn).index("<i>9<") < charts(drawn).index("<details>")


def test_every_level_of_a_chart_has_its_word() -> None:
    words = ["Ulm", "Bonn", "a very long name of a level"]
    drawn = chart("town", [Line("f", np.arange(3.0), np.arange(3.0))], ticks=words)
    shown = re.findall(r"<text[^>]*rotate[^>]*>([^<]*)<", drawn)
    assert shown[:2] == ["Ulm", "Bonn"]
    assert shown[2].startswith("a very long name o")
    assert f"<title>{words[2]}</title>" in drawn


def test_cells_of_a_heat_map_lie_where_they_should() -> None:
    """Painted from its paths: columns from left to right, rows from bottom to top."""
    grid = np.array([[-2.0, 0.0, 1.0], [2.0, 2.0, -0.4]])  # (n_columns, n_rows)
    sides = Side("a", ("1", "2"), False), Side("b", ("u", "<v>", "w"), True)
    drawn = heat_maps("a × b", sides, {"one": grid, "two": 0 * grid}, "a note")
    shares = [painted(drawn, 0), painted(drawn, 1)]
    assert np.array_equal(shares[0], grid / 2)
    assert not shares[1].any()
    assert drawn.count(">u</text>") == drawn.count(">&lt;v&gt;</text>") == 2


def painted(drawn: str, number: int) -> np.ndarray:
    """Shares that a map shows, from the colours and places of its paths, (2, 3)."""
    (paths,) = re.findall(r"crispEdges\">(.*?)</g>", drawn)[number : number + 1]
    found = np.full((2, 3), np.nan)
    for colour, share, path in re.findall(r"--(\w+)\) (\d+)%.*?d=\"(.*?)\"", paths):
        for x, y, length in re.findall(r"M(\d+) (\d+)h(\d+)", path):
            value = int(share) / 100 * (-1 if colour == "low" else 1)
            found[int(x) : int(x) + int(length), 2 - int(y)] = value
    return found
