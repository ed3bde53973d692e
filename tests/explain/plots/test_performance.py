"""Plots of predictions beside targets draw what pandas and scikit-learn compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from tpnn import TPNNClassifier, TPNNRegressor, compare, plots


@pytest.fixture(scope="module")
def fitted(quick: Any) -> tuple[TPNNRegressor, pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=400), "town": rng.choice(["Ulm", "Bonn"], 400)})
    X.loc[::7, "x"] = np.nan
    y = X["x"].fillna(1.0) + (X["town"] == "Ulm") + rng.normal(size=400)
    return TPNNRegressor(**quick).fit(X, y), X, y


@pytest.fixture(scope="module")
def rates(quick: Any) -> tuple[TPNNRegressor, pd.DataFrame, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"x": rng.normal(size=400)})
    offset = rng.uniform(0, 3, 400)
    y = rng.poisson(np.exp(offset + 0.3 * X["x"])).astype(float)
    model = TPNNRegressor(**{**quick, "objective": "poisson"}).fit(X, y, offset=offset)
    return model, X, y, offset


def drawn(axes: Any, label: str) -> np.ndarray:
    (line,) = (one for one in axes.lines if one.get_label() == label)
    return np.asarray(line.get_ydata())


def test_one_way_has_the_means_of_each_level(fitted: Any) -> None:
    model, X, y = fitted
    axes = plots.one_way(model, X, y, "town")
    words = [text.get_text() for text in axes.get_xticklabels()]
    frame = pd.DataFrame({"town": X["town"], "actual": y, "predicted": model.predict(X)})
    means = frame.groupby("town").mean().loc[words]
    assert drawn(axes, "predicted") == pytest.approx(means["predicted"].to_numpy())
    (points,) = axes.containers
    assert points[0].get_ydata() == pytest.approx(means["actual"].to_numpy())
    errors = frame.groupby("town")["actual"].sem().loc[words].to_numpy()
    (bars,) = points[2]
    reach = [np.ptp(segment[:, 1]) / 2 for segment in bars.get_segments()]
    assert reach == pytest.approx(1.959964 * errors, rel=1e-5)
    (twin,) = (other for other in axes.figure.axes if other is not axes)
    heights = [bar.get_height() for bar in twin.patches]
    assert heights == frame["town"].value_counts().loc[words].tolist()


def test_one_way_has_missing_values_apart_and_numbers_in_even_groups(fitted: Any) -> None:
    model, X, y = fitted
    axes = plots.one_way(model, X, y, "x")
    words = [text.get_text() for text in axes.get_xticklabels()]
    assert words[-1] == "(missing)"
    assert len(words) == 11
    is_missing = X["x"].isna()
    assert drawn(axes, "predicted")[-1] == pytest.approx(model.predict(X)[is_missing].mean())
    tenths = pd.qcut(X["x"][~is_missing], 10, labels=False)
    expected = y[~is_missing].groupby(tenths).mean().to_numpy()
    (points,) = axes.containers
    assert points[0].get_ydata()[:-1] == pytest.approx(expected, abs=0.1)


def test_rates_are_per_unit_of_exposure(rates: Any) -> None:
    model, X, y, offset = rates
    axes = plots.one_way(model, X, y, "x", offset=offset)
    exposure, predicted = np.exp(offset), model.predict(X, offset=offset)
    (twin,) = (other for other in axes.figure.axes if other is not axes)
    bars = np.array([bar.get_height() for bar in twin.patches])
    assert bars.sum() == pytest.approx(exposure.sum())
    assert bars.std() < 0.1 * bars.mean()
    assert (bars * drawn(axes, "predicted")).sum() == pytest.approx(predicted.sum())
    (points,) = axes.containers
    assert (bars * points[0].get_ydata()).sum() == pytest.approx(y.sum())


def test_the_gini_index_of_two_classes_is_that_of_the_roc_curve(fitted: Any, quick: Any) -> None:
    _, X, y = fitted
    model = TPNNClassifier(**quick).fit(X, y > 0.5)
    area = roc_auc_score(y > 0.5, model.predict_proba(X)[:, 1])
    for lorenz in (False, True):
        axes = plots.gain(model, X, y > 0.5, lorenz=lorenz)
        assert float(axes.get_title(loc="right").split()[1]) == pytest.approx(
            2 * area - 1, abs=6e-4
        )
        share = drawn(axes, "model")
        assert (share[0], share[-1]) == (0.0, pytest.approx(1.0))
        assert (np.diff(share) >= 0).all()
    with pytest.raises(ValueError, match="at least 0"):
        plots.gain(fitted[0], X, y)


def test_double_lift_sorts_by_the_difference_of_the_models(fitted: Any) -> None:
    model, X, y = fitted
    flat = model.model_.edit("x", scale=0.0)
    axes = plots.double_lift({"flat": flat, "full": model}, X, y)
    difference = drawn(axes, "full") - drawn(axes, "flat")
    assert (np.diff(difference) >= 0).all()
    moved = model.predict(X) - flat.predict(X)
    assert moved.min() <= difference.min() < 0 < difference.max() <= moved.max()
    with pytest.raises(ValueError, match="two models by name"):
        plots.double_lift({"flat": flat}, X, y)


def test_rows_are_points_and_groups_have_intervals(fitted: Any) -> None:
    model, X, y = fitted
    predicted = model.predict(X)
    points = plots.residuals(model, X, y).collections[0].get_offsets()
    assert np.allclose(points, np.column_stack([predicted, y - predicted]))
    points = plots.predicted_actual(model, X, y).collections[0].get_offsets()
    assert np.allclose(points, np.column_stack([predicted, y]))
    axes = plots.reliability(model, X, y)
    means = np.asarray(axes.collections[-1].get_offsets())
    tenths = pd.qcut(predicted, 10, labels=False)
    assert means[:, 1] == pytest.approx(y.groupby(tenths).mean().to_numpy(), abs=0.15)
    expected = pd.Series(predicted).groupby(tenths).mean().to_numpy()
    assert means[:, 0] == pytest.approx(expected, abs=0.05)


def test_several_outputs_and_unknown_features_are_refused(fitted: Any, quick: Any) -> None:
    model, X, y = fitted
    two = np.column_stack([y, -y])
    several = TPNNRegressor(**quick).fit(X, two)
    with pytest.raises(ValueError, match="several outputs"):
        plots.one_way(several, X, two, "x")
    three = TPNNClassifier(**quick).fit(X, np.digitize(y, [0, 1]))
    with pytest.raises(ValueError, match="several outputs"):
        plots.residuals(three, X, np.digitize(y, [0, 1]))
    with pytest.raises(ValueError, match="feature: must be one of the model's"):
        plots.one_way(model, X, y, "age")


def test_each_of_several_classes_has_a_line(fitted: Any, quick: Any) -> None:
    """Of each, the share and the mean probability at every level."""
    _, X, y = fitted
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [0, 1])]
    three = TPNNClassifier(**quick).fit(X, labels)
    axes, shares = plots.one_way(three, X, labels, "town"), three.predict_proba(X)
    words = [text.get_text() for text in axes.get_xticklabels()]
    for place, name in enumerate(three.classes_):
        frame = pd.DataFrame({"actual": labels == name, "predicted": shares[:, place]})
        means = frame.groupby(X["town"]).mean().loc[words]
        assert drawn(axes, name) == pytest.approx(means["predicted"].to_numpy())
        points = axes.containers[place].lines[0].get_ydata()
        assert points == pytest.approx(means["actual"].to_numpy())
    assert len({line.get_color() for line in axes.lines if line.get_label() in labels}) == 3


def test_labels_are_written_letter_by_letter(fitted: Any, quick: Any) -> None:
    """Dollar signs begin no formula, underscores hide no line, and long words are shortened."""
    _, X, y = fitted
    names = ["_few", "$0 to $500", "a very long name of the last of the three classes"]
    three = TPNNClassifier(**quick).fit(X, np.array(names)[np.digitize(y, [0, 1])])
    axes = plots.one_way(three, X, np.array(names)[np.digitize(y, [0, 1])], "town")
    words = [text.get_text().strip() for text in axes.get_legend().get_texts()]
    assert {"_few", r"\$0 to \$500"} < set(words)
    assert max(map(len, words)) < 30
    flat = fitted[0].model_.edit("x", scale=0.0)
    axes = plots.double_lift({"_a": flat, "$b to $c": fitted[0]}, X, y)
    words = [text.get_text().strip() for text in axes.get_legend().get_texts()]
    assert {"_a", r"\$b to \$c"} < set(words)
    assert axes.get_xlabel() == r"group, by \$b to \$c less _a"
    found = compare({"old": np.ones(400), "new": np.linspace(0.8, 1.2, 400)}, X)
    axes = plots.dislocation(found, by=np.array(names).repeat(134)[:400])
    words = [text.get_text() for text in axes.get_yticklabels()]
    assert {"_few", r"\$0 to \$500"} < set(words)
    assert max(map(len, words)) < 30
