"""Pages: one file, escaped, long tables folded, pictures as SVG."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib import pyplot

from tpnn.explain.plots.style import axes_or_new
from tpnn.explain.report.static import Section, field, page, picture, pictures, table

EMPTY = {"meta", "link", "br"}


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
    part = Section(
        odd, odd, (table(pd.DataFrame({odd: [odd]})), pictures([drawn(odd)]), field(odd))
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


def drawn(title: str, width: float = 4.0) -> str:
    """A picture whose axis has the title, too."""
    axes = axes_or_new(None, width)
    axes.plot([0.0, 5.0, 10.0], [-1.0, 0.0, 1.0])
    axes.set_xlabel(title)
    return picture(title, axes.figure, "a note")


def test_a_picture_is_text_and_lines_and_the_same_each_time() -> None:
    open_before = pyplot.get_fignums()
    svg = drawn("age")
    assert svg.count("age") == 3  # heading, label for screen readers, label of the axis
    assert ">age</text>" in svg
    assert "http" not in svg
    assert svg == drawn("age")
    assert pyplot.get_fignums() == open_before


def test_wide_pictures_stand_alone() -> None:
    assert "wide" not in drawn("age")
    assert 'class="card picture wide"' in drawn("age", 12.0)


def test_pictures_beyond_ten_are_folded() -> None:
    cards = [f"<i>{k}</i>" for k in range(12)]
    assert pictures(cards[:10]).count("<details>") == 0
    assert "Show all 12" in pictures(cards)
    assert pictures(cards).index("<i>9<") < pictures(cards).index("<details>")
    assert pictures([]) == ""


def test_pages_without_matplotlib_say_how_to_get_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "pip install &quot;tpnn[plots]&quot;" in pictures(drawn(name) for name in "ab")


def test_text_is_read_from_the_left_and_long_text_unfolds(driver: Any, tmp_path: Path) -> None:
    """Beside one cell of 600 letters, the other values of a column are on the screen."""
    long = "20: " + ", ".join(f"feature number {k}" for k in range(40))
    frame = pd.DataFrame({"setting": ["features", "order"], "value": [long, "auto"]})
    path = tmp_path / "page.html"
    whole = page("Settings", "", [], [Section("Settings", "", (table(frame),))])
    path.write_text(whole, encoding="utf-8")
    driver.get(path.as_uri())
    cells = driver.find_elements("css selector", "td")
    assert [cell.text.split(",")[0] for cell in cells] == ["20: feature number 0", "auto"]
    width = driver.execute_script("return innerWidth")
    for cell in cells:
        assert cell.value_of_css_property("text-align") == "left"
        assert cell.rect["x"] + cell.rect["width"] <= width
    assert cells[0].rect["height"] < 80
    cells[0].find_element("tag name", "summary").click()
    assert cells[0].rect["height"] > 80
    assert cells[0].get_property("textContent").endswith(long)
