"""What holds for every fit, whatever the task, the bags, the order and the kind of basis."""

from __future__ import annotations

from itertools import permutations
from math import factorial
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.conftest import BY_SOLVER, QUICK, QUICK_DESCENT, told, with_solver
from tpnn import AnovaModel, TPNNClassifier, TPNNRegressor
from tpnn.model.model import tables_by_component

torch = pytest.importorskip("torch", reason="half of the laws are about gradient descent")

from tpnn.solvers.descent.networks import centred_basis  # noqa: E402

Fitted = TPNNRegressor | TPNNClassifier

VARIANTS: dict[str, dict[str, Any]] = {
    "grown mains": {**QUICK, "order": 1},
    "grown pairs": QUICK,
    "grown, one bag, explicit": {**QUICK, "n_bags": 1, "interactions": [("level", "smooth")]},
    "grown triples": {**QUICK, "order": 3, "interactions": [("smooth", "skewed", "level")]},
    "smooth": with_solver(QUICK, growth="none"),
    "mains": {**QUICK_DESCENT, "order": 1},
    "one bag": {**QUICK_DESCENT, "n_bags": 1},
    "pairs": QUICK_DESCENT,
    "triples": {**QUICK_DESCENT, "order": 3, "interactions": "all"},
    "explicit": {
        **QUICK_DESCENT,
        "order": 3,
        "interactions": [("smooth", "level"), (0, 1, 3)],
    },
    "relu": with_solver(QUICK_DESCENT, activation="relu"),
    "paper": with_solver(QUICK_DESCENT, scale="paper"),
    "shared": {
        **with_solver(QUICK_DESCENT, shared_bases=True),
        "order": 3,
        "interactions": "all",
    },
}


@pytest.fixture(scope="module", params=[*BY_SOLVER, "deep"])
def settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Quick settings of either solver, and of deep trees whose remainder stays."""
    return dict({**BY_SOLVER, "deep": {**QUICK, "remainder": True}}[request.param])


@pytest.fixture(scope="module", params=["regression", "classification"])
def task(request: pytest.FixtureRequest, table: Any, labels: pd.Series) -> tuple[Any, Any, Any]:
    X, y = table
    return (TPNNRegressor, X, y) if request.param == "regression" else (TPNNClassifier, X, labels)


@pytest.fixture(scope="module", params=VARIANTS)
def fitted(request: pytest.FixtureRequest, task: Any) -> tuple[Fitted, pd.DataFrame]:
    kind, X, y = task
    return kind(**VARIANTS[request.param]).fit(X, y), X


def raw(model: Fitted, X: Any) -> np.ndarray:
    return model.predict(X) if isinstance(model, TPNNRegressor) else model.decision_function(X)


def fit(kind: Any, settings: dict[str, Any], X: Any, y: Any, **weights: Any) -> Fitted:
    return kind(**settings).fit(X, y, **weights)


def arrays(model: AnovaModel) -> list[np.ndarray]:
    """Every number of a model, those of its remainder included."""
    rest = model.remainder
    of_rest = [] if rest is None else [*rest.trees.arrays, rest.constants, *rest.tables]
    return [model.intercepts, *model.tables, *of_rest]


def identical(one: AnovaModel, other: AnovaModel) -> bool:
    numbers, others = arrays(one), arrays(other)
    if one.components != other.components or len(numbers) != len(others):
        return False
    return all(np.array_equal(a, b) for a, b in zip(numbers, others, strict=True))


def test_components_sum_to_zero_along_each_axis(fitted: Any) -> None:
    model, _ = fitted
    assert model.model_.identifiability_error() <= 1e-12


def test_components_sum_to_zero_over_the_training_rows(fitted: Any) -> None:
    """The law of the nodes is a law of the rows: vary one feature over the table, average."""
    model, X = fitted
    pinned = X.iloc[[3]].loc[lambda row: row.index.repeat(len(X))].reset_index(drop=True)
    for index, component in enumerate(model.model_.components):
        varied = pinned.copy()
        name = X.columns[component[-1]]
        varied[name] = X[name].to_numpy()
        scores = model.model_.component_scores(varied)[:, index]
        assert abs(scores.mean()) <= 1e-12 * max(1.0, np.abs(scores).max())


def test_something_was_learned(fitted: Any) -> None:
    model, _ = fitted
    largest = max(model.explain().importance().values())
    assert largest > 0.05


def test_intercept_components_and_remainder_are_the_raw_score(fitted: Any) -> None:
    model, X = fitted
    scores = model.model_.component_scores(X)
    assert scores.shape == (len(X), len(model.components_))
    parts = scores.sum(1) + model.model_.remainder_scores(X)
    assert np.allclose(model.intercept_ + parts, raw(model, X), rtol=1e-12, atol=1e-12)


def test_shap_values_sum_to_raw_score(fitted: Any) -> None:
    model, X = fitted
    shap = model.shap_values(X)
    assert np.allclose(shap.values.sum(1) + shap.base_values, raw(model, X))
    assert np.array_equal(shap.data, X.to_numpy())


def brute_force_shapley(model: AnovaModel, row: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Shapley values by their definition; v(S) averages f over the product of the marginals.

    The average runs over all combinations of values that occur in X.
    """
    p = X.shape[1]
    grid = np.stack(np.meshgrid(*X.T, indexing="ij"), -1).reshape(-1, p)

    def value(coalition: tuple[int, ...]) -> float:
        points = grid.copy()
        points[:, coalition] = row[list(coalition)]
        return float(model.raw_scores(points).mean())

    phi = np.zeros(p)
    for ordering in permutations(range(p)):
        for place, feature in enumerate(ordering):
            gain = value(ordering[: place + 1]) - value(ordering[:place])
            phi[feature] += gain / factorial(p)
    return phi


@pytest.mark.parametrize("order", [1, 2, 3])
def test_shap_values_equal_brute_force(order: int, settings: dict[str, Any]) -> None:
    rng = np.random.default_rng(order)
    X = rng.integers(0, 5, (12, 3)) + rng.normal(size=(12, 3))
    y = X[:, 0] * X[:, 1] + np.sin(X[:, 2]) * X[:, 0]
    all_of_them = {"order": order, "interactions": "all", "remainder": "auto"}
    model = TPNNRegressor(**{**settings, **all_of_them, "max_nodes": 32}).fit(X, y)
    exact = model.shap_values(X[:3]).values
    brute = np.array([brute_force_shapley(model.model_, row, X) for row in X[:3]])
    assert np.abs(exact).max() > 0.1
    assert np.allclose(exact, brute, atol=1e-10)


def test_intercept_is_the_mean_under_the_product_measure(settings: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(15, 2))
    model = TPNNRegressor(**settings).fit(X, X[:, 0] * X[:, 1])
    grid = np.stack(np.meshgrid(*X.T, indexing="ij"), -1).reshape(-1, 2)
    assert model.predict(grid).mean() == pytest.approx(model.intercept_)


def test_terms_reproduce_the_tables(fitted: Any) -> None:
    model, _ = fitted
    frozen = model.model_
    for component, table, terms in zip(
        frozen.components, frozen.tables, frozen.terms(), strict=True
    ):
        product = torch.ones(len(terms.beta), dtype=torch.float64)
        for axis, b, gamma in zip(frozen.axes(component), terms.b, terms.gamma, strict=True):
            nodes = (torch.tensor(a) for a in (axis.positions, axis.weights, b, gamma))
            phi = centred_basis(*nodes, frozen.basis.activation, frozen.basis.scale)
            product = product.unsqueeze(-2) * phi
        rebuilt = (product @ torch.tensor(terms.beta)).numpy().reshape(table.shape)
        assert np.allclose(rebuilt, table, atol=1e-10)


def test_gradient_descent_and_frozen_model_agree() -> None:
    """On nodes, what training computed is what the frozen model predicts."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 6, (300, 3)).astype(float)
    y = X[:, 0] * X[:, 1] - X[:, 2] + rng.normal(size=300)
    model = TPNNRegressor(
        **{**with_solver(QUICK_DESCENT, max_steps=25), "n_bags": 1, "interactions": "all"}
    ).fit(X, y)
    best = min(record["validation_loss"] for record in told(model))
    residual = (y - model.predict(X)) / y.std()
    training = next(r["training_loss"] for r in told(model) if r["validation_loss"] == best)
    share = model.validation_fraction
    expected = (1 - share) * training + share * best
    assert 0.5 * np.mean(residual**2) == pytest.approx(expected, rel=0.02)


def test_growing_solver_and_frozen_model_agree(quick: dict[str, Any]) -> None:
    """On nodes, the held-out losses of the history are those of the frozen model."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 6, (600, 3)).astype(float)
    y = X[:, 0] * X[:, 1] - X[:, 2] + rng.normal(size=600)
    model = TPNNRegressor(**{**quick, "n_bags": 1}).fit(X, y)
    grown = (record for record in model.history_ if record["stage"] == "grow")
    worst = max(record["validation_loss"] for record in grown)
    residual = (y - model.predict(X)) / y.std()
    assert 0.5 * np.mean(residual**2) < 1.1 * worst


def test_same_seed_same_model(task: Any, settings: dict[str, Any]) -> None:
    kind, X, y = task
    one, other = fit(kind, settings, X, y), fit(kind, settings, X, y)
    assert identical(one.model_, other.model_)
    different = fit(kind, {**settings, "random_state": 1}, X, y)
    assert not identical(one.model_, different.model_)


def test_global_seeds_change_nothing(task: Any, settings: dict[str, Any]) -> None:
    kind, X, y = task
    state = np.random.get_state()[1].copy()  # noqa: NPY002 - the global one is the point
    torch_state = torch.get_rng_state()
    one = fit(kind, settings, X, y)
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), torch_state)
    torch.manual_seed(99)
    assert identical(one.model_, fit(kind, settings, X, y).model_)


def test_second_fit_equals_a_fresh_one(task: Any, settings: dict[str, Any]) -> None:
    kind, X, y = task
    used = kind(**settings).fit(X.iloc[:100, :2], y[:100])
    used.fit(X, y)
    assert identical(used.model_, fit(kind, settings, X, y).model_)


@pytest.mark.parametrize("named", [True, False])
def test_permuting_columns_permutes_the_answer(
    task: Any, settings: dict[str, Any], named: bool
) -> None:
    kind, X, y = task
    shuffled = X.iloc[:, [2, 0, 3, 1]]
    if not named:
        X, shuffled = X.to_numpy(), shuffled.to_numpy()
    one, other = fit(kind, settings, X, y), fit(kind, settings, shuffled, y)
    assert np.allclose(raw(one, X), raw(other, shuffled), atol=1e-12)
    place = [1, 3, 0, 2]  # where feature j of the first table stands in the second
    tables = dict(zip(other.model_.components, other.model_.tables, strict=True))
    for component, table in zip(one.model_.components, one.model_.tables, strict=True):
        moved = [place[j] for j in component]
        found = tables[tuple(sorted(moved))]
        assert np.array_equal(found.transpose(*np.argsort(np.argsort(moved)), -1), table)


def test_permuting_columns_permutes_a_model_with_shapes() -> None:
    """Clipped interactions go on until a shape holds, so the order of the steps matters."""
    rng = np.random.default_rng(1)
    X, y = rng.integers(-3, 4, (60, 3)).astype(float), rng.poisson(1.0, 60)
    smooth = with_solver(QUICK, growth="none", l2=0.0, max_rounds=10)
    settings = smooth | {"order": 3, "interactions": "all", "selection": "none", "max_nodes": 5}
    asked = {0: "decreasing", 1: "decreasing", 2: "convex"}
    one, other = (
        TPNNRegressor(**settings, objective="poisson", shapes=shapes).fit(rows, y)
        for rows, shapes in ((X, asked), (X[:, ::-1], {2 - j: s for j, s in asked.items()}))
    )
    tables = tables_by_component(other.model_)
    for component, table in tables_by_component(one.model_).items():
        found = tables[tuple(2 - j for j in reversed(component))]
        assert np.array_equal(found.transpose(*range(len(component))[::-1], -1), table)


def test_integer_weights_equal_repeated_rows(task: Any, settings: dict[str, Any]) -> None:
    kind, X, y = task
    weights = np.random.default_rng(0).integers(0, 4, len(X))
    repeated = np.repeat(np.arange(len(X)), weights)
    one = fit(kind, settings, X, y, sample_weight=weights)
    other = fit(kind, settings, X.iloc[repeated], y.iloc[repeated])
    assert identical(one.model_, other.model_)


def test_order_and_copies_of_rows_change_nothing(task: Any, settings: dict[str, Any]) -> None:
    kind, X, y = task
    one = fit(kind, settings, X, y)
    twice = np.random.default_rng(1).permutation(np.tile(np.arange(len(X)), 2))
    assert identical(one.model_, fit(kind, settings, X.iloc[twice], y.iloc[twice]).model_)


def test_offset_shifts_the_raw_score(table: Any, settings: dict[str, Any]) -> None:
    X, y = table
    offset = np.linspace(-3, 3, len(y))
    plain = TPNNRegressor(**settings).fit(X, y)
    shifted = TPNNRegressor(**settings).fit(X, y + offset, offset=offset)
    apart = shifted.predict(X, offset=offset) - plain.predict(X) - offset
    assert np.abs(apart).mean() < 0.1 * y.std()
    with pytest.warns(UserWarning, match=r"^offset: .* without one, so 0 is used"):
        unshifted = shifted.predict(X)
    assert np.allclose(unshifted, shifted.predict(X, offset=offset) - offset)
    assert np.array_equal(unshifted, shifted.predict(X, offset=np.zeros(len(X))))


def test_rows_to_predict_do_not_move_the_nodes(table: Any, settings: dict[str, Any]) -> None:
    """The encoder sees what is passed to fit and nothing else; predicting leaves it as it was.

    Rows that a bag holds out for early stopping do count: all bags share their nodes.
    """
    X, y = table
    model = TPNNRegressor(**settings).fit(X[:300], y[:300])
    before = [axis.values.copy() for axis in model.model_.encoder.axes[1]]
    assert all(np.isin(axis.values, X[:300]).all() for axis in model.model_.encoder.axes[1])
    model.predict(X[300:] * 100)
    after = [axis.values for axis in model.model_.encoder.axes[1]]
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def test_outliers_cannot_extrapolate(table: Any, settings: dict[str, Any]) -> None:
    X, y = table
    model = TPNNRegressor(**settings).fit(X, y)
    edge, far = X.max().to_frame().T, X.max().to_frame().T * 1e6
    assert model.predict(far) == pytest.approx(model.predict(edge))


@pytest.mark.parametrize("objective", ["squared_error", "poisson"])
def test_a_feature_that_says_nothing_has_a_component_of_exact_zeros(
    objective: str,
) -> None:
    """Rounding errors would not average to zero relative to their own size."""
    y = np.repeat(np.random.default_rng(3).poisson(2.0, 20), 3).astype(float)
    X = np.tile(np.arange(3.0), 20)[:, None]
    given = QUICK | {"order": 1, "selection": "none", "objective": objective}
    (table,) = TPNNRegressor(**given).fit(X, y).model_.tables
    assert not table.any()
