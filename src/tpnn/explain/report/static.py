"""Static pages: sections of tables, pictures and empty fields in one file without scripts."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

from tpnn.explain.metrics.curves import score_words
from tpnn.explain.plots.style import load_pyplot
from tpnn.explain.report.writing import PAGE, policy
from tpnn.model.summary import p_value_words
from tpnn.table.words import column, column_of, written

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


# text stays text, and a figure has the same bytes each time it is written
SVG_SETTINGS: Any = {"svg.fonttype": "none", "svg.hashsalt": "tpnn"}
NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
HEADS = {"p_value": "p-value", "n_rows": "rows"}  # of columns
N_SHOWN = 10  # lines of a table, and pictures, that are not folded
N_NOTEBOOK = 5  # lines of a table in a notebook
LONG_TEXT = 90  # letters of a cell, beyond which it is folded
WIDE_INCHES = 6.0  # a picture that is wider stands alone


@dataclass(frozen=True)
class Section:
    """One section of a page."""

    heading: str
    note: str  # a sentence or two about its content
    blocks: tuple[str, ...]  # HTML of its tables and pictures


def page(
    title: str,
    lede: str,
    facts: Sequence[tuple[str, Any]],
    sections: Sequence[Section],
    keep: str = "",
) -> str:
    """Write a whole page: heading, one sentence about it, named facts, and sections.

    With a name to ``keep`` them under, the browser keeps what a person writes into its fields.
    """
    script = (PAGE / "fields.js").read_text(encoding="utf-8") if keep else ""
    style = (PAGE / "style.css").read_text(encoding="utf-8")
    shown = "".join(f"<div><dt>{escape(n)}</dt><dd>{cell(v)}</dd></div>" for n, v in facts)
    button = '<button id="save-page" type="button" title="with what was written">Save page</button>'
    links = "".join(f'<a href="#s{k}">{escape(s.heading)}</a>' for k, s in enumerate(sections))
    body = "".join(
        f'<section id="s{k}"><h2>{escape(s.heading)}</h2>{paragraph(s.note) if s.note else ""}'
        f"{''.join(s.blocks)}</section>"
        for k, s in enumerate(sections)
    )
    return (
        f'<!doctype html>\n<html lang="en" data-keep="{escape(keep)}">\n'
        '<head>\n<meta charset="utf-8">\n'
        f"{policy(script)}\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="data:,">\n'
        f"<style>{style}</style>\n</head>\n<body>\n"
        f'<header class="top"><div class="wrap"><h1>{escape(title)}</h1>'
        f'<p class="lede">{escape(lede)}</p><dl class="facts">{shown}</dl></div></header>\n'
        '<nav class="bar" aria-label="Sections">'
        f'<div class="wrap">{links}{button * bool(keep)}</div></nav>\n'
        f'<main class="wrap">{body}</main>\n'
        '<footer class="wrap">Written by tpnn. This page is one file and needs no network.'
        f"</footer>\n{f'<script>{script}</script>' if script else ''}</body>\n</html>\n"
    )


def paragraph(text: str) -> str:
    """Write a sentence or two beside a table."""
    return f'<p class="note">{escape(text)}</p>'


def table(frame: pd.DataFrame) -> str:
    """Write a frame as a table; lines after the first ``N_SHOWN`` are folded."""
    if not len(frame):
        return paragraph("None.")
    return _folded(_lines(frame.iloc[:N_SHOWN]), _lines(frame.iloc[N_SHOWN:]), len(frame))


def _folded(shown: str, rest: str, n: int) -> str:
    if n <= N_SHOWN:
        return shown
    return shown + unfolded(f"Show all {n}", rest)


def unfolded(summary: str, block: str) -> str:
    """Write a line that unfolds to a block."""
    return f"<details><summary>{escape(summary)}</summary>{block}</details>"


def _lines(frame: pd.DataFrame) -> str:
    name = escape(", ".join(map(str, frame.columns)).replace("_", " "))
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="Table of {name}">'
        f"<table>{_table(frame)}</table></div>"
    )


def _table(frame: pd.DataFrame) -> str:
    """Write head and body of a table."""
    lines = _written(frame)
    kinds = [
        ' class="text"' if any(type(value) is str for value in values) else ""
        for values in zip(*lines, strict=True)
    ]
    heads = "".join(
        f"<th{kind}>{escape(HEADS.get(str(name), str(name).replace('_', ' ')))}</th>"
        for name, kind in zip(frame.columns, kinds or [""] * frame.shape[1], strict=True)
    )
    rows = "".join(
        f"<tr><th>{cell(first)}</th>"
        + "".join(f"<td{k}>{_folded_text(v)}</td>" for v, k in zip(rest, kinds[1:], strict=True))
        + "</tr>"
        for first, *rest in lines
    )
    return f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody>"


def _written(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    """Lines of a frame; numbers of a column have the same decimals, the largest four digits."""
    columns = []
    for name, values in frame.items():
        cells = list(values)
        if name == "score" and all(type(one) is str for one in cells):
            cells = list(map(score_words, cells))
        elif name == "component":
            cells = [str(one).replace(" x ", " × ") for one in cells]
        elif name == "amount":
            cells = [Number(written(one)) for one in cells]  # each in the unit of its feature
        elif name == "p_value":
            cells = [Number(p_value_words(p).replace(" ", "\u00a0")) for p in cells]
        elif cells and all(isinstance(x, Real) and not isinstance(x, Integral) for x in cells):
            cells = [Number(text) for text in column_of(cells, 4)]
        columns.append(cells)
    return list(zip(*columns, strict=True))


class Number(str):
    """A number as text, which stands at the right of its column."""

    __slots__ = ()


def notebook(verdict: str, frame: pd.DataFrame) -> str:
    """Write a sentence and the first lines of a table, as a notebook shows an object."""
    lines = f"<table>{_table(frame.iloc[:N_NOTEBOOK])}</table>" if len(frame) else ""
    return f"<p><b>{escape(verdict)}</b></p>{lines}"


def counted(n: int, word: str) -> str:
    """Write a number of things.

    >>> counted(1, "row"), counted(2500, "row")
    ('1 row', '2\u202f500 rows')
    """
    return f"{column([n])[0]} {word}{'' if n == 1 else 's'}"


def _folded_text(value: Any) -> str:
    """Write a value; a long text begins with its first words, and the whole unfolds."""
    if not isinstance(value, str) or len(value) <= LONG_TEXT:
        return cell(value)
    start = value[:LONG_TEXT].rsplit(" ", 1)[0]
    return unfolded(f"{start} …", escape(value))


def pictures(drawn: Iterable[str]) -> str:
    """Put pictures beside each other; pictures after the first ``N_SHOWN`` are folded.

    Without matplotlib, which draws them, say how to get it.
    """
    try:
        cards = list(drawn)
    except ImportError as error:
        return paragraph(str(error))
    shown, rest = "".join(cards[:N_SHOWN]), "".join(cards[N_SHOWN:])
    grid = '<div class="pictures">{}</div>'
    return _folded(grid.format(shown), grid.format(rest), len(cards)) if cards else ""


def picture(title: str, figure: Figure, note: str = "") -> str:
    """Write a figure of matplotlib as SVG between a heading and a note, and close it.

    A wide figure gets all the width of the page.
    """
    pyplot, file = load_pyplot(), io.StringIO()
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    with pyplot.rc_context(SVG_SETTINGS):
        # savefig would draw the figure twice, the first time only to lay it out
        canvas: Any = FigureCanvasSVG(figure)
        canvas.print_svg(file, metadata=NO_METADATA)
    pyplot.close(figure)
    drawn = re.sub(r' xmlns(:xlink)?="[^"]*"', "", file.getvalue())  # which HTML does not need
    drawn = drawn[drawn.index("<svg") :].replace(
        "<svg", f'<svg role="img" aria-label="{escape(title)}"', 1
    )
    own = sha256(drawn.encode()).hexdigest()[:8]  # no two pictures of a page share an id
    drawn = re.sub(r'( id="|url\(#|href="#)', rf"\g<1>s{own}_", drawn)
    kind = "card picture wide" if figure.get_figwidth() > WIDE_INCHES else "card picture"
    return (
        f'<figure class="{kind}"><h3>{escape(title)}</h3>{drawn}'
        f"{paragraph(note) if note else ''}</figure>"
    )


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
    ('0.123', '3', 'a &lt; b', '–', 'yes')
    """
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if value is None or isinstance(value, Real):
        return column([None if value is None else float(value)])[0]
    return escape(str(value))
