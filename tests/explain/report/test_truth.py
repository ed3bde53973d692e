"""The page says nothing wrong: ticks, densities, names, and links inside a notebook."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.explain.report.browser import open_page
from tests.models import table_model
from tpnn import Explanation, plots
from tpnn.explain.report import write_report

CHOOSE = "report.choose(report.data.components.findIndex(c => c.name === arguments[0]))"
TEXTS = "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)"
BARS = """return [...document.querySelectorAll('#chart .density')]
    .map(e => [+e.getAttribute('x') + e.getAttribute('width') / 2, +e.getAttribute('height')])"""
CUT = """const svg = document.querySelector('#chart svg'), box = svg.getBoundingClientRect();
    return [...svg.querySelectorAll('text')].filter(e => {
      const own = e.getBoundingClientRect();
      return own.left < box.left - 1 || own.right > box.right + 1;
    }).map(e => e.textContent)"""
UNITS = {"": 1.0, " k": 1e3, " M": 1e6, " bn": 1e9}


def number_of(word: str) -> float:
    """Read a tick as a person does."""
    found = re.fullmatch(r"(−?[0-9.]+(?:e-?[0-9]+)?)( k| M| bn)?", word)
    assert found is not None, word
    return float(found[1].replace("−", "-")) * UNITS[found[2] or ""]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "hour": rng.integers(0, 24, 600),
            "workingday": (rng.random(600) < 0.68).astype(int),
            "income": rng.normal(size=600),
        }
    )


@pytest.mark.parametrize("unit", [2e6, 3e-5, 1.0, 4e11, 7e16])
def test_ticks_read_as_their_numbers(
    unit: float, frame: pd.DataFrame, driver: Any, tmp_path: Path
) -> None:
    """Whatever the unit; no sign and no digit is left out, and nothing is cut off."""
    large = frame.assign(income=unit * frame["income"])
    write_report(table_model(large, order=2, unit=unit), tmp_path / "page.html", large)
    open_page(driver, tmp_path / "page.html")
    words = "return tickWords(arguments[0], arguments[1], 5)"
    for low, high in ((-1.2 * unit, 1.4 * unit), (0.0, 0.31 * unit), (-unit, -0.2 * unit)):
        for tick, word in driver.execute_script(words, low, high):
            assert number_of(word) == pytest.approx(tick, rel=1e-9, abs=1e-12 * unit)
    for name in ("income", "hour", "hour × income"):
        driver.execute_script(CHOOSE, name)
        assert driver.execute_script(CUT) == []
        assert not [text for text in driver.execute_script(TEXTS, "#chart text") if "…" in text]


def test_the_density_has_every_value(frame: pd.DataFrame, driver: Any, tmp_path: Path) -> None:
    """Whole numbers have a bar each, the largest one too, as tall as their shares of the rows."""
    write_report(table_model(frame, order=1), tmp_path / "page.html", frame)
    open_page(driver, tmp_path / "page.html")
    for name in ("workingday", "hour"):
        driver.execute_script(CHOOSE, name)
        heights = np.array(driver.execute_script(BARS))[:, 1]
        shares = frame[name].value_counts(normalize=True).sort_index().to_numpy()
        assert heights / heights.sum() == pytest.approx(shares, abs=1e-6)


def test_the_density_of_many_values_has_the_largest(driver: Any, tmp_path: Path) -> None:
    """Half of the rows have the largest value: the hill is highest at the right edge."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"capped": np.minimum(rng.normal(size=800), 0.0)})
    write_report(table_model(frame, order=1), tmp_path / "page.html", frame)
    open_page(driver, tmp_path / "page.html")
    drawn = driver.execute_script(
        "return document.querySelector('#chart polygon').getAttribute('points')"
    )
    points = np.array([[float(x) for x in point.split(",")] for point in drawn.split()])
    assert points[1:-1, 1].argmin() == len(points) - 3


def test_the_density_of_whole_numbers_makes_no_waves(frame: pd.DataFrame) -> None:
    """matplotlib, too, draws a bar for each value."""
    explanation = Explanation(table_model(frame, order=1))
    axes = plots.main_effect(explanation, "hour")
    (hills,) = axes.child_axes
    shares = frame["hour"].value_counts(normalize=True).sort_index().to_numpy()
    assert [bar.get_height() for bar in hills.patches] == pytest.approx(shares)


def test_names_that_differ_late_differ_in_every_table(driver: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names = [
        f"average number of transactions of kind {k:02d} before application" for k in range(12)
    ]
    frame = pd.DataFrame(rng.normal(size=(200, 12)), columns=names)
    levels = [f"a level with a very long name that ends in {k} like all others" for k in range(6)]
    frame["level"] = rng.choice(levels, 200)
    write_report(table_model(frame, order=1), tmp_path / "page.html", frame)
    open_page(driver, tmp_path / "page.html")
    driver.execute_script(CHOOSE, "level")
    for table in ("#summary", "#terms", "#values table"):
        shown = driver.execute_script(TEXTS, f"{table} tr:not(.unfold-row) > th[scope=row]")
        assert len(shown) >= 6
        assert len(set(shown)) == len(shown)


def test_links_stay_in_the_frame_of_a_notebook(page: Path, driver: Any, tmp_path: Path) -> None:
    """A frame with the text of the page, inside another page, as notebooks show it."""
    from selenium.webdriver.support.wait import WebDriverWait

    from tpnn.explain.report import Report

    notebook = tmp_path / "notebook.html"
    notebook.write_text(
        f"<!doctype html><title>notebook</title><body>{Report(page)._repr_html_()}</body>",
        encoding="utf-8",
    )
    driver.get(notebook.as_uri())
    driver.switch_to.frame(driver.find_element("tag name", "iframe"))
    ready = "return document.documentElement.dataset.ready"
    WebDriverWait(driver, 30).until(lambda d: d.execute_script(ready))
    driver.find_element("css selector", "nav a[href='#components']").click()
    top = "return document.getElementById('components').getBoundingClientRect().top"
    WebDriverWait(driver, 10).until(lambda d: abs(d.execute_script(top)) < 100)
    assert driver.execute_script("return document.documentElement.dataset.ready") == "true"
    assert driver.execute_script("return location.href").startswith("about:srcdoc")
    driver.switch_to.default_content()
