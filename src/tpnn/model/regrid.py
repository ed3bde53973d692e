"""Regrid: a model's grids of values on other nodes, such as those it shares with other models.

So are the trees of its remainder: their exact components depend on nodes and masses, their sum does
not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.anova.boxes import LARGEST_ORDER, Boxes
from tpnn.anova.components import Component, ComponentSet, in_order
from tpnn.anova.measure import interpolated, purify_tables
from tpnn.anova.trees import TreeFeature, Trees, joined, recoded
from tpnn.model.model import AnovaModel, beside_trees, changed, tables_by_component
from tpnn.model.remainder import Remainder, measured
from tpnn.table.axis import UNSEEN_LEVEL, Axis
from tpnn.table.encoder import Feature, TableEncoder, level_text


def lifted_tables(
    model: AnovaModel, tables: Mapping[Component, FloatArray], encoder: TableEncoder
) -> dict[Component, FloatArray]:
    """Tables (M_1, ..., M_d, n_outputs) on nodes of a model, on the nodes of another encoder.

    The encoder has all features of the model, at all its orders, and the components get the numbers
    of its features. If its nodes include all nodes of the model, the functions are the same
    everywhere. Components that are pure under the masses of the model are in general not under
    others.
    """
    place_of = {name: place for place, name in enumerate(encoder.feature_names)}
    grids = {}
    for component, table in tables.items():
        target = [place_of[model.feature_names[feature]] for feature in component]
        grid = table
        for axis, (feature, place) in enumerate(zip(component, target, strict=True)):
            known, own = model.encoder.features[feature], model.axes(component)[axis]
            other = encoder.axes[len(component)][place]
            numbers = _own_nodes(known, own, encoder.features[place], other)
            grid = interpolated(grid, axis, own, numbers)
        order = np.argsort(target)
        grids[tuple(sorted(target))] = grid.transpose(*order, len(order))
    return grids


def own_numbers(feature: Feature, levels: Sequence[Any], are_text: bool) -> FloatArray:
    """Numbers of the given levels among those of a feature; inf where it has not seen them.

    ``are_text`` says that the given levels are text, whatever the feature's own ones are.
    """
    own = map(level_text, feature.levels) if are_text else feature.levels
    number = {level: float(place) for place, level in enumerate(own)}
    return np.array([number.get(level, UNSEEN_LEVEL) for level in levels])


def _own_nodes(known: Feature, own: Axis, feature: Feature, other: Axis) -> FloatArray:
    """Write the nodes of another axis as numbers that the axis of the model itself can locate."""
    numbers = other.numbers.copy()
    if own.is_empty:
        numbers[other.regular] = UNSEEN_LEVEL  # whatever it is, fit has not seen it
    elif feature.levels:
        levels = [feature.levels[int(number)] for number in numbers[other.seen]]
        numbers[other.seen] = own_numbers(known, levels, feature.are_text)
    return numbers


def regridded(model: AnovaModel, encoder: TableEncoder) -> AnovaModel:
    """Model on the nodes of an encoder, with components that are unique under its masses.

    What belongs to the old masses is left out.
    """
    intercepts, tables = beside_trees(model)
    grids = lifted_tables(model, tables, encoder)
    zeros = encoder.zeros(ComponentSet(tuple(grids)).with_subsets(), len(intercepts))
    moved, pure = purify_tables(zeros | grids, encoder.axes)
    (trees,) = lifted_trees([model], encoder)
    core = changed(
        model,
        encoder=encoder,
        **in_order(pure),
        intercepts=intercepts + moved,
        remainder=None,
    )
    return with_trees(core, None if trees is None else reweighted_trees(trees, encoder))


def lifted_remainder(model: AnovaModel, encoder: TableEncoder) -> Remainder | None:
    """Remainder of a model over the features of another encoder, which has its nodes.

    What it was worth to the old model is left out.
    """
    rest, (trees,) = model.remainder, lifted_trees([model], encoder)
    if rest is None or trees is None:
        return None
    held = in_order(lifted_tables(model, rest.held, encoder))
    return replace(rest, trees=trees, worth=0.0, **held)


LARGEST_NUMBER = float(np.finfo(np.float64).max)
Known = tuple[Feature, TreeFeature]  # a feature as one model knows it, and as its trees do


def lifted_trees(models: Sequence[AnovaModel], encoder: TableEncoder) -> list[Trees | None]:
    """Trees of the remainder of each model over the features of an encoder, which has all of them.

    A model without a remainder has none. Codes that no model tells apart are one.
    """
    names, rests = encoder.feature_names, [model.remainder for model in models]
    known: list[dict[int, Known]] = [{} for _ in names]  # of each feature, by the number of a model
    for number, (model, rest) in enumerate(zip(models, rests, strict=True)):
        of_trees = [] if rest is None else rest.trees.features
        pairs = zip(model.encoder.features[: len(of_trees)], of_trees, strict=True)
        for name, pair in zip(model.feature_names, pairs, strict=False):
            known[names.index(name)][number] = pair
    features, codes = [], [dict[int, tuple[int, IntArray]]() for _ in models]
    for place, (feature, axis) in enumerate(zip(encoder.features, encoder.axes[1], strict=True)):
        common, old = _common_codes(feature, axis, list(known[place].values()))
        features.append(common)
        for number, own in zip(known[place], old, strict=True):
            codes[number][models[number].feature_names.index(names[place])] = place, own
    return [
        None if rest is None else recoded(rest.trees, features, own)
        for rest, own in zip(rests, codes, strict=True)
    ]


def _common_codes(
    feature: Feature, axis: Axis, known: Sequence[Known]
) -> tuple[TreeFeature, list[IntArray]]:
    """Codes that tell apart what some trees tell apart, and the code of each in these trees."""
    if feature.levels:
        nodes, _ = axis.locate(np.arange(float(len(feature.levels))))
        numbers = [own_numbers(own, feature.levels, feature.are_text) for own, _ in known]
        own = [trees.codes(x) for (_, trees), x in zip(known, numbers, strict=True)]
        apart, of_levels = np.unique(np.column_stack([nodes, *own]), axis=0, return_inverse=True)
        groups, ends, old = of_levels.ravel().astype(np.int32), np.empty(0), list(apart[:, 1:].T)
    else:
        groups, ends = None, np.unique(np.concatenate([np.empty(0), *(t.ends for _, t in known)]))
        last = np.append(ends, LARGEST_NUMBER)  # in each interval
        old = [trees.codes(last) for _, trees in known]
    n_codes = len(ends) + 1 if groups is None else int(groups.max()) + 1
    common, whole = with_masses(TreeFeature(ends, groups, np.ones(n_codes + 2)), axis), []
    for codes, (_, trees) in zip(old, known, strict=True):
        whole.append(np.append(codes, [trees.n_codes - 2, trees.n_codes - 1]))
        if len(known) == 1 and np.array_equal(whole[0], np.arange(trees.n_codes)):
            common = common._replace(masses=trees.masses)  # those of the rows
    return common, whole


def with_masses(feature: TreeFeature, axis: Axis) -> TreeFeature:
    """Codes with the masses of the nodes of an axis of order 1."""
    masses = np.bincount(feature.codes(axis.numbers), axis.weights, feature.n_codes)
    return feature._replace(masses=masses / masses.sum())


def reweighted_trees(trees: Trees, encoder: TableEncoder) -> Trees:
    """Trees whose codes have the masses of the nodes of an encoder."""
    features = map(with_masses, trees.features, encoder.axes[1])
    return replace(trees, features=tuple(features))


def sum_of_trees(parts: Sequence[tuple[float, Trees | None]]) -> Trees | None:
    """Weighted sum of trees over the same features; None where there are no trees."""
    weighted = [t.scaled(np.full(t.values.shape[1], w)) for w, t in parts if t is not None]
    return joined(weighted) if weighted else None


def with_trees(model: AnovaModel, trees: Trees | None) -> AnovaModel:
    """Add trees to the sum of a model.

    Their exact components join those of the model, and all else is its remainder.
    """
    if trees is None:
        return model
    boxes = Boxes.of(trees)
    wanted = ComponentSet(tuple(s for s in model.components if len(s) <= LARGEST_ORDER))
    constants, grids = boxes.components(wanted.components, model.encoder.axes)
    tables = tables_by_component(model)
    remainder = Remainder(trees, constants, wanted, tuple(grids.values()), share=0.0, worth=0.0)
    together = boxes.subsets(2) | boxes.subsets(3)
    return measured(
        replace(
            model,
            tables=tuple(tables[s] + grids[s] if s in grids else tables[s] for s in tables),
            intercepts=model.intercepts + constants,
            remainder=remainder,
        ),
        sorted(together, key=lambda s: (-together[s], s)),
    )
