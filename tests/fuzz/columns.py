"""Random columns: plain Python values of one kind, with None where a value is missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np

Draw = Callable[[np.random.Generator, int], list[Any]]

FLOAT, INTEGER, BOOLEAN, DECIMAL = "float", "integer", "boolean", "decimal"
TEXT, SURROGATE, BYTES = "text", "surrogate", "bytes"
CATEGORY, ORDERED = "category", "ordered"
DATE, ZONED, DURATION = "date", "zoned", "duration"
EMPTY, MIXED, INFINITE = "empty", "mixed", "infinite"

NUMBERS = (FLOAT, INTEGER, BOOLEAN, DECIMAL)
LABELS = (TEXT, SURROGATE, BYTES, CATEGORY)
REFUSED = (MIXED, INFINITE)
SHARES = {
    FLOAT: 8, INTEGER: 3, BOOLEAN: 1, DECIMAL: 0.3, TEXT: 2, SURROGATE: 0.1, BYTES: 0.2,
    CATEGORY: 1.5, ORDERED: 1.5, DATE: 1, ZONED: 0.7, DURATION: 0.5, EMPTY: 0.5, MIXED: 0.1,
    INFINITE: 0.1,
}  # fmt: skip
NO_DATA = (-3.4028234663852886e38, -1.7976931348623157e308, -9999.0, 1e300, -1e20)
WORDS = (
    "", " ", "a", "A", "b ", "ä", "日本", "🙂", "a\nb", "a\0", "'", '"', "nan", "None", "NaN", "1",
    "-0", "١", "<b>", "x" * 300, "(other levels)", "true", "\\",
)  # fmt: skip
NEW_WORD = "a word that fit has not seen"
NEW_NUMBER = -77_777
EPOCH = datetime(1970, 1, 1)
ZONES = (UTC, timezone(timedelta(hours=5, minutes=45)), timezone(timedelta(hours=-11)))


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Parameters
    ----------
    name : str
        Its name, in tables that have names.
    kind : str
        What its values are.
    values : list
        Python values, None where one is missing.
    levels : tuple
        Levels of a category, in order.
    form : int
        Which of several ways a container has to hold the kind.
    """

    name: str
    kind: str
    values: list[Any]
    levels: tuple[Any, ...] = ()
    form: int = 0

    def take(self, rows: Sequence[int]) -> Column:
        """Return the given rows of the column."""
        return replace(self, values=[self.values[row] for row in rows])

    def known(self) -> list[Any]:
        """Return the values that are not missing."""
        return [value for value in self.values if value is not None]


@dataclass(frozen=True)
class Recipe:
    """How the values of a column are drawn, the share that is missing, and the levels."""

    kind: str
    draw: Draw
    missing: float
    levels: tuple[Any, ...] = ()

    def values(self, rng: np.random.Generator, n_rows: int) -> list[Any]:
        """Draw values of a training table."""
        absent = rng.random(n_rows) < self.missing
        drawn = self.draw(rng, n_rows)
        return [None if gone else value for value, gone in zip(drawn, absent, strict=True)]

    def fresh(self, rng: np.random.Generator, n_rows: int) -> list[Any]:
        """Draw values to predict on: like those of training, missing, or never seen."""
        drawn = self.draw(rng, n_rows)
        for row in np.flatnonzero(rng.random(n_rows) < 0.2):
            new = {TEXT: NEW_WORD, CATEGORY: _new_level(self.levels)}.get(self.kind)
            drawn[row] = new if rng.random() < 0.5 else None
        return drawn


def _new_level(levels: tuple[Any, ...]) -> Any:
    return NEW_WORD if levels and isinstance(levels[0], str) else NEW_NUMBER


def random_recipe(rng: np.random.Generator) -> Recipe:
    """Choose what a column holds."""
    shares = np.array(list(SHARES.values()))
    kind = str(rng.choice(list(SHARES), p=shares / shares.sum()))
    missing = float(rng.choice([0.0, 0.0, 0.02, 0.3, 0.9]))
    if kind in (CATEGORY, ORDERED):
        levels = _random_levels(rng)
        shown = levels[: int(rng.integers(1, len(levels) + 1))]  # the others are never used
        return Recipe(kind, _chosen_from(shown), missing, levels)
    makers: dict[str, Callable[[np.random.Generator], Draw]] = {
        FLOAT: _floats, INTEGER: _integers, TEXT: _texts, DATE: _dates, ZONED: _zoned,
        DURATION: _durations,
    }  # fmt: skip
    simple: dict[str, Draw] = {
        BOOLEAN: lambda rng, n: (rng.random(n) < 0.5).tolist(),
        DECIMAL: lambda rng, n: [Decimal(int(k)) / 100 for k in rng.integers(-300, 300, n)],
        SURROGATE: _chosen_from(("\ud800", "a", "\udfff")),
        BYTES: _chosen_from((b"one", b"two", b"")),
        EMPTY: lambda rng, n: [None] * n,
        MIXED: lambda rng, n: (["text", 1.5] * n)[:n],
        INFINITE: lambda rng, n: [float(sign) * np.inf for sign in rng.choice([-1, 1], n)],
    }
    draw = makers[kind](rng) if kind in makers else simple[kind]
    return Recipe(kind, draw, 0.0 if kind in REFUSED else missing)


def _chosen_from(values: Sequence[Any]) -> Draw:
    return lambda rng, n: [values[place] for place in rng.integers(len(values), size=n)]


def _random_levels(rng: np.random.Generator) -> tuple[Any, ...]:
    count = int(rng.integers(1, 8))
    if rng.random() < 0.3:
        return tuple(int(k) for k in rng.choice(40, count, replace=False))
    return tuple(WORDS[place] for place in rng.choice(len(WORDS), count, replace=False))


def _floats(rng: np.random.Generator) -> Draw:
    base, size = float(rng.normal()), float(10 ** rng.uniform(-12, 12))
    no_data = float(rng.choice(NO_DATA))
    neighbours = float(np.ldexp(1.0, int(rng.integers(-1000, 1000))))
    flavours: list[Draw] = [
        lambda rng, n: (base + size * rng.normal(size=n)).tolist(),
        lambda rng, n: rng.integers(0, 6, n).astype(float).tolist(),
        lambda rng, n: (rng.choice([-1.0, 1.0], n) * 10 ** rng.uniform(-300, 300, n)).tolist(),
        lambda rng, n: (5e-324 * rng.integers(-9, 9, n)).tolist(),
        lambda rng, n: [base] * n,
        lambda rng, n: rng.choice([-0.0, 0.0, 1.0, -1.0], n).tolist(),
        lambda rng, n: np.where(rng.random(n) < 0.2, no_data, rng.normal(size=n)).tolist(),
        lambda rng, n: (neighbours * (1 + 2.0**-52 * rng.integers(0, 5, n))).tolist(),
        lambda rng, n: np.round(rng.normal(size=n), 1).tolist(),
        lambda rng, n: rng.normal(size=n).astype(np.float32).tolist(),
    ]
    return flavours[rng.choice(len(flavours), p=[0.3, 0.2, 0.07, 0.05, 0.05, 0.05, 0.1, 0.05,
                                                 0.1, 0.03])]  # fmt: skip


def _integers(rng: np.random.Generator) -> Draw:
    flavours: list[Draw] = [
        lambda rng, n: rng.integers(-3, 4, n).tolist(),
        lambda rng, n: rng.integers(-(2**63), 2**63 - 1, n).tolist(),
        lambda rng, n: (2**53 + 2 * rng.integers(0, 6, n)).tolist(),
        lambda rng, n: rng.choice([-(2**63), 2**63 - 1, 0, 5], n).tolist(),
        lambda rng, n: rng.integers(0, 1000, n).tolist(),
    ]
    return flavours[rng.choice(len(flavours), p=[0.5, 0.1, 0.1, 0.1, 0.2])]


def _texts(rng: np.random.Generator) -> Draw:
    if rng.random() < 0.15:  # as many levels as rows
        return lambda rng, n: [f"id {k}" for k in rng.integers(10**6, size=n)]
    count = int(rng.integers(1, len(WORDS)))
    return _chosen_from([WORDS[place] for place in rng.choice(len(WORDS), count, replace=False)])


def _dates(rng: np.random.Generator) -> Draw:
    unit = float(rng.choice([1e-6, 3600.0, 86400.0]))
    middle = float(rng.choice([0.0, 1.7e9, -5e9]))
    return lambda rng, n: [
        EPOCH + timedelta(seconds=middle + unit * int(k)) for k in rng.integers(-9000, 9000, n)
    ]


def _zoned(rng: np.random.Generator) -> Draw:
    naive, zone = _dates(rng), ZONES[rng.integers(len(ZONES))]
    return lambda rng, n: [date.replace(tzinfo=UTC).astimezone(zone) for date in naive(rng, n)]


def _durations(rng: np.random.Generator) -> Draw:
    unit = float(rng.choice([1e-6, 1.0, 86400.0]))
    return lambda rng, n: [timedelta(seconds=unit * int(k)) for k in rng.integers(-500, 500, n)]
