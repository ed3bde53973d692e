"""Charts: lines, bands and bars as SVG that needs no script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.explain.pages.page import N_SHOWN, cell
from tpnn.explain.pages.words import ANGLE, TURNED_LETTER, drawn_word, spread

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
