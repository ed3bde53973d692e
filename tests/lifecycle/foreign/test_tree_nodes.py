"""Nodes of trees are on both sides of their cuts, and the most frequent levels come first."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tpnn.lifecycle.foreign import read as tree_nodes
from tpnn.lifecycle.foreign.read import nodes_of
from tpnn.lifecycle.foreign.tree_sum import ForeignTree, Question, TreeSum, threshold
from tpnn.table.encoder import Feature
from tpnn.table.table import NOMINAL, NUMBER, Table


def stump(question):
    return ForeignTree([question], np.array([[-1, -2]], np.int32), np.array([[0.0], [1.0]]))


def trees_on(X, features, questions, reads_missing=True):
    return TreeSum(
        table=Table(X),
        features=features,
        trees=[stump(question) for question in questions],
        intercept=np.zeros(1),
        link="identity",
        reads_missing=reads_missing,
    )


def test_both_sides_of_a_cut_have_a_node_and_the_rows_their_mass():
    x = np.array([0.0, 1.0, 2.0, 4.0])
    asked = [threshold(0, 1.5, False)]
    given = trees_on(x[:, None], (Feature(NUMBER),), asked)
    nodes = nodes_of(given, np.array([1.0, 1.0, 1.0, 5.0]))
    axis, feature = nodes.encoder.axes[1][0], nodes.features[0]
    assert axis.values.tolist() == [0.0, 1.5, np.nextafter(1.5, 2), 4.0]
    assert axis.weights[:2].sum() == pytest.approx(0.25)
    assert axis.weights[axis.missing].tolist() == [0.0]
    np.testing.assert_allclose(feature.masses, [0.25, 0.75, 0.0, 0.0])
    assert nodes.exact_order == 3


def test_a_library_without_missing_values_has_no_node_for_them():
    x = np.arange(4.0)[:, None]
    nodes = nodes_of(trees_on(x, (Feature(NUMBER),), [threshold(0, 1.5, False)], False), None)
    assert not nodes.encoder.axes[1][0].has_missing


def test_the_most_frequent_level_comes_first():
    X = pd.DataFrame({"c": ["u", "w", "w", "v", "w", "v", None, "w"]})
    column = Feature(NOMINAL, ("u", "v", "w", "x"))
    nodes = nodes_of(trees_on(X, (column,), [Question(0, (True, False, False, True), True)]), None)
    axis = nodes.encoder.axes[1][0]
    assert (axis.levels or ())[axis.seen] == ("w", "v", "u", "x")
    np.testing.assert_allclose(axis.weights, np.array([4, 2, 1, 0, 0, 1]) / 8)
    trees = trees_on(X, (column,), [Question(0, (True, False, False, True), True)]).on(
        nodes.features
    )
    numbers = np.array([0.0, 1.0, 2.0, 3.0, np.inf, np.nan])
    assert trees.scores([numbers])[:, 0].tolist() == [1.0, 0.0, 0.0, 1.0, 0.0, 1.0]


def test_cuts_that_trees_use_most_are_kept(monkeypatch):
    monkeypatch.setattr(tree_nodes, "MOST_CUTS", {1: 9, 2: 2, 3: 1})
    asked = [threshold(0, cut, False) for cut in (1.5, 3.5, 3.5, 3.5, 3.5, 5.5)]
    nodes = nodes_of(trees_on(np.arange(8.0)[:, None], (Feature(NUMBER),), asked), None)
    below = [set(nodes.encoder.axes[order][0].values.tolist()) for order in (1, 2, 3)]
    assert below[0] >= below[1] >= below[2] >= {0.0, 3.5, 7.0}
    assert nodes.exact_order == 1
