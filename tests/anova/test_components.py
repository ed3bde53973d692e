"""Components: ordered sets of feature subsets, the rules on them, and their names."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpnn import ComponentSet
from tpnn.anova.components import (
    InteractionRules,
    canonical,
    resolve_feature,
    resolve_interactions,
)

NAMES = ["a", "b", "c"]
component = st.lists(st.integers(0, 4), min_size=1, max_size=3, unique=True).map(tuple)
components = st.lists(component, max_size=6).map(tuple)
interaction = component.filter(lambda s: len(s) > 1).map(lambda s: tuple(sorted(s)))
interactions = st.lists(interaction, max_size=3).map(tuple)


def test_up_to_holds_every_subset_once() -> None:
    components = ComponentSet.up_to(5, order=3)
    expected = [s for size in (1, 2, 3) for s in combinations(range(5), size)]
    assert list(components) == expected
    assert components.orders == (1, 2, 3)
    assert len(ComponentSet.up_to(2, order=5)) == 3


@given(components)
def test_components_are_sorted_and_unique(given: tuple[tuple[int, ...], ...]) -> None:
    tidy = ComponentSet(given)
    assert {frozenset(s) for s in given} == {frozenset(s) for s in tidy}
    assert len(tidy) == len({frozenset(s) for s in given})
    assert all(list(s) == sorted(s) for s in tidy)
    assert list(tidy) == sorted(tidy, key=lambda s: (len(s), s))
    assert ComponentSet(tidy.components) == ComponentSet(given[::-1])


def test_main_effects_are_added_once() -> None:
    components = ComponentSet.with_mains(3, [(2, 0), (1,)])
    assert components.components == ((0,), (1,), (2,), (0, 2))
    assert components.names(NAMES)[-1] == ("a", "c")


@given(components)
def test_subsets_are_all_and_only_subsets(given: tuple[tuple[int, ...], ...]) -> None:
    closed = ComponentSet(given).with_subsets()
    every = {u for s in given for size in range(1, 4) for u in combinations(sorted(s), size)}
    assert set(closed) == every
    assert closed.with_subsets() == closed


def test_canonical_arrangement_survives_relabelling() -> None:
    components = ComponentSet.up_to(3, 2)
    features = [2, 0, 1]
    relabelled = {0: 1, 1: 2, 2: 0}  # the same features under other numbers
    arranged = canonical(components, features)
    other = canonical(components, [relabelled[feature] for feature in features])
    assert [tuple(relabelled[j] for j in s) for s in arranged] == other


@given(components, st.permutations(range(5)))
def test_canonical_arrangement_is_one_of_the_same_components(
    given: tuple[tuple[int, ...], ...], features: list[int]
) -> None:
    arranged = canonical(ComponentSet(given), features)
    assert {frozenset(s) for s in arranged} == {frozenset(s) for s in given}
    ranks = [[features.index(j) for j in s] for s in arranged]
    assert ranks == sorted(ranks, key=lambda s: (len(s), s))
    assert all(rank == sorted(rank) for rank in ranks)


@given(interactions, interactions, interactions, component)
def test_rules_written_out(
    forbidden: tuple, groups: tuple, required: tuple, asked: tuple[int, ...]
) -> None:
    rules = InteractionRules(forbidden=forbidden, groups=groups, required=required)
    asked = tuple(sorted(asked))
    hit = any(all(j in asked for j in pair) for pair in forbidden)
    inside = not groups or any(all(j in group for j in asked) for group in groups)
    assert rules.permit(asked) == (len(asked) == 1 or asked in required or (inside and not hit))


@given(components, interactions, interactions)
def test_rules_keep_what_is_permitted_and_add_what_is_required(
    given: tuple, forbidden: tuple, required: tuple
) -> None:
    rules = InteractionRules(forbidden=forbidden, required=required)
    kept = set(rules.applied(ComponentSet(given)))
    assert set(required) <= kept
    assert kept <= set(ComponentSet((*given, *required)).with_subsets())
    assert all(s in kept for s in ComponentSet(given) if rules.permit(s))
    allowed = set(ComponentSet(required).with_subsets())
    assert all(rules.permit(s) or s in allowed for s in kept)


def test_interactions_by_name_and_index() -> None:
    found = resolve_interactions([("c", "a"), (np.int64(1), 2), ("b", 0)], NAMES, order=2)
    assert found == [(0, 2), (1, 2), (0, 1)]
    assert all(type(index) is int for pair in found for index in pair)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([("a", "z")], "found 'z'"),
        ([(0, 7)], "found 7"),
        ([(0, -1)], "found -1"),
        ([(0, 1.7)], "found 1.7"),
        ([(False, True)], "found False"),
        ([(0, None)], "found None"),
        ([("a", "a")], "different features"),
        ([("a", 0)], "different features"),
        ([("a",)], "2 to order=2"),
        ([("a", "b", "c")], "raise order"),
    ],
)
def test_bad_interactions(given: list[tuple[int | str, ...]], words: str) -> None:
    with pytest.raises(ValueError, match=f"^interactions: .*{words}"):
        resolve_interactions(given, NAMES, order=2)


def test_without_an_order_only_the_smallest_size_is_checked() -> None:
    assert resolve_interactions([("c", "a", "b")], NAMES, order=None) == [(0, 1, 2)]
    with pytest.raises(
        ValueError, match=r"must name at least 2 different features, found \('a',\)"
    ):
        resolve_interactions([("a",)], NAMES, order=None)


def test_errors_name_the_argument() -> None:
    with pytest.raises(ValueError, match=r"^forbidden: features must be names .* found 'z' in"):
        resolve_interactions([("z", "a")], NAMES, order=2, argument="forbidden")


def test_features_by_name_and_index() -> None:
    assert [resolve_feature(given, NAMES, "feature") for given in ("c", 1, np.int8(0))] == [2, 1, 0]


@pytest.mark.parametrize("feature", ["z", 3, -1, 1.0, True, None])
def test_bad_features(feature: Any) -> None:
    with pytest.raises(ValueError, match=r"^feature: features must be names or indices of columns"):
        resolve_feature(feature, NAMES, "feature")
