"""One loss has one name and one figure: in the log of edits, in comparison, validation and report.

The figure is in the unit of the target: the mean square, the mean distance, the deviance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import nbinom
from sklearn import metrics

from tests.loss.test_risk_sets import uncensored_before
from tpnn import TPNNClassifier, TPNNRegressor, TPNNSurvival, compare, validate
from tpnn.explain.metrics import measure
from tpnn.loss.objectives import OBJECTIVES, QUARTILE_RANGE

QUICK: dict[str, Any] = {"order": 1, "random_state": 0, "verbose": 0}
N_ROWS = 301
RNG = np.random.default_rng(0)
X = RNG.uniform(size=(N_ROWS, 2))
SCORE = 2 * X[:, 0] + X[:, 1] ** 2
NUMBERS = 50 * (SCORE + 0.3 * RNG.standard_t(3, N_ROWS))
COUNTS = RNG.poisson(np.exp(SCORE)).astype(float)
AMOUNTS = RNG.gamma(2.0, np.exp(SCORE)) + 0.01
LIVES = np.column_stack([RNG.exponential(np.exp(-SCORE)), RNG.random(N_ROWS) < 0.7])
LABELS = np.where(NUMBERS > 75, "high", "low")
KINDS = np.column_stack(
    [LIVES[:, 0].round(1), RNG.choice(3, N_ROWS, p=[0.2, 0.7, 0.1])]
)  # of events
TIED = np.column_stack([LIVES[:, 0].round(1), LIVES[:, 1]])
TARGETS = {
    "poisson": COUNTS, "negative_binomial": COUNTS, "tweedie": COUNTS, "gamma": AMOUNTS,
    "cox": LIVES, "cox_efron": TIED, "fine_gray": KINDS, "log_loss": LABELS,
}  # fmt: skip
CASES: dict[str, tuple[Any, Any]] = {
    name: (name, TARGETS.get(name, NUMBERS)) for name in OBJECTIVES
} | {
    "huber:1": ({"name": "huber", "threshold": 1.0}, NUMBERS),
    "quantile:0.1,0.9": ({"name": "quantile", "levels": [0.1, 0.9]}, NUMBERS),
    "tweedie:1.2": ({"name": "tweedie", "power": 1.2}, COUNTS),
    "several targets": ("squared_error", np.column_stack([NUMBERS, 300 - 3 * NUMBERS])),
    "several classes": ("log_loss", np.digitize(NUMBERS, [50, 100])),
}


def fitted(objective: Any, y: Any, n_bags: int = 2) -> Any:
    """A small model of a loss."""
    settings = QUICK | {"n_bags": n_bags}
    if objective == "log_loss":
        return TPNNClassifier(**settings).fit(X, y).model_
    if objective in ("cox", "cox_efron", "fine_gray"):
        return TPNNSurvival(objective=objective, **settings).fit(X, y).model_
    return TPNNRegressor(objective=objective, **settings).fit(X, y).model_


@pytest.mark.parametrize("case", CASES)
def test_a_loss_has_one_name_and_one_figure(case: str) -> None:
    objective, y = CASES[case]
    model, name = fitted(objective, y), objective if isinstance(objective, str) else case[:-2]
    edited = model.edit("x0", scale=0.5, X=X, y=y)
    effect = edited.log()[0]["effect"]
    compared = compare({"old": model, "new": edited}, X, y).scores.iloc[0]
    validated = validate(model, X, y).scores.iloc[0]
    measured = measure(model, X, y).scores[0]
    names = {effect["loss"], compared["score"], validated["score"], measured.name}
    assert names == {model.summary().header["loss"]}
    assert names == {name.split(":")[0]}
    figures = [compared["old"], validated["value"], measured.value]
    assert figures == pytest.approx([effect["before"]] * 3, rel=1e-9)
    assert compared["new"] == pytest.approx(effect["after"], rel=1e-9)
    assert effect["after"] > effect["before"]


def pinball(y: Any, predicted: Any, levels: Any) -> float:
    columns = zip(predicted.reshape(N_ROWS, -1).T, levels, strict=True)
    return float(np.mean([metrics.mean_pinball_loss(y, p, alpha=a) for p, a in columns]))


def huber(y: Any, predicted: Any, threshold: float) -> float:
    low, high = np.quantile(y, [0.25, 0.75], method="inverted_cdf")
    edge, size = threshold * (high - low) / QUARTILE_RANGE, np.abs(y - predicted)
    return float(np.where(size < edge, size**2 / 2, edge * (size - edge / 2)).mean())


def partial_likelihood(y: Any, risk: Any) -> float:
    """Cox's, by a plain loop, with the mean over those at risk."""
    found = [np.log(np.sum(risk[y[:, 0] >= y[i, 0]]) / N_ROWS) - np.log(risk[i])
             for i in np.flatnonzero(y[:, 1])]  # fmt: skip
    return float(np.sum(found) / N_ROWS)


def tied_likelihood(y: Any, risk: Any) -> float:
    """Efron's, in the same way: those with an event leave one after the other."""
    found = 0.0
    for time in np.unique(y[:, 0]):
        dead = (y[:, 0] == time) & (y[:, 1] == 1)
        for left in range(n_dead := int(dead.sum())):
            rest = risk[y[:, 0] >= time].sum() - left / n_dead * risk[dead].sum()
            found += np.log(rest / N_ROWS)
        found -= np.log(risk[dead]).sum()
    return float(found / N_ROWS)


def shares_likelihood(y: Any, risk: Any) -> float:
    """That of Fine and Gray, in the same way."""
    ones, found = np.ones(N_ROWS), 0.0
    free = {time: uncensored_before(y, time, ones) for time in np.unique(y[:, 0])}
    for i in np.flatnonzero(y[:, 1] == 1):
        gone = (y[:, 0] < y[i, 0]) & (y[:, 1] == 2)
        share = [free[y[i, 0]] / free[time] for time in y[gone, 0]]
        alive = risk[y[:, 0] >= y[i, 0]].sum() + share @ risk[gone]
        found += np.log(alive / N_ROWS) - np.log(risk[i])
    return float(found / N_ROWS)


def overdispersed(y: Any, predicted: Any) -> float:
    """Twice the difference to the largest log-likelihood, which each count as its mean has."""
    shape = 1 / fitted("negative_binomial", y).task.objective.dispersion
    most, own = (nbinom.logpmf(y, shape, shape / (shape + mean)) for mean in (y, predicted))
    return float(2 * (most - own).mean())


FIGURES: dict[str, Callable[[Any, Any], float]] = {
    "squared_error": metrics.mean_squared_error,
    "several targets": metrics.mean_squared_error,
    "absolute_error": metrics.mean_absolute_error,
    "huber": lambda y, p: huber(y, p, 0.5),
    "huber:1": lambda y, p: huber(y, p, 1.0),
    "quantile": lambda y, p: pinball(y, p, [0.5]),
    "quantile:0.1,0.9": lambda y, p: pinball(y, p, [0.1, 0.9]),
    "poisson": metrics.mean_poisson_deviance,
    "negative_binomial": overdispersed,
    "gamma": metrics.mean_gamma_deviance,
    "tweedie": lambda y, p: metrics.mean_tweedie_deviance(y, p, power=1.5),
    "tweedie:1.2": lambda y, p: metrics.mean_tweedie_deviance(y, p, power=1.2),
    "log_loss": lambda y, p: metrics.log_loss(y == "low", p),
    "several classes": metrics.log_loss,
    "cox": partial_likelihood,
    "cox_efron": tied_likelihood,
    "fine_gray": shares_likelihood,
}


@pytest.mark.parametrize("case", CASES)
def test_the_figure_is_in_the_unit_of_the_target(case: str) -> None:
    """As scikit-learn and plain loops have it; the name of each loss has such a figure."""
    objective, y = CASES[case]
    model = fitted(objective, y)
    expected = FIGURES[case](y, model.predict(X))
    assert model.task.loss(y, model.raw_scores(X)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("case", ["squared_error", "huber", "quantile:0.1,0.9", "several targets"])
def test_the_summary_is_in_the_unit_of_the_target(case: str) -> None:
    """In cents, the loss of the fit is that in the unit of money to its degree."""
    objective, y = CASES[case]
    facts, cents = (fitted(objective, target).evidence.tests for target in (y, 100 * y))
    factor = 100 if "quantile" in case else 100**2
    assert cents.loss == pytest.approx(factor * facts.loss, rel=1e-3)
    without = [line.loss_without for line in facts.components]
    assert [line.loss_without for line in cents.components] == pytest.approx(
        [factor * loss for loss in without], rel=1e-3
    )


@pytest.mark.parametrize("case", CASES)
def test_the_held_out_loss_of_the_summary_is_about_that_of_new_rows(case: str) -> None:
    """On rows that are like those of the fit: the same figure, up to chance and overfitting."""
    objective, y = CASES[case]
    model = fitted(objective, y, n_bags=8)  # most rows are held out by one of them
    new = model.task.loss(y, model.raw_scores(X))
    constant = measure(model, X, y).scores[0].constant
    assert constant is not None
    assert abs(model.evidence.tests.loss - new) < 0.5 * (constant - new)
