"""Survival: hazard ratios, the baseline by hand, concordance, every form of the target."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.conftest import QUICK
from tests.estimators.test_tasks import SOLVERS, converging, groups
from tpnn import TPNNSurvival, load
from tpnn.explain.metrics.estimates import concordance_estimate
from tpnn.loss.lifetimes import checked_survival
from tpnn.loss.objectives import COX
from tpnn.model.edit_log import digest


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("spread", [30.0, 300.0, 3000.0])
def test_offsets_of_any_spread_give_finite_curves(spread: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    offset = rng.normal(size=150) * spread
    y = np.column_stack([np.argsort(np.argsort(-offset)) + 1.0, rng.random(150) < 0.8])
    model = TPNNSurvival(**QUICK).fit(X, y, offset=offset)
    lived = model.predict_survival(X, [1.0, 75.0, 150.0], offset=offset)
    assert np.isfinite(model.predict(X, offset)).all()
    assert ((lived >= 0) & (lived <= 1)).all()
    assert model.score(X, y, offset=offset) > 0.9


@pytest.mark.parametrize("constant", [-800.0, 720.0, 5e4])
def test_a_large_constant_offset_gives_the_model_without_it(constant: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    y = np.column_stack([rng.exponential(np.exp(-X[:, 0])), rng.random(150) < 0.8])
    plain = TPNNSurvival(**QUICK).fit(X, y)
    moved = TPNNSurvival(**QUICK).fit(X, y, offset=np.full(150, constant))
    for one, other in zip(plain.model_.tables, moved.model_.tables, strict=True):
        np.testing.assert_array_equal(one, other)
    lived = moved.predict_survival(X, y[:9, 0], offset=np.full(150, constant))
    assert lived == pytest.approx(plain.predict_survival(X, y[:9, 0]), abs=1e-10)


def all_events(times: Any) -> Any:
    return np.column_stack([times, np.ones(len(times))])


DURATIONS: dict[str, Any] = {
    "pandas": pd.to_timedelta,
    "numpy": lambda days, unit: (days * 86400e6).astype("timedelta64[us]"),
    "python": lambda days, unit: [timedelta(days=day) for day in days.tolist()],
}


@pytest.mark.parametrize("kind", DURATIONS)
def test_durations_are_seconds(kind: str) -> None:
    rng = np.random.default_rng(0)
    X, days, died = rng.normal(size=(60, 2)), rng.integers(1, 50, 60), rng.random(60) < 0.8
    durations = DURATIONS[kind](days, unit="D")
    y = pd.DataFrame({"time": durations, "died": died})
    model = TPNNSurvival(**QUICK).fit(X, y)
    plain = TPNNSurvival(**QUICK).fit(X, np.column_stack([86400.0 * days, died]))
    assert digest(model.model_) == digest(plain.model_)
    lived = plain.predict_survival(X, 86400.0 * days[:5])
    assert np.array_equal(model.predict_survival(X, durations[:5]), lived)
    assert model.score(X, y) == plain.score(X, np.column_stack([86400.0 * days, died]))


def test_tied_times_in_any_order_give_the_same_model() -> None:
    rng = np.random.default_rng(0)
    X, times, died = rng.normal(size=(80, 2)), rng.integers(1, 6, 80), rng.random(80) < 0.8
    y, weights = np.column_stack([times, died]), rng.integers(1, 4, 80)
    rows = rng.permutation(80)
    models = [
        TPNNSurvival(**QUICK).fit(X, y, weights),
        TPNNSurvival(**QUICK).fit(X[rows], y[rows], weights[rows]),
        TPNNSurvival(**QUICK).fit(X, y, 7 * weights),
    ]
    assert len({digest(model.model_) for model in models}) == 1


@pytest.mark.parametrize("solver", SOLVERS)
def test_cox_finds_the_hazard_ratios(solver: str) -> None:
    rng = np.random.default_rng(10)
    X, level = groups(4000)
    risk = 0.7 * level
    life, censored = rng.exponential(np.exp(-risk)), rng.exponential(1.0, len(X))
    y = np.column_stack([np.minimum(life, censored), life <= censored])
    model = TPNNSurvival(**converging(solver)).fit(X, y)
    raw = model.predict(X)
    assert raw - raw.mean() == pytest.approx(risk - risk.mean(), abs=0.15)
    lived = model.predict_survival(X, [0.0, 0.5])
    assert (lived[:, 0] == 1.0).all()
    truth = np.exp(-0.5 * np.exp(risk))
    assert lived[:, 1] == pytest.approx(truth, abs=0.05)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("constant", [-800.0, 720.0, 800.0])
def test_a_constant_offset_changes_no_survival(constant: float, settings: dict[str, Any]) -> None:
    rng = np.random.default_rng(15)
    X, level = groups(300)
    y = np.column_stack([rng.exponential(np.exp(-level)), rng.random(300) < 0.8])
    offset, times = np.full(300, constant), [0.0, 0.5, 1.0]
    plain = TPNNSurvival(**settings).fit(X, y)
    expected = np.append(0.0, plain.baseline_hazard_)[
        np.searchsorted(plain.event_times_, times, side="right")
    ]
    lived = plain.predict_survival(X, times)
    assert lived == pytest.approx(np.exp(-np.exp(plain.predict(X))[:, None] * expected))
    moved = TPNNSurvival(**settings).fit(X, y, offset=offset)
    assert moved.predict_survival(X, times, offset) == pytest.approx(lived, abs=1e-9)


def test_baseline_hazard_of_breslow_by_hand() -> None:
    y = np.array([[1.0, 1], [2.0, 1], [2.0, 0], [3.0, 1]])
    model = TPNNSurvival(**QUICK, order=1).fit(np.ones((4, 1)), y, [1.0, 2.0, 1.0, 0.0])
    assert model.event_times_.tolist() == [1.0, 2.0]
    assert model.baseline_hazard_ == pytest.approx([1 / 4, 1 / 4 + 2 / 3])


@pytest.mark.parametrize("offset", [None, "exposed"])
def test_a_loaded_model_has_the_survival_curves(offset: Any, table: Any, tmp_path: Any) -> None:
    X, y = table
    X = X.assign(exposed=np.linspace(-1.0, 1.0, len(X)))
    model = TPNNSurvival(**QUICK, offset=offset).fit(X, all_events(np.exp(y)))
    model.model_.save(tmp_path / "saved")
    loaded = load(tmp_path / "saved").model_
    times = np.quantile(np.exp(y), [0.0, 0.3, 0.9])
    assert np.array_equal(loaded.predict_survival(X, times), model.predict_survival(X, times))
    assert np.array_equal(loaded.evidence.baseline.times, model.event_times_)
    assert np.array_equal(np.exp(loaded.evidence.baseline.log_hazard), model.baseline_hazard_)
    assert np.array_equal(loaded.raw_scores(X), model.predict(X))
    assert np.array_equal(np.log(loaded.predict(X)).round(9), model.predict(X).round(9))


def test_models_of_the_path_have_no_baseline(table: Any) -> None:
    X, y = table
    model = TPNNSurvival(**QUICK).fit(X, all_events(np.exp(y)))
    with pytest.raises(ValueError, match=r"^baseline: this model has no baseline"):
        model.path().model(1).predict_survival(X, [1.0])


def test_concordance_agrees_with_lifelines() -> None:
    utils = pytest.importorskip("lifelines.utils")
    rng = np.random.default_rng(11)
    times, events = rng.integers(1, 20, 200).astype(float), (rng.random(200) < 0.6).astype(float)
    risk = rng.integers(0, 8, 200).astype(float)
    expected = utils.concordance_index(times, -risk, events)
    found = concordance_estimate("C-index", np.column_stack([times, events]), risk).value
    assert found == pytest.approx(expected)


TIMES, EVENTS = np.array([1.0, 2.5, 2.5, 4.0]), np.array([True, False, True, True])
FORMS: dict[str, Any] = {
    "two columns": np.column_stack([TIMES, EVENTS]),
    "list": [[t, e] for t, e in zip(TIMES.tolist(), EVENTS.tolist(), strict=True)],
    "frame": pd.DataFrame({"time": TIMES, "event": EVENTS}),
    "frame, event first": pd.DataFrame({"event": EVENTS, "time": TIMES}),
    "structured": np.array(
        list(zip(EVENTS, TIMES, strict=True)), dtype=[("event", bool), ("time", float)]
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_the_target_is_the_same(form: str) -> None:
    times, events, *_ = checked_survival(FORMS[form], COX)
    assert times.tolist() == TIMES.tolist()
    assert events.tolist() == EVENTS.tolist()


def test_times_alone_are_all_taken_as_events_with_a_warning(table: Any) -> None:
    X, y = table
    times = np.exp(y.to_numpy())
    found = r"^y: times and events are needed, found times alone, shape \(400,\).*pass two columns"
    with pytest.warns(UserWarning, match=found) as record:
        alone = TPNNSurvival(**QUICK).fit(X, times)
    assert [warning.filename for warning in record] == [__file__]
    both = TPNNSurvival(**QUICK).fit(X, all_events(times))
    assert np.array_equal(alone.predict(X), both.predict(X))
    assert np.array_equal(alone.baseline_hazard_, both.baseline_hazard_)
    with pytest.warns(UserWarning, match="times alone"):
        score = alone.score(X, times)
    assert score == both.score(X, all_events(times))
    assert score > 0.7


def test_survival_falls_with_time_and_with_risk(table: Any) -> None:
    X, y = table
    model = TPNNSurvival(**QUICK).fit(X, all_events(np.exp(y)))
    times = np.quantile(np.exp(y), [0.1, 0.5, 0.9])
    lived = model.predict_survival(X, times)
    assert lived.shape == (400, 3)
    assert ((np.diff(lived, axis=1) < 0) | (lived[:, 1:] == 0)).all()  # it may underflow
    assert (np.diff(lived[np.argsort(model.predict(X))], axis=0) <= 0).all()


def test_the_unit_of_time_does_not_matter(table: Any) -> None:
    """Cox's likelihood knows the order of the times and nothing else of them."""
    X, y = table
    hours = TPNNSurvival(**QUICK).fit(X, all_events(np.exp(y)))
    others = TPNNSurvival(**QUICK).fit(X, all_events(np.exp(y) ** 3 / 24))
    assert np.array_equal(hours.predict(X), others.predict(X))
    assert others.event_times_ == pytest.approx(hours.event_times_**3 / 24)
    assert np.array_equal(hours.baseline_hazard_, others.baseline_hazard_)


def test_concordance_of_no_comparable_rows_is_a_coin() -> None:
    times, risk = np.array([1.0, 2.0]), np.array([0.3, 0.7])
    assert concordance_estimate("C-index", np.column_stack([times, np.zeros(2)]), risk).value == 0.5
