"""write_remainder: operators of ONNX from the codes of a row to the sum of its trees.

Rows of the table are the second axis. If trees ask few questions, the answers are the bits of a
number that picks the value of a tree. Otherwise all trees go down one level after the other.
"""

from __future__ import annotations

import numpy as np

from tpnn._utils.arrays import FloatArray, Int32Array, IntArray
from tpnn.anova.trees import Trees
from tpnn.export.lowering import Forest
from tpnn.export.onnx_graph import Graph
from tpnn.export.onnx_places import Located


def write_trees(graph: Graph, forest: Forest, located: Located) -> str:
    """Values of all trees, (n_outputs, n_trees, n_rows)."""
    trees = forest.trees
    answers = _answers(graph, forest, located)
    if trees.tables is not None:
        asked, values = trees.tables
        return _picked(graph, _numbers(graph, asked, answers), values, len(trees.roots))
    places, values = _leaves(graph, trees, answers), trees.values
    return _picked(graph, places, values, len(trees.roots))


def _picked(graph: Graph, places: str, values: FloatArray, n_trees: int) -> str:
    """Pick values (n, n_outputs) by places (n_trees, n_rows)."""
    return graph.add_picked(graph.constant(values.T), places, [values.shape[1], n_trees, -1])


def _answers(graph: Graph, forest: Forest, located: Located) -> str:
    """Whether each row goes right at each question, 0 or 1, (n_questions, n_rows)."""
    trees, place_of = forest
    rows = np.array([located.node_row[place_of[feature]] for feature in trees.asked.tolist()])
    codes = graph.add("Gather", located.nodes, rows, axis=0)
    positions = graph.add("Add", codes, trees.starts[:-1, None])
    right = graph.constant(trees.right[None].astype(np.int64))
    return graph.add_picked(right, positions, [len(rows), -1])


def _numbers(graph: Graph, asked: IntArray, answers: str) -> str:
    """Entry of each tree in its table, (n_trees, n_rows), given its questions (d, n_trees)."""
    numbers = ""
    for place, questions in enumerate(asked):
        bit = graph.add("Gather", answers, questions, axis=0)
        first = (np.arange(len(questions)) << len(asked))[:, None]
        weighted = graph.add("Mul", bit, np.array(1 << place))
        numbers = graph.add("Add", weighted, numbers or first)
    return numbers


def _leaves(graph: Graph, trees: Trees, answers: str) -> str:
    """Leaf of each tree, (n_trees, n_rows); a leaf is a node without a way out."""
    n_nodes, n_leaves = len(trees.questions), len(trees.values)

    def numbers(places: Int32Array) -> IntArray:
        return np.where(places >= 0, places, n_nodes - 1 - places).astype(np.int64)

    leaves = n_nodes + np.arange(n_leaves)
    children = np.concatenate([numbers(trees.children).ravel(), np.repeat(leaves, 2)])
    ways = graph.constant(children[None])
    asked = graph.constant(np.append(trees.questions, np.zeros(n_leaves, np.int64))[None])
    roots = numbers(trees.roots)[:, None]
    first_row = graph.add("Mul", graph.add("Gather", answers, np.array([0]), axis=0), np.array(0))
    place, shape = graph.add("Add", first_row, roots), [len(roots), -1]
    for _ in trees.levels:
        question = graph.add_picked(asked, place, shape)
        right = graph.add("GatherElements", answers, question, axis=0)
        twice = graph.add("Mul", place, np.array(2))
        place = graph.add_picked(ways, graph.add("Add", twice, right), shape)
    return graph.add("Sub", place, np.array(n_nodes))
