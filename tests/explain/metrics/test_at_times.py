"""Scores at given times: plain loops, R's survival, and what they say where nothing is censored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import brier_score_loss, roc_auc_score

from tests.conftest import QUICK
from tests.loss.test_risk_sets import competing, uncensored_before
from tests.r_language import answers_of_r
from tpnn import TPNNClassifier, TPNNRegressor, TPNNSurvival
from tpnn.explain.metrics.at_times import Followed, at_times, net_benefit, uno_concordance
from tpnn.explain.metrics.hazards import kaplan_meier, proportional_hazards, score_test

RNG = np.random.default_rng(0)
X = pd.DataFrame({"a": RNG.normal(size=500), "b": RNG.integers(0, 4, 500)})
LIFE = RNG.exponential(np.exp(-X["a"].to_numpy()))
CENSORED = RNG.exponential(2.0, 500)
Y = np.column_stack([np.minimum(LIFE, CENSORED).round(2), LIFE <= CENSORED])
MAINS = {**QUICK, "order": 1}


@pytest.fixture(scope="module")
def model() -> Any:
    return TPNNSurvival(**MAINS).fit(X, Y)


def test_weights_by_a_plain_loop() -> None:
    target = competing(80)
    followed, ones = Followed(target), np.ones(80)
    for time in (1.0, 3.0, 5.5, 7.9):
        for row, weight in enumerate(followed.weights(time)):
            own, event = target[row]
            known = own > time or event > 0
            after = time + 1e-9 if own > time else own
            expected = 1 / uncensored_before(target, after, ones) if known else 0.0
            assert weight == pytest.approx(expected)


def test_the_weighted_share_is_that_of_kaplan_and_meier() -> None:
    followed, times = Followed(Y), np.quantile(Y[:, 0], [0.1, 0.5, 0.9])
    for time in times:
        share = followed.share(np.ones(500, bool), time)
        assert share == pytest.approx(1 - kaplan_meier(Y, np.array([time]))[0])


def test_scores_are_those_of_r(model: Any, tmp_path: Path) -> None:
    times, raw = [0.305, 0.705, 1.205], model.predict(X)  # R keeps who is censored then
    found = at_times(model.model_, X, Y, times)
    lived = model.predict_survival(X, times)
    table = {"time": Y[:, 0], "event": Y[:, 1], "raw": raw}
    table |= {f"s{k}": lived[:, k] for k in range(3)}
    other = competing(200)
    script = """
    d$y <- Surv(d$time, d$event)
    w <- rttright(y ~ 1, d, times = c(0.305, 0.705, 1.205))
    s <- cbind(d$s0, d$s1, d$s2)
    late <- outer(d$time, c(0.305, 0.705, 1.205), ">")
    brier <- colSums(w * (late - s)^2) / colSums(w)
    aj <- summary(survfit(Surv(time, factor(kind)) ~ 1, o), times = c(2, 5))$pstate[, 2]
    uno <- concordance(y ~ raw, d, reverse = TRUE, timewt = "n/G2")$concordance
    answer <- data.frame(value = c(brier, uno, aj))
    """
    tables = {"d": table, "o": {"time": other[:, 0], "kind": other[:, 1]}}
    answer = answers_of_r(script, tables, ["survival"], tmp_path)["value"].to_numpy()
    assert found.scores["brier"].to_numpy() == pytest.approx(answer[:3], rel=1e-9)
    assert uno_concordance(Followed(Y), raw, Y[:, 0].max()) == pytest.approx(answer[3], rel=1e-9)
    shares = [Followed(other).share(np.ones(len(other), bool), time) for time in (2.0, 5.0)]
    assert shares == pytest.approx(answer[4:])


def test_where_nothing_is_censored_they_are_the_usual_scores() -> None:
    y = np.column_stack([LIFE, np.ones(500)])
    model = TPNNSurvival(**MAINS).fit(X, y)
    found, times = at_times(model.model_, X, y, [0.4, 1.0]), [0.4, 1.0]
    for line, time in zip(found.scores.itertuples(), times, strict=True):
        had, risk = time >= LIFE, 1 - model.predict_survival(X, [time])[:, 0]
        assert line.brier == pytest.approx(brier_score_loss(had, risk))
        assert line.auc == pytest.approx(roc_auc_score(had, risk))
        assert line.observed == pytest.approx(had.mean())
        assert line.expected == pytest.approx(risk.mean())
        assert line.brier_constant == pytest.approx(had.mean() * (1 - had.mean()))
    groups = found.calibration[found.calibration["time"] == 0.4]
    assert groups["n_rows"].sum() == 500
    total = (groups["n_rows"] * groups["observed"]).sum()
    assert total == pytest.approx((LIFE <= 0.4).sum())
    assert (groups["lower"] <= groups["observed"]).all()
    assert found.integrated_brier == pytest.approx(found.scores["brier"].mean())


def test_the_scores_of_the_truth_hardly_depend_on_censoring() -> None:
    """Of 4,000 rows with known risks, half of them censored: as if all had been followed."""
    rng = np.random.default_rng(1)
    risk = rng.normal(size=4000)
    life, censored = rng.exponential(np.exp(-risk)), rng.exponential(1.0, 4000)
    whole = Followed(np.column_stack([life, np.ones(4000)]))
    part = Followed(np.column_stack([np.minimum(life, censored), life <= censored]))
    assert part.share(risk > 1, 0.5) == pytest.approx(whole.share(risk > 1, 0.5), abs=0.03)
    scores = [uno_concordance(rows, risk, 1.0) for rows in (whole, part)]
    assert scores[1] == pytest.approx(scores[0], abs=0.015)


def test_net_benefit_by_counting() -> None:
    labels = np.where(X["a"] + RNG.normal(size=500) > 0, "ill", "well")
    model = TPNNClassifier(**MAINS).fit(X, labels)
    found = net_benefit(model.model_, X, labels, [0.2, 0.6])
    for line in found.itertuples():
        treated = model.predict_proba(X)[:, 1] >= line.threshold
        odds = line.threshold / (1 - line.threshold)
        right, wrong = (labels[treated] == "well").sum(), (labels[treated] == "ill").sum()
        assert line.model == pytest.approx((right - odds * wrong) / 500)
        assert line.all == pytest.approx(
            ((labels == "well").sum() - odds * (labels == "ill").sum()) / 500
        )


def test_net_benefit_at_a_time(model: Any) -> None:
    found = net_benefit(model.model_, X, Y, [0.3, 0.999], time=0.7)
    treated = 1 - model.predict_survival(X, [0.7])[:, 0] >= 0.3
    right = 1 - kaplan_meier(Y[treated], np.array([0.7]))[0]
    expected = treated.mean() * (right - 0.3 / 0.7 * (1 - right))
    assert found["model"][0] == pytest.approx(expected)
    assert found["model"][1] == pytest.approx(0.0, abs=0.01)


def test_hazards_that_cross_are_found() -> None:
    rng = np.random.default_rng(2)
    changing, steady = rng.normal(size=(2, 3000))
    early = rng.exponential(np.exp(-changing - steady))
    late = 0.5 + rng.exponential(np.exp(changing - steady))
    rows = pd.DataFrame({"changing": changing, "steady": steady})
    life = np.where(early < 0.5, early, late)
    model = TPNNSurvival(**MAINS).fit(rows, np.column_stack([life, np.ones(3000)]))
    found = proportional_hazards(model.model_, rows, np.column_stack([life, np.ones(3000)]))
    p_values = found.set_index("component")["p_value"]
    assert p_values["changing"] < 1e-10
    assert p_values["all components"] < 1e-10
    assert found["change"][0] < -1
    assert abs(found.set_index("component")["change"]["steady"]) < 0.6


def test_p_values_are_uniform_where_hazards_are_proportional() -> None:
    found = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        score = rng.normal(size=(150, 1))
        life, censored = rng.exponential(np.exp(-score[:, 0])), rng.exponential(2, 150)
        target = np.column_stack(
            [np.minimum(life, censored), life <= censored, np.full(150, -np.inf), np.zeros(150)]
        )
        part, variance = score_test(target, 0.8 * score[:, 0], score)  # shrunken
        found.append(part[0] ** 2 / variance[0, 0])
    assert np.mean(found) == pytest.approx(1.0, abs=0.4)
    assert np.mean(np.array(found) > 3.84) < 0.15


def test_the_score_test_is_that_of_r(tmp_path: Path) -> None:
    """At the coefficients of R, with strata, entries and without ties."""
    rng = np.random.default_rng(3)
    x, strata = rng.normal(size=(200, 2)).round(3), rng.integers(0, 2, 200)
    life, start = rng.exponential(np.exp(-x[:, 0])).round(6), rng.uniform(0, 0.2, 200).round(6)
    stop, event = start + life + 0.001, rng.random(200) < 0.7
    table = {"x": x[:, 0], "z": x[:, 1], "start": start, "stop": stop, "event": event * 1.0}
    table |= {"s": strata}
    script = """
    fit <- coxph(Surv(start, stop, event) ~ x + z + strata(s), d, ties = "breslow")
    test <- cox.zph(fit, transform = "km", terms = FALSE)$table
    answer <- data.frame(chi2 = test[, 1], b = c(coef(fit), NA))
    """
    answer = answers_of_r(script, {"d": table}, ["survival"], tmp_path)
    target = np.column_stack([stop, event, start, strata])
    raw = x @ answer["b"].to_numpy()[:2]
    scores, variances = score_test(target, raw, x)
    ours = [*(scores**2 / np.diag(variances)), scores @ np.linalg.solve(variances, scores)]
    assert ours == pytest.approx(answer["chi2"].tolist(), rel=1e-5)


def test_competing_events_are_scored_by_the_share_of_all_rows() -> None:
    y = np.column_stack([Y[:, 0], np.where(Y[:, 1], np.where(X["b"] > 2, 2, 1), 0)])
    model = TPNNSurvival(objective="fine_gray", **MAINS).fit(X, y)
    found = at_times(model.model_, X, y, [0.5, 1.0])
    assert (found.scores["brier"] < found.scores["brier_constant"]).all()
    assert (abs(found.scores["observed"] - found.scores["expected"]) < 0.05).all()
    assert (found.scores["auc"] > 0.6).all()
    with pytest.raises(ValueError, match=r"^model: one fitted by .* found one of 'fine_gray'"):
        proportional_hazards(model.model_, X, y)


def test_what_cannot_be_scored_is_refused(model: Any) -> None:
    with pytest.raises(ValueError, match=r"^times: must lie before the last time of these rows"):
        at_times(model.model_, X, Y, [1e6])
    late = np.column_stack([Y[:, 0] / 2, Y[:, 0] + 1, Y[:, 1]])
    with pytest.raises(ValueError, match=r"^y: scores at a time need rows that were followed from"):
        at_times(model.model_, X, late, [1.0])
    numbers = TPNNRegressor(**MAINS).fit(X, LIFE)
    with pytest.raises(
        ValueError, match=r"^model: a survival model is needed, found one of number"
    ):
        at_times(numbers.model_, X, LIFE, [1.0])
    with pytest.raises(ValueError, match=r"^model: two classes, or a survival model and a time"):
        net_benefit(model.model_, X, Y)
    with pytest.raises(ValueError, match=r"^thresholds: must lie between 0 and 1, found 1"):
        net_benefit(model.model_, X, Y, [1], time=1.0)
