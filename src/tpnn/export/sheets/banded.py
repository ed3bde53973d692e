"""BandedModel: a model whose components are constant within the bands of their features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn._utils.checks import COUNT, check_parameters
from tpnn.anova.components import Component
from tpnn.export.sheets.bands import Bands, feature_bands
from tpnn.export.sheets.frozen import title, values_at
from tpnn.model.model import AnovaModel
from tpnn.table.frame import Table


@dataclass(frozen=True, eq=False)
class BandedModel:
    """A model on bands.

    Parameters
    ----------
    model : AnovaModel
        The model itself.
    bands : dict of int to Bands
        Bands of every feature that a component uses.
    tables : dict of tuple of int to array of shape (n_bands_1, ..., n_bands_d)
        Mean of each component over its cells, under the product of the masses.
    """

    model: AnovaModel
    bands: Mapping[int, Bands]
    tables: Mapping[Component, FloatArray]

    def codes(self, table: Table) -> dict[int, IntArray]:
        """Band of every row in each feature; ``table`` is one that the encoder has read."""
        columns = self.model.encoder.columns(table)
        return {feature: bands.locate(columns[feature]) for feature, bands in self.bands.items()}

    def masses(self, component: Component) -> FloatArray:
        """Product of the band masses, (n_bands_1, ..., n_bands_d)."""
        masses = [self.bands[feature].band_masses for feature in component]
        return reduce(np.multiply.outer, masses)

    def lines(self, component: Component) -> dict[str, Any]:
        """Columns that say which cell each line of a frame is about: a band for each feature."""
        places = np.indices(self.tables[component].shape).reshape(len(component), -1)
        return {
            self.model.feature_names[feature]: np.array(self.bands[feature].labels, object)[place]
            for feature, place in zip(component, places, strict=True)
        }

    def names(self) -> dict[Component, str]:
        """Name of each component."""
        return {s: title([self.model.feature_names[j] for j in s]) for s in self.tables}

    def variances(self, component: Component) -> tuple[float, float]:
        """Variance of a component under the product of the masses, and what the bands lose."""
        bands = [self.bands[feature] for feature in component]
        values = values_at(self.model, component, [b.numbers for b in bands])
        masses = reduce(np.multiply.outer, [b.masses for b in bands])
        banded = self.tables[component][np.ix_(*(b.of_point for b in bands))]
        return float((masses * values**2).sum()), float((masses * (values - banded) ** 2).sum())


def banded(model: AnovaModel, max_bands: int) -> BandedModel:
    """Put a model with one output on bands."""
    check_parameters({"max_bands": max_bands}, {"max_bands": COUNT})
    used = sorted({feature for component in model.components for feature in component})
    bands = {feature: feature_bands(model, feature, max_bands) for feature in used}
    return BandedModel(model, bands, {s: cell_means(model, s, bands) for s in model.components})


def cell_means(model: AnovaModel, component: Component, bands: Mapping[int, Bands]) -> FloatArray:
    """Mean of a component over every cell of its bands, (n_bands_1, ..., n_bands_d)."""
    own = [bands[feature] for feature in component]
    means = values_at(model, component, [b.numbers for b in own])
    for place, one in enumerate(own):
        means = np.moveaxis(np.tensordot(one.averaging, means, (1, place)), 0, place)
    return means


def summed(
    tables: Mapping[Component, FloatArray], codes: Mapping[int, IntArray], n_rows: int
) -> FloatArray:
    """Sum of all components on rows with the given bands, (n_rows,)."""
    total = np.zeros(n_rows)
    for component, table in tables.items():
        total += table[tuple(codes[feature] for feature in component)]
    return total


def refuse_unless(link_names: Sequence[str], model: AnovaModel, what: str) -> None:
    """Refuse a model with another link, or with several outputs."""
    if model.link.name not in link_names or len(model.intercepts) > 1:
        raise ValueError(
            f"model: {what} need one output and a {' or '.join(link_names)} link, found "
            f"{len(model.intercepts)} output(s) and the {model.link.name} link. Use to_table()."
        )
