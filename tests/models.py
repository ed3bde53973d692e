"""Small frozen models with random tables, for tests that need no fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from tpnn import AnovaModel, ComponentSet
from tpnn.anova.boxes import Boxes
from tpnn.anova.measure import purify_tables
from tpnn.anova.posterior import Posterior
from tpnn.anova.terms import Terms
from tpnn.anova.trees import TreeBuilder, TreeFeature, Trees
from tpnn.loss.links import LINKS
from tpnn.model.evidence import Evidence
from tpnn.model.model import Basis, tables_by_component
from tpnn.model.remainder import Remainder, RemainderSet
from tpnn.table.axis import Axis
from tpnn.table.encoder import Feature, TableEncoder
from tpnn.table.table import PERIODIC, Table


def small_model(order: int, n_outputs: int = 1) -> AnovaModel:
    """A model of three features whose tables are on other nodes in every order, and not pure."""
    rng = np.random.default_rng(order)
    sizes = {1: (4, 1, 6), 2: (3, 1, 4), 3: (2, 1, 3)}
    axes = {
        o: tuple(Axis(np.sort(rng.normal(size=m)), rng.dirichlet(np.ones(m))) for m in sizes[o])
        for o in range(1, order + 1)
    }
    components = ComponentSet.up_to(3, order)
    tables = tuple(
        rng.normal(size=[*(axes[len(s)][j].n_nodes for j in s), n_outputs]) for s in components
    )
    terms = tuple(Terms(s, rng.random((len(s), 2)), rng.random((len(s), 2)), rng.random(2))
                  for s in components)  # fmt: skip
    return AnovaModel(
        encoder=TableEncoder(None, axes, (Feature("number"),) * 3),
        components=components,
        tables=tables,
        intercepts=0.3 + np.arange(float(n_outputs)),
        link=LINKS["identity"],
        basis=Basis(terms=terms if n_outputs == 1 else None),
        output_names=tuple(f"output {k}" for k in range(n_outputs)) if n_outputs > 1 else (),
        evidence=Evidence(spreads=tuple(map(np.abs, tables))),
    )


def random_model(n_features: int, order: int, seed: int = 0, n_outputs: int = 1) -> AnovaModel:
    """A model with random pure components of every order, on a handful of nodes."""
    rng = np.random.default_rng(seed)
    axes = []
    for _ in range(n_features):
        masses = rng.random(rng.integers(2, 5))
        axes.append(Axis(np.sort(rng.normal(size=len(masses))), masses / masses.sum()))
    by_order = {size: tuple(axes) for size in range(1, order + 1)}
    components = ComponentSet.up_to(n_features, order)
    raw = {s: rng.normal(size=[*(axes[j].n_nodes for j in s), n_outputs]) for s in components}
    intercepts, pure = purify_tables(raw, by_order)
    tables = tuple(pure[s] for s in components)
    return AnovaModel(
        encoder=TableEncoder(None, by_order, (Feature("number"),) * n_features),
        components=components,
        tables=tables,
        intercepts=intercepts,
        link=LINKS["identity"],
        output_names=tuple(f"output {k}" for k in range(n_outputs)) if n_outputs > 1 else (),
        evidence=Evidence(spreads=tuple(map(np.zeros_like, tables))),
    )


def with_evidence(model: AnovaModel, **known: Any) -> AnovaModel:
    """The same model with more or less that is known about it."""
    return replace(model, evidence=replace(model.evidence, **known))


def with_bands(model: AnovaModel, seed: int = 0, unit: float = 1.0) -> AnovaModel:
    """The same model with random posteriors of three functions for each component."""
    rng = np.random.default_rng(seed)
    posteriors = [
        Posterior.of(
            factors=[rng.normal(size=(size, 3)) for size in table.shape[:-1]],
            shifts=rng.normal(size=(3, len(model.intercepts))),
            roots=rng.normal(size=(len(model.intercepts), 3, 3)),
            rough=rng.random(table.shape),
            scale=np.full(len(model.intercepts), unit),
        )
        for table in model.tables
    ]
    return with_evidence(model, posteriors=tuple(posteriors))


def interpolate_slowly(model: AnovaModel, row: np.ndarray) -> np.ndarray:
    """Raw scores of one row by nested np.interp, feature after feature, shape (n_outputs,)."""
    total = model.intercepts.copy()
    for component, table in tables_by_component(model).items():
        for feature, axis in zip(component, model.axes(component), strict=True):
            columns = table.reshape(table.shape[0], -1).T
            cut = np.array([np.interp(row[feature], axis.values, column) for column in columns])
            table = cut.reshape(table.shape[1:])
        total += table
    return total


def table_model(
    frame: pd.DataFrame, order: int, link: str = "identity", unit: float = 1.0
) -> AnovaModel:
    """A model of a table with random pure components of every order, in some unit of the score."""
    rng = np.random.default_rng(0)
    encoder = TableEncoder.fit(
        Table(frame), {o: {1: 64, 2: 8, 3: 4}[o] for o in range(1, order + 1)}
    )
    components = ComponentSet.up_to(frame.shape[1], order)
    raw = {
        s: rng.normal(size=[*(encoder.axes[len(s)][j].n_nodes for j in s), 1]) for s in components
    }
    _, pure = purify_tables(raw, encoder.axes)
    tables = tuple(unit * pure[s] for s in components)
    return AnovaModel(
        encoder=encoder,
        components=components,
        tables=tables,
        intercepts=np.array([unit]),
        link=LINKS[link],
        evidence=Evidence(spreads=tuple(0.1 * np.abs(table) for table in tables)),
    )


def tree_feature(axis: Axis, rng: np.random.Generator) -> TreeFeature:
    """Codes of a feature: its levels, or intervals that end at some nodes and between them."""
    if axis.groups is not None:
        groups, ends, n_codes = axis.groups.astype(np.int32), np.empty(0), axis.seen.stop
    else:
        values = axis.values[:1] if axis.kind == PERIODIC else axis.values  # trees ask no circle
        some = values[:-1][rng.random(max(len(values) - 1, 0)) < 0.7]
        between = values[:-1] / 2 + values[1:] / 2
        groups, ends = None, np.unique(np.concatenate([some, between[::2]]))
        n_codes = len(ends) + 1
    feature = TreeFeature(ends, groups, np.ones(n_codes + 2))
    codes = feature.codes(axis.numbers)
    return feature._replace(masses=np.bincount(codes, axis.weights, n_codes + 2))


def random_trees(
    features: Sequence[TreeFeature],
    n_outputs: int,
    n_trees: int,
    depth: int,
    seed: int = 0,
    is_oblivious: bool = False,
) -> Trees:
    """Trees that ask for random sets of codes; some end early, and one is a leaf alone.

    Each level of an oblivious tree asks one question.
    """
    rng = np.random.default_rng(seed)
    builder = TreeBuilder(features, n_outputs)

    def question() -> int:
        feature = int(rng.integers(len(features)))
        n_codes = features[feature].n_codes
        is_cut = rng.random() < 0.5
        right = np.arange(n_codes) >= rng.integers(n_codes) if is_cut else rng.random(n_codes) < 0.5
        return builder.question(feature, right)

    def grow(levels: list[int | None]) -> int:
        if not levels or (not is_oblivious and rng.random() < 0.1):
            return builder.leaf(rng.normal(size=n_outputs))
        asked = question() if levels[0] is None else levels[0]
        return builder.node(asked, grow(levels[1:]), grow(levels[1:]))

    for tree in range(n_trees):
        size = depth if tree else 0
        builder.root(grow([question() if is_oblivious else None for _ in range(size)]))
    return builder.trees()


def with_remainder(
    model: AnovaModel,
    n_trees: int = 12,
    depth: int = 4,
    seed: int = 0,
    is_oblivious: bool = False,
) -> AnovaModel:
    """The same model with the remainder of random trees beside every second component."""
    rng = np.random.default_rng(seed)
    axes = model.encoder.axes
    features = [tree_feature(axis, rng) for axis in axes[1]]
    n_outputs = len(model.intercepts)
    trees = random_trees(features, n_outputs, n_trees, depth, seed, is_oblivious)
    held = ComponentSet(model.components.components[::2])
    constants, grids = Boxes.of(trees).components(held.components, axes)
    remainder = Remainder(
        trees=trees,
        constants=constants,
        components=held,
        tables=tuple(grids[component] for component in held),
        share=0.25,
        worth=0.1,
        largest=(RemainderSet(model.feature_names[:2], 0.125),),
    )
    return replace(model, remainder=remainder)


def remainder_means(model: AnovaModel) -> list[float]:
    """Largest absolute mean of the remainder, and of its means at the values of each component.

    All are zero if nothing of the components is left in the remainder; by brute force over the
    nodes of main effects, which must be those of all orders.
    """
    axes = model.encoder.axes[1]
    grid = np.meshgrid(*(axis.numbers for axis in axes), indexing="ij")
    assert model.remainder is not None
    rest = model.remainder.scores(model.encoder.axes, [column.ravel() for column in grid])
    rest = rest.reshape(*grid[0].shape, -1)
    means = []
    for component in [(), *model.components]:
        mean = rest
        for feature in reversed(range(len(axes))):
            if feature not in component:
                mean = np.tensordot(mean, axes[feature].weights, (feature, 0))
        means.append(float(np.abs(mean).max()))
    return means
