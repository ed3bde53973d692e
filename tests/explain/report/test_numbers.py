"""Numbers are written in the page as in Python: both read one table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.explain.report.browser import open_page
from tests.explain.report.test_page_content import shown
from tests.table.test_words import NUMBERS
from tpnn import AnovaModel
from tpnn.explain.report import write_report
from tpnn.table.words import chance, column, signed_column

WRITE = "return arguments[0].map(([numbers, resolution]) => column(numbers, resolution))"


def test_the_page_writes_the_shared_table(page: Path, driver: Any) -> None:
    open_page(driver, page)
    cases = [json.loads(json.dumps(case)) for case in NUMBERS]
    assert len(cases) >= 30
    assert driver.execute_script(WRITE, cases) == [texts for *_, texts in cases]


def test_python_and_the_page_agree_on_random_columns(page: Path, driver: Any) -> None:
    """Of all sizes, with ties between two roundings, and with a resolution."""
    rng = np.random.default_rng(0)
    columns: list[Any] = []
    for _ in range(400):
        scale = 10.0 ** rng.integers(-8, 16)
        numbers = rng.normal(size=rng.integers(1, 5)) * scale
        if rng.random() < 0.5:
            numbers = np.round(numbers / scale * 8) / 8  # halves of the last digit
        resolution = float(rng.choice([0.0, 0.0, abs(numbers[0]) / 50]))
        columns.append((numbers.tolist(), resolution))
    assert driver.execute_script(WRITE, columns) == [column(*each) for each in columns]
    both = (
        "return [arguments[0].map(([numbers]) => signedColumn(numbers)), arguments[1].map(chance)]"
    )
    shares = [0.0, 1e-9, 0.00049, 0.0005, 0.5, 0.90866, 0.9995, 1 - 1e-9, 1.0]
    differences, chances = driver.execute_script(both, columns, shares)
    assert differences == [signed_column(numbers) for numbers, _ in columns]
    assert chances == [chance(share) for share in shares]


def test_digits_of_a_prediction_follow_its_standard_error(
    models: dict[str, AnovaModel], mixed: Any, driver: Any, tmp_path: Path
) -> None:
    model, (X, y) = models["regression"], mixed
    write_report(model, tmp_path / "page.html", X, y)
    open_page(driver, tmp_path / "page.html")
    driver.execute_script("report.setAll(report.data.rows[0], 0)")
    error = float(model.standard_errors(X[:1])[0])
    prediction = driver.find_element("id", "prediction")
    value = float(prediction.get_attribute("data-value"))
    assert [prediction.text] == column([value], error / 10)


def test_probabilities_are_shares_of_a_hundred(
    models: dict[str, AnovaModel], driver: Any, tmp_path: Path
) -> None:
    write_report(models["three classes"], tmp_path / "page.html")
    open_page(driver, tmp_path / "page.html")
    shares = driver.execute_script("return report.answer.predictions")
    assert shown(driver, "#classes .class > span:last-child") == [chance(x) for x in shares]
    assert driver.find_element("id", "prediction").text == chance(max(shares))
