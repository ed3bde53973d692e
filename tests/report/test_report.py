"""The report: its numbers decode to the model's, and in a real browser the page predicts alike."""

from __future__ import annotations

import base64
import csv
import json
import re
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.models import random_model
from tests.report.browser import chromium, open_page
from tpnn import AnovaModel, TPNNClassifier, TPNNRegressor, TPNNSurvival, distill
from tpnn.loss.links import LINKS
from tpnn.report import write_report
from tpnn.report.packing import TOLERANCE, pack

SETTINGS: dict[str, Any] = {"n_bags": 2, "max_steps": 60, "random_state": 0, "verbose": 0}
TASKS = ("regression", "two classes", "three classes", "quantiles", "order 3")
EQUAL = 1e-5


@pytest.fixture(scope="module")
def mixed() -> tuple[pd.DataFrame, pd.Series]:
    """500 rows with numbers, whole numbers, labels, an ordered category, a date, missing values."""
    rng = np.random.default_rng(5)
    X = pd.DataFrame(
        {
            "income": rng.lognormal(size=500),
            "age": rng.integers(18, 90, 500),
            "town </script>": rng.choice(["Ulm", 'quoted "X"', "Zürich"], 500),
            "grade": pd.Categorical(rng.choice(["low", "mid", "top"], 500), ordered=True),
            "since": pd.Timestamp("2020-03-01") + pd.to_timedelta(rng.integers(0, 999, 500), "D"),
        }
    )
    X.loc[::11, "income"] = np.nan
    X.loc[::13, "town </script>"] = None
    signal = np.log(X["income"]).fillna(1) * (X["age"] - 50) / 20 + (X["grade"] == "top")
    return X, signal + 0.2 * rng.normal(size=500)


@pytest.fixture(scope="module")
def models(mixed: Any) -> dict[str, AnovaModel]:
    X, y = mixed
    three = pd.cut(y, [-np.inf, -0.5, 0.7, np.inf], labels=["a", "b", "c"]).astype(str)
    levels = {"name": "quantile", "levels": [0.1, 0.5, 0.9]}
    quantiles = TPNNRegressor(**SETTINGS, objective=levels)
    return {
        "regression": TPNNRegressor(**SETTINGS).fit(X, y).model_,
        "two classes": TPNNClassifier(**SETTINGS).fit(X, y > 0).model_,
        "three classes": TPNNClassifier(**SETTINGS).fit(X, three).model_,
        "quantiles": quantiles.fit(X, y).model_,
        "order 3": random_model(3, 3),
    }


def payload(page: str) -> dict[str, Any]:
    found = re.search(r'<script id="payload" type="application/json">(.*?)</script>', page, re.S)
    assert found is not None
    answer: dict[str, Any] = json.loads(found[1])
    return answer


def unpack(packed: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Doubles, floats and whole numbers of a page, decoded independently of the page's script."""
    data = zlib.decompress(base64.b64decode(packed["text"]))
    floats_at = 8 * packed["n_doubles"]
    planes_at = floats_at + 4 * packed["n_floats"]
    planes = np.frombuffer(data, np.uint8, offset=planes_at).reshape(4, packed["n_cells"])
    zigzag = np.ascontiguousarray(planes.T).view("<u4")[:, 0].astype(np.int64)
    return (
        np.frombuffer(data, "<f8", packed["n_doubles"]),
        np.frombuffer(data, "<f4", packed["n_floats"], floats_at),
        (zigzag >> 1) ^ -(zigzag & 1),
    )


@pytest.mark.parametrize("task", TASKS)
def test_tables_decode_within_half_a_step(
    task: str, models: dict[str, AnovaModel], tmp_path: Path
) -> None:
    model = models[task]
    write_report(model, tmp_path / "page.html")
    packed = payload((tmp_path / "page.html").read_text())["packed"]
    doubles, _, units = unpack(packed)
    nodes = [a.values[: a.n_regular] for axes in model.encoder.axes.values() for a in axes]
    assert np.array_equal(doubles, np.concatenate(nodes))
    at = 0
    for table in model.tables:
        for values in np.moveaxis(table, -1, 0) if model.output_names else [table]:
            decoded = units[at : at + values.size].reshape(values.shape)
            for axis in range(values.ndim):
                decoded = np.cumsum(decoded, axis)
            wrapped = (decoded + 2**31) % 2**32 - 2**31
            assert np.abs(wrapped * packed["step"] - values).max() <= packed["step"] * 0.5001
            at += values.size
    assert at == packed["n_cells"]


def test_rounding_stays_within_the_tolerance() -> None:
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=(20, 20)) for _ in range(50)]
    found = pack([], [], tables, deviation=3.0)
    assert len(tables) * found.step / 2 <= TOLERANCE * 3.0 * 1.0001


def test_huge_values_fit_into_whole_numbers() -> None:
    tables = [np.array([1e9, -1e9, 1.0]), np.array([0.1, -0.1])]
    found = pack([], [], tables, deviation=1e-3)
    units = unpack(found._asdict())[2]
    assert np.allclose(np.cumsum(units[:3]) * found.step, tables[0], atol=found.step)


def test_page_needs_no_network_and_keeps_texts_apart(
    models: dict[str, AnovaModel], mixed: Any, tmp_path: Path
) -> None:
    X, y = mixed
    write_report(models["regression"], tmp_path / "page.html", X, y, title="<b>& 'title'")
    page = (tmp_path / "page.html").read_text()
    assert page.count("</script>") == 2  # a feature's name cannot end a script
    links = re.findall(r"""(?:src|href)=["'](?!#|data:)[^"']+|@import|url\(""", page)
    assert links == []
    data = payload(page)
    assert data["title"] == "<b>& 'title'"
    assert set(data["scores"]) == {"R2", "RMSE"}
    assert len(data["rows"]) == 200
    assert data["nRows"] == 500


def test_scores_are_those_of_scikit_learn(mixed: Any, tmp_path: Path) -> None:
    from sklearn.metrics import log_loss, roc_auc_score

    X, y = mixed
    path = tmp_path / "page.html"
    labels = np.where(y > 0, "yes", "no")
    model = TPNNClassifier(**SETTINGS).fit(X[100:], labels[100:])
    model.report(path, X[:100], labels[:100], title="Held out")
    share = model.predict_proba(X[:100])
    assert payload(path.read_text())["scores"] == pytest.approx(
        {
            "Accuracy": model.score(X[:100], labels[:100]),
            "Log-loss": log_loss(labels[:100], share),
            "AUROC": roc_auc_score(labels[:100] == "yes", share[:, 1]),
        }
    )
    three = np.array(["a", "b", "c"])[np.digitize(y, [-0.5, 0.7])]
    model = TPNNClassifier(**SETTINGS).fit(X, three)
    model.report(path, X, three)
    scores = payload(path.read_text())["scores"]
    assert scores["Log-loss"] == pytest.approx(log_loss(three, model.predict_proba(X)))
    with pytest.raises(
        ValueError, match=r"^y: labels must be those of fit, \['a', 'b', 'c'\], found \['d'\]"
    ):
        model.report(path, X, np.full(len(X), "d"))
    with pytest.raises(ValueError, match=r"^X: rows are needed to score targets, found None"):
        model.report(path, y=three)


@pytest.mark.parametrize("labels", [("A", "B"), (0, 1), ("yes ", "no")])
def test_labels_that_fit_has_not_seen(labels: tuple[Any, Any], mixed: Any, tmp_path: Path) -> None:
    X, y = mixed
    model = TPNNClassifier(**SETTINGS, order=1).fit(X, np.where(y > 0, "yes", "no"))
    with pytest.raises(
        ValueError, match=r"^y: labels must be those of fit, \['no', 'yes'\], found"
    ):
        model.report(tmp_path / "page.html", X, np.where(y > 0, *labels))


def test_held_out_rows_of_one_class(mixed: Any, tmp_path: Path) -> None:
    """What needs both classes is left out; equal numbers are equal labels."""
    X, y = mixed
    model = TPNNClassifier(**SETTINGS, order=1).fit(X, y > 0)
    positive = X[y > 0]
    model.report(tmp_path / "page.html", positive, np.ones(len(positive)))
    data = payload((tmp_path / "page.html").read_text())
    share = model.predict_proba(positive)[:, 1]
    assert data["scores"] == pytest.approx(
        {"Accuracy": np.mean(share > 0.5), "Log-loss": -np.mean(np.log(share))}
    )
    assert data["classes"] == ["False", "True"]


def test_targets_of_another_length_or_shape(
    models: dict[str, AnovaModel], mixed: Any, tmp_path: Path
) -> None:
    X, y = mixed
    path = tmp_path / "page.html"
    write_report(models["regression"], path, X, y)
    expected = payload(path.read_text())["scores"]
    write_report(models["regression"], path, X, y.to_frame())
    assert payload(path.read_text())["scores"] == expected
    write_report(models["regression"], path, X[:1], y[:1])
    assert set(payload(path.read_text())["scores"]) == {"RMSE"}
    for task in ("regression", "two classes", "quantiles"):
        with pytest.raises(
            ValueError, match=r"^y: one value per row of X is needed, found shape \(499,\) for 500"
        ):
            write_report(models[task], path, X, y[:-1])
    with pytest.raises(ValueError, match=r"^y: targets like those of fit are needed, of shape"):
        write_report(models["regression"], path, X, np.column_stack([y, y]))


def test_rows_may_be_none(models: dict[str, AnovaModel], mixed: Any, tmp_path: Path) -> None:
    write_report(models["regression"], tmp_path / "page.html", mixed[0][:0])
    assert payload((tmp_path / "page.html").read_text())["rows"] == []


def test_survival_is_shown_without_scores(mixed: Any, tmp_path: Path) -> None:
    X, y = mixed
    fields = np.rec.fromarrays([y.to_numpy() > 0, np.exp(y.to_numpy())], names=["event", "time"])
    model = TPNNSurvival(**SETTINGS, order=1).fit(X, fields)
    for target in (fields, np.column_stack([np.exp(y), y > 0])):
        model.report(tmp_path / "page.html", X, target)
        assert payload((tmp_path / "page.html").read_text())["scores"] == {}


@pytest.fixture(scope="module")
def exposed() -> tuple[TPNNRegressor, pd.DataFrame, np.ndarray, np.ndarray]:
    """Counts whose logarithm is mostly that of a known exposure."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=300)})
    offset = rng.uniform(0, 4, 300)
    y = rng.poisson(np.exp(offset + 0.3 * X["x"])).astype(float)
    model = TPNNRegressor(**SETTINGS, objective="poisson").fit(X, y, offset=offset)
    return model, X, y, offset


def test_scores_include_the_offset(exposed: Any, tmp_path: Path) -> None:
    from sklearn.metrics import r2_score

    model, X, y, offset = exposed
    model.report(tmp_path / "page.html", X, y, offset=offset)
    data = payload((tmp_path / "page.html").read_text())
    expected = r2_score(y, model.predict(X, offset))
    assert expected > 0.8 > 0 > r2_score(y, model.predict(X))
    assert data["scores"]["R2"] == pytest.approx(expected)
    assert len(data["offsets"]) == len(data["rows"])
    with pytest.raises(ValueError, match=r"^offset: one finite number per row is needed"):
        model.report(tmp_path / "page.html", X, y, offset=offset[:5])


def test_shapes_are_shown_with_certificates(mixed: Any, tmp_path: Path) -> None:
    X, y = mixed
    model = TPNNRegressor(**SETTINGS, monotone={"age": "increasing"}).fit(X, y)
    model.report(tmp_path / "page.html")
    assert payload((tmp_path / "page.html").read_text())["shapes"]["age"] == ["increasing"]


def test_a_black_box_report_shows_its_fidelity(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(300, 2))
    model = distill(lambda rows: rows[:, 0], X, n_queries=1000, order=1, random_state=0)
    model.report(tmp_path / "page.html", X)
    scores = payload((tmp_path / "page.html").read_text())["scores"]
    assert scores == {"Fidelity to the black box, R2": model.fidelity_}


def test_the_page_knows_every_link() -> None:
    script = (Path(write_report.__code__.co_filename).parent / "page" / "model.js").read_text()
    links = re.search(r"const LINKS = \{(.*?)\n\};", script, re.S)
    assert links is not None
    assert set(re.findall(r"^  (\w+): raw", links[1], re.M)) == set(LINKS)


@pytest.fixture(scope="module")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="module")
def driver(downloads: Path) -> Iterator[Any]:
    with chromium(downloads) as opened:
        yield opened


@pytest.fixture(scope="module")
def page(models: dict[str, AnovaModel], mixed: Any, tmp_path_factory: Any) -> Path:
    path: Path = tmp_path_factory.mktemp("report") / "page.html"
    write_report(models["regression"], path, *mixed)
    return path


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
    assert shown_number(driver) == pytest.approx(model.predict([middle])[0], rel=1e-5)


def test_page_tells_unseen_from_missing(mixed: Any, driver: Any, tmp_path: Path) -> None:
    """In a nominal and in an ordered feature that have a node for missing values."""
    X, y = mixed
    grade = X["grade"].where(np.arange(len(X)) % 5 > 0)
    X = X.assign(grade=grade)
    model = TPNNRegressor(**SETTINGS).fit(X, y + 3 * grade.isna() + 2 * X.iloc[:, 2].isna()).model_
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


def test_page_of_a_column_without_values(mixed: Any, driver: Any, tmp_path: Path) -> None:
    X, y = mixed
    X = X[["age"]].assign(empty=np.nan)
    model = TPNNRegressor(**SETTINGS).fit(X, y)
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
    assert driver.find_element("id", "base").text.startswith("log-odds of True ")


def shown_number(driver: Any) -> float:
    return float(driver.find_element("id", "prediction").text)


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
    items = driver.find_elements("css selector", "#list .item")
    for item in items:
        item.click()
        seen.add(driver.find_element("id", "chart-title").text)
        assert driver.find_elements("css selector", "#chart svg")
    assert seen == names
    driver.find_element("id", "list").send_keys(Keys.ARROW_UP)
    title = driver.find_element("id", "chart-title").text
    assert title == driver.find_element("css selector", ".item[aria-selected=true] span").text
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
    open_page(driver, page)
    driver.find_element("id", "export").click()
    path = downloads / "what-if.csv"
    for _ in range(100):
        if path.exists():
            break
        time.sleep(0.1)
    lines = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    parts = [
        float(line["value"]) for line in lines if line["what"] in ("intercept", "contribution")
    ]
    (answer,) = (float(line["value"]) for line in lines if line["what"] == "prediction")
    assert sum(parts) == pytest.approx(answer)


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
