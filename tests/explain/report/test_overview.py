"""The overview: a small chart of every component on one scale, and the remainder last."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests.explain.report.browser import open_page
from tests.explain.report.editing import choose, fill
from tests.models import table_model, with_remainder
from tpnn import Explanation
from tpnn.explain.report import write_report
from tpnn.model.model import changed

CARDS = "#overview-cards .overview-card"
TITLES = "return [...document.querySelectorAll(arguments[0])].map(e => e.title)"
DRAWN = f"return document.querySelectorAll('{CARDS} svg').length"
CURVE = """return [...document.querySelectorAll('#overview-cards polyline')]
    .map(line => line.getAttribute('points').split(' ').map(p => +p.split(',')[1]))"""


def frame_of(n_features: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.normal(size=(300, n_features)), columns=list("abcdefgh")[:n_features])


def opened(model: Any, driver: Any, path: Path) -> None:
    from selenium.webdriver.support.wait import WebDriverWait

    write_report(model, path)
    open_page(driver, path)
    WebDriverWait(driver, 10).until(lambda d: d.execute_script(DRAWN) > 0)


def test_components_come_by_importance_up_to_a_share(driver: Any, tmp_path: Path) -> None:
    """As many as have 95 % of the variance with the remainder; a click shows the others."""
    model = with_remainder(table_model(frame_of(6), order=2))
    opened(model, driver, tmp_path / "page.html")
    explanation = Explanation(model)
    ranked = [names for names in explanation.importance() if names != ("remainder",)]
    shares = explanation.sobol()
    known = np.cumsum([shares["remainder",], *(shares[names] for names in ranked)])
    n_shown = int((known < 0.95).sum())
    assert 0 < n_shown < len(ranked)
    names = [" × ".join(names) for names in ranked]
    shown = driver.execute_script(TITLES, f"{CARDS} .name")
    assert shown == [*names[:n_shown], "remainder"]
    driver.find_element("id", "overview-all").click()
    assert driver.execute_script(TITLES, f"{CARDS} .name") == [*names, "remainder"]
    assert not driver.find_element("id", "overview-all").is_displayed()


def test_main_effects_have_one_scale_unless_asked(driver: Any, tmp_path: Path) -> None:
    """Heights of curves are in the proportion of their effects, or fill their charts."""
    from selenium.webdriver.support.wait import WebDriverWait

    model = table_model(frame_of(2), order=1)
    small = changed(model, tables=(0.3 * model.tables[0], model.tables[1]))
    opened(small, driver, tmp_path / "page.html")

    def spans() -> list[float]:
        WebDriverWait(driver, 10).until(lambda d: len(d.execute_script(CURVE)) == 2)
        return [float(np.ptp(heights)) for heights in driver.execute_script(CURVE)]

    first, second = spans()
    assert second < 0.6 * first
    driver.find_element("id", "own-scale").click()
    own = spans()
    assert min(own) > 0.5 * max(own)


def test_a_click_shows_the_component_and_an_edit_is_drawn(driver: Any, tmp_path: Path) -> None:
    model = table_model(frame_of(3), order=1)
    opened(model, driver, tmp_path / "page.html")
    last = driver.find_elements("css selector", CARDS)[-1]
    name = driver.execute_script(TITLES, f"{CARDS} .name")[-1]
    last.click()
    title = driver.find_element("css selector", "#chart-title .name")
    assert title.get_attribute("title") == name
    choose(driver, name)
    fill(driver, operation="set to", edit_value="0")
    driver.execute_script("document.getElementById('overview').scrollIntoView()")
    heights = driver.execute_script("""return new Promise(done => setTimeout(() => {
        const cards = [...document.querySelectorAll('#overview-cards .overview-card')];
        const card = cards.find(c => c.querySelector('.name').title === arguments[0]);
        done(card.querySelector('polyline').getAttribute('points').split(' ')
          .map(p => +p.split(',')[1])); }, 400))""", name)  # fmt: skip
    assert np.ptp(heights) < 1e-6  # zero everywhere
    assert driver.get_log("browser") == []
