"""Dialect: how each database writes names, text, numbers, arrays, dates and the search for a node.

Text and names of the user's table reach a query through ``text`` and ``name`` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tpnn._utils.rules import check_parameters, choice_of
from tpnn.table.table import DATE, DURATION

LARGEST_DOUBLE = "1.7976931348623157e308"
NUMBERS_PER_LINE = 8
PLAIN_CAST = "CAST({x} AS {double})"
MAX_NAME_BYTES = 63  # of a column; PostgreSQL cuts longer names


def literal(number: float) -> str:
    """Write a number so that every database reads a double, not a decimal.

    >>> literal(0.5), literal(1e-300), literal(-0.0)
    ('0.5e0', '1e-300', '-0.0e0')
    """
    text = repr(float(number))
    return text if "e" in text else f"{text}e0"


def numbers_text(numbers: Sequence[float]) -> str:
    """Numbers with commas, a few on each line."""
    texts = list(map(repr, numbers))
    lines = [
        ", ".join(texts[start : start + NUMBERS_PER_LINE])
        for start in range(0, len(texts), NUMBERS_PER_LINE)
    ]
    return ",\n      ".join(lines)


def case_search(x: str, nodes: Sequence[float], first: int = 0) -> str:
    """Count the nodes at or below x, by halving.

    >>> case_search("x", [1.0, 2.0])
    'CASE WHEN x < 2.0e0 THEN CASE WHEN x < 1.0e0 THEN 0 ELSE 1 END ELSE 2 END'
    """
    if not nodes:
        return str(first)
    middle = len(nodes) // 2
    below = case_search(x, nodes[:middle], first)
    above = case_search(x, nodes[middle + 1 :], first + middle + 1)
    return f"CASE WHEN {x} < {literal(nodes[middle])} THEN {below} ELSE {above} END"


def _quoting(mark: str, escapes: dict[str, str]) -> Callable[[str], str]:
    """Return a function that escapes letters of a text and puts it between two marks."""
    written = str.maketrans(escapes)
    return lambda text: f"{mark}{text.translate(written)}{mark}"


_quoted_name = _quoting('"', {'"': '""'})
_plain_text = _quoting("'", {"'": "''"})
_doubled_text = _quoting("'", {"'": "''", "\\": "\\\\"})
_escaped_text = _quoting("'", {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r"})  # on one line


def _postgres_text(text: str) -> str:
    """Text that reads the same whether backslashes escape in plain quotes or not."""
    return f"E{_doubled_text(text)}" if "\\" in text else _plain_text(text)


def cut_name(name: str, ending: str = "") -> str:
    """Name of a column as PostgreSQL cuts it, with an ending."""
    return name.encode()[: MAX_NAME_BYTES - len(ending)].decode(errors="ignore") + ending


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How one database writes the pieces of a query."""

    string: str  # type of text
    array: str  # pattern of a constant array of doubles
    whole_array: str  # the same of whole numbers
    element: str  # pattern of the element {i}, from 0, of {array}
    seconds: dict[str, str]  # patterns of {x} in seconds; without DURATION, columns hold seconds
    double: str = "DOUBLE"  # type of numbers
    name: Callable[[str], str] = _quoted_name  # quotes an identifier
    column: Callable[[str], str] = str.casefold  # the same for names of the same column
    text: Callable[[str], str] = _plain_text  # quotes a string
    without_nan: str = "NULLIF({x}, CAST('NaN' AS DOUBLE))"  # a number {x}, NULL where it is NaN
    search: Callable[[str, Sequence[float]], str] = case_search  # counts the nodes at or below x
    boolean_by_text: bool = False  # whether truth values become doubles only by way of text
    least: str = "LEAST"
    greatest: str = "GREATEST"
    opening: str = "AS ("  # before a step
    fence: str = ""  # behind a step, so that the next one does not compute it again
    collation: str = ""  # makes text compare byte by byte
    answers_first: bool = False  # whether each question of trees gets a column
    number_cast: str = PLAIN_CAST  # a column {x} as a double, infinite if refused
    blank_text: str = "CAST({x} AS {string})"  # a column {x} as text, trailing blanks included
    floor: str = "FLOOR({x})"  # largest whole number that is not above {x}
    fraction: str = "{above} / {step}"  # of a step, with {tiny} much below every step

    def number(self, column: str, may_be_boolean: bool) -> str:
        """Column as a double, NULL where it is missing."""
        cast = self.number_cast
        if may_be_boolean and self.boolean_by_text:
            text = f"CAST({column} AS {self.string})"
            column = f"CASE {text} WHEN 'true' THEN '1' WHEN 'false' THEN '0' ELSE {text} END"
            cast = PLAIN_CAST
        return self.without_nan.format(x=cast.format(x=column, double=self.double))


def _width_bucket(x: str, nodes: Sequence[float]) -> str:
    if not nodes:
        return "0"
    return f"WIDTH_BUCKET({x}, CAST('{{{numbers_text(nodes)}}}' AS DOUBLE PRECISION[]))"


def _range_bucket(x: str, nodes: Sequence[float]) -> str:
    return f"RANGE_BUCKET({x}, [{numbers_text(nodes)}])" if nodes else "0"


# Dates that SQLite would read otherwise, such as 'now' or February 31, are refused.
_SQLITE_DATE = (
    "CASE WHEN {x} IS NULL THEN NULL"
    " WHEN DATE(SUBSTR({x}, 1, 10), '+0 days') = SUBSTR({x}, 1, 10)"
    " AND SUBSTR({x}, 20, 1) IN ('', '.') AND RTRIM(SUBSTR({x}, 21), '0123456789') = ''"
    " THEN COALESCE((STRFTIME('%s', SUBSTR({x}, 1, 19)) * 1000000"
    " + SUBSTR(SUBSTR({x}, 21, 6) || '000000', 1, 6)) / 1e6, 9e999) ELSE 9e999 END"
)

# A numeric beyond the doubles would fail the whole query; NaN is the largest number there.
_POSTGRES_NUMBER = (
    f"CASE WHEN ABS({{x}}) > {LARGEST_DOUBLE} AND {{x}} <> CAST('NaN' AS NUMERIC) THEN 'Infinity'"
    " WHEN ABS({x}) < 5e-324 THEN 0 ELSE CAST({x} AS {double}) END"
)

DIALECTS = {
    "postgres": Dialect(
        number_cast=_POSTGRES_NUMBER,
        double="DOUBLE PRECISION",
        string="TEXT",
        column=cut_name,
        blank_text="CASE WHEN {x} IS NOT NULL THEN CONCAT({x}, '') END",
        fraction="GREATEST({above} - {tiny}, 0) / {step}",  # a product must not underflow
        text=_postgres_text,
        without_nan="NULLIF({x}, CAST('NaN' AS DOUBLE PRECISION))",
        array="CAST('{{{numbers}}}' AS DOUBLE PRECISION[])",
        whole_array="CAST('{{{numbers}}}' AS INTEGER[])",
        element="({array})[{i} + 1]",
        seconds={DATE: "EXTRACT(EPOCH FROM {x})", DURATION: "EXTRACT(EPOCH FROM {x})"},
        search=_width_bucket,
        boolean_by_text=True,
        fence="OFFSET 0",
        collation=' COLLATE "C"',
    ),
    "duckdb": Dialect(
        answers_first=True,
        string="VARCHAR",
        array="CAST('[{numbers}]' AS DOUBLE[])",
        whole_array="CAST('[{numbers}]' AS INTEGER[])",
        element="{array}[{i} + 1]",
        seconds={DATE: "EPOCH_US({x}) / 1e6", DURATION: "EPOCH_US({x}) / 1e6"},
    ),
    "sqlite": Dialect(
        double="REAL",
        string="TEXT",
        without_nan="{x}",
        array="'[{numbers}]'",
        whole_array="'[{numbers}]'",
        element="({array} ->> ({i}))",
        seconds={DATE: _SQLITE_DATE},
        number_cast="CASE WHEN TYPEOF({x}) IN ('text', 'blob') THEN 9e999"
        " ELSE CAST({x} AS {double}) END",
        least="MIN",
        floor="(CAST({x} AS INTEGER) - ({x} < CAST({x} AS INTEGER)))",
        greatest="MAX",
        opening="AS MATERIALIZED (",
        collation=" COLLATE BINARY",
    ),
    "snowflake": Dialect(
        string="VARCHAR",
        column=str,
        text=_doubled_text,
        array="PARSE_JSON('[{numbers}]')",
        whole_array="PARSE_JSON('[{numbers}]')",
        element="CAST(GET({array}, {i}) AS DOUBLE)",
        seconds={DATE: "DATE_PART(EPOCH_MICROSECOND, {x}) / 1e6"},
        boolean_by_text=True,
    ),
    "bigquery": Dialect(
        double="FLOAT64",
        string="STRING",
        name=_quoting("`", {"\\": "\\\\", "`": "\\`"}),
        text=_escaped_text,
        without_nan="IF(IS_NAN({x}), NULL, {x})",  # where NaN does not equal NaN
        array="[{numbers}]",
        whole_array="[{numbers}]",
        element="{array}[SAFE_OFFSET({i})]",
        seconds={DATE: "UNIX_MICROS(CAST({x} AS TIMESTAMP)) / 1e6"},
        search=_range_bucket,
        boolean_by_text=True,
    ),
    "spark": Dialect(
        string="STRING",
        name=_quoting("`", {"`": "``"}),
        text=_escaped_text,
        array="FROM_JSON('[{numbers}]', 'ARRAY<DOUBLE>')",
        whole_array="FROM_JSON('[{numbers}]', 'ARRAY<INT>')",
        element="{array}[{i}]",
        seconds={DATE: "UNIX_MICROS(CAST({x} AS TIMESTAMP)) / 1e6"},
    ),
}


def dialect_of(name: str) -> Dialect:
    """Dialect of a database, by its name."""
    check_parameters({"dialect": name}, {"dialect": choice_of(*DIALECTS)})
    return DIALECTS[name]
