"""Concurvity: the share of a component that a regression on the others explains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tpnn import Explanation, TPNNRegressor
from tpnn.explain.concurvity import MAX_ROWS, N_HATS, Imitators, concurvity, hat_functions
from tpnn.table.axis import Axis


def test_concurvity_sees_copies_and_only_them(quick: Any) -> None:
    """A near copy of a feature imitates its effect; an independent feature does not."""
    rng = np.random.default_rng(3)
    first, free = rng.normal(size=(2, 2000))
    X = pd.DataFrame({"first": first, "copy": first + 0.05 * rng.normal(size=2000), "free": free})
    y = np.sin(first) + X["copy"] + free**2
    model = TPNNRegressor(**{**quick, "order": 1}).fit(X, y)
    found = model.explain(X).concurvity()
    assert found["first",].share > 0.95
    assert found["first",].closest == "copy"
    assert "Read them together" in found["copy",].warning
    assert found["free",].share < 0.05
    assert found["free",].warning == ""
    shuffled = X.apply(lambda column: rng.permutation(column))
    assert max(c.share for c in model.explain(shuffled).concurvity().values()) < 0.05


def test_concurvity_of_rows_with_unseen_levels(table: Any, quick: Any) -> None:
    X, y = table
    grade = pd.Categorical(np.array(["low", "mid", "top"])[X["level"].astype(int)], ordered=True)
    model = TPNNRegressor(**quick).fit(X.assign(level=grade), y)
    new = X.assign(level=np.where(X.index % 2, "mid", "best"))
    with pytest.warns(UserWarning, match="^X: levels or missing values"):
        found = model.explain(new).concurvity()
    assert all(0 <= concurvity.share <= 1 for concurvity in found.values())


def test_concurvity_is_the_r2_of_a_regression(local: Explanation, table: Any) -> None:
    """The block inverse equals a least-squares fit of the columns that may imitate, by their rank.

    Imitators of an interaction are the functions of all features and the other interactions.
    """
    X, _ = table
    names = local.model.component_names
    pairs = [index for index, pair in enumerate(names) if len(pair) > 1]
    for names_of, share in [(n, c.share) for n, c in local.concurvity().items()]:
        index = names.index(names_of)
        hidden = names_of[0] if len(names_of) == 1 else None
        axes = dict(zip(X, local.model.encoder.axes[1], strict=True))
        columns = [hat_functions(axes[n], X[n].to_numpy()) for n in X if n != hidden]
        columns.append(local.scores[:, [pair for pair in pairs if pair != index]])
        design = np.column_stack(columns)
        design -= design.mean(0)
        target = local.scores[:, index]
        fitted = design @ np.linalg.lstsq(design, target - target.mean(), rcond=None)[0]
        r2 = fitted.var() / target.var()
        rank = np.linalg.matrix_rank(design)
        adjusted = 1 - (1 - r2) * (len(X) - 1) / (len(X) - 1 - rank)
        assert share == pytest.approx(max(adjusted, 0.0), abs=0.005)


def test_concurvity_counts_no_constant_columns() -> None:
    """Six columns of rank three, of which one is hidden, imitate like two."""
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(40, 6))
    columns[:, 3] = columns[:, 1] - columns[:, 2]
    columns[:, 4:] = 0.0
    target = columns[:, 0] + columns[:, 1] + rng.normal(size=40)
    imitators = Imitators(columns)
    share = imitators.share(imitators.correlations(target), np.array([0, 4]))
    design = np.column_stack([np.ones(40), columns[:, [1, 2]]])
    residual = target - design @ np.linalg.lstsq(design, target, rcond=None)[0]
    assert share == pytest.approx(1 - residual.var() / target.var() * 39 / 37, abs=1e-4)


def test_hat_functions_of_numbers_reproduce_every_piecewise_linear_function() -> None:
    """With the constant they span all functions that are linear between the knots."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    hats = hat_functions(Axis(np.sort(x)[::40], np.full(10, 0.1)), x)
    assert hats.shape == (400, N_HATS)  # one less than the knots, and one for missing values
    assert not hats[:, -1].any()
    knots = np.quantile(x, np.linspace(0, 1, N_HATS))
    target = np.interp(x, knots, rng.normal(size=N_HATS))
    design = np.column_stack([np.ones(400), hats])
    fitted = design @ np.linalg.lstsq(design, target, rcond=None)[0]
    assert np.allclose(fitted, target)


def test_hat_functions_mark_missing_values_and_levels() -> None:
    axis = Axis(np.array([0.0, 1.0]), np.ones(3) / 3, has_missing=True)
    x = np.array([0.0, np.nan, 1.0, np.inf])
    assert hat_functions(axis, x)[:, -1].tolist() == [0, 1, 0, 1]
    assert np.isfinite(hat_functions(axis, np.full(3, np.nan))).all()
    levels = Axis(np.arange(12.0), np.ones(12) / 12, "nominal", groups=np.arange(12))
    indicators = hat_functions(levels, np.arange(12.0))
    assert indicators.shape == (12, N_HATS)
    assert indicators[1:N_HATS].tolist() == np.eye(N_HATS)[: N_HATS - 1].tolist()
    assert (indicators[N_HATS:, -1] == 1).all()  # rare levels together
    assert not indicators[0].any()  # the most frequent one is the constant


def test_many_rows_are_thinned(local: Explanation) -> None:
    """Every k-th row, so that no more than MAX_ROWS are used."""
    times = 2 * -(-MAX_ROWS // len(local.scores))
    columns = [np.tile(column, times) for column in local.columns]
    scores = np.tile(local.scores, (times, 1))
    step = -(-len(scores) // MAX_ROWS)
    thinned = concurvity(local.model, [c[::step] for c in columns], scores[::step])
    found = concurvity(local.model, columns, scores)
    assert {n: c.share for n, c in found.items()} == {n: c.share for n, c in thinned.items()}


def test_r2_of_some_imitators_alone() -> None:
    rng = np.random.default_rng(1)
    columns = rng.normal(size=(200, 4))
    target = columns @ [1.0, 2.0, 0.0, 0.0] + rng.normal(size=200)
    imitators = Imitators(columns)
    chosen = np.array([True, False, True, False])
    design = np.column_stack([np.ones(200), columns[:, chosen]])
    residual = target - design @ np.linalg.lstsq(design, target, rcond=None)[0]
    expected = 1 - residual.var() / target.var()
    assert imitators.r2(imitators.correlations(target), chosen) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("unit", [5e-324, 2.0**-1060, 2.0**1011])
def test_hat_functions_do_not_depend_on_the_unit(unit: float) -> None:
    """Differences of the smallest numbers have no reciprocal, and those of the largest overflow."""
    x = np.random.default_rng(0).integers(-8000, 8000, 300).astype(float)
    hats = [hat_functions(Axis(np.sort(v)[::40], np.full(8, 0.125)), v) for v in (x, unit * x)]
    assert np.allclose(*hats, atol=0.01)  # quantiles of the smallest numbers are rounded


def test_hat_functions_of_a_no_data_value_are_finite() -> None:
    """Beside the smallest double all other numbers are alike, but their differences matter."""
    x = np.append(np.random.default_rng(0).normal(size=99), [-1.7976931348623157e308] * 9)
    hats = hat_functions(Axis(np.sort(x)[::27], np.full(4, 0.25)), x)
    assert np.isfinite(hats).all()
    assert hats[:-9].std(0)[1:-1].min() > 0.1


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_correlations_do_not_depend_on_the_unit(unit: float) -> None:
    columns = np.random.default_rng(0).normal(size=(50, 3))
    expected = Imitators(columns).correlations(columns[:, 0] + columns[:, 1])
    found = Imitators(unit * columns).correlations(unit * (columns[:, 0] + columns[:, 1]))
    np.testing.assert_allclose(found, expected, atol=1e-12)
