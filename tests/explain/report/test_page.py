"""The page in a real browser: it predicts what Python predicts, and can be used."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.explain.report.browser import open_page
from tests.lifecycle.foreign.test_ebm import with_pair
from tpnn import AnovaModel, TPNNRegressor, purify
from tpnn.explain.report import write_report

TASKS = ("regression", "two classes", "three classes", "quantiles", "order 3")
EQUAL = 1e-5


@pytest.mark.parametrize("task", TASKS)
def test_page_predicts_what_python_predicts(
    task: str, models: dict[str, AnovaModel], mixed: Any, driver: Any, tmp_path: Path
) -> None:
    """On every row that the page offers, missing values included."""
    model = models[task]
    X = np.random.default_rng(0).normal(size=(60, 3)) if task == "order 3" else mixed[0]
    write_report(model, tmp_path / "page.html", X)
    open_page(driver, tmp_path / "page.html")
    ask = "return report.data.rows.map(row => report.model.explain(row).predictions)"
    answers = np.array(driver.execute_script(ask))
    chosen = np.unique(np.linspace(0, len(X) - 1, min(len(X), 200)).astype(int))
    rows = X[chosen] if task == "order 3" else X.iloc[chosen]
    expected = model.predict(rows).reshape(len(rows), -1)
    assert np.abs(answers - expected).max() <= EQUAL
    driver.execute_script("report.ranked.forEach(i => report.choose(i))")
    assert driver.get_log("browser") == []


def test_page_adds_the_offset_of_a_row(exposed: Any, driver: Any, tmp_path: Path) -> None:
    model, X, y, offset = exposed
    model.report(tmp_path / "page.html", X[:20], y[:20], offset=offset[:20])
    open_page(driver, tmp_path / "page.html")
    driver.find_element("css selector", "#row option[value='4']").click()
    expected = model.predict(X[4:5], offset[4:5])[0]
    assert shown_number(driver) == pytest.approx(expected, rel=1e-5)
    driver.find_element("id", "reset").click()
    middle = driver.execute_script("return report.values")
    assert shown_number(driver) == pytest.approx(model.predict([middle], [0.0])[0], rel=1e-5)


def test_page_tells_unseen_from_missing(mixed: Any, fast: Any, driver: Any, tmp_path: Path) -> None:
    """In a nominal and in an ordered feature that have a node for missing values."""
    X, y = mixed
    grade = X["grade"].where(np.arange(len(X)) % 5 > 0)
    X = X.assign(grade=grade)
    model = TPNNRegressor(**fast).fit(X, y + 3 * grade.isna() + 2 * X.iloc[:, 2].isna()).model_
    new = X[:40].astype({"grade": str}).assign(**{"town </script>": "Rome"})
    new["grade"] = pd.Categorical(np.where(np.arange(40) % 2, "mid", "best"), ["mid", "best"])
    with pytest.warns(UserWarning, match="^X: levels or missing values that fit has not seen"):
        write_report(model, tmp_path / "page.html", new)
    open_page(driver, tmp_path / "page.html")
    ask = "return report.data.rows.map(row => report.model.explain(row).predictions[0])"
    answers = np.array(driver.execute_script(ask))
    with pytest.warns(UserWarning, match="^X: levels"):
        expected = model.predict(new)
    assert np.abs(answers - expected).max() <= EQUAL
    driver.find_element("css selector", "#row option[value='0']").click()
    assert driver.find_element("id", "value-2").get_attribute("value") == "unseen"
    driver.execute_script("report.ranked.forEach(i => report.choose(i))")
    assert driver.get_log("browser") == []


def test_page_knows_nodes_of_unseen_levels(driver: Any, tmp_path: Path) -> None:
    """An EBM has scores for them; a click on their place in a chart chooses them."""
    model = purify(with_pair(missing=5.0))
    rows = pd.DataFrame({"a": [0.0, 9.0, np.nan], "b": 0.0, "k": ["u", "new", "new"]})
    write_report(model, tmp_path / "page.html", rows)
    open_page(driver, tmp_path / "page.html")
    ask = "return report.data.rows.map(row => report.model.explain(row).predictions[0])"
    assert np.abs(np.array(driver.execute_script(ask)) - model.predict(rows)).max() <= EQUAL
    click = """
      const k = report.data.features.findIndex(feature => feature.name === "k");
      const axis = report.model.axes[1][k];
      const scale = new Scale(report.data.features[k], axis, axis, 0, 100);
      return [0, 1, 2].map(node => scale.value(scale.at(node)))"""
    assert driver.execute_script(click) == [0, 1, "unseen"]


def test_page_of_a_column_without_values(
    mixed: Any, fast: Any, driver: Any, tmp_path: Path
) -> None:
    X, y = mixed
    X = X[["age"]].assign(empty=np.nan)
    listed = [("age",), ("empty",), ("age", "empty")]
    model = TPNNRegressor(**{**fast, "interactions": "auto"}, components=listed).fit(X, y)
    model.report(tmp_path / "page.html", X, y)
    open_page(driver, tmp_path / "page.html")
    driver.execute_script("report.ranked.forEach(i => report.choose(i))")
    case = driver.execute_script("return report.values")
    assert case[1] is None
    expected = model.predict(np.array([case], float))[0]
    assert shown_number(driver) == pytest.approx(expected, abs=2e-5)
    assert driver.get_log("browser") == []


def test_page_names_the_class(models: dict[str, AnovaModel], driver: Any, tmp_path: Path) -> None:
    write_report(models["two classes"], tmp_path / "page.html", target="a rise")
    open_page(driver, tmp_path / "page.html")
    name = driver.find_element("id", "answer-name").get_property("textContent")
    assert name == "a rise: probability of True"
    assert driver.find_element("id", "base").text.startswith("log-odds of True: ")


def shown_number(driver: Any) -> float:
    return float(driver.find_element("id", "prediction").get_attribute("data-value"))


def test_moving_a_slider_moves_the_prediction(
    models: dict[str, AnovaModel], mixed: Any, driver: Any, page: Path
) -> None:
    from selenium.webdriver.common.keys import Keys

    X, _ = mixed
    open_page(driver, page)
    driver.find_element("css selector", "#row option[value='4']").click()
    row = X.iloc[[int(np.linspace(0, 499, 200)[4])]].copy()
    assert shown_number(driver) == pytest.approx(models["regression"].predict(row)[0], abs=2e-5)
    for name in ("income", "age"):
        number = list(X).index(name)
        slider = driver.find_element("css selector", f".control:has(#value-{number}) .slider")
        before = shown_number(driver)
        slider.send_keys(Keys.ARROW_RIGHT * 40)
        row[name] = float(driver.find_element("id", f"value-{number}").get_attribute("value"))
        assert shown_number(driver) != before
        assert shown_number(driver) == pytest.approx(models["regression"].predict(row)[0], abs=2e-5)
    grade = driver.find_element("css selector", "#value-3 option[value='2']")
    grade.click()
    row["grade"] = pd.Categorical(["top"], ["low", "mid", "top"], ordered=True)
    missing = driver.find_element("id", "missing-0")
    missing.click()
    row["income"] = np.nan
    assert shown_number(driver) == pytest.approx(models["regression"].predict(row)[0], abs=2e-5)
    assert driver.get_log("browser") == []


def test_every_component_can_be_looked_at(
    models: dict[str, AnovaModel], driver: Any, page: Path
) -> None:
    from selenium.webdriver.common.keys import Keys

    open_page(driver, page)
    names = {" × ".join(names) for names in models["regression"].component_names}
    seen = set()
    driver.find_element("id", "list-all").click()
    items = driver.find_elements("css selector", "#list .item")
    for item in items:
        item.click()
        seen.add(driver.find_element("id", "chart-title").text)
        assert driver.find_elements("css selector", "#chart svg")
    assert seen == names
    driver.find_element("id", "list").send_keys(Keys.ARROW_UP)
    title = driver.find_element("id", "chart-title").text
    chosen = driver.find_element("css selector", ".item[aria-selected=true] span")
    assert title == chosen.get_attribute("title")
    driver.find_element("id", "filter").send_keys("age grade")
    assert [item.text for item in items if item.is_displayed()] == ["age × grade"]
    assert driver.get_log("browser") == []


def test_clicking_a_chart_chooses_the_value(driver: Any, page: Path) -> None:
    from selenium.common.exceptions import StaleElementReferenceException
    from selenium.webdriver import ActionChains
    from selenium.webdriver.support.wait import WebDriverWait

    open_page(driver, page)
    driver.execute_script("report.choose(report.data.components.findIndex(c => c.name === 'age'))")
    before = driver.execute_script("return report.values[1]")

    def click(driver: Any) -> bool:
        chart = driver.find_element("css selector", "#chart svg")
        ActionChains(driver).move_to_element_with_offset(chart, 120, 0).click().perform()
        return bool(driver.execute_script("return report.values[1]") != before)

    redrawn = [StaleElementReferenceException]  # a chart may be drawn again before it is clicked
    assert WebDriverWait(driver, 30, ignored_exceptions=redrawn).until(click)


def test_export_adds_up(driver: Any, page: Path, downloads: Path) -> None:
    from selenium.webdriver.support.wait import WebDriverWait

    open_page(driver, page)
    driver.find_element("id", "export").click()
    path = downloads / "what-if.csv"
    WebDriverWait(driver, 30).until(lambda _: path.exists())
    lines = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    parts = [
        float(line["value"]) for line in lines if line["what"] in ("intercept", "contribution")
    ]
    (answer,) = (float(line["value"]) for line in lines if line["what"] == "prediction")
    assert sum(parts) == pytest.approx(answer)


def test_no_spreadsheet_runs_what_is_exported(
    driver: Any, downloads: Path, fast: Any, tmp_path: Path
) -> None:
    from selenium.webdriver.support.wait import WebDriverWait

    names = ["=cmd|' /C calc'!A0", "@SUM(1)", "-1"]
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 3)), columns=names)
    X["level"] = np.where(X["-1"] > 0, "+1+1", "-2+3")
    model = TPNNRegressor(**fast).fit(X, X.sum(axis=1, numeric_only=True) + (X["-1"] > 0))
    model.report(tmp_path / "page.html", X, target="=1+1")
    open_page(driver, tmp_path / "page.html")
    (downloads / "what-if.csv").unlink(missing_ok=True)
    driver.find_element("id", "export").click()
    path = downloads / "what-if.csv"
    WebDriverWait(driver, 30).until(lambda _: path.exists())
    lines = path.read_text(encoding="utf-8").splitlines()
    cells = [cell for line in csv.reader(lines) for cell in line]
    path.unlink()
    assert {f"'{names[0]}", f"'{names[1]}", "-1", "'=1+1"} <= set(cells)
    assert {"'+1+1", "'-2+3"} & set(cells)
    odd = [cell for cell in cells if cell.startswith(tuple("=+-@"))]
    assert np.isfinite([float(cell) for cell in odd]).all()


def test_only_the_script_of_the_page_runs(driver: Any, page: Path, tmp_path: Path) -> None:
    """Whatever else gets into a page: the browser refuses it."""
    text = page.read_text(encoding="utf-8")
    (tmp_path / "page.html").write_text(
        text.replace(
            "</main>", "<img src=x onerror='window.hit=1'><script>window.hit=1</script></main>"
        ),
        encoding="utf-8",
    )
    driver.get((tmp_path / "page.html").as_uri())
    assert driver.execute_script("return window.hit === undefined && report.values !== undefined")
    refused = [entry["message"] for entry in driver.get_log("browser")]
    assert len(refused) >= 2
    assert all("Content Security Policy" in message for message in refused)


@pytest.mark.parametrize("width", [360, 800, 1280])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_fits_every_width_in_both_themes(driver: Any, page: Path, width: int, theme: str) -> None:
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    features = [{"name": "prefers-color-scheme", "value": theme}]
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        open_page(driver, page)
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width
        paper = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        lightness = np.mean([int(part) for part in re.findall(r"\d+", paper)[:3]])
        assert (lightness > 128) == (theme == "light")
        driver.find_element("id", "theme").click()
        other = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert other != paper
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
