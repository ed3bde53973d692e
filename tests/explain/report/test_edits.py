"""Edits in the page, in a real browser: Python replays the exported file to the same bits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.explain.report.editing import check_page, choose, exported, fill, opened
from tpnn import AnovaModel
from tpnn.lifecycle.edit.edit import replay
from tpnn.model.edit_log import digest


def test_edits_by_numbers(
    models: dict[str, AnovaModel], mixed: Any, driver: Any, downloads: Path, tmp_path: Path
) -> None:
    """One of every kind, after one another, against the same edits in Python."""
    model = models["regression"]
    rows = opened(model, mixed[0], driver, tmp_path / "page.html")
    town = "town </script>"
    steps: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("age", {"edit_from": 30.5, "edit_to": 41, "operation": "add", "edit_value": 0.75},
         {"between": (30.5, 41), "add": 0.75}),
        ("age", {"edit_from": 30.5, "edit_to": 60, "operation": "smooth by a share of rows",
                 "edit_value": 0.2}, {"between": (30.5, 60), "smooth": 0.2}),
        ("age", {"edit_from": 70, "edit_to": "", "operation": "flatten"},
         {"between": (70, None), "flatten": True}),
        ("income", {"edit_from": "", "edit_to": "", "edit_missing": True, "operation": "set to",
                    "edit_value": -0.5}, {"missing": True, "set": -0.5}),
        ("income", {"operation": "limit to", "edit_value": -0.4, "edit_high": 0.6,
                    "edit_missing": True}, {"limit": (-0.4, 0.6)}),
        (town, {"edit_nodes": ["Ulm"], "operation": "multiply by", "edit_value": -2},
         {"levels": ["Ulm"], "scale": -2}),
        ("since", {"operation": "leave out"}, {"without": True}),
        ("grade", {"edit_nodes": ["mid", "top"], "operation": "add", "edit_value": 0.25},
         {"levels": ["mid", "top"], "add": 0.25}),
    ]  # fmt: skip
    expected = model
    for name, typed, change in steps:
        choose(driver, name)
        fill(driver, **typed)
        expected = expected.edit(name, **change)
        check_page(driver, expected, rows)
    again = replay(model, exported(driver, downloads))
    assert digest(again) == digest(expected)
    assert all(map(np.array_equal, again.tables, expected.tables))
    assert len(again.log()) == len(steps)


def test_an_edit_by_dragging(
    models: dict[str, AnovaModel], mixed: Any, driver: Any, downloads: Path, tmp_path: Path
) -> None:
    """A node follows the pointer; the file has its value and its effect as numbers."""
    from selenium.webdriver import ActionChains

    model = models["two classes"]
    rows = opened(model, mixed[0], driver, tmp_path / "page.html")
    choose(driver, "age")
    before = driver.find_element("id", "prediction").text
    handles = driver.find_elements("css selector", "#chart .handle")
    handle = handles[len(handles) // 2]
    node = int(handle.get_attribute("data-node"))
    driver.execute_script("document.getElementById('chart').scrollIntoView({block: 'center'})")
    x = driver.execute_script("return report.model.axes[1][1].values[arguments[0]]", node)
    driver.execute_script("report.set(1, arguments[0])", x)  # the case is where the node is
    before = driver.find_element("id", "prediction").text
    handle = driver.find_element("css selector", f"#chart .handle[data-node='{node}']")
    ActionChains(driver).drag_and_drop_by_offset(handle, 0, -60).perform()
    document = json.loads(exported(driver, downloads).read_text())
    (edit,) = document["edits"]
    ((place, effect),) = edit["points"]
    assert place == x == model.encoder.axes[1][1].values[node]
    assert effect > model.tables[model.components.components.index((1,))][node, 0]
    again = replay(model, downloads / "edits.json")
    assert digest(again) == digest(model.edit("age", points={place: effect}))
    check_page(driver, again, rows)
    assert driver.find_element("id", "prediction").text != before
    words = driver.find_element("id", "edit-effect").text
    changed = np.abs(again.predict(rows) - model.predict(rows)) > 1e-9
    assert f"{changed.sum()} of {len(rows)} rows change" in words
    now = driver.find_element("id", "prediction").text
    case = driver.find_element("id", "edit-case").text
    assert case == f"The case above: {before} → {now}."
    driver.find_element("id", "edit-undo").click()
    check_page(driver, model, rows)
    assert not driver.find_element("id", "edits").is_displayed()
    assert driver.find_element("id", "prediction").text == before


@pytest.mark.parametrize("shape", ["increasing", "decreasing"])
def test_a_feature_without_interactions_becomes_monotone(
    shape: str, models: dict[str, AnovaModel], mixed: Any, driver: Any, downloads: Path,
    tmp_path: Path,
) -> None:  # fmt: skip
    model = models["regression"]
    mains = model.restrict([s for s in model.components if len(s) == 1])
    rows = opened(mains, mixed[0], driver, tmp_path / "page.html")
    choose(driver, "income")
    fill(driver, edit_from=0.4, edit_to=0.9, operation="add", edit_value=-0.3)
    fill(driver, edit_from="", edit_to="", operation=f"make {shape}")
    expected = mains.edit("income", between=(0.4, 0.9), add=-0.3).edit("income", shape=shape)
    check_page(driver, expected, rows)
    assert digest(replay(mains, exported(driver, downloads))) == digest(expected)


@pytest.mark.parametrize("task", ["three classes", "quantiles"])
def test_the_output_shown_is_edited(
    task: str, models: dict[str, AnovaModel], mixed: Any, driver: Any, downloads: Path,
    tmp_path: Path,
) -> None:  # fmt: skip
    model = models[task]
    rows = opened(model, mixed[0], driver, tmp_path / "page.html")
    driver.find_element("css selector", "#output option[value='1']").click()
    choose(driver, "age")
    fill(driver, edit_from=20, edit_to=44, operation="add", edit_value=0.5, edit_why="a test")
    name = model.output_names[1]
    expected = model.edit("age", between=(20, 44), add=0.5, output=name)
    check_page(driver, expected, rows)
    again = replay(model, exported(driver, downloads))
    assert digest(again) == digest(expected)
    assert again.log()[0]["why"] == "a test"


def test_wrong_numbers_are_refused_in_the_page(
    models: dict[str, AnovaModel], mixed: Any, driver: Any, tmp_path: Path
) -> None:
    rows = opened(models["regression"], mixed[0], driver, tmp_path / "page.html")
    choose(driver, "age")
    for typed, message in (
        ({"edit_from": 200, "edit_to": 300}, "The model knows values from 18 to 8"),
        ({"edit_from": 40, "edit_to": 30}, "From must not exceed to."),
        ({"edit_from": 30, "edit_to": 40, "edit_value": ""}, "A number is needed."),
    ):
        with pytest.raises(AssertionError, match=message):
            fill(driver, **typed)
    with pytest.raises(AssertionError, match="This feature has interactions"):
        fill(driver, edit_from="", edit_to="", operation="make increasing")
    check_page(driver, models["regression"], rows)


def test_the_page_of_an_edited_model_lists_its_edits(
    models: dict[str, AnovaModel], mixed: Any, driver: Any, tmp_path: Path
) -> None:
    edited = models["regression"].edit("age", add=0.5, between=(30, 40), why="a test", by="Ada")
    opened(edited, mixed[0], driver, tmp_path / "page.html")
    words = driver.find_element("id", "edits-block").text
    assert 'age: add=0.5, between={"age": [30.0, 40.0]}' in words
    assert "a test; Ada; 20" in words
    opened(models["regression"], mixed[0], driver, tmp_path / "page.html")
    assert not driver.find_element("id", "edits-block").is_displayed()


def test_the_page_of_an_edited_model_has_no_void_band(
    models: dict[str, AnovaModel], mixed: Any, driver: Any, tmp_path: Path
) -> None:
    model = models["regression"]
    edited = model.edit("age", between=(30, 40), add=0.5)
    opened(edited, mixed[0], driver, tmp_path / "page.html")
    for name, is_known in (("age", False), ("income", model.evidence.posteriors is not None)):
        choose(driver, name)
        words = driver.find_element("id", "values").text
        assert ("not known" in words) != is_known
    check_page(driver, edited, mixed[0].iloc[np.unique(np.linspace(0, 499, 200).astype(int))])
