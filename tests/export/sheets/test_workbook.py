"""The workbook: LibreOffice calculates from its formulas what the model predicts."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.export.sheets.models import fuzzed_rows, mixed_model, mixed_rows
from tests.models import random_model, table_model, with_remainder
from tpnn import AnovaModel, scorecard
from tpnn.export.sheets.looks import INPUT_FILL
from tpnn.loss.links import LINKS
from tpnn.model.edit_log import digest
from tpnn.table.table import OffsetColumn

openpyxl = pytest.importorskip("openpyxl", reason="needs tpnn[excel]")
OFFICE = shutil.which("soffice") or shutil.which("libreoffice")
needs_office = pytest.mark.skipif(OFFICE is None, reason="LibreOffice is not installed")
pytestmark = pytest.mark.filterwarnings("ignore:X. levels or missing values")


def calculated(path: Path) -> pd.DataFrame:
    """The sheet "Score" after LibreOffice has calculated it."""
    out = path.parent / "calculated"
    profile = f"-env:UserInstallation=file://{path.parent}/profile"
    command = [OFFICE, profile, "--headless", "--convert-to", "xlsx", "--outdir", out, path]
    subprocess.run(command, check=True, capture_output=True, timeout=180)
    sheet = openpyxl.load_workbook(out / path.name, data_only=True)["Score"]
    lines = list(sheet.iter_rows(values_only=True))
    return pd.DataFrame(lines[1:], columns=lines[0])


def check(model: AnovaModel, X: Any, folder: Path, offset: Any = None) -> None:
    """Predictions, raw scores and components of the workbook are those of the model."""
    path = folder / "model.xlsx"
    model.to_excel(path, X, offset)
    frame = calculated(path)
    n_outputs, n_rows = len(model.intercepts), len(X)
    n_outputs, n_rows = len(model.intercepts), len(X)
    first = list(frame).index(next(name for name in frame if str(name).startswith("raw score")))
    numbers = frame.iloc[:, first:].to_numpy(float)
    raw = model.raw_scores(X, offset)
    unit = raw.std()
    found = numbers[:, :n_outputs]
    assert np.abs(found - raw.reshape(n_rows, -1)).max() <= 1e-12 * unit
    parts = model.component_scores(X).reshape(n_rows, -1)
    assert np.abs(numbers[:, n_outputs:] - parts).max() <= 1e-12 * unit
    predictions = model.predict(X, offset).reshape(n_rows, -1)
    assert np.allclose(frame.iloc[:, :n_outputs].to_numpy(float), predictions, rtol=1e-12)


@needs_office
@pytest.mark.slow
@pytest.mark.parametrize("link", ["log", "logit", "identity"])
def test_every_kind_of_feature_and_of_row(link: str, tmp_path: Path) -> None:
    model = mixed_model(2, link)
    check(model, fuzzed_rows(model, 200), tmp_path)


@needs_office
@pytest.mark.slow
def test_triples_and_an_offset(tmp_path: Path) -> None:
    rows = mixed_rows()[["amount", "size", "town"]]
    model = replace(table_model(rows, 3, "log", unit=0.2), has_offset=True)
    X = fuzzed_rows(mixed_model(1), 100)[list(rows)]
    check(model, X, tmp_path, offset=np.linspace(-1, 1, 100))


@needs_office
@pytest.mark.slow
def test_an_exposure_is_read_from_its_column(tmp_path: Path) -> None:
    model = mixed_model(1)
    column = OffsetColumn("years", 6, is_exposure=True)
    model = replace(model, encoder=replace(model.encoder, offset_column=column))
    check(model, fuzzed_rows(model, 30).assign(years=np.linspace(0.1, 2, 30)), tmp_path)


@needs_office
@pytest.mark.slow
@pytest.mark.parametrize("link", ["softmax", "quantiles"])
def test_several_outputs(link: str, tmp_path: Path) -> None:
    model = replace(random_model(3, 2, n_outputs=3), link=LINKS[link])
    check(model, np.random.default_rng(0).normal(0, 2, (50, 3)), tmp_path)


def test_levels_are_text_and_never_formulas(tmp_path: Path) -> None:
    model = mixed_model(1)
    model.to_excel(tmp_path / "model.xlsx", mixed_rows(100))
    book = openpyxl.load_workbook(tmp_path / "model.xlsx")
    first = ["Read me", "Score", "Effects", "Lookup", "Nodes", "1 amount"]
    assert book.sheetnames[:6] == first
    towns = {cell.value for cell in book["6 town"]["A"]}
    assert {"=1+1", "'); DROP TABLE x; --", "#N/A"} <= towns
    for sheet in book:
        for cells in sheet.iter_rows():
            for cell in cells:
                if cell.data_type == "f" and cell.value != '=""':  # the empty level
                    assert sheet.title in ("Score", "Lookup")
                    assert "DROP" not in cell.value
                    assert cell.column not in range(2, 8) or sheet.title == "Lookup"


def test_without_rows_there_is_one_to_begin_with(tmp_path: Path) -> None:
    mixed_model(1).to_excel(tmp_path / "model.xlsx")
    sheet = openpyxl.load_workbook(tmp_path / "model.xlsx")["Score"]
    assert sheet.max_row == 2
    assert sheet.cell(2, 3).value in range(12)


def test_dates_are_shown_whole(tmp_path: Path) -> None:
    """In a column that is too narrow a spreadsheet shows #### instead."""
    frame = pd.DataFrame({"day": pd.date_range("2020-01-01", periods=50, freq="7h")})
    table_model(frame, 1).to_excel(tmp_path / "model.xlsx", frame)
    book = openpyxl.load_workbook(tmp_path / "model.xlsx")
    letters = {cell.column_letter for cell in book["Score"][2] if cell.is_date}
    assert letters == {"B"}
    for sheet in book:
        for column in sheet.iter_cols():
            if any(getattr(cell, "is_date", False) for cell in column):
                assert sheet.column_dimensions[column[0].column_letter].width >= 20


def test_the_workbook_is_one_to_hand_over(tmp_path: Path) -> None:
    """It says what it is, marks inputs, offers levels, leaves out zeros and hides faint pairs."""
    whole = mixed_model(2, "logit")
    tables = [table * (0 if place == 1 else 1) for place, table in enumerate(whole.tables)]
    tables[-1] = tables[-1] * 1e-6
    model = replace(whole, tables=tuple(tables))
    model.to_excel(tmp_path / "model.xlsx", mixed_rows(5))
    book = openpyxl.load_workbook(tmp_path / "model.xlsx")
    words = [str(cell.value) for line in book["Read me"].iter_rows() for cell in line]
    assert digest(model) in words
    assert f"{len(tables) - 1}; 1 component that is zero is left out" in words
    names = [" x ".join(name) for name in model.component_names]
    score = book["Score"]
    heads = [cell.value for cell in score[1]]
    assert heads[0] == "prediction"
    assert heads[len(model.feature_names) + 2 :] == [name for name in names if name != names[1]]
    hidden = {sheet.title for sheet in book if sheet.sheet_state == "hidden"}
    assert any(names[-1].startswith(title.split(" ", 1)[1]) for title in hidden)
    assert not any(" x " not in title for title in hidden)
    assert all(cell.font.bold for cell in score[1])
    assert score.freeze_panes == "B2"
    is_input = [cell.fill.fgColor.rgb.endswith(INPUT_FILL) for cell in score[2]]
    assert [head for head, yes in zip(heads, is_input, strict=True) if yes] == list(
        model.feature_names
    )
    offered = {}
    for rule in score.data_validations.dataValidation:
        column = heads[openpyxl.utils.column_index_from_string(str(rule.sqref).split("2:")[0]) - 1]
        cells = book["Nodes"][rule.formula1.split("!")[1].replace("$", "")]
        offered[column] = len([cell.value for (cell,) in cells])
        assert rule.showErrorMessage
    levels = {
        name: len(feature.levels)
        for name, feature in zip(model.feature_names, model.encoder.features, strict=True)
        if feature.levels
    }
    assert offered == levels
    mains = [name for name in model.component_names if len(name) == 1]
    assert len(book["Effects"]._charts) == len(mains) - 1


def test_charts_draw_the_nodes_and_their_effects(tmp_path: Path) -> None:
    model = mixed_model(1)
    model.to_excel(tmp_path / "model.xlsx")
    book = openpyxl.load_workbook(tmp_path / "model.xlsx")
    for chart in book["Effects"]._charts:
        name = chart.title.tx.rich.p[0].r[0].t
        place = model.component_names.index((name,))
        (axis,), table = model.axes(model.components.components[place]), model.tables[place][:, 0]
        (series,) = chart.series
        values = cells_of(book, (series.yVal or series.val).numRef.f)
        assert values == pytest.approx(table[: len(values)])
        assert len(values) == (axis.n_nodes if axis.levels is not None else len(axis.values))
        if series.xVal is not None:
            assert len(cells_of(book, series.xVal.numRef.f)) == len(values)


def cells_of(book: Any, reference: str) -> list[Any]:
    """Values of a column of cells that a formula names."""
    title, _, cells = reference.rpartition("!")
    block = book[title.strip("'").replace("''", "'")][cells.replace("$", "")]
    return [cell.value for (cell,) in block]


def test_what_a_spreadsheet_cannot_hold(tmp_path: Path) -> None:
    rows = mixed_rows()
    control = table_model(rows[["town"]].fillna("a\x01b"), 1)
    with pytest.raises(ValueError, match="model: names and levels must be printable"):
        control.to_excel(tmp_path / "model.xlsx")
    close = pd.DataFrame({"id": pd.Categorical([10**15, 10**15 + 1] * 10)})
    with pytest.raises(ValueError, match="model: a spreadsheet tells numbers apart by 14 digits"):
        table_model(close, 1).to_excel(tmp_path / "model.xlsx")
    with pytest.raises(ValueError, match=r"of 12 trees to them\. Fit with remainder=False\."):
        with_remainder(mixed_model()).to_excel(tmp_path / "model.xlsx")
    assert not (tmp_path / "model.xlsx").exists()


def test_openpyxl_is_named_where_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(ImportError, match=r"to_excel: needs openpyxl.*tpnn\[excel\]"):
        mixed_model(1).to_excel(tmp_path / "model.xlsx")


@needs_office
@pytest.mark.slow
def test_a_score_card_adds_its_points(tmp_path: Path) -> None:
    card = scorecard(mixed_model(2, "logit"), cuts={"count": [3, 7.5]})
    X = fuzzed_rows(card.banded.model, 200).round(6)  # spreadsheets compare 15 digits
    card.to_excel(tmp_path / "card.xlsx", X)
    found = calculated(tmp_path / "card.xlsx")
    assert np.array_equal(found["score"], card.score(X))
    assert np.array_equal(
        found.filter(like=": points").sum(axis=1) + card.base_points, found["score"]
    )


@needs_office
@pytest.mark.slow
@pytest.mark.parametrize("link", ["log", "logit"])
def test_a_tariff_multiplies_base_relativities_and_exposure(link: str, tmp_path: Path) -> None:
    model = mixed_model(2, link)
    X = fuzzed_rows(model, 200).round(6)
    if link == "log":
        column = OffsetColumn("years", 6, is_exposure=True)
        encoder = replace(model.encoder, offset_column=column)
        model = replace(model, encoder=encoder, has_offset=True)
        X = X.assign(years=np.linspace(0.1, 2, 200))
    tables = model.rating_tables(max_bands=3).capped(0.8, 1.25).rounded(2)
    tables.to_excel(tmp_path / "tariff.xlsx", X)
    found = calculated(tmp_path / "tariff.xlsx")
    assert np.allclose(found["prediction"].astype(float), tables.predict(X), rtol=1e-12)
    if link == "log":
        assert np.allclose(found["exposure"].astype(float), X["years"])
