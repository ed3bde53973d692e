"""Survival at given times: Brier scores, areas, calibration, Uno's C, and net benefit.

Rows that were censored before a time are not known then. The others count more in their place, by
one over the probability of not being censored (Kaplan-Meier), so that a mean over them is a mean
over all rows: inverse probability of censoring weights (Graf et al., 1999; Uno et al., 2007, 2011).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.metrics import roc_auc_score

from tpnn._utils.arrays import BoolArray, FloatArray
from tpnn.explain.doubt import REACH
from tpnn.loss.lifetimes import checked_times
from tpnn.loss.risk_sets import Spells, uncensored
from tpnn.model.model import AnovaModel, baseline_of
from tpnn.model.task import Task

if TYPE_CHECKING:
    import pandas as pd

N_GROUPS = 10
LEAST_ROWS = 20  # of a group
THRESHOLDS = tuple(np.arange(1, 20) / 20)


@dataclass(frozen=True, kw_only=True, eq=False)
class AtTimes:
    """How good the predictions of a survival model are at given times.

    Parameters
    ----------
    scores : DataFrame
        A line for each time: ``brier``, the mean squared error of the predicted probability;
        ``brier_constant``, that of the share of all rows; ``auc``, how often of two rows the one
        with an event by then had the higher risk; ``observed`` and ``expected`` share of events.
    calibration : DataFrame
        A line for each time and each of about ten groups of predicted probability: ``n_rows``,
        ``expected`` and ``observed`` share of events, ``lower`` and ``upper`` end of the latter
        (95 %).
    integrated_brier : float
        Mean of the Brier scores over the times, by the trapezoidal rule; NaN of one time.
    uno_c : float
        Uno's C-index up to the last time, which does not depend on how many rows are censored.
    """

    scores: pd.DataFrame
    calibration: pd.DataFrame
    integrated_brier: float
    uno_c: float


class Followed:
    """Rows with times and events, each weighted by how likely it was not to be censored."""

    def __init__(self, target: FloatArray) -> None:
        if target.shape[1] > 2 and np.isfinite(target[:, 2]).any():
            raise ValueError(
                "y: scores at a time need rows that were followed from the beginning, found entry "
                "times. Leave out the entries, or rows that entered late."
            )
        self.times, self.events = target[:, 0], target[:, 1]
        self.target = target[:, :2]
        moments, place = np.unique(self.times, return_inverse=True)
        spells = Spells(np.zeros_like(place), place, np.zeros_like(place), len(moments))
        ones = np.ones((len(target), 1))
        before = uncensored(spells, self.target[:, 1:], ones)[:, 0]
        happened = (self.target[:, 1:] > 0).astype(np.float64)
        leaving = spells.added(place, 1 - happened)[:-1, 0]
        there = spells.alive(ones)[:, 0] - spells.added(place, happened)[:-1, 0]
        after = before * (1 - leaving / np.maximum(there, 1.0))
        self.own = 1 / before[place]  # (n_rows,): weight of an event at the row's own time
        self._moments, self._after = moments, np.append(1.0, after)

    def weights(self, time: float) -> FloatArray:
        """Weights (n_rows,) at a time; 0 for a row that was censored before."""
        free = self._after[np.searchsorted(self._moments, time, side="right")]
        over = 1 / free if free > 0 else 0.0
        return np.where(self.times > time, over, self.own * (self.events > 0))

    def share(self, rows: BoolArray, time: float) -> float:
        """Share of some rows with the event by a time: Kaplan-Meier's, or Aalen and Johansen's."""
        own = Followed(self.target[rows])
        return float((own.own * ((own.times <= time) & (own.events == 1))).mean())

    def check(self, times: FloatArray) -> None:
        """Refuse times at which no row is left."""
        last = self.times.max(initial=0.0)
        if not len(times) or (times >= last).any() or (times < 0).any():
            raise ValueError(
                f"times: must lie before the last time of these rows, {last:g}, found "
                f"{times[:5].tolist()}. Pass such times."
            )


def at_times(model: AnovaModel, X: Any, y: Any, times: Any, offset: Any = None) -> AtTimes:
    """Score a survival model at given times on rows that it has not seen.

    Of a model fitted by "fine_gray" the event is the one that it is about, in the presence of the
    others. With a "cause", all other events count as censored.

    Parameters
    ----------
    model : AnovaModel
        The ``model_`` of a fitted TPNNSurvival.
    X : table
        Rows.
    y : array of shape (n_rows, 2), or table
        Their times and events, and strata if the model has some; entry times are refused.
    times : array of shape (n_times,)
        Times, increasing, before the last time of these rows.
    offset : array of shape (n_rows,), optional
        Known part of the log risk of each row.

    Examples
    --------
    >>> from tpnn import TPNNSurvival
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> life = rng.exponential(np.exp(-X[:, 0]))
    >>> y = np.column_stack([np.minimum(life, 2), life < 2])
    >>> model = TPNNSurvival(order=1, n_bags=2, random_state=0).fit(X[:300], y[:300])
    >>> found = at_times(model.model_, X[300:], y[300:], [0.5, 1.0, 1.5])
    >>> bool((found.scores["brier"] < found.scores["brier_constant"]).all())
    True
    """
    import pandas as pd

    followed, risks, asked, raw = _at(model, X, y, times, offset)
    lines, groups = [], []
    for time, risk in zip(asked.tolist(), risks.T, strict=True):
        weights, had = followed.weights(time), (followed.times <= time) & (followed.events == 1)
        observed = followed.share(np.ones(len(raw), bool), time)
        brier, constant = (
            float(np.mean(weights * (had - guess) ** 2)) for guess in (risk, observed)
        )
        lines.append({
            "time": time, "brier": brier, "brier_constant": constant,
            "auc": _area(raw, had, weights), "observed": observed, "expected": risk.mean(),
        })  # fmt: skip
        groups += _groups(followed, time, risk, weights * had)
    scores = pd.DataFrame(lines)
    curve = scores["brier"].to_numpy()
    width = asked[-1] - asked[0]
    mean = float(np.trapezoid(curve, asked) / width) if width > 0 else float("nan")
    return AtTimes(
        scores=scores,
        calibration=pd.DataFrame(groups),
        integrated_brier=mean,
        uno_c=uno_concordance(followed, raw, asked[-1]),
    )


def _at(
    model: AnovaModel, X: Any, y: Any, times: Any, offset: Any
) -> tuple[Followed, FloatArray, FloatArray, FloatArray]:
    """Rows, probabilities of the event by each time (n_rows, n_times), times, and log risks."""
    table, task = model.encoder.read(X), Task.of(model)
    if task.kind != "survival":
        raise ValueError(
            f"model: a survival model is needed, found one of {task.kind}. Call tpnn.metrics."
            "measure for its scores."
        )
    target, raw = task.targets(y, table.n_rows), model.raw_scores(table, offset)
    followed, asked = Followed(target), np.sort(checked_times(times).ravel())
    followed.check(asked)
    baseline = baseline_of(model)
    strata = [baseline.strata[int(code)] for code in target[:, 3]] if baseline.strata else None
    return followed, 1 - baseline.survival(raw, asked, strata), asked, raw


def _area(raw: FloatArray, had: BoolArray, weights: FloatArray) -> float:
    """Weighted share of pairs, a row with the event and one without, in which the first is higher.

    >>> _area(np.array([0.0, 1.0, 2.0]), np.array([False, True, True]), np.array([1.0, 2.0, 0.0]))
    1.0
    """
    has_both = weights[had].sum() > 0 and weights[~had].sum() > 0
    return float(roc_auc_score(had, raw, sample_weight=weights)) if has_both else float("nan")


def uno_concordance(followed: Followed, raw: FloatArray, last: float) -> float:
    """Uno's C: share of pairs with the earlier event before ``last`` where that risk is higher."""
    times, events = followed.times, followed.events
    agreed = comparable = 0.0
    for row in np.flatnonzero((events == 1) & (times <= last)):
        later = (times > times[row]) | ((times == times[row]) & (events == 0))
        weight = followed.own[row] ** 2
        below = share_below(raw, raw[row])
        agreed += weight * (later * below).sum()
        comparable += weight * later.sum()
        other = (events == 2) & (times <= times[row])  # never has the event
        ratio = followed.own[row] * followed.own[other]
        agreed += (ratio * below[other]).sum()
        comparable += ratio.sum()
    return float(agreed / comparable) if comparable else float("nan")


def share_below(risks: FloatArray, one: float) -> FloatArray:
    """How much of each risk is below one: all of it, or half where they are equal."""
    return np.asarray((risks < one) + 0.5 * (risks == one))


def _groups(
    followed: Followed, time: float, risk: FloatArray, happened: FloatArray
) -> list[dict[str, float]]:
    """Lines of the calibration at a time; ``happened`` are weighted events (n_rows,)."""
    n_groups = int(np.clip(len(risk) // LEAST_ROWS, 1, N_GROUPS))
    edges = np.quantile(risk, np.arange(1, n_groups) / n_groups)
    lines = []
    for number in np.unique(group := np.searchsorted(edges, risk)):
        rows = group == number
        observed, n_rows = followed.share(rows, time), int(rows.sum())
        reach = REACH * float(np.std(happened[rows])) / np.sqrt(n_rows)
        lower, upper = np.clip([observed - reach, observed + reach], 0.0, 1.0).tolist()
        lines.append({
            "time": time, "n_rows": n_rows, "expected": float(risk[rows].mean()),
            "observed": observed, "lower": lower, "upper": upper,
        })  # fmt: skip
    return lines


def net_benefit(
    model: AnovaModel,
    X: Any,
    y: Any,
    thresholds: Sequence[float] = THRESHOLDS,
    time: float | None = None,
    offset: Any = None,
) -> pd.DataFrame:
    """Net benefit of treating the rows above a threshold: a decision curve (Vickers & Elkin, 2006).

    It is the share of rows that are rightly treated, less the share of those that are wrongly
    treated times the odds of the threshold: what a treatment costs in units of what it brings.

    Parameters
    ----------
    model : AnovaModel
        A model of two classes, whose second one is the event, or a survival model.
    X, y : table and targets
        Rows that the model has not seen.
    thresholds : sequence of float
        Probabilities from which on a row is treated, between 0 and 1.
    time : float, optional
        Time by which the event counts; needed of a survival model.
    offset : array of shape (n_rows,), optional
        Known part of the raw score of each row.

    Returns
    -------
    DataFrame
        A line for each threshold: net benefit of the ``model``, of treating ``all``, and the share
        of rows that the model treats, ``treated``. That of treating none is 0.

    Examples
    --------
    >>> from tpnn import TPNNClassifier
    >>> X = np.random.default_rng(0).normal(size=(300, 1))
    >>> model = TPNNClassifier(n_bags=2, random_state=0).fit(X, X[:, 0] > 0)
    >>> net_benefit(model.model_, X, X[:, 0] > 0, [0.5])["treated"].round(1).tolist()
    [0.5]
    """
    import pandas as pd

    if time is None:
        risk, had = _of_classes(model, X, y, offset)
        target = np.column_stack([1 - had, np.ones_like(had)])  # the event, at 0 or later
        followed, last = Followed(target), 0.5
    else:
        followed, risks, asked, _ = _at(model, X, y, [time], offset)
        risk, last = risks[:, 0], float(asked[0])
    share, lines = followed.share(np.ones(len(risk), bool), last), []
    for threshold in thresholds:
        if not 0 < threshold < 1:
            raise ValueError(
                f"thresholds: must lie between 0 and 1, found {threshold!r}. Pass probabilities."
            )
        rows, odds = risk >= threshold, threshold / (1 - threshold)
        right = followed.share(rows, last) if rows.any() else 0.0
        lines.append({
            "threshold": threshold,
            "model": rows.mean() * (right - odds * (1 - right)),
            "all": share - odds * (1 - share),
            "treated": rows.mean(),
        })  # fmt: skip
    return pd.DataFrame(lines)


def _of_classes(model: AnovaModel, X: Any, y: Any, offset: Any) -> tuple[FloatArray, FloatArray]:
    """Probability of the second of two classes, and whether each row is of it."""
    task = Task.of(model).told(y)
    if task.kind != "classes" or task.n_classes > 2:
        raise ValueError(
            f"model: two classes, or a survival model and a time, are needed, found a model of "
            f"{task.kind}. Pass time=... for survival."
        )
    table = model.encoder.read(X)
    raw = model.raw_scores(table, offset)
    return task.shares(raw)[:, 1], task.targets(y, table.n_rows)[:, 0]
