"""What the page shows in a real browser: of awkward tables, on narrow screens and on paper."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.explain.report.browser import open_page
from tests.models import table_model, with_bands
from tpnn import AnovaModel, Explanation, TPNNClassifier, TPNNRegressor, TPNNSurvival
from tpnn.explain.report import write_report

LONG_NAMES = tuple(
    f"the_long_name_of_a_column_that_ends_in_{end}" for end in ("home", "work", "car")
)
CHOOSE = "report.choose(report.data.components.findIndex(c => c.name === arguments[0]))"
SET = """const control = document.querySelector(arguments[0]); control.value = arguments[1];
    (control.onchange || control.oninput)({target: control})"""
VISIBLE = """return [...document.querySelectorAll(arguments[0])]
    .filter(e => e.getClientRects().length).map(e => e.textContent)"""


def shown(driver: Any, selector: str) -> list[str]:
    """Texts of the elements that take up room on the page."""
    return list(driver.execute_script(VISIBLE, selector))


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Numbers with a heavy tail and without, many levels and missing values."""
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "amount": rng.lognormal(5, 1.5, 400),
            "age": rng.uniform(18, 90, 400),
            "region": rng.choice([f"Region {i} of the country" for i in range(25)], 400),
            "claims": np.where(rng.random(400) < 0.4, 0, rng.lognormal(3, 1.5, 400)),
        }
    )


@contextmanager
def screen(driver: Any, width: int) -> Iterator[None]:
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        yield
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@contextmanager
def paper(driver: Any) -> Iterator[None]:
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        yield
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


OVERLAPS = """const boxes = [...document.querySelectorAll('#chart svg > text:not([transform])')]
    .map(text => [text.textContent, text.getBoundingClientRect()]);
  return boxes.flatMap(([one, a], i) => boxes.slice(i + 1).filter(([, b]) => a.left < b.right
    && b.left < a.right && a.top < b.bottom && b.top < a.bottom).map(([other]) => [one, other]));"""
BESIDE = """return [...document.querySelectorAll('#controls *')].filter(one => one.offsetWidth
    && one.getBoundingClientRect().right > innerWidth).map(one => one.className || one.id)"""


@pytest.mark.parametrize("width", [390, 1440])
def test_nothing_runs_into_anything_on_a_phone(
    width: int, models: dict[str, Any], mixed: Any, driver: Any, tmp_path: Path
) -> None:
    """Controls with dates and without end within the screen; no tick stands on another one."""
    write_report(models["two classes"], tmp_path / "page.html", mixed[0], mixed[1] > 0)
    with screen(driver, width):
        open_page(driver, tmp_path / "page.html")
        assert driver.execute_script(BESIDE) == []
        for place in range(len(models["two classes"].components)):
            driver.execute_script("report.choose(arguments[0])", place)
            assert driver.execute_script(OVERLAPS) == []


def test_the_page_names_the_target_and_the_scores(
    models: dict[str, Any], mixed: Any, driver: Any, tmp_path: Path
) -> None:
    """The name of y is the target; scores have names for people."""
    X, y = mixed
    write_report(models["two classes"], tmp_path / "page.html", X, (y > 0).rename("repaid"))
    open_page(driver, tmp_path / "page.html")
    assert driver.find_element("id", "answer-name").text == "REPAID: PROBABILITY OF TRUE"
    names = shown(driver, "#facts dt")
    assert "Log loss" in names
    assert not any("_" in name for name in names)


def test_extremes_beyond_the_chart_are_said_to_be(
    frame: pd.DataFrame, driver: Any, tmp_path: Path
) -> None:
    """A chart ends at the outer 0.5 % of the rows, its sentence does not."""
    write_report(table_model(frame, order=1), tmp_path / "page.html", frame)
    open_page(driver, tmp_path / "page.html")
    ends = "new Scale(report.data.features[j], c.axes[0], c.axes[0], 0, 1)"
    found = driver.execute_script(
        "return report.data.components.filter(c => !c.axes[0].words).map(c => {"
        f" const j = c.features[0], scale = {ends};"
        " return [chartWords(report.model, c, 0, report.values), Array.from(c.axes[0].values),"
        " Array.from(c.tables[0]).slice(0, c.axes[0].regular), scale.low, scale.high]; })"
    )
    for words, values, table, low, high in found:
        places = [table.index(max(table)), table.index(min(table))]
        beyond = [not low <= values[place] <= high for place in places]
        if words.startswith("Highest"):
            assert ["beyond" in part for part in words.split("lowest")] == beyond


@pytest.mark.parametrize("unit", [1e-150, 1e154])
def test_a_page_of_huge_or_tiny_targets_starts(
    unit: float, frame: pd.DataFrame, driver: Any, tmp_path: Path
) -> None:
    model = table_model(frame, order=2, unit=unit)
    write_report(model, tmp_path / "page.html", frame, model.predict(frame))
    open_page(driver, tmp_path / "page.html")
    driver.execute_script("report.ranked.forEach(i => report.choose(i))")
    ask = "return report.data.rows.map(row => report.model.explain(row).predictions[0])"
    rows = frame.iloc[np.unique(np.linspace(0, 399, 200).astype(int))]
    expected = model.predict(rows)
    assert driver.execute_script(ask) == pytest.approx(expected, abs=1e-4 * np.ptp(expected))
    page = driver.find_element("tag name", "main").get_attribute("innerHTML")
    assert "NaN" not in re.sub('data:image[^"]*', "", page)  # pictures are letters at random
    effects = shown(driver, "#contributions .value")
    assert any(float(text.replace("−", "-")) != 0 for text in effects)
    assert driver.get_log("browser") == []


@pytest.mark.parametrize(
    ("low", "high"),
    [(1.0, 1 + 2**-52), (1e300, 1.0000001e300), (5e-324, 1e-323), (-1.7e308, 1.7e308), (2.0, 2.0)],
)
def test_ticks_of_any_range_come_to_an_end(
    low: float, high: float, page: Path, driver: Any
) -> None:
    open_page(driver, page)
    ticks = driver.execute_script("return niceTicks(arguments[0], arguments[1], 6)", low, high)
    assert 1 <= len(ticks) <= 18
    assert all(low <= tick <= high for tick in ticks)
    assert ticks == sorted(set(ticks))


def test_a_column_of_neighbouring_doubles_does_not_hang(driver: Any, tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": 1 + 2.0**-52 * np.arange(40), "z": np.linspace(0, 1e-300, 40)})
    write_report(table_model(frame, order=2), tmp_path / "page.html", frame)
    open_page(driver, tmp_path / "page.html")
    driver.execute_script("report.ranked.forEach(i => report.choose(i))")
    assert driver.get_log("browser") == []


def test_columns_with_numbers_for_names_keep_their_order(driver: Any, tmp_path: Path) -> None:
    """Largest total share first; an object of JavaScript would sort its keys by number."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(200, 6)), columns=["10", "2", "7", "0", "33", "1"])
    model = table_model(frame, order=1)
    write_report(model, tmp_path / "page.html", frame)
    open_page(driver, tmp_path / "page.html")
    sizes = [
        np.square(t[..., 0]) @ a.weights
        for t, a in zip(model.tables, model.encoder.axes[1], strict=True)
    ]
    # Each table is (M, 1): its variance is the mean of its squares under the weights.
    order = [frame.columns[j] for j in np.argsort([-float(size) for size in sizes])]
    assert shown(driver, "#sobol .rank:not(.head-row) .name") == order
    assert shown(driver, "#controls label.name") == order


FRAMES = """const [done] = arguments;
  requestAnimationFrame(() => requestAnimationFrame(done))"""


def test_long_names_lose_their_middle(driver: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(100, 3)), columns=list(LONG_NAMES))
    write_report(table_model(frame, order=2), tmp_path / "page.html", frame)
    for width in (390, 1280):
        with screen(driver, width):
            open_page(driver, tmp_path / "page.html")
            driver.execute_async_script(FRAMES)
            for place in ("#ranking", "#sobol", "#contributions", "#list", "#controls"):
                names = shown(driver, f"{place} .name")
                assert len(set(names)) == len(names) > 0
            tags = driver.execute_script(
                "return [...document.querySelectorAll('#ranking .name')]"
                ".map(t => [t.title, t.textContent, t.scrollWidth - t.clientWidth])"
            )
    for title, text, hidden in tags:
        assert set(title.split(" × ")) <= set(LONG_NAMES)
        assert hidden <= 0
        for name, short in zip(title.split(" × "), text.split(" × "), strict=True):
            head, tail = short.split("…")
            assert name.startswith(head)
            assert name.endswith(tail)


def test_short_texts_still_differ(page: Path, driver: Any) -> None:
    open_page(driver, page)
    groups = [
        [f"Region number {i:02d} of the country" for i in range(30)],
        [f"the_{year}_value_of_the_house" for year in range(2000, 2030)],
        [*LONG_NAMES, "x", "y"],
        ["one", "two"],
    ]
    for texts in groups:
        for most in (12, 16, 24, 60):
            short = driver.execute_script(
                "return shortTexts(arguments[0], arguments[1])", texts, most
            )
            assert len(set(short)) == len(texts)
            assert max(map(len, short)) <= most
            assert [s for s, t in zip(short, texts, strict=True) if len(t) <= most] == [
                t for t in texts if len(t) <= most
            ]
            for cut, text in zip(short, texts, strict=True):
                assert re.search(re.escape(cut).replace("…", ".*"), text)
    same = driver.execute_script("return shortTexts(['same same same', 'same same same'], 6)")
    assert len(same) == 2


@pytest.mark.parametrize(("link", "unit"), [("identity", 1e-3), ("identity", 1e152), ("log", 0.02)])
@pytest.mark.parametrize("width", [390, 1280])
def test_contributions_are_not_clipped(
    link: str, unit: float, width: int, frame: pd.DataFrame, driver: Any, tmp_path: Path
) -> None:
    model = table_model(frame, order=2, link=link, unit=unit)
    write_report(model, tmp_path / "page.html", frame)
    with screen(driver, width):
        open_page(driver, tmp_path / "page.html")
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width
        hidden = driver.execute_script(
            "return [...document.querySelectorAll('.contribution, .contribution *, .part')]"
            ".filter(e => e.clientWidth).map(e => [e.textContent, e.scrollWidth - e.clientWidth])"
        )
    assert len(hidden) > 20
    assert [text for text, more in hidden if more > 0] == []


def test_the_table_of_values_fits_a_phone(frame: pd.DataFrame, driver: Any, tmp_path: Path) -> None:
    """With the interval of every ratio; it used to be beyond the edge."""
    model = with_bands(table_model(frame, order=1, link="log"), unit=0.1)
    write_report(model, tmp_path / "page.html", frame)
    with screen(driver, 390):
        open_page(driver, tmp_path / "page.html")
        for number in range(frame.shape[1]):
            driver.execute_script("report.choose(arguments[0])", number)
            assert shown(driver, "#values th[scope=col]")[-1] == "95 % interval"
            hidden = "const e = document.all.values; return e.scrollWidth - e.clientWidth"
            assert driver.execute_script(hidden) <= 0


def test_the_what_if_says_what_its_number_is(
    mixed: Any, fast: Any, driver: Any, tmp_path: Path
) -> None:
    X, y = mixed
    times = np.column_stack([np.exp(y), y > 0])
    TPNNSurvival(**{**fast, "order": 1}).fit(X, times).report(tmp_path / "page.html")
    open_page(driver, tmp_path / "page.html")
    assert driver.find_element("id", "answer-name").text.lower() == "relative risk"
    assert "base relative risk" in driver.find_element("id", "base").text


def test_a_typical_case_says_its_exposure(
    mixed: Any, fast: Any, exposed: Any, driver: Any, tmp_path: Path
) -> None:
    X, y = mixed
    settings = {**fast, "order": 1, "objective": "poisson", "exposure": "years"}
    years = np.linspace(0.5, 4.0, len(X))
    counts = TPNNRegressor(**settings).fit(X.assign(years=years), np.exp(y))
    counts.report(tmp_path / "page.html", X.assign(years=years))
    open_page(driver, tmp_path / "page.html")
    assert "; exposure 1 (years);" in driver.find_element("id", "base").text
    driver.find_element("css selector", "#row option[value='0']").click()
    assert "; exposure 0.5 (years);" in driver.find_element("id", "base").text
    model, *_ = exposed
    model.report(tmp_path / "page.html")
    open_page(driver, tmp_path / "page.html")
    assert "; offset 0;" in driver.find_element("id", "base").text


def test_the_lede_does_not_predict_a_prediction(
    frame: pd.DataFrame, driver: Any, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    found = {}
    for link, target in [
        ("identity", "prediction"),
        ("identity", "price"),
        ("log", "prediction"),
        ("logit", "prediction"),
    ]:
        write_report(table_model(frame[["age"]], order=1, link=link), path, target=target)
        open_page(driver, path)
        found[link, target] = driver.find_element("id", "lede").text
    end = "a sum of 1 main effect, each shown below in full."
    assert found == {
        ("identity", "prediction"): f"The prediction is {end}",
        ("identity", "price"): f"Predicts price as {end}",
        ("log", "prediction"): f"The logarithm of the prediction is {end}",
        ("logit", "prediction"): f"The log-odds are {end}",
    }


def test_long_lists_show_ten_lines_until_asked(driver: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    alike = rng.normal(size=(300, 1)) + 0.1 * rng.normal(size=(300, 14))
    frame = pd.DataFrame(alike, columns=[f"x{j}" for j in range(14)])
    model = table_model(frame, order=1)
    rising = replace(model, tables=tuple(np.sort(table, axis=0) for table in model.tables))
    write_report(rising, tmp_path / "page.html", frame)
    open_page(driver, tmp_path / "page.html")
    lists = {
        "#trust-body .card:not(.wide) li:not(.unfold-item)": "#trust-body .card:not(.wide) .unfold",
        "#ranking .rank:not(.head-row)": "#ranking .unfold",
        "#sobol .rank:not(.head-row)": "#sobol .unfold",
        "#controls .control": "#controls .unfold",
        "#contributions .contribution:not(.fewer)": "#contributions .unfold",
        "#summary tr:not(.unfold-row):not(:first-child)": "#summary .unfold",
    }
    for rows, button in lists.items():
        assert len(shown(driver, rows)) == 10, rows
        assert shown(driver, button) == ["Show all 14"]
        driver.execute_script("document.querySelector(arguments[0]).click()", button)
        assert len(shown(driver, rows)) == 14, rows
    assert shown(driver, "#contributions .fewer") == []
    driver.execute_script("report.update()")
    assert len(shown(driver, "#contributions .contribution")) == 14


def test_inputs_have_no_more_digits_than_their_step_needs(driver: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "x": rng.normal(size=200),
            "tail": rng.lognormal(3, 3, 200),
            "small": 1e-9 * rng.normal(size=200),
            "late": 1e6 + rng.random(200),
        }
    )
    write_report(table_model(frame, order=1), tmp_path / "page.html", frame)
    open_page(driver, tmp_path / "page.html")
    for row in ("", "0", "7"):
        driver.execute_script(SET, "#row", row)
        for name, typed in zip(
            frame,
            driver.execute_script("return report.inputs.map(c => c.field.value)"),
            strict=True,
        ):
            digits = re.sub(r"e.*|\D", "", typed).lstrip("0")
            assert len(digits) <= (11 if name == "late" else 6), typed
            value = driver.execute_script(
                "return report.values[arguments[0]]", list(frame).index(name)
            )
            assert float(typed) == pytest.approx(value, abs=2e-3 * np.ptp(frame[name]), rel=2e-3)


def test_every_component_is_printed(frame: pd.DataFrame, driver: Any, tmp_path: Path) -> None:
    """Printing to PDF draws them all; on paper they are seen, and no list is folded."""
    model = table_model(frame, order=3)
    write_report(model, tmp_path / "page.html", frame)
    open_page(driver, tmp_path / "page.html")
    driver.find_element("id", "print-all").click()
    driver.execute_script(
        "const read = f => [f.querySelector('h3').textContent, f.querySelectorAll('svg').length];"
        "addEventListener('beforeprint', () => {"
        "window.drawn = [...document.querySelectorAll('#printed figure')].map(read); })"
    )
    driver.execute_cdp_cmd("Page.printToPDF", {})
    drawn = dict(driver.execute_script("return window.drawn"))
    assert drawn == {
        " × ".join(names): 3 if len(names) == 3 else 1 for names in model.component_names
    }
    assert shown(driver, "#printed figure") == []
    driver.execute_script("dispatchEvent(new Event('beforeprint'))")
    with paper(driver):
        assert len(shown(driver, "#printed figure")) == len(model.components)
        assert len(shown(driver, "#ranking .rank:not(.head-row)")) == len(model.components)
        assert shown(driver, ".unfold") == shown(driver, ".bar") == []
    driver.execute_script("dispatchEvent(new Event('afterprint'))")
    assert driver.get_log("browser") == []


def test_210_components_are_printed_on_at_most_30_pages(driver: Any, tmp_path: Path) -> None:
    """The largest are drawn, a table has the others."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 20)), columns=[f"x{j}" for j in range(20)])
    write_report(table_model(frame, order=2), tmp_path / "page.html", frame)
    open_page(driver, tmp_path / "page.html")
    pdf = base64.b64decode(driver.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert 5 < len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 30
    driver.execute_script("dispatchEvent(new Event('beforeprint'))")
    with paper(driver):
        assert len(shown(driver, "#printed figure")) == 24
        assert len(shown(driver, "#terms tr:not(.unfold-row) > th[scope=row]")) == 210
    driver.execute_script("dispatchEvent(new Event('afterprint'))")


def test_a_triple_is_a_heat_map_with_a_slider(
    frame: pd.DataFrame, driver: Any, tmp_path: Path
) -> None:
    model = table_model(frame, order=3)
    write_report(model, tmp_path / "page.html", frame)
    open_page(driver, tmp_path / "page.html")
    for names in (("amount", "age", "region"), ("amount", "age", "claims")):
        driver.execute_script(
            CHOOSE,
            " × ".join(names),
        )
        assert shown(driver, "#slices .name") == [names[2]]
        place = list(frame).index(names[2])
        seen = set()
        n_nodes = model.encoder.axes[3][place].n_nodes
        for node in range(n_nodes):
            driver.execute_script(SET, "#slices input", node)
            value = driver.execute_script("return report.values[arguments[0]]", place)
            (word,) = shown(driver, "#slices output")
            assert word == driver.execute_script(
                "return valueWord(report.data.features[arguments[0]], report.values[arguments[0]])",
                place,
            )
            assert f"{names[2]} = {word}" in driver.find_element("id", "reading").text
            seen.add(
                (
                    value,
                    driver.execute_script(
                        "return document.querySelector('#chart image').getAttribute('href')"
                    ),
                )
            )
        assert len({image for _, image in seen}) == len({value for value, _ in seen}) == n_nodes
    driver.execute_script(CHOOSE, "amount × age")
    assert shown(driver, "#slices .slice") == []


@pytest.mark.parametrize(
    ("link", "has_factors"), [("identity", False), ("log", True), ("logit", True)]
)
def test_relativities_stand_beside_raw_scores(
    link: str, has_factors: bool, frame: pd.DataFrame, driver: Any, tmp_path: Path
) -> None:
    model = table_model(frame, order=1, link=link)
    write_report(model, tmp_path / "page.html", frame)
    open_page(driver, tmp_path / "page.html")
    assert bool(shown(driver, "#contributions .factor")) == has_factors
    driver.execute_script(CHOOSE, "region")
    head = shown(driver, "#values thead th")
    assert ("Relativity" in head) == has_factors
    assert ("×" in driver.find_element("id", "reading").text) == has_factors
    if not has_factors:
        return
    driver.execute_script("document.querySelector('#values .unfold').click()")
    axis, table = model.encoder.axes[1][2], model.tables[2][:, 0]
    base = int(np.argmax(axis.weights))
    lines = driver.execute_script(
        "return [...document.querySelectorAll('#values tr:not(.unfold-row)')].slice(1)"
        ".map(row => [...row.children].map(cell => cell.textContent))"
    )
    assert len(lines) == 25
    for node, (word, _, effect, _, factor, to_base) in enumerate(lines):
        assert word == axis.levels[node]
        assert float(effect.replace("−", "-")) == pytest.approx(
            table[node], abs=0.006 * np.abs(table).max()
        )
        assert float(factor[1:]) == pytest.approx(np.exp(table[node]), rel=6e-3)
        assert (
            to_base == "base"
            if node == base
            else float(to_base[1:]) == pytest.approx(np.exp(table[node] - table[base]), rel=6e-3)
        )


@pytest.mark.parametrize(("link", "ratio"), [("log", "Relativity"), ("logit", "Odds ratio")])
def test_ratios_to_the_base_have_intervals(
    link: str, ratio: str, frame: pd.DataFrame, driver: Any, tmp_path: Path
) -> None:
    """Those of the frame, for levels and for numbers."""
    model = with_bands(table_model(frame, order=1, link=link), unit=0.1)
    write_report(model, tmp_path / "page.html", frame)
    open_page(driver, tmp_path / "page.html")
    for name in ("region", "age"):
        driver.execute_script(CHOOSE, name)
        assert shown(driver, "#values thead th")[-2:] == [f"{ratio} to base", "95 % interval"]
        driver.execute_script("document.querySelector('#values .unfold')?.click()")
        lines = driver.execute_script(
            "return [...document.querySelectorAll('#values tr:not(.unfold-row)')].slice(1)"
            ".map(row => [...row.children].slice(-2).map(cell => cell.textContent))"
        )
        expected = Explanation(model).component(name).to_frame("response")
        assert len(lines) == len(expected)
        for (shown_ratio, interval), line in zip(lines, expected.itertuples(), strict=True):
            if line.reference:
                assert (shown_ratio, interval) == ("base", "")
                continue
            ends = [float(word[1:]) for word in interval.split(" to\xa0")]
            assert float(shown_ratio[1:]) == pytest.approx(line.effect, rel=6e-3)
            assert ends == pytest.approx([line.lower, line.upper], rel=6e-3)


def test_the_table_of_all_components_is_that_of_the_summary(
    frame: pd.DataFrame, driver: Any, tmp_path: Path
) -> None:
    model = with_bands(table_model(frame, order=2))
    write_report(model, tmp_path / "page.html", frame)
    open_page(driver, tmp_path / "page.html")
    driver.execute_script("document.querySelector('#terms .unfold')?.click()")
    lines = driver.execute_script(
        "return [...document.querySelectorAll('#terms tbody tr, #terms > tr')]"
        ".filter(row => !row.classList.contains('unfold-row'))"
        ".map(row => [...row.children].map(cell => cell.textContent))"
    )
    summary = model.summary()
    names = {" x ".join(names): " × ".join(names) for names in model.component_names}
    assert lines == [[names[name], *cells] for name, *cells in summary.cells()]
    notes = shown(driver, "#terms-notes .note")
    assert notes == [note for note in summary.notes if not note.startswith("range: ")]


def test_heavy_tails_have_a_logarithmic_axis(
    frame: pd.DataFrame, driver: Any, tmp_path: Path
) -> None:
    write_report(table_model(frame, order=2), tmp_path / "page.html", frame)
    open_page(driver, tmp_path / "page.html")
    texts = {}
    for name in ("amount", "age", "claims", "amount × age"):
        driver.execute_script(CHOOSE, name)
        texts[name] = shown(driver, "#chart text")
    assert "amount (log axis)" in texts["amount"]
    assert "amount (log axis)" in texts["amount × age"]
    assert "claims (log axis)" in texts["claims"]
    assert {"0", "10", "100"} <= set(texts["claims"])
    assert "age" in texts["age"]
    for j in (0, 3):
        trip = driver.execute_script(
            "const j = arguments[0], axis = report.model.axes[1][j];"
            "const x = new Scale(report.data.features[j], axis, axis, 50, 500);"
            "return [x.low, x.high, x.high / 3].map(v => (x.value(x.at(v)) - v) / x.high)",
            j,
        )
        assert np.abs(trip).max() < 1e-9


def test_every_level_is_labelled(frame: pd.DataFrame, driver: Any, tmp_path: Path) -> None:
    write_report(table_model(frame, order=2), tmp_path / "page.html", frame)
    open_page(driver, tmp_path / "page.html")
    driver.execute_script(CHOOSE, "region")
    assert set(frame["region"]) <= set(shown(driver, "#chart text"))
    n_nodes = driver.execute_script("return report.model.axes[2][2].regular")
    for name in ("age × region", "region × claims"):
        driver.execute_script(CHOOSE, name)
        words = [text for text in shown(driver, "#chart text") if "Reg" in text or "levels" in text]
        assert len(words) == n_nodes


def test_thousands_of_levels_are_drawn_in_part_and_listed_in_full(
    driver: Any, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"code": [f"code {i}" for i in rng.permutation(np.arange(3000) % 1500)]})
    write_report(table_model(frame, order=1), tmp_path / "page.html", frame)
    open_page(driver, tmp_path / "page.html")
    texts = shown(driver, "#chart text")
    assert sum(text.startswith("code ") for text in texts) == 100
    assert "code: 100 of 1500 levels, all are in the table" in texts
    driver.execute_script("document.querySelector('#values .unfold').click()")
    assert len(shown(driver, "#values tr:not(.unfold-row)")) == 1501


def in_fit(output: str) -> list[str]:
    """Titles of what rows that bags held out show of a class."""
    return [f"Calibration in the fit: {output}"]


def test_each_task_has_its_curves(
    models: dict[str, AnovaModel], mixed: Any, fast: Any, driver: Any, tmp_path: Path
) -> None:
    X, y = mixed
    path = tmp_path / "page.html"
    three = np.array(["a", "b", "c"])[np.digitize(y, [-0.5, 0.7])]
    expected = {
        "regression": (y, ["Predicted and actual", "Predicted and actual in the fit"]),
        "two classes": (y > 0, ["ROC curve: True", "Calibration: True", *in_fit("True")]),
        "three classes": (three, ["ROC curve: b", "Calibration: b", *in_fit("b")]),
        "quantiles": (y, []),
    }
    for task, (target, titles) in expected.items():
        write_report(models[task], path, X, target)
        open_page(driver, path)
        assert shown(driver, "#curves h3") == titles
        if task == "three classes":  # the page begins at the class that the typical case has
            case = driver.execute_script("return report.model.explain(report.values).predictions")
            assert np.argmax(case) == 1
    open_page(driver, path)
    write_report(models["three classes"], path, X, three)
    open_page(driver, path)
    driver.execute_script(SET, "#output", 2)
    assert shown(driver, "#curves h3") == ["ROC curve: c", "Calibration: c", *in_fit("c")]
    times = np.column_stack([np.exp(y), y > 0])
    TPNNSurvival(**{**fast, "order": 1}).fit(X, times).report(path, X, times)
    open_page(driver, path)
    assert shown(driver, "#curves h3") == ["Survival of all rows", "Survival by predicted risk"]
    assert "Measured on the 500 rows" in driver.find_element("id", "scores-note").text
    write_report(table_model(X[["age"]], order=1, link="log"), path, X[["age"]], np.exp(y))
    open_page(driver, path)
    assert shown(driver, "#curves h3") == ["Predicted and actual", "Actual over expected"]
    assert "NaN" not in driver.find_element("id", "curves").get_attribute("innerHTML")


def test_the_page_says_why_there_are_no_scores(
    models: dict[str, AnovaModel], mixed: Any, driver: Any, tmp_path: Path
) -> None:
    write_report(models["regression"], tmp_path / "page.html", mixed[0])
    open_page(driver, tmp_path / "page.html")
    assert "without their targets" in driver.find_element("id", "scores-note").text
    write_report(models["regression"], tmp_path / "page.html")
    open_page(driver, tmp_path / "page.html")
    assert "without held-out rows" in driver.find_element("id", "scores-note").text


def test_the_page_says_how_the_model_was_made(
    mixed: Any, fast: Any, driver: Any, tmp_path: Path
) -> None:
    X, y = mixed
    model = TPNNClassifier(**{**fast, "order": 1}).fit(X[100:], y[100:] > 0)
    model.report(tmp_path / "page.html", X[:100], y[:100] > 0)
    open_page(driver, tmp_path / "page.html")
    facts = dict(
        zip(shown(driver, "#facts-table th"), shown(driver, "#facts-table td"), strict=True)
    )
    assert (facts["Rows of the fit"], facts["Rows of this report"]) == ("400", "100")
    driver.execute_script("document.querySelector('#settings .unfold').click()")
    assert len(shown(driver, "#settings th")) == len(model.get_params(deep=False))
