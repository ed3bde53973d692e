"""TPNNSurvival: Cox's proportional hazards for times until an event, some of them censored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.estimators.base import TPNNEstimator, whole_or_not
from tpnn.estimators.given_rows import GivenRows
from tpnn.estimators.inputs import checked_weights, refuse_stored
from tpnn.estimators.parameters import documented, parametrised
from tpnn.explain.metrics.estimates import concordance_estimate
from tpnn.explain.metrics.hazards import breslow
from tpnn.loss.lifetimes import checked_survival, joined, ranked
from tpnn.loss.objectives import resolve
from tpnn.loss.risk_sets import died
from tpnn.model.model import part_scores
from tpnn.model.predicting import PredictsSurvival
from tpnn.model.task import Task
from tpnn.table.axis import read_only


class SurvivalResults:
    """Attributes that ``fit`` sets besides those of all estimators."""

    event_times_: FloatArray
    baseline_hazard_: FloatArray


@documented
@parametrised
class TPNNSurvival(SurvivalResults, PredictsSurvival, TPNNEstimator):
    """Cox model: hazard(t | x) = hazard_0(t) exp(sum_S f_S(x_S)) with unique components.

    The partial likelihood does not depend on a constant, so the intercept is only what centring
    the components moves there.

    Attributes
    ----------
    event_times_ : array of shape (n_times,)
        Distinct times at which events were observed.
    baseline_hazard_ : array of shape (n_times,)
        Cumulative baseline hazard at those times (Breslow). Offsets of several hundred push it out
        of the range of floats, to 0 or inf; predictions use its logarithm,
        ``model_.evidence.baseline``.

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

    objective: str | Mapping[str, Any] = "cox"

    @whole_or_not
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        offset: Any = None,
        groups: Any = None,
        start: Any = None,
        freeze: Any = None,
        nodes: str = "keep",
        checkpoint: Any = None,
        X_val: Any = None,
        y_val: Any = None,
    ) -> Self:
        """Fit to rows X and y, which holds times and events.

        Parameters
        ----------
        X : table
            As in :meth:`TPNNRegressor.fit`. A table in files must fit into memory, because the
            loss of a row depends on all rows at risk.
        y : array of shape (n_rows, 2) or (n_rows, 3), structured array or table
            Time until the event or until censoring, and whether the event was observed: 0 or 1, or
            the kind of the event. With three columns, the first is the time of entry, from which on
            the row is at risk; so values that change with time are a row for each of their
            intervals (start, stop, event), and ``groups`` says which rows are of one subject. A
            column "stratum" of a table gives each stratum a baseline hazard of its own. Times
            alone, of shape (n_rows,), are all taken as events, with a warning.
        sample_weight, offset : array of shape (n_rows,), optional
            Weight of each row, and known part of its log risk.
        groups : array of shape (n_rows,), optional
            As in :meth:`TPNNRegressor.fit`.
        start, freeze, nodes, checkpoint, X_val, y_val
            As in :meth:`TPNNRegressor.fit`.
        """
        warm = self._begin(offset, start, freeze, nodes)
        rows = GivenRows.read(X, y, sample_weight, offset, groups, X_val, y_val)
        refuse_stored(rows.tables[0])
        objective = resolve(self.objective, n_targets=1)
        parts = rows.checked(lambda target: checked_survival(target, objective))
        strata = parts[0].stratum_names
        target = joined(parts, objective)
        weights = checked_weights(rows.sample_weight, len(target))
        counted = np.ones(len(target), bool) if weights is None else weights > 0
        which = "" if objective.cause is None else f" of kind {objective.cause}"
        for argument, part in {"y": slice(rows.n_rows), "y_val": slice(rows.n_rows, None)}.items():
            if len(counted[part]) and not died(target[part][counted[part]]).any():
                raise ValueError(
                    f"{argument}: at least one event{which} must be observed, found none in "
                    f"{counted[part].sum()} rows. Check that the last column is "
                    f"{objective.cause or 1} where the event happened."
                )
        targets = rows.weighted(ranked(target, counted), weights)
        self._fit(rows, target, targets, Task(objective), warm, checkpoint)
        evidence = self.model_.evidence
        baseline = evidence.baseline  # of a model that stays as it was
        if baseline is None:
            seen: Any = slice(rows.n_rows)
            known = None if offset is None else np.asarray(offset)[seen]
            of_rows = None if weights is None else weights[seen]
            fitted = getattr(self, "_fitted_", None)
            drawn = None if fitted is None else fitted.kept.problem.targets
            if fitted is None or drawn is None or drawn.draws is None:
                risks = self.predict(rows.tables[0], known)
            else:  # rows with gaps are those that were drawn
                seen, of_rows = drawn.draws.rows, drawn.weights
                columns = self.model_.encoder.columns(self._read(fitted.kept.problem.codes.table))
                scores = part_scores(self.model_, columns).sum(1)
                risks = self.model_.intercept + scores + drawn.offset
            baseline = breslow(objective, target[seen], risks, of_rows, strata)
            self.model_ = replace(self.model_, evidence=replace(evidence, baseline=baseline))
        self.event_times_ = read_only(baseline.times)
        with np.errstate(over="ignore"):
            self.baseline_hazard_ = np.exp(baseline.log_hazard)
        return self

    def score(self, X: Any, y: Any, offset: Any = None) -> float:
        """Concordance index: how often the row at higher risk of two has the event first."""
        raw = self.predict(X, offset)
        return concordance_estimate("C-index", self.model_.task.lifetimes(y), raw).value

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.positive_only = True
        return tags
