"""card_query: a score card as a query whose cases people can read.

Columns become numbers or codes of levels as in ``to_sql``; these become bands, the bands become
points, and the points are added. A value that the card refuses, such as an infinite number, makes
the score NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tpnn.anova.components import Component
from tpnn.export.dialects import LARGEST_DOUBLE, dialect_of, literal
from tpnn.export.lowering import MISSING, UNSEEN, Input, checked_lowering
from tpnn.export.sql import Query

if TYPE_CHECKING:
    from tpnn.export.sheets.scorecard import ScoreCard


def card_query(card: ScoreCard, dialect: str, table: str | Sequence[str], key: Any) -> str:
    """Query with the key, the score and the points of every component."""
    keys = [key] if isinstance(key, str) else list(key or ())
    names = [table] if isinstance(table, str) else list(table)
    lowered = checked_lowering(card.banded.model)
    query = _CardQuery(lowered, dialect_of(dialect), keys, contributions=True, card=card)
    return query.write(names)


@dataclass(frozen=True)
class _CardQuery(Query):
    """A query of a score card that is being written."""

    card: ScoreCard

    def write(self, table: list[str]) -> str:
        self._check_columns()
        places = {column.feature: j for j, column in enumerate(self.lowered.inputs)}
        bands = [(self._band(self.lowered.inputs[places[f]], f"x{places[f]}"), f"b{f}")
                 for f in self.card.banded.bands]  # fmt: skip
        points = [(self._points(s), f"p{k}") for k, s in enumerate(self.card.points)]
        steps = [
            ("features", self._read(table)),
            ("bands", self._select(bands, "features")),
            ("points", self._select(points, "bands")),
        ]
        total = " + ".join([str(self.card.base_points), *(name for _, name in points)])
        columns = [(f"k{j}", name) for j, name in enumerate(self.keys)] + [(total, "score")]
        columns += [(f"p{k}", f"points({name})") for k, name in enumerate(self.card.names.values())]
        return self._whole(steps, columns)

    def _band(self, column: Input, x: str) -> str:
        """Band of a value; NULL where the row is refused."""
        bands = self.card.banded.bands[column.feature]
        if bands.has_levels:
            missing, unseen = bands.n_bands - 2, bands.n_bands - 1
            of_level = bands.of_point[: len(column.levels)]
            groups = [np.flatnonzero(of_level == band).tolist() for band in range(bands.n_regular)]
            codes_of = [(missing, [MISSING]), (unseen, [UNSEEN]), *enumerate(groups)]
            tests = [
                f"{x} IN ({', '.join(map(str, codes))}) THEN {b}" for b, codes in codes_of if codes
            ]
            return f"CASE {' '.join(f'WHEN {test}' for test in tests)} END"
        cuts = [literal(cut / column.unit) for cut in bands.cuts.tolist()]
        tests = [f"{x} < {cut} THEN {band}" for band, cut in enumerate(cuts)]
        return (
            f"CASE WHEN {x} IS NULL THEN {bands.n_bands - 1} WHEN ABS({x}) > {LARGEST_DOUBLE} "
            f"THEN NULL {''.join(f'WHEN {test} ' for test in tests)}ELSE {len(cuts)} END"
        )

    def _points(self, component: Component) -> str:
        """Points of a component, by the bands of its features."""
        points = self.card.points[component]
        cell = " + ".join(
            f"b{feature} * {int(np.prod(points.shape[axis + 1 :]))}"
            for axis, feature in enumerate(component)
        )
        tests = " ".join(f"WHEN {k} THEN {p}" for k, p in enumerate(points.ravel().tolist()))
        return f"CASE {cell} {tests} END"
