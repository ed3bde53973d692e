"""Contributions against a reference: ratios of predictions, with the intervals of bands."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.models import random_model, with_bands
from tpnn import Explanation, TPNNClassifier, TPNNRegressor, TPNNSurvival, plots
from tpnn.anova.posterior import folded_quantiles
from tpnn.explain.contributions import uncertainty_at
from tpnn.explain.response import reference_row
from tpnn.loss.links import LINKS


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    """600 rows of a number with missing values, a level and a number."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "age": rng.integers(18, 70, 600).astype(float),
            "town": rng.choice(["Ulm", "Bonn", "Trier"], 600, p=[0.2, 0.5, 0.3]),
            "income": rng.exponential(size=600),
        }
    )
    X.loc[::9, "age"] = np.nan
    return X


def signal(X: pd.DataFrame) -> pd.Series:
    f: pd.Series = (X["town"] == "Ulm") - 0.02 * X["age"].fillna(50) + 0.3 * X["income"]
    return f


def fitted(task: str, X: pd.DataFrame, quick: Any) -> Any:
    """A model of main effects."""
    rng, f = np.random.default_rng(1), signal(X)
    options = {**quick, "order": 1}
    if task == "classes":
        labels = np.where(rng.random(len(X)) < 1 / (1 + np.exp(-f)), "yes", "no")
        return TPNNClassifier(**options).fit(X, labels)
    if task == "survival":
        times = rng.exponential(np.exp(-f))
        return TPNNSurvival(**options).fit(X, np.column_stack([times, np.ones(len(X))]))
    return TPNNRegressor(**options, objective="poisson").fit(X, rng.poisson(np.exp(f)))


def response(model: Any, X: pd.DataFrame) -> np.ndarray:
    """Rates, odds or relative risks."""
    mean = model.model_.predict(X)
    return np.asarray(mean / (1 - mean) if hasattr(model, "classes_") else mean)


@pytest.mark.parametrize(
    ("task", "label"),
    [("counts", "relativity"), ("classes", "odds ratio"), ("survival", "hazard ratio")],
)
def test_a_ratio_is_that_of_two_rows_that_differ_in_one_feature(
    task: str, label: str, rows: pd.DataFrame, quick: Any
) -> None:
    model = fitted(task, rows, quick)
    row = rows.iloc[[5]]
    for feature, value, reference in (("town", "Ulm", "Trier"), ("income", 2.25, 0.5)):
        two = pd.concat([row.assign(**{feature: value}), row.assign(**{feature: reference})])
        here, there = response(model, two)
        table = model.explain().component(feature)
        assert table.on_scale("response").label == label
        frame = table.to_frame("response", reference)
        if feature == "town":
            shown = frame.set_index("town")["effect"]["Ulm"]
        else:
            shown = math.exp(np.interp(value, frame["income"], np.log(frame["effect"])))
        assert shown == pytest.approx(here / there)
        given = {**row.iloc[0].to_dict(), feature: reference}
        (reason,) = model.explain(two[:1]).reasons(scale="response", reference=given)[0]
        assert reason.contribution == pytest.approx(here / there)
        assert reason.feature == feature
        assert reason.lower < reason.contribution < reason.upper
        assert f"compared with {reference}." in reason.words


def test_the_interval_of_a_reason_is_the_band_of_the_difference(
    rows: pd.DataFrame, quick: Any
) -> None:
    model = fitted("counts", rows, quick)
    frame = model.explain().component("town").to_frame("response", "Trier").set_index("town")
    (found,) = model.explain(rows.assign(town="Ulm")[:1]).reasons(
        scale="response", reference={**rows.iloc[0].to_dict(), "town": "Trier"}
    )
    (reason,) = (reason for reason in found if reason.feature == "town")
    assert reason.lower == pytest.approx(frame["lower"]["Ulm"])
    assert reason.upper == pytest.approx(frame["upper"]["Ulm"])
    plain = model.explain().component("town").to_frame().set_index("town")
    (reason,) = (
        reason
        for reason in model.explain(rows.assign(town="Ulm")[:1]).reasons()[0]
        if reason.feature == "town"
    )
    assert [reason.lower, reason.contribution, reason.upper] == pytest.approx(
        plain.loc["Ulm", ["lower", "effect", "upper"]].tolist()
    )


@pytest.mark.parametrize("link", ["identity", "log", "logit"])
def test_all_reasons_lead_from_the_reference_to_the_row(link: str) -> None:
    """Also where features interact: contributions add up, factors multiply."""
    model = replace(random_model(3, 3, seed=2), link=LINKS[link])
    X = np.random.default_rng(0).normal(size=(5, 3))
    reference = {"x0": 0.3, "x1": -0.2, "x2": 0.1}
    ends = model.predict(np.vstack([X, list(reference.values())]))
    if link == "logit":
        ends = ends / (1 - ends)
    found = Explanation(model, X).reasons(3, scale="response", reference=reference)
    for row, reasons in enumerate(found):
        parts = [reason.contribution for reason in reasons]
        total = sum(parts) if link == "identity" else math.prod(parts)
        expected = ends[row] - ends[5] if link == "identity" else ends[row] / ends[5]
        assert total == pytest.approx(expected)
        assert all(math.isnan(reason.lower) for reason in reasons)  # a model without bands


@pytest.mark.parametrize("order", [1, 2, 3])
def test_uncertainty_between_nodes_is_that_of_the_interpolated_component(order: int) -> None:
    """Against the dense covariance of all nodes, with and without a reference."""
    model = with_bands(random_model(3, 3, seed=1))
    assert model.evidence.posteriors is not None
    place = next(i for i, s in enumerate(model.components) if len(s) == order)
    component, posterior = model.components.components[place], model.evidence.posteriors[place]
    X = np.random.default_rng(3).normal(size=(6, 3))
    columns, reference = list(X.T), [np.array([value]) for value in (0.2, -0.4, 0.1)]
    known, axes = posterior.uncertainty(), model.axes(component)
    functions = known.functions.reshape(-1, 3)
    covariance = functions @ known.roots[0] @ known.roots[0].T @ functions.T
    covariance += np.diag(known.rough.ravel())

    def weights(row: Any) -> np.ndarray:
        """Weight of each node in the interpolated value."""
        whole = np.ones(1)
        for axis, x in zip(axes, row, strict=True):
            one = [np.interp(x, axis.values, unit) for unit in np.eye(axis.n_nodes)]
            whole = np.multiply.outer(whole, one)
        return whole.ravel()

    at = np.array([weights(row[list(component)]) for row in X])
    there = weights([reference[j][0] for j in component])
    for base, less in ((None, 0 * there), (reference, there)):
        found = uncertainty_at(model, component, posterior, columns, base)
        variance = np.einsum("ni,ij,nj->n", at - less, covariance, at - less)
        errors = np.sqrt(variance)
        assert found.errors()[:, 0] == pytest.approx(known.units[0] * errors)
        bias = np.abs((at - less) @ functions @ known.shifts[:, 0]) / errors
        reach = known.units[0] * errors * folded_quantiles(bias, 0.95)
        assert found.half_widths()[:, 0] == pytest.approx(reach)


def test_nothing_is_known_of_levels_that_fit_has_not_seen(rows: pd.DataFrame, quick: Any) -> None:
    model = fitted("counts", rows, quick)
    with pytest.warns(UserWarning, match="has not seen"):
        (found,) = model.explain(rows[:1].assign(town="Rome")).reasons(reference={"town": "Ulm"})
    (reason,) = (reason for reason in found if reason.feature == "town")
    assert math.isnan(reason.lower)
    assert math.isfinite(reason.contribution)


def test_features_that_the_reference_leaves_out_take_their_usual_value(
    rows: pd.DataFrame, quick: Any
) -> None:
    model = fitted("counts", rows, quick).model_
    number = dict(zip(model.feature_names, reference_row(model, {"age": 30}), strict=True))
    assert number["age"] == 30
    levels = model.encoder.features[model.feature_names.index("town")].levels
    assert levels[int(number["town"][0])] == "Bonn"
    assert number["income"][0] == pytest.approx(rows["income"].median(), abs=0.05)
    assert np.isnan(reference_row(model, {"age": np.nan})[0][0])
    with pytest.raises(ValueError, match=r"^reference: must name features of the model, found 'z'"):
        reference_row(model, {"z": 1})


def test_plots_of_rows_begin_at_the_reference(rows: pd.DataFrame, quick: Any) -> None:
    model = fitted("counts", rows, quick)
    local, reference = model.explain(rows[:40]), {"age": 30.0, "town": "Ulm", "income": 1.0}
    start = float(model.predict(pd.DataFrame([reference]))[0])
    axes = plots.waterfall(local, 3, scale="response", reference=reference)
    assert axes.get_xlabel() == f"from the reference, {start:.4g}"
    assert axes.get_title(loc="right") == f"prediction {model.predict(rows[3:4])[0]:.4g}"
    drawn = plots.shap_summary(local, scale="response", reference=reference)
    labels = [label.get_text() for label in drawn.get_yticklabels()]
    points = drawn.collections[labels.index("town")].get_offsets()[:, 0]
    effects = model.explain().component("town").to_frame().set_index("town")["effect"]
    expected = effects[rows["town"][:40]].to_numpy() - effects["Ulm"]
    assert np.asarray(points) == pytest.approx(expected)
