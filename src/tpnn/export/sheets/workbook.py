"""write_workbook: a spreadsheet whose formulas are the model."""

from __future__ import annotations

import io
import math
import os
import re
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn._utils.files import write_file
from tpnn._utils.rules import optional
from tpnn.anova.components import Component, in_order
from tpnn.export.sheets.looks import (
    EFFECTS,
    Curve,
    Inputs,
    draw_effects,
    dress,
    dress_scores,
    write_read_me,
)
from tpnn.export.sheets.tidy import band_of, cell_masses, refuse_remainder, title
from tpnn.loss.links import LARGEST_SCORE
from tpnn.model.model import AnovaModel, changed, offset_of
from tpnn.table.axis import Axis
from tpnn.table.encoder import Feature
from tpnn.table.table import DATE, DURATION, PERIODIC
from tpnn.table.words import SECONDS_PER_DAY, node_words


class Range(NamedTuple):
    """A block of cells on a sheet, given by its first and last row and column, from 1."""

    sheet: str
    first_row: int
    first_column: int
    last_row: int
    last_column: int

    def __str__(self) -> str:
        """Write it with its sheet, so that it means the same in every cell.

        >>> str(Range("it's", 2, 1, 5, 28))
        "'it''s'!$A$2:$AB$5"
        """
        quoted = self.sheet.replace("'", "''")
        first = f"${column_letters(self.first_column)}${self.first_row}"
        last = f"${column_letters(self.last_column)}${self.last_row}"
        return f"'{quoted}'!{first}:{last}"


def column_letters(number: int) -> str:
    """Letters of a column, from 1.

    >>> column_letters(1), column_letters(26), column_letters(27), column_letters(703)
    ('A', 'Z', 'AA', 'AAA')
    """
    letters = ""
    while number:
        number, letter = divmod(number - 1, 26)
        letters = chr(ord("A") + letter) + letters
    return letters


def level_formula(value: str, labels: Range, are_text: bool) -> str:
    """Place of a level among the labels, from 1; 0 for an unseen one, "" for a missing one.

    MATCH would ignore case and read wildcards, so texts are compared by EXACT. A number never
    equals a text, unless all levels are texts of numbers.
    """
    places = f"(ROW({labels})-{labels.first_row - 1})"
    texts = f'SUMPRODUCT(EXACT({labels},{value}&"")*ISTEXT({labels})*{places})'
    if are_text:
        return f'IF(ISBLANK({value}),"",{texts})'
    numbers = f"SUMPRODUCT(ISNUMBER({labels})*({labels}={value})*{places})"
    return f'IF(ISBLANK({value}),"",IF(ISNUMBER({value}),{numbers},{texts}))'


def in_period(value: str, axis: Axis) -> str:
    """Cell of a value; a periodic number within its period, "" where it is missing.

    >>> in_period("A2", Axis(np.array([0.0, 24.0]), np.ones(2) / 2, PERIODIC))
    'IF(ISNUMBER(A2),A2-INT(A2/24.0)*24.0,A2&"")'
    """
    if axis.kind != PERIODIC:
        return value
    period = float(axis.values[-1])
    return f'IF(ISNUMBER({value}),{value}-INT({value}/{period})*{period},{value}&"")'


def node_formula(value: str, axis: Axis, nodes: Range) -> str:
    """Node at or below a value, from 1; 0 where every component is zero.

    ``value`` is a cell with a number, or empty where the value is missing. For a nominal feature it
    has the place of the level, and ``nodes`` the node of each level; else ``nodes`` are the nodes.
    """
    missing = axis.missing_node + 1 if axis.has_missing else 0
    if axis.groups is not None:
        unseen = axis.unseen_node + 1 if axis.has_unseen else 0
        node = f"IF({value}=0,{unseen},INDEX({nodes},{value}))"
    elif axis.is_empty:
        node = "0"
    else:
        number = f"IF(ISNUMBER({value}),MEDIAN({value},MIN({nodes}),MAX({nodes})),NA())"
        node = f"MATCH({number},{nodes},1)"
        if axis.levels is not None:  # an ordered level that fit has not seen has no place
            node = f"IF({value}=0,0,{node})"
    return f'IF({value}="",{missing},{node})'


def share_formula(value: str, node: str, axis: Axis, nodes: Range) -> str:
    """How far a value lies towards the next node, from 0 to 1."""
    if axis.groups is not None or len(axis.values) < 2:
        return "0"
    low, high = f"INDEX({nodes},{node})", f"INDEX({nodes},{node}+1)"
    inside = f"AND({node}>0,{node}<{len(axis.values)})"
    share = f"MAX(0,MIN(1,({value}-{low})/({high}-{low})))"
    return f'IF({value}="",0,IF({inside},{share},0))'


def component_formula(
    nodes: list[str], shares: list[str], sizes: list[int], values: Range, is_smooth: list[bool]
) -> str:
    """Multilinear interpolation in a block of values.

    Rows of the block are the cells of all features but the last, in row-major order; its columns
    are the nodes of the last feature. A single feature has its nodes in the rows.
    """
    corners = []
    for corner in product(*((0, 1) if smooth else (0,) for smooth in is_smooth)):
        weights = [
            f"{share}" if up else f"(1-{share})"
            for share, up, smooth in zip(shares, corner, is_smooth, strict=True)
            if smooth
        ]
        at = [
            f"MIN({node}+1,{size})" if up else node
            for node, up, size in zip(nodes, corner, sizes, strict=True)
        ]
        corners.append("*".join([*weights, f"INDEX({values},{_place(at, sizes)})"]))
    return f"IF(MIN({','.join(nodes)})=0,0,{'+'.join(corners)})"


def _place(at: list[str], sizes: list[int]) -> str:
    """Row and column of a cell in its block.

    >>> _place(["B2", "C2", "D2"], [4, 5, 6])
    '(B2-1)*5+C2,D2'
    """
    if len(at) == 1:
        return f"{at[0]},1"
    row = at[0]
    for node, size in zip(at[1:-1], sizes[1:-1], strict=True):
        row = f"({row}-1)*{size}+{node}"
    return f"{row},{at[-1]}"


def link_formula(link: str, raws: list[str], output: int) -> str:
    """Prediction from the raw scores of all outputs."""
    raw, all_raws = raws[output], f"{raws[0]}:{raws[-1]}"
    if link == "log":
        return f"EXP(MEDIAN({-LARGEST_SCORE:g},{raw},{LARGEST_SCORE:g}))"
    if link == "logit":
        return f"IF({raw}>=0,1,EXP(-ABS({raw})))/(1+EXP(-ABS({raw})))"
    if link == "softmax":
        shares = f"SUMPRODUCT(EXP({all_raws}-MAX({all_raws})))"
        return f"EXP({raw}-MAX({all_raws}))/{shares}"
    if link == "quantiles":
        return f"SMALL({all_raws},{output + 1})"
    return raw


SCORE, LOOKUP, NODES = "Score", "Lookup", "Nodes"
EPOCH_DAY = 25_569  # 1970-01-01 as spreadsheets count days
MAX_ROWS, MAX_COLUMNS, MAX_TEXT = 1_048_576, 16_384, 32_767
MAX_SHEET_NAME = 31
EXACT_DIGITS = 14  # numbers that differ in them are different in every spreadsheet
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
EMPTY_TEXT = '=""'  # a cell without content would be a missing value
DATE_FORMAT, DAY_FORMAT = "yyyy-mm-dd hh:mm:ss", "yyyy-mm-dd"
DATE_WIDTH = 20  # letters of a column, below which a spreadsheet shows ####
LEAST_SHARE = 0.005  # of the variance, below which the sheet of an interaction is hidden


def write_workbook(
    model: AnovaModel, path: str | os.PathLike[str], X: Any = None, offset: Any = None
) -> None:
    """Write a spreadsheet whose formulas are the model.

    The sheet "Score" has a line for each row: the prediction, its values, which can be changed,
    raw score and the value of every component; all but the values are formulas. Copy a line of
    "Score" and of "Lookup" down for more rows. "Lookup" finds the neighbouring nodes of each value
    on "Nodes"; a sheet for each component has its grid of values, hidden for small interactions.
    "Effects" draws main effects, and "Read me" says all this. Components that are zero are left
    out.

    An empty cell is a missing value. Dates are dates of the spreadsheet, durations are days.

    Parameters
    ----------
    model : AnovaModel
        The model.
    path : path
        Where to write, a name that ends in ".xlsx".
    X : table, optional
        Rows to begin with; by default one row, of the node with most mass of every feature.
    offset : array of shape (n_rows,), optional
        Known part of the raw score of each row of X.
    """
    refuse_remainder(model, "a workbook")
    book, (columns, offsets) = new_book(), written_rows(model, X, offset)
    reduced = _without_zeros(model)
    write_read_me(book.active, model, len(reduced.components))
    sheets = _Sheets(book, reduced)
    for row, added in enumerate(offsets.tolist()):
        sheets.write_row(row + 2, [column[row] for column in columns], added)
    sheets.dress(len(offsets))
    save_book(book, path)


def _without_zeros(model: AnovaModel) -> AnovaModel:
    """Leave out components that are zero everywhere."""
    places = [place for place, table in enumerate(model.tables) if table.any()]
    return changed(
        model,
        **in_order({model.components.components[k]: model.tables[k] for k in places}),
        evidence=model.evidence.of_components(places),
    )


def save_book(book: Any, path: str | os.PathLike[str]) -> None:
    """Write a workbook, so that a crash leaves the old file or the new one."""
    dress(book)
    buffer = io.BytesIO()
    book.save(buffer)
    write_file(path, buffer.getvalue())


def new_book() -> Any:
    """Make an empty workbook."""
    return optional("openpyxl", "to_excel", "tpnn[excel]").Workbook()


def written_rows(
    model: AnovaModel, X: Any, offset: Any
) -> tuple[Sequence[Sequence[Any]], FloatArray]:
    """Values of every feature as a spreadsheet has them, and the offset of each row."""
    encoder = model.encoder
    if X is None:
        usual = [
            axis.numbers[[np.argmax(axis.weights)]] for axis in encoder.axes[min(encoder.axes)]
        ]
        columns = [_written(*one) for one in zip(encoder.features, usual, strict=True)]
        return columns, np.zeros(1)
    table = encoder.read(X)
    offsets = offset_of(model, table, offset)
    columns = [
        _written(feature, encoder.numbers(table, j), table.column(j))
        for j, feature in enumerate(encoder.features)
    ]
    return columns, np.zeros(table.n_rows) if offsets is None else offsets


def _written(feature: Feature, numbers: FloatArray, column: Any = None) -> list[Any]:
    """Values of a column; a level that fit has not seen as the label that it has."""
    if not feature.levels:
        return [None if np.isnan(x) else in_days(feature, float(x)) for x in numbers]
    if column is None:  # nodes, which fit has seen
        return [None if np.isnan(x) else feature.levels[int(x)] for x in numbers]
    labels = column.levels
    return [
        None if np.isnan(number)
        else feature.levels[int(number)] if np.isfinite(number)
        else labels[int(code)] if labels else float(code)
        for number, code in zip(numbers, column.values, strict=True)
    ]  # fmt: skip


def in_days(feature: Feature, number: float) -> float:
    """Dates and durations in days, as spreadsheets count them; other numbers as they are."""
    if feature.kind == DATE:
        return number / SECONDS_PER_DAY + EPOCH_DAY
    return number / SECONDS_PER_DAY if feature.kind == DURATION else number


class Columns:
    """A sheet on which columns stand beside one another."""

    def __init__(self, sheet: Any) -> None:
        self.sheet, self.n_columns = sheet, 0

    def add(self, heading: str, values: Sequence[Any], style: str = "") -> Range:
        """Write one more column; return the block of its values."""
        self.n_columns += 1
        last = len(values) + 1
        check_size(heading, last, self.n_columns)
        for row, value in enumerate([heading, *values], 1):
            put(self.sheet, row, self.n_columns, value, style if row > 1 else "")
        return Range(self.sheet.title, 2, self.n_columns, last, self.n_columns)


class _Sheets:
    """The sheets of a workbook, and where on them everything is."""

    def __init__(self, book: Any, model: AnovaModel) -> None:
        self.model, self.book = model, book
        self.score, self.lookup = book.create_sheet(SCORE), book.create_sheet(LOOKUP)
        self.nodes = Columns(book.create_sheet(NODES))
        self.n_outputs = len(model.intercepts)
        variances = [
            float((cell_masses(model.axes(s)) * (table**2).sum(-1)).sum())
            for s, table in zip(model.components, model.tables, strict=True)
        ]
        self.shares = np.array(variances) / (sum(variances) or 1.0)
        used = sorted({j for component in model.components for j in component})
        self.levels = {j: self._write_levels(j) for j in used if model.encoder.features[j].levels}
        places = sorted({(j, len(s)) for s in model.components for j in s})
        self.ranges = {(j, order): self._write_nodes(j, order) for j, order in places}
        self.grids = [self._write_grid(k, s) for k, s in enumerate(model.components)]
        self._write_headings()

    def _value(self, feature: int) -> str:
        """Letters of the column of a feature on the sheet of scores."""
        return column_letters(self.n_outputs + feature + 1)

    def dress(self, n_rows: int) -> None:
        """Draw main effects, hide what is faint, and make the sheet of scores one to work on."""
        n_inputs = len(self.model.feature_names) + len(offset_heading(self.model))
        last = self.n_outputs + n_inputs
        n_effects = self.n_outputs * len(self.model.components)
        effects = last + self.n_outputs + 1, last + self.n_outputs + n_effects
        lists = {self.n_outputs + j + 1: str(levels) for j, levels in self.levels.items()}
        inputs = Inputs(self.n_outputs + 1, last, effects, n_rows)
        dress_scores(self.score, inputs, self.model, lists)
        ranked = np.argsort(-self.shares, kind="stable").tolist()
        mains = [place for place in ranked if len(self.model.components.components[place]) == 1]
        draw_effects(self.book, [self._curve(place) for place in mains])
        self.book.move_sheet(EFFECTS, 2 - (len(self.book.sheetnames) - 1))
        for place, component in enumerate(self.model.components):
            if len(component) > 1 and self.shares[place] < LEAST_SHARE:
                self.book[self.grids[place][0].sheet].sheet_state = "hidden"

    def _curve(self, place: int) -> Curve:
        """Where the values and the effects of a main effect are."""
        from openpyxl.chart import Reference

        def reference(block: Range, n_rows: int) -> Any:
            last = block.first_row + n_rows - 1
            sheet = self.book[block.sheet]
            return Reference(sheet, block.first_column, block.first_row, block.first_column, last)

        (feature,) = self.model.components.components[place]
        axis, blocks = self._axis(feature, 1), self.grids[place]
        has_levels = axis.levels is not None or axis.is_empty
        n_rows = axis.n_nodes if has_levels else len(axis.values)
        values = self.ranges[feature, 1]
        if has_levels:
            values = blocks[0]._replace(first_column=1, last_column=1)
        outputs = self.model.output_names or ("effect",)
        return Curve(
            name=self.model.feature_names[feature],
            values=reference(values, n_rows),
            effects=[(o, reference(b, n_rows)) for o, b in zip(outputs, blocks, strict=True)],
            has_levels=has_levels,
            number_format=DAY_FORMAT if axis.kind == DATE else "General",
        )

    def _axis(self, feature: int, order: int) -> Axis:
        return self.model.encoder.axes[order][feature]

    def _write_levels(self, feature: int) -> Range:
        check_levels(self.model, feature)
        levels = self.model.encoder.features[feature].levels
        return self.nodes.add(f"{self.model.feature_names[feature]}: levels", levels)

    def _write_nodes(self, feature: int, order: int) -> Range:
        """Nodes of a feature, or the node of each level where they have no order."""
        axis, about = self._axis(feature, order), self.model.encoder.features[feature]
        heading = f"{self.model.feature_names[feature]}: nodes of order {order}"
        if axis.groups is not None:
            return self.nodes.add(heading, (axis.groups + 1).tolist())
        numbers = axis.values
        values = numbers + 1 if about.levels else [in_days(about, float(x)) for x in numbers]
        style = DATE_FORMAT if about.kind == DATE else ""
        return self.nodes.add(heading, [float(x) for x in values], style)

    def _write_grid(self, place: int, component: Component) -> list[Range]:
        """Sheet of a component; the block of values of each output."""
        names, axes = self.model.component_names[place], self.model.axes(component)
        sheet = self.book.create_sheet(sheet_name(place + 1, title(names)))
        table, words = self.model.tables[place], [node_words(axis) for axis in axes]
        if len(component) == 1:
            return self._write_curve(sheet, place, names[0], words[0])
        shape = table.shape[:-1]
        n_lines, n_labels = math.prod(shape[:-1]), len(shape) - 1
        outputs = self.model.output_names or ("effect",)
        blocks = []
        for k, output in enumerate(outputs):
            top = 1 + k * (n_lines + 2)
            check_size(title(names), top + n_lines, n_labels + shape[-1])
            put_line(sheet, top, [*names[:-1], *words[-1], f"{output}; columns: {names[-1]}"])
            for line, cell in enumerate(np.ndindex(*shape[:-1]), top + 1):
                labels = [word[i] for word, i in zip(words, cell, strict=False)]
                put_line(sheet, line, [*labels, *table[(*cell, slice(None), k)]])
            last = top + n_lines, n_labels + shape[-1]
            blocks.append(Range(sheet.title, top + 1, n_labels + 1, *last))
        return blocks

    def _write_curve(self, sheet: Any, place: int, name: str, words: list[str]) -> list[Range]:
        """Nodes in rows; effect and band of 95 % of each output, and mass, in columns."""
        table = self.model.tables[place]
        has_bands = self.model.evidence.posterior(place) is not None
        outputs = [f"{o}: " for o in self.model.output_names] or [""]
        whats = ["effect", *["lower end of the 95 % band", "upper end"] * has_bands]
        heads = [f"{output}{what}" for what in whats for output in outputs]
        masses = cell_masses(self.model.axes(self.model.components.components[place]))
        band = band_of(self.model, place) if has_bands else ()
        columns = np.column_stack([table, *band, masses])
        check_size(name, len(words) + 1, len(heads) + 2)
        put_line(sheet, 1, [name, *heads, "mass"])
        for line, (word, values) in enumerate(zip(words, columns, strict=True), 2):
            put_line(sheet, line, [word, *values])
        last = len(words) + 1
        return [Range(sheet.title, 2, k + 2, last, k + 2) for k in range(len(outputs))]

    def _write_headings(self) -> None:
        outputs = [f": {output}" for output in self.model.output_names] or [""]
        components = [title(names) for names in self.model.component_names]
        names = self.model.feature_names
        heads = [f"prediction{output}" for output in outputs]
        heads += [*names, *offset_heading(self.model, "offset (log exposure)")]
        heads += [f"raw score{output}" for output in outputs]
        heads += [f"{name}{output}" for name in components for output in outputs]
        check_size(SCORE, 1, len(heads))
        put_line(self.score, 1, heads)
        looked_up = [f"{names[j]}: level" for j in self.levels]
        looked_up += [
            f"{names[feature]}: {what} of order {order}"
            for feature, order in self.ranges
            for what in ("node", "share")
        ]
        put_line(self.lookup, 1, looked_up)

    def write_row(self, row: int, values: Sequence[Any], offset: float) -> None:
        """Write a row to score, with all its formulas."""
        check_size(SCORE, row, 1)
        features = self.model.encoder.features
        for feature, value in enumerate(values):
            style = DATE_FORMAT if features[feature].kind == DATE else ""
            put(self.score, row, self.n_outputs + feature + 1, value, style)
        first = self.n_outputs + len(values) + 1
        if offset_heading(self.model):
            put(self.score, row, first, offset)
            first += 1
        self._write_scores(row, first, self._write_lookup(row))

    def _write_lookup(self, row: int) -> dict[tuple[int, int], tuple[str, str]]:
        """Write where each value lies; the cells of node and share, by feature and order."""
        cells, column, places = {}, 0, {}
        for feature, labels in self.levels.items():
            column += 1
            value = f"{SCORE}!${self._value(feature)}{row}"
            are_text = self.model.encoder.features[feature].are_text
            put_formula(self.lookup, row, column, level_formula(value, labels, are_text))
            places[feature] = f"${column_letters(column)}{row}"
        for (feature, order), nodes in self.ranges.items():
            value = places.get(feature, f"{SCORE}!${self._value(feature)}{row}")
            axis = self._axis(feature, order)
            value = in_period(value, axis)
            node, share = (f"${column_letters(column + k)}{row}" for k in (1, 2))
            put_formula(self.lookup, row, column + 1, node_formula(value, axis, nodes))
            put_formula(self.lookup, row, column + 2, share_formula(value, node, axis, nodes))
            cells[feature, order] = f"{LOOKUP}!{node}", f"{LOOKUP}!{share}"
            column += 2
        return cells

    def _write_scores(
        self, row: int, first: int, cells: dict[tuple[int, int], tuple[str, str]]
    ) -> None:
        """Write prediction, and raw score and components of a row, these beginning at a column."""
        n_outputs, effects = self.n_outputs, first + self.n_outputs
        raws = [f"{column_letters(first + k)}{row}" for k in range(n_outputs)]
        for k in range(n_outputs):
            link = link_formula(self.model.link.name, raws, k)
            put_formula(self.score, row, k + 1, link)
            terms = [f"{self.model.intercepts[k]:.17g}"]
            if offset_heading(self.model):
                terms.append(f"{column_letters(first - 1)}{row}")
            terms += [
                f"{column_letters(effects + place * n_outputs + k)}{row}"
                for place in range(len(self.grids))
            ]
            put_formula(self.score, row, first + k, "+".join(terms))
            for place, component in enumerate(self.model.components):
                formula = self._component(component, cells, self.grids[place][k])
                put_formula(self.score, row, effects + place * n_outputs + k, formula)

    def _component(
        self, component: Component, cells: dict[tuple[int, int], tuple[str, str]], values: Range
    ) -> str:
        axes = self.model.axes(component)
        nodes, shares = zip(*(cells[j, len(component)] for j in component), strict=True)
        sizes, smooth = [axis.n_nodes for axis in axes], [axis.has_steps for axis in axes]
        return component_formula(list(nodes), list(shares), sizes, values, smooth)


def offset_heading(model: AnovaModel, of_exposure: str = "offset") -> list[str]:
    """Heading of the column of the offset, or of the exposure; none where the model has none."""
    column = model.encoder.offset_column
    if column is not None and column.is_exposure:
        return [of_exposure]
    return ["offset"] * (model.has_offset or column is not None)


def check_levels(model: AnovaModel, feature: int) -> None:
    """Refuse numbers as levels that a spreadsheet cannot tell apart."""
    levels, name = model.encoder.features[feature].levels, model.feature_names[feature]
    numbers = [f"{level:.{EXACT_DIGITS}g}" for level in levels if not isinstance(level, str)]
    if len(set(numbers)) < len(numbers):
        raise ValueError(
            f"model: a spreadsheet tells numbers apart by {EXACT_DIGITS} digits, and some "
            f"levels of {name!r} differ only beyond them. Make them strings."
        )


def put(sheet: Any, row: int, column: int, value: Any, style: str = "") -> None:
    """Write a value: a text is a text, whatever it begins with. ``style`` is that of dates."""
    if value is None:
        return
    cell = sheet.cell(row, column)
    if value == "":
        cell.value = EMPTY_TEXT
    elif isinstance(value, str):
        if CONTROL.search(value) or len(value) > MAX_TEXT:
            raise ValueError(
                f"model: names and levels must be printable and of at most {MAX_TEXT} characters "
                f"for a spreadsheet, found {value[:20]!r}. Rename the level."
            )
        cell.value = _escaped(value)
        cell.data_type = "s"
    else:
        cell.value = float(value)
    if style:
        cell.number_format = style
        sheet.column_dimensions[cell.column_letter].width = DATE_WIDTH


def _escaped(text: str) -> str:
    """Text that is read back as it is: spreadsheets take _x0041_ for a letter.

    >>> _escaped("a_x0041_")
    'a_x005F_x0041_'
    """
    return re.sub(r"_(?=x[0-9A-Fa-f]{4}_)", "_x005F_", text).replace("\r", "_x000D_")


def put_line(sheet: Any, row: int, values: Iterable[Any]) -> None:
    """Write values beside one another, from the first column on."""
    for column, value in enumerate(values, 1):
        put(sheet, row, column, value)


def put_formula(sheet: Any, row: int, column: int, formula: str) -> None:
    """Write a formula, given without its equals sign."""
    sheet.cell(row, column).value = f"={formula}"


def sheet_name(number: int, name: str) -> str:
    """Name of a sheet: unique by its number, short, without characters that are not allowed.

    >>> sheet_name(3, "it's [a/b]")
    '3 it s  a b '
    """
    return re.sub(r"[\[\]:*?/\\'\x00-\x1f]", " ", f"{number} {name}")[:MAX_SHEET_NAME]


def check_size(name: str, n_rows: int, n_columns: int) -> None:
    """Refuse what no sheet has room for."""
    if n_rows > MAX_ROWS or n_columns > MAX_COLUMNS:
        raise ValueError(
            f"model: a sheet has at most {MAX_ROWS} rows and {MAX_COLUMNS} columns, found {n_rows} "
            f"and {n_columns} in {name!r}. Fit with fewer nodes or rows, or use to_table()."
        )
