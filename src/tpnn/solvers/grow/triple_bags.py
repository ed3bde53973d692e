"""TripleBags: triples of all bags of a problem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.anova.measure import Marginal
from tpnn.solvers.grow.card.card import Card
from tpnn.solvers.grow.card.card_forests import CardCuboidForest
from tpnn.solvers.grow.card.card_rows import RowsOnCard, higher_side_on_card
from tpnn.solvers.grow.cuboids import TripleRows
from tpnn.solvers.grow.engine import BagGrower, Grown, higher_side
from tpnn.solvers.grow.forest import FrozenParts, are_frozen, axis_kinds, frozen_parts
from tpnn.solvers.grow.triples import CuboidForest
from tpnn.solvers.problem.coded import CodedComponents
from tpnn.solvers.problem.problem import Problem


class TripleBags:
    """Grows triples, bag by bag."""

    def __init__(
        self,
        problem: Problem,
        grower: BagGrower,
        part: CodedComponents,  # the triples over the rows
        sizes: IntArray,  # (n_features,): number of nodes
        kinds: IntArray,  # (n_features,): how each axis may be cut
        frozen_parts: Sequence[FrozenParts] = (),  # what triples would move into frozen components
        card: Card | None = None,  # that holds the rows; by default they are in memory
    ) -> None:
        self.problem, self.grower, self.frozen_parts = problem, grower, frozen_parts
        self.parts, self.sizes, self.kinds = [part], sizes, kinds
        self.on_card = None if card is None else RowsOnCard(card, [part.codes])

    @classmethod
    def of(cls, problem: Problem, grower: BagGrower, card: Card | None = None) -> TripleBags:
        """Triples of a problem on their own nodes, without those that are frozen."""
        part = problem.coded[problem.components.orders.index(3)]
        part = replace(part, features=part.features[~are_frozen(part.features.tolist(), problem)])
        marginal = Marginal.of(problem.encoder.axes[3])
        return cls(
            problem=problem, grower=grower, part=part, sizes=marginal.sizes,
            kinds=axis_kinds(marginal), frozen_parts=frozen_parts(part.features.tolist(), problem),
            card=card,
        )  # fmt: skip

    def grow(self, bag: int, raw: FloatArray) -> Grown:
        """Grow one bag on the residual of the raw scores ``raw`` (n, K)."""
        forest = self.forest(bag, raw)
        return self.grower.grow(forest, forest.training, forest.held_out)

    def forest(self, bag: int, raw: FloatArray) -> CuboidForest:
        """Forest of one bag over the raw scores ``raw`` (n, K), before any growth."""
        rows = self.problem.rows
        weights = rows.training[:, bag] * rows.sizes[bag]
        side = higher_side if self.on_card is None else higher_side_on_card
        training = side(self.problem, self.parts, weights, raw)
        held_out = side(self.problem, self.parts, rows.validation[:, bag], raw)
        triple_rows = TripleRows(
            training=training.coded[0].codes,
            held_out=held_out.coded[0].codes,
            triples=self.parts[0].features,
            sizes=self.sizes,
            kinds=self.kinds,
        )
        seed = self.problem.seed * self.problem.n_bags + bag
        on_card = self.on_card
        forest_of = CuboidForest if on_card is None else partial(CardCuboidForest, on_card)
        return forest_of(
            rows=triple_rows, training=training, held_out=held_out, seed=seed,
            objective=self.problem.objective, frozen_parts=self.frozen_parts,
        )  # fmt: skip
