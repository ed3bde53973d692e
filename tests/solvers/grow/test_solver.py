"""Grow: what the default solver reaches, and what its parameters do."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import tpnn
from tests.conftest import told
from tpnn import Grow, TPNNClassifier, TPNNRegressor, datasets
from tpnn.anova.measure import Marginal
from tpnn.anova.terms import dictionary

FEW: dict[str, Any] = {
    "interactions": "all",
    "order": 2,
    "n_bags": 2,
    "random_state": 0,
    "verbose": 0,
}
ZERO, SMOOTH, MIXED = "from 0", "from the smooth start", "mixed"


def starts(model: Any) -> list[str]:
    """What each bag grew from."""
    return [record["note"] for record in told(model)]


def test_few_distinct_rows_are_fitted_as_the_many_they_stand_for() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, (20_000, 1)).astype(float)
    label = rng.random(20_000) < np.where(x[:, 0] == 1, 0.9, 0.1)
    model = TPNNClassifier(**FEW).fit(x, label)
    assert model.predict_proba([[0.0], [1.0]])[:, 1] == pytest.approx([0.1, 0.9], abs=0.02)
    levels = np.tile(np.arange(4.0), 1250)[:, None]
    linear = TPNNRegressor(**FEW).fit(levels, levels[:, 0])
    assert linear.predict(levels[:4]) == pytest.approx([0, 1, 2, 3], abs=0.1)


def test_a_rare_level_is_learned() -> None:
    x = np.array([0.0] * 950 + [1.0] * 50)[:, None]
    label = np.r_[np.zeros(950), np.ones(49), 0.0]
    model = TPNNClassifier(n_bags=4, random_state=0, verbose=0).fit(x, label)
    assert model.predict_proba([[1.0]])[0, 1] > 0.8


@pytest.mark.parametrize("max_nodes", [{1: 5}, {1: 32}, {2: 200}, 3])
def test_law_holds_for_any_number_of_nodes(table: Any, max_nodes: Any) -> None:
    X, y = table
    model = TPNNRegressor(n_bags=2, max_nodes=max_nodes, random_state=0, verbose=0).fit(X, y)
    assert model.model_.identifiability_error() < 1e-12


def test_fits_in_two_threads_agree_and_give_the_pools_back(table: Any) -> None:
    X, y = table
    before = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    with ThreadPoolExecutor(3) as pool:
        jobs = [pool.submit(TPNNRegressor(n_bags=2, random_state=0).fit, X, y) for _ in range(3)]
        first, *others = (job.result().predict(X) for job in jobs)
    assert all(np.array_equal(first, other) for other in others)
    after = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    assert after == before


def test_rounds_and_patience_are_limits(table: Any) -> None:
    X, y = table
    model = TPNNRegressor(**FEW, solver=Grow(max_rounds=20)).fit(X, y)
    assert max(record["step"] for record in told(model)) <= 20
    patient, hasty = (
        TPNNRegressor(**FEW, solver=Grow(patience=patience)).fit(X, y) for patience in (200, 1)
    )
    for long, short in zip(told(patient), told(hasty), strict=True):
        assert long["step"] >= short["step"]
        assert long["validation_loss"] <= short["validation_loss"]


def test_without_growth_a_pair_has_the_rank_of_its_dictionary(table: Any) -> None:
    X, y = table
    none, smooth, auto = (
        TPNNRegressor(**FEW, solver=Grow(growth=growth, max_rounds=80)).fit(X, y)
        for growth in ("none", "smooth", "auto")
    )
    pair = none.components_.index(("smooth", "skewed"))
    ranks = [np.linalg.matrix_rank(m.model_.tables[pair][..., 0], tol=1e-6) for m in (none, smooth)]
    n_sigmoids = dictionary(Marginal.of(none.model_.encoder.axes[2]), 2).shape[-1]
    assert ranks[0] <= n_sigmoids < ranks[1]
    assert [record["step"] for record in told(none)] == [0, 0]
    assert starts(smooth) == [SMOOTH, SMOOTH]
    assert starts(auto) == [ZERO, SMOOTH, MIXED] * 2
    assert none.model_.identifiability_error() < 1e-6


def test_large_problems_grow_from_zero_alone(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table
    small = TPNNRegressor(**FEW, solver=Grow(max_rounds=20)).fit(X, y)
    monkeypatch.setattr("tpnn.solvers.grow.solver.LARGEST_SMOOTH_START", 0)
    large = TPNNRegressor(**FEW, solver=Grow(max_rounds=20)).fit(X, y)
    assert starts(large) == [ZERO, ZERO]
    losses = [record["validation_loss"] for record in told(small)[::3]]
    assert [record["validation_loss"] for record in told(large)] == losses
    smooth = TPNNRegressor(**FEW, solver=Grow(growth="smooth", max_rounds=20)).fit(X, y)
    assert starts(smooth) == [SMOOTH, SMOOTH]  # as it was asked for
    ridge = TPNNRegressor(**FEW, solver=Grow(l2=0.1, max_rounds=20)).fit(X, y)
    assert starts(ridge) == [ZERO, SMOOTH, MIXED] * 2


def test_large_problems_without_pairs_grow_from_zero_alone(
    table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tpnn.solvers.grow.solver.LARGEST_SMOOTH_START", 0)
    large = TPNNRegressor(**{**FEW, "order": 1}, solver=Grow(max_rounds=5)).fit(*table)
    assert starts(large) == [ZERO, ZERO]


def test_several_classes_grow_from_the_smooth_start_alone(table: Any) -> None:
    X, y = table
    three = TPNNClassifier(**{**FEW, "order": 1}).fit(X, np.digitize(y, [0.0, 1.0]))
    assert starts(three) == [SMOOTH, SMOOTH]


def test_features_that_say_the_same_share_it_with_a_large_l2() -> None:
    rng = np.random.default_rng(0)
    told = rng.random(1000)
    X = np.stack([told, told + 0.1 * rng.normal(size=1000)], axis=1)
    y = told + 0.3 * rng.normal(size=1000)

    def unevenness(l2: float) -> float:
        model = TPNNRegressor(**{**FEW, "order": 1}, solver=Grow(growth="none", l2=l2)).fit(X, y)
        first, second = model.explain().importance().values()
        return first / second - 1

    assert unevenness(30.0) < 0.3 < 1 < unevenness(1e-6)


def test_pure_interactions_are_found() -> None:
    """XOR has no main effect; the random first cut makes it visible."""
    rng = np.random.default_rng(0)
    X = rng.random((2000, 3))
    y = np.sign(X[:, 0] - 0.5) * np.sign(X[:, 1] - 0.5) + 0.1 * rng.normal(size=2000)
    model = TPNNRegressor(**FEW).fit(X, y)
    assert model.score(X, y) > 0.9
    assert next(iter(model.explain().importance())) == ("x0", "x1")


@pytest.mark.slow
def test_default_fit_does_not_import_torch() -> None:
    code = (
        "import sys, numpy as np; from tpnn import TPNNRegressor, TPNNClassifier;"
        "X = np.random.default_rng(0).normal(size=(60, 2));"
        "TPNNRegressor(n_bags=1).fit(X, X[:, 0]).explain(X).importance();"
        "TPNNClassifier(n_bags=1).fit(X, X[:, 0] > 0).predict(X);"
        "print('torch' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        cwd=Path(tpnn.__file__).parents[1],
    )  # fmt: skip
    assert run.stdout == "False\n"


def test_descent_without_torch_names_the_extra(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table
    for name in [name for name in sys.modules if name.startswith("tpnn.solvers.descent.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r'pip install "tpnn\[torch\]"'):
        TPNNRegressor(solver="gradient", n_bags=1).fit(X, y)


def split(name: str) -> tuple[Any, Any, Any, Any]:
    X, y = datasets.load(name)
    X = X.select_dtypes("number")
    order = np.random.RandomState(0).permutation(len(y))
    cut = int(0.8 * len(y))
    return X.iloc[order[:cut]], y.iloc[order[:cut]], X.iloc[order[cut:]], y.iloc[order[cut:]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "bar"), [("calhousing", 0.452), ("wine", 0.685), ("abalone", 2.30)]
)
def test_default_keeps_its_accuracy(name: str, bar: float) -> None:
    """A guard: test RMSE of the default on one split, with a margin of about two per cent."""
    X, y, X_test, y_test = split(name)
    model = TPNNRegressor(random_state=0, verbose=0).fit(X, y)
    error = float(np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2)))
    assert error < bar
    assert model.model_.identifiability_error() < 1e-12


def test_classifier_is_better_than_main_effects_where_there_is_a_pair() -> None:
    rng = np.random.default_rng(3)
    X = rng.random((3000, 4))
    label = rng.random(3000) < 1 / (1 + np.exp(-8 * (X[:, 0] - 0.5) * (X[:, 1] - 0.5) * 4))
    pairs = TPNNClassifier(**FEW).fit(X[:2000], label[:2000])
    mains = TPNNClassifier(**{**FEW, "order": 1}).fit(X[:2000], label[:2000])
    assert pairs.score(X[2000:], label[2000:]) > mains.score(X[2000:], label[2000:]) + 0.1
