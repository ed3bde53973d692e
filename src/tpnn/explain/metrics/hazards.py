"""Hazards: baselines of survival models, Kaplan-Meier and survival as observed and predicted."""

from __future__ import annotations

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.explain.metrics.curves import SurvivalCurve
from tpnn.loss.links import LINKS
from tpnn.loss.objectives import Objective
from tpnn.loss.risk_sets import Spells, died, in_one_stratum, subdistribution, with_ties
from tpnn.model.evidence import Baseline
from tpnn.model.task import Task
from tpnn.table.encoder import whole_counts

MAX_TIMES = 100  # of a curve
RISK_THIRDS = ("lowest third of risk", "middle third of risk", "highest third of risk")
MIN_ROWS_OF_A_THIRD = 10
LEAST_SHARE = 1e-30  # of the largest weight; lighter rows have no weight


def breslow(
    objective: Objective,
    target: FloatArray,
    raw: FloatArray,
    weights: FloatArray | None = None,
    strata: tuple[str, ...] = (),
) -> Baseline:
    """Breslow's estimate: at each event, deaths over the summed risk of the rows still alive.

    No bit depends on the order of the rows, on their copies or on the unit of the weights.
    """
    mass = np.ones(len(raw)) if weights is None else weights
    keys = np.column_stack([target[:, 1:], raw, target[:, 0]])
    order = np.lexsort((mass, *keys.T))
    order = order[mass[order] > LEAST_SHARE * mass.max()]
    keys = keys[order]
    starts = np.flatnonzero(np.r_[True, (keys[1:] != keys[:-1]).any(1)])
    merged, keys = np.add.reduceat(mass[order], starts), keys[starts]
    counts = whole_counts(merged)
    if counts is not None:
        squares = counts  # of weights, for the variance of a sum; that of a count is the count
    else:  # in single precision, which hides how the sums were rounded
        counts = (merged / merged.sum()).astype(np.float32).astype(np.float64)
        squares = np.add.reduceat((mass[order] / merged.sum()) ** 2, starts)
    rows, raw = np.column_stack([keys[:, -1], keys[:, :-2]]), keys[:, -2]
    if rows.shape[1] > 2 or objective.name != "cox":
        return _from_sums(objective, rows, raw, np.column_stack([counts, squares]), strata)
    log_alive = np.logaddexp.accumulate((np.log(counts) + raw)[::-1])[::-1]
    first = np.flatnonzero(np.r_[True, np.diff(rows[:, 0]) > 0])
    deaths, variances = (np.add.reduceat(m * died(rows)[:, 0], first) for m in (counts, squares))
    happened = deaths > 0
    first, deaths, variances = first[happened], deaths[happened], variances[happened]
    log_hazard = np.logaddexp.accumulate(np.log(deaths) - log_alive[first])
    log_variance = np.logaddexp.accumulate(np.log(variances) - 2 * log_alive[first])
    return Baseline(rows[first, 0], log_hazard, np.exp(log_variance / 2 - log_hazard))


def _from_sums(
    objective: Objective,
    rows: FloatArray,
    raw: FloatArray,
    masses: FloatArray,
    strata: tuple[str, ...],
) -> Baseline:
    """Estimate of rows with entries, strata or competing events, from the sums of their loss.

    ``masses`` has the weights of the rows and their squares, (n, 2).
    """
    spells = Spells.of(rows if rows.shape[1] > 2 else in_one_stratum(rows))
    if objective.name == "cox":
        sums = spells.sums(died(rows), raw[:, None], masses[:, :1])
    else:
        ways = {"cox_efron": with_ties, "fine_gray": subdistribution}
        sums = ways[objective.name](rows, raw[:, None], masses[:, :1])
    deaths, variances = spells.added(spells.place, masses * died(rows))[:-1].T
    _, row = np.unique(spells.place, return_index=True)  # one of each place
    happened = deaths > 0
    row, hazard = row[happened], sums.hazard[happened, 0]
    squares = variances[happened] * (hazard / deaths[happened]) ** 2
    times, log_hazard, errors = rows[row, 0], np.empty(len(row)), np.empty(len(row))
    starts = np.searchsorted(spells.stratum[row], np.arange(max(len(strata), 1)))
    for part in map(slice, starts, [*starts[1:], len(row)]):
        total = np.cumsum(hazard[part])
        log_hazard[part] = np.log(total) - sums.log_unit[row[part], 0]
        errors[part] = np.sqrt(np.cumsum(squares[part])) / total
    return Baseline(times, log_hazard, errors, strata, starts.astype(np.int32) if strata else None)


def hazards(baseline: Baseline, target: FloatArray, raw: FloatArray) -> FloatArray:
    """Cumulative hazard of each row from its entry to its time, shape (n_rows,)."""
    times, codes = target[:, :1], np.zeros(len(target), np.intp)
    if target.shape[1] > 2:
        times, codes = target[:, [0, 2]], target[:, 3].astype(np.intp)
    log_hazard = baseline.at(baseline.log_hazard, -np.inf, times, codes)
    cumulative = LINKS["log"].inverse(raw[:, None] + log_hazard) * np.isfinite(log_hazard)
    return np.asarray(cumulative[:, 0] - cumulative[:, 1:].sum(1))


def kaplan_meier(target: FloatArray, asked: FloatArray) -> FloatArray:
    """Share that survives beyond the times asked for: product of (1 - deaths / alive).

    >>> kaplan_meier(np.array([[1.0, 1.0], [2.0, 0.0], [3.0, 1.0]]), np.array([0.5, 1.0, 3.0]))
    array([1.        , 0.66666667, 0.        ])
    """
    moments, number = np.unique(target[:, 0], return_inverse=True)
    deaths = np.bincount(number, died(target)[:, 0]).astype(np.float64)
    alive = len(target) - np.searchsorted(np.sort(target[:, 0]), moments).astype(np.float64)
    if target.shape[1] > 2:
        alive -= len(target) - np.searchsorted(np.sort(target[:, 2]), moments)
    lived = np.append(1.0, np.cumprod(1 - deaths / alive))
    survived: FloatArray = lived[np.searchsorted(moments, asked, side="right")]
    return survived


def survival_curves(task: Task, target: FloatArray, raw: FloatArray) -> tuple[SurvivalCurve, ...]:
    """Survival of all rows and of thirds by risk; none for other tasks, entries and strata.

    Neither for competing events, none of which ends survival alone. A model without a baseline
    hazard gets the baseline of these rows.
    """
    if task.kind != "survival" or target.shape[1] > 2 or not task.objective.is_alone:
        return ()
    if task.baseline is None and not died(target).any():
        return ()
    hazard = task.baseline or breslow(task.objective, target, raw)
    third = np.searchsorted(np.quantile(raw, [1 / 3, 2 / 3]), raw)
    chosen = [("all rows", np.ones(len(raw), bool))]
    if np.bincount(third, minlength=3).min() >= MIN_ROWS_OF_A_THIRD:
        chosen += [(name, third == k) for k, name in enumerate(RISK_THIRDS)]
    curves = []
    for name, rows in chosen:
        times = np.linspace(0.0, target[rows, 0].max(), MAX_TIMES)
        predicted = hazard.survival(raw[rows], times).mean(0)
        curves.append(SurvivalCurve(name, times, kaplan_meier(target[rows], times), predicted))
    return tuple(curves)
