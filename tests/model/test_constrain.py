"""Constrain: the model that comes out has the shapes, and stays what it was where it had them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models import random_model, small_model, with_bands, with_evidence
from tpnn import AnovaModel, ComponentSet
from tpnn.anova.shapes import CURVED, SIGNS
from tpnn.model.constrain import constrain, rounding_error
from tpnn.model.model import tables_by_component
from tpnn.table.encoder import Feature

SHAPES = sorted(SIGNS)


def steps_along(model: AnovaModel, feature: int, shape: str) -> np.ndarray:
    """Steps, or changes of slope, along a feature at all combinations of the other nodes."""
    axes = model.encoder.axes[1]
    grid = np.array(list(product(*(axis.values for axis in axes))))
    values = model.raw_scores(grid).reshape(
        [axis.n_nodes for axis in axes] + [len(model.intercepts)]
    )
    moved = np.moveaxis(values, feature, 0)
    steps = np.diff(moved, axis=0)
    if shape in CURVED:
        widths = np.diff(axes[feature].values).reshape(-1, *[1] * (steps.ndim - 1))
        steps = np.diff(steps / widths, axis=0)
    return steps * SIGNS[shape]


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_outputs=st.integers(1, 2),
    shapes=st.dictionaries(st.integers(0, 2), st.sampled_from(SHAPES), min_size=1),
)
def test_shapes_hold_at_every_combination_of_nodes(
    seed: int, n_outputs: int, shapes: dict[int, str]
) -> None:
    model = random_model(3, 2, seed, n_outputs)
    shaped = constrain(model, shapes)
    scale = max(float(np.abs(table).max()) for table in model.tables)
    for feature, shape in shapes.items():
        assert shaped.certificate(f"x{feature}").minimum >= 0
        assert steps_along(shaped, feature, shape).min(initial=0.0) >= -1e-9 * scale
    assert shaped.identifiability_error() < 1e-9
    assert shaped.shapes == {f"x{feature}": shape for feature, shape in shapes.items()}
    assert shaped.basis.terms is None


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_the_columns_changes_no_bit(seed: int) -> None:
    model, names = random_model(3, 2, seed), ("a", "b", "c")
    encoder = replace(model.encoder, names=names)
    axes = {order: tuple(reversed(of_order)) for order, of_order in encoder.axes.items()}
    backwards = {
        tuple(2 - j for j in reversed(s)): t for s, t in tables_by_component(model).items()
    }
    components = ComponentSet(tuple(backwards)).components
    tables = {s: np.transpose(t, (*range(len(s))[::-1], len(s))) for s, t in backwards.items()}
    other = replace(
        model,
        encoder=replace(encoder, axes=axes, names=names[::-1]),
        components=ComponentSet(components),
        tables=tuple(tables[s] for s in components),
    )
    shapes = {"a": "increasing", "b": "convex", "c": "decreasing"}
    one, two = constrain(replace(model, encoder=encoder), shapes), constrain(other, shapes)
    assert one.intercepts == two.intercepts
    for s, table in tables_by_component(one).items():
        same = tables_by_component(two)[tuple(2 - j for j in reversed(s))]
        assert np.array_equal(table, np.transpose(same, (*range(len(s))[::-1], len(s))))


def test_a_model_that_has_the_shape_stays_as_it_is() -> None:
    """Apart from the small ramp that keeps rounding from breaking the shape."""
    model = random_model(3, 2)
    (axis,) = model.axes((0,))
    line = 50 * np.arange(float(axis.n_nodes))
    steep = model.tables[0] + (line - axis.weights @ line)[:, None]
    rising = replace(model, tables=(steep, *model.tables[1:]))
    assert rising.certificate("x0").minimum > 1
    shaped = constrain(rising, {"x0": "increasing"})
    assert shaped.component_names == rising.component_names
    for one, other in zip(shaped.tables, rising.tables, strict=True):
        assert np.allclose(one, other, atol=1e-4)


def test_names_and_indices_name_the_same_feature() -> None:
    model = random_model(3, 2)
    one, other = constrain(model, {"x1": "convex"}), constrain(model, {1: "convex"})
    assert one.shapes == other.shapes == {"x1": "convex"}
    for left, right in zip(one.tables, other.tables, strict=True):
        assert np.array_equal(left, right)


def test_components_and_spreads_are_added_where_they_are_needed() -> None:
    model = random_model(3, 2)
    model = with_evidence(with_bands(model), spreads=tuple(map(np.ones_like, model.tables)))
    pair = model.restrict([(0, 1), (2,)])
    shaped = constrain(pair, {"x0": "increasing"})
    assert shaped.component_names[0] == ("x0",)
    assert shaped.component_names[-1] == ("x0", "x1")
    spreads = dict(zip(shaped.component_names, shaped.evidence.spreads, strict=True))
    assert not spreads["x0",].any()  # it was not in any bag
    assert (spreads["x0", "x1"] == 1).all()
    posteriors = dict(zip(shaped.component_names, shaped.evidence.posteriors or (), strict=True))
    assert not posteriors["x0",].uncertainty().half_widths().any()
    assert pair.evidence.posteriors is not None
    before, after = pair.evidence.posteriors[-1].rough, posteriors["x0", "x1"].rough
    assert np.array_equal(before, after)
    untouched = constrain(pair, {"x2": "increasing"})
    assert untouched.component_names == pair.component_names  # nothing is left of lower order


def test_outputs_are_constrained_one_by_one() -> None:
    model = random_model(3, 2, n_outputs=2)
    both = constrain(model, {0: "increasing"})
    for k in range(2):
        alone = replace(
            model,
            tables=tuple(table[..., [k]] for table in model.tables),
            intercepts=model.intercepts[[k]],
            output_names=(),
        )
        one = constrain(alone, {0: "increasing"})
        assert one.intercepts[0] == pytest.approx(both.intercepts[k])
        for left, right in zip(one.tables, both.tables, strict=True):
            assert np.allclose(left[..., 0], right[..., k], atol=1e-12)


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ({"x0": "up"}, r"^shapes: must be one of increasing, .*found 'up'"),
        ({"age": "convex"}, r"^shapes: features must be names or indices .*found 'age'"),
        ({7: "convex"}, r"^shapes: features must be names or indices .*found 7"),
    ],
)
def test_shapes_that_cannot_be_had(shapes: dict[Any, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        constrain(small_model(1), shapes)


def test_a_nominal_feature_has_no_shape() -> None:
    model = small_model(1)
    features = (Feature("nominal", ("a", "b")), *model.encoder.features[1:])
    nominal = replace(model, encoder=replace(model.encoder, features=features))
    with pytest.raises(ValueError, match=r"^shapes: a shape needs an order"):
        constrain(nominal, {0: "increasing"})


def test_rounding_is_relative_to_the_largest_value() -> None:
    assert rounding_error([np.array([[-4e3]]), np.zeros(2)]) == pytest.approx(4e-9)
    assert rounding_error([np.array([1e-320])]) > 1e-320  # of which no mean is subtracted exactly
