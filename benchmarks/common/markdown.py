"""Results as Markdown: tables, numbers and paragraphs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from textwrap import fill

TEXT_WIDTH = 100


def markdown(rows: Sequence[Sequence[str]], padded: bool = False) -> str:
    """Return a Markdown table whose head is the first row; its columns of equal width if padded.

    >>> print(markdown([("a", "b"), ("1", "200")]))
    | a | b |
    | --- | --- |
    | 1 | 200 |
    >>> print(markdown([("a", "b"), ("1", "200")], padded=True))
    | a | b   |
    | - | --- |
    | 1 | 200 |
    """
    head, *body = rows
    if not padded:
        return "\n".join(map(_line, (head, ["---"] * len(head), *body)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (head, ["-" * width for width in widths], *body)
    return "\n".join(_line(map(str.ljust, line, widths)) for line in lines)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def four_digits(value: float) -> str:
    """Return a number with four digits, or with all digits before the point where it is large.

    >>> four_digits(0.123456), four_digits(123456.7), four_digits(math.nan)
    ('0.1235', '123,457', '-')
    """
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def fixed(values: Iterable[float], digits: Sequence[int]) -> list[str]:
    """Return numbers with so many digits after the point, in turn; a dash for what is unknown.

    >>> fixed([0.123, 4.0, math.nan, 5.0], [1, 0])
    ['0.1', '4', '–', '5']
    """
    return [
        "–" if math.isnan(value) else f"{value:.{digits[place % len(digits)]}f}"
        for place, value in enumerate(values)
    ]


def paragraph(text: str) -> str:
    """Return a text in lines of equal width."""
    return fill(" ".join(text.split()), TEXT_WIDTH)
