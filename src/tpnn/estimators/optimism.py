"""optimism: how much better an estimator looks on its own rows than it is, by the bootstrap.

Harrell's procedure. The optimism of a score is the mean, over samples of the rows with replacement,
of the score that a fit to the sample has on the sample, less the one it has on all rows. The score
of the fit to all rows on these rows, less the optimism, is what new rows of the kind will show.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone, is_classifier
from sklearn.utils import resample

from tpnn._utils.rules import Rule, check_parameters, is_count
from tpnn.explain.metrics.estimates import estimate
from tpnn.table.columns import is_in_files

SAMPLES_RULE = Rule("a whole number of at least 2", lambda x: is_count(x) and x > 1, 50)
SEED_RULE = Rule("a whole number from 0 on", lambda value: value == 0 or is_count(value), 0)


def optimism(
    estimator: Any, X: Any, y: Any, n_samples: int = 50, random_state: int = 0
) -> pd.DataFrame:
    """Scores of an estimator on the rows of its fit, and what is left of them on new rows.

    It fits the estimator once to all rows and once to every sample, with all that a fit does:
    searching, selecting and stopping are repeated, too. Rows cost less where ``n_bags`` is small.

    Parameters
    ----------
    estimator : TPNNRegressor, TPNNClassifier or TPNNSurvival
        What to fit; it is not changed. Offsets are named as columns of X.
    X, y : table and targets
        The training rows.
    n_samples : int, default=50
        Number of samples with replacement, at least 2. Each has as many rows of a class as X.
    random_state : int, default=0
        Seed of the samples.

    Returns
    -------
    DataFrame
        For each score, in the index: ``apparent`` on the rows of the fit, ``optimism``, its
        ``standard_error`` over samples, and ``corrected``.

    Examples
    --------
    >>> from tpnn import TPNNRegressor, datasets
    >>> X, y = datasets.load("abalone")
    >>> model = TPNNRegressor(order=1, n_bags=2, random_state=0)
    >>> found = optimism(model, X[:300], y[:300], n_samples=2)
    >>> bool(found.loc["R2", "corrected"] < found.loc["R2", "apparent"])
    True
    """
    rules = {"n_samples": SAMPLES_RULE, "random_state": SEED_RULE}
    check_parameters({"n_samples": n_samples, "random_state": random_state}, rules)
    if is_in_files(X):
        raise TypeError(
            f"X: must be a table in memory, because rows are drawn from it, found {X!r}. Read it, "
            "or some of its rows."
        )
    classes = y if is_classifier(estimator) else None
    apparent = _scores(clone(estimator).fit(X, y), X, y)
    differences = []
    for number in range(n_samples):
        rows, targets = resample(X, y, random_state=random_state + number, stratify=classes)
        fitted = clone(estimator).fit(rows, targets)
        differences.append(_scores(fitted, rows, targets) - _scores(fitted, X, y))
    by_sample = pd.DataFrame(differences)[apparent.index]
    mean = by_sample.mean()
    return pd.DataFrame(
        {"apparent": apparent, "optimism": mean,
         "standard_error": by_sample.std(ddof=1) / np.sqrt(by_sample.count()),
         "corrected": apparent - mean}
    )  # fmt: skip


def _scores(fitted: Any, X: Any, y: Any) -> pd.Series:
    """Scores of a fitted estimator on rows, by name."""
    model = fitted.model_
    found = estimate(model.task, y, model.raw_scores(X))
    return pd.Series({one.name: one.value for one in found})
