"""Charts: lines, bands and bars as SVG that needs no script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from tpnn._typing import FloatArray
from tpnn.pages.page import cell

WIDTH, HEIGHT = 340, 200  # in pixels
LEFT, RIGHT, TOP, BOTTOM = 48, 24, 10, 26
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


def chart(title: str, lines: Sequence[Line], ticks: Sequence[str] | None = None) -> str:
    """Draw lines with their bands over each other; with ``ticks``, points above these words."""
    xs = np.concatenate([line.x for line in lines])
    spans = [line.y + side * (0 if line.reach is None else line.reach)
             for line in lines for side in (-1, 1)]  # fmt: skip
    ys = np.concatenate(spans)
    ends = (float(xs.min()), float(xs.max())), (float(ys.min()), float(ys.max()))
    marks = "".join(
        _line(number, line, ends, ticks is not None) for number, line in enumerate(lines)
    )
    legend = " · ".join(
        f'<span style="color:{COLOURS[k % 3]}">{"- -" if DASHES[k % 3] else "—"}</span> '
        f"{escape(line.name)}"
        for k, line in enumerate(lines)
    )
    label = escape(f"{title}: {', '.join(line.name for line in lines)}")
    return (
        f'<figure class="card curve"><h3>{escape(title)}</h3>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-label="{label}">{_frame(ends, ticks)}{marks}</svg>'
        f'<p class="note">{legend}</p></figure>'
    )


def charts(drawn: Sequence[str]) -> str:
    """Put charts beside each other."""
    return f'<div class="curves">{"".join(drawn)}</div>' if drawn else ""


Ends = tuple[tuple[float, float], tuple[float, float]]


def _place(x: FloatArray, y: FloatArray, ends: Ends) -> list[tuple[float, float]]:
    """Pixels of points."""
    (left, right), (low, high) = ends
    across = (x - left) / max(right - left, SMALLEST_SPAN) * (WIDTH - LEFT - RIGHT) + LEFT
    up = (high - y) / max(high - low, SMALLEST_SPAN) * (HEIGHT - TOP - BOTTOM) + TOP
    return [(round(float(a), 1), round(float(b), 1)) for a, b in zip(across, up, strict=True)]


def _line(number: int, line: Line, ends: Ends, are_points: bool) -> str:
    colour, dash = COLOURS[number % 3], DASHES[number % 3]
    if are_points:
        return _points(number, line, ends)
    path = " ".join(f"{a},{b}" for a, b in _place(line.x, line.y, ends))
    drawn = (
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" '
        f'stroke-dasharray="{dash}"/>'
    )
    if line.reach is None:
        return drawn
    above = _place(line.x, line.y + line.reach, ends)
    below = _place(line.x, line.y - line.reach, ends)
    outline = " ".join(f"{a},{b}" for a, b in (*above, *reversed(below)))
    return f'<polygon class="band" points="{outline}" fill="{colour}" opacity="0.15"/>{drawn}'


def _points(number: int, line: Line, ends: Ends) -> str:
    """Draw a ring for each level, with its band as a bar; lines stand beside each other."""
    colour, shift = COLOURS[number % 3], POINT_SHIFT * number
    rings = "".join(
        f'<circle cx="{a + shift}" cy="{b}" r="3" fill="none" stroke="{colour}" stroke-width="2"/>'
        for a, b in _place(line.x, line.y, ends)
    )
    if line.reach is None:
        return rings
    above = _place(line.x, line.y + line.reach, ends)
    below = _place(line.x, line.y - line.reach, ends)
    bars = "".join(
        f'<line class="band" x1="{a + shift}" y1="{b}" x2="{c + shift}" y2="{d}" '
        f'stroke="{colour}" stroke-width="5" opacity="0.25"/>'
        for (a, b), (c, d) in zip(above, below, strict=True)
    )
    return bars + rings


def _frame(ends: Ends, ticks: Sequence[str] | None) -> str:
    """Axis lines, the zero line, and words at the ends."""
    (left, right), (low, high) = ends
    base = HEIGHT - BOTTOM
    words = [(LEFT, cell(left)), (WIDTH - RIGHT, cell(right))]
    if ticks is not None and len(ticks):
        words = [(LEFT, escape(ticks[0][:18])), (WIDTH - RIGHT, escape(ticks[-1][:18]))]
    style = 'font-size="11" fill="var(--faint)"'
    parts = [
        f'<line x1="{LEFT}" y1="{base}" x2="{WIDTH - RIGHT}" y2="{base}" stroke="var(--line)"/>',
        f'<text x="{words[0][0]}" y="{HEIGHT - 8}" {style}>{words[0][1]}</text>',
        f'<text x="{words[1][0]}" y="{HEIGHT - 8}" text-anchor="end" {style}>{words[1][1]}</text>',
        f'<text x="{LEFT - 6}" y="{TOP + 8}" text-anchor="end" {style}>{cell(high)}</text>',
        f'<text x="{LEFT - 6}" y="{base}" text-anchor="end" {style}>{cell(low)}</text>',
    ]
    if low < 0 < high:
        zero = _place(np.zeros(1), np.zeros(1), ends)[0][1]
        parts.append(f'<line x1="{LEFT}" y1="{zero}" x2="{WIDTH - RIGHT}" y2="{zero}" '
                     'stroke="var(--line)" stroke-dasharray="2 2"/>')  # fmt: skip
    return "".join(parts)
