"""Hazards: baselines of survival models, Kaplan-Meier and survival as observed and predicted.

Hazards are proportional if the effect of no component changes with time. Each component f_S is a
covariate with the coefficient 1. The score test (Grambsch & Therneau, 1994) asks whether the
coefficient would be 1 + theta g(t), where g is the share of events before t. Other coefficients are
nuisances: what the score owes to them is taken out, so that shrunken effects, whose coefficients
are not quite 1, do no harm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.explain.metrics.curves import SurvivalCurve
from tpnn.loss.links import LINKS
from tpnn.loss.objectives import Objective
from tpnn.loss.risk_sets import Spells, died, in_one_stratum, subdistribution, with_ties
from tpnn.model.evidence import Baseline
from tpnn.model.model import AnovaModel
from tpnn.model.task import Task
from tpnn.table.encoder import whole_counts

if TYPE_CHECKING:
    import pandas as pd

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
    return np.asarray(lived[np.searchsorted(moments, asked, side="right")])


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


WHOLE = "all components"
SMALLEST_SHARE = 1e-10  # of the variance of a sum, below which a component says nothing


def proportional_hazards(model: AnovaModel, X: Any, y: Any, offset: Any = None) -> pd.DataFrame:
    """Test for each component whether its effect on the hazard stays the same over time.

    Parameters
    ----------
    model : AnovaModel
        The ``model_`` of a TPNNSurvival fitted by "cox".
    X, y : table and targets
        Rows, those of the fit or others; y has times and events, with entries and strata if there
        are some.
    offset : array of shape (n_rows,), optional
        Known part of the log risk of each row.

    Returns
    -------
    DataFrame
        A line for each component, and a last one for all together: ``chi2`` with its ``degrees`` of
        freedom, ``p_value``, and ``change``, about how much larger the effect is at the last event
        than at the first, as a share of the effect: -1 is an effect that vanishes. With hazards
        that are proportional, p-values are uniform.

    Examples
    --------
    >>> from tpnn import TPNNSurvival
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2))
    >>> y = np.column_stack([rng.exponential(np.exp(-X[:, 0])), np.ones(500)])
    >>> model = TPNNSurvival(order=1, n_bags=2, random_state=0).fit(X, y)
    >>> bool(proportional_hazards(model.model_, X, y)["p_value"].iloc[0] > 0.01)
    True
    """
    import pandas as pd
    from scipy.stats import chi2

    task = Task.of(model)
    if task.kind != "survival" or not task.objective.is_alone:
        raise ValueError(
            'model: one fitted by TPNNSurvival(objective="cox") is needed, found one of '
            f"{task.objective.name!r}. Its hazards are not assumed to be proportional."
        )
    table = model.encoder.read(X)
    target, raw = task.targets(y, table.n_rows), model.raw_scores(table, offset)
    if target.shape[1] == 2:
        late = np.full(len(raw), -np.inf)
        target = np.column_stack([target, late, np.zeros(len(raw))])
    scores, variances = score_test(target, raw, model.component_scores(table))
    lines = []
    for number, names in enumerate(model.component_names):
        score, variance = scores[number], variances[number, number]
        known = variance > 0
        lines.append({
            "component": " x ".join(names),
            "chi2": score**2 / variance if known else np.nan,
            "degrees": 1,
            "change": score / variance if known else np.nan,
        })  # fmt: skip
    rank = int(np.linalg.matrix_rank(variances, hermitian=True))
    total = float(scores @ np.linalg.pinv(variances, hermitian=True) @ scores)
    lines.append({"component": WHOLE, "chi2": total, "degrees": rank, "change": np.nan})
    frame = pd.DataFrame(lines)
    frame.insert(3, "p_value", chi2.sf(frame["chi2"], frame["degrees"]))
    return frame


def score_test(
    target: FloatArray, raw: FloatArray, covariates: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Scores (m,) of covariates (n, m) times g(t), and their covariances (m, m).

    Sums over the rows at risk at each event are differences of cumulative sums over events, so that
    no matrix is needed for each event: sum_t d_t Cov_t = C' diag(e) C - sum_t d_t mean_t mean_t',
    where e_i is the number of events that are expected of row i.
    """
    spells, happened = Spells.of(target), died(target)[:, 0]
    deaths = spells.added(spells.place, happened[:, None])[:-1, 0]
    scale = np.sqrt(np.maximum((covariates**2).mean(0), np.finfo(float).tiny))
    columns = covariates / scale
    risk = np.exp(raw - raw.max())
    alive = np.maximum(spells.alive(risk[:, None])[:, 0], np.finfo(float).tiny)
    steps = spells.added(spells.first, risk[:, None] * columns)
    steps -= spells.added(spells.place + 1, risk[:, None] * columns)
    means = np.cumsum(steps, axis=0)[:-1] / alive[:, None]  # (n_places, m)
    moment = np.empty(spells.n_places)
    moment[spells.place] = target[:, 0]
    passed = 1 - kaplan_meier(target, np.nextafter(moment, -np.inf))
    passed = passed - np.average(passed, weights=deaths)
    informations = []
    for power in range(3):
        counts = deaths * passed**power
        before = np.append(0.0, np.cumsum(counts / alive))
        expected = risk * (before[spells.place + 1] - before[spells.first])
        whole = columns.T @ (expected[:, None] * columns)
        informations.append(whole - means.T @ (counts[:, None] * means))
    residuals = happened[:, None] * (columns - means[spells.place])
    plain, changing = residuals.sum(0), passed[spells.place] @ residuals
    held = informations[1] @ np.linalg.pinv(informations[0], hermitian=True)
    scores = changing - held @ plain
    variances = informations[2] - held @ informations[1]
    silent = np.diag(variances) < SMALLEST_SHARE * np.diag(informations[0]).max(initial=0.0)
    variances[silent] = variances[:, silent] = 0.0
    return scores * scale, variances * np.outer(scale, scale)
