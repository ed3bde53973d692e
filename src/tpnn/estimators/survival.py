"""TPNNSurvival: Cox's proportional hazards for times until an event, some of them censored."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tpnn._typing import FloatArray
from tpnn.estimators.base import TPNNEstimator
from tpnn.estimators.checks import checked_weights
from tpnn.loss.losses import OBJECTIVES
from tpnn.loss.offset import checked_offset, refuse_masked
from tpnn.model.baseline import Baseline
from tpnn.problem.problem import Task
from tpnn.problem.scaling import Targets


class TPNNSurvival(TPNNEstimator):
    """Cox model: hazard(t | x) = hazard_0(t) exp(sum_S f_S(x_S)) with unique components.

    The partial likelihood does not depend on a constant, so the intercept is only what centring
    the components moves there. The parameters and attributes are those of :class:`TPNNRegressor`,
    except for the objective and the exposure, and in addition:

    Attributes
    ----------
    event_times_ : array of shape (n_times,)
        Distinct times at which events were observed.
    baseline_hazard_ : array of shape (n_times,)
        Cumulative baseline hazard at those times (Breslow). Offsets of several hundred push it out
        of the range of floats, to 0 or inf; predictions use its logarithm, ``model_.baseline``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> life, censored = rng.exponential(np.exp(-X[:, 0])), rng.exponential(2, 300)
    >>> y = np.column_stack([np.minimum(life, censored), life <= censored])
    >>> model = TPNNSurvival(order=1, n_bags=2, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.7)
    True
    """

    event_times_: FloatArray
    baseline_hazard_: FloatArray

    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Self:
        """Fit to rows X and y, which holds times and events.

        Parameters
        ----------
        X : table
            As in :meth:`TPNNRegressor.fit`.
        y : array of shape (n_rows, 2), or structured array or table with a boolean field
            Time until the event or until censoring, and whether the event was observed. Times
            alone, of shape (n_rows,), are all taken as events, with a warning.
        sample_weight, offset : array of shape (n_rows,), optional
            Weight of each row, and known part of its log risk.
        """
        self._begin(offset)
        times, events = checked_survival(y)
        if not events.any():
            raise ValueError(
                f"y: at least one event must be observed, found none in {len(events)} rows. Check "
                "that the second column is 1 where the event happened."
            )
        weights = checked_weights(sample_weight, len(times))
        known = checked_offset(offset, len(times))
        ranks = np.unique(times, return_inverse=True)[1].astype(np.float64)
        target = np.column_stack([ranks, events])
        self._fit(X, Targets(target, weights, known), Task(OBJECTIVES["cox"]))
        baseline = breslow(times, events, self.predict(X, offset), weights)
        self.model_ = replace(self.model_, baseline=baseline)
        self.event_times_ = baseline.frozen().times
        with np.errstate(over="ignore"):
            self.baseline_hazard_ = np.exp(baseline.log_hazard)
        return self

    def predict(self, X: Any, offset: Any = None) -> FloatArray:
        """Logarithm of each row's risk relative to the baseline, shape (n_rows,).

        ``model_.predict``, also that of a loaded model, returns the risk itself;
        ``model_.raw_scores`` returns this logarithm.
        """
        table = self._read(X)
        return self.model_.raw_scores(table, offset)

    def predict_survival(self, X: Any, times: Any, offset: Any = None) -> FloatArray:
        """Probability of surviving beyond each time, shape (n_rows, n_times).

        A loaded model has this method too.
        """
        table = self._read(X)
        return self.model_.predict_survival(table, times, offset)

    def score(self, X: Any, y: Any, offset: Any = None) -> float:
        """Concordance index: how often the row at higher risk of two has the event first."""
        times, events = checked_survival(y)
        return concordance(times, events, self.predict(X, offset))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.positive_only = True
        return tags


def breslow(
    times: FloatArray, events: FloatArray, raw: FloatArray, weights: FloatArray | None
) -> Baseline:
    """Breslow's baseline: at each event, its deaths over the total risk of the rows still alive."""
    mass = np.ones_like(times) if weights is None else weights
    order = np.argsort(-times, kind="stable")
    with np.errstate(divide="ignore"):  # weights may be zero
        log_alive = np.logaddexp.accumulate((np.log(mass) + raw)[order])
    event_times = np.unique(times[(events > 0) & (mass > 0)])
    last = np.searchsorted(-times[order], -event_times, side="right") - 1
    deaths = [(mass * events)[times == time].sum() for time in event_times]
    return Baseline(event_times, np.logaddexp.accumulate(np.log(deaths) - log_alive[last]))


def checked_survival(y: Any) -> tuple[FloatArray, FloatArray]:
    """Read times and events, each (n_rows,), from two columns or named fields."""
    if y is None:
        raise ValueError(
            "y: times are needed, found None. This estimator requires y to be passed, but the "
            "target y is None: pass np.column_stack([time, event])."
        )
    refuse_masked("y", y)
    names = getattr(getattr(y, "dtype", None), "names", None) or getattr(y, "columns", None)
    try:
        if names is not None and len(names) == 2:
            fields = [np.asarray(y[name]) for name in names]
            fields.sort(key=lambda field: field.dtype.kind == "b")  # the boolean is the event
            columns = np.column_stack([_real(field) for field in fields])
        else:
            columns = _real(np.asarray(y))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"y: times and events must be real numbers, found {error}. Pass the time first, then 1 "
            "for an event and 0 where none was observed."
        ) from error
    alone = columns.ndim == 1
    if alone:
        columns = np.column_stack([columns, np.ones(len(columns))])
    if columns.ndim != 2 or columns.shape[1] != 2:
        raise ValueError(
            f"y: times, or two columns (time and event), are needed, found shape {columns.shape}. "
            "Pass np.column_stack([time, event])."
        )
    times, events = columns.T
    if not np.isfinite(times).all() or (times < 0).any() or not np.isin(events, (0, 1)).all():
        raise ValueError(
            "y: times must be finite and not negative, and events 0 or 1, found times from "
            f"{times.min()} to {times.max()} and events {np.unique(events)[:5].tolist()}. "
            "Pass the time first, then the event."
        )
    if alone:
        warnings.warn(
            f"y: times and events are needed, found times alone, shape {times.shape}, and took "
            "every one of them as an event. If some rows are censored, pass two columns: "
            "np.column_stack([time, event]); if none is, pass 1 for every event.",
            UserWarning,
            stacklevel=3,  # the caller of fit or score
        )
    return times, events


def _real(values: NDArray[Any]) -> FloatArray:
    if np.iscomplexobj(values):
        raise TypeError("complex numbers. Complex data not supported")
    return values.astype(np.float64)


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
