"""Rows beyond the values of a fit: their errors grow, and one warning counts them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tpnn
from tpnn import TPNNClassifier, TPNNRegressor
from tpnn.solvers.grow.solver import Grow

FAST: Any = {"n_bags": 2, "random_state": 0, "solver": Grow(growth="none")}


@pytest.fixture(scope="module")
def line() -> Any:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=800), "z": rng.uniform(size=800)})
    y = 2 * X["x"] + rng.normal(size=800) / 4
    return TPNNRegressor(order=1, **FAST).fit(X, y)


def at(*values: float, z: float = 0.5) -> pd.DataFrame:
    return pd.DataFrame({"x": values, "z": z})


def test_the_error_of_a_line_grows_with_the_distance_from_its_end(line: Any) -> None:
    """Beyond the end the truth goes on, so the error must hold it, near and far."""
    with pytest.warns(UserWarning, match="X: far beyond the values of fit"):
        means, errors = line.predict(at(0.0, 3.0, 5.0, 8.0, 20.0), return_std=True)
    assert (np.diff(errors) > 0).all()
    misses = np.abs(means - [0, 6, 10, 16, 40])
    assert (misses[1:] < 1.96 * errors[1:]).all()
    assert (misses[2:] > 0.5 * errors[2:]).all()  # nor is it wider than it need be


def test_between_the_outer_nodes_nothing_changes_and_a_flat_feature_adds_little(line: Any) -> None:
    errors = line.model_.standard_errors
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        inside, far = errors(at(0.0)), errors(at(0.0, z=9.0))
    nodes = line.model_.encoder.axes[1][0].values
    assert errors(at(nodes[0], 0.0, nodes[-1]))[1] == inside[0]
    assert inside < far < inside + 1


@pytest.mark.filterwarnings("ignore:X. far beyond")
def test_no_unit_and_no_distance_is_too_large_for_an_error(line: Any) -> None:
    rng, errors = np.random.default_rng(0), []
    x = rng.normal(size=200)
    y = 2 * x + rng.normal(size=200) / 4
    for unit in (1.0, 2.0**600):
        model = TPNNRegressor(order=1, **FAST).fit(pd.DataFrame({"x": unit * x}), y).model_
        errors.append(model.standard_errors(pd.DataFrame({"x": [8 * unit, 20 * unit]})))
    assert errors[1] == pytest.approx(errors[0], rel=0.05)  # another unit is another seed
    assert np.isfinite(line.model_.standard_errors(at(1e100, -1e308))).all()


@pytest.mark.parametrize("n_copies", [1, 100])
def test_rows_that_are_clearly_outside_are_counted_in_one_warning(line: Any, n_copies: int) -> None:
    low, high = line.model_.encoder.features[0].ends
    reach = high - low
    near, far = high + 0.49 * reach, high + 0.51 * reach
    line.predict(pd.concat([at(near, low - 0.49 * reach)] * n_copies))  # no warning
    rows = pd.concat([at(near, far, low - 0.6 * reach)] * n_copies)
    words = rf"found in 'x' \({2 * n_copies} of {3 * n_copies} rows\)\.$"
    with pytest.warns(UserWarning, match=words) as caught:
        line.predict(rows)
    assert len(caught) == 1


def test_loaded_models_and_classifiers_say_it_too(line: Any, tmp_path: Any) -> None:
    line.model_.save(tmp_path / "model.tpnn")
    with pytest.warns(UserWarning, match="far beyond"):
        tpnn.load(tmp_path / "model.tpnn").predict(at(100.0))
    X = at(*np.linspace(0, 1, 200))
    classifier = TPNNClassifier(order=1, **FAST).fit(X, np.arange(200) > 90)
    with pytest.warns(UserWarning, match="far beyond"):
        shares, errors = classifier.predict_proba(at(1.0, 3.0), return_std=True)
    assert shares[0] == pytest.approx(shares[1])
    assert errors[1, 0] > errors[0, 0]


def test_levels_and_missing_values_have_no_distance() -> None:
    X = pd.DataFrame({"x": [*"ab"] * 100, "z": [0.0, np.nan, 1.0, 2.0] * 50})
    model = TPNNRegressor(order=1, **FAST).fit(X, np.arange(200) % 3)
    assert np.isfinite(model.model_.standard_errors(X)).all()


def test_the_summary_has_the_range(line: Any) -> None:
    low, high = line.model_.encoder.features[0].ends
    (note,) = (note for note in line.summary().notes if note.startswith("range:"))
    assert f"x {low:.6g} to {high:.6g}" in note
    assert note.endswith("; constant beyond.")
