"""A score card or a tariff as a workbook: bands are looked up, points added, factors multiplied.

The sheet "Score" has a line for each row: values that can be changed, the exposure if there is one,
the result, and what each component gives. "Lookup" has the band of every value, "Bands" the cuts
and levels, and a sheet for each component its points or relativities, which can be changed too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.anova.components import Component
from tpnn.export.sheets.bins import BandedModel, Bands
from tpnn.export.sheets.workbook import (
    DATE_FORMAT,
    LOOKUP,
    SCORE,
    Columns,
    Range,
    check_levels,
    check_size,
    column_letters,
    in_days,
    in_period,
    level_formula,
    new_book,
    offset_heading,
    put,
    put_formula,
    put_line,
    save_book,
    sheet_name,
    written_rows,
)
from tpnn.table.table import DATE

if TYPE_CHECKING:
    from tpnn.export.sheets.rating import RatingTables
    from tpnn.export.sheets.scorecard import ScoreCard

BANDS = "Bands"
EXPOSURE = "exposure"

Combine = Callable[[str, str], str]  # formula of the result from a range of cells and the exposure


def write_card(card: ScoreCard, path: str | os.PathLike[str], X: Any) -> None:
    """Write a score card; the result is the sum of the points."""

    def total(cells: str, _: str) -> str:
        return f"{card.base_points}+SUM({cells})" if cells else str(card.base_points)

    _write(card.banded, card.points, path, (X, None), ("score", "points", total))


def write_tariff(tables: RatingTables, path: str | os.PathLike[str], X: Any, offset: Any) -> None:
    """Write rating tables; the result is base times relativities times exposure."""
    frames = zip(tables.banded.tables.items(), tables.frames.values(), strict=True)
    factors = {s: frame["relativity"].to_numpy().reshape(t.shape) for (s, t), frame in frames}
    is_odds = tables.banded.model.link.name == "logit"

    def product(cells: str, exposure: str) -> str:
        factors = [f"{tables.base:.17g}", f"PRODUCT({cells})" if cells else "", exposure]
        whole = "*".join(filter(None, factors))
        return f"({whole})/(1+{whole})" if is_odds else whole

    _write(tables.banded, factors, path, (X, offset), ("prediction", "relativity", product))


def _write(
    grouped: BandedModel,
    tables: Mapping[Component, FloatArray | IntArray],
    path: str | os.PathLike[str],
    rows: tuple[Any, Any],
    words: tuple[str, str, Combine],
) -> None:
    book = new_book()
    sheets = _BandSheets(book, grouped, tables, words)
    columns, offsets = written_rows(grouped.model, *rows)
    for row, added in enumerate(offsets.tolist()):
        values = {feature: columns[feature][row] for feature in grouped.bands}
        sheets.write_row(row + 2, values, added)
    save_book(book, path)


class _BandSheets:
    """The sheets of a workbook of bands, and where on them everything is."""

    def __init__(
        self,
        book: Any,
        grouped: BandedModel,
        tables: Mapping[Component, FloatArray | IntArray],
        words: tuple[str, str, Combine],
    ) -> None:
        self.book, self.grouped, self.words = book, grouped, words
        self.score, self.lookup = book.active, book.create_sheet(LOOKUP)
        self.bands = Columns(book.create_sheet(BANDS))
        self.score.title = SCORE
        self.offset = offset_heading(grouped.model, EXPOSURE)
        self.places = {feature: k for k, feature in enumerate(grouped.bands)}
        self.ranges = {feature: self._write_bands(feature) for feature in grouped.bands}
        self.values = {s: self._write_table(k, s, t) for k, (s, t) in enumerate(tables.items(), 1)}
        self._write_headings()

    def _write_bands(self, feature: int) -> list[Range]:
        """Write the cuts of a feature, or its levels and the band of each, from 1."""
        bands, name = self.grouped.bands[feature], self.grouped.model.feature_names[feature]
        about = self.grouped.model.encoder.features[feature]
        if bands.has_levels:
            check_levels(self.grouped.model, feature)
            of_level = (bands.of_point[: len(about.levels)] + 1).tolist()
            labels = self.bands.add(f"{name}: levels", about.levels)
            return [labels, self.bands.add(f"{name}: band", of_level)]
        style = DATE_FORMAT if about.kind == DATE else ""
        cuts = [in_days(about, cut) for cut in bands.cuts.tolist()]
        return [self.bands.add(f"{name}: a band begins at", cuts, style)]

    def _write_table(self, number: int, component: Component, table: Any) -> Range:
        """Sheet of a component: the bands of its features, and the value of each cell."""
        name = self.grouped.name(component)
        check_size(name, table.size + 1, len(component) + 1)
        columns = Columns(self.book.create_sheet(sheet_name(number, name)))
        for heading, labels in self.grouped.line_labels(component).items():
            columns.add(heading, labels)
        return columns.add(self.words[1], table.ravel().tolist())

    def _write_headings(self) -> None:
        names = [self.grouped.model.feature_names[feature] for feature in self.places]
        components = [f"{self.grouped.name(s)}: {self.words[1]}" for s in self.values]
        put_line(self.score, 1, [*names, *self.offset, self.words[0], *components])
        put_line(self.lookup, 1, [f"{name}: {of}" for name in names for of in ("level", "band")])

    def write_row(self, row: int, values: Mapping[int, Any], offset: float) -> None:
        """Write a row to score, with all its formulas."""
        check_size(SCORE, row, 1)
        model = self.grouped.model
        for feature, place in self.places.items():
            style = DATE_FORMAT if model.encoder.features[feature].kind == DATE else ""
            put(self.score, row, place + 1, values[feature], style)
            self._write_band(row, feature, place)
        result, added = len(self.places) + 1, ""
        if self.offset:
            cell = f"{column_letters(result)}{row}"
            is_exposure = self.offset == [EXPOSURE]
            put(self.score, row, result, float(np.exp(offset)) if is_exposure else offset)
            added, result = cell if is_exposure else f"EXP({cell})", result + 1
        first, last = column_letters(result + 1), column_letters(result + len(self.values))
        cells = f"{first}{row}:{last}{row}" if self.values else ""
        put_formula(self.score, row, result, self.words[2](cells, added))
        for place, (component, block) in enumerate(self.values.items(), result + 1):
            put_formula(self.score, row, place, f"INDEX({block},{self._cell(component, row)},1)")

    def _write_band(self, row: int, feature: int, place: int) -> None:
        """Write the band of a value on the sheet of bands, and the place of its level."""
        value = f"{SCORE}!${column_letters(place + 1)}{row}"
        bands, ranges = self.grouped.bands[feature], self.ranges[feature]
        if bands.has_levels:
            are_text = self.grouped.model.encoder.features[feature].are_text
            put_formula(self.lookup, row, 2 * place + 1, level_formula(value, ranges[0], are_text))
            level = f"${column_letters(2 * place + 1)}{row}"
            known = f"IF({level}=0,{bands.n_bands},INDEX({ranges[1]},{level},1))"
            band = f'IF({level}="",{bands.n_regular + 1},{known})'
        else:
            axis = self.grouped.model.encoder.axes[1][feature]
            band = number_formula(in_period(value, axis), bands, ranges[0])
        put_formula(self.lookup, row, 2 * place + 2, band)

    def _cell(self, component: Component, row: int) -> str:
        """Place of a row's cell in the table of a component, from 1."""
        first, *others = (
            (f"{LOOKUP}!${column_letters(2 * self.places[feature] + 2)}{row}", feature)
            for feature in component
        )
        place = first[0]
        for band, feature in others:
            place = f"({place}-1)*{self.grouped.bands[feature].n_bands}+{band}"
        return place


def number_formula(value: str, bands: Bands, cuts: Range) -> str:
    """Band of a number, from 1: one more than the cuts at or below it."""
    above = f"SUMPRODUCT(({cuts}<={value})*1)+1" if len(bands.cuts) else "1"
    return f'IF({value}="",{bands.n_bands},IF(ISNUMBER({value}),{above},NA()))'
