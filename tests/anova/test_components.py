from __future__ import annotations

from itertools import combinations

import pytest

from tpnn import ComponentSet
from tpnn.anova.components import canonical, resolve_interactions


def test_up_to_holds_every_subset_once() -> None:
    components = ComponentSet.up_to(5, order=3)
    expected = [s for size in (1, 2, 3) for s in combinations(range(5), size)]
    assert list(components) == expected
    assert components.orders == (1, 2, 3)
    assert len(ComponentSet.up_to(2, order=5)) == 3


def test_components_are_sorted_and_unique() -> None:
    components = ComponentSet(((2, 0), (1,), (0, 2), (0,)))
    assert components.components == ((0,), (1,), (0, 2))


def test_canonical_arrangement_survives_relabelling() -> None:
    components = ComponentSet.up_to(3, 2)
    features = [2, 0, 1]
    relabelled = {0: 1, 1: 2, 2: 0}  # the same features under other numbers
    arranged = canonical(components, features)
    other = canonical(components, [relabelled[feature] for feature in features])
    assert [tuple(relabelled[j] for j in s) for s in arranged] == other


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([("a", "z")], "found 'z'"),
        ([(0, 7)], "found 7"),
        ([(0, 1.7)], "found 1.7"),
        ([(False, True)], "found False"),
        ([(0, None)], "found None"),
        ([("a", "a")], "different features"),
        ([("a",)], "2 to order=2"),
        ([("a", "b", "c")], "raise order"),
    ],
)
def test_bad_interactions(given: list[tuple[int | str, ...]], words: str) -> None:
    with pytest.raises(ValueError, match=f"^interactions: .*{words}"):
        resolve_interactions(given, ["a", "b", "c"], order=2)
