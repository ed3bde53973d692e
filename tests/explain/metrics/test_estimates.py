"""Estimates: values as scikit-learn has them, standard errors as the jackknife has them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from sklearn import metrics
from sklearn.linear_model import LogisticRegression

from tests.models import random_model, with_remainder
from tpnn.explain.metrics import estimates as e
from tpnn.explain.metrics.estimates import estimate, measure
from tpnn.loss.formulas import tweedie_deviance
from tpnn.loss.objectives import COX, LOG_LOSS
from tpnn.model.task import Task

N_ROWS = 200


def rows(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Raw scores, labels that follow them, and positive amounts."""
    rng = np.random.default_rng(seed)
    raw = rng.normal(size=N_ROWS).round(2)
    labels = (rng.random(N_ROWS) < 1 / (1 + np.exp(-raw))).astype(float)
    return raw, labels, rng.gamma(2, np.exp(raw / 3))


SCORES: dict[str, Callable[[np.ndarray], e.Estimate]] = {}
RAW, LABELS, AMOUNTS = rows()
SCORES["mean"] = lambda k: e.mean_estimate("", AMOUNTS[k])
SCORES["ratio"] = lambda k: e.ratio_estimate("", AMOUNTS[k], np.exp(RAW[k]))
SCORES["root"] = lambda k: e.root_estimate("", (AMOUNTS - RAW)[k] ** 2)
SCORES["r2"] = lambda k: e.r2_estimate("", AMOUNTS[k], np.exp(RAW[k] / 3))
SCORES["area"] = lambda k: e.area_estimate("", LABELS[k] == 1, RAW[k])
SCORES["slope"] = lambda k: e.slope_estimate("", LABELS[k], RAW[k])
SCORES["cox"] = lambda k: estimate(Task(COX), np.column_stack([AMOUNTS, LABELS])[k], RAW[k])[0]
SCORES["concordance"] = lambda k: e.concordance_estimate(
    "", np.column_stack([AMOUNTS, LABELS])[k], RAW[k]
)


@pytest.mark.parametrize("name", SCORES)
def test_standard_errors_are_those_of_the_jackknife(name: str) -> None:
    score, every = SCORES[name], np.arange(N_ROWS)
    values = np.array([score(np.delete(every, k)).value for k in every])
    jackknife = np.sqrt((N_ROWS - 1) / N_ROWS * ((values - values.mean()) ** 2).sum())
    assert score(every).standard_error == pytest.approx(jackknife, rel=0.03)


@pytest.mark.parametrize("name", ["distance", "lift"])
def test_errors_of_scores_at_a_threshold_are_those_of_fresh_samples(name: str) -> None:
    def score(seed: int) -> e.Estimate:
        raw, labels, _ = rows(seed)
        if name == "lift":
            return e.lift_estimate("", labels, raw)
        return e.distance_estimate("", labels == 1, raw)

    found = [score(seed) for seed in range(400)]
    spread = np.std([one.value for one in found])
    assert np.mean([one.standard_error for one in found]) == pytest.approx(spread, rel=0.25)


def test_values_are_those_of_scikit_learn() -> None:
    found = {one.name: one.value for one in estimate(Task(LOG_LOSS, classes=(0, 1)), LABELS, RAW)}
    shares = 1 / (1 + np.exp(-RAW))
    assert found["log_loss"] == pytest.approx(metrics.log_loss(LABELS, shares))
    assert found["Brier score"] == pytest.approx(metrics.brier_score_loss(LABELS, shares))
    assert found["AUROC"] == pytest.approx(metrics.roc_auc_score(LABELS, RAW))
    false, true, _ = metrics.roc_curve(LABELS, RAW)
    assert found["KS"] == pytest.approx((true - false).max())
    glm = LogisticRegression(C=1e12, tol=1e-10).fit(RAW[:, None], LABELS)
    assert found["Calibration slope"] == pytest.approx(glm.coef_[0, 0], rel=1e-4)


def test_the_concordance_is_that_of_all_comparable_pairs() -> None:
    times, agreed, n_pairs = AMOUNTS.round(1), 0.0, 0
    for first in np.flatnonzero(LABELS):
        for other in range(N_ROWS):
            is_later = times[other] > times[first]
            if is_later or (times[other] == times[first] and not LABELS[other]):
                n_pairs += 1
                agreed += (RAW[first] > RAW[other]) + 0.5 * (RAW[first] == RAW[other])
    found = e.concordance_estimate("", np.column_stack([times, LABELS]), RAW).value
    assert found == pytest.approx(agreed / n_pairs)


@pytest.mark.parametrize("power", [1.0, 1.5, 2.0])
def test_deviances(power: float) -> None:
    mean = np.exp(RAW / 3)
    expected = metrics.mean_tweedie_deviance(AMOUNTS, mean, power=power)
    assert tweedie_deviance(AMOUNTS, np.log(mean), power).mean() == pytest.approx(expected)


def test_every_interval_holds_its_value() -> None:
    one = e.area_estimate("", LABELS == 1, RAW)
    low, high = one.interval(0.9)
    assert low < one.value < high
    assert (high - low) / 2 == pytest.approx(1.6449 * one.standard_error, rel=1e-4)


def test_several_targets_have_scores_each() -> None:
    model = random_model(2, 1, n_outputs=2)
    raw = np.column_stack([RAW, AMOUNTS])
    found = {one.name: one.value for one in estimate(model.task, raw + 1.0, raw)}
    assert found["RMSE of output 1"] == pytest.approx(1)
    assert found["Mean of actual less predicted of output 0"] == pytest.approx(1)


def test_metrics_are_those_of_the_model_with_its_remainder() -> None:
    model, rng = with_remainder(random_model(3, 2)), np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 3))
    y = model.raw_scores(X) + rng.normal(size=N_ROWS)
    values = {score.name: score.value for score in measure(model, X, y).scores}
    assert values["R2"] == pytest.approx(metrics.r2_score(y, model.predict(X)))
    assert values["R2"] > metrics.r2_score(y, model.predict(X) - model.remainder_scores(X))
