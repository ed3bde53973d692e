"""TPNNRegressor: numbers, counts, quantiles, one target or several."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin, clone
from sklearn.metrics import d2_pinball_score, r2_score

from tpnn.estimators.base import TPNNEstimator, whole_or_not
from tpnn.estimators.given_rows import GivenRows
from tpnn.estimators.inputs import (
    check_range,
    checked_targets,
    checked_weights,
)
from tpnn.estimators.parameters import documented, parametrised
from tpnn.estimators.warm_start import WarmStart
from tpnn.explain.metrics.estimates import explained_share, known_offset
from tpnn.loss.objectives import (
    POISSON,
    Objective,
    likeliest_dispersion,
    negative_binomial,
    resolve,
)
from tpnn.loss.row_values import checked_numbers
from tpnn.model.predicting import PredictsNumbers
from tpnn.model.task import Task, unit_of
from tpnn.search.select import HeldOut


@documented
@parametrised
class TPNNRegressor(RegressorMixin, PredictsNumbers, TPNNEstimator):
    """Regressor with f(x) = intercept + sum_S f_S(x_S) over ``|S| <= order``, unique components.

    Every f_S averages to exactly zero along each of its features, under the feature's distribution
    in the training rows. This makes the components unique.

    Examples
    --------
    >>> from tpnn import TPNNRegressor, datasets
    >>> data = datasets.make_synthetic("f1", n_samples=500, random_state=0)
    >>> model = TPNNRegressor(n_bags=2, random_state=0).fit(data.X, data.y)
    >>> model.components_[5]
    ('X1', 'X2')
    >>> model.model_.identifiability_error() < 1e-6
    True
    >>> bool(model.score(data.X, data.y) > 0.8)
    True
    """

    objective: str | Mapping[str, Any] | Callable[[Any, Any], Any] = "squared_error"
    exposure: int | str | None = None

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
        """Fit to rows X and targets y.

        Parameters
        ----------
        X : DataFrame of pandas or polars, Arrow table, array (n_rows, n_features), or list of dicts
            Columns of numbers, dates, strings or categories; missing values get their own node,
            unless ``missing="impute"`` draws them.
            Also a table in files, which may be larger than memory: a Parquet file, a folder of
            them, a pattern such as ``"data/*.parquet"``, or a dataset of pyarrow.
        y : array of shape (n_rows,) or (n_rows, n_targets)
            Targets; for a table in files the name of their column, or a list of names.
        sample_weight : array of shape (n_rows,), optional
            Weight of each row; for a table in files the name of a column. A weight of zero leaves
            the row out, and whole numbers act like repeated rows. If some weights are not whole,
            they change the rows' shares of the mass but not the number of rows.
        offset : array of shape (n_rows,), optional
            Known part of the raw score; refused where a parameter names a column for it.
        groups : array of shape (n_rows,), optional
            Names or numbers of groups of rows, such as the policy that a row belongs to. All rows
            of a group are on the same side wherever rows are held out: for stopping, for the search
            of interactions, for the selection and the path. Pass them if the model will predict for
            groups that it has not seen. For a table in files, the name of a column.
        start : fitted estimator, or its ``model_``, optional
            Model to start from, with the features, link and outputs of this fit. If it was fitted
            by an estimator of the same parameters on the same rows, growth goes on where it ended:
            k rounds and then m rounds are k + m rounds. Otherwise the fit finds what to add to it,
            until the held-out loss stops falling. No rounds, ``Grow(max_rounds=0)``, leave it as it
            is.
        freeze : list of features and of tuples of features, optional
            Components of ``start`` that keep their values.
        nodes : {"keep", "new"}, default="keep"
            Whether the model keeps the nodes and masses of ``start``, or gets those of the new
            rows, on which the old components are evaluated and centred again.
        checkpoint : path of a folder, optional
            Where growth is written to after every 50 rounds. If the fit is interrupted or killed,
            the same call resumes it from there, to the same bits.
        X_val, y_val : table and targets, optional
            Rows that decide when growth stops, which components are kept and how deep trees are
            mixed in, instead of those that bags would hold out. Then all bags train on all rows of
            X and differ by their random draws alone, and ``validation_fraction`` counts for
            nothing. The rows place no node and move no value in another way. ``sample_weight``,
            ``offset`` and ``groups`` then have the values of X and, after them, those of X_val. For
            a table in files, X_val is a path too, and y_val may be left out.
        """
        warm = self._begin(offset, start, freeze, nodes)
        rows = GivenRows.read(X, y, sample_weight, offset, groups, X_val, y_val)
        read = rows.checked(checked_targets)
        target, names = np.concatenate([target for target, _ in read]), read[0][1]
        objective = resolve(self.objective, target.shape[1])
        weights = checked_weights(rows.sample_weight, len(target))
        check_range(target, objective)
        check_range(target if weights is None else target[weights > 0], objective)
        if objective.is_estimated:
            given = (X, y, sample_weight, offset, groups)
            objective = self._estimated(warm, *given, X_val=X_val, y_val=y_val)
        _check_exposure(self.exposure, objective)
        targets = rows.weighted(target, weights)
        outputs = names if target.shape[1] > 1 else ()
        if objective.n_outputs > 1 and objective.levels:
            outputs = tuple(map(str, objective.levels))
        self._fit(rows, target, targets, Task(objective, outputs), warm, checkpoint)
        return self

    def _estimated(self, warm: WarmStart | None, *given: Any, **others: Any) -> Objective:
        """Loss with the dispersion of the model to start from, or of a short fit by Poisson's.

        It is that of rows that the bags of the short fit held out, so that noise that a model
        follows is not missing in it.
        """
        if warm is not None and warm.model.task.objective.dispersion is not None:
            return warm.model.task.objective
        short = {"objective": "poisson", "solver": "auto", "n_bags": 2, "bands": False}
        first = clone(self).set_params(**short, verbose=0).fit(*given, **others)
        solved = first._fitted_.solved
        rows = HeldOut(solved.problem, solved.solution).reported(solved.problem, POISSON)
        return negative_binomial(likeliest_dispersion(rows.y[:, 0], rows.raw[:, 0], rows.weights))

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """Share of the loss that the model explains: R^2, or D^2 where another loss was fitted.

        For counts and amounts it is the share of the deviance, beside a constant rate: what
        an exposure or another offset explains is not counted. For several quantiles it is the mean
        share of the pinball loss.
        """
        table, task = self._read(X), self.model_.task
        weights = checked_weights(sample_weight, table.n_rows)
        if task.kind == "rates":
            target, raw = task.targets(y, table.n_rows), self.model_.raw_scores(table, offset)
            known = known_offset(self.model_, table, offset)
            return explained_share(task, target, raw, known, weights)
        predicted, actual = self.predict(table, offset), checked_numbers("y", y)
        unit = unit_of(actual, predicted)  # in which no square overflows; a score has no unit
        actual, predicted = actual / unit, predicted / unit
        if task.kind != "quantiles":
            return float(r2_score(actual, predicted, sample_weight=weights))
        shares = [
            d2_pinball_score(actual, column, sample_weight=weights, alpha=float(level))
            for column, level in zip(predicted.T, self.model_.output_names, strict=True)
        ]
        return float(np.mean(shares))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _check_exposure(exposure: int | str | None, objective: Objective) -> None:
    if exposure is not None and objective.kind != "rates":
        raise ValueError(
            f"exposure: an objective with a log link is needed (poisson, gamma or tweedie), found "
            f"{objective.name!r}. Change the objective, or pass offset={exposure!r} if the column "
            "is to be added to the raw score."
        )
