"""A score card in files: as JSON for other systems, and as a file from which it is read back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tpnn._utils.arrays import Int32Array
from tpnn._utils.files import check_path
from tpnn.anova.components import Component
from tpnn.export.sheets.bins import BandedModel, Bands, cell_means
from tpnn.model.archive import read_document, write_archive
from tpnn.model.check import check_model
from tpnn.model.codec import Label, decode, encode
from tpnn.model.model import AnovaModel

if TYPE_CHECKING:
    from tpnn.export.sheets.scorecard import ScoreCard

FORMAT, VERSION = "tpnn-scorecard", 1


def card_document(card: ScoreCard) -> dict[str, Any]:
    """Card as values of JSON, without the model."""
    names = card.banded.model.feature_names
    return {
        "format": FORMAT,
        "version": VERSION,
        "good": card.good,
        "pdo": card.pdo,
        "reference_score": card.reference_score,
        "reference_odds": card.reference_odds,
        "base_points": card.base_points,
        "max_deviation": card.max_deviation,
        "features": [_feature_document(card, feature) for feature in card.banded.bands],
        "components": [
            {"features": [names[j] for j in component], "points": points.tolist()}
            for component, points in card.points.items()
        ],
    }


def _feature_document(card: ScoreCard, feature: int) -> dict[str, Any]:
    bands, model = card.banded.bands[feature], card.banded.model
    about = model.encoder.features[feature]
    document: dict[str, Any] = {
        "name": model.feature_names[feature],
        "kind": about.kind,
        "bands": list(bands.labels),
        "missing": bands.n_regular,
    }
    if not bands.has_levels:
        return document | {"cuts": bands.cuts.tolist()}
    of_level = bands.of_point[: len(about.levels)].tolist()
    levels = [list(pair) for pair in zip(about.levels, of_level, strict=True)]
    return document | {"levels": levels, "unseen": bands.n_regular + 1}


class StoredCard(NamedTuple):
    """A card in a file, beside its model."""

    pdo: float
    reference_score: float
    reference_odds: float
    good: Label
    base_points: int
    max_deviation: float
    is_exact: bool
    bands: dict[int, Bands]
    components: tuple[tuple[int, ...], ...]
    points: tuple[Int32Array, ...]  # of each component


def save_card(card: ScoreCard, path: str | os.PathLike[str], sign: Any) -> None:
    """Write the file of the card's model, with the card beside it."""
    stored = StoredCard(
        **{name: getattr(card, name) for name in StoredCard._fields[:7]},
        bands=dict(card.banded.bands),
        components=tuple(card.points),
        points=tuple(points.astype(np.int32) for points in card.points.values()),
    )
    write_archive(path, encode(card.banded.model) | {"card": encode(stored)}, sign)


def read_card(path: str | os.PathLike[str], verify: Any) -> dict[str, Any]:
    """Fields of a card from its file."""
    check_path(path)
    document = read_document(path, verify)
    try:
        model = decode(AnovaModel, document)
        check_model(model)
        card: StoredCard = decode(StoredCard, document["card"])
        points = dict(zip(card.components, card.points, strict=True))
        _check(model, card.bands, points)
        tables = {s: cell_means(model, s, card.bands) for s in model.components}
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"path: must be a complete score card, found {os.fspath(path)!r}, which lacks a part "
            f"of it or has a wrong one ({error!r}). Save the card again."
        ) from error
    fields = {name: getattr(card, name) for name in StoredCard._fields[:7]}
    grouped = BandedModel(model, card.bands, tables, float(model.intercepts[0]))
    whole = {s: table.astype(np.int64) for s, table in points.items()}
    return fields | {"points": whole, "banded": grouped}


def _check(
    model: AnovaModel, bands: Mapping[int, Bands], points: Mapping[Component, Int32Array]
) -> None:
    """Refuse bands and points that do not fit the features of the model, or one another."""
    used = {j for component in (*model.components, *points) for j in component}
    if used != set(bands) or not set(model.components) <= set(points):
        raise ValueError("every feature needs bands, and every component needs points")
    for feature, one in bands.items():
        n_levels, n_points = len(model.encoder.features[feature].levels), len(one.numbers)
        fits = one.has_levels == bool(n_levels) and n_points == len(one.masses) == len(one.of_point)
        if n_levels:
            fits &= n_points == n_levels + 2
        else:
            fits &= len(one.cuts) == one.n_regular - 1 and bool((np.diff(one.cuts) > 0).all())
        if not fits or not set(one.of_point.tolist()) == set(range(one.n_bands)):
            raise ValueError(f"bands of the feature {feature} do not fit its values")
    for component, table in points.items():
        if table.shape != tuple(bands[j].n_bands for j in component):
            raise ValueError(f"points of {component} do not fit its bands")
