"""Challenger: what a model costs beside one that nobody can read, the price of readability.

The challenger is any model, function or column of predictions, or gradient boosting, which is
fitted to the training rows of the model. Where these are no longer there, each fifth of the rows
given is predicted by gradient boosting that is fitted to the others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.explain.metrics.estimates import known_offset, with_power
from tpnn.lifecycle.compare.by_rows import compare_rows
from tpnn.model.model import AnovaModel
from tpnn.table.encoder import TableEncoder
from tpnn.table.table import NOMINAL, Table

N_FOLDS = 5
FEWEST_ROWS = 20  # that are fitted to, of which a tenth is held out
MOST_LEVELS = 255  # that gradient boosting takes as levels; more are numbers to it
NO_LOSS = 1e-6  # of the loss of the model: percentages of it say nothing
MOST_TREES = 500  # a held-out tenth says after how many to stop
GAMMA_POWER = 2.0
OURS, OTHER = "model", "challenger"
READ, ON_FIT, ON_FOLDS = (
    "the predictions of the challenger that was given",
    "gradient boosting, fitted to the same rows as the model",
    "gradient boosting, fitted to four fifths of these rows to predict the others",
)


class Challenge(NamedTuple):
    """A model beside its challenger.

    Parameters
    ----------
    scores : DataFrame
        Scores of both on the same rows, and the paired difference with its standard error.
    about : str
        What the challenger is.
    loss : Series, or None
        The line of the first score of which less is better.
    """

    scores: pd.DataFrame
    about: str
    loss: Any

    @property
    def price(self) -> str:
        """The price of readability in a sentence: how much larger the loss of the model is."""
        loss = self.loss
        if loss is None:
            return (
                "The price of readability is not known: losses need predictions, and the "
                "challenger has scores on another scale."
            )
        words = (
            f"The price of readability: {loss['score']} is {loss[OURS]:.4g}, and {loss[OTHER]:.4g} "
            "of the challenger"
        )
        if abs(loss[OTHER]) <= NO_LOSS * abs(loss[OURS]):
            return f"{words}."
        unit = abs(loss[OTHER]) / 100
        share, reach = loss["difference"] / unit, 1.96 * loss["standard_error"] / unit
        ends = f"{_signed(share - reach)} to {_signed(share + reach)} %"
        return f"{words}, so {_signed(share)} % ({ends})."


def _signed(percent: float) -> str:
    """Two digits of a percentage with its sign.

    >>> _signed(123.4), _signed(-0.0456)
    ('+120', '-0.046')
    """
    return np.format_float_positional(
        percent, precision=2, fractional=False, unique=False, sign=True, trim="-"
    )


def challenged(
    model: Any,
    frozen: AnovaModel,
    X: Any,
    y: Any,
    offset: Any,
    power: float | None,
    challenger: Any,
) -> Any:
    """Compare a model with its challenger on rows; None without a challenger."""
    if challenger is None or challenger is False:
        return None
    kind, n_outputs = frozen.task.kind, len(frozen.intercepts)
    if n_outputs > 1 or kind not in ("numbers", "rates", "classes"):
        raise ValueError(
            f"challenger: not supported for {'several outputs' if n_outputs > 1 else kind}, only "
            "where a prediction is one mean. Leave it out, and use tpnn.compare."
        )
    about = READ
    if challenger is True:
        challenger, about = boosted(model, frozen, X, y, offset)
    both = compare_rows({OTHER: challenger, OURS: frozen}, X, y, offset, None, OTHER)
    both = replace(both, tasks=[with_power(frozen.task, power)])
    return Challenge(both.scores, about, both.loss)


class Rows(NamedTuple):
    """Rows as gradient boosting takes them."""

    x: FloatArray  # (n, p)
    y: FloatArray  # (n,): two classes are 0 and 1
    offset: FloatArray  # (n,)
    weights: FloatArray  # (n,)

    def take(self, some: IntArray) -> Rows:
        """Return some of the rows."""
        return Rows(*(array[some] for array in self))


def boosted(model: Any, frozen: AnovaModel, X: Any, y: Any, offset: Any) -> tuple[FloatArray, str]:
    """Predictions of gradient boosting on rows, and what it was fitted to."""
    table = frozen.encoder.read(X)
    known = known_offset(frozen, table, offset)
    if known.any() and frozen.task.kind == "classes":
        raise ValueError(
            "challenger: gradient boosting has no offset of log-odds, found one in the model. Pass "
            "the predictions of a challenger as an array."
        )
    fitted = getattr(model, "_fitted_", None)
    encoder = frozen.encoder if fitted is None else fitted.solved.problem.encoder
    new = Rows(_matrix(encoder, encoder.read(X)), frozen.task.told(y).targets(y, len(known))[:, 0],
               known, np.ones(len(known)))  # fmt: skip
    if fitted is None:
        _check_enough(frozen, new)
        side = new.y > 0 if frozen.task.kind != "numbers" else np.zeros(len(known))
        order = np.lexsort((np.random.default_rng(0).permutation(len(known)), side))
        fold, answer = np.empty(len(known), np.intp), np.empty(len(known))
        fold[order] = np.arange(len(known)) % N_FOLDS  # both classes are in all of them
        for number in range(N_FOLDS):
            inside, outside = (np.flatnonzero(fold == number), np.flatnonzero(fold != number))
            answer[inside] = _predicted(frozen, encoder, new.take(outside), new.take(inside))
        return answer, ON_FOLDS
    problem = fitted.solved.problem
    given = problem.targets
    weights = np.ones(len(given.y)) if given.weights is None else given.weights
    old = Rows(_matrix(encoder, problem.codes.table), given.y[:, 0], given.offset, weights)
    _check_enough(frozen, old)
    return _predicted(frozen, encoder, old, new), ON_FIT


def _check_enough(model: AnovaModel, rows: Rows) -> None:
    """Refuse rows that gradient boosting cannot be fitted to, with some held out to stop."""
    n_rows, n_second = len(rows.y), int((rows.y > 0).sum())
    found = f"{n_rows} rows" if n_rows < FEWEST_ROWS else ""
    if model.task.kind == "classes" and min(n_second, n_rows - n_second) < N_FOLDS:
        found = found or f"{n_second} of {n_rows} rows in the second class"
    elif model.task.kind == "rates" and n_second < N_FOLDS:
        found = found or f"{n_second} of {n_rows} targets above 0"
    if found:
        raise ValueError(
            f"challenger: gradient boosting needs {FEWEST_ROWS} rows, and {N_FOLDS} of each class "
            f"or {N_FOLDS} targets above 0 of a rate, found {found}. Pass more rows, or the "
            "predictions of a challenger as an array."
        )


def _matrix(encoder: TableEncoder, table: Table) -> FloatArray:
    """Numbers of a table, levels as their numbers; unseen ones are missing."""
    columns = [encoder.numbers(table, j) for j in range(encoder.n_features)]
    matrix = np.column_stack(columns)
    return np.where(np.isfinite(matrix), matrix, np.nan)


def _predicted(model: AnovaModel, encoder: TableEncoder, old: Rows, new: Rows) -> FloatArray:
    """Fit gradient boosting to old rows, and predict new ones."""
    from sklearn.ensemble import HistGradientBoostingClassifier as Classifier
    from sklearn.ensemble import HistGradientBoostingRegressor as Regressor

    nominal = [each.kind == NOMINAL and len(each.levels) <= MOST_LEVELS
               for each in encoder.features]  # fmt: skip
    common: dict[str, Any] = {"categorical_features": nominal, "max_iter": MOST_TREES,
                              "early_stopping": True, "random_state": 0}  # fmt: skip
    if model.task.kind == "classes":
        classifier = Classifier(**common).fit(old.x, old.y, sample_weight=old.weights)
        return np.asarray(classifier.predict_proba(new.x)[:, 1])
    if model.task.kind == "numbers":
        regressor = Regressor(**common).fit(old.x, old.y - old.offset, sample_weight=old.weights)
        return np.asarray(regressor.predict(new.x) + new.offset)
    exposure = np.exp(old.offset)
    loss = "gamma" if model.task.objective.power == GAMMA_POWER else "poisson"
    rates = Regressor(loss=loss, **common)
    rates.fit(old.x, old.y / exposure, sample_weight=old.weights * exposure)
    return np.asarray(rates.predict(new.x) * np.exp(new.offset))
