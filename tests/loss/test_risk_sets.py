"""Risk sets: entries, strata and competing events by plain loops, and as R's survival has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.r_language import answers_of_r
from tpnn.loss.lifetimes import ranked
from tpnn.loss.objectives import COX, OBJECTIVES, cox
from tpnn.loss.risk_sets import Spells

FINE_GRAY, EFRON = OBJECTIVES["fine_gray"], OBJECTIVES["cox_efron"]


def spells(n_rows: int, seed: int = 0) -> np.ndarray:
    """Times with ties, events, entries and strata, (n, 4)."""
    rng = np.random.default_rng(seed)
    entries = rng.integers(0, 8, n_rows)
    times, strata = entries + rng.integers(1, 8, n_rows), rng.integers(0, 3, n_rows)
    return np.column_stack([times, rng.random(n_rows) < 0.6, entries, strata]).astype(float)


def competing(n_rows: int, seed: int = 0) -> np.ndarray:
    """Times with ties and events 0, 1 and 2, (n, 2)."""
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(1, 9, n_rows), rng.integers(0, 3, n_rows)]).astype(float)


def at_risk(y: np.ndarray, row: int) -> np.ndarray:
    """Rows at risk at the time of a row, one by one."""
    time, stratum = y[row, 0], y[row, 3]
    return np.array([entry < time <= end and own == stratum for end, _, entry, own in y])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_entries_and_strata_by_a_plain_loop(dtype: type) -> None:
    y, rng = spells(60), np.random.default_rng(1)
    raw, weights = rng.normal(size=(60, 2)), rng.integers(0, 3, (60, 2)) + rng.random((60, 2))
    weights[:5] = 0
    given = (y.astype(dtype), raw.astype(dtype), weights.astype(dtype))
    losses, (gradient, hessian) = COX.losses(*given), COX.slopes(*given)
    for bag in range(2):
        mass, expected = weights[:, bag] * np.exp(raw[:, bag]), np.zeros(60)
        for row in np.flatnonzero(y[:, 1]):
            alive = at_risk(y, row)
            total = mass[alive].sum()
            if weights[row, bag]:
                loss = np.log(total) - raw[row, bag]
                assert losses[row, bag] == pytest.approx(loss, rel=1e-4, abs=1e-5)
                expected[alive] += weights[row, bag] * np.exp(raw[alive, bag]) / total
        assert gradient[:, bag] == pytest.approx(expected - y[:, 1], rel=1e-4, abs=1e-5)
    assert (losses[y[:, 1] == 0] == 0).all()
    assert (hessian > 0).all()


def test_rows_without_entries_and_strata_are_those_of_two_columns() -> None:
    y, rng = spells(80), np.random.default_rng(2)
    raw, weights = rng.normal(size=(80, 3)), rng.random((80, 3))
    plain = y[:, :2]
    whole = np.column_stack([plain, np.full(80, -np.inf), np.zeros(80)])
    for one, other in zip(
        (COX.losses(plain, raw, weights), *COX.slopes(plain, raw, weights)),
        (COX.losses(whole, raw, weights), *COX.slopes(whole, raw, weights)),
        strict=True,
    ):
        assert one == pytest.approx(other)


def test_ranks_have_the_same_risk_sets_as_times() -> None:
    y = spells(70)
    y[:, [0, 2]] = np.exp(0.3 * y[:, [0, 2]])
    for counted in (np.ones(70, bool), np.arange(70) < 50):
        own, raw = y[counted], np.zeros((counted.sum(), 1))
        ranks, mass = ranked(y, counted)[counted], np.ones_like(raw)
        assert np.array_equal(COX.losses(ranks, raw, mass), COX.losses(own, raw, mass))
        assert Spells.of(ranks).place.tolist() == Spells.of(own).place.tolist()


def test_strata_of_any_level_do_not_disturb_each_other() -> None:
    """A constant of a stratum changes nothing, however large it is."""
    y, rng = spells(90), np.random.default_rng(3)
    raw, weights = rng.normal(size=(90, 1)), np.ones((90, 1))
    moved = raw + np.array([-400.0, 0.0, 900.0])[y[:, 3].astype(int), None]
    assert COX.losses(y, moved, weights) == pytest.approx(COX.losses(y, raw, weights), abs=1e-9)
    for one, other in zip(COX.slopes(y, moved, weights), COX.slopes(y, raw, weights), strict=True):
        assert one == pytest.approx(other)


@pytest.mark.parametrize("spread", [1.0, 40.0, 2000.0])
@pytest.mark.filterwarnings("error")
def test_risks_of_any_size_are_finite(spread: float) -> None:
    rng = np.random.default_rng(4)
    raw, weights = spread * rng.normal(size=(60, 2)), rng.integers(0, 2, (60, 2)).astype(float)
    for objective, y in (
        (COX, spells(60)),
        (EFRON, spells(60)),
        (EFRON, spells(60)[:, :2]),
        (FINE_GRAY, competing(60)),
    ):
        for dtype in (np.float64, np.float32):
            given = y.astype(dtype), raw.astype(dtype), weights.astype(dtype)
            found = (objective.losses(*given), *objective.slopes(*given))
            assert all(np.isfinite(part[weights > 0]).all() for part in found)
            assert all(part.dtype == dtype for part in found)


def uncensored_before(y: np.ndarray, time: float, weights: np.ndarray) -> float:
    """Kaplan-Meier estimate that a row is not censored before a time; events come first."""
    share = 1.0
    for moment in np.unique(y[:, 0][y[:, 0] < time]):
        leaving = (y[:, 0] == moment) & (y[:, 1] == 0)
        there = (y[:, 0] > moment) | leaving
        if weights[leaving].sum():
            share *= 1 - weights[leaving].sum() / weights[there].sum()
    return share


def test_competing_events_by_a_plain_loop() -> None:
    y, rng = competing(50), np.random.default_rng(5)
    raw, weights = rng.normal(size=50), rng.random(50)
    total, expected = 0.0, np.zeros(50)
    free = {time: uncensored_before(y, time, weights) for time in np.unique(y[:, 0])}
    for row in np.flatnonzero(y[:, 1] == 1):
        time = y[row, 0]
        share = np.array(
            [
                1.0 if end >= time else (free[time] / free[end] if kind == 2 else 0.0)
                for end, kind in y
            ]
        )
        alive = (weights * share * np.exp(raw)).sum()
        total += weights[row] * (np.log(alive) - raw[row])
        expected += weights[row] * share * np.exp(raw) / alive
    column, mass = raw[:, None], weights[:, None]
    assert (mass * FINE_GRAY.losses(y, column, mass)).sum() == pytest.approx(total)
    gradient, _ = FINE_GRAY.slopes(y, column, mass)
    assert gradient[:, 0] == pytest.approx(expected - (y[:, 1] == 1))


def test_a_cause_is_an_event_and_others_censor_or_compete() -> None:
    from tpnn.loss.lifetimes import checked_survival

    y = np.column_stack([np.arange(1.0, 5.0), [0, 1, 2, 3]])
    assert checked_survival(y, cox(2)).target(cox(2))[:, 1].tolist() == [0, 0, 1, 0]
    assert checked_survival(y, FINE_GRAY).target(FINE_GRAY)[:, 1].tolist() == [0, 1, 2, 2]


def test_ties_leave_one_after_the_other() -> None:
    """Slopes are those of the loss, and without ties the loss is Breslow's."""
    y, rng = spells(60), np.random.default_rng(7)
    raw, ones = rng.normal(size=(60, 2)), np.ones((60, 2)) / 60
    gradient, _ = EFRON.slopes(y, raw, ones)
    for row in range(0, 60, 5):
        up, down = raw.copy(), raw.copy()
        up[row] += 1e-6
        down[row] -= 1e-6
        totals = [EFRON.losses(y, side, ones).sum(0) for side in (up, down)]
        assert gradient[row] == pytest.approx((totals[0] - totals[1]) / 2e-6, abs=1e-6)
    y[:, 0] += np.linspace(0, 0.5, 60)
    assert EFRON.losses(y, raw, ones) == pytest.approx(COX.losses(y, raw, ones))


def test_losses_are_those_of_r(tmp_path: Path) -> None:
    """Log partial likelihoods of R at given coefficients: entries, strata, Fine and Gray."""
    y, other, rng = spells(150), competing(150), np.random.default_rng(6)
    x = rng.normal(size=150).round(3)
    table = {"x": x, "stop": y[:, 0], "event": y[:, 1], "start": y[:, 2], "s": y[:, 3]}
    copies = rng.integers(1, 4, 150)
    table |= {"time": other[:, 0], "kind": other[:, 1], "id": np.arange(150), "n": copies}
    script = """
    at <- function(f, d, ties = "breslow")
      coxph(f, d, init = 0.7, weights = w, ties = ties, iter.max = 0)$loglik[1]
    d$w <- 1
    d$kind <- factor(d$kind)
    fg <- finegray(Surv(time, kind) ~ ., data = d, etype = "1")
    answer <- data.frame(loss = c(
      at(Surv(start, stop, event) ~ x, d),
      at(Surv(start, stop, event) ~ x + strata(s), d),
      at(Surv(stop, event) ~ x + strata(s), d),
      at(Surv(fgstart, fgstop, fgstatus) ~ x, transform(fg, w = fgwt)),
      at(Surv(stop, event) ~ x, d, "efron"),
      at(Surv(start, stop, event) ~ x + strata(s), d, "efron"),
      at(Surv(stop, event) ~ x, d[rep(seq_len(150), d$n), ], "efron")))
    """
    found = -answers_of_r(script, {"d": table}, ["survival"], tmp_path)["loss"].to_numpy()
    raw, ones = 0.7 * x[:, None], np.ones((150, 1))
    one, free = y * [1, 1, 1, 0], y.copy()
    free[:, 2] = -np.inf
    ours = [COX.losses(given, raw, ones).sum() for given in (one, y, free)]
    ours.append(FINE_GRAY.losses(other, raw, ones).sum())
    ours += [EFRON.losses(given, raw, ones).sum() for given in (y[:, :2], y)]
    mass = copies[:, None] / 1000  # weights that are whole in some unit are copies of a row
    of_rows = EFRON.losses(y[:, :2], raw, mass)[:, 0] + np.log(1000) * y[:, 1]
    ours.append(copies @ of_rows)
    assert ours == pytest.approx(found.tolist(), rel=1e-9)
