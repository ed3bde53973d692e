"""Reasons: the largest contributions of a row, in words that a letter can use."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.models import random_model
from tpnn import Explanation, TPNNClassifier
from tpnn.explain.contributions import Contributions, _standing, reasons
from tpnn.loss.links import LINKS
from tpnn.table.axis import Axis


def test_reasons_are_the_largest_contributions(explanation: Explanation, table: Any) -> None:
    X, _ = table
    local = Explanation(explanation.model, X[:20])
    values = local.shap_values().values
    for row, given in zip(values, local.reasons(n_reasons=2), strict=True):
        largest = sorted(np.abs(row), reverse=True)[:2]
        assert [abs(reason.contribution) for reason in given] == pytest.approx(largest)
    for row, given in zip(values, local.reasons(adverse="low"), strict=True):
        assert [r.contribution for r in given] == sorted(row[row < 0])[:4]
        assert all("lowers the score by" in str(reason) for reason in given)
    with pytest.raises(ValueError, match=r"^adverse: must be 'low', 'high' or None, found 'up'"):
        local.reasons(adverse="up")
    for wrong in (-1, 0, "2", 2.0, True):
        with pytest.raises(ValueError, match=r"^n_reasons: must be a whole number of at least 1"):
            local.reasons(wrong)


def test_reasons_name_the_class(table: Any, labels: Any, quick: Any) -> None:
    """A reason that raises the log-odds of a class makes it more probable."""
    X, _ = table
    model = TPNNClassifier(**quick).fit(X, labels)
    (reason,) = model.explain(X[:1]).reasons(1)[0]
    assert ("raises" if reason.contribution > 0 else "lowers") in reason.words
    assert " the log-odds of low by " in reason.words
    assert model.classes_[1] == "low"


def test_values_are_written_as_they_were_given(
    mixed: pd.DataFrame, mixed_local: Explanation
) -> None:
    words = {reason.feature: str(reason) for reason in mixed_local.reasons(4)[0]}
    assert words["town"].startswith(f"town = {mixed['town'][0]} ")
    assert words["since"].startswith(f"since = {mixed['since'][0]:%Y-%m-%d}")
    assert words["skewed"].startswith("skewed = (missing) ")


def given_contributions(contributions: Any, **options: Any) -> list[list[Any]]:
    """Reasons of made-up contributions to a model of three features."""
    model = options.pop("model", random_model(3, 1))
    values = np.atleast_2d(contributions)
    columns = [np.full(len(values), axis.values[0]) for axis in model.encoder.axes[1]]
    given = {"n_reasons": 4, "adverse": None, **options}
    found = Contributions(values, np.full_like(values, np.nan))
    return reasons(model, columns, found, given["n_reasons"], given["adverse"])


def test_directions_and_equal_contributions() -> None:
    """Either direction, one direction, none of zero; equal ones in the order of the features."""
    row = [0.5, -2.0, 0.5]
    assert [r.feature for r in given_contributions(row)[0]] == ["x1", "x0", "x2"]
    assert [r.feature for r in given_contributions(row, adverse="high")[0]] == ["x0", "x2"]
    assert [r.feature for r in given_contributions(row, adverse="low")[0]] == ["x1"]
    assert given_contributions([0.0, 0.0, 0.0]) == [[]]
    assert [len(found) for found in given_contributions([row, row], n_reasons=1)] == [1, 1]


@pytest.mark.parametrize(
    ("link", "classes", "score"),
    [
        ("identity", (), "score"),
        ("logit", (), "log-odds"),
        ("logit", ("no", "yes"), "log-odds of yes"),
        ("log", (), "raw score"),
    ],
)
def test_the_score_is_named_by_the_link(link: str, classes: Any, score: str) -> None:
    model = replace(random_model(3, 1), link=LINKS[link], classes=classes)
    (up, down) = given_contributions([0.0, -1.25, 2.0], model=model)[0]
    assert up.words.endswith(f" raises the {score} by 2.")
    assert down.words.endswith(f" lowers the {score} by 1.25.")
    assert str(down) == down.words


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0.0, ", lower than in 60 % of cases,"),
        (1.0, ""),
        (2.0, ", higher than in 80 % of cases,"),
        (np.nan, ""),
        (np.inf, ""),
    ],
)
def test_a_value_beyond_half_of_the_training_rows_is_compared_with_them(
    number: float, words: str
) -> None:
    axis = Axis(np.arange(3.0), np.array([0.4, 0.4, 0.2]))
    assert _standing(axis, number) == words
    nominal = Axis(np.arange(3.0), axis.weights, "nominal", groups=np.arange(3))
    assert _standing(nominal, number) == ""
