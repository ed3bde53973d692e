"""ComponentSet: which feature subsets S get a component f_S."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from numbers import Integral
from typing import Any, TypeVar

Component = tuple[int, ...]
Value = TypeVar("Value")


@dataclass(frozen=True)
class ComponentSet:
    """Ordered set of components, each an increasing tuple of feature indices.

    Components are sorted by order, then by their features: main effects first, then pairs.

    Parameters
    ----------
    components : tuple of tuple of int
        The subsets S; each feature at most once in each.

    Examples
    --------
    >>> ComponentSet.up_to(3, order=2).components
    ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2))
    >>> ComponentSet.with_mains(3, [(2, 0)]).names(["age", "bmi", "sex"])
    [('age',), ('bmi',), ('sex',), ('age', 'sex')]
    """

    components: tuple[Component, ...]

    def __post_init__(self) -> None:
        tidy = {tuple(sorted(component)) for component in self.components}
        ordered = tuple(sorted(tidy, key=lambda component: (len(component), component)))
        object.__setattr__(self, "components", ordered)

    def __iter__(self) -> Iterator[Component]:
        return iter(self.components)

    def __len__(self) -> int:
        return len(self.components)

    @classmethod
    def up_to(cls, n_features: int, order: int) -> ComponentSet:
        """All components of at most ``order`` features."""
        orders = range(1, min(order, n_features) + 1)
        return cls(tuple(s for size in orders for s in combinations(range(n_features), size)))

    @classmethod
    def with_mains(cls, n_features: int, interactions: Iterable[Component]) -> ComponentSet:
        """All main effects and the given interactions."""
        mains = tuple((feature,) for feature in range(n_features))
        return cls((*mains, *interactions))

    def with_subsets(self) -> ComponentSet:
        """Components and all their non-empty subsets, which purification may move values to.

        >>> ComponentSet(((0, 2),)).with_subsets().components
        ((0,), (2,), (0, 2))
        """
        sizes = ((s, size) for s in self.components for size in range(1, len(s) + 1))
        return ComponentSet(tuple({u for s, size in sizes for u in combinations(s, size)}))

    @property
    def orders(self) -> tuple[int, ...]:
        """Orders that occur, increasing."""
        return tuple(sorted({len(component) for component in self.components}))

    def renumbered(self, number: Mapping[int, int]) -> ComponentSet:
        """Give features other numbers."""
        return ComponentSet(tuple(tuple(number[j] for j in s) for s in self.components))

    def names(self, feature_names: Sequence[str]) -> list[tuple[str, ...]]:
        """Components as tuples of feature names."""
        return [tuple(feature_names[i] for i in component) for component in self.components]


def in_order(tables: Mapping[Component, Any]) -> dict[str, Any]:
    """Components and what each has, both in the order of a set, as fields of a record.

    >>> in_order({(0, 1): "pair", (0,): "main"})
    {'components': ComponentSet(components=((0,), (0, 1))), 'tables': ('main', 'pair')}
    """
    components = ComponentSet(tuple(tables))
    return {"components": components, "tables": tuple(tables[s] for s in components)}


@dataclass(frozen=True)
class InteractionRules:
    """Which interactions a model may or must have, besides those that a search finds.

    >>> rules = InteractionRules(forbidden=((0, 1),), groups=((0, 1, 2),), required=())
    >>> [rules.permit(s) for s in [(0,), (0, 2), (0, 1), (0, 1, 2), (2, 3)]]
    [True, True, False, False, False]
    """

    forbidden: tuple[Component, ...] = ()  # no component contains all features of one of these
    # features interact only within one of these; () sets no limit
    groups: tuple[Component, ...] = ()
    required: tuple[Component, ...] = ()  # always included

    def permit(self, component: Component) -> bool:
        """Whether a component may be in the model; main effects always may."""
        features = set(component)
        if len(component) == 1 or component in self.required:
            return True
        inside = not self.groups or any(features <= set(group) for group in self.groups)
        return inside and not any(features >= set(pair) for pair in self.forbidden)

    def applied(self, components: ComponentSet) -> ComponentSet:
        """Components that are permitted, and those that are required with all their subsets."""
        required = ComponentSet(self.required).with_subsets()
        return ComponentSet((*filter(self.permit, components), *required))


def canonical(components: Iterable[Component], features: Sequence[int]) -> list[Component]:
    """Components, and the features in each, sorted by their rank in ``features``.

    >>> canonical([(0,), (1,), (0, 1)], features=[1, 0])
    [(1,), (0,), (1, 0)]
    """
    rank = {feature: position for position, feature in enumerate(features)}
    ranked = sorted((len(s), sorted(rank[feature] for feature in s)) for s in components)
    return [tuple(features[position] for position in positions) for _, positions in ranked]


def resolve_interactions(
    interactions: Iterable[Sequence[int | str]],
    feature_names: Sequence[str],
    order: int | None,
    argument: str = "interactions",
    fewest: int = 2,
) -> list[Component]:
    """Turn interactions, each by name or index of its features, into components, checking each.

    None may have more than ``order`` features, or less than ``fewest``; an ``order`` of None sets
    no limit. Messages begin with the name ``argument``.

    >>> resolve_interactions([("b", "a"), (1, 2)], ["a", "b", "c"], order=2)
    [(0, 1), (1, 2)]
    """
    return [
        _resolve_one(tuple(one), feature_names, order, argument, fewest) for one in interactions
    ]


def resolve_components(
    listed: Iterable[Sequence[int | str]],
    feature_names: Sequence[str],
    order: int,
    argument: str = "components",
) -> ComponentSet:
    """Turn components of a model, by name or index, into a set; none may occur twice.

    >>> resolve_components([("b",), (1, "a")], ["a", "b", "c"], order=2).components
    ((1,), (0, 1))
    """
    listed_as: dict[Component, tuple[int | str, ...]] = {}
    for features in map(tuple, listed):
        component = _resolve_one(features, feature_names, order, argument, fewest=1)
        if component in listed_as:
            raise ValueError(
                f"{argument}: each may be listed once, found {listed_as[component]} and "
                f"{features}. "
                "Remove one of the two."
            )
        listed_as[component] = features
    return ComponentSet(tuple(listed_as))


def _resolve_one(
    features: tuple[int | str, ...],
    feature_names: Sequence[str],
    order: int | None,
    argument: str,
    fewest: int = 2,
) -> Component:
    indices = [_index(feature, feature_names) for feature in features]
    if None in indices:
        unknown = features[indices.index(None)]
        raise ValueError(
            f"{argument}: features must be names or indices of columns, found {unknown!r} in "
            f"{features}. The columns are {list(feature_names)[:10]}."
        )
    component = tuple(sorted(index for index in indices if index is not None))
    for one, other in pairwise(component):
        if one == other:
            raise ValueError(
                f"{argument}: each must name different features, found {feature_names[one]!r} "
                f"twice in {features}. Name it once."
            )
    most = len(feature_names) if order is None else order
    if not fewest <= len(component) <= most:
        rule = f"at least {fewest}" if order is None else f"{fewest} to order={order}"
        remedy = "Change it." if order is None else "Change it, or raise order."
        raise ValueError(
            f"{argument}: each must name {rule} different features, found {features}. {remedy}"
        )
    return component


def resolve_feature(feature: Any, feature_names: Sequence[str], argument: str) -> int:
    """Index of a feature, by name or index; errors begin with ``argument``."""
    index = _index(feature, feature_names)
    if index is None:
        raise ValueError(
            f"{argument}: features must be names or indices of columns, found {feature!r}. "
            f"The columns are {list(feature_names)[:10]}."
        )
    return index


def resolve_features(
    given: Mapping[Any, Value], feature_names: Sequence[str], argument: str
) -> dict[int, Value]:
    """Key what is given for features by their indices; refuse a feature that is named twice."""
    found: dict[int, Value] = {}
    for feature, value in given.items():
        index = resolve_feature(feature, feature_names, argument)
        if index in found:
            raise ValueError(
                f"{argument}: a feature is named once, found {feature_names[index]!r} by its name "
                "and by its position. Leave one of them out."
            )
        found[index] = value
    return found


def _index(feature: Any, feature_names: Sequence[str]) -> int | None:
    if isinstance(feature, str):
        return feature_names.index(feature) if feature in feature_names else None
    whole = isinstance(feature, Integral) and not isinstance(feature, bool)
    return int(feature) if whole and 0 <= feature < len(feature_names) else None
