"""Labels: words that fit where they stand, without running into one another."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from tpnn.explain.plots.style import GREY, LABEL_SIZE, TICK_SIZE
from tpnn.explain.response import BAND_SENTENCE, BAND_WORDS, NO_BAND_WORDS, ScaledEffect

LETTER_WIDTH, LINE_HEIGHT = 0.6, 1.2  # of a letter and of a line, in units of the font size
SMALLEST_SIZE = 5.5  # of a font, in points; below it labels are left out
NOTE_SIZE = 6.5  # of what a band means
LEVEL_LETTERS, MOST_LEVEL_LETTERS = 14, 32  # of a level: at first, and if that makes two alike
NAME_LETTERS = 28  # of a feature's name in a list
SHORTEST_NAME = 6  # letters of a feature's name beside others or its value
FEWEST_LETTERS = 3  # of a word that is cut: its first, a gap and its last
LABEL_SHARES = {"x": 0.65, "y": 0.3}  # of the axes, that labels of levels on an axis may be long
LEFT_BY_NEIGHBOURS = 0.85  # share of an axis, if axes in the same column have long labels
MISSING_LABEL = "missing"
LINES_OF_LEVEL = 1.1  # along an axis: missing values stand apart from the others
AXIS_SHARE = 0.68  # of a panel among others, before the figure is laid out
POINTS_PER_INCH = 72.0


def shortened(word: str, letters: int = LEVEL_LETTERS) -> str:
    """Return a word of at most so many letters; a longer one loses its middle.

    >>> shortened("Constantinople"), shortened("Constantinople, the old city")
    ('Constantinople', 'Constan…d city')
    """
    if len(word) <= letters:
        return word
    end = max(letters - 1, 2) // 2
    return f"{word[: max(letters - 1, 2) - end]}…{word[-end:]}"


def shortened_together(words: Sequence[str], letters: int) -> list[str]:
    """Shorten words to about so many letters; different ones stay different.

    Words that would look alike lose what they begin with. If that is not enough, all are longer.

    >>> shortened_together(["a part of the north of it", "a part of the south of it"], 14)
    ['…north of it', '…south of it']
    """
    while len(set(short := _cut(words, letters))) < len(set(words)):
        letters += 3
    return short


def _cut(words: Sequence[str], letters: int) -> list[str]:
    """Cut words to so many letters, those that would look alike without what they begin with."""
    short = [shortened(word, letters) for word in words]
    places: dict[str, list[int]] = defaultdict(list)
    for place, cut in enumerate(short):
        places[cut].append(place)
    for twins in places.values():
        alike = [words[place] for place in twins]
        start = _n_shared(alike)
        if start and letters > FEWEST_LETTERS and len(set(alike)) > 1:
            rests = _cut([word[start:] for word in alike], letters - 1)
            for place, rest in zip(twins, rests, strict=True):
                short[place] = f"…{rest}"
    return short


def _n_shared(words: Sequence[str]) -> int:
    """Count the letters that all words begin with, up to the last gap among them."""
    alike = (len(set(letters)) == 1 for letters in zip(*words, strict=False))
    shared = words[0][: sum(1 for _ in takewhile(bool, alike))]
    gaps = (place for place, letter in enumerate(shared) if not letter.isalnum())
    return max(gaps, default=len(shared) - 1) + 1


def shortened_among(word: str, letters: int, others: Sequence[str]) -> str:
    """Shorten a word so that it differs from others that are shortened alike."""
    return shortened_together([word, *others], letters)[0]


def shortened_levels(words: Sequence[str], most: int = MOST_LEVEL_LETTERS) -> list[str]:
    """Shorten the levels of a feature to about so many letters, different from each other.

    They keep both ends where that is enough to tell them apart.

    >>> shortened_levels(["a part of the north of it", "a part of the south of it"])
    ['a part of …rth of it', 'a part of …uth of it']
    """
    for letters in range(LEVEL_LETTERS, most + 1, 3):
        short = [shortened(word, letters) for word in words]
        if len(set(short)) == len(set(words)):
            return short
    return shortened_together(words, most)


def joined_names(
    names: Sequence[str], letters: int = 2 * NAME_LETTERS, others: Sequence[str] = ()
) -> str:
    """Names of a component's features as one label of about so many letters.

    Each differs from the others, the names of all features.

    >>> joined_names(["age", "income"])
    'age × income'
    """
    each = max((letters - 3 * (len(names) - 1)) // len(names), SHORTEST_NAME)
    short = (shortened_among(name, min(each, NAME_LETTERS), others) for name in names)
    return " × ".join(short)


def literal(text: str) -> str:
    r"""Text as matplotlib shows it letter by letter: dollar signs begin no formula.

    >>> print(literal("from $5 to $9"))
    from \$5 to \$9
    """
    return text.replace("$", r"\$")


def legend_words(words: Sequence[str]) -> list[str]:
    """Short words of a legend, letter by letter; matplotlib leaves out what begins with "_".

    >>> legend_words(["_x", "y"])
    [' _x', 'y']
    """
    return [f"{' ' * word.startswith('_')}{literal(word)}" for word in shortened_levels(words)]


def width_of(words: Sequence[str], size: float) -> float:
    """Width of the longest of some words, in points."""
    return LETTER_WIDTH * size * max(map(len, words), default=0)


def points_along(drawn: Any) -> float:
    """Length of a matplotlib axis such as ``axes.xaxis``, in points.

    Levels that label the vertical axis take their room from the horizontal one.
    """
    axes = drawn.axes
    box, points_per_pixel = axes.get_window_extent(), POINTS_PER_INCH / axes.figure.dpi
    if drawn.axis_name == "y":
        return float(box.height * points_per_pixel)
    if axes.get_subplotspec() is None:  # the layout leaves such axes as wide as they are
        return float(box.width * points_per_pixel)
    levels = [label.get_text() for label in axes.yaxis.get_majorticklabels()]
    beside = max(width_of(levels, TICK_SIZE) - width_of(["−0.00"], TICK_SIZE), 0.0)
    return max(float(box.width * points_per_pixel) - beside, POINTS_PER_INCH / 2)


def letters_beside(ax: Any) -> int:
    """Letters of a list of names beside a plot: half of the width of given axes."""
    if ax is None:
        return 2 * NAME_LETTERS + 3
    return max(int(points_along(ax.xaxis) / (2 * LETTER_WIDTH * LABEL_SIZE)), LEVEL_LETTERS)


def name_axis(drawn: Any, name: str, others: Sequence[str], unit: str, points: float) -> None:
    """Write the name of a feature and its unit along an axis, as much of the name as fits.

    It differs from the names of the others.
    """
    letters = int(points / (LETTER_WIDTH * LABEL_SIZE)) - len(unit)
    text = shortened_among(name, max(letters, LEVEL_LETTERS), others) + unit
    drawn.set_label_text(literal(text), fontsize=LABEL_SIZE)


def name_reference(axes: Any, scaled: ScaledEffect) -> None:
    """Say above a plot where an effect on the response scale is neutral."""
    if scaled.at:
        letters = int(points_along(axes.xaxis) / (LETTER_WIDTH * TICK_SIZE))
        text = shortened(f"{scaled.neutral:g} at {scaled.at}", letters)
        axes.set_title(text, fontsize=TICK_SIZE, loc="right", color=GREY)


def name_band(axes: Any, scaled: ScaledEffect) -> None:
    """Say above a plot, on the left, what its band means, in as many words as there is room for."""
    taken = len(axes.get_title(loc="right")) * TICK_SIZE
    letters = int((points_along(axes.xaxis) - LETTER_WIDTH * taken) / (LETTER_WIDTH * NOTE_SIZE))
    sentences = [BAND_SENTENCE, BAND_WORDS] if scaled.has_band else [NO_BAND_WORDS]
    fitting = (sentence for sentence in sentences if len(sentence) <= letters)
    axes.set_title(next(fitting, ""), fontsize=NOTE_SIZE, loc="left", color=GREY)


def label_levels(drawn: Any, places: Sequence[float], levels: Sequence[str], points: float) -> None:
    """Label every level, in a smaller font where they are many; some, where that is too small."""
    points *= LEFT_BY_NEIGHBOURS
    first, last = sorted(drawn.get_view_interval())  # levels stand one apart
    size = min(TICK_SIZE, points / (LINE_HEIGHT * (last - first)))
    box = drawn.axes.get_window_extent()
    across = box.width if drawn.axis_name == "y" else box.height  # where long labels take room
    room = LABEL_SHARES[drawn.axis_name] * across * POINTS_PER_INCH / drawn.axes.figure.dpi
    most = int(room / (LETTER_WIDTH * max(size, SMALLEST_SIZE)))
    words = shortened_levels(levels, min(max(most, LEVEL_LETTERS), MOST_LEVEL_LETTERS))
    step = math.ceil(SMALLEST_SIZE / size) if size < SMALLEST_SIZE else 1
    style: dict[str, Any] = {"fontsize": max(size, SMALLEST_SIZE)}
    if drawn.axis_name == "x" and (width_of(words, size) + size) * len(words) > points:
        style |= {"rotation": 90} if len(words) > points / (2.5 * TICK_SIZE) else {
            "rotation": 40, "ha": "right", "rotation_mode": "anchor",
        }  # fmt: skip
    chosen = slice((len(words) - 1) % step, None, step)  # the last one, missing values, among them
    drawn.set_ticks(places[chosen], list(map(literal, words[chosen])), **style)


def inches_for_levels(words: Sequence[str]) -> tuple[float, float]:
    """Length of an axis on which every level is labelled in full size, and room for turned labels.

    Neither is needed where there are no levels.
    """
    along = LINE_HEIGHT * TICK_SIZE * len(words) / (LEFT_BY_NEIGHBOURS * POINTS_PER_INCH)
    return along, width_of(shortened_levels(words), TICK_SIZE) / POINTS_PER_INCH


def inches_of_panel(n_levels: int, room: float = 1.0) -> float:
    """Length of a panel among others, whose axis labels so many levels in the smallest font.

    ``room`` is the share of the axis that will be left when the figure is laid out.
    """
    points = LINE_HEIGHT * SMALLEST_SIZE * LINES_OF_LEVEL * n_levels
    return points / (LEFT_BY_NEIGHBOURS * AXIS_SHARE * room * POINTS_PER_INCH)


def inches_for_names(words: Sequence[str]) -> float:
    """Width of a list of names beside a plot."""
    return width_of(words, LABEL_SIZE) / POINTS_PER_INCH
