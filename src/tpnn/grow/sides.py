"""Sides: the training rows and the held-out rows of every bag, taken out of all coded rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tpnn._shelf import Shelf
from tpnn._typing import CodeArray, Float32Array, IntArray
from tpnn.grow.bag import Side
from tpnn.problem.coded import CodedComponents
from tpnn.problem.rows import TrainingRows


@dataclass(frozen=True)
class Sides:
    """Coded rows that every bag splits in its own way.

    Parameters
    ----------
    coded : list of CodedComponents
        Main effects and, if there are any, pairs, over all rows.
    rows : TrainingRows
        Targets and bag weights of these rows.
    shelf : Shelf
        Where large arrays over these rows are kept.
    """

    coded: Sequence[CodedComponents]
    rows: TrainingRows
    shelf: Shelf

    def training(self, bag: int) -> Side:
        """Training rows of a bag, with weights in rows."""
        return self.of(self.rows.training[:, bag] * self.rows.sizes[bag])

    def held_out(self, bag: int) -> Side:
        """Held-out rows of a bag."""
        return self.of(self.rows.validation[:, bag])

    def of(self, weights: Float32Array) -> Side:
        """Rows with a positive weight, their codes stored contiguously."""
        where = np.flatnonzero(weights)
        mains, *pairs = self.coded
        fine = self._codes_of(mains.codes, mains.features[:, 0], where)
        coded = [CodedComponents(fine, np.arange(len(fine))[:, None], mains.n_nodes)]
        for part in pairs:
            codes = self._codes_of(part.codes, range(len(part.codes)), where)
            coded.append(CodedComponents(codes, part.features, part.n_nodes))
        y, masses = self.shelf.keep(self.rows.y[where]), self.shelf.keep(weights[where, None])
        return Side(coded, y, masses, self.shelf.keep(self.rows.offset[where]), self.shelf)

    def _codes_of(self, codes: CodeArray, features: Iterable[int], where: IntArray) -> CodeArray:
        """Codes of some features on some rows."""
        chosen = list(features)
        found = self.shelf.empty((len(chosen), len(where)), codes.dtype)
        for place, feature in enumerate(chosen):
            found[place] = codes[feature][where]
        return found
