"""The story of a case: how sure, step by step, its survival curve, a pinned case, a link."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
import pandas as pd
import pytest

from tests.explain.report.browser import open_page
from tpnn import AnovaModel, TPNNClassifier, TPNNRegressor, TPNNSurvival
from tpnn.explain.report import write_report
from tpnn.model.edit_log import digest

SURE = """return report.data.rows.map(row => {
    report.setAll(row, 0);
    return report.story.sureness(report.answer, report.values, 0)})"""
NORMAL = 1.959964
STEPS = ":is(#start, #contributions, #rest, #offset-step, #end) > .contribution:not(.fewer) i"
SPANS = """return [...document.querySelectorAll(arguments[0])].map(i => [
    i.className, parseFloat(i.style.left.replace('min(', '')), parseFloat(i.style.width)])"""


def rows_shown(X: pd.DataFrame) -> pd.DataFrame:
    """Rows that a page of these rows holds."""
    return X.iloc[np.unique(np.linspace(0, len(X) - 1, min(len(X), 200)).astype(int))]


def test_intervals_are_those_of_python(
    models: dict[str, AnovaModel], mixed: Any, driver: Any, tmp_path: Path
) -> None:
    """Of the mean and of targets, on every row of the page; none once the model is edited."""
    model, (X, y) = models["regression"], mixed
    write_report(model, tmp_path / "page.html", X, y)
    open_page(driver, tmp_path / "page.html")
    found, rows = driver.execute_script(SURE), rows_shown(X)
    lower, upper = model.predict_interval(rows)
    means, errors = model.predict(rows), model.standard_errors(rows)
    ends = np.array([one["targets"] for one in found])
    assert np.allclose(ends, np.column_stack([lower, upper]), atol=1e-4)
    ends = np.array([one["mean"] for one in found])
    reach = NORMAL * errors
    assert np.allclose(ends, np.column_stack([means - reach, means + reach]), atol=1e-4)
    far = driver.execute_script("return report.model.errorsOf([1e3, 500, 0, 0, 0], [0])[0]")
    beyond = X[:1].assign(income=1e3, age=500, since=pd.Timestamp(0))
    beyond.iloc[0, 2] = model.encoder.features[2].levels[0]
    beyond["grade"] = pd.Categorical(["low"], ["low", "mid", "top"], ordered=True)
    (near, *_), (outer, *_) = model.standard_errors(X), model.standard_errors(beyond)
    assert far == pytest.approx(outer, rel=0.01)
    assert outer > 10 * near
    words = driver.find_element("id", "interval").text
    assert words.startswith("The target lies between ")
    driver.execute_script(
        "report.editor.apply({component: [report.data.components[report.chosen].names[0]],"
        "add: 0.5})"
    )
    assert driver.find_element("id", "interval").text == ""
    driver.execute_script("report.editor.undo()")
    assert driver.find_element("id", "interval").text == words


@pytest.mark.parametrize("n_classes", [2, 3])
def test_sets_of_classes_are_those_of_python(
    n_classes: int, fast: Any, driver: Any, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 2)), columns=["a", "b"])
    y = np.digitize(X["a"] + rng.normal(size=400), [0.0, 1.0][: n_classes - 1])
    model = TPNNClassifier(**fast).fit(X, y).model_
    write_report(model, tmp_path / "page.html", X)
    open_page(driver, tmp_path / "page.html")
    found = driver.execute_script(SURE)
    names = np.array([str(label) for label in model.classes])
    sets = [names[row].tolist() for row in model.predict_interval(rows_shown(X))]
    assert [one["classes"] for one in found] == sets
    assert len({len(names) for names in sets}) > 1  # sets of one class and of several
    if n_classes == 2:
        raw, errors = model.raw_scores(rows_shown(X)), model.standard_errors(rows_shown(X))
        expected = [1 / (1 + np.exp(-raw - side * NORMAL * errors)) for side in (-1, 1)]
        assert np.allclose([one["mean"] for one in found], np.transpose(expected), atol=1e-4)


def test_each_step_begins_where_the_last_one_ended(
    exposed: Any, mixed: Any, models: dict[str, AnovaModel], driver: Any, tmp_path: Path
) -> None:
    """From the average to the answer; with a pinned case from its answer, by differences."""
    model, X, _, offset = exposed
    write_report(model.model_, tmp_path / "exposed.html", X[:50], offset=offset[:50])
    write_report(models["regression"], tmp_path / "mixed.html", mixed[0])
    for name in ("exposed", "mixed"):
        open_page(driver, tmp_path / f"{name}.html")
        start = "report.setAll(report.data.rows[arguments[0]], report.data.offsets[arguments[0]])"
        for row, pin in ((3, False), (17, True), (29, False)):
            driver.execute_script(start, row)
            if pin:
                driver.find_element("id", "pin").click()
                driver.execute_script(start, row + 5)
            (_, at, _), *steps, (_, end, _) = driver.execute_script(SPANS, STEPS)
            for kind, left, width in steps:
                first, last = (left, left + width) if kind == "up" else (left + width, left)
                assert first == pytest.approx(at, abs=1e-3)
                at = last
            assert at == pytest.approx(end, abs=1e-3)
            first = driver.find_element("css selector", "#start .contribution > span").text
            assert first == ("pinned case" if pin else "average")
            if pin:
                driver.find_element("id", "pin").click()


def test_survival_of_a_case_is_that_of_python(fast: Any, driver: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.integers(30, 80, 300), "arm": rng.choice(["new", "old"], 300)})
    life, censored = rng.exponential(np.exp(-(X["age"] - 55) / 15)), rng.exponential(2, 300)
    y = np.column_stack([np.minimum(life, censored), life <= censored])
    model = TPNNSurvival(**fast).fit(X, y)
    model.report(tmp_path / "page.html", X, y)
    open_page(driver, tmp_path / "page.html")
    ask = """const [row] = arguments, {data, model, story} = report;
      report.setAll(data.rows[row], 0);
      const {values, answer: {raw}} = report, [error] = model.errorsOf(values, raw);
      return story.survival(data.baseline[0], raw[0], error)"""
    for row in (0, 60, 150):
        rounded, *shares = np.transpose(driver.execute_script(ask, row))
        times = model.event_times_
        assert np.allclose(rounded, times, rtol=1e-7)
        one = rows_shown(X).iloc[[row]]
        assert np.allclose(shares[0], model.predict_survival(one, times)[0], atol=1e-5)
        ends = np.concatenate(model.predict_survival_interval(one, times))
        assert np.allclose(shares[1:], ends, atol=1e-4)
        median, words = model.predict_time(one)[0], driver.find_element("id", "curve-body").text
        if np.isfinite(median):
            half = driver.execute_script("return written(arguments[0])", float(median))
            assert f"Half of such cases survive beyond {half}." in words
        else:
            assert "More than half survive to the last event" in words
    assert driver.find_elements("css selector", "#curve .band")
    ask = "return concordance(report.data.targets, report.story.others.map(([risk]) => risk))"
    shown, chosen = rows_shown(X), np.unique(np.linspace(0, 299, 200).astype(int))
    assert driver.execute_script(ask) == pytest.approx(model.score(shown, y[chosen]), abs=1e-4)


@pytest.mark.parametrize("name", ["cox", "fine_gray"])
def test_the_curve_of_one_kind_of_event_is_no_survival(
    name: str, fast: Any, driver: Any, tmp_path: Path
) -> None:
    """The page says so, and its C-index is that of Python with competing events and ties."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.integers(30, 80, 150), "dose": rng.normal(size=150)})
    times = np.ceil(5 * rng.exponential(np.exp(-(X["age"] - 55) / 15)))
    y = np.column_stack([times, rng.integers(0, 3, 150)])
    settings = {**fast, "objective": {"name": name, "cause": 1}}
    model = TPNNSurvival(**settings).fit(X, y)
    model.report(tmp_path / "page.html", X, y)
    open_page(driver, tmp_path / "page.html")
    ask = "return concordance(report.data.targets, report.story.others.map(([risk]) => risk))"
    assert driver.execute_script(ask) == pytest.approx(model.score(X, y), abs=1e-4)
    words = driver.find_element("id", "curve").text
    assert words.startswith("This case without an event of kind 1")
    assert "without it" in words
    titles = (
        "return [...document.querySelectorAll('#curve svg, #curves svg')].map(s => s.innerHTML)"
    )
    drawn = driver.execute_script(titles)
    assert drawn
    assert "surviv" not in words.lower()
    assert not any("survives" in svg for svg in drawn)


def test_a_link_holds_case_and_pinned_case(
    models: dict[str, AnovaModel], mixed: Any, driver: Any, tmp_path: Path
) -> None:
    """Levels by name, missing values and levels that fit has not seen come back as they were."""
    model, (X, _) = models["regression"], mixed
    write_report(model, tmp_path / "page.html", X)
    open_page(driver, tmp_path / "page.html")
    row = driver.execute_script(
        """const [i] = arguments, row = report.data.rows[i].slice();
        report.setAll(report.data.rows[3], 0);
        document.getElementById('pin').click();
        row[2] = UNSEEN;
        row[0] = null;
        report.setAll(row, 0.25);
        return report.values""",
        8,
    )
    link = driver.find_element("id", "link").get_attribute("href")
    answer = driver.execute_script("return report.answer.raw")
    pinned = driver.execute_script("return report.story.pinned.values")
    held = json.loads(unquote(link.partition("#case=")[2]))
    assert held["model"] == digest(model)
    assert held["values"]["grade"] in ("low", "mid", "top")
    driver.get("about:blank")
    driver.get(link)
    open_at(driver)
    assert driver.execute_script("return [report.values, report.answer.raw]") == [row, answer]
    assert driver.execute_script("return report.story.pinned.values") == pinned
    assert "with the link" in driver.find_element("id", "link-note").text
    strange = held | {"model": "other", "values": {"age": 40, "grade": "none", "__proto__": 1}}
    go = "document.getElementById('link-note').textContent = ''; location.hash = arguments[0]"
    driver.execute_script(go, f"case={quote(json.dumps(strange))}")
    open_at(driver)
    typical = driver.execute_script("return report.typical")
    expected = [*typical[:1], 40, *typical[2:]]
    assert driver.execute_script("return report.values") == expected
    assert "another model" in driver.find_element("id", "link-note").text
    ask = "return [report.output, report.story.pinned, report.answer.predictions]"
    shown = driver.execute_script(ask)
    for output in ("length", "0", 0.5, -1, 1, None):  # what no output is, is passed over
        driver.execute_script(go, f"case={quote(json.dumps(strange | {'output': output}))}")
        open_at(driver)
        assert driver.execute_script("return [report.output, report.values]") == [0, expected]
        assert "another model" in driver.find_element("id", "link-note").text
    broken = json.dumps({"pinned": {"values": {"age": 20}, "offset": 0}})  # without a case
    for damaged in ("%7B", quote(broken)):
        driver.execute_script(go, f"case={damaged}")
        open_at(driver)
        assert "no case" in driver.find_element("id", "link-note").text
        assert driver.execute_script("return report.values") == expected
        assert driver.execute_script(ask) == shown
    assert driver.get_log("browser") == []


def test_the_link_of_a_file_is_copied_without_its_folder(page: Path, driver: Any) -> None:
    """It is appended to the address of another copy, which then shows the case."""
    open_page(driver, page)
    driver.execute_script(
        """window.copied = [];
        const writeText = text => { copied.push(text); return Promise.resolve(); };
        Object.defineProperty(navigator, 'clipboard', {value: {writeText}});
        report.setAll(report.data.rows[5], 0);"""
    )
    driver.find_element("id", "link").click()
    (text,) = driver.execute_script("return copied")
    assert text.startswith("#case=")
    row = driver.execute_script("return report.values")
    copy = page.with_name("copy.html")
    copy.write_bytes(page.read_bytes())
    driver.get("about:blank")
    driver.get(copy.as_uri() + text)
    open_at(driver)
    assert driver.execute_script("return report.values") == row


def open_at(driver: Any) -> None:
    """Wait until a page has followed its link."""
    from selenium.webdriver.support.wait import WebDriverWait

    said = "return Boolean(document.getElementById('link-note')?.textContent && window.report)"
    WebDriverWait(driver, 30).until(lambda d: d.execute_script(said))


def test_a_case_stands_among_the_rows_of_the_page(fast: Any, driver: Any, tmp_path: Path) -> None:
    X = pd.DataFrame({"x": np.arange(300.0)})
    model = TPNNRegressor(**fast).fit(X, X["x"]).model_
    write_report(model, tmp_path / "page.html", X)
    open_page(driver, tmp_path / "page.html")
    driver.execute_script("report.setAll([300], 0)")
    assert driver.find_element("id", "strip").text.startswith("Higher than 99 % of the 200 rows")
    driver.execute_script("report.setAll([-1], 0)")
    assert driver.find_element("id", "strip").text.startswith("Higher than 0 % of the 200 rows")
    assert len(driver.find_elements("css selector", "#strip line")) == 201


SAID = """return report.data.rows.map(row => { report.setAll(row, 0);
    return document.getElementById('reasons').textContent; })"""
SENTENCE = (
    r"(\S.*?) = (.*?)(?:, (higher|lower) than in (?:more than )?(\d+) % of cases,)?"
    r" (?:raises|lowers|multiplies) .*? by ([\d.]+)\."
)


@pytest.mark.parametrize("task", ["regression", "two classes"])
def test_reasons_are_those_of_python(
    task: str, models: dict[str, AnovaModel], mixed: Any, driver: Any, tmp_path: Path
) -> None:
    """The two largest contributions of each row, where its values stand, and by how much."""
    model, X = models[task], mixed[0][:30]
    write_report(model, tmp_path / "page.html", X)
    open_page(driver, tmp_path / "page.html")
    scale = "raw" if task == "regression" else "response"
    expected = model.explain(X).reasons(n_reasons=2, scale=scale)
    for words, reasons in zip(driver.execute_script(SAID), expected, strict=True):
        found = re.findall(SENTENCE, words)
        assert [name for name, *_ in found] == [reason.feature for reason in reasons]
        for (_, _, side, share, size), reason in zip(found, reasons, strict=True):
            told = re.search(r", (higher|lower) than in (?:more than )?(\d+) % of", reason.words)
            assert side == (told[1] if told else "")
            assert told is None or abs(int(share) - int(told[2])) <= 1  # masses are rounded
            assert float(size) == pytest.approx(abs(reason.contribution), rel=6e-3, abs=1e-4)
