"""Looks of workbooks: a first sheet that says what it is, inputs, drop-downs, formats, charts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from tpnn import __version__
from tpnn._utils.arrays import FloatArray
from tpnn.model.edit_log import digest
from tpnn.model.model import AnovaModel

READ_ME, EFFECTS = "Read me", "Effects"
INPUT_FILL, INPUT_INK = "FFFBE6", "1F4E9E"  # what a person may change: blue on pale yellow
LOW, MIDDLE, HIGH = "6FA3DC", "FFFFFF", "E08A87"  # of contributions: below, at and above zero
LINE = "2A6FBB"
WIDEST, NARROWEST = 32, 10  # letters of a column
HELP = (
    "Score: change the values in the yellow cells. The prediction stands in front of them; behind "
    "them stand the raw score and the contribution of each component, which add up to it with the "
    "average. Blue contributions lower it, red ones raise it.",
    "An empty cell is a missing value. A level that the fit has not seen brings a warning; a "
    "number beyond those of the fit counts as the outermost one.",
    "For more rows, copy the last line of Score down, and the last line of Lookup as far.",
    "Effects: every main effect, drawn. The sheets behind have the values of each component; those "
    "of interactions below 0.5 % of the variance are hidden: right-click a tab to see them.",
    "Nothing here is a macro: all are formulas, and nothing leaves this file.",
)
MORE_ROWS = 1000  # below those that are written, with drop-downs of their own
MOST_CHARTS = 40  # main effects, the largest first
CHART_SIZE = 15.0, 7.5  # centimetres, and the cells that they cover
CHART_CELLS = 9, 16


def dress(book: Any) -> None:
    """Make first rows bold and keep them in sight, and columns as wide as their headings."""
    from openpyxl.styles import Alignment, Font
    from openpyxl.utils import get_column_letter

    for sheet in book:
        if sheet.title in (READ_ME, EFFECTS):
            continue
        sheet.freeze_panes = sheet.freeze_panes or "A2"
        for cell in sheet[1]:
            cell.font, cell.alignment = Font(bold=True), Alignment(wrap_text=True, vertical="top")
            letter = get_column_letter(cell.column)
            if letter not in sheet.column_dimensions:  # dates have their own width
                width = min(max(len(str(cell.value or "")) + 2, NARROWEST), WIDEST)
                sheet.column_dimensions[letter].width = width


def number_format(sizes: FloatArray) -> str:
    """Format by which the largest of some numbers has three digits.

    >>> number_format(np.array([0.02, -1.5])), number_format(np.array([2500.0]))
    ('0.00', '#,##0')
    """
    largest = float(np.abs(sizes).max(initial=0.0))
    decimals = min(max(2 - math.floor(math.log10(largest)), 0), 8) if largest > 0 else 2
    return "#,##0" if not decimals else f"0.{'0' * decimals}"


class Inputs(NamedTuple):
    """Columns of the sheet of scores, as ranges of letters and numbers."""

    first_column: int  # of the values that can be changed
    last_column: int
    effects: tuple[int, int]  # first and last column of contributions
    n_rows: int


def dress_scores(sheet: Any, inputs: Inputs, model: AnovaModel, lists: dict[int, str]) -> None:
    """Colour inputs and contributions; ``lists`` has the range of the levels of each column."""
    from openpyxl.formatting.rule import ColorScaleRule
    from openpyxl.styles import Font, PatternFill
    from openpyxl.utils import get_column_letter
    from openpyxl.worksheet.datavalidation import DataValidation

    last = inputs.n_rows + 1
    for line in sheet.iter_rows(
        min_row=2, max_row=last, min_col=inputs.first_column, max_col=inputs.last_column
    ):
        for cell in line:
            cell.fill, cell.font = PatternFill("solid", INPUT_FILL), Font(color=INPUT_INK)
    for column, levels in lists.items():
        rule = DataValidation("list", formula1=f"={levels}", allow_blank=True, errorStyle="warning")
        rule.showErrorMessage = True
        rule.error = "The model has not seen this level in its fit."
        letter = get_column_letter(column)
        rule.add(f"{letter}2:{letter}{last + MORE_ROWS}")
        sheet.add_data_validation(rule)
    style = number_format(np.array([float(np.abs(table).max()) for table in model.tables] or [1.0]))
    is_share = model.link.kind == "classes"
    for line in sheet.iter_rows(min_row=2, max_row=last):
        for cell in line[: inputs.first_column - 1]:
            cell.font, cell.number_format = Font(bold=True), "0.0%" if is_share else "General"
        for cell in line[inputs.last_column :]:
            cell.number_format = style
    first, end = map(get_column_letter, inputs.effects)
    if inputs.effects[1] >= inputs.effects[0]:
        end_at = max(float(np.abs(table).max()) for table in model.tables)
        scale = ColorScaleRule(
            start_type="num", start_value=-end_at, start_color=LOW, mid_type="num", mid_value=0,
            mid_color=MIDDLE, end_type="num", end_value=end_at, end_color=HIGH,
        )  # fmt: skip
        sheet.conditional_formatting.add(f"{first}2:{end}{last + MORE_ROWS}", scale)
    sheet.freeze_panes = f"{get_column_letter(inputs.first_column)}2"


class Curve(NamedTuple):
    """A main effect to draw: where its values and effects are."""

    name: str
    values: Any  # Reference of openpyxl, numbers or labels
    effects: Sequence[tuple[str, Any]]  # name and Reference of each output
    has_levels: bool
    number_format: str


def draw_effects(book: Any, curves: Sequence[Curve]) -> None:
    """Draw main effects on a sheet of their own, the largest first, by charts that stay live."""
    from openpyxl.chart import BarChart, ScatterChart, Series
    from openpyxl.utils import get_column_letter

    sheet = book.create_sheet(EFFECTS)
    for place, curve in enumerate(curves[:MOST_CHARTS]):
        chart: Any = BarChart() if curve.has_levels else ScatterChart()
        chart.title, (chart.width, chart.height) = curve.name, CHART_SIZE
        chart.y_axis.title, chart.x_axis.delete, chart.y_axis.delete = "effect", False, False
        chart.x_axis.tickLblPos = "low"
        for name, effects in curve.effects:
            if curve.has_levels:
                series = Series(effects, title=name)
            else:
                series = Series(effects, curve.values, title=name)
                series.marker.symbol, series.smooth = "none", False
            chart.series.append(series)
        if curve.has_levels:
            chart.set_categories(curve.values)
        else:
            chart.x_axis.number_format = curve.number_format
        if len(curve.effects) == 1:
            chart.legend, ink = None, chart.series[0].graphicalProperties
            ink.solidFill = ink.line.solidFill = LINE
        row, column = divmod(place, 2)
        corner = f"{get_column_letter(1 + CHART_CELLS[0] * column)}{1 + CHART_CELLS[1] * row}"
        sheet.add_chart(chart, corner)


def write_read_me(sheet: Any, model: AnovaModel, n_written: int) -> None:
    """Say what the workbook is, with how many components, and how it is used."""
    from openpyxl.styles import Alignment, Font

    n_zeros, written = len(model.components) - n_written, str(n_written)
    if n_zeros:
        ones = "1 component that is zero is" if n_zeros == 1 else f"{n_zeros} that are zero are"
        written += f"; {ones} left out"
    facts = {
        "Model": digest(model),
        "Features": len(model.feature_names),
        "Components": written,
        "Written": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC by tpnn {__version__}",
    }
    sheet.title = READ_ME
    sheet["A1"], sheet["A1"].font = "A model as formulas", Font(bold=True, size=16)
    row = 3
    for name, value in facts.items():
        sheet.cell(row, 1, name).font = Font(bold=True)
        sheet.cell(row, 2, value).alignment = Alignment(horizontal="left")
        row += 1
    for text in HELP:
        row += 1
        cell = sheet.cell(row, 1, text)
        sheet.merge_cells(start_row=row, start_column=1, end_row=row, end_column=2)
        cell.alignment = Alignment(wrap_text=True, vertical="top")
        sheet.row_dimensions[row].height = 15 * (1 + len(text) // 95)
    sheet.column_dimensions["A"].width, sheet.column_dimensions["B"].width = 16, 84
    sheet.sheet_view.showGridLines = False
