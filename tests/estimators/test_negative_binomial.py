"""Counts that vary more than Poisson's: the dispersion is estimated, and the file knows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import nbinom

from tests.conftest import QUICK
from tpnn import TPNNRegressor, load
from tpnn.explain.metrics import measure
from tpnn.loss.objectives import likeliest_dispersion, negative_binomial

DISPERSION = 0.8


def counts(n_rows: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Rows with exposures, their counts and the true means."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.integers(0, 6, n_rows) / 2, "b": rng.normal(size=n_rows).round(1)})
    X["years"] = rng.uniform(0.5, 2, n_rows).round(1)
    mean = X["years"].to_numpy() * np.exp(X["a"].to_numpy() - 0.5)
    shape = 1 / DISPERSION
    return X, rng.negative_binomial(shape, shape / (shape + mean)).astype(float), mean


@pytest.fixture(scope="module")
def model() -> Any:
    X, y, _ = counts(4000)
    return TPNNRegressor(objective="negative_binomial", exposure="years", **QUICK).fit(X, y)


def test_the_loss_is_the_likelihood() -> None:
    """Of scipy, up to what does not depend on the mean."""
    y, raw = np.arange(8.0)[:, None], np.linspace(-1, 3, 8)[:, None]
    objective, shape = negative_binomial(0.7), 1 / 0.7
    ours = objective.losses(y, raw) - objective.losses(y, 0 * raw)
    logs = [nbinom.logpmf(y, shape, shape / (shape + np.exp(f))) for f in (raw, 0 * raw)]
    assert ours == pytest.approx(logs[1] - logs[0])
    deviance = objective.reported().losses(y, raw)
    best = nbinom.logpmf(y, shape, shape / (shape + y))
    assert deviance == pytest.approx(2 * (best - logs[0]))


def test_another_unit_of_the_target_is_another_dispersion() -> None:
    y, raw = np.array([[0.0], [3.0], [10.0]]), np.array([[0.3], [1.0], [2.0]])
    whole, unit = negative_binomial(0.6), 4.0
    part = whole.of_targets_in(unit)
    for one, other in zip(
        whole.slopes(y, raw), part.slopes(y / unit, raw - np.log(unit)), strict=True
    ):
        assert one == pytest.approx(unit * other)


def test_the_dispersion_is_the_likeliest() -> None:
    """Of a fine grid, by the likelihood of scipy."""
    _, y, mean = counts(600)
    grid = np.geomspace(0.3, 2, 400)
    likelihoods = [nbinom.logpmf(y, 1 / a, 1 / (1 + a * mean)).sum() for a in grid]
    found = likeliest_dispersion(y, np.log(mean), np.full(600, 1 / 600))
    assert found == pytest.approx(grid[np.argmax(likelihoods)], rel=0.01)


def test_the_dispersion_and_the_means_are_found(model: Any) -> None:
    X, _, mean = counts(4000)
    assert model.model_.task.objective.dispersion == pytest.approx(DISPERSION, abs=0.1)
    assert np.average(np.abs(np.log(model.predict(X) / mean))) < 0.12
    twice = model.predict(X.assign(years=2 * X["years"]))
    assert twice == pytest.approx(2 * model.predict(X))
    new, y, _ = counts(2000, seed=1)
    low, high = model.predict_interval(new, 0.9)
    assert ((low <= y) & (y <= high)).mean() == pytest.approx(0.9, abs=0.03)


def test_counts_of_poisson_have_hardly_any_dispersion() -> None:
    X, _, mean = counts(2000)
    y = np.random.default_rng(3).poisson(mean)
    model = TPNNRegressor(objective="negative_binomial", exposure="years", **QUICK).fit(X, y)
    assert model.model_.task.objective.dispersion < 0.05
    plain = TPNNRegressor(objective="poisson", exposure="years", **QUICK).fit(X, y)
    assert model.predict(X) == pytest.approx(plain.predict(X), rel=0.1)


def test_the_file_and_the_summary_know_the_dispersion(model: Any, tmp_path: Path) -> None:
    X, y, _ = counts(1000, seed=2)
    model.model_.save(tmp_path / "counts.tpnn")
    again = load(tmp_path / "counts.tpnn")
    assert again.model_.task.objective.dispersion == model.model_.task.objective.dispersion
    scores = [
        {one.name: one.value for one in measure(m.model_, X, y).scores} for m in (model, again)
    ]
    assert scores[0] == scores[1]
    assert scores[0]["Share of the deviance explained"] == pytest.approx(model.score(X, y))
    assert model.score(X, y) > 0.2
    shown = again.summary().header
    assert shown["loss"] == "negative_binomial"
    assert float(shown["dispersion"]) == pytest.approx(DISPERSION, abs=0.1)


def test_a_given_dispersion_is_kept_and_its_fit_can_go_on() -> None:
    X, y, _ = counts(500)
    given = {"name": "negative_binomial", "dispersion": 0.3}
    model = TPNNRegressor(objective=given, exposure="years", **QUICK).fit(X, y)
    assert model.model_.provenance.settings["objective"] == given
    estimated = TPNNRegressor(objective="negative_binomial", exposure="years", **QUICK).fit(X, y)
    later = TPNNRegressor(objective="negative_binomial", exposure="years", **QUICK)
    later.fit(X[:300], y[:300], start=estimated)
    known = estimated.model_.task.objective.dispersion
    assert later.model_.task.objective.dispersion == known
    assert estimated.path().model(1).task.objective.dispersion == known


@pytest.mark.parametrize("value", [0, -1, "some"])
def test_a_dispersion_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^objective: must be one of .*negative_binomial"):
        TPNNRegressor(objective={"name": "negative_binomial", "dispersion": value}).fit([[1]], [1])
