"""Sides: the training rows and the held-out rows of every bag, taken out of all coded rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tpnn._utils.arrays import CodeArray, Float32Array, FloatArray, IntArray
from tpnn._utils.shelf import Shelf
from tpnn.solvers.grow.bag import Side
from tpnn.solvers.problem.coded import CodedComponents
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.problem.rows import TrainingRows


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
        fine = codes_of(mains.codes, mains.features[:, 0], where, self.shelf)
        coded = [CodedComponents(fine, np.arange(len(fine))[:, None], mains.n_nodes)]
        for part in pairs:
            codes = codes_of(part.codes, range(len(part.codes)), where, self.shelf)
            coded.append(CodedComponents(codes, part.features, part.n_nodes))
        y, masses = self.shelf.keep(self.rows.y[where]), self.shelf.keep(weights[where, None])
        return Side(coded, y, masses, self.shelf.keep(self.rows.offset[where]), self.shelf)


def codes_of(codes: CodeArray, features: Iterable[int], where: IntArray, shelf: Shelf) -> CodeArray:
    """Codes of some features on some rows."""
    chosen = list(features)
    found = shelf.empty((len(chosen), len(where)), codes.dtype)
    for place, feature in enumerate(chosen):
        found[place] = codes[feature][where]
    return found


def higher_side(
    problem: Problem, parts: Sequence[CodedComponents], weights: Float32Array, raw: FloatArray
) -> Side:
    """Rows with a positive weight, in double precision, where components of higher order grow.

    ``parts`` are these components over all rows, ``raw`` (n, K) the raw scores of the lower orders.
    """
    where, shelf = np.flatnonzero(weights), problem.codes.shelf
    coded = [
        replace(part, codes=codes_of(part.codes, range(len(part.codes)), where, shelf))
        for part in parts
    ]
    return Side(
        coded=coded,
        y=shelf.keep(problem.rows.y[where].astype(np.float64)),
        weights=shelf.keep(weights[where, None].astype(np.float64)),
        raw=shelf.keep(raw[where]),
        shelf=shelf,
    )
