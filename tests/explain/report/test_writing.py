"""HTML: one file without links, in which no text of the data can do harm."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tpnn
from tests.explain.report.pages import payload, unpack
from tests.models import random_model, with_bands
from tpnn import AnovaModel, TPNNRegressor, distill
from tpnn.explain.report import FitFacts, write_report
from tpnn.explain.report.writing import PAGE, render
from tpnn.loss.links import LINKS


def test_page_needs_no_network_and_keeps_texts_apart(
    models: dict[str, AnovaModel], mixed: Any, tmp_path: Path
) -> None:
    X, y = mixed
    write_report(models["regression"], tmp_path / "page.html", X, y, title="<b>& 'title'")
    page = (tmp_path / "page.html").read_text()
    assert page.count("</script>") == 2  # a feature's name cannot end a script
    links = re.findall(r"""(?:src|href)=["'](?!#|data:)[^"']+|@import|url\((?!#)""", page)
    assert links == []
    data = payload(tmp_path / "page.html")
    assert data["title"] == "<b>& 'title'"
    assert [name for name, *_ in data["scores"]][:3] == ["Squared error", "R2", "RMSE"]
    assert len(data["rows"]) == 200
    assert data["nRows"] == 500


def test_rows_may_be_none(models: dict[str, AnovaModel], mixed: Any, tmp_path: Path) -> None:
    write_report(models["regression"], tmp_path / "page.html", mixed[0][:0])
    assert payload(tmp_path / "page.html")["rows"] == []


def test_a_black_box_report_shows_its_fidelity(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(300, 2))
    model = distill(lambda rows: rows[:, 0], X, n_queries=1000, order=1, random_state=0)
    model.report(tmp_path / "page.html", X)
    scores = payload(tmp_path / "page.html")["scores"]
    assert scores == [["Fidelity to the black box, R2", model.fidelity_, None]]


def test_the_page_knows_every_link() -> None:
    script = (PAGE / "model.js").read_text()
    links = re.search(r"const LINKS = \{(.*?)\n\};", script, re.S)
    assert links is not None
    assert set(re.findall(r"^  (\w+): raw", links[1], re.M)) == set(LINKS)


def test_no_mark_of_the_template_is_left() -> None:
    page = render({"title": "a title"})
    assert not re.findall(r"/\*(POLICY|STYLE|SCRIPT|DATA)\*/", page)
    assert "class Model" in page
    assert "--paper" in page


@pytest.mark.parametrize("text", ["</script><b>", "<!--", "/*SCRIPT*/"])
def test_no_text_of_the_data_ends_its_script(text: str, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(render({"title": text}), encoding="utf-8")
    assert payload(path)["title"] == text


def test_scores_that_are_given_are_shown(models: dict[str, AnovaModel], tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    facts = FitFacts(scores={"Lift": 2.5, "10": 1.0, "9": float("nan")})
    write_report(models["regression"], path, facts=facts, title="A", target="price")
    data = payload(path)
    assert data["scores"] == [["Lift", 2.5, None], ["10", 1.0, None], ["9", None, None]]
    assert (data["title"], data["target"]) == ("A", "price")
    assert data["rows"] == data["offsets"] == data["warnings"] == []


def test_every_id_that_the_scripts_use_is_in_the_page() -> None:
    scripts = "".join(path.read_text() for path in PAGE.glob("*.js"))
    used = set(re.findall(r"""byId\("([\w-]+)"\)""", scripts))
    assert used <= set(re.findall(r"""id="([\w-]+)\"""", (PAGE / "page.html").read_text()))
    assert len(used) > 20


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("unit", [1e-150, 1e154, 1e300])
def test_targets_of_any_unit_give_valid_json(unit: float, tmp_path: Path) -> None:
    """JSON has no infinity; squares of such targets, and their bands in single precision, do."""
    rng = np.random.default_rng(0)
    model, rows = with_bands(random_model(3, 2)), rng.normal(size=(60, 3))
    large = replace(
        with_bands(model, unit=unit),
        tables=tuple(unit * table for table in model.tables),
        intercepts=unit * model.intercepts,
    )
    y = model.predict(rows) + rng.normal(size=60)
    write_report(model, tmp_path / "page.html", rows, y)
    expected = payload(tmp_path / "page.html")
    write_report(large, tmp_path / "page.html", rows, unit * y)
    found = payload(tmp_path / "page.html")
    assert "Infinity" not in (tmp_path / "page.html").read_text().split("payload")[1].split("<")[0]
    assert found["sobol"] == pytest.approx(np.array(expected["sobol"]))
    assert found["packed"]["step"] == pytest.approx(unit * expected["packed"]["step"])
    assert np.isfinite(unpack(found["packed"])[1]).all()
    before, after = (
        {name: value for name, value, _ in page["scores"]} for page in (expected, found)
    )
    assert after["R2"] == pytest.approx(before["R2"])
    for name in ("RMSE", "Mean absolute error", "Mean of actual less predicted"):
        assert after[name] == pytest.approx(unit * before[name], rel=1e-9, abs=0)
    assert found["warnings"] == expected["warnings"]


def test_the_page_says_how_the_model_was_fitted(mixed: Any, fast: Any, tmp_path: Path) -> None:
    X, y = mixed
    model = TPNNRegressor(**{**fast, "order": 1}).fit(X[100:], y[100:])
    model.report(tmp_path / "page.html", X[:100], y[:100])
    data = payload(tmp_path / "page.html")
    settings = dict(data["settings"])
    assert settings.keys() == model.get_params(deep=False).keys()
    assert settings["order"] == "1"
    assert settings["selection"] == "auto"  # without quotes
    assert (data["fitRows"], data["nRows"]) == (400, 100)
    assert data["version"] == tpnn.__version__
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", data["written"])
