"""Interactions: what a user may ask for, and what a search makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import QUICK
from tpnn import TPNNRegressor
from tpnn.search.interactions import MOST_INTERACTIONS, MOST_MAINS, Interactions

NAMES = ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("given", "expected", "searched"),
    [
        ("auto", Interactions(), True),
        ("all", Interactions(count="all"), False),
        (7, Interactions(count=7), True),
        ([], Interactions(listed=[]), False),
        ([("a", "b")], Interactions(listed=[("a", "b")]), False),
        ({"count": 7}, Interactions(count=7), True),
        ({"required": [("a", "b")]}, Interactions(required=[("a", "b")]), True),
        ({"count": "all", "groups": [["a"]]}, Interactions(count="all", groups=[["a"]]), False),
        ({}, Interactions(), True),
    ],
    ids=str,
)
def test_every_form_is_read(given: Any, expected: Interactions, searched: bool) -> None:
    read = Interactions.read(given)
    assert read == expected
    assert read.are_searched == searched


def test_components_that_need_no_search() -> None:
    mains = [(0,), (1,), (2,), (3,)]
    assert list(Interactions.read([]).components(NAMES, 2)) == mains
    listed = Interactions.read([("d", "a"), (1, 2, 3)]).components(NAMES, 3)
    assert list(listed) == [*mains, (0, 3), (1, 2, 3)]
    assert len(Interactions.read("all").components(NAMES, 3)) == 4 + 6 + 4


def test_how_many_pairs_were_asked_for() -> None:
    assert Interactions.read("auto").n_pairs(2, 30) is None
    assert Interactions.read(7).n_pairs(2, 30) == 7
    assert Interactions.read({"method": "nid"}).n_pairs(2, 30) == 30  # it says not how many matter
    assert Interactions.read({"method": "nid"}).n_pairs(2, None) == MOST_INTERACTIONS


@pytest.mark.parametrize("given", [3, {"count": 3}, {"method": "nid"}])
def test_pairs_need_an_order_of_two(given: Any) -> None:
    with pytest.raises(ValueError, match=r"^interactions: pairs need an order of at least 2, foun"):
        Interactions.read(given).n_pairs(1, None)


@pytest.mark.parametrize(
    ("given", "order", "expected"),
    [
        ("all", 2, 499_500),
        ("all", 1, 1000),
        ("auto", 1, MOST_MAINS),
        ("auto", 2, MOST_INTERACTIONS),
        (900, 2, 900),
        ([(0, 1), (0, 1, 2)], 2, 1),
        ([(0, 1), (0, 1, 2)], 3, 1),
        ([(0, 1)], 1, 1000),
    ],
)
def test_how_many_components_there_may_be(given: Any, order: int, expected: int) -> None:
    assert Interactions.read(given).most(order, 1000, None) == expected


def test_rules_have_features_as_indices() -> None:
    asked = {"required": [("b", "a")], "forbidden": [("a", "c")], "groups": [["a", 1, "d"]]}
    rules = Interactions.read(asked).rules(NAMES, 2)
    assert rules.required == ((0, 1),)
    assert rules.forbidden == ((0, 2),)
    assert rules.groups == ((0, 1, 3),)


@pytest.mark.parametrize("key", ["required", "forbidden", "groups"])
def test_an_unknown_feature_is_named_with_its_key(key: str) -> None:
    with pytest.raises(ValueError, match=rf"^interactions\['{key}'\]: features must be .*'z'"):
        Interactions.read({key: [("a", "z")]}).rules(NAMES, 2)


@pytest.mark.parametrize("forbidden", [("a", "b"), ("b", "a"), ("b", "c")])
def test_nothing_is_required_and_forbidden(forbidden: tuple[str, str]) -> None:
    asked = {"required": [("a", "b", "c")], "forbidden": [forbidden]}
    with pytest.raises(
        ValueError, match=r"^interactions: a required interaction must not contain a forbidden"
    ):
        Interactions.read(asked).rules(NAMES, 3)


@pytest.mark.parametrize("order", [2, "auto"])
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"forbidden": [("smooth", "level")]}, 5),
        ({"count": "all", "forbidden": [("smooth", "level"), (0, 1)]}, 4),
        ({"groups": [["smooth", "skewed", "atom"]]}, 3),
        ({"groups": [["smooth", "skewed"]], "required": [(2, 3)]}, 2),
        ({"count": 1, "required": [("atom", "level")]}, 2),
    ],
)
def test_interactions_that_may_and_must_be(
    table: Any, asked: dict[str, Any], expected: int, order: int | str
) -> None:
    """Deep trees ask about what is permitted."""
    X, y = table
    model = TPNNRegressor(**QUICK, order=order, interactions=asked).fit(X, y)
    pairs = [component for component in model.components_ if len(component) == 2]
    assert 1 <= len(pairs) <= expected
    for forbidden in asked.get("forbidden", []):
        names = {X.columns[j] if isinstance(j, int) else j for j in forbidden}
        assert not any(names <= set(pair) for pair in pairs)
    if "required" in asked:
        assert ("atom", "level") in pairs


def test_a_list_takes_no_rules() -> None:
    """Whoever lists the interactions says all there is to say; a dict has no key for the list."""
    with pytest.raises(ValueError, match=r"^interactions: must be "):
        TPNNRegressor(**QUICK, interactions={"listed": [(0, 1)]}).fit([[0.0]] * 4, [1, 2, 3, 4])
