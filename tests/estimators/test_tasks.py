"""Every task against a reference: closed forms, GLMs, or another library."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import GammaRegressor, LogisticRegression, PoissonRegressor
from sklearn.metrics import log_loss, mean_poisson_deviance, r2_score

from tests.conftest import QUICK, QUICK_DESCENT, with_solver
from tpnn import Descent, Grow, TPNNClassifier, TPNNRegressor, TPNNSurvival, load
from tpnn.model.edit_log import digest

SOLVERS = {
    "grow": Grow(max_rounds=800, patience=200),
    "descent": Descent(max_steps=800, patience=200),
}
LONG = {"n_bags": 2, "order": 1, "random_state": 0, "verbose": 0}


def converging(solver: str) -> dict[str, Any]:
    """Settings under which a solver has time to converge on a handful of cells."""
    pytest.importorskip("torch") if solver == "descent" else None
    return {**LONG, "solver": SOLVERS[solver]}


def groups(n_rows: int = 3000) -> tuple[pd.DataFrame, np.ndarray]:
    """A table with one nominal column, whose best model is one number per level."""
    rng = np.random.default_rng(0)
    level = rng.integers(0, 4, n_rows)
    return pd.DataFrame({"g": np.array(list("abcd"))[level]}), level


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    ("objective", "statistic"),
    [
        ("squared_error", np.mean),
        ("absolute_error", np.median),
        ({"name": "quantile", "levels": 0.8}, lambda y: np.quantile(y, 0.8)),
        ("poisson", np.mean),
        ("gamma", np.mean),
        ("tweedie", np.mean),
    ],
)
def test_saturated_model_predicts_the_statistic_of_each_level(
    solver: str, objective: Any, statistic: Any
) -> None:
    X, level = groups()
    y = np.random.default_rng(1).gamma(3.0, (1.0 + level) / 3.0)
    model = TPNNRegressor(objective=objective, **converging(solver)).fit(X, y)
    expected = np.array([statistic(y[level == g]) for g in level])
    assert model.predict(X) == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("solver", SOLVERS)
def test_classes_of_a_saturated_model_are_their_shares(solver: str) -> None:
    X, level = groups()
    rng = np.random.default_rng(1)
    share = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4], [0.2, 0.2, 0.6]])
    y = np.array([rng.choice(["no", "perhaps", "yes"], p=share[g]) for g in level])
    model = TPNNClassifier(**converging(solver)).fit(X, y)
    truth = np.array([[np.mean(y[level == g] == c) for c in model.classes_] for g in level])
    assert model.predict_proba(X) == pytest.approx(truth, abs=0.03)
    assert np.abs(model.decision_function(X).sum(1)).max() < 1e-9
    assert set(model.predict(X)) <= set(y)


@pytest.mark.parametrize("kind", ["poisson", "gamma"])
def test_smooth_truth_agrees_with_a_glm(kind: str) -> None:
    """Where a GLM is right, our curve is that of the GLM."""
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, size=(6000, 2))
    mean = np.exp(0.5 + X @ [0.8, -0.5])
    y = rng.poisson(mean).astype(float) if kind == "poisson" else rng.gamma(4.0, mean / 4.0)
    reference = (PoissonRegressor if kind == "poisson" else GammaRegressor)(alpha=0.0).fit(X, y)
    ours = TPNNRegressor(objective=kind, order=1, random_state=0).fit(X, y).predict(X)
    assert np.std(np.log(ours / reference.predict(X))) < 0.06


def test_exposure_as_offset() -> None:
    X, level = groups()
    rng = np.random.default_rng(3)
    exposure = rng.uniform(0.2, 3.0, len(X))
    y = rng.poisson(exposure * (1.0 + level)).astype(float)
    model = TPNNRegressor(objective="poisson", **converging("grow")).fit(
        X, y, offset=np.log(exposure)
    )
    rates = np.array([y[level == g].sum() / exposure[level == g].sum() for g in level])
    once = model.predict(X, offset=np.zeros(len(X)))
    assert once == pytest.approx(rates, rel=0.05)
    doubled = model.predict(X, offset=np.full(len(X), np.log(2.0)))
    assert doubled == pytest.approx(2 * once)
    known = np.log(exposure)
    of_model = mean_poisson_deviance(y, model.predict(X, known))
    expected = 1 - of_model / mean_poisson_deviance(y, exposure * y.sum() / exposure.sum())
    assert model.score(X, y, offset=known) == pytest.approx(expected)
    with pytest.warns(UserWarning, match=r"^offset: "):
        assert model.score(X, y) < expected
    assert np.array_equal(model.model_.predict(X, known), model.predict(X, known))


def test_score_of_classes_with_an_offset() -> None:
    X, _ = groups(300)
    offset = np.where(np.arange(300) % 2, 3.0, -3.0)
    labels = np.where(offset > 0, "yes", "no")
    model = TPNNClassifier(**LONG).fit(X, labels, offset=offset)
    assert model.score(X, labels, offset=offset) == 1.0
    none = np.zeros(300)
    assert model.score(X, labels, offset=none) < 0.7
    right = labels == model.predict(X, none)
    assert model.score(X, labels, sample_weight=right, offset=none) == 1.0


def test_several_quantiles_do_not_cross_and_cover() -> None:
    rng = np.random.default_rng(4)
    x = rng.uniform(0, 1, size=(4000, 1))
    y = x[:, 0] + (0.2 + x[:, 0]) * rng.normal(size=4000)
    objective = {"name": "quantile", "levels": [0.1, 0.5, 0.9]}
    model = TPNNRegressor(objective=objective, order=1, random_state=0).fit(x, y)
    predicted = model.predict(x)
    assert predicted.shape == (4000, 3)
    assert (np.diff(predicted, axis=1) >= 0).all()
    covered = (y[:, None] <= predicted).mean(0)
    assert covered == pytest.approx([0.1, 0.5, 0.9], abs=0.03)
    assert 0 < model.score(x, y) < 1


def test_several_targets_equal_one_after_the_other() -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(400, 3))
    Y = pd.DataFrame({"u": X[:, 0] + 0.1 * rng.normal(size=400), "v": 100 * X[:, 1]})
    model = TPNNRegressor(**QUICK).fit(X, Y)
    assert model.model_.output_names == ("u", "v")
    assert model.predict(X).shape == (400, 2)
    scores = model.model_.component_scores(X)
    total = model.model_.intercept + scores.sum(1)
    assert total == pytest.approx(model.predict(X))
    assert model.score(X, Y) > 0.8
    assert model.model_.identifiability_error() < 1e-6


def test_outliers_move_the_mean_but_not_huber() -> None:
    X, level = groups()
    y = level + 0.1 * np.random.default_rng(6).normal(size=len(X))
    y[::20] += 1000.0
    objective = {"name": "huber", "threshold": 0.01}
    model = TPNNRegressor(objective=objective, **converging("grow")).fit(X, y)
    assert np.abs(model.predict(X) - level).max() < 1.0


def test_custom_loss() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(7)
    X = rng.normal(size=(500, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=500)
    model = TPNNRegressor(objective=lambda y, raw: torch.log(torch.cosh(raw - y)), **QUICK)
    assert model.fit(X, y).score(X, y) > 0.9
    huber = torch.nn.functional.huber_loss  # takes one dtype only
    for solver in SOLVERS:
        model = TPNNRegressor(
            objective=lambda y, raw: huber(raw, y.expand_as(raw), reduction="none"),
            **converging(solver),
        )
        assert model.fit(X, y).score(X, y) > 0.9


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda y, raw: ((raw - y) ** 2).mean(), "the loss of each row, found shape ()"),
        (lambda y, raw: 0 * raw.detach(), "a loss with a gradient in raw, and this one has none"),
        (lambda y, raw: (raw.detach() - y).numpy(), "a torch tensor, found ndarray"),
        (
            lambda y, raw: np.abs(raw - y),
            "compute the loss from y and raw by torch, and it failed: ",
        ),
        (lambda y, raw: 1.0, "a torch tensor, found float"),
    ],
)
def test_custom_loss_is_refused(function: Any, message: str) -> None:
    pytest.importorskip("torch")
    x = np.arange(30.0)
    with pytest.raises(ValueError, match=f"^objective: the function must .*{re.escape(message)}"):
        TPNNRegressor(objective=function, **QUICK).fit(x[:, None], x)


def test_custom_loss_must_be_finite() -> None:
    torch = pytest.importorskip("torch")
    x = np.arange(30.0)
    for function in (
        lambda y, raw: torch.log(y - 3) + (raw - y) ** 2,
        lambda y, raw: (raw - y) ** 2 * torch.where(y < 4, torch.nan, 1.0),
    ):
        model = TPNNRegressor(objective=function, **QUICK)
        with pytest.raises(ValueError, match=r"^objective: .*, found NaN or inf in 4 of 30 rows"):
            model.fit(x[:, None], x)


def test_multiclass_is_as_good_as_logistic_regression_where_that_is_right() -> None:
    rng = np.random.default_rng(8)
    X = rng.normal(size=(3000, 3))
    scores = X @ rng.normal(size=(3, 4))
    y = np.array([rng.choice(4, p=np.exp(s) / np.exp(s).sum()) for s in scores])
    train, test = slice(0, 2000), slice(2000, None)
    reference = LogisticRegression().fit(X[train], y[train]).predict_proba(X[test])
    ours = TPNNClassifier(order=1, random_state=0).fit(X[train], y[train]).predict_proba(X[test])
    assert log_loss(y[test], ours) < 1.05 * log_loss(y[test], reference)


@pytest.mark.parametrize("model", [TPNNClassifier, TPNNRegressor])
def test_several_outputs_survive_saving(model: Any, tmp_path: Any) -> None:
    rng = np.random.default_rng(9)
    X = pd.DataFrame({"a": rng.normal(size=300), "b": rng.choice(["x", "y", None], 300)})
    y = np.digitize(X.a, [-0.5, 0.5])
    target = y if model is TPNNClassifier else np.column_stack([y, -y, y**2])
    fitted = model(**QUICK).fit(X, target).model_
    fitted.save(tmp_path / "model.tpnn")
    loaded = load(tmp_path / "model.tpnn").model_
    new = pd.DataFrame({"a": [0.3, np.nan, -9.0], "b": ["z", None, "x"]})
    with pytest.warns(UserWarning, match="contribute 0"):
        assert np.array_equal(loaded.predict(new), fitted.predict(new))
    assert loaded.output_names == fitted.output_names


def test_weights_of_zero_equal_leaving_rows_out() -> None:
    X, level = groups(400)
    X["h"] = np.random.default_rng(12).normal(size=400)
    y, kept = level + X.h.to_numpy(), np.arange(400) % 4 != 0
    with_zero = TPNNRegressor(**QUICK).fit(X, y, sample_weight=kept.astype(float))
    without = TPNNRegressor(**QUICK).fit(X[kept], y[kept])
    assert np.array_equal(with_zero.predict(X), without.predict(X))


def test_balanced_classes_count_by_their_weights() -> None:
    """Weights of zero equal leaving rows out, and all classes get the same mass."""
    rng = np.random.default_rng(14)
    X = pd.DataFrame({"k": rng.normal(size=600)})
    y = (X.k + rng.normal(size=600) > 0.5).astype(int).to_numpy()
    kept = (y == 0) | (np.arange(600) % 5 == 0)
    balanced = TPNNClassifier(**QUICK, class_weight="balanced")
    without = clone(balanced).fit(X[kept], y[kept])
    with_zero = clone(balanced).fit(X, y, sample_weight=kept.astype(float))
    assert np.array_equal(with_zero.decision_function(X), without.decision_function(X))
    alike, weights = X.assign(k=1.0), rng.uniform(0.1, 3.0, 600) * (1 + y)
    halves = clone(balanced).fit(alike, y, sample_weight=weights).predict_proba(alike)
    assert halves == pytest.approx(np.full((600, 2), 0.5), abs=1e-6)


def test_an_offset_needs_two_classes() -> None:
    X, level = groups(200)
    words = r"^offset: two classes are needed"
    with pytest.raises(ValueError, match=words):
        TPNNClassifier(**QUICK).fit(X, level, offset=np.ones(200))
    model = TPNNClassifier(**QUICK).fit(X, level)
    for method in (model.predict, model.predict_proba, model.decision_function):
        with pytest.raises(ValueError, match=words):
            method(X, offset=np.ones(200))


@pytest.mark.parametrize(
    "ablation", [{"shared_bases": True}, {"activation": "relu"}, {"scale": "paper"}]
)
@pytest.mark.parametrize("task", ["squared_error", "poisson", "classes", "cox"])
@pytest.mark.parametrize("order", [1, 3])
def test_laws_of_the_ablations(
    ablation: dict[str, Any], task: str, order: int, tmp_path: Any
) -> None:
    """Levels and missing values, every task, NBM-TPNN, ReLU and the paper's scaling."""
    pytest.importorskip("torch")
    rng = np.random.default_rng(13)
    X = pd.DataFrame({"a": rng.normal(size=120), "b": rng.choice(list("xyz"), 120)})
    X["c"] = np.where(rng.random(120) < 0.2, np.nan, rng.random(120))
    kinds = {"classes": TPNNClassifier, "cox": TPNNSurvival}
    solver = with_solver(QUICK_DESCENT, **ablation, max_steps=10)
    parameters = {**solver, "order": order, "interactions": "all"}
    if task not in kinds:
        parameters["objective"] = task
    y: Any = rng.poisson(2.0, 120) + 0.5
    y = {"classes": rng.integers(0, 3, 120), "cox": np.column_stack([y, y > 1])}.get(task, y)
    model = kinds.get(task, TPNNRegressor)(**parameters).fit(X, y)
    frozen = model.model_
    assert frozen.identifiability_error() < 1e-6
    raw = frozen.raw_scores(X)
    assert frozen.intercept + frozen.component_scores(X).sum(1) == pytest.approx(raw)
    values = np.asarray(model.shap_values(X).values).sum(1)
    assert values == pytest.approx(raw - frozen.intercept)
    frozen.save(tmp_path / "model")
    assert np.array_equal(load(tmp_path / "model").model_.raw_scores(X), raw)


@pytest.mark.parametrize("slope", [0.8, 1.5, 2.5])
def test_steep_means_and_risks_are_found(slope: float) -> None:
    """Newton steps of an exponential may go anywhere: they are bounded."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    counts = TPNNRegressor(objective="poisson", **LONG).fit(X, rng.poisson(np.exp(slope * X[:, 0])))
    times = rng.exponential(np.exp(-slope * X[:, 0]))
    risk = TPNNSurvival(**LONG).fit(X, np.column_stack([times, np.ones(2000)]))
    inside = np.abs(X[:, 0]) < 2
    for f in (counts.model_.raw_scores(X), risk.predict(X)):
        line = np.polyfit(X[inside, 0], f[inside], 1)
        assert line[0] == pytest.approx(slope, rel=0.2)


@pytest.mark.parametrize("objective", ["poisson", "gamma", "tweedie"])
def test_the_unit_of_a_positive_target_does_not_matter(objective: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = rng.gamma(2.0, np.exp(X[:, 0]))
    model = TPNNRegressor(objective=objective, **LONG)
    expected = model.fit(X, y).predict(X)
    for unit in (1e-120, 1e-4, 1e120):
        np.testing.assert_allclose(model.fit(X, y * unit).predict(X) / unit, expected, rtol=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("rate", [1e-2, 1e-5])
def test_rates_by_weight_are_counts_by_offset(solver: str, rate: float) -> None:
    rng = np.random.default_rng(0)
    X, exposure = rng.normal(size=(1500, 1)), rng.uniform(25.0, 75.0, 1500) / rate
    counts = rng.poisson(exposure * rate * np.exp(X[:, 0]))
    model = TPNNRegressor(objective="poisson", **converging(solver))
    rates = model.fit(X, counts / exposure, sample_weight=exposure).model_.raw_scores(X)
    frozen = model.fit(X, counts, offset=np.log(exposure)).model_
    known = frozen.raw_scores(X, np.zeros(len(X)))
    for f in (rates, known):
        assert np.polyfit(X[:, 0], f, 1)[0] == pytest.approx(1.0, abs=0.06)


@pytest.mark.parametrize("objective", ["absolute_error", "quantile", "huber"])
def test_one_outlier_does_not_move_a_robust_loss(objective: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 3))
    truth = X[:, 0] + X[:, 1] * X[:, 2]
    y = truth + 0.3 * rng.normal(size=1000)
    y[7] += 1e6
    model = TPNNRegressor(objective=objective, n_bags=2, random_state=0, verbose=0).fit(X, y)
    assert r2_score(truth, model.predict(X)) > 0.95


def test_successes_of_trials_are_two_rows_with_weights() -> None:
    """The same bits as a row for each trial."""
    rng = np.random.default_rng(21)
    X = rng.normal(size=(80, 2)).round(1)
    trials = rng.integers(1, 6, 80)
    successes = rng.binomial(trials, 1 / (1 + np.exp(-X[:, 0])))
    counts = np.r_[successes, trials - successes]
    both, labels = np.vstack([X, X]), np.repeat([1, 0], 80)
    weighted = TPNNClassifier(**QUICK).fit(both, labels, sample_weight=counts)
    single = TPNNClassifier(**QUICK).fit(np.repeat(both, counts, 0), np.repeat(labels, counts))
    assert digest(weighted.model_) == digest(single.model_)
