"""The price of readability: equal to scikit-learn's own losses of the same challenger."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    log_loss,
    mean_poisson_deviance,
    mean_squared_error,
    mean_tweedie_deviance,
)
from threadpoolctl import threadpool_limits

import tpnn
from tpnn import TPNNClassifier, TPNNRegressor, TPNNSurvival, validate
from tpnn.lifecycle.validate.challenger import N_FOLDS

QUICK: dict[str, Any] = {
    "n_bags": 2, "order": 1, "random_state": 0, "bands": False, "verbose": 0
}  # fmt: skip
BOOSTED: dict[str, Any] = {"max_iter": 500, "early_stopping": True, "random_state": 0}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads of gradient boosting spin, which takes long where others want the cores, too."""
    with threadpool_limits(1):
        yield


def rows(seed: int = 0, n_rows: int = 300) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.normal(size=n_rows), "b": rng.normal(size=n_rows)})
    X["town"] = rng.choice(["Bonn", "Jena", "Ulm"], n_rows)
    X.loc[rng.random(n_rows) < 0.1, "a"] = np.nan
    return X, np.nan_to_num(X["a"]) * X["b"] + (X["town"] == "Ulm") + rng.normal(size=n_rows) / 2


def matrix(X: pd.DataFrame) -> np.ndarray:
    return np.column_stack([X["a"], X["b"], X["town"].map({"Bonn": 0, "Jena": 1, "Ulm": 2})])


def test_two_classes_beside_boosting_of_the_same_rows() -> None:
    (X, y), (new, actual) = rows(), rows(1)
    labels, seen = np.where(y > 0, "yes", "no"), actual > 0
    model = TPNNClassifier(**QUICK).fit(X, labels)
    found = validate(model, new, np.where(seen, "yes", "no"), challenger=True)
    other = HistGradientBoostingClassifier(categorical_features=[False, False, True], **BOOSTED)
    other.fit(matrix(X), y > 0)
    means = {"model": model.predict_proba(new)[:, 1],
             "challenger": other.predict_proba(matrix(new))[:, 1]}  # fmt: skip
    loss = found.challenge.scores.iloc[0]
    for name, mean in means.items():
        assert loss[name] == pytest.approx(log_loss(seen, mean), abs=1e-12)
    by_row = {k: -np.log(np.where(seen, m, 1 - m)) for k, m in means.items()}
    differences = by_row["model"] - by_row["challenger"]
    assert loss["difference"] == pytest.approx(differences.mean(), abs=1e-12)
    assert loss["standard_error"] == pytest.approx(differences.std(ddof=1) / np.sqrt(300))
    share = 100 * loss["difference"] / loss["challenger"]
    assert f"so {share:+.2g} % (" in found.challenge.price
    assert "the same rows" in found.challenge.about


def test_numbers_with_an_offset_and_weights() -> None:
    (X, y), (new, actual) = rows(), rows(1)
    rng = np.random.default_rng(2)
    offset, weights = rng.normal(size=300), rng.uniform(0.5, 2, 300)
    model = TPNNRegressor(**QUICK).fit(X, y + offset, sample_weight=weights, offset=offset)
    found = validate(model, new, actual + offset, offset=offset, challenger=True)
    other = HistGradientBoostingRegressor(categorical_features=[False, False, True], **BOOSTED)
    other.fit(matrix(X), y, sample_weight=weights / weights.max() if weights.max() > 2 else weights)
    expected = mean_squared_error(actual, other.predict(matrix(new)))
    assert found.challenge.scores.iloc[0]["challenger"] == pytest.approx(expected, rel=1e-9)


def test_counts_by_an_exposure() -> None:
    (X, y), (new, actual) = rows(), rows(1)
    rng = np.random.default_rng(3)
    tables, counts = [], []
    for frame, score in ((X, y), (new, actual)):
        years = rng.uniform(0.2, 2, len(frame))
        tables.append(frame.assign(years=years))
        counts.append(rng.poisson(years * np.exp(score / 3)).astype(float))
    model = TPNNRegressor(objective="poisson", exposure="years", **QUICK).fit(tables[0], counts[0])
    found = validate(model, tables[1], counts[1], challenger=True)
    other = HistGradientBoostingRegressor(
        loss="poisson", categorical_features=[False, False, True], **BOOSTED
    )
    years = tables[0]["years"]
    other.fit(matrix(X), counts[0] / years, sample_weight=years)
    mean = other.predict(matrix(new)) * tables[1]["years"]
    expected = mean_poisson_deviance(counts[1], mean)
    assert found.challenge.scores.iloc[0]["challenger"] == pytest.approx(expected, rel=1e-9)


def test_a_file_alone_is_challenged_in_fifths(tmp_path: Path) -> None:
    """Every row is predicted by boosting of the four fifths that it is not in."""
    (X, y), (new, actual) = rows(), rows(1, 250)
    TPNNRegressor(**QUICK).fit(X, y).model_.save(tmp_path / "model.tpnn")
    found = validate(tpnn.load(tmp_path / "model.tpnn"), new, actual, challenger=True)
    assert "four fifths" in found.challenge.about
    kept = [name for name in X if name in tpnn.load(tmp_path / "model.tpnn").model_.feature_names]
    places, x = [list(X).index(name) for name in kept], matrix(new)
    fold = np.random.default_rng(0).permutation(250) % N_FOLDS
    mean = np.empty(250)
    for number in range(N_FOLDS):
        other = HistGradientBoostingRegressor(
            categorical_features=[name == "town" for name in kept], **BOOSTED
        ).fit(x[fold != number][:, places], actual[fold != number])
        mean[fold == number] = other.predict(x[fold == number][:, places])
    expected = mean_squared_error(actual, mean)
    assert found.challenge.scores.iloc[0]["challenger"] == pytest.approx(expected, rel=1e-9)


def test_a_challenger_of_ones_own_is_in_the_document(tmp_path: Path) -> None:
    (X, y), (new, actual) = rows(), rows(1)
    model = TPNNClassifier(**QUICK).fit(X, y > 0)
    own = LogisticRegression().fit(X[["b"]], y > 0)
    found = validate(
        model, new, actual > 0, challenger=lambda frame: own.predict_proba(frame[["b"]])[:, 1]
    )
    mean = own.predict_proba(new[["b"]])[:, 1]
    assert found.challenge.scores.iloc[0]["challenger"] == pytest.approx(log_loss(actual > 0, mean))
    assert found.to_dict()["challenger"]["price"] == found.challenge.price
    found.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "price of readability" in page
    assert "challenger" not in validate(model, new, actual > 0).to_dict()


@pytest.mark.parametrize("objective", ["poisson", "squared_error"])
def test_counts_of_0_and_1_are_scored_by_the_loss_of_the_model(objective: str) -> None:
    """As scikit-learn has it: the price has the sign of the difference of the losses."""
    (X, y), (new, actual) = rows(), rows(1)
    model = TPNNRegressor(objective=objective, **QUICK).fit(X, (y > 0).astype(float))
    mean, seen = model.predict(new), (actual > 0).astype(float)
    worse, deviance = np.full(300, 0.9), mean_poisson_deviance
    measured = deviance if objective == "poisson" else mean_squared_error
    found = validate(model, new, seen, challenger=worse).challenge
    assert found.loss["challenger"] == pytest.approx(measured(seen, worse))
    assert found.loss["difference"] == pytest.approx(measured(seen, mean) - measured(seen, worse))
    assert found.loss["difference"] < 0
    assert (
        f"so -{abs(100 * found.loss['difference'] / found.loss['challenger']):.2g} %" in found.price
    )
    if objective == "poisson":
        power = validate(model, new, seen, power=1.5, challenger=worse).challenge
        expected = mean_tweedie_deviance(seen, worse, power=1.5)
        assert power.loss["challenger"] == pytest.approx(expected)


def test_the_price_is_a_loss_in_plain_digits() -> None:
    (X, y), (new, actual) = rows(), rows(1)
    model, seen = TPNNClassifier(**QUICK).fit(X, y > 0), actual > 0
    ranks = validate(model, new, seen, challenger=10 * np.arange(300.0)).challenge
    assert "not known" in ranks.price
    certain = validate(model, new, seen, challenger=np.where(seen, 1.0, 0.0)).challenge
    assert "%" not in certain.price  # of a loss of zero
    alike = validate(model, new, np.ones(300, bool), challenger=10 * np.arange(300.0)).challenge
    assert alike.loss is None
    numbers = TPNNRegressor(**QUICK).fit(X, y)
    near = validate(numbers, new, actual, challenger=actual + 0.01).challenge
    assert near.loss["difference"] / near.loss["challenger"] > 100
    assert "e+" not in near.price


def test_too_few_rows_are_refused_and_few_of_a_class_are_in_every_fifth(tmp_path: Path) -> None:
    (X, y), (new, _) = rows(), rows(1, 60)
    TPNNClassifier(**QUICK).fit(X, y > 0).model_.save(tmp_path / "model.tpnn")
    model = tpnn.load(tmp_path / "model.tpnn")
    rare = np.arange(60) < 5
    assert np.isfinite(validate(model, new, rare, challenger=True).challenge.loss["challenger"])
    for n_rows, labels in ((4, rare[:4]), (60, rare & (np.arange(60) < 4)), (60, rare & False)):
        with pytest.raises(ValueError, match=r"^challenger: gradient boosting needs 20 rows"):
            validate(model, new[:n_rows], labels, challenger=True)
    TPNNRegressor(objective="poisson", **QUICK).fit(X, np.exp(y)).model_.save(tmp_path / "c.tpnn")
    counts, one = tpnn.load(tmp_path / "c.tpnn"), (np.arange(60) == 7).astype(float)
    with pytest.raises(ValueError, match=r"^challenger: .* found 1 of 60 targets above 0"):
        validate(counts, new, one, challenger=True)


def test_messages_name_the_challenger() -> None:
    (X, y), (new, actual) = rows(), rows(1)
    model = TPNNRegressor(**QUICK).fit(X, y)
    with pytest.raises(TypeError, match=r"^challenger: must be .* each of the 300 rows, found"):
        validate(model, new, actual, challenger=np.zeros(299))
    columns = {name: new[name].to_numpy() for name in new}
    found = validate(model, columns, actual, challenger=np.zeros(300)).challenge
    assert found.loss["challenger"] == pytest.approx(mean_squared_error(actual, np.zeros(300)))


def test_what_has_no_single_mean_is_refused() -> None:
    X, y = rows()
    lifetimes = pd.DataFrame({"time": np.exp(y), "event": y > 0})
    model = TPNNSurvival(**QUICK).fit(X, lifetimes)
    with pytest.raises(ValueError, match="challenger: not supported for survival"):
        validate(model, X, lifetimes, challenger=True)
    three = TPNNClassifier(**QUICK).fit(X, np.digitize(y, [-0.5, 0.5]))
    with pytest.raises(ValueError, match="challenger: not supported for several outputs"):
        validate(three, X, np.digitize(y, [-0.5, 0.5]), challenger=True)
    two = TPNNClassifier(**QUICK).fit(X, y > 0, offset=X["b"].to_numpy())
    with pytest.raises(ValueError, match="challenger: gradient boosting has no offset of log-odds"):
        validate(two, X, y > 0, offset=X["b"].to_numpy(), challenger=True)
    with pytest.raises(TypeError, match="validate: there is no argument 'noize'"):
        validate(two, X, y > 0, noize=1.0)
