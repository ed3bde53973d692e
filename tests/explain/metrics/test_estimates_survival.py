"""Survival: Kaplan-Meier and Breslow by plain loops, curves that agree where the model is right."""

from __future__ import annotations

import numpy as np
import pytest

from tpnn.explain.metrics import Metrics
from tpnn.explain.metrics import hazards as h
from tpnn.explain.metrics.estimates import beside_constant
from tpnn.loss.objectives import COX
from tpnn.model.evidence import Baseline
from tpnn.model.task import Task


def survival_metrics(
    times: np.ndarray, events: np.ndarray, raw: np.ndarray, baseline: Baseline | None
) -> Metrics:
    """What is measured of log risks."""
    task, target = Task(COX, baseline=baseline), np.column_stack([times, events])
    return Metrics(
        scores=tuple(beside_constant(task, target, raw, np.zeros(len(raw)))),
        survival=h.survival_curves(task, target, raw),
    )


def breslow(
    times: np.ndarray, events: np.ndarray, raw: np.ndarray, weights: np.ndarray | None = None
) -> Baseline:
    return h.breslow(COX, np.column_stack([times, events]), raw, weights)


def kaplan_meier(times: np.ndarray, events: np.ndarray, asked: np.ndarray) -> np.ndarray:
    return h.kaplan_meier(np.column_stack([times, events]), asked)


def lives(n_rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times, events and raw scores of a Cox model with hazard exp(raw), half of them censored."""
    rng = np.random.default_rng(seed)
    raw = rng.normal(size=n_rows)
    life, censored = rng.exponential(np.exp(-raw)), rng.exponential(1.0, n_rows)
    return np.minimum(life, censored), (life <= censored).astype(float), raw


def test_kaplan_meier_by_a_plain_loop() -> None:
    times, events, _ = lives(60)
    times = np.round(times, 1)  # with ties
    for asked in (0.0, 0.3, 0.75, 2.0):
        lived = 1.0
        for moment in np.unique(times[times <= asked]):
            deaths = sum(events[times == moment])
            lived *= 1 - deaths / sum(times >= moment)
        assert kaplan_meier(times, events, np.array([asked]))[0] == pytest.approx(lived)


def test_kaplan_meier_agrees_with_lifelines() -> None:
    lifelines = pytest.importorskip("lifelines")
    times, events, _ = lives(200)
    fitted = lifelines.KaplanMeierFitter().fit(times, events)
    asked = np.linspace(0, times.max(), 50)
    expected = fitted.survival_function_at_times(asked).to_numpy()
    assert kaplan_meier(times, events, asked) == pytest.approx(expected)


def test_breslow_by_a_plain_loop() -> None:
    times, events, raw = lives(50)
    times = np.round(times, 1)
    found, total = breslow(times, events, raw), 0.0
    for moment, log_hazard in zip(found.times, found.log_hazard, strict=True):
        total += sum(events[times == moment]) / sum(np.exp(raw[times >= moment]))
        assert np.exp(log_hazard) == pytest.approx(total)


@pytest.mark.parametrize("kind", ["none", "whole", "any"])
def test_breslow_is_the_same_for_the_same_rows(kind: str) -> None:
    """Shuffled, duplicated, with weights in another unit, and with weights in place of copies."""
    times, events, raw = lives(300)
    times, raw, rng = np.round(times, 1), np.round(raw, 1), np.random.default_rng(0)
    weights = {
        "none": np.ones(300),
        "whole": rng.integers(0, 5, 300).astype(float),
        "any": rng.uniform(size=300),
    }[kind]
    expected = breslow(times, events, raw, weights)
    rows, twice = rng.permutation(300), np.tile(np.arange(300), 2)
    same = [
        breslow(times[rows], events[rows], raw[rows], weights[rows]),
        breslow(times[twice], events[twice], raw[twice], weights[twice]),
        *(breslow(times, events, raw, unit * weights) for unit in (4, 7)),
    ]
    if kind != "any":
        copies = np.repeat(np.arange(300), weights.astype(int))
        same.append(breslow(times[copies], events[copies], raw[copies]))
    for other in same:
        assert np.array_equal(other.times, expected.times)
        assert np.array_equal(other.log_hazard, expected.log_hazard)


def test_predicted_curves_meet_those_observed_where_the_model_is_right() -> None:
    fit_times, fit_events, fit_raw = lives(20_000, seed=1)
    baseline = breslow(fit_times, fit_events, fit_raw)
    times, events, raw = lives(20_000)
    found = survival_metrics(times, events, raw, baseline)
    assert [curve.rows for curve in found.survival] == ["all rows", *h.RISK_THIRDS]
    for curve in found.survival:
        early = curve.times < np.quantile(times, 0.9)
        assert np.abs(curve.observed - curve.predicted)[early].max() < 0.03
        assert curve.observed[0] == 1.0
    loss, score, _ = found.scores
    assert (loss.name, score.name, score.constant) == ("cox", "C-index", 0.5)
    assert loss.constant is not None
    assert loss.value < loss.constant
    assert score.value > 0.65


def test_without_a_baseline_that_of_the_rows_is_used() -> None:
    times, events, raw = lives(500)
    alone = survival_metrics(times, events, raw, None)
    given = survival_metrics(times, events, raw, breslow(times, events, raw))
    assert alone.survival[0].predicted.tolist() == given.survival[0].predicted.tolist()


def test_rows_without_events_have_no_curves() -> None:
    times, _, raw = lives(30)
    found = survival_metrics(times, np.zeros(30), raw, None)
    assert found.survival == ()
    assert found.scores[1].value == 0.5
