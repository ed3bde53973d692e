"""Hazards: baselines with entries, strata and competing events, against R and plain loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.loss.test_risk_sets import EFRON, FINE_GRAY, at_risk, competing, spells
from tests.r_language import answers_of_r
from tpnn.explain.metrics.estimates import concordance_estimate
from tpnn.explain.metrics.hazards import breslow, hazards, kaplan_meier
from tpnn.loss.objectives import COX
from tpnn.model.evidence import Baseline

RAW = np.random.default_rng(9).normal(size=120).round(2)


def test_baselines_and_their_errors_are_those_of_r(tmp_path: Path) -> None:
    y, other = spells(120), competing(120)
    table = {"raw": RAW, "stop": y[:, 0], "event": y[:, 1], "start": y[:, 2], "s": y[:, 3]}
    table |= {"time": other[:, 0], "kind": other[:, 1], "id": np.arange(120)}
    script = """
    curve <- function(f, d, ties = "breslow") {
      environment(f) <- environment()  # where survfit looks for d
      fit <- coxph(f, d, weights = w, ties = ties)
      type <- if (ties == "breslow") 1 else 2
      c <- survfit(fit, newdata = data.frame(raw = 0), ctype = type, censor = FALSE)
      data.frame(time = c$time, hazard = c$cumhaz, error = c$std.err)
    }
    d$w <- 1
    d$kind <- factor(d$kind)
    fg <- finegray(Surv(time, kind) ~ ., data = d, etype = "1")
    fg$w <- fg$fgwt
    plain <- curve(Surv(stop, event) ~ offset(raw), d)
    late <- curve(Surv(start, stop, event) ~ offset(raw), d)
    strata <- do.call(rbind, lapply(0:2, function(k)
      curve(Surv(start, stop, event) ~ offset(raw), d[d$s == k, ])))
    gray <- curve(Surv(fgstart, fgstop, fgstatus) ~ offset(raw), fg)
    efron <- curve(Surv(start, stop, event) ~ offset(raw), d, "efron")
    answer <- rbind(cbind(plain, of = 1), cbind(late, of = 2), cbind(strata, of = 3),
                    cbind(gray, of = 4), cbind(efron, of = 5))
    answer <- answer[answer$hazard > 0, ]
    """
    answer = answers_of_r(script, {"d": table}, ["survival"], tmp_path)
    names = ("a", "b", "c")
    ours = [
        breslow(COX, y[:, :2], RAW),
        breslow(COX, y * [1, 1, 1, 0], RAW),
        breslow(COX, y, RAW, strata=names),
        breslow(FINE_GRAY, other, RAW),
        breslow(EFRON, y * [1, 1, 1, 0], RAW),
    ]
    for number, found in enumerate(ours, 1):
        expected = answer[answer["of"] == number]
        assert found.times.tolist() == expected["time"].tolist()
        assert np.exp(found.log_hazard) == pytest.approx(expected["hazard"].to_numpy())
        if number < 4:  # R takes the pieces of a row for rows there
            assert found.errors is not None
            sizes = found.errors * np.exp(found.log_hazard)
            assert sizes == pytest.approx(expected["error"].to_numpy())


@pytest.mark.parametrize("kind", ["entries", "competing"])
def test_baselines_do_not_depend_on_order_copies_and_unit(kind: str) -> None:
    target, objective = (spells(120), COX) if kind == "entries" else (competing(120), FINE_GRAY)
    strata = ("a", "b", "c") if kind == "entries" else ()
    rng = np.random.default_rng(0)
    weights = rng.integers(1, 4, 120).astype(float)
    rows, copies = rng.permutation(120), np.repeat(np.arange(120), weights.astype(int))
    first = breslow(objective, target, RAW, weights, strata)
    for some, mass in ((rows, weights[rows]), (copies, None), (slice(None), 7 * weights)):
        again = breslow(objective, target[some], RAW[some], mass, strata)
        assert np.array_equal(again.log_hazard, first.log_hazard)
        assert again.errors is not None
        assert np.array_equal(again.errors, first.errors)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_baselines_of_weights_whose_squares_are_no_doubles(unit: float) -> None:
    y, weights = spells(120)[:, :2], np.random.default_rng(0).random(120)
    first, again = breslow(COX, y, RAW, weights), breslow(COX, y, RAW, unit * weights)
    assert again.log_hazard == pytest.approx(first.log_hazard)
    assert again.errors == pytest.approx(first.errors)
    light = np.r_[weights[:60], np.full(60, 1e-60)]
    alone, found = (breslow(COX, y[:k], RAW[:k], unit * light[:k]) for k in (60, 120))
    assert np.array_equal(found.log_hazard, alone.log_hazard)


def test_hazards_count_from_the_entry_in_the_own_stratum() -> None:
    y = spells(120)
    baseline = breslow(COX, y, RAW, strata=("a", "b", "c"))
    found = hazards(baseline, y, RAW)
    for row in range(0, 120, 7):
        total = 0.0
        for other in np.flatnonzero(y[:, 1]):
            if y[row, 2] < y[other, 0] <= y[row, 0] and y[other, 3] == y[row, 3]:
                total += np.exp(RAW[row]) / np.exp(RAW[at_risk(y, other)]).sum()
        assert found[row] == pytest.approx(total)
    assert found.sum() == pytest.approx(y[:, 1].sum())  # as many as there were


def test_late_entries_count_from_then_on() -> None:
    y = spells(90) * [1, 1, 1, 0]
    for asked in (0.0, 3.0, 6.5, 20.0):
        lived = 1.0
        for moment in np.unique(y[:, 0][y[:, 0] <= asked]):
            here = (y[:, 0] >= moment) & (y[:, 2] < moment)
            lived *= 1 - y[y[:, 0] == moment, 1].sum() / here.sum()
        assert kaplan_meier(y, np.array([asked]))[0] == pytest.approx(lived)


def test_concordance_with_entries_and_strata_is_that_of_r(tmp_path: Path) -> None:
    y, risk = spells(120), np.random.default_rng(1).integers(0, 9, 120).astype(float)
    table = {"risk": risk, "stop": y[:, 0], "event": y[:, 1], "start": y[:, 2], "s": y[:, 3]}
    script = """
    answer <- data.frame(c = c(
      concordance(Surv(start, stop, event) ~ risk, d, reverse = TRUE)$concordance,
      concordance(Surv(start, stop, event) ~ risk + strata(s), d, reverse = TRUE)$concordance))
    """
    answer = answers_of_r(script, {"d": table}, ["survival"], tmp_path)
    ours = [concordance_estimate("", given, risk).value for given in (y * [1, 1, 1, 0], y)]
    assert ours == pytest.approx(answer["c"].tolist())


def test_the_hazard_of_each_stratum_is_asked_by_its_name() -> None:
    baseline = Baseline(
        np.array([1.0, 2.0, 1.5]), np.log([0.1, 0.3, 0.7]), None, ("a", "b"), np.array([0, 2], "i4")
    )
    raw, times = np.array([0.0, np.log(2.0)]), [0.5, 1.7, 3.0]
    found = baseline.hazard(raw, times, ["b", "a"])
    assert found == pytest.approx(np.array([[0.0, 0.7, 0.7], [0.0, 0.2, 0.6]]))
    with pytest.raises(
        ValueError, match=r"^strata: the stratum of each row is needed.*found 0 for"
    ):
        baseline.hazard(raw, times)
    with pytest.raises(ValueError, match=r"found \['c'\]\. Each stratum has a baseline"):
        baseline.hazard(raw, times, ["a", "c"])
