"""Shapes of the whole function: certificates are true, constraints hold on every pair of rows."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, minimize

from tests.anova.tables import Axes, Tables, masses_of, random_axes, random_tables, value
from tests.conftest import QUICK, QUICK_DESCENT
from tpnn import TPNNClassifier, TPNNRegressor, load
from tpnn.anova.measure import purify_tables, worst_mean
from tpnn.anova.shapes import CURVED, LINEAR, SHAPES, SIGNS, certificate, constrained, project_main
from tpnn.model.constrain import constrain
from tpnn.table.axis import Axis

RISING = {"shapes": {"x0": "increasing", "x1": "decreasing"}}
seeds = st.integers(0, 2**32 - 1)
shapes = st.sampled_from(list(SIGNS))


# Tables


def smallest_margin(tables: Tables, axes: Axes, feature: int, shape: str) -> float:
    """Smallest step, or change of slope at an inner node, by trying every node of the partners.

    A partner may also have a level that fit has not seen, where its components are zero.
    """
    fine = axes[1][feature]
    nodes = fine.values
    others = [j for j in range(len(axes[1])) if j != feature]
    choices = [[*axes[1][j].values, None] for j in others]
    smallest = np.inf
    for chosen in product(*choices):
        x = dict(zip(others, chosen, strict=True))
        known = [s for s in tables if all(j == feature or x[j] is not None for j in s)]
        values = [
            sum(
                value(tables[s], [axes[len(s)][j] for j in s], [{**x, feature: node}[j] for j in s])
                for s in known
                if feature in s
            )
            for node in nodes
        ]
        steps = np.diff(values)
        if shape in CURVED:
            steps = np.diff(steps / np.diff(nodes))
        smallest = min(smallest, float((steps * SIGNS[shape]).min(initial=np.inf)))
    return smallest


@settings(max_examples=15)
@given(seeds, shapes)
def test_certificate_of_pairs_is_the_smallest_margin(seed: int, shape: str) -> None:
    rng = np.random.default_rng(seed)
    axes = random_axes(rng, sizes=(5, 3))
    tables = random_tables(rng, axes)
    found = certificate(tables, axes, 1, shape)
    assert found.minimum == pytest.approx(smallest_margin(tables, axes, 1, shape))
    assert found.holds == (found.minimum >= 0)
    assert len(found.where) == (1 if shape in CURVED else 2)


@settings(max_examples=5)
@given(seeds, shapes)
def test_certificate_of_triples_is_a_lower_bound(seed: int, shape: str) -> None:
    rng = np.random.default_rng(seed)
    axes = random_axes(rng, sizes=(4, 3, 3))
    tables = random_tables(rng, axes, order=3)
    found = certificate(tables, axes, 0, shape).minimum
    assert found <= smallest_margin(tables, axes, 0, shape) + 1e-9


def test_certificate_says_where() -> None:
    axes = {1: (Axis(np.array([0.0, 1.0, 3.0, 4.0]), np.full(4, 0.25)),)}
    tables = {(0,): np.array([0.0, 2.0, -1.0, 0.0])}
    assert certificate(tables, axes, 0, "increasing")[1:] == (-3.0, (1.0, 3.0))
    assert certificate(tables, axes, 0, "decreasing")[1:] == (-2.0, (0.0, 1.0))
    assert certificate(tables, axes, 0, "convex")[1:] == (-3.5, (1.0,))
    assert certificate(tables, axes, 0, "concave")[1:] == (-2.5, (3.0,))


def test_huge_values_are_constrained_like_others() -> None:
    """Pairs that ask for nothing, beside main effects of any size, divide by no zero."""
    rng = np.random.default_rng(0)
    axes = random_axes(rng)
    tables = {s: table * (len(s) == 1) for s, table in random_tables(rng, axes).items()}
    shaped = constrained(dict(tables), axes, {0: "increasing"})[1]
    huge = constrained({s: 1e100 * t for s, t in tables.items()}, axes, {0: "increasing"})[1]
    for component, table in shaped.items():
        np.testing.assert_allclose(huge[component], 1e100 * table, rtol=1e-9, atol=1e91)


@pytest.mark.parametrize("shape", SIGNS)
def test_one_node_has_every_shape(shape: str) -> None:
    axes = {1: (Axis(np.array([0.0]), np.array([1.0])),)}
    found = certificate({(0,): np.zeros(1)}, axes, 0, shape)
    assert found.holds
    assert found[1:] == (0.0, ())


@settings(max_examples=6)
@given(seeds, shapes, shapes)
def test_constrained_tables_have_their_shapes_and_stay_pure(seed: int, one: str, two: str) -> None:
    rng = np.random.default_rng(seed)
    axes = random_axes(rng, sizes=(6, 3), missing=[0])
    _, tables = purify_tables(random_tables(rng, axes), axes)
    _, shaped = constrained(tables, axes, {0: one, 1: two})
    assert shaped.keys() == tables.keys()
    for feature, shape in ((0, one), (1, two)):
        assert certificate(shaped, axes, feature, shape).holds
        assert smallest_margin(shaped, axes, feature, shape) > -1e-8
    for component, table in shaped.items():
        assert worst_mean(table, masses_of(axes, component), scale=1.0) < 1e-9


@pytest.mark.parametrize("shape", SIGNS)
@pytest.mark.parametrize("exponent", [-120, 990])
def test_a_main_effect_is_shaped_alike_at_every_size(shape: str, exponent: int) -> None:
    """Of a table times a power of two, the projection is the projection times that power."""
    axis = random_axes(np.random.default_rng(1), sizes=(8, 3))[1][0]
    table = np.random.default_rng(0).normal(size=axis.n_nodes)
    found = project_main(np.ldexp(table, exponent), axis, shape)
    np.testing.assert_array_equal(found, np.ldexp(project_main(table, axis, shape), exponent))


@settings(max_examples=15)
@given(seeds, shapes)
def test_a_main_effect_that_has_the_shape_is_kept(seed: int, shape: str) -> None:
    """Up to the ramp that keeps rounding from breaking the shape; other components stay too."""
    rng = np.random.default_rng(seed)
    axes = random_axes(rng, sizes=(6, 3))
    tables = {s: table for s, table in random_tables(rng, axes).items() if 0 not in s or len(s) < 2}
    nodes = axes[1][0].values
    tables[0,] = SIGNS[shape] * (nodes**2 if shape in CURVED else nodes)
    _, tables = purify_tables(tables, axes)
    assert certificate(tables, axes, 0, shape).holds
    shift, shaped = constrained(tables, axes, {0: shape})
    assert shift == pytest.approx(0.0, abs=1e-5)
    for s, table in tables.items():
        assert np.allclose(shaped[s], table, atol=1e-5)


def test_features_without_components_need_no_constraint() -> None:
    rng = np.random.default_rng(0)
    axes = random_axes(rng)
    tables = {(1,): rng.normal(size=axes[1][1].n_nodes)}
    _, tables = purify_tables(tables, axes)
    shift, shaped = constrained(tables, axes, {0: "increasing"})
    assert shift == pytest.approx(0.0)
    assert np.allclose(shaped[1,], tables[1,], atol=1e-12)


@pytest.mark.parametrize("shape", SIGNS)
@pytest.mark.parametrize("missing", [False, True])
def test_projection_of_a_main_effect_is_the_nearest(shape: str, missing: bool) -> None:
    """Compared with a general solver of quadratic programs."""
    rng = np.random.default_rng(3)
    axis = random_axes(rng, sizes=(6,), missing=[0] * missing)[1][0]
    table = rng.normal(size=axis.n_nodes)
    table -= axis.weights @ table
    known = axis.regular
    nodes, weights = axis.values, axis.weights[known]
    steps = np.diff(np.eye(len(nodes)), axis=0) * SIGNS[shape]
    if shape in CURVED:
        steps = np.diff(steps / np.diff(nodes)[:, None], axis=0)
    best = minimize(
        lambda f: weights @ (f - table[known]) ** 2,
        np.zeros(len(nodes)),
        method="SLSQP",
        constraints=LinearConstraint(steps, lb=0.0),
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    expected = table.copy()
    expected[known] = best.x
    found = project_main(table, axis, shape)
    assert np.allclose(found, expected - axis.weights @ expected, atol=1e-4)
    assert axis.weights @ found == pytest.approx(0.0, abs=1e-12)
    assert (steps @ found[known]).min() >= 0


@pytest.mark.parametrize("shape", SIGNS)
def test_two_nodes_can_be_projected(shape: str) -> None:
    axis = Axis(np.array([0.0, 1.0]), np.array([0.5, 0.5]))
    found = project_main(np.array([0.5, -0.5]), axis, shape)
    curved_or_falling = shape in CURVED or shape == "decreasing"
    assert np.allclose(found, [0.5, -0.5] if curved_or_falling else 0.0, atol=1e-6)


def test_interactions_on_one_node_are_left_alone() -> None:
    """A coarse axis of one node has no steps to clip, and contributes none."""
    rng = np.random.default_rng(0)
    axes = random_axes(rng, n_features=2, sizes=(6, 1))
    _, tables = purify_tables(random_tables(rng, axes), axes)
    _, shaped = constrained(tables, axes, {0: "increasing"})
    assert certificate(shaped, axes, 0, "increasing").holds
    assert not np.abs(shaped[0, 1]).max() > 1e-12


# Fitted models


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 3))
    X[rng.random(900) < 0.1, 0] = np.nan
    known = np.nan_to_num(X)
    y = known[:, 0] + np.sin(3 * known[:, 0]) - known[:, 1] * (1 + known[:, 2])
    return X, y + 0.2 * rng.normal(size=900)


def steps_of(model: Any, X: np.ndarray, feature: int, n_rows: int = 60) -> np.ndarray:
    """Steps of the raw score along a feature, from many rows, over all its nodes."""
    axis = model.axes((feature,))[0]
    values = axis.values
    rows = np.random.default_rng(1).choice(len(X), n_rows)
    grid = np.repeat(X[rows], len(values), axis=0)
    grid[:, feature] = np.tile(values, n_rows)
    return np.diff(model.raw_scores(grid).reshape(n_rows, -1), axis=1)


@pytest.mark.parametrize("solver", ["grow", "gradient"])
def test_constrained_functions_never_step_back(data: Any, solver: str) -> None:
    X, y = data
    if solver == "gradient":
        pytest.importorskip("torch")
        X, y = X[:300], y[:300]
    quick = QUICK if solver == "grow" else QUICK_DESCENT
    free = TPNNRegressor(**quick, remainder=False).fit(X, y)
    assert free.model_.certificate("x0", "increasing").minimum < 0
    model = TPNNRegressor(**quick, **RISING).fit(X, y).model_
    assert model.certificate("x0").minimum >= 0
    assert model.certificate("x1").minimum >= 0
    assert model.certificate("x1").shape == "decreasing"
    assert steps_of(model, X, 0).min() >= -1e-12
    assert steps_of(model, X, 1).max() <= 1e-12
    assert model.identifiability_error() < 1e-6
    assert max(np.abs(table).max() for table in model.tables[3:]) > 0.01  # an interaction remains


def smallest(model: Any, feature: int, shape: str) -> float:
    """Smallest step, or change of slope at an inner node, over the grid of all nodes."""
    values = [np.append(a.values, np.nan) for a in model.encoder.axes[1]]
    others = np.meshgrid(*[nodes for j, nodes in enumerate(values) if j != feature])
    rows = np.column_stack([grid.ravel() for grid in others])
    nodes = values[feature][:-1]
    scores = [model.raw_scores(np.insert(rows, feature, node, axis=1)) for node in nodes]
    steps = np.diff(scores, axis=0)
    if shape in CURVED:
        steps = np.diff(steps / np.diff(nodes)[:, None], axis=0)
    return float((steps * SIGNS[shape]).min())


@pytest.mark.filterwarnings("ignore:X. levels or missing values")
@pytest.mark.parametrize("pair_nodes", [2, 4])
def test_certificate_is_the_smallest_step_over_all_inputs(data: Any, pair_nodes: int) -> None:
    X, y = data
    small = {**QUICK, "max_nodes": {1: 6, 2: pair_nodes}}
    model = TPNNRegressor(**small, order=2).fit(X, y).model_
    for feature in range(3):
        for shape in SIGNS:
            found = model.certificate(f"x{feature}", shape).minimum
            assert found == pytest.approx(smallest(model, feature, shape))


@pytest.mark.filterwarnings("ignore:X. levels or missing values")
@pytest.mark.parametrize("shape", ["convex", "concave"])
def test_curvature_holds_where_interactions_end(shape: str) -> None:
    """The nodes of a pair end inside the range of its features; beyond them it is constant."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 2))
    y = (X[:, 0] ** 2 + 0.8 * X[:, 0] * X[:, 1]) * (1 if shape == "convex" else -1)
    nodes = {"max_nodes": {1: 24, 2: 4}, "n_bags": 2, "random_state": 0, "verbose": 0}
    model = TPNNRegressor(**nodes, shapes={"x0": shape}).fit(X, y).model_
    assert np.abs(model.tables[-1]).max() > 0.01  # the interaction is still there
    assert 0 <= model.certificate("x0").minimum <= smallest(model, 0, shape) + 1e-8
    assert smallest(model, 0, shape) > -1e-8


@pytest.mark.parametrize("shape", ["convex", "concave"])
def test_curvature_of_the_whole_function(data: Any, shape: str) -> None:
    X, y = data
    model = TPNNRegressor(**QUICK, shapes={"x0": shape}).fit(X, y).model_
    assert model.certificate("x0").minimum >= 0
    axis = model.axes((0,))[0]
    widths = np.diff(axis.values)
    bends = np.diff(steps_of(model, X, 0) / widths, axis=1)
    assert (bends if shape == "convex" else -bends).min() >= -1e-8


@pytest.mark.parametrize("settings", [QUICK, QUICK_DESCENT], ids=["grow", "descent"])
def test_a_linear_feature_is_a_line_and_has_no_interactions(data: Any, settings: Any) -> None:
    X, y = data
    free = TPNNRegressor(**settings, interactions="all").fit(X, y).model_
    model = TPNNRegressor(**settings, shapes={"x0": LINEAR}, interactions="all").fit(X, y).model_
    assert not free.certificate("x0", LINEAR).holds
    assert model.certificate("x0").shape == LINEAR
    assert model.certificate("x0").holds
    assert set(free.component_names) - set(model.component_names) == {
        names for names in free.component_names if "x0" in names and len(names) > 1
    }
    axis = model.axes((0,))[0]
    rows = np.tile(X[:1], (50, 1))
    rows[:, 0] = np.linspace(axis.values[0], axis.values[-1], 50)
    values = model.raw_scores(rows)
    line = np.interp(rows[:, 0], rows[[0, -1], 0], values[[0, -1]])
    assert np.abs(values - line).max() < 1e-12 * np.abs(values).max()


@settings(max_examples=30)
@given(seeds, st.sampled_from([1e-6, 1.0, 1e9]))
def test_a_line_is_the_nearest_and_not_refused_by_rounding(seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    nodes = np.unique(rng.normal(size=rng.integers(3, 60)) ** 7 * scale)
    axis = Axis(nodes, rng.dirichlet(np.full(len(nodes), 0.3)))
    values = rng.normal(size=len(nodes))
    values -= axis.weights @ values
    line = project_main(values, axis, LINEAR)
    assert certificate({(0,): line}, {1: [axis]}, 0, LINEAR).holds
    root, x = np.sqrt(axis.weights), nodes / np.abs(nodes).max()
    columns = np.column_stack([np.ones_like(x), x])
    best = columns @ np.linalg.lstsq(columns * root[:, None], values * root, rcond=None)[0]
    assert root @ (line - best) ** 2 < 1e-12 * (1 + root @ best**2)


@pytest.mark.parametrize(
    "asked",
    [
        {"interactions": [("x0", "x1")]},
        {"interactions": {"required": [("x0", "x1")]}},
        {"components": [("x0",), ("x1",), ("x0", "x1")]},
    ],
)
def test_interactions_of_a_linear_feature_are_refused(data: Any, asked: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^shapes: a linear feature has no interactions"):
        TPNNRegressor(**QUICK, shapes={"x0": LINEAR}, **asked).fit(*data)


def test_shapes_survive_saving(data: Any, tmp_path: Any) -> None:
    X, y = data
    model = TPNNClassifier(**QUICK, **RISING).fit(X, y > 0).model_
    model.save(tmp_path / "model.tpnn")
    loaded = load(tmp_path / "model.tpnn").model_
    assert loaded.shapes == RISING["shapes"]
    assert loaded.certificate("x0") == model.certificate("x0")


def test_a_true_shape_costs_little() -> None:
    rng = np.random.default_rng(2)
    X = rng.uniform(size=(2000, 2))
    y = X[:, 0] * (1 + X[:, 1]) + 0.1 * rng.normal(size=2000)
    free = TPNNRegressor(random_state=0, n_bags=4).fit(X, y)
    shaped = TPNNRegressor(random_state=0, n_bags=4, shapes={"x0": "increasing"}).fit(X, y)
    truth = X[:, 0] * (1 + X[:, 1])
    assert np.std(shaped.predict(X) - truth) < 1.3 * np.std(free.predict(X) - truth)


def test_a_nominal_feature_has_no_certificate() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (200, 1)).astype(float)
    settings = {"n_bags": 1, "random_state": 0, "verbose": 0, "remainder": False}
    model = TPNNRegressor(categorical=[0], **settings).fit(X, X[:, 0])
    with pytest.raises(ValueError, match=r"^shape: a shape needs an order, found the nominal"):
        model.model_.certificate("x0")
    with pytest.raises(ValueError, match=r"^shapes: must be one of increasing"):
        constrain(model.model_, {0: "up"})


@pytest.fixture(scope="module")
def products() -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(1500, 5)), columns=list("abcde"))
    return X, X.a * X.b + 0.7 * X.c * X.d + 0.3 * X.e + 0.1 * rng.normal(size=1500)


@pytest.mark.parametrize("rule", [{"max_components": 2}, {"selection": "noise"}])
def test_shapes_add_no_component_that_they_do_not_need(products: Any, rule: Any) -> None:
    few = {"n_bags": 2, "random_state": 0, "verbose": 0, **rule}
    model = TPNNRegressor(**few, shapes={"e": "increasing"}).fit(*products)
    assert model.components_ == model.path().model(model.path().chosen).component_names
    assert model.model_.certificate("e").minimum >= 0
    assert model.model_.identifiability_error() < 1e-9


def test_shapes_add_the_main_effect_that_they_need(products: Any) -> None:
    model = TPNNRegressor(n_bags=2, random_state=0, verbose=0).fit(*products)
    free = model.model_.restrict([(0, 1), (2, 3)])
    shaped = constrain(free, {"a": "increasing", "e": "increasing"})
    assert shaped.component_names == [("a",), ("b",), ("a", "b"), ("c", "d")]
    assert shaped.certificate("a").minimum >= 0
    assert shaped.certificate("e").minimum == 0  # f is constant along it
    assert shaped.identifiability_error() < 1e-9
    np.testing.assert_allclose(shaped.tables[-1], free.tables[-1], atol=1e-12)


def test_a_fit_that_fails_leaves_nothing_behind() -> None:
    X = np.arange(60.0).reshape(30, 2)
    model = TPNNRegressor(shapes={0: "increasing"}, categorical=[0], verbose=0)
    with pytest.raises(ValueError, match=r"^shapes: a shape needs an order"):
        model.fit(X, X[:, 1])
    assert not [name for name in vars(model) if name.endswith("_")]


# Odd columns


ODD_COLUMNS = {
    "all missing": lambda x: np.full_like(x, np.nan),
    "missing or constant": lambda x: np.where(x > 0, np.nan, 1.0),
    "subnormal": lambda x: x * 1e-310,
    "few subnormal values": lambda x: np.round(x) * 5e-324,
    "two values too close for a slope": lambda x: np.where(x > 0, x, np.round(x) * 1e-310),
    "huge": lambda x: x * 1e300,
}


@pytest.mark.filterwarnings("error", "ignore:X. look at these columns again")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("odd", ODD_COLUMNS)
def test_shapes_of_odd_columns(odd: str, shape: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    y = X[:, 0] + X[:, 1] ** 2 + 0.1 * rng.normal(size=120)
    X[:, 2] = ODD_COLUMNS[odd](X[:, 2])
    model = TPNNRegressor(**QUICK, shapes={2: shape, 0: "increasing"}, interactions="all")
    model.fit(X, y)
    assert model.model_.certificate("x2").holds
    assert model.model_.certificate("x0").holds
    assert np.isfinite(model.predict(X)).all()
    assert model.score(X, y) > 0.5


def uneven(kind: str, n_rows: int = 100) -> np.ndarray:
    """Features whose nodes are at distances of many orders of magnitude."""
    rng = np.random.default_rng(3)
    normal = rng.normal(size=(n_rows, 3))
    if kind == "exponential":
        return np.exp(3 * normal)
    if kind == "in pairs":
        return normal.round(1) + 1e-7 * rng.normal(size=normal.shape)
    return rng.standard_cauchy((n_rows, 3))


@pytest.mark.parametrize("kind", ["exponential", "in pairs", "heavy tails"])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
def test_curved_certificates_are_not_false_by_rounding(kind: str, scale: float) -> None:
    """And the function as predicted bends the right way, up to rounding of its values."""
    X = uneven(kind)
    y = scale * np.random.default_rng(4).normal(size=len(X)) + X[:, 0]
    shapes = {0: "convex", 1: "concave"}
    model = TPNNRegressor(**QUICK, shapes=shapes, interactions="all").fit(X, y)
    for feature, shape in shapes.items():
        assert model.model_.certificate(f"x{feature}").holds
        nodes = model.model_.axes((feature,))[0].values
        middles = np.sort(np.concatenate([nodes, nodes[:-1] / 2 + nodes[1:] / 2]))
        for row in X[:5]:
            along = np.tile(row, (len(middles), 1))
            along[:, feature] = middles
            values, widths = model.predict(along), np.diff(middles)
            bends = np.diff(np.diff(values) / widths) * SIGNS[shape]
            rounding = 1e-13 * np.abs(model.predict(X)).max() / np.minimum(widths[1:], widths[:-1])
            assert (bends >= -rounding).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_certificate_does_not_depend_on_the_order_of_components(shape: str) -> None:
    """Where f is flat, sums of the same steps in another order can differ by rounding."""
    axes = {order: [Axis(np.arange(3.0), np.full(3, 1 / 3))] * 4 for order in (1, 2)}
    steps = {(0,): 0.3, (0, 1): -0.1, (0, 2): -0.2, (0, 3): 1e-17}
    tables = {
        s: np.multiply.outer(step * np.arange(3.0), np.ones(3))
        if len(s) > 1
        else step * np.arange(3.0)
        for s, step in steps.items()
    }
    orders = [dict(order) for order in permutations(tables.items())]
    minima = {certificate(order, axes, 0, shape).minimum for order in orders}
    assert len(minima) == 1
