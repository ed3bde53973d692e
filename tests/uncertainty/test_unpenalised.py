"""Linear features: estimates, intervals and p-values are those of unpenalised models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2, norm

from tpnn import TPNNClassifier, TPNNRegressor, TPNNSurvival
from tpnn.loss.objectives import resolve
from tpnn.solvers.grow.solver import Grow
from tpnn.solvers.solution import Limits
from tpnn.uncertainty import unpenalised

FAST: Any = {"n_bags": 2, "random_state": 0, "solver": Grow(growth="none"), "order": 1}
N = 500
INVERSES: Any = {
    "squared_error": (lambda f: f, np.ones_like, np.ones_like),
    "log_loss": (lambda f: 1 / (1 + np.exp(-f)), lambda m: m * (1 - m), lambda m: m * (1 - m)),
    "poisson": (np.exp, lambda m: m, lambda m: m),
    "gamma": (np.exp, lambda m: m, lambda m: m**2),
}


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    age = rng.normal(size=N)
    dose = 0.4 * age + rng.normal(size=N) + 3.0  # more values than nodes
    return pd.DataFrame(
        {"dose": dose, "age": age, "arm": rng.choice([*"abc"], N, p=[0.6, 0.3, 0.1])}
    )


def drawn(kind: str, X: pd.DataFrame) -> np.ndarray:
    rng = np.random.default_rng(1)
    f = np.sin(X["age"]) + 0.2 * X["dose"] + 0.3 * (X["arm"] == "b") - 0.5
    mean = INVERSES[kind][0](f.to_numpy())
    if kind == "log_loss":
        return rng.random(N) < mean
    if kind == "poisson":
        return rng.poisson(mean)
    return rng.gamma(2, mean / 2) if kind == "gamma" else mean + rng.normal(size=N)


def model_of(kind: str, **settings: Any) -> Any:
    if kind == "log_loss":
        return TPNNClassifier(**{**FAST, **settings})
    return TPNNRegressor(**{**FAST, "objective": kind, **settings})


def offset_of(model: Any, X: pd.DataFrame, *linear: str) -> np.ndarray:
    names = model.model_.component_names
    others = [place for place, (name,) in enumerate(names) if name not in linear]
    return model.explain(X).scores[:, others].sum(1)


def maximised(kind: str, columns: Any, y: Any, offset: Any) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of a generalised linear model and their covariance, without the constant."""
    inverse, slope, variance = INVERSES[kind]
    A, beta = np.column_stack([np.ones(len(y)), columns]), np.zeros(np.shape(columns)[1] + 1)
    for _ in range(50):
        f = offset + A @ beta
        mean = inverse(f)
        d, v = slope(mean), variance(mean)
        information = (A * (d**2 / v)[:, None]).T @ A
        beta = beta + np.linalg.solve(information, A.T @ ((y - mean) * d / v))
    phi = ((y - mean) ** 2 / v).sum() / (len(y) - len(beta))
    phi = phi if kind in ("squared_error", "gamma") else 1.0
    return beta[1:], phi * np.linalg.inv(information)[1:, 1:]


@pytest.mark.parametrize("kind", list(INVERSES))
def test_a_number_and_levels_have_the_effects_of_a_generalised_linear_model(
    kind: str, rows: pd.DataFrame
) -> None:
    y = drawn(kind, rows)
    model = model_of(kind, shapes={"dose": "linear", "arm": "linear"}).fit(rows, y)
    columns = np.column_stack([rows["dose"], rows["arm"] == "b", rows["arm"] == "c"])
    offset = offset_of(model, rows, "dose", "arm")
    beta, covariance = maximised(kind, columns.astype(float), y, offset)
    explained, lines = model.explain(), model.model_.summary().to_frame().set_index("component")
    for name, value, reference, k in [
        ("dose", 4, 3, 0),
        ("arm", "b", "a", 1),
        ("arm", "c", "a", 2),
    ]:
        error = np.sqrt(covariance[k, k])
        found = explained.contrast(name, value, reference)
        reach = norm.ppf(0.975) * error
        expected = [beta[k], error, beta[k] - reach, beta[k] + reach]
        np.testing.assert_allclose(found[:4], expected, rtol=1e-6, atol=1e-7)
        assert found.p_value == pytest.approx(2 * norm.sf(abs(beta[k]) / error), abs=1e-6)
    assert lines.loc["dose", "p_value"] == pytest.approx(
        2 * norm.sf(abs(beta[0]) / np.sqrt(covariance[0, 0])), rel=1e-5
    )
    wald = beta[1:] @ np.linalg.solve(covariance[1:, 1:], beta[1:])
    assert lines.loc["arm", "p_value"] == pytest.approx(chi2.sf(wald, 2), rel=1e-5)
    assert list(lines.loc[["dose", "arm"], "edf"]) == [1, 2]


@pytest.mark.parametrize("kind", ["squared_error", "poisson"])
def test_statsmodels_agrees(kind: str, rows: pd.DataFrame) -> None:
    api = pytest.importorskip("statsmodels.api")
    y = drawn(kind, rows)
    model = model_of(kind, shapes={"dose": "linear"}).fit(rows, y)
    family = api.families.Poisson() if kind == "poisson" else api.families.Gaussian()
    offset = offset_of(model, rows, "dose")
    other = api.GLM(y, api.add_constant(rows["dose"]), family=family, offset=offset).fit()
    found = model.explain().contrast("dose", 4.0, 3.0)
    expected = [other.params["dose"], other.bse["dose"], *other.conf_int().loc["dose"]]
    np.testing.assert_allclose(found[:4], expected, rtol=1e-6, atol=1e-6)
    assert found.p_value == pytest.approx(other.pvalues["dose"], abs=1e-6)


def partial(beta: float, x: Any, y: Any, offset: Any, ties: str) -> tuple[float, float]:
    """Slope and information of the log partial likelihood, event by event."""
    risk, slope, information = np.exp(offset + beta * x), 0.0, 0.0
    for time in np.unique(y[y[:, 1] > 0, 0]):
        alive, events = y[:, 0] >= time, (y[:, 0] == time) & (y[:, 1] > 0)
        for left in range(events.sum()):
            share = left / events.sum() if ties == "cox_efron" else 0.0
            w = risk * (alive - share * events)
            mean = (w @ x) / w.sum()
            slope -= mean
            information += (w @ x**2) / w.sum() - mean**2
        slope += x[events].sum()
    return slope, information


@pytest.mark.parametrize("ties", ["cox", "cox_efron"])
def test_a_treatment_has_the_hazard_ratio_of_a_cox_model(ties: str, rows: pd.DataFrame) -> None:
    rng = np.random.default_rng(2)
    X = rows.assign(dose=(rows["dose"] > 3).astype(float))
    times = np.ceil(8 * rng.exponential(np.exp(-np.sin(X["age"]) - 0.4 * X["dose"])))
    y = np.column_stack([times, rng.random(N) < 0.7])
    settings = {**FAST, "shapes": {"dose": "linear"}, "objective": ties}
    model = TPNNSurvival(**settings).fit(X, y)
    beta, offset = 0.0, offset_of(model, X, "dose")
    for _ in range(20):
        slope, information = partial(beta, X["dose"].to_numpy(), y, offset, ties)
        beta += slope / information
    found = model.explain().contrast("dose", 1.0, 0.0)
    error = information**-0.5
    ends = np.exp([beta, beta - norm.ppf(0.975) * error, beta + norm.ppf(0.975) * error])
    np.testing.assert_allclose(found[:2], [beta, error], rtol=1e-6)
    np.testing.assert_allclose([found.ratio, found.ratio_lower, found.ratio_upper], ends, rtol=1e-6)
    assert found.p_value == pytest.approx(2 * norm.sf(abs(beta) / error), rel=1e-5)


def test_lifelines_agrees(rows: pd.DataFrame) -> None:
    lifelines = pytest.importorskip("lifelines")
    rng = np.random.default_rng(3)
    lives = np.column_stack([rng.exponential(np.exp(-0.2 * rows["dose"])), rng.random(N) < 0.8])
    frame = rows[["dose"]].assign(time=lives[:, 0], event=lives[:, 1])
    other = lifelines.CoxPHFitter().fit(
        frame, "time", "event", fit_options={"precision": 1e-12}
    ).summary.loc["dose"]  # fmt: skip
    model = TPNNSurvival(**{**FAST, "components": [("dose",)]}, shapes={"dose": "linear"})
    found = model.fit(rows, lives).explain().contrast("dose", 4.0, 3.0)
    words = ["coef", "se(coef)", "coef lower 95%", "coef upper 95%"]
    np.testing.assert_allclose(found[:4], other[words].astype(float), rtol=1e-6)
    assert found.p_value == pytest.approx(other["p"], abs=1e-6)


def test_groups_have_the_sandwich_of_their_scores(rows: pd.DataFrame) -> None:
    y, groups = drawn("squared_error", rows), np.arange(N) % 50
    model = model_of("squared_error", shapes={"dose": "linear"}).fit(rows, y, groups=groups)
    A = np.column_stack([np.ones(N), rows["dose"]])
    target = y - offset_of(model, rows, "dose")
    beta = np.linalg.lstsq(A, target, rcond=None)[0]
    sums = pd.DataFrame(A * (target - A @ beta)[:, None]).groupby(groups).sum().to_numpy()
    inverse = np.linalg.inv(A.T @ A)
    error = np.sqrt((inverse @ sums.T @ sums @ inverse * 50 / 49)[1, 1])
    found = model.explain().contrast("dose", 4.0, 3.0)
    np.testing.assert_allclose(found[:2], [beta[1], error], rtol=1e-6)


def test_missing_values_have_a_constant_of_their_own_and_bands_are_optional(
    rows: pd.DataFrame,
) -> None:
    X, y = rows.copy(), drawn("squared_error", rows)
    X.loc[::7, "dose"] = np.nan
    missing = X["dose"].isna().to_numpy()
    columns = np.column_stack([X["dose"].fillna(0.0), missing])
    for bands in (True, False):
        model = model_of("squared_error", shapes={"dose": "linear"}, bands=bands).fit(X, y)
        beta, _ = maximised("squared_error", columns, y, offset_of(model, X, "dose"))
        table = model.model_.tables[model.model_.component_names.index(("dose",))][..., 0]
        (axis,) = model.model_.axes((0,))
        np.testing.assert_allclose(np.diff(table[axis.regular]), beta[0] * np.diff(axis.values))
        at_zero = table[0] - beta[0] * axis.values[0]
        assert table[-1] - at_zero == pytest.approx(beta[1])
        assert model.model_.identifiability_error() < 1e-9


def test_an_effect_without_a_finite_estimate_stays_penalised_and_says_so(
    rows: pd.DataFrame,
) -> None:
    y = drawn("poisson", rows) * (rows["arm"] != "c")
    with pytest.warns(UserWarning, match=r"^shapes: an unpenalised effect needs .* 'arm'"):
        model = model_of("poisson", shapes={"arm": "linear"}).fit(rows, y)
    assert np.abs(model.model_.tables[0]).max() < 30


def test_effects_have_the_unit_of_the_target(rows: pd.DataFrame) -> None:
    y = drawn("squared_error", rows)
    one, million = (
        model_of("squared_error", shapes={"dose": "linear"}).fit(rows, unit * y).explain()
        for unit in (1.0, 1e6)
    )
    found, expected = (each.contrast("dose", 4.0, 3.0)[:2] for each in (million, one))
    np.testing.assert_allclose(found, 1e6 * np.array(expected), rtol=1e-4)


@pytest.mark.parametrize("n_groups", [2, 4])
def test_too_few_groups_leave_effects_penalised_and_say_so(
    rows: pd.DataFrame, n_groups: int
) -> None:
    model = model_of("squared_error", shapes={"dose": "linear", "arm": "linear"})
    with pytest.warns(UserWarning, match=rf"found {n_groups} groups and 4"):
        model.fit(rows, drawn("squared_error", rows), groups=np.arange(N) % n_groups)


def test_a_level_of_a_single_group_has_no_sandwich(rows: pd.DataFrame) -> None:
    groups = np.where(rows["arm"] == "c", 0, 1 + np.arange(N) % 30)
    model = model_of("squared_error", shapes={"arm": "linear"})
    with pytest.warns(UserWarning, match=r"one maximum, .* or in a single group"):
        model.fit(rows, drawn("squared_error", rows), groups=groups)


def test_the_order_of_columns_changes_no_bit_of_linear_effects(rows: pd.DataFrame) -> None:
    y, shapes = drawn("poisson", rows), {"dose": "linear", "arm": "linear", "age": "linear"}
    one, other = (
        model_of("poisson", shapes=shapes).fit(rows[columns], y).model_
        for columns in (["dose", "age", "arm"], ["arm", "dose", "age"])
    )
    tables = [dict(zip(m.component_names, m.tables, strict=True)) for m in (one, other)]
    for name, table in tables[0].items():
        assert np.array_equal(table, tables[1][name])
    assert np.array_equal(one.intercepts, other.intercepts)


@pytest.mark.parametrize(("limit", "most"), [("MOST_VALUES", 2 * N), ("MOST_COLUMNS", 2)])
def test_many_columns_are_refused_before_they_are_built(
    limit: str, most: int, rows: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpenalised, limit, most)
    monkeypatch.setattr(unpenalised, "_functions", None)
    with pytest.warns(UserWarning, match=r"at most .* found 3 columns on 500.*min_rows") as told:
        model_of("poisson", shapes={"dose": "linear", "arm": "linear"}).fit(
            rows, drawn("poisson", rows)
        )
    assert len(told) == 1


def test_newtons_method_ends_with_the_time(rows: pd.DataFrame) -> None:
    objective, y = resolve("poisson", 1), drawn("poisson", rows)[:, None].astype(float)
    X, ones = rows[["dose"]].to_numpy(), np.ones((N, 1))
    given = unpenalised.LinearRows(objective, X, 0 * ones, y, ones, None)
    assert given.fitted(Limits()).shape == (1,)
    with pytest.raises(TimeoutError, match="effects without a prior"):
        given.fitted(Limits(deadline=0.0))


def test_without_time_effects_stay_penalised_and_a_warning_says_so(
    rows: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted = unpenalised.LinearRows.fitted
    late = Limits(deadline=0.0)
    monkeypatch.setattr(unpenalised.LinearRows, "fitted", lambda self, _: fitted(self, late))
    with pytest.warns(UserWarning, match=r"^shapes: an unpenalised effect needs time") as told:
        model = model_of("poisson", shapes={"dose": "linear"}).fit(rows, drawn("poisson", rows))
    assert len(told) == 1
    assert model.model_.evidence.tests.fit is not None  # which is that of the penalised model


def test_statistics_of_the_penalised_fit_are_not_those_of_the_model(rows: pd.DataFrame) -> None:
    y = drawn("squared_error", rows)
    for shapes, is_known in (({}, True), ({"dose": "linear"}, False)):
        tests = model_of("squared_error", shapes=shapes).fit(rows, y).model_.evidence.tests
        assert (tests.fit is not None) == is_known


def test_a_linear_feature_is_kept_and_reaches_to_the_ends_of_its_values() -> None:
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(600, 12)), rng.normal(size=600)
    model = TPNNRegressor(
        shapes={3: "linear"}, order=1, selection="noise", n_bags=2, random_state=0
    )
    model.fit(X, y)
    assert ("x3",) in model.components_
    place = model.model_.feature_names.index("x3")
    nodes = model.model_.encoder.axes[1][place].values
    assert (nodes[0], nodes[-1]) == (X[:, 3].min(), X[:, 3].max())
    assert len(nodes) == 256
