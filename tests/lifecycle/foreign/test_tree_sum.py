"""Questions about numbers, as libraries ask them in single precision."""

from __future__ import annotations

import numpy as np
import pytest

from tpnn.anova.trees import TreeFeature
from tpnn.lifecycle.foreign.tree_sum import (
    ForeignTree,
    Question,
    TreeSum,
    about_levels,
    in_order,
    link_of,
    single_ends,
    threshold,
    tree_of,
)
from tpnn.table.encoder import Feature
from tpnn.table.table import NUMBER, Table


@pytest.mark.parametrize("or_equal", [True, False])
def test_ends_are_the_largest_numbers_that_go_left(or_equal):
    rng = np.random.default_rng(0)
    limits = np.concatenate(
        [
            rng.normal(size=200) * 10.0 ** rng.integers(-40, 30, 200),
            rng.normal(size=200).astype(np.float32),  # limits that single precision has
            [0.0, 1.0, -1.0, 2.0**-149, 1e-45, 3.4028234663852886e38],
        ]
    )
    ends = single_ends(limits, or_equal)

    def goes_left(x):
        with np.errstate(over="ignore"):
            single = x.astype(np.float32)
        return single <= limits if or_equal else single < limits

    assert goes_left(ends).all()
    assert not goes_left(np.nextafter(ends, np.inf)).any()


def test_an_infinite_end_asks_for_missing_values_alone():
    assert threshold(0, np.inf, True) == Question(0, (False,), True)
    assert threshold(0, -3.402e38, False) == Question(0, (True,), False)


def test_levels_in_place_of_their_numbers():
    question = about_levels(threshold(0, 1.5, True), range(4))
    assert question == Question(0, (False, False, True, True), True, True)


def test_numbers_that_cannot_be_reached_are_left_out():
    ask = threshold(0, 0.5, False)
    left, right = np.array([2, -1, -1, -1]), np.array([3, -1, -1, -1])
    tree = tree_of(left, right, {0: ask}, np.arange(4.0)[:, None])
    assert tree.children.tolist() == [[-1, -2]]
    assert tree.values.tolist() == [[2.0], [3.0]]


def test_questions_share_the_codes_of_their_feature():
    asked = [threshold(0, 0.5, True), Question(0, (True, False, True), False, False, (0.5, 2.0))]
    children = np.array([[1, -1], [-2, -3]], np.int32)
    tree = ForeignTree(asked, children, np.array([[1.0], [2.0], [4.0]]))
    table = Table(np.zeros((1, 1)))
    given = TreeSum(table, (Feature(NUMBER),), [tree, tree], np.zeros(1), link="identity")
    trees = given.on([TreeFeature(np.array([0.5, 2.0]), None, np.ones(5) / 5)])
    scores = trees.scores([np.array([0.5, 0.6, 2.0, 2.1, np.nan])])
    assert scores[:, 0].tolist() == [8.0, 2.0, 2.0, 2.0, 2.0]
    assert len(trees.asked) == 2


def test_columns_and_links_that_do_not_fit():
    with pytest.raises(ValueError, match=r"^X: the columns of the model's fit are needed, 3 of"):
        in_order(Table(np.zeros((1, 2))), None, 3)
    with pytest.raises(ValueError, match=r"^link: must be one of identity, .* found 'odd'\."):
        link_of("any", {}, "odd")
