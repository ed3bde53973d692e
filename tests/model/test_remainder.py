"""Remainder: its values, shares and Shapley values are those of all that no component shows."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

from tests import models
from tests.models import random_model
from tpnn import AnovaModel, ComponentSet, Explanation
from tpnn.model.model import pruned
from tpnn.model.remainder import measured

N_FEATURES = 4
SUBSETS = [s for d in range(N_FEATURES + 1) for s in combinations(range(N_FEATURES), d)]


def with_remainder(model: AnovaModel) -> AnovaModel:
    """The same model with random trees, whose remainder is measured."""
    n_features = model.encoder.n_features
    every = [s for d in range(1, 4) for s in combinations(range(n_features), d)]
    return measured(models.with_remainder(model), every)


@pytest.fixture(scope="module", params=[1, 2])
def model(request: pytest.FixtureRequest) -> AnovaModel:
    """A model of up to pairs, with trees of four features and one or two outputs."""
    return with_remainder(random_model(N_FEATURES, 2, n_outputs=request.param))


def cells(model: AnovaModel) -> tuple[np.ndarray, np.ndarray]:
    """All combinations of nodes (n, p), and their masses under the product of the marginals."""
    axes = model.encoder.axes[1]
    grid = np.array(list(product(*(axis.values for axis in axes))))
    masses = np.array([math.prod(each) for each in product(*(axis.weights for axis in axes))])
    return grid, masses


def coalitions(model: AnovaModel, row: np.ndarray) -> dict[tuple[int, ...], np.ndarray]:
    """Mean raw score (K,) under the product of the marginals, given the row's values in a set."""
    grid, masses = cells(model)
    means = {}
    for known in SUBSETS:
        at = grid.copy()
        at[:, list(known)] = row[list(known)]
        raw = model.raw_scores(at).reshape(len(at), -1)
        means[known] = masses @ raw
    return means


def interactions(means: dict[tuple[int, ...], np.ndarray]) -> dict[tuple[int, ...], np.ndarray]:
    """Components of a row: the Moebius transform of the game."""
    return {
        s: sum((-1) ** (len(s) - len(t)) * means[t] for t in SUBSETS if set(t) <= set(s))
        for s in SUBSETS
        if s
    }


def some_rows(model: AnovaModel) -> np.ndarray:
    return np.asarray(np.random.default_rng(1).permutation(cells(model)[0])[:5])


def test_it_averages_to_zero_and_sums_to_the_raw_score(model: AnovaModel) -> None:
    grid, masses = cells(model)
    rest = model.remainder_scores(grid)
    assert np.abs(masses @ rest.reshape(len(grid), -1)).max() < 1e-12
    total = model.intercept + model.component_scores(grid).sum(1) + rest
    assert np.allclose(model.raw_scores(grid), total, atol=1e-12)


def test_shapley_values_equal_brute_force(model: AnovaModel) -> None:
    """Weighted gains over all coalitions, under the product of the marginals."""
    rows = some_rows(model)
    found = Explanation(model, rows).shap_values()
    values = found.values.reshape(len(rows), N_FEATURES, -1)
    for row, given in zip(rows, values, strict=True):
        means = coalitions(model, row)
        for j in range(N_FEATURES):
            expected = sum(
                math.factorial(len(s)) * math.factorial(N_FEATURES - len(s) - 1)
                * (means[tuple(sorted((*s, j)))] - means[s]) / math.factorial(N_FEATURES)
                for s in SUBSETS if j not in s
            )  # fmt: skip
            assert np.allclose(given[j], expected, atol=1e-12)
    assert np.allclose(found.base_values + found.values.sum(1), model.raw_scores(rows), atol=1e-12)


def test_interaction_values_equal_brute_force(model: AnovaModel) -> None:
    rows = some_rows(model)
    explanation = Explanation(model, rows)
    found = explanation.shap_interaction_values().values
    matrices = found.reshape(len(rows), N_FEATURES, N_FEATURES, -1)
    for row, matrix in zip(rows, matrices, strict=True):
        parts = interactions(coalitions(model, row))
        for j, k in combinations(range(N_FEATURES), 2):
            index = sum(part / (len(s) - 1) for s, part in parts.items() if {j, k} <= set(s))
            assert np.allclose(matrix[j, k], index / 2, atol=1e-12)
            assert np.allclose(matrix[k, j], index / 2, atol=1e-12)
    assert np.allclose(found.sum(2), explanation.shap_values().values, atol=1e-12)


def test_shares_of_the_largest_sets_equal_brute_force(model: AnovaModel) -> None:
    """Each set's component at every cell, squared and averaged."""
    grid, masses = cells(model)
    sizes = dict.fromkeys(SUBSETS[1:], 0.0)
    for row, mass in zip(grid, masses, strict=True):
        for s, part in interactions(coalitions(model, row)).items():
            sizes[s] += mass * float((part**2).mean())
    assert model.remainder is not None
    largest = model.remainder.largest
    sets = [tuple(map(model.feature_names.index, each.features)) for each in largest]
    assert not set(sets) & set(model.components)
    shares = np.array([each.share for each in largest])
    assert np.all(np.diff(shares) <= 0)
    exact = np.array([sizes[s] for s in sets])
    assert np.allclose(shares / shares[0], exact / exact[0])


def test_its_share_is_that_of_all_rows(model: AnovaModel) -> None:
    """Up to what 2,000 drawn rows leave open."""
    grid, masses = cells(model)
    scores = model.component_scores(grid).reshape(len(grid), len(model.components), -1)
    core = (masses @ (scores**2).mean(2)).sum()
    own = (masses @ model.remainder_scores(grid).reshape(len(grid), -1) ** 2).mean()
    assert model.remainder is not None
    assert model.remainder.share == pytest.approx(own / (core + own), rel=0.15)


def test_lists_have_it_as_one_entry(model: AnovaModel) -> None:
    explanation = Explanation(model)
    name = ("remainder",)
    grid, masses = cells(model)
    rest = model.remainder_scores(grid).reshape(len(grid), -1)
    assert explanation.importance()[name] == pytest.approx((masses @ np.abs(rest)).mean(), rel=0.1)
    shares, indices = explanation.sobol(), explanation.sobol_indices()
    assert len(shares) == len(model.components) + 1
    assert sum(shares.values()) == pytest.approx(1)
    assert model.remainder is not None
    assert shares[name] == pytest.approx(model.remainder.share)
    assert indices["remainder"][:3] == (0.0, shares[name], shares[name])
    line = model.summary().lines[-1]
    assert (line.component, line.order, line.share) == ("remainder", 0, pytest.approx(shares[name]))
    assert "Without the remainder: held-out loss +10.0 %." in str(model.summary())
    assert sum(line.share for line in model.summary().lines) == pytest.approx(1)


def test_a_feature_of_the_same_name_is_told_apart() -> None:
    model = with_remainder(random_model(2, 1))
    named = replace(model, encoder=replace(model.encoder, names=("remainder", "x")))
    assert set(Explanation(named).importance()) == {
        ("remainder",), ("x",), ("remainder of the model",),
    }  # fmt: skip


def test_without_held_out_rows_nothing_is_said_about_its_worth() -> None:
    model = with_remainder(random_model(2, 1))
    assert model.remainder is not None
    unknown = replace(model, remainder=replace(model.remainder, worth=0.0))
    assert "held-out loss +" not in str(unknown.summary())
    assert "held-out" in repr(model.remainder)
    assert "held-out" not in repr(unknown.remainder)


@pytest.mark.parametrize(
    "edit", [{"scale": 3.0}, {"without": True}, {"between": (0.0, 0.4), "add": 1.0}], ids=str
)
def test_after_an_edit_its_shares_are_those_beside_the_new_components(
    edit: dict[str, Any], model: AnovaModel
) -> None:
    edited = model.edit("x0", **edit)
    old, new, expected = model.remainder, edited.remainder, measured(edited).remainder
    assert old is not None
    assert new is not None
    assert expected is not None
    assert new.share != pytest.approx(old.share)
    assert new.share == pytest.approx(expected.share)
    assert [each.features for each in new.largest] == [each.features for each in old.largest]
    shares = [each.share / new.share for each in new.largest]
    assert shares == pytest.approx([each.share / old.share for each in old.largest])
    assert new.worth == 0  # no held-out rows have seen the edited model


@pytest.mark.parametrize("size", [0.0, 1e-12])
def test_an_edit_of_a_core_without_a_share_is_measured(size: float) -> None:
    model = with_remainder(random_model(N_FEATURES, 1))
    faint = measured(replace(model, tables=tuple(size * table for table in model.tables)))
    assert faint.remainder is not None
    assert faint.remainder.share == 1
    edited = faint.edit("x0", between=(0.0, 0.4), add=1.0)
    expected = measured(edited).remainder
    assert edited.remainder is not None
    assert expected is not None
    assert edited.remainder.share == pytest.approx(expected.share)
    assert edited.remainder.share < 1
    assert edited.remainder.worth == 0


def test_the_same_reasons_are_equal(model: AnovaModel) -> None:
    explanation = Explanation(model, some_rows(model))
    one = explanation.of("output 1") if model.output_names else explanation
    assert one.reasons(9) == one.reasons(9)


def test_it_is_one_reason_beside_those_of_the_components() -> None:
    model = with_remainder(random_model(N_FEATURES, 2))
    rows, reference = some_rows(model), dict.fromkeys(("x0", "x1", "x2", "x3"), 0.1)
    explanation = Explanation(model, rows)
    for row, rest in zip(explanation.reasons(9), model.remainder_scores(rows), strict=True):
        (one,) = (reason for reason in row if reason.feature == "remainder")
        assert one.contribution == pytest.approx(rest)
        assert one.words.startswith("The remainder, many small effects together, ")
        assert one.value == ""
    raw, at = model.raw_scores(rows), model.raw_scores(np.full((1, N_FEATURES), 0.1))
    for reasons, score in zip(explanation.reasons(9, reference=reference), raw, strict=True):
        assert sum(reason.contribution for reason in reasons) == pytest.approx(score - at[0])
        (one,) = (reason for reason in reasons if reason.feature == "remainder")
        assert one.words.endswith(", compared with the reference.")


def test_one_output_has_its_own_remainder() -> None:
    model = with_remainder(random_model(3, 2, n_outputs=2))
    rows = cells(model)[0]
    one = Explanation(model, rows).of("output 1")
    assert np.allclose(one.remainder, model.remainder_scores(rows)[:, 1])
    assert np.allclose(
        one.shap_values().values, Explanation(model, rows).shap_values().values[..., 1]
    )


def test_pruning_changes_no_number() -> None:
    """Rows are drawn for the features in use alone, so that a loaded model has the same figures."""
    for n_features in range(3, 20):
        whole = random_model(n_features, 1)
        core = replace(whole, components=ComponentSet(((0,),)), tables=whole.tables[:1])
        model = models.with_remainder(core, n_trees=3, depth=1)
        if model.required_features[1:] > ("x1",):  # features between are left out
            break
    assert pruned(model).feature_names == model.required_features
    assert len(model.required_features) < n_features
    assert Explanation(pruned(model)).importance() == Explanation(model).importance()
    assert str(pruned(model).summary()) == str(model.summary())
