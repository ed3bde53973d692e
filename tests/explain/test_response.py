"""Response scale: relativities and odds ratios multiply to the ratio of two predictions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.models import random_model
from tpnn import Explanation, TPNNClassifier, TPNNRegressor, purify
from tpnn.anova.posterior import Posterior
from tpnn.explain.response import compared
from tpnn.loss.links import LINKS
from tpnn.table.axis import Axis


@pytest.mark.parametrize("link", ["log", "logit", "identity"])
def test_effects_lead_from_the_reference_to_every_node(link: str) -> None:
    """The product, or the sum, over all components is the response relative to the reference."""
    model = replace(random_model(3, 2, seed=4), link=LINKS[link])
    explanation = Explanation(model)
    reference = {"x0": 0.3, "x1": -0.2, "x2": float(model.encoder.axes[1][2].values[0])}
    nodes = [axis.values[1] for axis in model.encoder.axes[1]]
    total = 0.0 if link == "identity" else 1.0
    for names in model.component_names:
        frame = explanation.component(names).to_frame("response", reference)
        at = np.logical_and.reduce([np.isclose(frame[n], nodes[int(n[1])]) for n in names])
        effect = float(frame.loc[at, "effect"].iloc[0])
        total = total + effect if link == "identity" else total * effect
    ends = model.predict(np.array([nodes, [reference[name] for name in ("x0", "x1", "x2")]]))
    if link == "logit":
        ends = ends / (1 - ends)
    expected = ends[0] - ends[1] if link == "identity" else ends[0] / ends[1]
    assert total == pytest.approx(expected)


def town_model(link: str = "log") -> Explanation:
    """A model of a town, whose second level is the most frequent, and of an age."""
    tables: dict[Any, Any] = {("town",): [0.0, 1.0, 3.0], ("age",): [0.0, 0.5, 0.7]}
    nodes = {"town": ["Ulm", "Bonn", "Trier"], "age": [18.0, 40.0, 70.0]}
    rows = pd.DataFrame(
        {
            "town": np.repeat(nodes["town"], [2, 5, 3]),
            "age": np.repeat(nodes["age"], [7, 1, 2]),
        }
    )
    model = purify(tables, nodes=nodes, X=rows)
    return Explanation(replace(model, link=LINKS[link]))


def test_the_reference_is_the_most_frequent_level_or_the_median() -> None:
    explanation = town_model()
    town = explanation.component("town").to_frame("response")
    assert town.loc[town["reference"], "town"].tolist() == ["Bonn"]
    assert town.set_index("town")["effect"]["Trier"] == pytest.approx(np.exp(2.0))
    age = explanation.component("age").to_frame("response")
    assert age.loc[age["reference"], "age"].tolist() == [18.0]  # half of the mass is there
    assert age["effect"].tolist() == pytest.approx(np.exp([0.0, 0.5, 0.7]))


def test_a_reference_can_be_given_as_a_value_a_tuple_or_a_dict() -> None:
    table = town_model().component("town")
    for reference in ("Ulm", ("Ulm",), {"town": "Ulm", "age": 3}):
        frame = table.to_frame("response", reference)
        assert frame["effect"].tolist() == pytest.approx(np.exp([0.0, 1.0, 3.0]))
    between = town_model().component("age").to_frame("response", 29.0)  # in the middle of a gap
    assert between["effect"].tolist() == pytest.approx(np.exp([-0.25, 0.25, 0.45]))
    assert not between["reference"].any()


def test_the_band_is_that_of_the_difference() -> None:
    """Two values with errors 0.1 and 0.2: the error of their difference is the root of 0.05."""
    axis = Axis(np.arange(2.0), np.ones(2) / 2)
    known = Posterior.of(
        [np.zeros((2, 0))], np.zeros((0, 1)), np.zeros((1, 0, 0)), np.array([[0.01], [0.04]]),
        np.ones(1),
    ).uncertainty()  # fmt: skip
    scaled = compared(["a"], [axis], np.array([0.0, 1.0]), known, LINKS["log"], 0.0)
    lower, upper = scaled.band(0.95)
    reach = 1.959964 * 0.05**0.5
    assert lower == pytest.approx(np.exp([0.0, 1 - reach]), rel=1e-5)
    assert upper == pytest.approx(np.exp([0.0, 1 + reach]), rel=1e-5)
    assert (scaled.label, scaled.at, scaled.neutral) == ("relativity", "a = 0", 1.0)


def test_dates_and_missing_values_are_references(mixed_local: Explanation) -> None:
    since = mixed_local.component("since")
    day = since.to_frame()["since"][4]
    for given in (day, str(day.date()), np.datetime64(day)):
        frame = since.to_frame("response", given)
        assert frame.loc[frame["reference"], "since"].tolist() == [day]
    skewed = mixed_local.component("skewed").to_frame("response", float("nan"))
    assert skewed.loc[skewed["reference"], "skewed"].isna().all()
    assert skewed.loc[skewed["reference"], "effect"].tolist() == [0.0]


def test_raw_is_the_default_and_has_no_reference() -> None:
    table = town_model().component("town")
    pd.testing.assert_frame_equal(table.to_frame(), table.to_frame("raw", "Ulm"))
    assert "reference" not in table.to_frame()


@pytest.mark.parametrize(
    ("component", "arguments", "message"),
    [
        ("town", ("odds",), "scale: must be 'raw' or 'response', found 'odds'"),
        ("town", ("response", "Rome"), "reference: must be a level of 'town', found 'Rome'"),
        ("age", ("response", "old"), "reference: must be a value of 'age', a number, found 'old'"),
        ("age", ("response", np.nan), "reference: must be a finite value of 'age'"),
        ("age", ("response", (1, 2)), "reference: one value is needed for each of"),
    ],
)
def test_what_is_no_scale_and_no_reference(component: str, arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        town_model().component(component).to_frame(*arguments)


def test_several_classes_have_no_response_scale(table: Any, quick: Any) -> None:
    X, y = table
    model = TPNNClassifier(**{**quick, "order": 1}).fit(X, pd.qcut(y, 3, labels=list("abc")))
    with pytest.raises(ValueError, match=r"^scale: 'response' is for one output"):
        model.explain().component("smooth").to_frame("response")


def test_reasons_as_factors(table: Any, labels: Any, quick: Any) -> None:
    X, y = table
    counts = TPNNRegressor(**{**quick, "objective": "poisson"}).fit(X, np.exp(y - y.max()))
    for model, words in (
        (counts, " multiplies the prediction by "),
        (TPNNClassifier(**quick).fit(X, labels), " multiplies the odds of low by "),
    ):
        local = model.explain(X[:5])
        for raw, factor in zip(local.reasons(2), local.reasons(2, scale="response"), strict=True):
            assert [f.contribution for f in factor] == pytest.approx(
                [np.exp(r.contribution) for r in raw]
            )
            assert all(f"{words}{f.contribution:.3g}." in f.words for f in factor)
    plain = TPNNRegressor(**quick).fit(X, y).explain(X[:5])
    assert plain.reasons(scale="response") == plain.reasons()
