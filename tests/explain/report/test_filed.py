"""A report that can be filed: for every task it is whole on paper, and short on the screen."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.explain.report.browser import open_page
from tests.explain.report.editing import choose, explain_edit, fill
from tests.explain.report.test_page_content import paper, shown
from tests.models import random_model
from tpnn import AnovaModel
from tpnn.explain.report import FitFacts, write_report
from tpnn.explain.selection_path import SelectionPath, Step
from tpnn.loss.links import LINKS

N_FEATURES, N_ROWS = 12, 60
SETTINGS = {f"setting {k}": "1" for k in range(15)}
CLASSES = tuple(f"class {k}" for k in range(11))
STEPS = [Step(n, (), 1 / n, 0.1) for n in (1, 4, N_FEATURES)]
LOSS_PATH = SelectionPath(steps=STEPS, landmarks={"order 1": STEPS[2]}, chosen=N_FEATURES,
                     refitted=lambda _: random_model(2, 1))  # fmt: skip
FACTS = FitFacts(settings=SETTINGS, n_rows=1234, path=LOSS_PATH)
NUMBERS = ["R2", "RMSE", "Mean absolute error", "Mean of actual less predicted"]
TASKS = {
    "regression": ("identity", ["Squared error", *NUMBERS], ["Predicted and actual"]),
    "two classes": ("logit", ["Log loss", "Accuracy", "AUROC", "KS", "Brier score",
                              "Lift of the top tenth", "Actual over expected", "Calibration slope"],
                    ["ROC curve: yes", "Calibration: yes"]),
    "several classes": ("softmax", ["Log loss", "Accuracy", *(f"AUROC of {c}" for c in CLASSES)],
                        [f"{what}: {c}" for c in CLASSES for what in ("ROC curve", "Calibration")]),
    "Poisson": ("log", ["Poisson deviance", "Share of the deviance explained",
                        "Actual over expected", "Lift of the top tenth", *NUMBERS],
                ["Predicted and actual", "Actual over expected"]),
    "survival": ("log", ["Cox loss", "C-index"],
                 ["Survival of all rows", "Survival by predicted risk"]),
}  # fmt: skip


def problem(task: str) -> tuple[AnovaModel, pd.DataFrame, Any]:
    """A model of the task without a fit, rows and their targets."""
    rng = np.random.default_rng(0)
    n_outputs = len(CLASSES) if task == "several classes" else 1
    model = random_model(N_FEATURES, 1, n_outputs=n_outputs)
    names = [f"x{j}" for j in range(N_FEATURES)]
    encoder = replace(model.encoder, names=tuple(names))
    scaled = tuple(0.2 * table for table in model.tables)
    model = replace(model, encoder=encoder, tables=scaled, link=LINKS[TASKS[task][0]])
    if task == "two classes":
        model = replace(model, classes=("no", "yes"))
    if task == "several classes":
        model = replace(model, classes=CLASSES, output_names=CLASSES)
    X = pd.DataFrame(rng.normal(size=(N_ROWS, N_FEATURES)), columns=names)
    targets = {
        "regression": rng.normal(size=N_ROWS),
        "two classes": rng.choice(["no", "yes"], N_ROWS),
        "several classes": np.array(CLASSES)[np.arange(N_ROWS) % len(CLASSES)],
        "Poisson": rng.poisson(1.0, N_ROWS).astype(float),
        "survival": np.column_stack([rng.exponential(size=N_ROWS), np.arange(N_ROWS) % 3 > 0]),
    }
    return model, X, targets[task]


@pytest.mark.parametrize("task", TASKS)
def test_a_report_can_be_filed(task: str, driver: Any, tmp_path: Path) -> None:
    model, X, y = problem(task)
    _, scores, curves = TASKS[task]
    write_report(model, tmp_path / "page.html", X, y, facts=FACTS)
    open_page(driver, tmp_path / "page.html")
    assert longest_lists(driver) == {}
    driver.execute_script("document.getElementById('print-all').click()")
    driver.execute_script("dispatchEvent(new Event('beforeprint'))")
    with paper(driver):
        titles = shown(driver, "#printed h3")
        assert shown(driver, "#scores-table th[scope=row]") == scores
        assert shown(driver, "#curves h3") == [*curves, "Error and number of components"]
        assert shown(driver, "#settings th") == list(SETTINGS)
        about = dict(zip(shown(driver, "#facts-table th"), shown(driver, "#facts-table td"),
                         strict=True))  # fmt: skip
        assert shown(driver, ".unfold") == []
    names = [f"x{j}" for j in range(N_FEATURES)]
    each = CLASSES if task == "several classes" else ("",)
    assert set(titles) == {f"{name}: {one}" if one else name for name in names for one in each}
    assert len(titles) == len(names) * len(each)
    assert (about["Rows of the fit"], about["Rows of this report"]) == ("1\u202f234", str(N_ROWS))
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", about["Written"])
    assert re.match(r"\d+\.\d+", about["tpnn"])
    driver.execute_script("dispatchEvent(new Event('afterprint'))")
    assert driver.get_log("browser") == []


LISTS = (
    "#facts > div", "#controls > .control", "#classes > .class",
    "#contributions > .contribution:not(.fewer)", "#ranking > .rank:not(.head-row)",
    "#sobol > .rank:not(.head-row)", "#terms > tr:not(.unfold-row)", "#list > .item",
    "#values table > tr:not(.unfold-row)", "#scores-table > tr:not(.unfold-row)",
    "#trust-body .wide li", "#trust-body .card:not(.wide) li", "#summary > tr:not(.unfold-row)",
    "#settings > tr:not(.unfold-row)",
)  # fmt: skip


def longest_lists(driver: Any) -> dict[str, int]:
    """Lists of which more than ten lines are seen, without headings and buttons."""
    counts = {one: len(shown(driver, one)) for one in LISTS}
    assert counts["#list > .item"] == counts["#settings > tr:not(.unfold-row)"] == 10
    return {one: count for one, count in counts.items() if count > 10}


def test_the_list_of_components_shows_ten_until_asked(driver: Any, tmp_path: Path) -> None:
    """Or until one beyond them is chosen; a filter looks through all of them."""
    model, X, _ = problem("regression")
    write_report(model, tmp_path / "page.html", X)
    open_page(driver, tmp_path / "page.html")
    assert len(shown(driver, "#list .item")) == 10
    last = driver.execute_script("return report.data.components[report.ranked.at(-1)].name")
    driver.find_element("id", "filter").send_keys(last)
    assert last in shown(driver, "#list .item")
    driver.find_element("id", "filter").clear()
    driver.execute_script("report.filter()")
    assert last not in shown(driver, "#list .item")
    driver.find_element("id", "previous").click()  # from the first to the last
    assert len(shown(driver, "#list .item")) == N_FEATURES
    driver.find_element("id", "next").click()
    assert shown(driver, "#list-all") == [f"Show all {N_FEATURES}"]
    driver.find_element("id", "list-all").click()
    assert len(shown(driver, "#list .item")) == N_FEATURES
    assert shown(driver, "#list-all") == []


def test_paper_says_what_was_edited(driver: Any, tmp_path: Path) -> None:
    model, X, _ = problem("regression")
    write_report(model, tmp_path / "page.html", X)
    open_page(driver, tmp_path / "page.html")
    choose(driver, "x1")
    fill(driver, edit_from=-1, operation="add", edit_value=0.5)
    explain_edit(driver, why="expert", by="Ada")
    driver.execute_script("document.getElementById('print-all').click()")
    driver.execute_script("dispatchEvent(new Event('beforeprint'))")
    with paper(driver):
        (line,) = shown(driver, "#printed .edited li")
        assert len(shown(driver, "#printed figure")) == N_FEATURES
    driver.execute_script("dispatchEvent(new Event('afterprint'))")
    assert line.startswith("x1: from \N{MINUS SIGN}1, add 0.5 – expert (Ada, 2")
