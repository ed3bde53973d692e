"""Words in drawings: short enough for their room, and all of them when one hovers."""

from __future__ import annotations

from html import escape

import numpy as np

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
