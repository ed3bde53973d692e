"""Pages have no violation that axe-core finds, on a phone and on a screen, in light and dark."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tpnn
from tests.explain.report.browser import open_page
from tests.explain.report.test_page_content import screen
from tpnn import AnovaModel
from tpnn.explain.report import write_report
from tpnn.model.model import changed
from tpnn.table.words import signed_column

RUN = """const [done] = [...arguments].slice(-1);
  axe.run().then(found => done(found.violations.map(rule =>
    [rule.id, ...rule.nodes.map(node => node.target.join(' '))])))"""
OPEN = "document.querySelectorAll('details').forEach(one => { one.open = true; })"


def violations(driver: Any, width: int, theme: str) -> list[list[str]]:
    """What axe-core finds on the page that is open, with everything unfolded."""
    axe = pytest.importorskip("axe_core_python", reason="axe-core-python is not installed")
    script = (Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
    scheme = {"name": "prefers-color-scheme", "value": theme}
    with screen(driver, width):
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        try:
            driver.execute_script(OPEN)
            driver.execute_cdp_cmd("Runtime.evaluate", {"expression": script})
            found: list[list[str]] = driver.execute_async_script(RUN)
        finally:
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    return found


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_report_has_no_violation(
    width: int, theme: str, models: dict[str, AnovaModel], mixed: Any, driver: Any, tmp_path: Path
) -> None:
    X, y = mixed
    target = np.array(["a", "b", "c"])[np.digitize(y, [-0.5, 0.7])]
    for task, values in {"regression": y, "three classes": target}.items():
        write_report(models[task], tmp_path / "page.html", X, values)
        open_page(driver, tmp_path / "page.html")
        assert violations(driver, width, theme) == []


@pytest.mark.parametrize("width", [390, 1440])
def test_static_pages_have_no_violation(
    width: int, models: dict[str, AnovaModel], mixed: Any, driver: Any, tmp_path: Path
) -> None:
    X, y = mixed
    model = models["regression"]
    compared = tpnn.compare({"old": model, "new": model.edit("age", scale=0.5)}, X, y)
    compared.to_html(tmp_path / "compare.html")
    tpnn.validate(model, X, y, protected=["grade"]).to_html(tmp_path / "validate.html")
    drift = tpnn.monitor(model, X[:250], X[250:].assign(age=X["age"] + 9), y[250:])
    drift.to_html(tmp_path / "monitor.html")
    for name in ("compare", "validate", "monitor"):
        driver.get((tmp_path / f"{name}.html").as_uri())
        for theme in ("light", "dark"):
            assert violations(driver, width, theme) == []


def test_a_chart_says_what_it_shows(
    models: dict[str, AnovaModel], mixed: Any, driver: Any, tmp_path: Path
) -> None:
    """The extremes of each component and where they are, or from where to where it rises."""
    model = models["regression"]
    line = replace_table(model, ("age",), lambda values: np.sort(values, axis=0))
    write_report(line, tmp_path / "page.html", mixed[0])
    open_page(driver, tmp_path / "page.html")
    table = line.tables[line.component_names.index(("age",))][:, 0]
    words = driver.execute_script(SAID, "age")
    ages = line.encoder.axes[1][list(mixed[0]).index("age")].values
    ends = signed_column(table[[0, -1]].tolist())
    assert words == f"Rises from age = {ages[0]:g} ({ends[0]}) to age = {ages[-1]:g} ({ends[1]})."
    for names, values in zip(line.component_names, line.tables, strict=True):
        words = driver.execute_script(SAID, " × ".join(names))
        if words.startswith("Highest") and len(names) == 1:
            extremes = signed_column([float(values.max()), float(values.min())])
            assert re.findall(r"\(([+−][^)]*)\)", words) == extremes
    labels = driver.execute_script("return document.querySelector('#chart svg').ariaLabel")
    assert labels.endswith(words)


SAID = """report.choose(report.data.components.findIndex(c => c.name === arguments[0]));
  return document.getElementById('sentence').textContent"""


def replace_table(model: AnovaModel, names: tuple[str, ...], change: Any) -> AnovaModel:
    """A model with another table of one component, centred under its masses."""
    place = model.component_names.index(names)
    table, (axis,) = change(model.tables[place]), model.axes(model.components.components[place])
    tables = list(model.tables)
    tables[place] = table - np.average(table, axis=0, weights=axis.weights)
    return changed(model, tables=tuple(tables))
