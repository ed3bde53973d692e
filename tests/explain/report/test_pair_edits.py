"""Edits of interactions in the page, in a real browser: as Python does them, to the same bits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.explain.report.editing import check_page, choose, exported, fill, opened
from tests.models import random_model, table_model
from tpnn import AnovaModel
from tpnn.lifecycle.edit.edit import replay
from tpnn.model.edit_log import digest

TOWNS = [f"town {letter}" for letter in "ABCDEFGHIJK"]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Numbers, levels with and without an order, more than pairs have nodes for, and gaps."""
    rng = np.random.default_rng(0)
    sizes = pd.Categorical.from_codes(rng.integers(0, 10, 200), list("abcdefghij"), ordered=True)
    frame = pd.DataFrame(
        {
            "income": rng.lognormal(size=200),
            "age": rng.integers(18, 90, 200),
            "town": rng.choice(TOWNS, 200, p=np.arange(11, 0, -1) / 66),
            "size": sizes,
        }
    )
    frame.loc[::9, "income"] = np.nan
    frame.loc[::13, "town"] = None
    return frame


@pytest.fixture(scope="module")
def model(frame: pd.DataFrame) -> AnovaModel:
    return table_model(frame, order=3)


BASES = """return report.data.components.filter(one => one.features.length === 1)
  .map(one => nodeValue(one.axes[0], one.base))"""
Step = tuple[tuple[str, ...], dict[str, Any], dict[str, Any]]
STEPS: tuple[Step, ...] = (
    (("income", "age"),
     {"edit_from": 0.45, "edit_to": 1.2, "edit_from_2": 30, "operation": "add", "edit_value": 0.75},
     {"between": {"income": (0.45, 1.2), "age": (30, None)}, "add": 0.75}),
    (("income", "town"),  # the rarest towns share a node of pairs, so some get their own
     {"edit_missing": True, "edit_nodes_2": ["town B", "town J"], "operation": "set to",
      "edit_value": -0.5},
     {"missing": ["income"], "levels": {"town": ["town B", "town J"]}, "set": -0.5}),
    (("age", "size"),
     {"edit_from": 40, "edit_nodes_2": ["c", "d"], "operation": "flatten"},
     {"between": {"age": (40, None)}, "levels": {"size": ["c", "d"]}, "flatten": True}),
    (("age", "town"),
     {"edit_from": 25, "edit_to": 70, "edit_missing_2": True,
      "operation": "smooth by a share of rows", "edit_value": 0.3},
     {"between": {"age": (25, 70)}, "missing": ["town"], "smooth": 0.3}),
    (("income", "size"), {"operation": "limit to", "edit_value": -0.5, "edit_high": 0.25},
     {"limit": (-0.5, 0.25)}),
    (("town", "size"), {"operation": "leave out"}, {"without": True}),
    (("income", "age", "town"),
     {"edit_from": 0.5, "edit_to_2": 60, "edit_nodes_3": ["town A", "town K"], "operation": "add",
      "edit_value": 1},
     {"between": {"income": (0.5, None), "age": (None, 60)},
      "levels": {"town": ["town A", "town K"]}, "add": 1}),
    (("age",), {"edit_from": 33, "edit_to": 44, "operation": "add", "edit_value": 0.2},
     {"between": (33, 44), "add": 0.2}),
)  # fmt: skip


def test_edits_by_numbers(
    model: AnovaModel, frame: pd.DataFrame, driver: Any, downloads: Path, tmp_path: Path
) -> None:
    """One of every kind, after one another, against the same edits in Python."""
    rows = opened(model, frame, driver, tmp_path / "page.html")
    expected, bases = model, driver.execute_script(BASES)
    for names, typed, change in STEPS:
        choose(driver, " × ".join(names))
        fill(driver, **typed)
        expected = expected.edit(names[0] if len(names) == 1 else names, **change)
        check_page(driver, expected, rows)
    parts = driver.execute_script(
        "return report.data.rows.map(row => report.model.explain(row).parts.map(part => part[0]))"
    )
    scores = dict(zip(expected.component_names, expected.component_scores(rows).T, strict=True))
    for place, names in enumerate(model.component_names):  # each component, not only their sum
        own = scores.get(names, np.zeros(len(rows)))
        assert np.abs(np.array(parts)[:, place] - own).max() <= 1e-4, names
    assert driver.execute_script(BASES) == bases  # finer nodes have other numbers
    again = replay(model, exported(driver, downloads))
    assert digest(again) == digest(expected)
    driver.execute_script("while (report.editor.edits.length) report.editor.undo()")
    check_page(driver, model, rows)


def test_cells_are_selected_by_dragging(
    model: AnovaModel, frame: pd.DataFrame, driver: Any, downloads: Path, tmp_path: Path
) -> None:
    """The form has what was dragged over, the chart and the rows change at once."""
    from selenium.webdriver import ActionChains

    rows = opened(model, frame, driver, tmp_path / "page.html")
    choose(driver, "age × town")
    driver.execute_script("document.getElementById('chart').scrollIntoView({block: 'center'})")
    case = driver.execute_script("return report.values")
    picture = "return document.querySelector('#chart image').getAttribute('href')"
    before = driver.execute_script(picture)
    ends = driver.execute_script(
        "const [x, y] = report.editor.drawing.scales, box = "
        "document.querySelector('#chart svg').getBoundingClientRect();"
        "return [box.left + x.at(35), box.top + y.at(1), box.left + x.at(52.4), box.top + y.at(3)]"
    )
    x1, y1, x2, y2 = map(round, ends)
    drag = ActionChains(driver)
    drag.w3c_actions.pointer_action.move_to_location(x1, y1).pointer_down()
    drag.w3c_actions.pointer_action.move_to_location(x2, y2).pointer_up()
    drag.perform()
    assert driver.execute_script("return report.values") == case
    low, high = (
        float(driver.find_element("id", name).get_property("value"))
        for name in ("edit-from", "edit-to")
    )
    assert abs(low - 35) <= 1
    assert abs(high - 52) <= 1
    chosen = driver.execute_script(
        "return [...document.getElementById('edit-nodes-2').selectedOptions].map(o => o.text)"
    )
    axis = model.encoder.axes[2][2]
    names = [str(axis.levels[node]) for node in (1, 2, 3)]
    assert sorted(chosen) == sorted(names)
    inside = frame["age"].between(low, high) & frame["town"].isin(names)
    words = f"{inside.sum()} of the 200 rows of this page are in it."
    assert words in driver.find_element("id", "edit-selected").text
    assert len(driver.find_elements("css selector", "#chart .selection rect")) == 2
    fill(driver, operation="add", edit_value=0.5)
    expected = model.edit(("age", "town"), between={"age": (low, high)}, levels={"town": names},
                          add=0.5)  # fmt: skip
    check_page(driver, expected, rows)
    assert driver.execute_script(picture) != before
    (edit,) = json.loads(exported(driver, downloads).read_text())["edits"]
    assert edit["between"] == {"age": [low, high]}
    assert digest(replay(model, downloads / "edits.json")) == digest(expected)
    driver.find_element("id", "edit-undo").click()
    check_page(driver, model, rows)
    assert driver.execute_script(picture) == before


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        (("x.from", "x.strip[1]"), {}),  # everything, gaps included
        (("x.strip[0] + 1", "x.to"), {"missing": True}),
        (("x.at(1)", "x.to"), {"low": 1, "high": None, "missing": True}),
        (("x.from", "x.end"), {"low": "the smallest", "high": None, "missing": False}),
        (("x.end", "x.at(1)"), {"low": 1, "high": None, "missing": False}),
        (("x.from - 40", "x.at(1)"), {"low": None, "high": 1, "missing": False}),
    ],
)
def test_what_a_drag_means(
    ends: tuple[str, str], expected: dict[str, Any], model: AnovaModel, driver: Any,
    frame: pd.DataFrame, tmp_path: Path,
) -> None:  # fmt: skip
    """At an edge there is no limit; missing values belong to it where their strip is touched."""
    opened(model, frame, driver, tmp_path / "page.html")
    choose(driver, "income × age")
    found = driver.execute_script(
        f"const [x] = report.editor.drawing.scales; return report.editor.span(x, {','.join(ends)})"
    )
    if expected.get("low") == "the smallest":
        expected = expected | {"low": model.encoder.axes[1][0].values[0]}
    assert found == expected


def test_a_pair_without_main_effects_gets_them(
    model: AnovaModel, frame: pd.DataFrame, driver: Any, downloads: Path, tmp_path: Path
) -> None:
    """They are listed, drawn and explained, until the edit is undone."""
    alone = model.restrict([s for s in model.components if len(s) == 2 and 3 not in s])
    rows = opened(alone, frame, driver, tmp_path / "page.html")
    count = "return document.querySelectorAll('#list .item').length"
    assert driver.execute_script(count) == 3
    choose(driver, "income × age")
    fill(driver, edit_from=0.5, edit_to_2=50, operation="add", edit_value=1)
    expected = alone.edit(
        ("income", "age"), between={"income": (0.5, None), "age": (None, 50)}, add=1
    )
    assert ("income",) in expected.component_names
    check_page(driver, expected, rows)
    assert driver.execute_script(count) == 5
    choose(driver, "income")
    assert "before the edits 0" in driver.find_element("id", "reading").text
    fill(driver, edit_from=1, edit_to="", operation="add", edit_value=0.5)
    expected = expected.edit("income", between=(1, None), add=0.5)
    check_page(driver, expected, rows)
    assert digest(replay(alone, exported(driver, downloads))) == digest(expected)
    for _ in range(2):
        driver.find_element("id", "edit-undo").click()
    check_page(driver, alone, rows)
    assert driver.execute_script(count) == 3


def test_the_output_shown_is_edited(driver: Any, downloads: Path, tmp_path: Path) -> None:
    model = random_model(3, 2, n_outputs=2)
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=["x0", "x1", "x2"])
    rows = opened(model, rows, driver, tmp_path / "page.html")
    driver.find_element("css selector", "#output option[value='1']").click()
    name = model.component_names[3]
    choose(driver, " × ".join(name))
    fill(driver, edit_from=-0.1, edit_to_2=0.2, operation="add", edit_value=0.5)
    between = {name[0]: (-0.1, None), name[1]: (None, 0.2)}
    expected = model.edit(name, between=between, add=0.5, output="output 1")
    check_page(driver, expected, rows)
    assert digest(replay(model, exported(driver, downloads))) == digest(expected)


def test_wrong_numbers_are_refused_in_the_page(
    model: AnovaModel, frame: pd.DataFrame, driver: Any, tmp_path: Path
) -> None:
    rows = opened(model, frame, driver, tmp_path / "page.html")
    choose(driver, "income × age")
    shapes = driver.find_elements("css selector", "#operation option[disabled]")
    assert len(shapes) == 2  # increasing and decreasing are for main effects
    for typed, message in (
        ({"edit_from": 3, "edit_to": 2}, "income: From must not exceed to."),
        ({"edit_from": "", "edit_to": "", "edit_from_2": 900}, "age: The model knows values"),
        ({"operation": "leave out", "edit_from_2": 30}, "leave the values out"),
    ):
        with pytest.raises(AssertionError, match=message):
            fill(driver, **typed)
    driver.find_element("id", "edit-all").click()
    assert driver.find_element("id", "edit-selected").text.startswith(
        "income: all values; age: all"
    )
    check_page(driver, model, rows)
