"""Survival with entries, strata, values that change with time, and competing events."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.conftest import QUICK
from tpnn import TPNNSurvival, compare, load, validate
from tpnn.explain.metrics import measure
from tpnn.model.edit_log import digest

MAINS = {**QUICK, "order": 1}


def lives(n_rows: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Rows, log hazards, and exponential lifetimes."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.integers(0, 5, n_rows) / 2, "b": rng.normal(size=n_rows).round(1)})
    risk = X["a"].to_numpy() - 1
    return X, risk, rng.exponential(np.exp(-risk))


def test_late_entries_do_not_bias_risks_and_curves() -> None:
    """Only rows that live until their entry are seen; the early ones count for nothing."""
    X, risk, life = lives(6000)
    entry = np.random.default_rng(1).uniform(0, 1.2, len(X))
    seen = life > entry
    y = pd.DataFrame({"entry": entry, "time": life, "event": True})[seen]
    X, risk = X[seen], risk[seen]
    model = TPNNSurvival(**MAINS).fit(X, y)
    blind = TPNNSurvival(**MAINS).fit(X, y[["time", "event"]])
    assert np.polyfit(risk, model.predict(X), 1)[0] == pytest.approx(1.0, abs=0.12)
    times, truth = [0.3, 1.0], np.exp(-np.exp(risk)[:, None] * [0.3, 1.0])
    assert np.abs(model.predict_survival(X, times) - truth).mean() < 0.04
    assert np.abs(blind.predict_survival(X, times) - truth).max() > 0.2
    scores = {score.name: score.value for score in measure(model.model_, X, y).scores}
    assert scores["C-index"] == pytest.approx(model.score(X, y))
    assert scores["Events over expected"] == pytest.approx(1.0)


def test_values_that_change_with_time() -> None:
    """A treatment that begins at 0.5 and halves the hazard, as rows (start, stop, event)."""
    X, _, _ = lives(4000)
    rng, begun = np.random.default_rng(2), 0.5
    first, second = rng.exponential(1, len(X)), begun + rng.exponential(2, len(X))
    treated = rng.random(len(X)) < 0.5
    life = np.where(first < begun, first, np.where(treated, second, first))
    before = pd.DataFrame({"start": 0.0, "stop": np.minimum(life, begun), "event": life <= begun})
    after = pd.DataFrame({"start": begun, "stop": life, "event": True})[life > begun]
    rows = pd.concat(
        [X.assign(drug="no"), X.assign(drug=np.where(treated, "yes", "no"))[life > begun]]
    )
    subject = np.r_[np.arange(len(X)), np.flatnonzero(life > begun)]
    model = TPNNSurvival(**MAINS).fit(rows, pd.concat([before, after]), groups=subject)
    effect = model.predict(X.assign(drug="yes")) - model.predict(X.assign(drug="no"))
    assert effect == pytest.approx(np.full(len(X), -np.log(2)), abs=0.12)


def test_strata_have_their_own_baselines(tmp_path: Any) -> None:
    X, risk, life = lives(3000)
    clinic = np.where(np.random.default_rng(3).random(3000) < 0.5, "east", "west")
    y = pd.DataFrame(
        {"stratum": clinic, "time": life * np.where(clinic == "east", 1, 9), "died": True}
    )
    model = TPNNSurvival(**MAINS).fit(X, y)
    assert np.polyfit(risk, model.predict(X), 1)[0] == pytest.approx(1.0, abs=0.12)
    found = model.predict_survival(X[:50], [1.0], strata=["west"] * 50)
    assert found[:, 0] == pytest.approx(np.exp(-np.exp(risk[:50]) / 9), abs=0.06)
    median = model.predict_time(X[:50], strata=["east"] * 50)
    assert median == pytest.approx(np.log(2) * np.exp(-risk[:50]), rel=0.25)
    model.model_.save(tmp_path / "saved")
    again = load(tmp_path / "saved")
    assert digest(again.model_) == digest(model.model_)
    assert np.array_equal(again.predict_survival(X[:50], [1.0], strata=["west"] * 50), found)
    scores = {score.name: score.value for score in measure(again.model_, X, y).scores}
    assert scores["Events over expected"] == pytest.approx(1.0)
    with pytest.raises(ValueError, match=r"^strata: the stratum of each row is needed"):
        model.predict_survival(X, [1.0])


def test_a_stratum_and_entries_of_zero_change_nothing() -> None:
    X, _, life = lives(300)
    y = pd.DataFrame({"time": life.round(1) + 0.1, "event": True})
    plain = TPNNSurvival(**MAINS).fit(X, y)
    same = TPNNSurvival(**MAINS).fit(X, pd.DataFrame({"entry": 0.0}, y.index).join(y))
    assert same.predict(X) == pytest.approx(plain.predict(X), abs=1e-4)
    lived = plain.predict_survival(X, [0.3, 1.0])
    assert same.predict_survival(X, [0.3, 1.0]) == pytest.approx(lived, abs=1e-4)


def two_causes(n_rows: int) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Rows, targets with events 1 and 2, and the log hazards of both, which are exponential."""
    X, risk, _ = lives(n_rows)
    rng, hazards = np.random.default_rng(4), np.column_stack([risk - 0.5, 0.3 - risk / 2])
    lifes, censored = rng.exponential(np.exp(-hazards)), rng.exponential(3, n_rows)
    kind = np.where(censored < lifes.min(1), 0, lifes.argmin(1) + 1)
    return X, np.column_stack([np.minimum(lifes.min(1), censored), kind]), hazards


def incidence(hazards: np.ndarray, time: float) -> np.ndarray:
    """Share of the first cause by a time, of rows with two constant hazards."""
    first, both = np.exp(hazards[:, 0]), np.exp(hazards).sum(1)
    return first / both * (1 - np.exp(-both * time))


def test_competing_events_by_the_hazard_of_each_cause() -> None:
    X, y, hazards = two_causes(5000)
    models = [
        TPNNSurvival(objective={"name": "cox", "cause": cause}, **MAINS).fit(X, y)
        for cause in (1, 2)
    ]
    for model, truth in zip(models, hazards.T, strict=True):
        assert np.polyfit(truth, model.predict(X), 1)[0] == pytest.approx(1.0, abs=0.12)
    times = [0.2, 1.0, 2.0]
    shares = [models[k].predict_incidence(X, times, others=[models[1 - k]]) for k in (0, 1)]
    truth = np.column_stack([incidence(hazards, time) for time in times])
    assert np.abs(shares[0] - truth).mean() < 0.02
    total = sum(-np.log(model.predict_survival(X, times)) for model in models)
    assert shares[0] + shares[1] == pytest.approx(1 - np.exp(-total))  # nothing is lost


def test_competing_events_by_fine_and_gray() -> None:
    X, y, hazards = two_causes(5000)
    model = TPNNSurvival(objective="fine_gray", **MAINS).fit(X, y)
    truth = incidence(hazards, 1.0)
    found = model.predict_incidence(X, [1.0])[:, 0]
    assert np.abs(found - truth).mean() < 0.03
    assert np.corrcoef(found, truth)[0, 1] > 0.98
    assert found.mean() == pytest.approx(truth.mean(), abs=0.015)
    by_cause = TPNNSurvival(objective={"name": "cox", "cause": 1}, **MAINS).fit(X, y)
    assert by_cause.predict_incidence(X, [1.0]).mean() > truth.mean() + 0.05  # if none competed
    names = [score.name for score in measure(model.model_, X, y).scores]
    assert names == ["fine_gray", "C-index"]


def test_intervals_hold_the_truth_and_agree_with_the_errors() -> None:
    held = []
    for seed in range(3):
        X, risk, life = lives(400, seed)
        model = TPNNSurvival(**MAINS).fit(X, np.column_stack([life, life < 3]))
        low, high = model.predict_survival_interval(X, [0.2, 0.5, 1.0], coverage=0.9)
        found, truth = (
            model.predict_survival(X, [0.2, 0.5, 1.0]),
            np.exp(-np.exp(risk)[:, None] * [0.2, 0.5, 1.0]),
        )
        assert ((low < found) & (found < high)).all()
        held.append(((low < truth) & (truth < high)).mean())
    assert np.mean(held) > 0.8
    wide = model.predict_survival_interval(X, [0.2, 0.5, 1.0], coverage=0.99)
    assert (wide[0] < low).all()
    assert (wide[1] > high).all()


def test_a_median_is_where_the_curve_crosses_one_half() -> None:
    X, _, life = lives(300)
    model = TPNNSurvival(**MAINS).fit(X, np.column_stack([life, life < 0.8]))
    median = model.predict_time(X)
    reached = np.isfinite(median)
    assert 0 < reached.sum() < len(X)
    for row in np.flatnonzero(reached)[:20]:
        times = [np.nextafter(median[row], 0), median[row]]
        before, at = model.predict_survival(X[row : row + 1], times)[0]
        assert at <= 0.5 < before
    never = model.predict_survival(X[~reached], [1e9])
    assert (never > 0.5).all()


BAD: list[tuple[Any, Any, str]] = [
    (
        "cox",
        [[1, 0], [2, 2], [3, 1]],
        r"^y: events must be 0 or 1, found \[0, 1, 2\]\. Of competing",
    ),
    ("cox", [[1, 1, 1], [0, 2, 0]], r"^y: every entry must be before its time, found 1 rows"),
    ("cox", [[1, 2, 3, 1]], r"^y: times, or two columns .* or three .* found shape \(1, 4\)"),
    (
        "fine_gray",
        [[0, 1, 1], [0, 2, 2]],
        r"^y: entries and strata are not supported by 'fine_gray'",
    ),
    ({"name": "cox", "cause": 3}, [[1, 1], [2, 0]], r"^y: at least one event of kind 3 must be"),
    ("poisson", [[1, 1]], r"^objective: must be one of cox, cox_efron, fine_gray; or a dict"),
    ({"name": "cox", "cause": 0}, [[1, 1]], r"^objective: must be one of cox"),
]


@pytest.mark.parametrize(("objective", "y", "words"), BAD)
def test_bad_targets_are_refused_with_what_to_do(objective: Any, y: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        TPNNSurvival(objective=objective, **MAINS).fit(
            np.arange(len(y))[:, None], np.array(y, float)
        )


def test_rows_that_stop_growth_have_the_columns_and_strata_of_the_others() -> None:
    X, _, life = lives(400)
    y = pd.DataFrame({"stratum": ["a", "b"] * 200, "entry": life / 2, "time": life, "died": True})
    split = {"X_val": X[300:], "y_val": y[300:]}
    model = TPNNSurvival(**MAINS).fit(X[:300], y[:300], **split)
    assert model.predict_survival(X[:2], [1.0], strata=["a", "b"]).shape == (2, 1)
    assert model.event_times_.max() <= life[:300].max()
    with pytest.raises(ValueError, match=r"^y_val: must have the columns of y, found entries or"):
        TPNNSurvival(**MAINS).fit(X[:300], y[:300][["time", "died"]], **split)


@pytest.mark.parametrize("order", [["stratum", "time", "died"], ["died", "time", "stratum"]])
def test_columns_of_targets_keep_their_names_in_a_validation(order: list[str]) -> None:
    X, _, life = lives(300)
    y = pd.DataFrame({"stratum": ["a", "b", "b"] * 100, "time": life, "died": life < 2})[order]
    model = TPNNSurvival(**MAINS).fit(X, y)
    found = validate(model, X, y).scores.set_index("score")["value"]
    assert found["C-index"] == pytest.approx(model.score(X, y))
    assert compare({"one": model, "same": model}, X, y).scores["same"][1] == found["C-index"]
