"""Rating tables, read as sums of tables.

They are constant within bands. Like an EBM they become linear between nodes by putting a node on
both sides of each cut, the larger one on the cut itself, which belongs to the band above it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tpnn._utils.arrays import IntArray
from tpnn.export.sheets.bands import Bands
from tpnn.export.sheets.rating import RatingTables
from tpnn.lifecycle.foreign.tables import TableSum
from tpnn.table.axis import Axis
from tpnn.table.encoder import Feature
from tpnn.table.words import UNSEEN_WORD


def sum_of_rating(rating: RatingTables) -> TableSum:
    """Read rating tables; their base is the constant, their factors exp(effect)."""
    banded = rating.banded
    encoder, used = banded.model.encoder, sorted(banded.bands)
    found = {j: _axis(banded.bands[j], encoder.features[j]) for j in used}
    place = {feature: number for number, feature in enumerate(used)}
    axes = tuple(found[feature][0] for feature in used)
    largest = max(map(len, banded.tables), default=1)
    tables = {
        tuple(place[j] for j in component): table[np.ix_(*(found[j][1] for j in component))]
        for component, table in banded.tables.items()
    }
    return TableSum(
        encoder=replace(encoder.pick(used), axes=dict.fromkeys(range(1, largest + 1), axes)),
        tables={component: table[..., None, None] for component, table in tables.items()},
        intercept=banded.model.intercepts[:, None],
        link=banded.model.link.name,
        classes=banded.model.classes,
    )


def _axis(bands: Bands, feature: Feature) -> tuple[Axis, IntArray]:
    """Axis of a feature, and the band of each of its nodes."""
    if bands.has_levels:
        nodes = np.arange(float(bands.n_regular + 1))
        groups = bands.of_point[: len(feature.levels)]
        of_node = np.append(np.arange(bands.n_regular), [bands.n_regular + 1, bands.n_regular])
        axis = Axis(
            values=np.append(nodes, np.nan),
            weights=np.full(len(of_node), 1 / len(of_node)),
            kind=feature.kind,
            levels=(*bands.labels[: bands.n_regular], UNSEEN_WORD),
            groups=groups,
            has_missing=True,
            has_unseen=True,
        )
        return axis, of_node
    sides = np.union1d(np.nextafter(bands.cuts, -np.inf), bands.cuts)
    values = np.append(sides if len(sides) else np.zeros(1), np.nan)
    weights = np.full(len(values), 1 / len(values))
    axis = Axis(values, weights, feature.kind, has_missing=True)
    return axis, bands.locate(values)
