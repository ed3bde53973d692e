"""A page whose model is edited in a real browser, as a person does it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.explain.report.browser import open_page
from tpnn import AnovaModel
from tpnn.explain.report import write_report

EQUAL = 1e-5
UNCHOSEN = """return [...arguments[0].options]
  .filter(option => arguments[1].includes(option.text) && !option.selected)"""
PREDICTIONS = """
  const {data, model} = report;
  return data.rows.map((row, i) => model.explain(row, data.offsets[i]).predictions)"""


def opened(model: AnovaModel, X: Any, driver: Any, path: Path) -> Any:
    """Open a page with the rows that it shows, and return these rows."""
    write_report(model, path, X)
    open_page(driver, path)
    return X.iloc[np.unique(np.linspace(0, len(X) - 1, min(len(X), 200)).astype(int))]


def choose(driver: Any, name: str) -> None:
    """Show a component and open the panel below it."""
    driver.execute_script(
        "report.choose(report.data.components.findIndex(c => c.name === arguments[0]));"
        "document.getElementById('edit').open = true; report.showChart();",
        name,
    )


def fill(driver: Any, **fields: Any) -> None:
    """Type into the form and apply it, as a person does."""
    for name, value in fields.items():
        field = driver.find_element("id", name.replace("_", "-"))
        if field.tag_name == "select":
            wanted = [value] if isinstance(value, str) else value
            for option in driver.execute_script(UNCHOSEN, field, wanted):
                option.click()
        elif field.get_attribute("type") == "checkbox":
            field.click()
        else:
            field.clear()
            field.send_keys(str(value))
    driver.find_element("id", "edit-apply").click()
    problem = driver.find_element("id", "edit-problem").get_property("textContent")
    assert problem == "", problem


def explain_edit(driver: Any, why: str = "a reason", by: str = "a person") -> None:
    """Say why the last edit was made, and by whom."""
    for selector, text in (("#edit-list input", why), ("#edit-by", by)):
        field = driver.find_element("css selector", selector)
        field.clear()
        field.send_keys(text)


def exported(driver: Any, downloads: Path) -> Path:
    """Export the edit file and wait until it is there."""
    from selenium.webdriver.support.wait import WebDriverWait

    path = downloads / "edits.json"
    path.unlink(missing_ok=True)
    driver.find_element("id", "edit-export").click()
    if driver.find_element("id", "edit-asked").text:  # it asks once for reasons that are missing
        driver.find_element("id", "edit-export").click()
    WebDriverWait(driver, 20).until(lambda _: path.exists() and path.stat().st_size > 0)
    return path


def check_page(driver: Any, edited: AnovaModel, rows: Any) -> None:
    """The page predicts what the edited model predicts."""
    shown = np.array(driver.execute_script(PREDICTIONS))
    assert np.abs(shown - edited.predict(rows).reshape(len(rows), -1)).max() <= EQUAL
    assert driver.get_log("browser") == []
