"""Predictions with standard errors warn once of values that fit has not seen."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd

from tpnn import TPNNClassifier, TPNNRegressor


def test_unseen_levels_are_warned_of_once(quick: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=80), "town": rng.choice(["Ulm", "Bonn"], 80)})
    new = X[:5].assign(town="Rome")
    settings = quick | {"order": 1}
    number = TPNNRegressor(**settings).fit(X, X["x"] + rng.normal(size=80))
    two = TPNNClassifier(**settings).fit(X, X["x"] + rng.normal(size=80) > 0)
    for method in (number.predict, two.predict_proba, two.decision_function):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            values, _ = method(new, return_std=True)
        assert len([one for one in caught if "has not seen" in str(one.message)]) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert np.array_equal(values, method(new))
