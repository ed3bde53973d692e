"""Survival: concordance, baseline hazards, and survival curves beside those observed."""

from __future__ import annotations

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.explain.metrics.records import Metrics, Score, SurvivalCurve
from tpnn.model.baseline import Baseline

MAX_TIMES = 100  # of a curve
RISK_THIRDS = ("lowest third of risk", "middle third of risk", "highest third of risk")
MIN_ROWS_OF_A_THIRD = 10
CHANCE_CONCORDANCE = 0.5


def breslow(
    times: FloatArray, events: FloatArray, raw: FloatArray, weights: FloatArray | None = None
) -> Baseline:
    """Breslow's estimate: at each event, deaths over the summed risk of the rows still alive."""
    mass = np.ones_like(times) if weights is None else weights
    order = np.argsort(-times, kind="stable")
    with np.errstate(divide="ignore"):  # weights may be zero
        log_alive = np.logaddexp.accumulate((np.log(mass) + raw)[order])
    event_times = np.unique(times[(events > 0) & (mass > 0)])
    last = np.searchsorted(-times[order], -event_times, side="right") - 1
    deaths = [(mass * events)[times == time].sum() for time in event_times]
    return Baseline(event_times, np.logaddexp.accumulate(np.log(deaths) - log_alive[last]))


def kaplan_meier(times: FloatArray, events: FloatArray, asked: FloatArray) -> FloatArray:
    """Share that survives beyond the times asked for: product of (1 - deaths / alive).

    >>> times, events = np.array([1.0, 2.0, 3.0]), np.array([1.0, 0.0, 1.0])
    >>> kaplan_meier(times, events, np.array([0.5, 1.0, 3.0]))
    array([1.        , 0.66666667, 0.        ])
    """
    moments, number = np.unique(times, return_inverse=True)
    deaths = np.bincount(number, events)
    alive = len(times) - np.searchsorted(np.sort(times), moments)
    lived = np.append(1.0, np.cumprod(1 - deaths / alive))
    survived: FloatArray = lived[np.searchsorted(moments, asked, side="right")]
    return survived


def concordance(times: FloatArray, events: FloatArray, risk: FloatArray) -> float:
    """Share of comparable pairs of rows in which the higher risk has the earlier event.

    A pair is comparable if its earlier time is an event; equal risks count one half.

    >>> concordance(np.array([1.0, 2.0, 3.0]), np.ones(3), np.array([3.0, 2.0, 2.0]))
    0.8333333333333334
    """
    agreed = comparable = 0.0
    for time, own in zip(times[events > 0], risk[events > 0], strict=True):
        later = risk[(times > time) | ((times == time) & (events == 0))]
        comparable += len(later)
        agreed += (later < own).sum() + 0.5 * (later == own).sum()
    return float(agreed / comparable) if comparable else 0.5


def survival_metrics(
    times: FloatArray, events: FloatArray, raw: FloatArray, baseline: Baseline | None
) -> Metrics:
    """Concordance, and survival curves of all rows and of thirds by risk.

    Parameters
    ----------
    times, events : array of shape (n_rows,)
        Time until the event or until censoring, and 1 for an event.
    raw : array of shape (n_rows,)
        Raw scores, the logarithm of the risk.
    baseline : Baseline or None
        Hazard of the training rows; where it is not known, that of these rows is used.
    """
    score = Score("C-index", concordance(times, events, raw), CHANCE_CONCORDANCE)
    if baseline is None and not events.any():
        return Metrics(scores=(score,))
    hazard = breslow(times, events, raw) if baseline is None else baseline
    everyone = np.ones(len(times), bool)
    third = np.searchsorted(np.quantile(raw, [1 / 3, 2 / 3]), raw)
    parts = [("all rows", everyone)]
    if np.bincount(third, minlength=3).min() >= MIN_ROWS_OF_A_THIRD:
        parts += [(name, third == k) for k, name in enumerate(RISK_THIRDS)]
    curves = [_curve(name, times[rows], events[rows], raw[rows], hazard) for name, rows in parts]
    return Metrics(scores=(score,), survival=tuple(curves))


def _curve(
    name: str, times: FloatArray, events: FloatArray, raw: FloatArray, baseline: Baseline
) -> SurvivalCurve:
    asked = np.linspace(0.0, times.max(), MAX_TIMES)
    predicted = baseline.survival(raw, asked).mean(0)
    return SurvivalCurve(name, asked, kaplan_meier(times, events, asked), predicted)
