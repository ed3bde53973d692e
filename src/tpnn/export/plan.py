"""Plan: what source code in any language needs beside the lowered model.

A file has a comment that says what it is, then the data, then a few functions. All of it is ASCII,
so that no compiler, browser or editor can read it in a wrong encoding.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tpnn.export.lowering import Input, Lowered
from tpnn.model.model import AnovaModel
from tpnn.table.columns import LARGEST_EXACT_INTEGER
from tpnn.table.levels import level_text
from tpnn.table.table import DATE, DURATION, NUMBER

NUMBERS_PER_LINE = 6
# how levels are read: as text, as numbers, as numbers of which some are no doubles, as both
TEXT, NUMBERS, WHOLE, EITHER = "text", "numbers", "whole numbers", "text or numbers"


@dataclass(frozen=True)
class Plan:
    """A model that is being written as source code.

    Parameters
    ----------
    lowered : Lowered
        The model.
    classes : tuple of str, int, float and bool
        Labels of a classifier.
    is_survival : bool
        Whether predictions are relative risks.
    contributions : bool
        Whether the file gives the value of every component, too.
    """

    lowered: Lowered
    classes: tuple[Any, ...]
    is_survival: bool
    contributions: bool

    @classmethod
    def of(cls, model: AnovaModel, lowered: Lowered, contributions: bool) -> Plan:
        """Plan of a model and what it was lowered to."""
        return cls(lowered, model.classes, model.evidence.baseline is not None, contributions)

    @property
    def components(self) -> list[tuple[str, ...]]:
        """Components as tuples of feature names."""
        return [grid.names for grid in self.lowered.grids]

    @property
    def several(self) -> bool:
        """Whether a row has several raw scores."""
        return self.lowered.n_outputs > 1

    def usage(self, template: str, contributions: str) -> list[str]:
        """How a module with the function ``score`` is used.

        ``template`` has places for what depends on the model; ``contributions`` is how these are
        read from an answer.
        """
        lowered = self.lowered
        lines = template.format(
            offset=", offset" if lowered.needs_offset else "",
            contributions=f", {contributions}" if self.contributions else "",
            bad_offset=", or a bad offset" if lowered.needs_offset or lowered.offset else "",
        ).splitlines()
        if self.several:
            lines.append("Answers have several numbers, in the order of OUTPUTS.")
        if self.contributions:
            lines.append("Contributions are the values of COMPONENTS, in that order.")
        return lines

    def heading(self, words: dict[str, str], usage: Sequence[str]) -> list[str]:
        """Lines of the comment at the top; no name of the user's is in the first two.

        Parameters
        ----------
        words : dict of str to str
            What a value is in this language, by how it is read.
        usage : sequence of str
            How the file is used.
        """
        lowered = self.lowered
        lines = [
            "A functional ANOVA model that scores one row, written by tpnn.",
            "It needs nothing but this file.",
            "",
            "The raw score is an intercept plus the values of the components, which are small",
            "grids: linear between nodes and constant beyond them.",
            f"The prediction is {self._prediction_words()}.",
            "",
            *usage,
            "",
            "Columns of a row:",
        ]
        lines += [f"  {quoted(x.name)}: {_input_words(x, words)}" for x in lowered.inputs]
        if lowered.offset is not None:
            rule = "positive, its logarithm" if lowered.offset.is_exposure else "finite,"
            lines.append(
                f"  {quoted(lowered.offset.name)}: {words[NUMBER]}, {rule} is added to the raw "
                "score; never missing"
            )
        if lowered.outputs:
            lines += ["", "Outputs, in this order:", *(f"  {quoted(x)}" for x in lowered.outputs)]
        return lines

    def _prediction_words(self) -> str:
        if self.is_survival:
            return "the relative risk, exp(raw score)"
        if self.lowered.link == "logit" and self.classes:
            return f"the probability of the class {quoted(str(self.classes[-1]))}"
        return _PREDICTIONS[self.lowered.link]


_PREDICTIONS = {
    "identity": "the raw score",
    "logit": "a probability, 1 / (1 + exp(-raw score))",
    "log": "exp(raw score)",
    "softmax": "the probability of every class",
    "quantiles": "the quantiles: the raw scores, sorted",
}


def reading(known: Input) -> str:
    """How the values of a column are read."""
    if not known.levels:
        return known.kind if known.kind in (DATE, DURATION) else NUMBER
    if known.is_text:
        return EITHER if known.are_text else TEXT
    is_large = any(isinstance(x, int) and abs(x) > LARGEST_EXACT_INTEGER for x in known.levels)
    return WHOLE if is_large else NUMBERS


def level_codes(known: Input) -> dict[Any, int]:
    """Code of every level; where text and numbers are compared as text, of such numbers, too.

    >>> known = Input(name="x", feature=0, kind="nominal", levels=("a", "1", "1.0"), are_text=True,
    ...               unit=1.0, may_be_boolean=False)
    >>> level_codes(known)
    {'a': 0, '1': 1, '1.0': 2, 1: 1}
    """
    levels = [int(level) if isinstance(level, bool) else level for level in known.levels]
    codes: dict[Any, int] = {level: code for code, level in enumerate(levels)}
    if reading(known) == EITHER:
        numbers = [(_number_written_as(level), code) for level, code in codes.items()]
        codes.update((number, code) for number, code in numbers if number is not None)
    return codes


def _number_written_as(text: str) -> int | float | None:
    """Return the number that is this level if levels are compared as text."""
    try:
        number: int | float = float(text)
    except ValueError:
        return None
    if not abs(number) < LARGEST_EXACT_INTEGER:
        return None
    number = int(number) if number == int(number) else number
    return number if level_text(number) == text else None


def _input_words(known: Input, words: dict[str, str]) -> str:
    how = reading(known)
    if known.may_be_boolean:
        return f"{words[how]}, 0 or 1"
    return f"{words[how]}, {len(known.levels)} levels" if known.levels else words[how]


def quoted(text: str) -> str:
    r"""Text for a comment: on one line, in ASCII, and without what could end a comment.

    >>> print(quoted("*/ x </script> ä ??/"))
    "*\/ x \u003c/script\u003e \u00e4 ?\?/"
    """
    written = json.dumps(text)
    escapes = {"*/": "*\\/", "/*": "/\\*", "??": "?\\?", "<": "\\u003c", ">": "\\u003e"}
    for found, escaped in escapes.items():
        written = written.replace(found, escaped)
    return written


def lines_of(texts: Iterable[Any], indent: str) -> str:
    """Items with commas, on lines of their own if they are many.

    >>> lines_of([1.0, 2.0], "  ")
    '1.0, 2.0'
    """
    items = list(map(str, texts))
    starts = range(0, len(items), NUMBERS_PER_LINE)
    lines = [", ".join(items[start : start + NUMBERS_PER_LINE]) for start in starts]
    if len(lines) < 2:
        return "".join(lines)
    return f"\n{indent}  " + f",\n{indent}  ".join(lines) + f"\n{indent}"
