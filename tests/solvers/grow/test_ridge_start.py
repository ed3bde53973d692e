"""The smooth start: ridge regression on a dictionary of centred sigmoids."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from tpnn import Grow, TPNNSurvival
from tpnn._utils.threads import Workers
from tpnn.anova.measure import Marginal
from tpnn.loss.objectives import OBJECTIVES
from tpnn.solvers.grow.ridge_start import (
    LARGEST_COEFFICIENT,
    RIDGE_ROWS,
    MainDictionary,
    PairDictionary,
    RidgeStart,
    coarsen,
)
from tpnn.solvers.problem.coded import CodedComponents
from tpnn.solvers.problem.rows import TrainingRows
from tpnn.solvers.solution import Limits


def marginal_of(sizes: list[int], seed: int) -> Marginal:
    rng = np.random.default_rng(seed)
    weights = [rng.dirichlet(np.ones(size)) for size in sizes]
    return Marginal.stack([np.cumsum(w) - w / 2 for w in weights], weights)


def test_ridge_start_is_ridge_regression() -> None:
    """Against scikit-learn on the explicit design matrix of the dictionary."""
    rng = np.random.default_rng(0)
    marginal = marginal_of([7, 7, 7], 0)
    pairs = np.array([[0, 1], [1, 2]])
    codes = rng.integers(0, 7, (3, 400)).astype(np.uint8)
    mains, products = MainDictionary(marginal, np.arange(3)), PairDictionary(marginal, pairs)
    coded = [CodedComponents(codes, np.arange(3)[:, None], 7), CodedComponents(codes, pairs, 7)]
    y = rng.normal(size=(400, 1)).astype(np.float32)
    columns = [mains.bases[j][codes[j]] for j in range(3)]
    for (a, b), left, right in zip(pairs, products.first, products.second, strict=True):
        columns.append((left[codes[a]][:, :, None] * right[codes[b]][:, None]).reshape(400, -1))
    expected = Ridge(RIDGE_ROWS, fit_intercept=False).fit(np.hstack(columns), y[:, 0])
    equal = np.full_like(y, 1 / 400)
    rows = TrainingRows(y, 0 * y, equal, equal, np.array([400], np.float32))
    with Workers(1) as workers:
        ridge = RidgeStart([mains, products], coded, rows, OBJECTIVES["squared_error"])
        coefficients = ridge.fit(np.zeros(1), workers, Limits()).coefficients
    raw = np.zeros((400, 1), np.float32)
    for part, dictionary, c in zip(coded, (mains, products), coefficients, strict=True):
        part.gather(dictionary.tables(c), 0, raw)
    assert np.allclose(raw[:, 0], expected.predict(np.hstack(columns)), atol=2e-2)


def test_coarsening_keeps_mass_and_mean() -> None:
    marginal = marginal_of([7, 3], 2)
    codes = np.array([[0, 3, 6], [0, 1, 2]], np.uint8)
    coarse, merged = coarsen(marginal, codes, 4)
    assert coarse.sizes.tolist() == [4, 3]
    assert np.allclose(coarse.weights.sum(1), 1)
    means = [(m.weights * m.positions).sum(1) for m in (marginal, coarse)]
    assert np.allclose(*means)
    assert merged.tolist() == [[0, 1, 3], [0, 1, 2]]


def test_dictionaries_have_adjoints() -> None:
    rng = np.random.default_rng(1)
    marginal = marginal_of([5, 5, 5], 1)
    for dictionary in (
        MainDictionary(marginal, np.array([2, 0, 1])),
        PairDictionary(marginal, np.array([[0, 2], [1, 0]])),
    ):
        coefficients = rng.normal(size=dictionary.zeros(3).shape)
        tables = dictionary.tables(coefficients)
        other = rng.normal(size=tables.shape)
        assert np.vdot(tables, other) == pytest.approx(
            np.vdot(coefficients, dictionary.adjoint(other)), rel=1e-5
        )


def test_penalised_main_effects_have_a_larger_ridge() -> None:
    """By a factor: the same function as with so many times the ridge."""
    rng = np.random.default_rng(3)
    marginal = marginal_of([7, 7], 3)
    codes = rng.integers(0, 7, (2, 100)).astype(np.uint8)
    coded = [CodedComponents(codes, np.arange(2)[:, None], 7)]
    y, equal = rng.normal(size=(100, 1)).astype(np.float32), np.full((100, 1), 0.01, np.float32)
    rows, tables = TrainingRows(y, 0 * y, equal, equal, np.array([100], np.float32)), []
    for factor, l2 in ((20.0, 0.01), (1.0, 0.2)):
        mains = MainDictionary(marginal, np.arange(2))
        mains.penalise(factor)
        with Workers(1) as workers:
            ridge = RidgeStart([mains], coded, rows, OBJECTIVES["squared_error"], l2)
            best = ridge.fit(np.zeros(1), workers, Limits())
        tables.append(mains.tables(best.coefficients[0]))
    assert np.ptp(tables[0]) > 0.01
    assert np.allclose(*tables, atol=1e-4)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_extreme_coefficients_overflow_without_a_warning(n_threads: int) -> None:
    """In threads too, which know nothing of NumPy's settings outside of them."""
    marginal = marginal_of([7, 7], 3)
    codes = np.random.default_rng(0).integers(0, 7, (2, 20)).astype(np.uint8)
    coded = [CodedComponents(codes, np.arange(2)[:, None], 7)]
    y, equal = np.ones((20, 1), np.float32), np.full((20, 1), 0.05, np.float32)
    rows = TrainingRows(y, 0 * y, equal, equal, np.array([20], np.float32))
    mains = MainDictionary(marginal, np.arange(2))
    ridge = RidgeStart([mains], coded, rows, OBJECTIVES["squared_error"], l2=0.0)
    endless = [np.full_like(mains.zeros(1), np.inf)]
    with Workers(n_threads) as ridge.workers, np.errstate(over="ignore", invalid="ignore"):
        downhill, values = ridge._downhill(y, endless)[0], ridge._gather(endless)
    assert not np.isfinite(downhill).any()
    assert not np.isfinite(values).all()


def test_without_a_penalty_nothing_runs_away() -> None:
    """Two rows whose order a feature tells have no largest likelihood."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3, 2))
    times = np.column_stack([rng.uniform(0.5, 2.0, 3), np.ones(3)])
    solver = Grow(growth="smooth", l2=0.0, max_rounds=20)
    model = TPNNSurvival(
        solver=solver, order=1, n_bags=1, max_nodes=5, validation_fraction=0.5, random_state=0
    ).fit(X, times)
    assert max(np.abs(table).max() for table in model.model_.tables) < LARGEST_COEFFICIENT
