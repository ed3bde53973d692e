"""with_rows: the nodes of an axis that a comparison speaks of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.anova.components import Component
from tpnn.explain.report.static import Side, heat_maps
from tpnn.model.model import AnovaModel
from tpnn.table.axis import Axis
from tpnn.table.table import NUMBER
from tpnn.table.words import node_words


def with_rows(axis: Axis) -> IntArray:
    """Nodes where there are rows, or could be: not those of what no row has.

    Models differ in what they say about missing values and unseen levels without having seen any.

    >>> with_rows(Axis(np.array([0.0, 1.0]), np.array([0.5, 0.5, 0.0]), has_missing=True))
    array([0, 1])
    """
    is_shown = axis.weights > 0
    is_shown[axis.seen] = True
    return np.flatnonzero(is_shown)


MOST_CELLS = 48  # of a map along one side


def pair_maps(title: str, models: dict[str, AnovaModel], component: Component, output: int) -> str:
    """Heat maps of a pair, and where the last of the models is largest.

    Parameters
    ----------
    title : str
        Heading of the maps.
    models : dict from str to AnovaModel
        Models on common nodes, by what they show; the last one has the pair.
    component : tuple of int
        The two features.
    output : int
        Number of the output.
    """
    *_, last = models.values()
    axes = last.axes(component)
    nodes = [with_rows(axis) for axis in axes]
    words = [np.array(short_words(axis), object) for axis in axes]
    names = [last.feature_names[feature] for feature in component]
    grids = {name: _grid(model, component, output, nodes) for name, model in models.items()}
    difference = list(grids.values())[-1]
    place = np.unravel_index(int(np.abs(difference).argmax()), difference.shape)
    where = [f"{name} = {word[node[k]]}"
             for name, word, node, k in zip(names, words, nodes, place, strict=True)]  # fmt: skip
    kept = [_thinned(axis, len(own)) for axis, own in zip(axes, nodes, strict=True)]
    first, second = (
        Side(name, tuple(word[node[keep]]), axis.levels is not None)
        for name, word, node, keep, axis in zip(names, words, nodes, kept, axes, strict=True)
    )
    shown = {name: grid[np.ix_(*kept)] for name, grid in grids.items()}
    note = f"Largest difference: {difference[place]:+.4g} at {' and '.join(where)}."
    return heat_maps(title, (first, second), shown, note)


def _grid(
    model: AnovaModel, component: Component, output: int, nodes: Sequence[IntArray]
) -> FloatArray:
    """Values of a pair at some nodes of both axes; zero where the model does not have it."""
    table = model.by_component().get(component)
    return (
        np.zeros([len(own) for own in nodes])
        if table is None
        else table[..., output][np.ix_(*nodes)]
    )


def short_words(axis: Axis) -> list[str]:
    """Words of the nodes of an axis, numbers with a few digits.

    >>> short_words(Axis(np.array([0.123456]), np.full(2, 0.5), has_missing=True))
    ['0.1235', '(missing)']
    """
    words = node_words(axis)
    if axis.kind == NUMBER:
        words[axis.regular] = [f"{value:.4g}" for value in axis.values]
    return words


def _thinned(axis: Axis, n_nodes: int) -> IntArray:
    """Places of at most ``MOST_CELLS`` nodes: the first levels, or numbers evenly by rank."""
    if axis.levels is not None:
        return np.arange(min(n_nodes, MOST_CELLS))
    return np.unique(np.linspace(0, n_nodes - 1, min(n_nodes, MOST_CELLS)).round()).astype(np.intp)
