"""Heat maps: grids of values side by side as SVG that needs no script, in one colour scale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from itertools import pairwise

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.explain.pages.page import cell
from tpnn.explain.pages.words import ANGLE, LETTER, TURNED_LETTER, drawn_word, spread

WIDTH = 340  # of a map with its words, in pixels
MOST_ROOM = 112  # for words beside a map, in pixels
TOP, RIGHT, BELOW_NUMBERS, BELOW_WORDS = 4, 6, 34, 78
LOWEST, LINE = 190, 15  # height of a map at least, and of a level with its word
MOST_WORDS_DOWN, MOST_TICKS = 24, 4
MOST_LETTERS = 14  # of a word below a map
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
    wide, height = WIDTH - left - RIGHT, TOP + tall + below
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
            room = min(MOST_LETTERS, int(x / TURNED_LETTER))
            words.append(drawn_word(x, bottom + 12, word, room, angle=ANGLE))
        elif place == len(side.words) - 1:
            words.append(drawn_word(left + wide, bottom + 14, word, MOST_LETTERS))
        else:
            words.append(drawn_word(x, bottom + 14, word, MOST_LETTERS, anchor="middle"))
    name = drawn_word(left + wide / 2, height - 4, side.name, int(wide / LETTER),
                      anchor="middle", colour="ink")  # fmt: skip
    return "".join(words) + name


def _words_down(side: Side, left: float, tall: float) -> str:
    """Words beside the rows, from the bottom to the top, and the name of the feature."""
    step = tall / max(len(side.words), 1)
    words = [
        drawn_word(left - 5, TOP + tall - (place + 0.5) * step + 4, side.words[place],
                   int((left - 26) / LETTER))
        for place in side.shown(MOST_WORDS_DOWN)
    ]  # fmt: skip
    name = drawn_word(11, TOP + tall / 2, side.name, int(tall / LETTER), anchor="middle",
                      angle=-90, colour="ink")  # fmt: skip
    return "".join(words) + name
