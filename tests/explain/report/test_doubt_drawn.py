"""The page draws doubt: grey components with whiskers, faded and hatched cells, intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.explain.report.browser import open_page
from tpnn import AnovaModel, TPNNRegressor
from tpnn.explain.report import write_report

DOUBT = """const component = report.data.components.find(c => c.features.length === 2);
  return [component.name, Array.from(component.faded[0]), Array.from(component.hatched)]"""
WHISKERS = """return [...document.querySelectorAll('#ranking .rank')].slice(1).map(line => [
  line.querySelector('.name').title,
  line.querySelector('.whisker') && [line.querySelector('.whisker').style.left,
    line.querySelector('.whisker').style.width].map(parseFloat),
  line.querySelector('i').className])"""
INTERVALS = "return document.querySelectorAll('#curves .interval').length"
STROKE = "return document.querySelector('#chart path.hatched') !== null"


@pytest.fixture(scope="module")
def noisy(fast: Any) -> tuple[TPNNRegressor, pd.DataFrame, pd.Series]:
    """One true effect, one feature of noise, and a pair whose features are nearly the same."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=600)
    X = pd.DataFrame({"x": x, "twin": x + 0.05 * rng.normal(size=600), "z": rng.normal(size=600)})
    y = pd.Series(X["x"] + rng.normal(size=600))
    listed = [("x",), ("z",), ("x", "twin")]
    fast = {**fast, "interactions": "auto"}
    return TPNNRegressor(**fast, components=listed).fit(X, y), X, y


def test_what_may_be_nothing_is_grey_and_has_a_whisker(
    noisy: Any, driver: Any, tmp_path: Path
) -> None:
    model, X, y = noisy
    model.report(tmp_path / "page.html", X, y)
    open_page(driver, tmp_path / "page.html")
    lines = {line.component: line for line in model.summary().lines}
    largest = max(line.importance for line in lines.values())
    shown = driver.execute_script(WHISKERS)
    assert {name for name, *_ in shown} == {name.replace(" x ", " × ") for name in lines}
    for name, (left, width), colour in shown:
        line = lines[name.replace(" × ", " x ")]
        ends = np.minimum([100 * line.lower / largest, 100 * line.upper / largest], 100)
        assert [left, left + width] == pytest.approx(ends, abs=0.01)
        assert (colour == "unclear") == (line.lower == 0)
    assert {colour for *_, colour in shown} >= {"", "unclear"}


def test_cells_of_the_page_are_those_of_the_model(noisy: Any, driver: Any, tmp_path: Path) -> None:
    """With rows the corners where no row is are hatched; without them nothing is known of rows."""
    model, X, y = noisy
    for rows in ((X, y), ()):
        model.report(tmp_path / "page.html", *rows)
        open_page(driver, tmp_path / "page.html")
        name, faded, hatched = driver.execute_script(DOUBT)
        lower, upper = model.explain().component(tuple(name.split(" × "))).band
        assert np.array_equal(faded, ((lower <= 0) & (upper >= 0)).ravel().astype(int))
        grid = np.array(hatched).reshape(lower.shape)
        driver.execute_script(
            "report.choose(report.data.components.findIndex(c => c.features.length === 2))"
        )
        assert driver.execute_script(STROKE) == bool(rows)
        assert bool(grid[0, -1]) == bool(grid[-1, 0]) == bool(rows)
        assert not grid.diagonal().any()


def test_points_of_calibration_have_intervals(
    models: dict[str, AnovaModel], mixed: Any, driver: Any, tmp_path: Path
) -> None:
    X, y = mixed
    write_report(models["two classes"], tmp_path / "page.html", X, np.asarray(y > 0))
    open_page(driver, tmp_path / "page.html")
    groups, *_ = driver.execute_script("return report.data.groups")
    assert all(
        low <= share <= high
        for low, share, high in zip(groups["lower"], groups["actual"], groups["upper"], strict=True)
    )
    assert driver.execute_script(INTERVALS) >= len(groups["actual"])
