"""What one types: values out of range, empty fields, and what is written into files."""

from __future__ import annotations

import csv
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.explain.report.browser import open_page
from tests.models import table_model
from tpnn import TPNNRegressor
from tpnn.explain.report import write_report
from tpnn.table.words import MINUS

TYPE = """const field = document.getElementById(`value-${arguments[0]}`);
  field.value = arguments[1];
  field.dispatchEvent(new Event('input', {bubbles: true}));
  const hint = document.getElementById(`hint-${arguments[0]}`);
  return [hint.hidden ? '' : hint.textContent, field.getAttribute('aria-invalid'),
    +document.getElementById('prediction').dataset.value]"""


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    days = pd.to_timedelta(rng.integers(0, 300, 400), "D")
    hole = np.where(rng.random(400) < 0.2, np.nan, rng.normal(size=400))
    return pd.DataFrame(
        {
            "hour": np.arange(400) % 8,
            "hole": hole,
            "since": pd.Timestamp("2020-01-01") + days,
            "waited": days,
        }
    )


@pytest.fixture
def opened(frame: pd.DataFrame, driver: Any, tmp_path: Path) -> Any:
    model = table_model(frame, order=1)
    write_report(model, tmp_path / "page.html", frame)
    open_page(driver, tmp_path / "page.html")
    return model


def test_values_beyond_those_of_the_fit_are_marked(opened: Any, driver: Any) -> None:
    """The prediction is that of the outer value, and the field says so."""
    _, _, last = driver.execute_script(TYPE, 0, "7")
    assert driver.execute_script(TYPE, 0, "99") == ["beyond 7: counted as 7", "true", last]
    assert driver.execute_script(TYPE, 0, "-1")[0] == "below 0: counted as 0"
    assert driver.execute_script(TYPE, 0, "2.5")[0] == "between two whole numbers"
    assert driver.execute_script(TYPE, 0, "3")[:2] == ["", "false"]


def test_whole_numbers_and_their_density(driver: Any, tmp_path: Path) -> None:
    """Half an hour is marked; on a logarithmic axis bars are as wide as there is room for each."""
    counts = np.exp(np.random.default_rng(0).normal(1, 1.2, 900)).round().clip(1, 45)
    frame = pd.DataFrame({"hour": np.arange(900) % 24, "count": counts})
    write_report(table_model(frame, order=1), tmp_path / "page.html", frame)
    open_page(driver, tmp_path / "page.html")
    assert driver.execute_script(TYPE, 0, "12.5")[0] == "between two whole numbers"
    driver.execute_script("report.choose(report.data.components.findIndex(c => c.name == 'count'))")
    bars = driver.execute_script(
        "return [...document.querySelectorAll('#chart rect.density')]"
        ".map(bar => ['x', 'width'].map(name => +bar.getAttribute(name)))"
    )
    assert "log axis" in driver.execute_script("return document.getElementById('chart').innerHTML")
    assert all(x + width <= right for (x, width), (right, _) in pairwise(bars))
    assert max(width for _, width in bars) > 5 * min(width for _, width in bars)


def test_an_empty_field_is_missing_or_refused(opened: Any, driver: Any) -> None:
    (*_, kept) = driver.execute_script(TYPE, 0, "5")
    words, invalid, shown = driver.execute_script(TYPE, 0, "")
    assert words.startswith("A value is needed")
    assert (invalid, shown) == ("true", kept)
    words, invalid, shown = driver.execute_script(TYPE, 1, "")
    assert (words, invalid) == ("", "false")
    assert driver.execute_script("return report.values[1]") is None
    assert driver.find_element("id", "missing-1").is_selected()


def test_dates_and_durations_are_exported_as_people_write_them(
    opened: Any, driver: Any, downloads: Path
) -> None:
    driver.execute_script("report.setAll(report.data.rows[3])")
    row = driver.execute_script("return report.values")
    cells = exported_values(driver, downloads)
    assert pd.Timestamp(cells["since"]) == pd.Timestamp(row[2], unit="s")
    assert pd.Timedelta(cells["waited"]) == pd.Timedelta(row[3], unit="s")


def test_numbers_are_exported_in_full(
    fast: Any, driver: Any, downloads: Path, tmp_path: Path
) -> None:
    """Also those of a periodic feature, which the page rounds."""
    hours = np.random.default_rng(0).uniform(0, 24, 300)
    X = pd.DataFrame({"hour": hours, "load": hours[::-1]})
    model = TPNNRegressor(**fast, periodic={"hour": 24}).fit(X, np.cos(hours * np.pi / 12)).model_
    write_report(model, tmp_path / "page.html", X)
    open_page(driver, tmp_path / "page.html")
    driver.execute_script("report.setAll(report.data.rows[3])")
    values = driver.execute_script("return report.values")
    cells = exported_values(driver, downloads)
    assert [float(cells["hour"]), float(cells["load"])] == values


def exported_values(driver: Any, downloads: Path) -> dict[str, str]:
    """Value of each feature in the file that the page exports."""
    from selenium.webdriver.support.wait import WebDriverWait

    path = downloads / "what-if.csv"
    path.unlink(missing_ok=True)
    driver.find_element("id", "export").click()
    WebDriverWait(driver, 30).until(lambda _: path.exists())
    lines = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    path.unlink()
    return {line["name"]: line["value"] for line in lines if line["what"] == "feature"}


def test_a_filter_without_a_match_says_so(opened: Any, driver: Any) -> None:
    driver.find_element("id", "filter").send_keys("zzzz")
    none = driver.find_element("id", "list-none")
    assert none.text == "No component has “zzzz”."
    assert not driver.find_element("id", "list").is_displayed()
    driver.find_element("id", "filter").clear()
    driver.execute_script("report.filter()")
    assert not none.is_displayed()
    assert driver.find_element("id", "list").is_displayed()


def test_the_contributions_add_up_on_the_page(opened: Any, driver: Any) -> None:
    """As they are written, in every row."""
    for row in range(0, 40, 4):
        driver.execute_script("report.setAll(report.data.rows[arguments[0]])", row)
        words = driver.find_element("id", "sum").get_property("textContent")
        average, part, whole = map(float, re.findall(r"[+-]?[\d.]*\d", words.replace(MINUS, "-")))
        assert average + part == pytest.approx(whole, abs=1e-9)
        ask = "return [report.data.intercept[0], report.answer.raw[0]]"
        assert [average, whole] == pytest.approx(driver.execute_script(ask), rel=0.006, abs=0.006)
