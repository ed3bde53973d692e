"""The remainder on the page: its trees score as in Python, and it unfolds to its largest sets."""

from __future__ import annotations

import csv
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.explain.report.browser import open_page
from tests.explain.report.editing import choose, fill
from tests.explain.report.pages import payload
from tests.explain.report.test_page_content import paper
from tests.models import random_model, with_remainder
from tpnn import AnovaModel, Explanation
from tpnn.explain.report import packing as module
from tpnn.explain.report import write_report
from tpnn.explain.report.packing import MAX_ERROR, packed_trees

TASKS = ("regression", "two classes", "three classes", "quantiles")
RAW = "return report.data.rows.map(row => report.model.explain(row).raw)"
RESTS = "return report.data.rows.map(row => report.model.explain(row).rest)"
TEXTS = "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)"


def texts(driver: Any, selector: str) -> list[str]:
    return list(driver.execute_script(TEXTS, selector))


@pytest.mark.parametrize("task", TASKS)
def test_page_scores_trees_as_python_does(
    task: str, models: dict[str, AnovaModel], mixed: Any, driver: Any, tmp_path: Path
) -> None:
    """Within 5e-6 standard deviations of the raw score, missing and unseen values included."""
    model, X = with_remainder(models[task]), mixed[0].iloc[:150].copy()
    X["town </script>"] = X["town </script>"].where(np.arange(150) % 7 > 0, "Rome")
    with pytest.warns(UserWarning, match="^X: levels or missing values that fit has not seen"):
        write_report(model, tmp_path / "page.html", X)
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        raw = model.raw_scores(X).reshape(150, -1)
        rest = model.remainder_scores(X).reshape(150, -1)
    open_page(driver, tmp_path / "page.html")
    allowed = MAX_ERROR * Explanation(model).deviation() * 1.001
    assert np.abs(np.array(driver.execute_script(RAW)) - raw).max() <= allowed
    assert np.abs(np.array(driver.execute_script(RESTS)) - rest).max() <= allowed
    assert driver.get_log("browser") == []


def test_it_is_one_line_that_unfolds(
    models: dict[str, AnovaModel], mixed: Any, driver: Any, downloads: Path, tmp_path: Path
) -> None:
    (X, y), model = mixed, with_remainder(models["regression"])
    assert model.remainder is not None
    write_report(model, tmp_path / "page.html", X, y)
    open_page(driver, tmp_path / "page.html")
    line = driver.find_element("css selector", "#ranking-rest summary")
    assert line.text.startswith("remainder")
    names = driver.find_elements("css selector", "#ranking-rest .name")
    assert not any(name.is_displayed() for name in names)
    line.click()
    shown = [name.get_attribute("title") for name in names if name.is_displayed()]
    assert shown == [" × ".join(each.features) for each in model.remainder.largest]
    assert "There is a remainder" in driver.find_element("id", "lede").text
    assert "and nothing else" not in driver.find_element("id", "sum-note").text
    assert any("Without the remainder: held-out loss" in text for text in texts(driver, "#trust p"))
    assert texts(driver, "#terms tbody th, #terms > tr > th")[-1] == "remainder"
    assert texts(driver, "#sobol-rest .rank > span:first-child") == ["remainder"]
    driver.find_element("css selector", "#row option[value='4']").click()
    row = X.iloc[[int(np.linspace(0, 499, 200)[4])]]
    assert float(driver.find_element("id", "prediction").get_attribute("data-value")) == (
        pytest.approx(model.predict(row)[0], abs=1e-5)
    )
    check_sum_of_case(model, row, driver, downloads)
    with paper(driver):
        assert line.is_displayed()


def check_sum_of_case(model: AnovaModel, row: pd.DataFrame, driver: Any, downloads: Path) -> None:
    """Intercept and contributions of the exported case add up to its prediction."""
    from selenium.webdriver.support.wait import WebDriverWait

    path = downloads / "what-if.csv"
    path.unlink(missing_ok=True)
    driver.find_element("id", "export").click()
    WebDriverWait(driver, 20).until(lambda _: path.exists() and path.stat().st_size > 0)
    lines = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    sizes = [
        float(line["value"]) for line in lines if line["what"] in ("intercept", "contribution")
    ]
    (rest,) = (float(line["value"]) for line in lines if line["name"] == "remainder")
    assert rest == pytest.approx(model.remainder_scores(row)[0], abs=1e-5)
    assert sum(sizes) == pytest.approx(model.predict(row)[0], abs=1e-5)


def test_trees_that_are_too_large_leave_recorded_numbers(
    driver: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGEST_PACKED", 100)
    model, X = with_remainder(random_model(3, 2)), np.random.default_rng(0).normal(size=(30, 3))
    write_report(model, tmp_path / "page.html", X)
    assert payload(tmp_path / "page.html")["remainder"]["trees"] is None
    open_page(driver, tmp_path / "page.html")
    found = np.array(driver.execute_script(RAW))[:, 0]
    assert np.abs(found - model.raw_scores(X)).max() <= 1e-5 * Explanation(model).deviation()
    (note,) = texts(driver, "#rest")
    assert "too many trees for a page" in note
    core = replace(model, remainder=None)
    case = np.array([driver.execute_script("return report.values")])
    shown = float(driver.find_element("id", "prediction").get_attribute("data-value"))
    assert shown == pytest.approx(core.predict(case)[0], abs=1e-5)
    driver.find_element("css selector", "#row option[value='4']").click()
    (note,) = texts(driver, "#rest")
    assert note.startswith("remainder")


def test_edits_leave_the_remainder(
    mixed: Any, models: dict[str, AnovaModel], driver: Any, tmp_path: Path
) -> None:
    """Also where an edit makes finer nodes for a component that holds a part of the trees."""
    model, X = with_remainder(models["regression"]), mixed[0].dropna()
    write_report(model, tmp_path / "page.html", X)
    open_page(driver, tmp_path / "page.html")
    before = driver.execute_script(RESTS)
    choose(driver, "age")
    fill(driver, edit_from="33", edit_to="41", operation="add", edit_value="1.5")
    assert driver.execute_script(RESTS) == before
    rows = X.iloc[np.unique(np.linspace(0, len(X) - 1, 200).astype(int))]
    core = replace(model, remainder=None).edit("age", between=(33, 41), add=1.5)
    found = np.array(driver.execute_script(RAW))[:, 0]
    assert np.abs(found - core.raw_scores(rows) - model.remainder_scores(rows)).max() <= 1e-5


def test_the_sum_of_packed_trees_is_close_to_that_of_the_trees() -> None:
    model = with_remainder(random_model(4, 2), n_trees=300)
    assert model.remainder is not None
    found = packed_trees(model.remainder.trees, deviation=2.0)["packed"]
    assert 300 * found["step"] / 2 <= 2.0 * MAX_ERROR * 1.001


def test_five_thousand_trees_are_small_on_a_page() -> None:
    """Trees of 64 leaves take less than five bytes a leaf."""
    model = with_remainder(random_model(8, 2), n_trees=500, depth=6)
    assert model.remainder is not None
    trees = model.remainder.trees
    text = packed_trees(trees, deviation=float(trees.values.std()) * len(trees.roots) ** 0.5)
    assert len(text["packed"]["text"]) < 8 * len(trees.values)
