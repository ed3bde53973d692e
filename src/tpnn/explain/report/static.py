"""Words in drawings: short enough for their room, and all of them when one hovers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.explain.report.writing import PAGE

if TYPE_CHECKING:
    import pandas as pd


ANGLE = -40  # degrees, of words that would touch
LETTER, TURNED_LETTER = 6.2, 5.6  # pixels that a letter is wide, about, level and at that angle


def drawn_word(
    x: float,
    y: float,
    word: str,
    most: int,
    *,
    anchor: str = "end",
    angle: int = 0,
    colour: str = "faint",
) -> str:
    """Write a word of at most so many letters as SVG.

    Parameters
    ----------
    x, y : float
        Where it is.
    word : str
        The word.
    most : int
        Letters that there is room for; a longer word loses its end.
    anchor : {"start", "middle", "end"}
        Which part of it is there.
    angle : int
        By how many degrees it is turned.
    colour : str
        Name of a colour of the page.
    """
    short = word if len(word) <= most else word[: max(most - 1, 1)] + "…"
    whole = f"<title>{escape(word)}</title>" if short != word else ""
    turn = f' transform="rotate({angle} {x:.1f} {y:.1f})"' if angle else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="11" fill="var(--{colour})" '
        f'text-anchor="{anchor}"{turn}>{escape(short)}{whole}</text>'
    )


def spread(n_places: int, most: int) -> list[int]:
    """At most so many of some places, evenly, with the first and the last.

    >>> spread(3, 5), spread(9, 3)
    ([0, 1, 2], [0, 4, 8])
    """
    places = np.linspace(0, n_places - 1, min(n_places, most)).round()
    found: list[int] = np.unique(places).astype(int).tolist()
    return found


WIDTH, HIGH = 340, 164  # of a chart, and of what is between its axes, in pixels
LEFT, RIGHT, TOP = 48, 24, 10
BELOW, BELOW_LEVELS = 26, 78  # for words, which are written at an angle below points
MOST_LEVELS, MOST_LETTERS = 24, 19  # that get a word, and of a word
COLOURS = ("var(--low)", "var(--high)", "var(--faint)")
DASHES = ("", "5 3", "2 3")  # so that lines differ without their colours, too
SMALLEST_SPAN = 1e-300
POINT_SHIFT = 7  # pixels between the points of two lines


@dataclass(frozen=True)
class Line:
    """One line of a chart.

    Parameters
    ----------
    name : str
        What it shows.
    x, y : array of shape (n_points,)
        Its points.
    reach : array of shape (n_points,), optional
        Half the width of the band around it.
    """

    name: str
    x: FloatArray
    y: FloatArray
    reach: FloatArray | None = None


def chart(
    title: str,
    lines: Sequence[Line],
    ticks: Sequence[str] | None = None,
    *,
    ends: tuple[str, str] | None = None,
    note: str = "",
) -> str:
    """Draw lines with their bands over each other.

    Parameters
    ----------
    title : str
        Heading.
    lines : sequence of Line
        What to draw.
    ticks : sequence of str, optional
        Words of levels: then lines are points above them.
    ends : pair of str, optional
        Words for the smallest and the largest x; numbers by default.
    note : str
        A sentence below the chart.
    """
    xs = np.concatenate([line.x for line in lines])
    spans = [line.y + side * (0 if line.reach is None else line.reach)
             for line in lines for side in (-1, 1)]  # fmt: skip
    ys = np.concatenate(spans)
    box = (float(xs.min()), float(xs.max())), (float(ys.min()), float(ys.max()))
    marks = "".join(
        _line(number, line, box, ticks is not None) for number, line in enumerate(lines)
    )
    legend = " · ".join(
        f'<span style="color:{COLOURS[k % 3]}">{"- -" if DASHES[k % 3] else "—"}</span> '
        f"{escape(line.name)}"
        for k, line in enumerate(lines)
    )
    below = _ends(ends or (cell(box[0][0]), cell(box[0][1]))) if ticks is None else _ticks(ticks)
    height = TOP + HIGH + (BELOW if ticks is None else BELOW_LEVELS)
    label = escape(f"{title}: {', '.join(line.name for line in lines)}")
    return (
        f'<figure class="card curve"><h3>{escape(title)}</h3>'
        f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
        f'aria-label="{label}">{_frame(box)}{below}{marks}</svg>'
        f'<p class="note">{legend}{f"<br>{escape(note)}" if note else ""}</p></figure>'
    )


def charts(drawn: Sequence[str]) -> str:
    """Put charts beside each other; what follows the first ones is folded."""
    if not drawn:
        return ""
    shown = f'<div class="curves">{"".join(drawn[:N_SHOWN])}</div>'
    if len(drawn) <= N_SHOWN:
        return shown
    rest = f'<div class="curves">{"".join(drawn[N_SHOWN:])}</div>'
    return f"{shown}<details><summary>Show all {len(drawn)}</summary>{rest}</details>"


Box = tuple[tuple[float, float], tuple[float, float]]  # ends of x and of y


def _place(x: FloatArray, y: FloatArray, box: Box) -> list[tuple[float, float]]:
    """Pixels of points."""
    (left, right), (low, high) = box
    across = (x - left) / max(right - left, SMALLEST_SPAN) * (WIDTH - LEFT - RIGHT) + LEFT
    up = (high - y) / max(high - low, SMALLEST_SPAN) * HIGH + TOP
    return [(round(float(a), 1), round(float(b), 1)) for a, b in zip(across, up, strict=True)]


def _line(number: int, line: Line, box: Box, are_points: bool) -> str:
    colour, dash = COLOURS[number % 3], DASHES[number % 3]
    if are_points:
        return _points(number, line, box)
    path = " ".join(f"{a},{b}" for a, b in _place(line.x, line.y, box))
    drawn = (
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" '
        f'stroke-dasharray="{dash}"/>'
    )
    if line.reach is None:
        return drawn
    above = _place(line.x, line.y + line.reach, box)
    below = _place(line.x, line.y - line.reach, box)
    outline = " ".join(f"{a},{b}" for a, b in (*above, *reversed(below)))
    return f'<polygon class="band" points="{outline}" fill="{colour}" opacity="0.15"/>{drawn}'


def _points(number: int, line: Line, box: Box) -> str:
    """Draw a ring for each level, with its band as a bar; lines stand beside each other."""
    colour, shift = COLOURS[number % 3], POINT_SHIFT * number
    rings = "".join(
        f'<circle cx="{a + shift}" cy="{b}" r="3" fill="none" stroke="{colour}" stroke-width="2"/>'
        for a, b in _place(line.x, line.y, box)
    )
    if line.reach is None:
        return rings
    above = _place(line.x, line.y + line.reach, box)
    below = _place(line.x, line.y - line.reach, box)
    bars = "".join(
        f'<line class="band" x1="{a + shift}" y1="{b}" x2="{c + shift}" y2="{d}" '
        f'stroke="{colour}" stroke-width="5" opacity="0.25"/>'
        for (a, b), (c, d) in zip(above, below, strict=True)
    )
    return bars + rings


def _frame(box: Box) -> str:
    """Axis lines, the zero line, and the ends of y in numbers."""
    _, (low, high) = box
    base = TOP + HIGH
    parts = [
        f'<line x1="{LEFT}" y1="{base}" x2="{WIDTH - RIGHT}" y2="{base}" stroke="var(--line)"/>',
        drawn_word(LEFT - 6, TOP + 8, cell(high), MOST_LETTERS),
        drawn_word(LEFT - 6, base, cell(low), MOST_LETTERS),
    ]
    if low < 0 < high:
        zero = _place(np.zeros(1), np.zeros(1), box)[0][1]
        parts.append(f'<line x1="{LEFT}" y1="{zero}" x2="{WIDTH - RIGHT}" y2="{zero}" '
                     'stroke="var(--line)" stroke-dasharray="2 2"/>')  # fmt: skip
    return "".join(parts)


def _ends(words: tuple[str, str]) -> str:
    """Words below the ends of x."""
    y = TOP + HIGH + 18
    first = drawn_word(LEFT, y, words[0], MOST_LETTERS, anchor="start")
    return first + drawn_word(WIDTH - RIGHT, y, words[1], MOST_LETTERS)


def _ticks(words: Sequence[str]) -> str:
    """Words below points, at an angle, of which the first ones have less room; some of many."""
    step, y, found = (WIDTH - LEFT - RIGHT) / max(len(words) - 1, 1), TOP + HIGH + 14, []
    for place in spread(len(words), MOST_LEVELS):
        x = LEFT + place * step + POINT_SHIFT
        room = min(MOST_LETTERS, int(x / TURNED_LETTER))
        found.append(drawn_word(x, y, words[place], room, angle=ANGLE))
    return "".join(found)


HEAT_WIDTH = 340  # of a map with its words, in pixels
MOST_ROOM = 112  # for words beside a map, in pixels
HEAT_TOP, HEAT_RIGHT, BELOW_NUMBERS, BELOW_WORDS = 4, 6, 34, 78
LOWEST, LINE = 190, 15  # height of a map at least, and of a level with its word
MOST_WORDS_DOWN, MOST_TICKS = 24, 4
HEAT_MOST_LETTERS = 14  # of a word below a map
N_SHADES = 10  # of each sign


@dataclass(frozen=True)
class Side:
    """One side of a heat map.

    Parameters
    ----------
    name : str
        The feature.
    words : tuple of str
        What each column or row stands for.
    are_levels : bool
        Whether these are levels, of which each has its word, rather than numbers in order.
    """

    name: str
    words: tuple[str, ...]
    are_levels: bool

    def shown(self, most: int) -> list[int]:
        """Places that get a word: every level where there is room, a few of many numbers."""
        return spread(len(self.words), most if self.are_levels else MOST_TICKS)


def heat_maps(
    title: str, sides: tuple[Side, Side], maps: Mapping[str, FloatArray], note: str
) -> str:
    """Draw grids beside each other; the colours of all of them mean the same, and zero has none.

    Parameters
    ----------
    title : str
        What they show.
    sides : pair of Side
        Columns and rows; rows go upwards.
    maps : dict from str to array of shape (n_columns, n_rows)
        The grids by name.
    note : str
        A sentence below them.
    """
    limit = max(float(np.abs(grid).max(initial=0.0)) for grid in maps.values())
    drawn = "".join(
        f'<figure class="map"><figcaption class="note">{escape(name)}</figcaption>'
        f"{_map(f'{title}, {name}', sides, grid / (limit or 1.0))}</figure>"
        for name, grid in maps.items()
    )
    return (
        f'<div class="card curve heat"><h3>{escape(title)}</h3>{_legend(limit)}'
        f'<div class="curves">{drawn}</div><p class="note">{escape(note)}</p></div>'
    )


def _map(label: str, sides: tuple[Side, Side], shares: FloatArray) -> str:
    """Draw one grid of shares of the largest value, in [-1, 1]."""
    across, down = sides
    letters = max((len(word) for word in down.words), default=0)
    left = 22 + min(MOST_ROOM, LETTER * letters + 8)
    tall = max(LOWEST, LINE * min(len(down.words), MOST_WORDS_DOWN) if down.are_levels else 0)
    below = BELOW_WORDS if across.are_levels else BELOW_NUMBERS
    wide, height = HEAT_WIDTH - left - HEAT_RIGHT, HEAT_TOP + tall + below
    place = (
        f"translate({left:.0f} {TOP}) scale({wide / len(shares):.4f} {tall / shares.shape[1]:.4f})"
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}" role="img" '
        f'aria-label="{escape(label)}"><g transform="{place}" shape-rendering="crispEdges">'
        f"{_cells(shares)}</g>{_words_across(across, left, wide, TOP + tall, height)}"
        f"{_words_down(down, left, tall)}</svg>"
    )


def _cells(shares: FloatArray) -> str:
    """One path for each shade, of runs of cells along the rows, the first row at the bottom."""
    shades = np.rint(np.clip(shares, -1, 1) * N_SHADES).astype(np.intp).T[::-1]
    paths: dict[int, list[str]] = {}
    for line, row in enumerate(shades):
        for first, last in _runs(row):
            run = f"M{first} {line}h{last - first}v1h-{last - first}z"
            paths.setdefault(int(row[first]), []).append(run)
    return "".join(
        f'<path style="fill:{shade_colour(shade)}" d="{"".join(runs)}"/>'
        for shade, runs in sorted(paths.items())
    )


def _runs(row: IntArray) -> list[tuple[int, int]]:
    """First and last (exclusive) places of runs of equal numbers.

    >>> _runs(np.array([1, 1, 2]))
    [(0, 2), (2, 3)]
    """
    ends = [0, *(np.flatnonzero(np.diff(row)) + 1).tolist(), len(row)]
    return list(pairwise(ends))


def shade_colour(shade: int) -> str:
    """Colour of a shade between -N_SHADES and N_SHADES: blue below zero, red above."""
    colour, share = ("high" if shade > 0 else "low"), 100 * abs(shade) // N_SHADES
    return f"color-mix(in srgb, var(--{colour}) {share}%, var(--zero))"


def _legend(limit: float) -> str:
    """Colours from the lowest to the highest value, and these values."""
    boxes = "".join(
        f'<rect x="{8 * (shade + N_SHADES)}" width="8" height="10" '
        f'style="fill:{shade_colour(shade)}"/>'
        for shade in range(-N_SHADES, N_SHADES + 1)
    )
    width = 8 * (2 * N_SHADES + 1)
    drawn = f'<svg width="{width}" height="10" role="img" aria-label="blue to red">{boxes}</svg>'
    return f'<p class="note legend">{cell(-limit)} {drawn} {cell(limit)}</p>'


def _words_across(side: Side, left: float, wide: float, bottom: float, height: float) -> str:
    """Words below the columns, and the name of the feature."""
    step, words = wide / max(len(side.words), 1), []
    for place in side.shown(round(wide / 12)):
        x, word = left + (place + 0.5) * step, side.words[place]
        if side.are_levels:
            room = min(HEAT_MOST_LETTERS, int(x / TURNED_LETTER))
            words.append(drawn_word(x, bottom + 12, word, room, angle=ANGLE))
        elif place == len(side.words) - 1:
            words.append(drawn_word(left + wide, bottom + 14, word, HEAT_MOST_LETTERS))
        else:
            words.append(drawn_word(x, bottom + 14, word, HEAT_MOST_LETTERS, anchor="middle"))
    name = drawn_word(left + wide / 2, height - 4, side.name, int(wide / LETTER),
                      anchor="middle", colour="ink")  # fmt: skip
    return "".join(words) + name


def _words_down(side: Side, left: float, tall: float) -> str:
    """Words beside the rows, from the bottom to the top, and the name of the feature."""
    step = tall / max(len(side.words), 1)
    words = [
        drawn_word(left - 5, HEAT_TOP + tall - (place + 0.5) * step + 4, side.words[place],
                   int((left - 26) / LETTER))
        for place in side.shown(MOST_WORDS_DOWN)
    ]  # fmt: skip
    name = drawn_word(11, HEAT_TOP + tall / 2, side.name, int(tall / LETTER), anchor="middle",
                      angle=-90, colour="ink")  # fmt: skip
    return "".join(words) + name


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
