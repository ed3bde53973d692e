"""Remainder: what deep trees say beyond the components of a model.

The exact components of the trees that a model shows are in its tables. All else, the faint ones and
those of higher order, is the remainder: the trees, less what the tables hold of them. It averages
to zero under the product of the training marginals. What no leaf can say alone, such as E|R|, is
measured on rows that are drawn from this product, always the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.anova.boxes import LARGEST_ORDER, Boxes
from tpnn.anova.components import Component, ComponentSet, in_order
from tpnn.anova.importance import variance
from tpnn.anova.shapley import interaction_weights, share, value_weights
from tpnn.anova.trees import Trees
from tpnn.model.flat import flatten_tables
from tpnn.model.interpolate import Predictor
from tpnn.table.axis import Axis

if TYPE_CHECKING:
    from tpnn.model.model import AnovaModel

Axes = Mapping[int, Sequence[Axis]]
N_DRAWN_ROWS = 2_000
N_CANDIDATES, N_LARGEST = 40, 10  # sets of features that are read, and that are named
COARSE_NODES = 24  # on which sets are read that have more features than any component


class RemainderSet(NamedTuple):
    """A set of features in the remainder."""

    features: tuple[str, ...]
    share: float  # of the variance of the raw score


@dataclass(frozen=True, eq=False, repr=False)
class Remainder:
    """One part of the raw score besides the components.

    Parameters
    ----------
    trees : Trees
        Their sum, less its mean and the tables below, is the remainder.
    constants : array of shape (n_outputs,)
        Mean of the trees, which is in the intercept of the model.
    components : ComponentSet
        Components of the model that hold a part of the trees.
    tables : tuple of array of shape (M_1, ..., M_d, n_outputs)
        These parts, on the nodes of the components.
    share : float
        Share of the variance of the raw score under the product of the marginals.
    worth : float
        How much larger the held-out loss is without the remainder, relative to the loss; 0 if no
        held-out rows have said it.
    largest : tuple of RemainderSet
        Sets of features with the largest components in the remainder, largest first.
    """

    trees: Trees
    constants: FloatArray
    components: ComponentSet
    tables: tuple[FloatArray, ...]
    share: float
    worth: float
    largest: tuple[RemainderSet, ...] = ()

    def __getstate__(self) -> dict[str, Any]:  # without what is made when it is used
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __repr__(self) -> str:
        worth = "" if self.worth == 0 else f", held-out loss {self.worth:+.1%} without it"
        share = f"share {self.share:.1%} of the variance"
        return f"Remainder({len(self.trees.roots)} trees, {share}{worth})"

    @property
    def features(self) -> list[int]:
        """Features that the remainder depends on."""
        of_tables = {j for s, table in self.held.items() if table.any() for j in s}
        return sorted({*self.trees.used, *of_tables})

    def refuse_steps(self, names: Sequence[str], features: Iterable[int], argument: str) -> None:
        """Refuse features that must have a shape, which cannot be proved of deep trees."""
        stepped = [names[j] for j in features if j in self.features]
        if stepped:
            raise ValueError(
                f"{argument}: no shape can be proved of deep trees, and the remainder of this "
                f"model depends on {stepped[0]!r}. Fit with remainder=False."
            )

    @property
    def sentence(self) -> str:
        """What leaving the remainder out would cost; empty if no held-out rows have said it."""
        words = f"Without the remainder: held-out loss {100 * self.worth:+.1f} %."
        return words if self.worth else ""

    @property
    def held(self) -> dict[Component, FloatArray]:
        """What the trees hold of components, on the nodes of these."""
        return dict(zip(self.components, self.tables, strict=True))

    @property
    def centred(self) -> Trees:
        """Trees less their mean, which one leaf takes away."""
        trees, leaf = self.trees, np.int32(-1 - len(self.trees.values))
        values = np.concatenate([trees.values, -self.constants[None]])
        return replace(trees, roots=np.append(trees.roots, leaf), values=values)

    def scores(self, axes: Axes, columns: Sequence[FloatArray]) -> FloatArray:
        """Remainder of rows whose columns are numbers of the encoder, (n_rows, n_outputs)."""
        held = np.zeros((len(self.constants), len(columns[0])))
        self._predictor(axes).add(columns, held)
        return self.trees.scores(columns) - self.constants - held.T

    def drawn_scores(self, axes: Axes) -> FloatArray:
        """Remainder of rows from the product of the marginals, (N_DRAWN_ROWS, n_outputs).

        A feature that it does not depend on changes no row.
        """
        rng, columns = np.random.default_rng(0), [np.zeros(N_DRAWN_ROWS)] * len(axes[1])
        for j in sorted({*self.features, *(j for s in self.components for j in s)}):
            columns[j] = rng.choice(axes[1][j].numbers, N_DRAWN_ROWS, p=axes[1][j].weights)
        return self.scores(axes, columns)

    def taken_from(
        self, intercepts: FloatArray, tables: Mapping[Component, FloatArray]
    ) -> tuple[FloatArray, dict[Component, FloatArray]]:
        """Subtract what intercepts (K,) and tables of a model hold of the trees."""
        held = {s: tables.get(s, 0.0) - table for s, table in self.held.items()}
        return intercepts - self.constants, {**tables, **held}

    def shapley(self, axes: Axes, columns: Sequence[FloatArray]) -> FloatArray:
        """Exact Shapley values of the remainder, (n_rows, n_features, n_outputs)."""
        weights = value_weights(self.components.components, len(self.trees.features))
        return self.boxes.shapley(columns) - share(self._held(axes, columns), weights)

    def interactions(self, axes: Axes, columns: Sequence[FloatArray]) -> FloatArray:
        """Exact Shapley interaction values, (n_rows, n_features, n_features, n_outputs)."""
        weights = interaction_weights(self.components.components, len(self.trees.features))
        return self.boxes.interactions(columns) - share(self._held(axes, columns), weights)

    def _held(self, axes: Axes, columns: Sequence[FloatArray]) -> FloatArray:
        """Value of each table on each row, (n_rows, n_components, n_outputs)."""
        shape = len(self.components), len(self.constants), len(columns[0])
        held = np.zeros((shape[0] * shape[1], shape[2]))
        self._predictor(axes).add(columns, held)
        return held.reshape(shape).transpose(2, 0, 1)

    def scaled(self, factor: float) -> Remainder:
        """Remainder times a number."""
        return replace(
            self,
            trees=self.trees.scaled(np.full(len(self.constants), factor)),
            constants=factor * self.constants,
            tables=tuple(factor * table for table in self.tables),
        )

    def of_output(self, place: int) -> Remainder:
        """Remainder of one output of several; its shares are still those of the whole."""
        one = slice(place, place + 1)
        return replace(
            self,
            trees=replace(self.trees, values=self.trees.values[:, one]),
            constants=self.constants[one],
            tables=tuple(table[..., one] for table in self.tables),
        )

    def pick(self, features: Sequence[int]) -> Remainder:
        """Keep some features only; the remainder must not depend on the others."""
        number = {feature: place for place, feature in enumerate(features)}
        kept = {tuple(number[j] for j in s): table for s, table in self.held.items()
                if number.keys() >= set(s)}  # fmt: skip
        return replace(self, trees=self.trees.pick(features), **in_order(kept))

    @cached_property
    def boxes(self) -> Boxes:
        """Leaves of the trees as products of intervals."""
        return Boxes.of(self.trees)

    def beside(self, before: float, after: float) -> Remainder:
        """Put the remainder beside components whose sum has another variance than before.

        Both kinds of parts must have had a share.
        """
        own = before * self.share / (1 - self.share)
        share = own / (own + after)
        sets = (s._replace(share=s.share * share / self.share) for s in self.largest)
        return replace(self, share=share, largest=tuple(sets))

    def _predictor(self, axes: Axes) -> Predictor:
        known = vars(self).get("_made")
        if known is None or known[0] is not axes:
            known = axes, Predictor(axes, flatten_tables(self.held))
            vars(self)["_made"] = known  # flattened once for each encoder
        predictor: Predictor = known[1]
        return predictor


def remainder_name(feature_names: Sequence[str]) -> tuple[str]:
    """Name of the remainder among those of components, which no feature has.

    >>> remainder_name(["age"]), remainder_name(["age", "remainder"])
    (('remainder',), ('remainder of the model',))
    """
    return ("remainder of the model" if "remainder" in feature_names else "remainder",)


def weighted_parts(model: AnovaModel) -> list[tuple[tuple[str, ...], FloatArray, list[FloatArray]]]:
    """Name, values and masses of every component and, at rows that are drawn, of the remainder."""
    parts = [
        (names, table, [axis.weights for axis in model.axes(component)])
        for component, names, table in zip(
            model.components, model.component_names, model.tables, strict=True
        )
    ]
    if model.remainder is not None:
        scores = model.remainder.drawn_scores(model.encoder.axes)
        even = np.full(len(scores), 1 / len(scores))
        parts.append((remainder_name(model.feature_names), scores, [even]))
    return parts


def axes_of_sets(axes: Axes) -> dict[int, Sequence[Axis]]:
    """Axes on which sets of features are read; orders of no component are coarse."""
    coarse = [axis.coarsened(COARSE_NODES) for axis in axes[1]]
    return {d: axes.get(d, coarse) for d in range(1, LARGEST_ORDER + 1)}


def measured(
    model: AnovaModel,
    candidates: Iterable[Component] | None = None,
    sets: tuple[Axes, Mapping[Component, FloatArray]] | None = None,
) -> AnovaModel:
    """Model whose remainder knows its share of the variance, and its largest sets of features.

    The sets are the largest of the candidates, whose features increase, that are no components of
    the model. By default these are the sets that were the largest before. Who has read ``sets`` off
    the trees passes them, with their axes.
    """
    remainder, names = model.remainder, model.feature_names
    if remainder is None:
        return model
    if candidates is None:
        candidates = [tuple(map(names.index, each.features)) for each in remainder.largest]
    if sets is None:
        coarse, known = axes_of_sets(model.encoder.axes), set(model.components)
        wanted = [s for s in candidates if s not in known][:N_CANDIDATES]
        sets = coarse, remainder.boxes.components(wanted, coarse)[1]
    axes, grids = sets
    parts = weighted_parts(model)
    unit = max(float(np.abs(values).max()) for _, values, _ in parts) or 1.0
    variances = [variance(values, masses, unit) for _, values, masses in parts]
    total = sum(variances) or 1.0
    found = [
        RemainderSet(
            tuple(names[j] for j in s),
            variance(grid, [axes[len(s)][j].weights for j in s], unit) / total,
        )
        for s, grid in grids.items()
    ]
    largest = sorted(found, key=lambda each: -each.share)[:N_LARGEST]
    share = variances[-1] / total
    return replace(model, remainder=replace(remainder, share=share, largest=tuple(largest)))
