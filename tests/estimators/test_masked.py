"""Masked targets, weights and offsets are refused: NumPy would use what the mask hides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.conftest import QUICK
from tpnn import TPNNClassifier, TPNNRegressor, TPNNSurvival, distill, fingerprint

X = np.random.default_rng(0).normal(size=(60, 2))
Y = X[:, 0] + X[:, 1]
HIDDEN = np.arange(60) == 7


def masked(values: Any) -> Any:
    """A wrong value under the mask."""
    return np.ma.MaskedArray(np.where(HIDDEN, 1e6, values), HIDDEN)


@pytest.mark.parametrize("kind", [TPNNRegressor, TPNNClassifier, TPNNSurvival])
@pytest.mark.parametrize("argument", ["sample_weight", "offset"])
def test_masked_rows(kind: Any, argument: str) -> None:
    y = {
        TPNNRegressor: Y,
        TPNNClassifier: Y > 0,
        TPNNSurvival: np.column_stack([np.exp(Y), np.ones(60)]),
    }[kind]
    with pytest.raises(ValueError, match=rf"^{argument}: every row needs a value, found 1 masked"):
        kind(**QUICK).fit(X, y, **{argument: masked(np.ones(60))})
    kind(**QUICK).fit(X, y, **{argument: np.ma.MaskedArray(np.ones(60))})  # a mask that hides none


@pytest.mark.parametrize(
    "y", [masked(Y), np.ma.column_stack([masked(Y), Y])], ids=["one target", "two targets"]
)
def test_masked_targets(y: Any) -> None:
    with pytest.raises(ValueError, match=r"^y: every row needs a value, found 1 masked"):
        TPNNRegressor(**QUICK).fit(X, y)


def test_masked_labels_and_times() -> None:
    with pytest.raises(ValueError, match=r"^y: every row needs a label, found missing labels in 1"):
        TPNNClassifier(**QUICK).fit(X, np.ma.MaskedArray(Y > 0, HIDDEN))
    times = np.ma.column_stack([masked(np.exp(Y)), np.ones(60)])
    with pytest.raises(ValueError, match=r"^y: every row needs a value, found 1 masked"):
        TPNNSurvival(**QUICK).fit(X, times)
    fields = np.zeros(60, dtype=[("event", bool), ("time", float)])
    fields["time"], fields["event"] = np.exp(Y), True
    hidden = np.ma.MaskedArray(fields)
    hidden["time"][3] = np.ma.masked
    with pytest.raises(ValueError, match=r"^y: every row needs a value, found 1 masked"):
        TPNNSurvival(**QUICK).fit(X, hidden)


def test_masked_rows_have_no_score() -> None:
    ones, hidden = np.ones(60), r": every row needs a value, found 1 masked"
    numbers = TPNNRegressor(**QUICK).fit(X, Y)
    labels = TPNNClassifier(**QUICK).fit(X, Y > 0)
    with pytest.raises(ValueError, match=f"^y{hidden}"):
        numbers.score(X, masked(Y))
    with pytest.raises(ValueError, match=r"^y: every row needs a label, found missing labels in 1"):
        labels.score(X, np.ma.MaskedArray(Y > 0, HIDDEN))
    for model, y in ((numbers, Y), (labels, Y > 0)):
        with pytest.raises(ValueError, match=f"^sample_weight{hidden}"):
            model.score(X, y, sample_weight=masked(ones))
        assert model.score(X, np.ma.MaskedArray(y), np.ma.MaskedArray(ones)) == model.score(X, y)


def test_masked_times_answers_and_fingerprints() -> None:
    hidden = r": every row needs a value, found \d+ masked"
    survival = TPNNSurvival(**QUICK).fit(X, np.column_stack([np.exp(Y), np.ones(60)]))
    with pytest.raises(ValueError, match=f"^times{hidden}"):
        survival.predict_survival(X, np.ma.MaskedArray([1.0, 2.0], [False, True]))
    with pytest.raises(ValueError, match=f"^predict{hidden}"):
        distill(lambda rows: np.ma.masked_greater(rows[:, 0], 0.0), X, **QUICK)
    with pytest.raises(ValueError, match=f"^y{hidden}"):
        fingerprint(X, masked(Y))


class Unsure:
    """A classifier that masks some of its probabilities."""

    def predict_proba(self, rows: Any) -> Any:
        shares = np.full((len(rows), 2), 0.5)
        return np.ma.MaskedArray(shares, np.repeat(rows[:, :1] > 0, 2, axis=1))


def test_masked_probabilities() -> None:
    with pytest.raises(ValueError, match=r"^predict: every row needs a value, found \d+ masked"):
        distill(Unsure(), X, **QUICK)
