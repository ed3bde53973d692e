"""Stability: the score of the paper over several fits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.models import random_model
from tpnn import TPNNRegressor, stability, stability_scores


def test_stability_is_the_formula_of_the_paper(table: Any, quick: Any) -> None:
    X, y = table
    fits = [TPNNRegressor(**{**quick, "order": 1, "random_state": s}).fit(X, y) for s in range(3)]
    assert len({tuple(fit.components_) for fit in fits}) == 1
    found = stability(fits, X[:50])
    scores = np.stack([fit.model_.component_scores(X[:50]) for fit in fits])  # (3, n, C)
    spread = ((scores - scores.mean(0)) ** 2).sum(0)
    expected = (spread / (scores**2).sum(0)).mean(0)
    for names, value in zip(fits[0].components_, expected, strict=True):
        assert found.components[names] == pytest.approx(value)
    assert found.score == pytest.approx(expected.mean())
    assert stability([fits[0], fits[0].model_], X).score == pytest.approx(0.0, abs=1e-12)


def test_stability_counts_a_missing_component_as_zero(table: Any, quick: Any) -> None:
    X, y = table
    mains = TPNNRegressor(**{**quick, "order": 1}).fit(X, y)
    pair = TPNNRegressor(**quick, interactions=[("smooth", "level")]).fit(X, y)
    found = stability([mains, pair], X)
    assert found.components["smooth", "level"] == pytest.approx(0.5)


def test_stability_of_other_features(table: Any, quick: Any) -> None:
    X, y = table
    fits = [TPNNRegressor(**quick).fit(X, y), TPNNRegressor(**quick).fit(X[X.columns[::-1]], y)]
    with pytest.raises(ValueError, match=r"^models: all fits must have the same features"):
        stability(fits, X)
    with pytest.raises(ValueError, match=r"^models: at least two fits are needed, found 1"):
        stability(fits[:1], X)


@settings(max_examples=60, deadline=None)
@given(arrays(np.float64, (3, 5, 2), elements=st.floats(-1e3, 1e3)))
def test_scores_lie_between_agreement_and_cancellation(estimates: np.ndarray) -> None:
    scores = stability_scores(estimates)
    assert scores.shape == (2,)
    assert ((scores >= 0) & (scores <= 1 + 1e-12)).all()
    assert np.allclose(stability_scores(estimates[::-1]), scores)
    same = np.broadcast_to(estimates[:1], estimates.shape)
    assert np.allclose(stability_scores(same), 0.0)


def test_components_are_listed_from_the_least_stable() -> None:
    rows = np.random.default_rng(0).normal(size=(30, 3))
    fits = [random_model(3, 2), random_model(3, 2).restrict([(0,), (1, 2)])]
    found = stability(fits, rows)
    assert list(found.components.values()) == sorted(found.components.values(), reverse=True)
    assert found.components["x0",] == found.components["x1", "x2"] == 0.0
    assert found.components["x1",] == pytest.approx(0.5)
    assert found.score == pytest.approx(np.mean(list(found.components.values())))


def test_fits_of_several_outputs() -> None:
    rows = np.random.default_rng(0).normal(size=(30, 3))
    model = random_model(3, 1, n_outputs=2)
    assert stability([model, model], rows).score == pytest.approx(0.0)
