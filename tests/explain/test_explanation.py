"""Laws of an explanation: norms, variance shares and Shapley values are as they are defined."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import comb, factorial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import pyplot

from tests.models import random_model
from tpnn import AnovaModel, Explanation, TPNNClassifier, TPNNRegressor, load
from tpnn.explain.contributions import Reason
from tpnn.model.model import tables_by_component


@pytest.fixture(scope="module")
def sample(explanation: Explanation, table: Any) -> np.ndarray:
    """Component scores on rows drawn from the product of the marginals."""
    X, _ = table
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.choice(X[name], 40_000) for name in X])
    return explanation.model.component_scores(rows)


def coalition_value(model: AnovaModel, x: np.ndarray, known: tuple[int, ...]) -> float:
    """E f(x_known, X_rest) by summing over all nodes of the other features."""
    axes = model.encoder.axes[1]
    points = [np.array([x[j]]) if j in known else a.values for j, a in enumerate(axes)]
    masses = [np.ones(1) if j in known else a.weights for j, a in enumerate(axes)]
    grid = np.stack([g.ravel() for g in np.meshgrid(*points, indexing="ij")], axis=1)
    weight = np.prod(np.meshgrid(*masses, indexing="ij"), axis=0).ravel()
    return float(weight @ model.raw_scores(grid))


def brute_force(model: AnovaModel, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shapley values and interaction indices by their definitions over all coalitions."""
    p = len(x)
    subsets = [s for size in range(p + 1) for s in combinations(range(p), size)]
    value = {s: coalition_value(model, x, s) for s in subsets}

    def with_(coalition: tuple[int, ...], *more: int) -> float:
        return value[tuple(sorted((*coalition, *more)))]

    single, double = np.zeros(p), np.zeros((p, p))
    for s in subsets:
        for j in set(range(p)) - set(s):
            weight = factorial(len(s)) * factorial(p - len(s) - 1) / factorial(p)
            single[j] += weight * (with_(s, j) - value[s])
        for j, k in combinations(sorted(set(range(p)) - set(s)), 2):
            weight = 1 / ((p - 1) * comb(p - 2, len(s)))
            gain = with_(s, j, k) - with_(s, j) - with_(s, k) + value[s]
            double[j, k] += weight * gain
    return single, double + double.T


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_shapley_values_equal_brute_force(order: int) -> None:
    """Values between nodes included: the model is linear there, and so is the game."""
    model = random_model(4, order)
    rows = np.random.default_rng(1).normal(size=(3, 4))
    local = Explanation(model, model.encoder.read(rows))
    values, interactions = local.shap_values(), local.shap_interaction_values()
    for row, found, pairs in zip(rows, values.values, interactions.values, strict=True):
        single, double = brute_force(model, row)
        assert np.allclose(found, single, atol=1e-12)
        off_diagonal = ~np.eye(4, dtype=bool)
        assert np.allclose(2 * pairs[off_diagonal], double[off_diagonal], atol=1e-12)
        assert np.allclose(pairs, pairs.T)
        assert np.allclose(pairs.sum(1), single, atol=1e-12)
    total = values.base_values + values.values.sum(1)
    assert np.allclose(total, model.raw_scores(rows))


def test_kernel_shap_agrees(table: Any, quick: Any) -> None:
    """KernelSHAP of the same model, with the product of the marginals as its background."""
    shap = pytest.importorskip("shap", reason="shap is not installed")
    model = random_model(4, 3)
    rng = np.random.default_rng(2)
    background = np.column_stack(
        [rng.choice(axis.values, 2000, p=axis.weights) for axis in model.encoder.axes[1]]
    )
    rows = rng.normal(size=(5, 4))
    sampled = shap.KernelExplainer(model.raw_scores, background).shap_values(rows, silent=True)
    exact = Explanation(model, model.encoder.read(rows)).shap_values().values
    scale = model.raw_scores(background).std()
    assert np.abs(sampled - exact).max() < 5 * scale / np.sqrt(len(background))
    assert np.corrcoef(sampled.ravel(), exact.ravel())[0, 1] > 0.995


def test_shap_plots_accept_the_values(table: Any, quick: Any) -> None:
    shap = pytest.importorskip("shap", reason="shap is not installed")
    from matplotlib import pyplot

    X, y = table
    model = TPNNRegressor(**quick).fit(X, y)
    values = model.shap_values(X[:40])
    assert isinstance(values, shap.Explanation)
    assert list(values.feature_names) == list(X)
    assert np.array_equal(values.data, X[:40].to_numpy())
    for draw in (shap.plots.beeswarm, shap.plots.bar, shap.plots.heatmap):
        draw(values, show=False)
        pyplot.close("all")
    shap.plots.waterfall(values[0], show=False)
    shap.plots.scatter(values[:, "smooth"], show=False)
    pairs = model.explain(X[:40]).shap_interaction_values()
    shap.plots.scatter(pairs[:, 0, 3], show=False)
    pyplot.close("all")


def test_shapley_values_without_shap(
    explanation: Explanation, table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "shap", None)
    X, _ = table
    local = Explanation(explanation.model, X[:5])
    values = local.shap_values()
    assert values.values.shape == values.data.shape == (5, 4)
    assert np.allclose(values.base_values + values.values.sum(1), local.model.raw_scores(X[:5]))


def test_importance_is_the_l1_norm(explanation: Explanation, sample: np.ndarray) -> None:
    """Exact under the node masses; between nodes |f| is only nearly linear."""
    importance = explanation.importance()
    assert list(importance.values()) == sorted(importance.values(), reverse=True)
    bend = 0.01 * max(importance.values())  # small pairs change their sign between coarse nodes
    for names, scores in zip(explanation.model.component_names, sample.T, strict=True):
        assert importance[names] == pytest.approx(np.abs(scores).mean(), rel=0.05, abs=bend)


def test_normalised_importance_is_relative_to_the_largest(explanation: Explanation) -> None:
    plain, relative = explanation.importance(), explanation.importance(normalise=True)
    largest = max(plain.values())
    assert relative == pytest.approx({names: value / largest for names, value in plain.items()})


def test_sobol_shares_are_variance_shares(explanation: Explanation, sample: np.ndarray) -> None:
    shares = explanation.sobol()
    assert sum(shares.values()) == pytest.approx(1.0)
    total = sample.sum(1).var()
    for names, scores in zip(explanation.model.component_names, sample.T, strict=True):
        assert shares[names] == pytest.approx(scores.var() / total, abs=0.02)


def test_sobol_indices_equal_their_definition() -> None:
    """Main: Var E[f | x_j] / Var f. Total: one minus that of all other features."""
    model = random_model(3, 3)
    axes = model.encoder.axes[1]
    grids = np.meshgrid(*(axis.values for axis in axes), indexing="ij")
    values = model.raw_scores(np.stack([g.ravel() for g in grids], 1)).reshape(grids[0].shape)

    def mean(array: np.ndarray, over: list[int]) -> np.ndarray:
        for j in sorted(over, reverse=True):
            array = np.tensordot(array, axes[j].weights, axes=(j, 0))
        return array

    variance = float(mean((values - mean(values, [0, 1, 2])) ** 2, [0, 1, 2]))
    found = Explanation(model).sobol_indices()
    for j, name in enumerate(model.feature_names):
        others = [k for k in range(3) if k != j]
        main = axes[j].weights @ (mean(values, others) - mean(values, [0, 1, 2])) ** 2 / variance
        squares = mean(np.expand_dims(mean(values, [j]), j) ** 2, others).item()
        closed = (squares - float(mean(values, [0, 1, 2])) ** 2) / variance
        assert found[name].main == pytest.approx(main)
        assert found[name].total == pytest.approx(1 - closed)
        assert found[name].interaction == pytest.approx(found[name].total - found[name].main)


def test_explaining_needs_rows_and_known_columns(explanation: Explanation, table: Any) -> None:
    X, y = table
    with pytest.raises(ValueError, match=r"^rows: this needs an explanation of rows"):
        explanation.shap_values()
    model = TPNNRegressor(order=1, n_bags=1, verbose=0).fit(X, y)
    with pytest.raises(ValueError, match=r"^X: the columns seen during fit are needed, \['atom'\]"):
        model.explain(X.drop(columns="atom"))
    with pytest.raises(ValueError, match=r"^X: the number of columns must be that of fit"):
        model.shap_values(X.to_numpy()[:, :2])
    with pytest.raises(ValueError, match=r"^component: features must be names or .*, found 'age'"):
        explanation.component("age")
    with pytest.raises(ValueError, match=r"^component: features must be names or .*, found 1.5"):
        explanation.component(1.5)
    with pytest.raises(ValueError, match=r"^component: must be one of the model's components"):
        explanation.component(("smooth", "atom", "level"))


def test_components_by_index(explanation: Explanation) -> None:
    assert explanation.component(0).names == ("smooth",)
    assert explanation.component((3, "smooth")).names == ("smooth", "level")


def test_one_warning_for_rows_with_unseen_values(table: Any, quick: Any) -> None:
    X, y = table
    local = TPNNRegressor(**quick).fit(X, y).explain(X[:5].assign(atom=np.nan))
    with pytest.warns(UserWarning, match="^X: levels or missing values") as caught:
        local.reasons()
    assert len(caught) == 1


def test_several_outputs(mixed: pd.DataFrame, table: Any, quick: Any) -> None:
    """Shapley values of each class sum to its score; one output is explained like any model."""
    labels = np.array(["a", "b", "c"])[np.digitize(table[1], np.quantile(table[1], [0.3, 0.6]))]
    model = TPNNClassifier(**quick).fit(mixed, labels)
    local = model.explain(mixed[:50])
    values = local.shap_values()
    assert values.values.shape == (50, 4, 3)
    raw = model.decision_function(mixed[:50])
    assert np.allclose(values.base_values + values.values.sum(1), raw)
    assert np.allclose(local.shap_interaction_values().values.sum(2), values.values)
    assert sum(local.sobol().values()) == pytest.approx(1.0)
    one = local.of("b")
    assert np.allclose(one.model.raw_scores(mixed[:50]), raw[:, 1])
    assert np.allclose(one.shap_values().values, values.values[..., 1])
    assert len(one.reasons(2)) == 50
    frame = local.component("town").to_frame()
    assert np.allclose(
        frame[frame["output"] == "b"]["effect"], one.component("town").to_frame()["effect"]
    )
    with pytest.raises(ValueError, match=r"^output: one output is needed here, found 3\. Choose"):
        local.reasons()
    with pytest.raises(ValueError, match=r"^output: one output is needed here, found 3"):
        local.plot("town")
    with pytest.raises(ValueError, match=r"^output: must be one of the model's outputs, found 'd'"):
        local.of("d")


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), n_outputs=st.integers(1, 3), order=st.integers(1, 3))
def test_shares_of_any_model(seed: int, n_outputs: int, order: int) -> None:
    """Shapley values add up to the score, rows of the interactions to them, Sobol shares to 1."""
    model = random_model(3, order, seed, n_outputs)
    rows = np.random.default_rng(seed).normal(size=(5, 3))
    local = Explanation(model, rows)
    values, pairs = local.shap_values(), local.shap_interaction_values()
    assert np.allclose(values.base_values + values.values.sum(1), model.raw_scores(rows))
    assert np.allclose(pairs.values.sum(2), values.values)
    assert np.allclose(pairs.values, pairs.values.swapaxes(1, 2))
    assert sum(local.sobol().values()) == pytest.approx(1.0)
    mains = sum(index.main for index in local.sobol_indices().values())
    totals = sum(index.total for index in local.sobol_indices().values())
    assert mains <= 1 + 1e-9 <= totals + 2e-9


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_norms_and_variances_by_their_sums(n_outputs: int) -> None:
    """Mean of |f| and of f^2 over all nodes, weighted by the product of the masses."""
    model = random_model(3, 2, n_outputs=n_outputs)
    found = Explanation(model)
    for names, (component, table) in zip(
        model.component_names, tables_by_component(model).items(), strict=True
    ):
        masses = np.ones(())
        for axis in model.axes(component):
            masses = masses[..., None] * axis.weights
        absolute = (masses[..., None] * np.abs(table)).sum() / n_outputs
        squared = (masses[..., None] * table**2).sum() / n_outputs
        assert found.importance()[names] == pytest.approx(absolute)
        assert found.variances()[names] == pytest.approx(squared)


def test_a_model_of_zeros_has_no_shares() -> None:
    model = random_model(2, 1)
    flat = replace(model, tables=tuple(map(np.zeros_like, model.tables)))
    found = Explanation(flat, np.zeros((3, 2)))
    assert set(found.importance(normalise=True).values()) == {0.0}
    assert set(found.sobol().values()) == {0.0}
    assert found.reasons() == [[], [], []]


def test_one_of_several_outputs_is_a_reading_of_one_output() -> None:
    model = random_model(3, 2, n_outputs=3)
    rows = np.random.default_rng(0).normal(size=(6, 3))
    local = Explanation(model, rows)
    for k, name in enumerate(model.output_names):
        one = local.of(name)
        assert len(one.model.intercepts) == 1
        assert one.model.output_names == one.model.classes == ()
        assert np.array_equal(one.scores, local.scores[..., k])
        assert one.rows is not None
        assert np.array_equal(one.component("x0").effect, local.component("x0").effect[..., k])
    with pytest.raises(ValueError, match=r"found 'none'\. It has one output only\.$"):
        one.of("none")


def test_importance_of_several_outputs_is_their_mean() -> None:
    model = random_model(3, 2, n_outputs=2)
    whole = Explanation(model)
    parts = [whole.of(name).importance() for name in model.output_names]
    for names, value in whole.importance().items():
        assert value == pytest.approx(np.mean([part[names] for part in parts]))


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_shares_of_the_variance_do_not_depend_on_the_unit(unit: float) -> None:
    """The variance itself is too small or too large for a double."""
    model = random_model(3, 2)
    scaled = replace(model, tables=tuple(unit * table for table in model.tables))
    expected = Explanation(model).sobol()
    found = Explanation(scaled).sobol()
    assert found == pytest.approx(expected)
    assert sum(found.values()) == pytest.approx(1.0)


def fields_of(reasons: list[list[Reason]]) -> list[list[dict[str, Any]]]:
    return [[vars(reason) for reason in row] for row in reasons]


def test_a_loaded_model_explains_any_table(table: Any, quick: Any, tmp_path: Path) -> None:
    X, y = table
    model = TPNNRegressor(**quick).fit(X, y)
    model.model_.save(tmp_path / "model")
    loaded = load(tmp_path / "model").model_
    expected = model.explain(X)
    for rows in (X, X[X.columns[::-1]], X.to_numpy(), X.to_numpy().tolist()):
        local = Explanation(loaded, rows)
        assert np.array_equal(local.shap_values().values, expected.shap_values().values)
        np.testing.assert_equal(fields_of(local.reasons()), fields_of(expected.reasons()))
        assert np.array_equal(local.component("atom").density, expected.component("atom").density)


def test_representation_is_short() -> None:
    model = random_model(4, 2)
    words = "AnovaModel(10 components of 4 features, order 2, identity link)"
    assert repr(model) == words
    assert repr(Explanation(model)) == f"Explanation({words})"
    assert repr(Explanation(model, np.zeros((7, 4)))) == f"Explanation({words}, 7 rows)"


def test_plot_draws_one_component_or_the_importance_of_all() -> None:
    explanation = Explanation(random_model(3, 2))
    assert explanation.plot("x1").get_xlabel() == "x1"
    assert explanation.plot((0, 2)).get_ylabel() == "x2"
    assert len(explanation.plot().patches) == 6
    ax = pyplot.subplots()[1]
    assert explanation.plot("x0", ax=ax) is ax
    assert explanation.plot(ax=ax) is ax
    pyplot.close("all")


def test_what_of_returns_can_be_drawn() -> None:
    model = random_model(3, 2, n_outputs=2)
    one = Explanation(model).of("output 1")
    assert type(one) is Explanation
    assert one.plot("x1").get_xlabel() == "x1"
    pyplot.close("all")


def test_an_explanation_cannot_be_changed() -> None:
    explanation = Explanation(random_model(2, 1))
    with pytest.raises(AttributeError):
        explanation.model = random_model(2, 2)  # type: ignore[misc]
