"""Lines of cells of text as Markdown tables."""

from __future__ import annotations

from collections.abc import Sequence


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
    widths = [max(map(len, column)) if padded else 0 for column in zip(*rows, strict=True)]
    rule = ["-" * (width or 3) for width in widths]
    return "\n".join(_line(row, widths) for row in (rows[0], rule, *rows[1:]))


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
    return f"| {' | '.join(cells)} |"


def four_digits(value: float) -> str:
    """Return a number with four digits, or with all digits before the point where it is large.

    >>> four_digits(0.123456), four_digits(123456.7)
    ('0.1235', '123,457')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
