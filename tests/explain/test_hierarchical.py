"""Components under the joint distribution of rows, and shares that know of covariances."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.models import random_model
from tpnn import TPNNRegressor, purify
from tpnn.explain.hierarchical import projected


def dependent_rows(model: Any, n_rows: int = 4000, seed: int = 0) -> np.ndarray:
    """Rows on the nodes of a model, of which neighbouring features often have like ranks."""
    rng = np.random.default_rng(seed)
    base = rng.random(n_rows)
    columns = []
    for axis in model.encoder.axes[1]:
        mixed = np.where(rng.random(n_rows) < 0.6, base, rng.random(n_rows))
        columns.append(axis.values[(mixed * len(axis.values)).astype(int)])
    return np.column_stack(columns)


def indicators(X: np.ndarray, features: tuple[int, ...]) -> np.ndarray:
    """Indicators (n, k) of all values that the rows have of some features."""
    if not features:
        return np.ones((len(X), 1))
    _, codes = np.unique(X[:, list(features)], axis=0, return_inverse=True)
    codes = codes.ravel()
    return (codes[:, None] == np.arange(codes.max() + 1)).astype(float)


def by_brute_force(X: np.ndarray, f: np.ndarray, components: Any) -> dict[Any, np.ndarray]:
    """Values of Hooker's components on rows: one linear system of sum and orthogonality."""
    sets = [(), *components]
    bases = {s: indicators(X, s) for s in sets}
    starts = np.cumsum([0, *(bases[s].shape[1] for s in sets)])
    blocks = {s: slice(a, b) for s, a, b in zip(sets, starts, starts[1:], strict=False)}
    rows, right = [np.hstack([bases[s] for s in sets])], [f]
    for s in components:
        for size in range(len(s)):
            for smaller in combinations(s, size):
                equations = np.zeros((bases[smaller].shape[1], starts[-1]))
                equations[:, blocks[s]] = bases[smaller].T @ bases[s]
                rows.append(equations)
                right.append(np.zeros(len(equations)))
    solution = np.linalg.lstsq(np.vstack(rows), np.concatenate(right), rcond=None)[0]
    return {s: bases[s] @ solution[blocks[s]] for s in sets}


@pytest.mark.parametrize("order", [1, 2, 3])
def test_components_are_those_of_brute_force(order: int) -> None:
    model = random_model(3, order, seed=order)
    X = dependent_rows(model)
    one, two = model.explain(X), model.explain(X, hierarchical=True)
    np.testing.assert_allclose(two.model.raw_scores(X), model.raw_scores(X), atol=1e-9)
    expected = by_brute_force(X, model.raw_scores(X), model.components.components)
    for place, component in enumerate(two.model.components):
        np.testing.assert_allclose(two.scores[:, place], expected[component], atol=1e-6)
    assert np.allclose(two.scores.mean(0), 0, atol=1e-9)
    assert two.variances().keys() == one.variances().keys()
    for names, variance in two.variances().items():
        place = two.model.component_names.index(names)
        assert variance == pytest.approx(two.scores[:, place].var())


def test_given_independent_features_nothing_moves() -> None:
    model = random_model(2, 2, seed=5)
    axes = model.encoder.axes[1]
    grid = np.array(list(product(*(axis.values for axis in axes))))
    masses = np.multiply.outer(*(axis.weights for axis in axes)).ravel()
    X = np.repeat(grid, np.round(masses * 20_000).astype(int), axis=0)
    given = purify(model, X=X)  # of the same function, with the masses of these rows
    two = given.explain(X, hierarchical=True)
    for one, other in zip(given.tables, two.model.tables, strict=True):
        np.testing.assert_allclose(one, other, atol=0.01 * np.abs(one).max())
    assert all(abs(each.covariance) < 0.01 for each in given.explain(X).joint_shares().values())


def test_subsets_that_the_model_lacks_get_what_moves() -> None:
    rng = np.random.default_rng(0)
    X = rng.multivariate_normal(np.zeros(2), [[1, 0.8], [0.8, 1]], 1500)
    y = X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=1500)
    model = TPNNRegressor(components=[(0, 1)], n_bags=2, random_state=0, verbose=0).fit(X, y)
    two = model.explain(X, hierarchical=True)
    assert two.model.component_names == [("x0",), ("x1",), ("x0", "x1")]
    np.testing.assert_allclose(two.model.raw_scores(X), model.model_.raw_scores(X), atol=1e-8)
    pair, share = two.scores[:, 2], two.joint_shares()["x0", "x1"]
    slopes = [np.polyfit(X[:, 0] ** 2, s, 1)[0] for s in (model.transform(X)[:, 0], pair)]
    assert slopes[0] > 0.5  # a pair that says E[x0 x1 | x0] = 0.8 x0^2 again
    assert abs(slopes[1]) < 0.05
    assert abs(share.covariance) < 0.02  # nothing that it could share with main effects


def test_shares_on_rows_add_up_to_one_and_are_covariances() -> None:
    model = random_model(3, 2, seed=3, n_outputs=2)
    X = dependent_rows(model)
    explanation = model.explain(X)
    shares, f = explanation.joint_shares(), model.raw_scores(X)
    assert sum(each.share for each in shares.values()) == pytest.approx(1)
    for place, names in enumerate(model.component_names):
        own = explanation.scores[:, place]
        both = [np.cov(own[:, k], f[:, k], bias=True) for k in (0, 1)]
        whole = f.var(0).sum()
        assert shares[names].variance == pytest.approx(sum(c[0, 0] for c in both) / whole)
        assert shares[names].share == pytest.approx(sum(c[0, 1] for c in both) / whole)


def test_indices_of_features_have_a_covariance_given_rows() -> None:
    model = random_model(3, 2, seed=4)
    X = dependent_rows(model)
    explanation, f = model.explain(X), model.raw_scores(X)
    for name, index in explanation.sobol_indices().items():
        inside = [name in names for names in model.component_names]
        own = explanation.scores[:, inside].sum(1)
        assert index.covariance == pytest.approx(np.cov(own, f - own, bias=True)[0, 1] / f.var())
    assert all(np.isnan(each.covariance) for each in model.explain().sobol_indices().values())


def test_rows_are_needed() -> None:
    with pytest.raises(ValueError, match=r"^rows: this needs an explanation of rows"):
        random_model(2, 2).explain(hierarchical=True)


def test_an_empty_table_has_no_joint_distribution() -> None:
    model = random_model(2, 2)
    nothing = model.explain(np.empty((0, 2)))
    message = r"^X: at least one row is needed, found none"
    with pytest.raises(ValueError, match=message):
        nothing.joint_shares()
    with pytest.raises(ValueError, match=message):
        model.explain(np.empty((0, 2)), hierarchical=True)
    for name, index in nothing.sobol_indices().items():  # needs no rows
        assert np.isnan(index.covariance)
        assert index[:3] == model.explain().sobol_indices()[name][:3]


@pytest.mark.filterwarnings("ignore:X. levels or missing values that fit has not seen")
def test_rows_whose_sum_would_change_are_refused() -> None:
    model = random_model(2, 2, seed=1)
    X = dependent_rows(model, 50)
    X[3:5, 0] = np.nan
    with pytest.raises(ValueError, match=r"^X: hierarchical .* in 2 of 50 rows, such as row 3\."):
        model.explain(X, hierarchical=True)
    known = ~np.isnan(X).any(axis=1)
    values = model.explain(X[known], hierarchical=True).shap_values()
    total = values.values.sum(1) + values.base_values
    np.testing.assert_allclose(total, model.raw_scores(X[known]), atol=1e-9)


def test_hierarchical_is_a_keyword_and_a_flag() -> None:
    model = random_model(2, 2)
    with pytest.raises(TypeError, match="positional"):
        model.explain(None, True)  # type: ignore[misc]
    with pytest.raises(ValueError, match=r"^hierarchical: must be True or False, found 'no'"):
        model.explain(np.zeros((1, 2)), hierarchical="no")  # type: ignore[arg-type]


def test_features_that_nearly_determine_each_other_are_told_apart() -> None:
    size = 60
    nodes = np.arange(size)
    masses = np.exp(-0.5 * (np.subtract.outer(nodes, nodes) / 0.5) ** 2)
    masses /= masses.sum()
    table = np.random.default_rng(0).normal(size=(size, size, 1))
    rest, parts = projected(table, masses)
    for axis in (0, 1):  # 2000 alternating projections leave 1e-4
        mean = (masses[..., None] * rest).sum(axis) / masses.sum(axis)[:, None]
        assert np.abs(mean).max() < 1e-8
    np.testing.assert_allclose(rest + parts[0][None] + parts[1][:, None], table, atol=1e-9)


def test_the_summary_says_how_far_shares_are_from_those_of_the_rows() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(size=(400, 3))
    X = pd.DataFrame({"a": base[:, 0], "b": base[:, 0] + 0.5 * base[:, 1], "c": base[:, 2]})
    quick: dict[str, Any] = {"order": 1, "n_bags": 2, "random_state": 0, "verbose": 0}
    y = X.sum(axis=1) + 0.1 * base[:, 1]
    model = TPNNRegressor(**quick).fit(X, y)
    (note,) = (n for n in model.summary().notes if n.startswith("dependence: "))
    f, parts = model.predict(X), model.transform(X)
    ratio = f.var() / parts.var(0).sum()
    assert f"{ratio:.2g} times" in note
    apart = TPNNRegressor(**quick).fit(X[["a", "c"]], X["a"] + X["c"])
    assert not any(n.startswith("dependence: ") for n in apart.summary().notes)
