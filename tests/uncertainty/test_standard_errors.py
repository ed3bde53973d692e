"""Standard errors of predictions against the truth of simulations, and against algebra."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.conftest import QUICK
from tpnn import TPNNClassifier, TPNNRegressor, TPNNSurvival, datasets
from tpnn.loss.links import LINKS

N_ROWS = 1500


@pytest.fixture(scope="module")
def rows() -> Any:
    return datasets.make_synthetic("f2", n_samples=N_ROWS, random_state=0)


def test_two_standard_errors_hold_the_true_mean(rows: Any) -> None:
    """Over new rows, about 95 % of the time, and errors are not a multiple of what is needed."""
    new = datasets.make_synthetic("f2", n_samples=4000, random_state=1)
    model = TPNNRegressor(order=2, n_bags=4, random_state=0, verbose=0).fit(rows.X, rows.y)
    predicted, errors = model.predict(new.X, return_std=True)
    distance = np.abs(predicted - np.asarray(new.f))
    assert 0.9 < (distance <= 1.96 * errors).mean() < 0.995
    assert 0.6 < np.sqrt(np.mean(distance**2) / np.mean(errors**2)) < 1.3


def test_the_remainder_has_an_error_too() -> None:
    """Where trees say most of a model, its errors are as large as its distance from the truth."""
    rng = np.random.default_rng(0)
    X, new = rng.random((1500, 6)), rng.random((4000, 6))

    def truth(X: Any) -> Any:
        return 3 * np.prod(np.sign(X[:, :3] - 0.5), 1) + X[:, 3]

    settings = {"max_components": 2, "remainder": True, "n_bags": 4, "random_state": 0}
    model = TPNNRegressor(**settings, verbose=0).fit(X, truth(X) + 0.5 * rng.normal(size=1500))
    predicted, errors = model.predict(new, return_std=True)
    assert model.model_.remainder.share > 0.5
    assert 0.5 < np.sqrt(np.mean((predicted - truth(new)) ** 2) / np.mean(errors**2)) < 2.0


def test_more_rows_mean_smaller_errors() -> None:
    means = []
    for n_rows in (400, 1600):
        data = datasets.make_synthetic("f2", n_samples=n_rows, random_state=0)
        model = TPNNRegressor(order=1, n_bags=4, random_state=0, verbose=0).fit(data.X, data.y)
        means.append(model.predict(data.X, return_std=True)[1].mean())
    assert 0.35 < means[1] / means[0] < 0.8  # a quarter of the variance is half of the error


def test_errors_of_a_line_are_those_of_least_squares() -> None:
    """Two levels of a feature: the model is two means, whose errors are known."""
    rng = np.random.default_rng(0)
    X = np.repeat([[0.0], [1.0]], [300, 900], axis=0)
    y = X[:, 0] + rng.normal(size=1200)
    model = TPNNRegressor(n_bags=8, categorical=[0], random_state=0, verbose=0).fit(X, y)
    errors = model.predict(np.array([[0.0], [1.0]]), return_std=True)[1]
    assert errors == pytest.approx(1 / np.sqrt([300, 900]), rel=0.25)


def test_errors_of_means_are_derivatives_of_the_link() -> None:
    """Against a simulation of raw scores with small independent errors."""
    rng = np.random.default_rng(0)
    raw, errors = rng.normal(size=(3, 4)), 0.01 * rng.random((3, 4))
    draws = raw + errors * rng.normal(size=(40_000, 3, 4))
    for link in ("identity", "log", "logit", "softmax"):
        inverse = LINKS[link].inverse
        found = LINKS[link].errors_of_means(inverse(raw), raw, errors)
        assert found == pytest.approx(inverse(draws).std(0), rel=0.03)


def test_errors_of_quantiles_go_with_them() -> None:
    raw, errors = np.array([[2.0, 1.0, 3.0]]), np.array([[0.2, 0.1, 0.3]])
    found = LINKS["quantiles"].errors_of_means(np.sort(raw), raw, errors)
    assert np.array_equal(found, [[0.1, 0.2, 0.3]])


def test_every_task_has_standard_errors(rows: Any) -> None:
    X, y = rows.X[:300], np.asarray(rows.y[:300])
    labels = np.digitize(y, np.quantile(y, [0.3, 0.6]))
    classifier = TPNNClassifier(**QUICK).fit(X, labels)
    for method in (classifier.predict_proba, classifier.decision_function):
        values, errors = method(X, return_std=True)
        assert values.shape == errors.shape == (300, 3)
        assert (errors > 0).all()
        assert np.array_equal(values, method(X))
    two = TPNNClassifier(**QUICK).fit(X, labels > 0)
    shares, errors = two.predict_proba(X, return_std=True)
    logits = two.decision_function(X, return_std=True)[1]
    assert errors[:, 0] == pytest.approx(shares[:, 0] * shares[:, 1] * logits)
    survival = TPNNSurvival(**QUICK).fit(X, np.column_stack([np.exp(y / y.std()), labels > 0]))
    assert (survival.predict(X, return_std=True)[1] > 0).all()
    quantiles = TPNNRegressor(**QUICK, objective={"name": "quantile", "levels": [0.1, 0.9]})
    assert quantiles.fit(X, y).predict(X, return_std=True)[1].shape == (300, 2)


def test_an_offset_is_known_without_error(rows: Any) -> None:
    X, offset = rows.X[:300], np.linspace(-1, 1, 300)
    y = np.random.default_rng(0).poisson(np.exp(offset))
    model = TPNNRegressor(**QUICK, objective="poisson").fit(X, y, offset=offset)
    errors = model.model_.standard_errors(X)
    predicted, of_means = model.predict(X, offset=offset, return_std=True)
    assert of_means == pytest.approx(predicted * errors)
