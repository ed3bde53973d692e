"""Edits in the page, in a real browser: Python replays the exported file to the same bits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.explain.report.browser import open_page, wait_until_ready
from tests.explain.report.editing import check_page, choose, explain_edit, exported, fill, opened
from tpnn import AnovaModel, TPNNRegressor
from tpnn.explain.report import write_report
from tpnn.lifecycle.edit.edit import replay
from tpnn.model.edit_log import digest
from tpnn.table.words import column


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


def drag(driver: Any, place: int, upwards: int, alone: bool = False) -> None:
    """Drag the handle at a place of the list of handles, with Shift or without."""
    from selenium.webdriver import ActionChains, Keys

    driver.execute_script("document.getElementById('chart').scrollIntoView({block: 'center'})")
    handle = driver.find_elements("css selector", "#chart .handle")[place]
    chain = ActionChains(driver).key_down(Keys.SHIFT) if alone else ActionChains(driver)
    chain.drag_and_drop_by_offset(handle, 0, -upwards).key_up(Keys.SHIFT).perform()


@pytest.mark.parametrize("alone", [False, True])
def test_an_edit_by_dragging(
    alone: bool, models: dict[str, AnovaModel], mixed: Any, driver: Any, downloads: Path,
    tmp_path: Path,
) -> None:  # fmt: skip
    """A point follows the pointer and its neighbours follow it; with Shift it moves alone."""
    model = models["two classes"]
    rows = opened(model, mixed[0], driver, tmp_path / "page.html")
    choose(driver, "age")
    handles = driver.find_elements("css selector", "#chart .handle")
    middle = len(handles) // 2
    node = int(handles[middle].get_attribute("data-node"))
    x = driver.execute_script("return report.model.axes[1][1].values[arguments[0]]", node)
    driver.execute_script("report.set(1, arguments[0])", x)  # the case is where the node is
    before = driver.find_element("id", "prediction").text
    drag(driver, middle, 60, alone)
    asked = driver.execute_script("return document.activeElement.getAttribute('aria-label')")
    assert asked == "Why edit 1 was made"
    document = json.loads(exported(driver, downloads).read_text())
    (edit,) = document["edits"]
    axis, table = model.encoder.axes[1][1], model.tables[model.components.components.index((1,))]
    places, effects = np.array(edit["points"]).T
    nodes = np.searchsorted(axis.values, places)
    assert (axis.values[nodes] == places).all()
    moves = effects - table[nodes, 0]
    assert moves[list(nodes).index(node)] > 0
    if alone:
        assert places.tolist() == [x]
    else:  # a bell around the point, on the axis as it is drawn
        assert len(places) > 3
        width = driver.execute_script(
            "const {low, high} = new Scale(report.data.features[1], report.model.fitAxes[1],"
            "report.model.fitAxes[1], 0, 1); return report.editor.brush * (high - low)"
        )
        bell = moves.max() * np.exp(-(((places - x) / width) ** 2) / 2)
        assert np.allclose(moves, bell, atol=2e-5)
    again = replay(model, downloads / "edits.json")
    assert digest(again) == digest(model.edit("age", points=dict(edit["points"])))
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


def test_edits_of_a_periodic_feature_go_round(
    fast: Any, driver: Any, downloads: Path, tmp_path: Path
) -> None:
    """An edited axis still wraps, and the brush reaches over the end of the period."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"hour": rng.uniform(0, 24, 300), "load": rng.normal(size=300)})
    y = np.cos(2 * np.pi * X["hour"] / 24) + X["load"]
    model = TPNNRegressor(**fast, periodic={"hour": 24}).fit(X, y).model_
    later = X.assign(hour=X["hour"] + 48)
    rows = opened(model, later, driver, tmp_path / "page.html")
    choose(driver, "hour")
    fill(driver, edit_from=3.5, edit_to=8.25, operation="add", edit_value=0.5)
    drag(driver, 0, 40)
    exported(driver, downloads)
    edits = json.loads((downloads / "edits.json").read_text())["edits"]
    places = np.array([x for x, _ in edits[1]["points"]])
    assert places.min() < 3 < 21 < places.max()
    assert not ((places > 8) & (places < 16)).any()
    check_page(driver, replay(model, downloads / "edits.json"), rows)


def test_the_width_of_the_brush_follows_keys_and_slider(
    models: dict[str, AnovaModel], mixed: Any, driver: Any, tmp_path: Path
) -> None:
    from selenium.webdriver import ActionChains

    opened(models["two classes"], mixed[0], driver, tmp_path / "page.html")
    choose(driver, "age")
    ask = "return [report.editor.brush, +document.getElementById('brush').value]"
    narrow, shown = driver.execute_script(ask)
    assert shown == narrow
    ActionChains(driver).send_keys("]]").perform()
    wide, shown = driver.execute_script(ask)
    assert shown == pytest.approx(wide) == pytest.approx(narrow * 1.44)
    ActionChains(driver).send_keys("[" * 40).perform()
    assert driver.execute_script(ask)[0] == 0.01
    choose(driver, "grade")
    assert not driver.find_element("id", "brush-pick").is_displayed()


def test_edits_stay_when_the_page_is_left(
    models: dict[str, AnovaModel], mixed: Any, driver: Any, downloads: Path, tmp_path: Path
) -> None:
    """The browser keeps them with their reasons; the page says so, and leaves them out if asked."""
    model = models["regression"]
    rows = opened(model, mixed[0], driver, tmp_path / "page.html")
    assert not driver.find_element("id", "edited").is_displayed()
    choose(driver, "age")
    fill(driver, edit_from=30, edit_to=50, operation="add", edit_value=0.5)
    explain_edit(driver, why="expert", by="Ada")
    drag(driver, 3, 30)
    first = json.loads(exported(driver, downloads).read_text())
    driver.get("about:blank")
    driver.get((tmp_path / "page.html").as_uri())
    wait_until_ready(driver)
    assert driver.find_element("id", "edited").is_displayed()
    assert json.loads(exported(driver, downloads).read_text()) == first
    assert [edit["by"] for edit in first["edits"]] == ["Ada", "Ada"]
    check_page(driver, replay(model, downloads / "edits.json"), rows)
    driver.execute_script("document.getElementById('edited-leave').click()")
    check_page(driver, model, rows)
    driver.refresh()
    wait_until_ready(driver)
    assert driver.execute_script("return report.editor.edits") == []


def test_edits_made_since_stay_when_those_of_an_earlier_visit_are_left_out(
    models: dict[str, AnovaModel], mixed: Any, driver: Any, downloads: Path, tmp_path: Path
) -> None:
    model = models["regression"]
    rows = opened(model, mixed[0], driver, tmp_path / "page.html")
    choose(driver, "age")
    fill(driver, edit_from=30, edit_to=50, operation="add", edit_value=0.5)
    driver.refresh()
    wait_until_ready(driver)
    choose(driver, "income")
    fill(driver, edit_from=1, operation="multiply by", edit_value=0.5)
    assert driver.find_element("id", "edited").is_displayed()
    driver.execute_script("document.getElementById('edited-leave').click()")
    assert not driver.find_element("id", "edited").is_displayed()
    edited = replay(model, exported(driver, downloads))
    check_page(driver, edited, rows)
    check_page(driver, model.edit("income", between=(1, None), scale=0.5), rows)
    driver.execute_script("report.editor.undo()")
    check_page(driver, model, rows)


def test_a_damaged_entry_of_the_browser_does_not_stop_the_page(
    models: dict[str, AnovaModel], mixed: Any, driver: Any, tmp_path: Path
) -> None:
    rows = opened(models["regression"], mixed[0], driver, tmp_path / "page.html")
    for damaged in ("[{", "5", '[{"component": ["none"], "add": 1}]'):
        ask = "localStorage.setItem(`tpnn edits ${report.data.digest}`, arguments[0])"
        driver.execute_script(ask, damaged)
        driver.refresh()
        wait_until_ready(driver)
        assert not driver.find_element("id", "edited").is_displayed()
        check_page(driver, models["regression"], rows)


def test_export_asks_once_for_what_is_missing(
    models: dict[str, AnovaModel], mixed: Any, driver: Any, tmp_path: Path
) -> None:
    opened(models["regression"], mixed[0], driver, tmp_path / "page.html")
    choose(driver, "age")
    fill(driver, edit_from=30, operation="add", edit_value=0.5)
    for missing, field in (("why each edit was made", "#edit-list input"), ("who", "#edit-by")):
        driver.execute_script("report.editor.isAsked = false")
        driver.find_element("id", "edit-export").click()
        assert missing in driver.find_element("id", "edit-asked").text
        place = driver.find_element("css selector", field)
        assert driver.switch_to.active_element == place
        place.send_keys("text")


@pytest.mark.parametrize("task", ["regression", "three classes", "quantiles"])
def test_the_loss_on_the_rows_is_that_of_python(
    task: str, models: dict[str, AnovaModel], mixed: Any, driver: Any, tmp_path: Path
) -> None:
    model, (X, y) = models[task], mixed
    labels = np.array(["a", "b", "c"])[np.digitize(y, [-0.5, 0.7])]
    write_report(model, tmp_path / "page.html", X, labels if task == "three classes" else y)
    open_page(driver, tmp_path / "page.html")
    output = driver.execute_script("return report.output")
    choose(driver, "age")
    fill(driver, operation="add", edit_value=0.4, edit_from=30, edit_to=60)
    words = driver.find_element("id", "edit-effect").text
    name = {"output": model.output_names[output]} if model.output_names else {}
    edited = model.edit("age", between=(30, 60), add=0.4, **name)
    places = np.unique(np.linspace(0, len(X) - 1, 200).astype(int))
    losses = [loss(task, m, X.iloc[places], y[places], labels[places], output)
              for m in (model, edited)]  # fmt: skip
    difference = abs(losses[1] - losses[0])
    assert " to ".join(column(losses, difference / 5)) in words
    assert ("worse" in words) or ("better" in words) or ("no clear difference" in words)


def loss(task: str, model: AnovaModel, X: Any, y: Any, labels: Any, output: int) -> float:
    """Loss as the page reports it, from predictions of Python."""
    means = model.predict(X)
    if task == "three classes":
        return float(
            -np.log(means[np.arange(len(X)), np.searchsorted(model.classes, labels)]).mean()
        )
    if task == "quantiles":
        level, errors = float(model.output_names[output]), y.to_numpy() - means[:, output]
        return float(np.maximum(level * errors, (level - 1) * errors).mean())
    return float(np.sqrt(np.mean((y - means) ** 2)))


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
    fill(driver, edit_from=20, edit_to=44, operation="add", edit_value=0.5)
    explain_edit(driver, why="a test")
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
