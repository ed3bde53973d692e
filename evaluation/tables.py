"""Lines of cells of text as Markdown tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


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

    >>> four_digits(0.123456), four_digits(123456.7)
    ('0.1235', '123,457')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
