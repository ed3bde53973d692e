"""Groups: rows that belong together are never on both sides of a split."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tpnn import TPNNClassifier, TPNNRegressor, TPNNSurvival

QUICK: Any = {"n_bags": 4, "random_state": 0, "verbose": 0}


def persons(seed: int, n_groups: int = 60, n_rows: int = 8) -> tuple[Any, np.ndarray, np.ndarray]:
    """Rows of persons: the target is a property of the person, whom one feature gives away."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_groups), n_rows)
    person = rng.normal(size=n_groups)
    mark = rng.permutation(n_groups).astype(float)
    X = pd.DataFrame({"mark": mark[groups] + 0.01 * rng.random(len(groups)), "x": rng.random()})
    X["x"] = rng.random(len(groups))
    return X, X["x"] + person[groups], groups


def test_the_held_out_loss_is_that_of_groups_not_seen() -> None:
    """Without groups the rows of a person are on both sides, and what marks a person pays."""
    X, y, groups = persons(0)
    fresh, target, _ = persons(1)
    fine = {**QUICK, "max_nodes": {1: 256, 2: 128}}  # so many that a mark is seen apart
    together = TPNNRegressor(**fine).fit(X, y, groups=groups)
    apart = TPNNRegressor(**fine).fit(X, y)
    errors = [float(np.mean((model.predict(fresh) - target) ** 2)) for model in (together, apart)]
    assert errors[0] < 0.8 * errors[1]
    losses = [sum(model.model_.provenance.scores.values()) for model in (together, apart)]
    assert losses[1] < 0.5 * losses[0], "the rows of one person are easy to guess"


def test_names_and_order_of_rows_do_not_matter() -> None:
    X, y, groups = persons(2, n_groups=12)
    names = np.array([f"person {number:02d}" for number in range(12)], dtype=object)[groups]
    one = TPNNRegressor(**QUICK).fit(X, y, groups=groups)
    assert_same(one, TPNNRegressor(**QUICK).fit(X, y, groups=names))
    order = np.random.default_rng(0).permutation(len(X))
    assert_same(one, TPNNRegressor(**QUICK).fit(X.iloc[order], y[order], groups=groups[order]))


def assert_same(one: Any, other: Any) -> None:
    for a, b in zip(one.model_.tables, other.model_.tables, strict=True):
        assert np.array_equal(a, b)


def test_classes_survival_and_the_path_know_groups() -> None:
    X, y, groups = persons(3, n_groups=20)
    label = np.where(y > np.median(y), "high", "low")
    model = TPNNClassifier(**QUICK).fit(X, label, groups=groups)
    assert not np.array_equal(
        model.predict_proba(X), TPNNClassifier(**QUICK).fit(X, label).predict_proba(X)
    )
    assert [step.n_components for step in model.path().steps]
    times = np.column_stack([np.exp(y), np.ones(len(y))])
    assert TPNNSurvival(**QUICK).fit(X, times, groups=groups).score(X, times) > 0.5


@pytest.mark.parametrize(
    ("groups", "found"),
    [
        (np.zeros(96), "found one"),
        (np.arange(95), r"found shape \(95,\) for 96 rows"),
        ([None] * 2 + ["a"] * 94, "found None or NaN in 2 of 96 rows"),
        (np.ma.masked_array(np.arange(96), np.arange(96) == 3), "groups: "),
    ],
)
def test_wrong_groups_are_refused(groups: Any, found: str) -> None:
    X, y, _ = persons(4, n_groups=12)
    with pytest.raises(ValueError, match=found):
        TPNNRegressor(**QUICK).fit(X, y, groups=groups)


def test_groups_without_weight_do_not_count() -> None:
    X, y, groups = persons(5, n_groups=2)
    with pytest.raises(ValueError, match="groups: at least two groups"):
        TPNNRegressor(**QUICK).fit(X, y, sample_weight=1.0 * (groups == 1), groups=groups)
