"""What people read first: the verdict of a comparison, a validation, monitoring and recourse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import tpnn
from tests.explain.report.browser import chromium
from tpnn import TPNNRegressor


@pytest.fixture(scope="module")
def fitted(quick: Any) -> tuple[TPNNRegressor, pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(600, 3)), columns=["a", "b", "c"])
    y = (X["a"] + 0.5 * X["b"] + 0.3 * rng.normal(size=600)).to_numpy()
    return TPNNRegressor(**quick).fit(X[:300], y[:300]), X[300:], y[300:]


def test_a_comparison_says_whether_the_difference_is_clear(fitted: Any, tmp_path: Path) -> None:
    """By the paired differences of the losses, here squared errors."""
    model, X, y = fitted
    words = set()
    for name, scale in (("a", 0.0), ("b", 0.999), ("c", 0.0)):
        worse = model.model_.edit(name, scale=scale)
        found = tpnn.compare({"old": model, "new": worse}, X, y)
        losses = [(one.predict(X) - y) ** 2 for one in (worse, model)]
        paired = losses[0] - losses[1]
        is_clear = abs(paired.mean()) > norm.ppf(0.975) * paired.std(ddof=1) / np.sqrt(len(y))
        word = "better" if paired.mean() < 0 else "worse"
        words.add(word := f"new is clearly {word}" if is_clear else "No clear difference")
        assert found.verdict.startswith(f"{word}: ")
        assert found.verdict in found._repr_html_()
    assert {"new is clearly worse", "No clear difference"} <= words
    back = tpnn.compare({"old": model.model_.edit("a", scale=0.0), "new": model}, X, y)
    assert back.verdict.startswith("new is clearly better: ")
    assert "would flip" not in back.verdict  # numbers decide nothing
    assert "flip" not in back.to_html(tmp_path / "page.html").path.read_text("utf-8").lower()
    decided = tpnn.compare({"old": model, "new": worse}, X, y, threshold=0.0)
    n_flips = len(decided.flips)
    said = "1 decision" if n_flips == 1 else f"{n_flips} decisions"
    assert decided.verdict.endswith(f" {said} of {len(y)} would flip.")
    assert "No targets were given" in tpnn.compare({"old": model, "new": worse}, X).verdict


def test_a_validation_says_the_score_and_what_is_weak(fitted: Any) -> None:
    model, X, y = fitted
    good, bad = tpnn.validate(model, X, y), tpnn.validate(model, X, y + 2.0 * (X["a"] > 0))
    assert "no weak slice in " in good.verdict
    assert f"{len(bad.slices)} weak slices" in bad.verdict
    assert str(bad.slices.iloc[0]["slice"]) in bad.verdict
    assert bad._repr_html_().startswith("<p><b>")


def test_monitoring_names_its_alarms(fitted: Any) -> None:
    model, X, _ = fitted
    n = len(tpnn.monitor(model, X[:150], X[150:]).features)
    start = f"No alarm: in {n} features"
    end = "no change is beyond chance; the chance of any alarm without a change is 5 %."
    words = tpnn.monitor(model, X[:150], X[150:]).verdict
    assert words == f"{start} and the score {end}"
    words = tpnn.monitor(model, X[:150], X[150:], model.predict(X[150:])).verdict
    assert words == f"{start}, the score and the targets {end}"
    one = model.model_.restrict([(0,)])
    assert tpnn.monitor(one, X[:150], X[150:]).verdict.startswith("No alarm: in 1 feature and")
    found = tpnn.monitor(model, X[:150], X[150:] + 3.0)
    assert all(alarm in found.verdict for alarm in found.alarms)
    assert found.verdict.startswith(f"{len(found.alarms)} alarms: ")


def test_recourse_says_what_must_change(fitted: Any) -> None:
    model, X, _ = fitted
    row = X.iloc[[0]]
    before = float(model.predict(row)[0])
    found = model.recourse(row, before + 0.5)
    assert all(name in found.verdict for name in found.changes)
    assert model.recourse(row, 1e9).verdict.startswith("No change within the ranges")
    assert "Nothing must change" in model.recourse(row, (before - 1, before + 1)).verdict


def test_what_is_written_into_a_validation_stays(fitted: Any, tmp_path: Path) -> None:
    """After a reload, and in the file that is saved, which runs no other script."""
    from selenium.webdriver.support.wait import WebDriverWait

    model, X, y = fitted
    found = tpnn.validate(model, X, y)
    found.to_html(tmp_path / "page.html")
    with chromium(tmp_path) as driver:
        driver.get((tmp_path / "page.html").as_uri())
        assert driver.find_element("css selector", ".lede").text == found.verdict
        field = driver.find_elements("tag name", "textarea")[2]
        field.send_keys("Reviewed by <Ada> & Bo")
        driver.refresh()
        fields = driver.find_elements("tag name", "textarea")
        texts = [one.get_property("value") for one in fields]
        assert texts == ["", "", "Reviewed by <Ada> & Bo", *[""] * (len(fields) - 3)]
        driver.find_element("id", "save-page").click()
        saved = tmp_path / "validation.html"
        WebDriverWait(driver, 20).until(lambda _: saved.exists() and saved.stat().st_size > 0)
        assert "Reviewed by &lt;Ada&gt; &amp; Bo</textarea>" in saved.read_text(encoding="utf-8")
        assert driver.get_log("browser") == []
