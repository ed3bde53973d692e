"""Finer nodes: the same function on more nodes, so that an edit can end where it should.

A new node of a main effect has no mass, so no mean changes. A level that gets a node of its own
takes an equal share of the mass of the levels it was with: they have equal values until one is
edited, so no mean changes either. In higher orders the masses are those of the main effect, shared
linearly by neighbouring nodes: a function of one feature has the same mean in all orders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.anova.components import Component
from tpnn.anova.posterior import Posterior
from tpnn.anova.purify import as_numbers, moved
from tpnn.model.model import AnovaModel
from tpnn.table.axis import Axis
from tpnn.table.encoder import Feature


def with_values(axis: Axis, feature: Feature, values: Iterable[float]) -> Axis:
    """Ordered axis that has nodes at the given values too, of mass zero.

    >>> axis = Axis(np.array([0.0, 1.0]), np.array([0.5, 0.5]))
    >>> with_values(axis, Feature("number"), [0.25]).values
    array([0.  , 0.25, 1.  ])
    """
    n_regular = axis.n_regular
    known = axis.values[:n_regular]
    nodes = np.union1d(known, np.array(list(values)) + 0.0)  # no -0.0
    if len(nodes) == n_regular:
        return axis
    masses = np.zeros(len(nodes))
    masses[np.searchsorted(nodes, known)] = axis.weights[:n_regular]
    labels = None if axis.levels is None else tuple(feature.levels[int(v)] for v in nodes)
    return replace(
        axis,
        values=np.append(nodes, axis.values[n_regular:]),
        weights=np.append(masses, axis.weights[n_regular:]),
        levels=labels,
    )


def with_own_nodes(axis: Axis, feature: Feature, numbers: Sequence[int]) -> Axis:
    """Nominal axis on which levels share no node with others than themselves.

    ``numbers`` are those of the levels that get a node each where they share one with another.
    """
    assert axis.groups is not None
    members = {number: np.flatnonzero(axis.groups == axis.groups[number]) for number in numbers}
    split = [number for number in numbers if not set(members[number]) <= set(numbers)]
    if not split:
        return axis
    first = axis.n_regular - axis.has_unseen  # an unseen level and missing values stay last
    groups, labels, masses = axis.groups.copy(), list(axis.levels or ()), axis.weights.tolist()
    for place, number in enumerate(split):
        share = axis.weights[axis.groups[number]] / len(members[number])
        masses[groups[number]] -= share
        masses.insert(first + place, share)
        labels.insert(first + place, feature.levels[number])
    groups[split] = first + np.arange(len(split))
    n_regular = len(labels)
    values = np.append(np.arange(float(n_regular)), np.full(int(axis.has_missing), np.nan))
    weights = np.maximum(np.array(masses), 0.0)  # what is left may be below 0 by rounding
    return replace(axis, values=values, weights=weights, levels=tuple(labels), groups=groups)


def refined(
    model: AnovaModel, order: int, finer: Mapping[int, Callable[[Axis], Axis]]
) -> AnovaModel:
    """Model of the same function on finer axes of some features, in all orders up to one.

    Coarse nodes must be fine nodes, so what is new in an order is new in all lower ones.

    Parameters
    ----------
    model : AnovaModel
        The model.
    order : int
        Largest order that gets new nodes.
    finer : dict from feature to function
        What makes an axis finer.
    """
    new = {
        size: tuple(
            finer[j](axis) if size <= order and j in finer else axis for j, axis in enumerate(axes)
        )
        for size, axes in model.encoder.axes.items()
    }
    for size in range(2, order + 1):
        each = zip(model.encoder.axes[size], new[size], new[1], strict=True)
        new[size] = tuple(
            _with_masses(two, main) if two is not one else one for one, two, main in each
        )

    def all_moved(tables: Sequence[FloatArray]) -> tuple[FloatArray, ...]:
        pairs = zip(model.components, tables, strict=True)
        return tuple(moved(table, model.axes(s), [new[len(s)][j] for j in s]) for s, table in pairs)

    posteriors = model.posteriors and tuple(
        None if known is None else _moved_posterior(known, model.axes(s), _axes(new, s))
        for s, known in zip(model.components, model.posteriors, strict=True)
    )
    return replace(
        model,
        encoder=replace(model.encoder, axes=new),
        tables=all_moved(model.tables),
        spreads=all_moved(model.spreads),
        posteriors=posteriors,
        calibration=None,
    )


def _with_masses(axis: Axis, main: Axis) -> Axis:
    """Axis with the masses of a finer one, shared linearly by neighbouring nodes."""
    lower, fraction = axis.locate(as_numbers(main))
    weights = np.zeros(axis.n_nodes + 2)  # the null node, and a neighbour of it
    np.add.at(weights, lower, main.weights * (1 - fraction))
    np.add.at(weights, lower + 1, main.weights * fraction)
    return replace(axis, weights=weights[: axis.n_nodes])


def _axes(axes: Mapping[int, Sequence[Axis]], component: Component) -> list[Axis]:
    return [axes[len(component)][feature] for feature in component]


def _moved_posterior(known: Posterior, old: Sequence[Axis], new: Sequence[Axis]) -> Posterior:
    """Posterior on finer nodes: products of interpolated functions are interpolated products."""
    return replace(
        known,
        factors=tuple(
            moved(factor.astype(np.float64), [one], [two]).astype(np.float32)
            for factor, one, two in zip(known.factors, old, new, strict=True)
        ),
        rough=moved(known.rough.astype(np.float64), old, new).astype(np.float32),
    )
