"""Page: sections become one HTML file in the style of the report, without scripts or network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

from tpnn.explain.report.html import PAGE

if TYPE_CHECKING:
    import pandas as pd

N_SHOWN = 10  # lines of a table that are not folded
DIGITS = 4


@dataclass(frozen=True)
class Section:
    """One section of a page.

    Parameters
    ----------
    heading : str
        Its heading.
    note : str
        What it shows, in a sentence or two.
    parts : tuple of str
        HTML of its tables and charts.
    """

    heading: str
    note: str
    parts: tuple[str, ...]


def page(
    title: str, lede: str, facts: Sequence[tuple[str, Any]], sections: Sequence[Section]
) -> str:
    """Write a whole page.

    Parameters
    ----------
    title, lede : str
        Heading, and what the page is about in one sentence.
    facts : sequence of (name, value)
        Numbers to show below the heading.
    sections : sequence of Section
        What follows.
    """
    style = (PAGE / "style.css").read_text(encoding="utf-8")
    shown = "".join(f"<div><dt>{escape(n)}</dt><dd>{cell(v)}</dd></div>" for n, v in facts)
    links = "".join(f'<a href="#s{k}">{escape(s.heading)}</a>' for k, s in enumerate(sections))
    body = "".join(_section(number, section) for number, section in enumerate(sections))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="data:,">\n'
        f"<style>{style}</style>\n</head>\n<body>\n"
        f'<header class="top"><div class="wrap"><h1>{escape(title)}</h1>'
        f'<p class="lede">{escape(lede)}</p><dl class="facts">{shown}</dl></div></header>\n'
        f'<nav class="bar" aria-label="Sections"><div class="wrap">{links}</div></nav>\n'
        f'<main class="wrap">{body}</main>\n'
        '<footer class="wrap">Written by tpnn. This page is one file and needs no network.'
        "</footer>\n</body>\n</html>\n"
    )


def _section(number: int, section: Section) -> str:
    note = paragraph(section.note) if section.note else ""
    parts = "".join(section.parts)
    return f'<section id="s{number}"><h2>{escape(section.heading)}</h2>{note}{parts}</section>'


def paragraph(text: str) -> str:
    """Write a sentence or two beside a table."""
    return f'<p class="note">{escape(text)}</p>'


def table(frame: pd.DataFrame) -> str:
    """Write a frame as a table; what follows the first lines is folded."""
    if not len(frame):
        return '<p class="note">None.</p>'
    shown = _lines(frame.iloc[:N_SHOWN])
    if len(frame) <= N_SHOWN:
        return shown
    rest = _lines(frame.iloc[N_SHOWN:])
    return f"{shown}<details><summary>Show all {len(frame)}</summary>{rest}</details>"


def _lines(frame: pd.DataFrame) -> str:
    heads = "".join(f"<th>{escape(str(name).replace('_', ' '))}</th>" for name in frame.columns)
    rows = "".join(
        f"<tr><th>{cell(first)}</th>{''.join(f'<td>{cell(value)}</td>' for value in rest)}</tr>"
        for first, *rest in frame.itertuples(index=False, name=None)
    )
    head = f"<thead><tr>{heads}</tr></thead>"
    return f'<div class="scroll"><table>{head}<tbody>{rows}</tbody></table></div>'


def field(label: str) -> str:
    """Write an empty field in which a person writes."""
    name = escape(label)
    return (
        f'<label class="note">{name}<br><textarea class="field" rows="3" aria-label="{name}">'
        "</textarea></label>"
    )


def cell(value: Any) -> str:
    """Write a value: numbers with a few digits, text escaped.

    >>> cell(0.123456), cell(3), cell("a < b"), cell(float("nan")), cell(True)
    ('0.1235', '3', 'a &lt; b', '–', 'yes')
    """
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return str(int(value))
    if value is None or (isinstance(value, Real) and math.isnan(float(value))):
        return "–"
    return f"{float(value):.{DIGITS}g}" if isinstance(value, Real) else escape(str(value))
