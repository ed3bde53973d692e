"""Better: a fit moves towards its posterior means, as far as held-out rows allow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr

from tests.uncertainty.problems import solved
from tpnn import TPNNClassifier, TPNNRegressor
from tpnn.solvers.grow.solver import Grow
from tpnn.solvers.solution import Limits
from tpnn.uncertainty import equations, linear_model, recipe
from tpnn.uncertainty.design import Design
from tpnn.uncertainty.linear_model import LinearModel
from tpnn.uncertainty.recipe import infer

SETTINGS: Any = {"n_bags": 4, "random_state": 0, "max_nodes": 32, "solver": Grow(max_rounds=60)}


def sample(n_rows: int, seed: int, noise: float = 1.0) -> tuple[pd.DataFrame, np.ndarray]:
    """A wave and a bump of two features, whose effects growth shrinks."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.random((n_rows, 3)), columns=list("abc"))
    f = np.sin(2 * np.pi * X["c"]) + bump(X["a"].to_numpy(), X["b"].to_numpy())
    return X, f.to_numpy() + noise * rng.normal(size=n_rows)


def bump(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return 4 * np.exp(-((a - 0.35) ** 2 + (b - 0.6) ** 2) / 0.06)


def pair_error(model: Any) -> tuple[float, float]:
    """Distance of the pair from the truth, relative to its size, and slope on the truth."""
    table = model.explain().component(("a", "b"))
    u, v = (axis.weights for axis in table.axes)
    truth = bump(*np.meshgrid(*(axis.values for axis in table.axes), indexing="ij"))
    truth = truth - (u @ truth)[None] - (truth @ v)[:, None] + u @ truth @ v
    size = u @ truth**2 @ v
    error = u @ (table.effect - truth) ** 2 @ v
    return float(np.sqrt(error / size)), float(u @ (table.effect * truth) @ v / size)


def linear_models(found: Any) -> tuple[Design, list[LinearModel]]:
    """Design and linear models of a solution, as the recipe makes them."""
    kept: list[Any] = []

    def keep(*arguments: Any) -> Any:
        kept.append((arguments[1], models(*arguments)))
        return kept[-1][1]

    models = recipe.smooth_posteriors
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recipe, "smooth_posteriors", keep)
        infer(found.problem, found.solution, Limits())
    return kept[0]  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", ["regressor", "classifier", "few rows for each function"])
def test_posterior_means_of_a_bag_have_not_seen_its_held_out_rows(kind: str) -> None:
    """Against the dense equations of the other rows, with the same variances and centres."""
    X, y = sample(90 if kind.startswith("few") else 400, 0)
    settings = {**SETTINGS, "interactions": [["a", "b"]]}
    estimator = TPNNClassifier(**settings) if kind == "classifier" else TPNNRegressor(**settings)
    found = solved(estimator, X, y > 1 if kind == "classifier" else y)
    design, (model, *_) = linear_models(found)
    (group,) = model.groups
    rows = design.of(group.numbers).block(0, len(y)).astype(np.float64)
    p = model.precision
    rows -= p @ rows / p.sum()
    response = model.residual + rows @ model.beta[group.columns]
    held_out = found.problem.rows.validation > 0
    means = model.left_out(held_out, Limits())
    deviations = np.sqrt(group.covariance.variances)
    for bag, left_out in enumerate(held_out.T):
        others = rows[~left_out]
        weighted = others * p[~left_out, None]
        matrix = others.T @ weighted + np.diag(group.diagonal)
        expected = np.linalg.solve(matrix, weighted.T @ response[~left_out])
        gap = np.abs(means[group.columns, bag] - expected) / deviations
        assert gap.max() < 0.02
        assert np.abs(means[group.columns, bag] - model.beta[group.columns]).max() > 0


def test_some_rows_stand_for_all_that_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    found = solved(TPNNRegressor(**SETTINGS, order=1), *sample(2000, 0))
    _, (model, *_) = linear_models(found)
    held_out = found.problem.rows.validation > 0
    exact = model.left_out(held_out, Limits())
    monkeypatch.setattr(linear_model, "ENOUGH_LEFT_OUT", 100)
    some = model.left_out(held_out, Limits())
    deviations = np.sqrt(model.groups[0].covariance.variances)
    assert 0 < (np.abs(some - exact).max(1) / deviations).max() < 0.2
    monkeypatch.setattr(equations, "SMALLEST_LEFT", -1.0)  # as if they claimed more than there is
    rough = model.left_out(held_out, Limits())
    assert 0 < (np.abs(rough - exact).max(1) / deviations).max() < 0.5


def test_a_pair_that_growth_shrinks_gets_its_size() -> None:
    """Over five samples; without bands the pair stays as it grew."""
    errors = []
    for seed in range(5):
        X, y = sample(600, seed)
        settings = {**SETTINGS, "random_state": seed, "interactions": [["a", "b"]]}
        fits = (TPNNRegressor(**settings, bands=bands).fit(X, y) for bands in (False, True))
        errors.append([pair_error(fit) for fit in fits])
    (grown, grown_slope), (moved, moved_slope) = np.mean(errors, axis=0)
    assert moved < 0.85 * grown
    assert grown_slope < 0.75
    assert 0.8 < moved_slope < 1.1


def test_laws_hold_after_the_move() -> None:
    X, y = sample(500, 1)
    model = TPNNRegressor(**SETTINGS, interactions=[["a", "b"]]).fit(X, y).model_
    assert model.identifiability_error() < 1e-12
    assert np.mean(model.predict(X)) == pytest.approx(np.mean(y))
    again = TPNNRegressor(**SETTINGS, interactions=[["a", "b"]], n_jobs=1).fit(X, y).model_
    for one, other in zip(model.tables, again.tables, strict=True):
        assert np.array_equal(one, other)


def test_bands_are_around_what_is_shown_and_narrower_than_before() -> None:
    """The distance to the posterior mean, which the move makes smaller, is in the band."""
    X, y = sample(500, 1)
    found = solved(TPNNRegressor(**SETTINGS, interactions=[["a", "b"]]), X, y)
    before = infer(found.problem, found.solution, Limits())
    after = infer(found.problem, found.solution, Limits(), lambda one, _: one)
    moves = np.zeros(2)
    for component, posterior in after.posteriors.items():
        one, other = before.posteriors[component].uncertainty(), posterior.uncertainty()
        assert other.errors() == pytest.approx(one.errors())
        moves += [each.units[0] * np.abs(each.shifts).sum() for each in (one, other)]
        assert other.half_widths().mean() < one.half_widths().mean()
    assert moves[1] < 0.2 * moves[0]


def test_a_fit_stays_as_a_stated_penalty_leaves_it() -> None:
    X, y = sample(400, 2)
    stated, free = (
        [
            TPNNRegressor(**settings, interactions=[["a", "b"]], bands=bands).fit(X, y).model_
            for bands in (True, False)
        ]
        for settings in ({**SETTINGS, "solver": Grow(l2=3.0)}, SETTINGS)
    )
    assert all(map(np.array_equal, *(model.tables for model in stated)))
    assert not all(map(np.array_equal, *(model.tables for model in free)))


def test_shapes_are_certified_after_the_move() -> None:
    X, y = sample(400, 2)
    rising = TPNNRegressor(**SETTINGS, shapes={"a": "increasing"}, interactions=[["a", "b"]])
    assert rising.fit(X, y).model_.certificate("a").minimum >= 0


@pytest.mark.parametrize("seed", [0, 2])
def test_pairs_of_dependent_features_have_their_size(seed: int) -> None:
    """What main effects gain a pair would lose, if each order moved alone."""
    rng = np.random.default_rng(seed)
    normal = np.sqrt(0.8) * rng.normal(size=(600, 1)) + np.sqrt(0.2) * rng.normal(size=(600, 3))
    X = pd.DataFrame(ndtr(normal), columns=list("abc"))
    y = 3 * (2 * X["a"] - 1) * (2 * X["b"] - 1) + rng.normal(size=600)
    model = TPNNRegressor(**SETTINGS, interactions=[["a", "b"]], verbose=0).fit(X, y)
    table = model.explain().component(("a", "b"))
    u, v = (axis.weights for axis in table.axes)
    first, second = (axis.values - axis.weights @ axis.values for axis in table.axes)
    truth = 12 * np.multiply.outer(first, second)
    slope = (u @ (table.effect * truth) @ v) / (u @ truth**2 @ v)
    assert 0.85 < slope < 1.15
