"""Calibration tests: right models are rarely accused, however few events there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, f

from tests.models import with_evidence
from tpnn import AnovaModel, monitor, purify, validate
from tpnn.lifecycle.calibration import calibration_tests, mean_p_value
from tpnn.lifecycle.validate.validate import weak_slices
from tpnn.loss.links import LINKS
from tpnn.loss.objectives import resolve
from tpnn.model.evidence import Baseline
from tpnn.model.task import Task

TOWNS = [f"t{number}" for number in range(60)]


def rows(rng: np.random.Generator, n_rows: int) -> pd.DataFrame:
    frame = pd.DataFrame({"a": rng.uniform(-1, 1, n_rows), "town": rng.choice(TOWNS, n_rows)})
    return frame.assign(g=rng.choice(list("uvwxyz"), n_rows))


def rare(link: str, level: float, slope: float = 0.5) -> AnovaModel:
    """A model whose mean is about ``level`` as a raw score."""
    tables = {"a": [-slope, slope], "town": np.zeros(60), "g": np.zeros(6)}
    axes = {"a": [-1, 1], "town": TOWNS, "g": list("uvwxyz")}
    return purify(tables, axes, intercept=level, link=link)


def lifetimes(rng: np.random.Generator, model: AnovaModel, X: pd.DataFrame) -> np.ndarray:
    """Times of a hazard exp(f), censored between 0 and 1."""
    times, ends = rng.exponential(1 / model.predict(X)), rng.uniform(0, 1, len(X))
    return np.column_stack([np.minimum(times, ends), times <= ends])


def survival(level: float) -> AnovaModel:
    grid = np.linspace(1e-4, 1, 10_000)
    return with_evidence(rare("log", level), baseline=Baseline(grid, np.log(grid)))


Draw = Callable[[np.random.Generator, AnovaModel, pd.DataFrame], np.ndarray]
RARE: dict[str, tuple[AnovaModel, AnovaModel, Draw]] = {  # with three times the events, and targets
    "counts": (
        rare("log", -3.4),
        rare("log", -2.3),
        lambda rng, model, X: rng.poisson(model.predict(X)),
    ),
    "labels": (
        rare("logit", -3.4),
        rare("logit", -2.3),
        lambda rng, model, X: (rng.random(len(X)) < model.predict(X)).astype(float),
    ),
    "lifetimes": (survival(-2.5), survival(-1.4), lifetimes),
    "zeros and ones": (
        rare("identity", 0.03, slope=0.01),
        rare("identity", 0.09, slope=0.01),
        lambda rng, model, X: (rng.random(len(X)) < model.predict(X)).astype(float),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", RARE)
def test_a_right_model_of_rare_events_is_rarely_accused(kind: str) -> None:
    """At a rate of 5 %, five of 24 tables have a chance of 1 in 200."""
    model, _, draw = RARE[kind]
    accused = alarms = 0
    for seed in range(24):
        rng = np.random.default_rng(seed)
        X = rows(rng, 5000)
        y = draw(rng, model, X)
        found, n_tests = weak_slices(model, X, y, model.raw_scores(X), 0.05)
        accused += (found["wrong"] == "mean or slope").any()
        alarms += "calibration mean or slope" in monitor(model, X, X, y).alarms
    assert n_tests > 50
    assert accused < 5
    assert alarms < 5


@pytest.mark.parametrize("kind", RARE)
def test_a_group_with_three_times_the_events_is_accused(kind: str) -> None:
    model, wrong, draw = RARE[kind]
    rng = np.random.default_rng(0)
    X = rows(rng, 5000)
    y, more, inside = draw(rng, model, X), draw(rng, wrong, X), (X["g"] == "u").to_numpy()
    y[inside] = more[inside]
    found = weak_slices(model, X, y, model.raw_scores(X), 0.05)[0].set_index("slice").loc[["g: u"]]
    line = found[found["wrong"] == "mean or slope"].iloc[0]
    assert 2 < line["actual"] / line["expected"] < 4


def test_no_event_where_some_are_expected() -> None:
    """The chance of no event is exp(-E): neither 85 nor 8500 rows make it smaller."""
    for n_rows in (85, 8500):
        score = np.full(n_rows, np.log(3.3 / n_rows))
        grid = np.array([0.5])
        counts, times = Task(resolve("poisson", 1)), survival(0.0).task
        times = replace(times, baseline=Baseline(grid, np.zeros(1)))
        lived = np.column_stack([np.ones(n_rows), np.zeros(n_rows)])
        (test,) = calibration_tests(times, lived, score)
        assert test.p_value() == pytest.approx(np.exp(-3.3))
        assert test.means() == (0.0, pytest.approx(3.3 / n_rows))
        many = np.r_[score, np.full(8500, np.log(0.05))]
        y = np.r_[np.zeros(n_rows), np.random.default_rng(0).poisson(0.05, 8500)]
        (test,) = calibration_tests(counts, y[:, None], many)
        assert test.p_value(slice(n_rows)) > 0.03


@pytest.mark.parametrize("n_events", [0, 2, 30, 70, 100])
def test_labels_as_the_exact_test_of_binomials(n_events: int) -> None:
    """Never below the exact p-value of this side, and at most thirty times larger."""
    labels = np.arange(1000) < n_events
    task = Task(resolve("log_loss", 1), classes=(False, True))
    raw = np.full(1000, LINKS["logit"].forward(np.array(0.05)))
    (test,) = calibration_tests(task, labels[:, None].astype(float), raw)
    law = binom(1000, 0.05)
    exact = law.cdf(n_events) if n_events < 50 else law.sf(n_events - 1)
    assert exact <= test.p_value() * 1.000001 <= 30 * exact


def test_hotelling_is_that_of_the_textbook() -> None:
    rng = np.random.default_rng(0)
    columns = rng.normal(0.2, 1, (60, 2)) @ rng.normal(size=(2, 2))
    mean, covariance = columns.mean(0), np.cov(columns.T)
    statistic = 60 * mean @ np.linalg.solve(covariance, mean)
    exact = f.sf(statistic * 58 / (59 * 2), 2, 58)
    assert mean_p_value(columns) == pytest.approx(exact, rel=1e-9)
    assert mean_p_value(np.ones((60, 1))) == 0.0
    assert mean_p_value(np.zeros((60, 2))) == 1.0


@pytest.mark.parametrize("objective", ["absolute_error", {"name": "quantile", "levels": 0.9}])
def test_quantiles_are_tested_by_their_shares(objective: Any) -> None:
    """The mean of skewed errors is no fault of a quantile."""
    rng = np.random.default_rng(0)
    level = 0.5 if objective == "absolute_error" else 0.9
    raw = rng.normal(size=2000)
    y = raw + rng.exponential(size=2000) + np.log(1 - level)
    (test,) = calibration_tests(Task(resolve(objective, 1)), y[:, None], raw)
    assert test.p_value() > 0.05
    assert test.means()[1] == pytest.approx(level)
    (test,) = calibration_tests(Task(resolve(objective, 1)), y[:, None] + 0.3, raw)
    assert test.p_value() < 1e-6


def test_slices_show_what_was_observed_and_expected() -> None:
    rng = np.random.default_rng(0)
    model = RARE["counts"][0]
    X = rows(rng, 4000)
    y = rng.poisson(np.where(X["g"] == "u", 4, 1) * model.predict(X))
    found = validate(model, X, y).slices.set_index("slice").loc["g: u"]
    inside = (X["g"] == "u").to_numpy()
    assert found["actual"] == pytest.approx(y[inside].mean())
    assert found["expected"] == pytest.approx(model.predict(X)[inside].mean())
    calibration = monitor(model, X, X, y).calibration.iloc[0]
    assert calibration["actual"] == pytest.approx(y.mean())
    assert calibration["alarm"]


def test_outputs_are_named() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(3000, 3))
    task = Task(resolve("log_loss", 1), classes=("red", "green", "blue"))
    task = replace(task, objective=replace(task.objective, link=LINKS["softmax"], n_outputs=3))
    codes = (rng.random((3000, 1)) > task.link.inverse(scores).cumsum(1)).sum(1).clip(0, 2)
    codes[rng.random(3000) < 0.15] = 2
    tests = calibration_tests(task, np.eye(3)[codes], scores)
    assert [test.name for test in tests] == [
        f"mean or slope of {name}" for name in ("red", "green", "blue")
    ]
    assert tests[2].p_value() < 1e-6
