"""Interactions: which components a model may have, must have, or has, as the user says it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from tpnn.anova.components import (
    ComponentSet,
    InteractionRules,
    resolve_components,
    resolve_feature,
    resolve_interactions,
)

MOST_INTERACTIONS = 500  # of each order, unless max_components is given
MOST_MAINS = 100  # with more features, main effects are chosen too

Features = Sequence[Sequence[int | str]]  # subsets of features, by name or index


@dataclass(frozen=True, kw_only=True)
class Interactions:
    """The parameter ``interactions`` of an estimator, parsed."""

    listed: Features | None = None  # the interactions, if the user lists them
    are_exact: bool = False  # whether ``listed`` are all components, main effects included
    count: Any = "auto"  # else "auto" (those that matter), "all", or how many pairs
    method: str = "trees"  # how pairs are ranked: "trees" or "nid"
    required: Features = ()  # always included
    forbidden: Features = ()  # features that never interact all together
    groups: Features = ()  # features may interact within a group
    heredity: bool = False  # whether the model must have all subsets of its components

    @classmethod
    def read(cls, given: Any, components: Features | None = None) -> Interactions:
        """Parse "auto", "all", a number, a list or a dict; or the components of the whole model."""
        if components is not None:
            return cls(listed=components, are_exact=True)
        if isinstance(given, Mapping):
            return cls(**given)
        return cls(listed=given) if isinstance(given, list | tuple) else cls(count=given)

    @property
    def are_searched(self) -> bool:
        """Whether a search has to find the interactions."""
        return self.listed is None and self.count != "all"

    @property
    def are_free(self) -> bool:
        """Whether the interactions are those that matter, whatever their number."""
        return self.listed is None and self.count == "auto" and self.method == "trees"

    def components(self, names: Sequence[str], order: int) -> ComponentSet:
        """Return what is listed, with all main effects unless exact, or all up to an order."""
        if self.listed is None:
            return ComponentSet.up_to(len(names), order)
        if self.are_exact:
            return resolve_components(self.listed, names, order)
        chosen = resolve_interactions(self.listed, names, order)
        return ComponentSet.with_mains(len(names), chosen)

    def n_pairs(self, order: int, max_components: int | None) -> int | None:
        """Return how many pairs were asked for; None for those that matter."""
        count = None if self.count == "auto" else int(self.count)
        if self.method == "nid" and count is None:  # a network does not say how many matter
            count = max_components or MOST_INTERACTIONS
        if count is not None and order < 2:
            asked = f"{count} interactions" if self.count != "auto" else 'the method "nid"'
            raise ValueError(
                f"interactions: pairs need an order of at least 2, found order={order} and "
                f"{asked}. Raise order, or pass interactions=[]."
            )
        return count

    def most(self, order: int, n_features: int, max_components: int | None) -> int:
        """Return the largest number of components of an order that a fit may have."""
        count = math.comb(n_features, order)
        if self.listed is not None and order > 1:
            return sum(len(component) == order for component in self.listed)
        if not self.are_searched:
            return count
        if order == 1:
            return min(count, MOST_MAINS)
        if order > 2:  # fits bound what they find by its cells
            return sum(len(component) == order for component in self.required)
        asked = self.n_pairs(order, max_components)
        return min(count, max(asked or max_components or 0, MOST_INTERACTIONS))

    def rules(
        self, names: Sequence[str], order: int, alone: Iterable[int] = ()
    ) -> InteractionRules:
        """Rules with features as indices; no required interaction may contain a forbidden one.

        Features that are ``alone`` have no interactions.
        """
        required = resolve_interactions(
            self.required, names, order, "interactions['required']", fewest=1
        )
        forbidden = resolve_interactions(self.forbidden, names, None, "interactions['forbidden']")
        for one, other in product(required, forbidden):
            if set(one) >= set(other):
                raise ValueError(
                    f"interactions: a required interaction must not contain a forbidden one, found "
                    f"{tuple(names[j] for j in one)} and {tuple(names[j] for j in other)}. "
                    "Remove one of the two."
                )
        groups = tuple(
            tuple(resolve_feature(feature, names, "interactions['groups']") for feature in group)
            for group in self.groups
        )
        forbidden += [(feature,) for feature in alone]
        return InteractionRules(tuple(forbidden), groups, tuple(required))
