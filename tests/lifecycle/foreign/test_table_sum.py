"""Tables by hand: read by name, checked, and put on their axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tpnn.lifecycle.foreign.table_sum import level_axis, sum_of_tables
from tpnn.table.words import node_words

NODES = {"a": [0.0, 1.0], "b": [10, 20, 30], "k": ["u", "v"]}


def test_tables_are_put_in_the_order_of_the_nodes() -> None:
    table = np.arange(6.0).reshape(3, 2)
    given = sum_of_tables({("b", "a"): table}, NODES, 0.5, "log")
    assert list(given.tables) == [(0, 1)]
    assert np.array_equal(given.tables[0, 1][..., 0, 0], table.T)
    assert given.intercept.tolist() == [[0.5]]
    assert given.link == "log"
    assert given.encoder.names == ("a", "b", "k")


def test_tables_of_the_same_features_are_added() -> None:
    one, two = np.ones((2, 3)), np.arange(6.0).reshape(3, 2)
    given = sum_of_tables({("a", "b"): one, ("b", "a"): two, "a": [1, 2]}, NODES, 0.0, "identity")
    assert np.array_equal(given.tables[0, 1][..., 0, 0], one + two.T)
    assert given.tables[0,].shape == (2, 1, 1)


def test_every_order_has_the_same_nodes() -> None:
    given = sum_of_tables({("a", "b", "k"): np.zeros((2, 3, 2))}, NODES, 0.0, "identity")
    assert given.encoder.axes[1] == given.encoder.axes[2] == given.encoder.axes[3]
    for axis, nodes in zip(given.encoder.axes[1], NODES.values(), strict=True):
        assert axis.weights == pytest.approx(np.full(len(nodes), 1 / len(nodes)))
    assert [feature.kind for feature in given.encoder.features] == ["number", "number", "nominal"]
    assert given.encoder.features[2].levels == ("u", "v")


def test_levels_have_a_node_each() -> None:
    axis = level_axis(("u", "v"), np.ones(2) / 2)
    assert axis.is_nominal
    assert axis.locate(np.array([1.0, 0.0, np.nan, np.inf]))[0].tolist() == [1, 0, 2, 2]
    assert axis.n_nodes == 2  # beyond which everything is zero


def test_unseen_levels_and_missing_values_can_have_nodes() -> None:
    axis = level_axis(("u", "v"), np.ones(4) / 4, is_open=True)
    assert axis.locate(np.array([1.0, 0.0, np.nan, np.inf]))[0].tolist() == [1, 0, 3, 2]
    assert node_words(axis) == ["u", "v", "(unseen level)", "(missing)"]
    assert np.isnan(axis.numbers[axis.missing]).tolist() == [True]


def test_labels_keep_their_type() -> None:
    nodes = {"k": np.array([2, 1, "u"], dtype=object)}
    assert sum_of_tables({}, nodes, 0.0, "logit").encoder.features[0].levels == (2, 1, "u")


BAD: dict[str, tuple[dict[Any, Any], dict[str, Any], str]] = {
    "no nodes": ({("a",): [1.0]}, {}, "nodes: every feature of a table needs its nodes, 'a' has"),
    "shape": ({("a",): [1.0]}, NODES, r"model: the table of \('a',\) must hold finite numbers of"),
    "NaN": ({("a",): [np.nan, 1]}, NODES, r"model: the table of \('a',\) must hold finite numbers"),
    "too many axes": ({"a": np.ones((2, 3))}, NODES, r"model: .* of shape \(2,\), one per node"),
    "order": ({}, {"a": [1, 0]}, "nodes: those of 'a' must be increasing numbers or labels, found"),
    "twice": ({}, {"a": [0, 0]}, "nodes: those of 'a' must be increasing numbers or labels, found"),
    "no node": ({}, {"a": []}, "nodes: those of 'a' must be increasing numbers or labels, found"),
    "infinite": ({}, {"a": [0, np.inf]}, "nodes: those of 'a' must be increasing numbers or lab"),
    "same label": ({}, {"a": ["u", "u"]}, "nodes: those of 'a' must be increasing numbers or lab"),
    "a grid": ({}, {"a": [[0.0], [1.0]]}, "nodes: those of 'a' must be increasing numbers or la"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tables(case: str) -> None:
    tables, nodes, words = BAD[case]
    with pytest.raises(ValueError, match=f"^{words}"):
        sum_of_tables(tables, nodes, 0.0, "identity")


def test_unknown_links_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"^link: must be one of identity, logit, log, .* 'probit'"
    ):
        sum_of_tables({}, NODES, 0.0, "probit")


def test_features_without_a_table_are_kept() -> None:
    """Rows of the model have all columns that have nodes."""
    given = sum_of_tables({"k": [0.0, 1.0]}, NODES, 0.0, "identity")
    assert given.encoder.n_features == 3
    assert list(given.tables) == [(2,)]
    assert given.output_names == given.classes == ()


def test_nodes_may_be_of_any_number() -> None:
    given = sum_of_tables({}, {"a": range(3), "b": np.array([0.5, 1.5], np.float32)}, 0.0, "logit")
    values = [axis.values.tolist() for axis in given.encoder.axes[1]]
    assert values == [[0.0, 1.0, 2.0], [0.5, 1.5]]
