"""Optimism by the bootstrap: beside a loop by hand, and on noise where nothing is to be found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.utils import resample

from tpnn import TPNNClassifier, TPNNSurvival, optimism

QUICK: dict[str, Any] = {
    "n_bags": 2, "order": 1, "random_state": 0, "verbose": 0, "selection": "none"
}  # fmt: skip


def test_it_is_harrells_loop() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc"))
    y = X["a"] + rng.normal(size=200) > 0
    found = optimism(TPNNClassifier(**QUICK), X, y, n_samples=3, random_state=5)
    differences = []
    for number in range(3):
        rows, labels = resample(X, y, random_state=5 + number, stratify=y)
        model = TPNNClassifier(**QUICK).fit(rows, labels)
        on_sample, on_all = (
            roc_auc_score(labels_of, model.predict_proba(table)[:, 1])
            for table, labels_of in ((rows, labels), (X, y))
        )
        differences.append(on_sample - on_all)
    model = TPNNClassifier(**QUICK).fit(X, y)
    area = found.loc["AUROC"]
    assert area["apparent"] == pytest.approx(roc_auc_score(y, model.predict_proba(X)[:, 1]))
    assert area["optimism"] == pytest.approx(np.mean(differences))
    assert area["standard_error"] == pytest.approx(np.std(differences, ddof=1) / np.sqrt(3))
    assert area["corrected"] == pytest.approx(area["apparent"] - np.mean(differences))


def test_the_corrected_score_is_nearer_to_that_of_new_rows() -> None:
    """150 rows, six features of noise beside two with an effect, and 20,000 new rows."""
    rng = np.random.default_rng(1)

    def drawn(n_rows: int) -> tuple[pd.DataFrame, np.ndarray]:
        X = pd.DataFrame(rng.normal(size=(n_rows, 8)), columns=list("abcdefgh"))
        return X, rng.random(n_rows) < 1 / (1 + np.exp(-X["a"] - 0.7 * X["b"]))

    (X, y), (new, actual) = drawn(150), drawn(20_000)
    found = optimism(TPNNClassifier(**QUICK), X, y, n_samples=6).loc["AUROC"]
    share = TPNNClassifier(**QUICK).fit(X, y).predict_proba(new)[:, 1]
    truth = roc_auc_score(actual, share)
    assert truth < found["corrected"] < found["apparent"]
    assert found["optimism"] > 2 * found["standard_error"]


def test_lifetimes_have_a_corrected_c_index() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(150, 2))
    y = pd.DataFrame({"time": rng.exponential(np.exp(-X[:, 0])), "event": rng.random(150) < 0.7})
    found = optimism(TPNNSurvival(**QUICK), X, y, n_samples=2).loc["C-index"]
    assert 0.5 < found["corrected"] < 1


def test_every_sample_has_every_class() -> None:
    """Without strata a sample lacks the class of two rows with a probability of 13 %."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2))
    y = np.repeat(["often", "rare", "often too"], [30, 2, 28])
    quick = TPNNClassifier(**{**QUICK, "n_bags": 1})
    assert any(len(set(resample(y, random_state=seed))) < 3 for seed in range(12))
    found = optimism(quick, X, y, n_samples=12)
    assert np.isfinite(found.to_numpy()).all()


def test_bad_input() -> None:
    for few in (0, 1):
        with pytest.raises(ValueError, match="n_samples: must be a whole number of at least 2"):
            optimism(TPNNClassifier(**QUICK), np.eye(3), [0, 1, 1], n_samples=few)
    with pytest.raises(TypeError, match=r"^X: must be a table in memory, .* found 'rows.parquet'"):
        optimism(TPNNClassifier(**QUICK), "rows.parquet", "y")
