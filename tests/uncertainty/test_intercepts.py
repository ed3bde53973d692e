"""Random intercepts: variances, effects and errors are those of mixed models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import tpnn
from tests.r_language import answers_of_r
from tpnn import TPNNClassifier, TPNNRegressor, TPNNSurvival
from tpnn.solvers.grow.solver import Grow

FAST: Any = {"n_bags": 2, "random_state": 0, "solver": Grow(growth="none"), "order": 1}
FAMILIES = {"squared_error": "gaussian", "log_loss": "binomial", "poisson": "poisson"}
N, CLINICS, DOCTORS = 900, 25, 8


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    clinics = rng.choice(CLINICS, N, p=rng.dirichlet(np.full(CLINICS, 2.0)))
    return pd.DataFrame(
        {
            "dose": rng.normal(size=N),
            "clinic": np.char.add("c", clinics.astype(str)),
            "doctor": rng.integers(0, DOCTORS, N),  # numbers, which are labels here
        }
    )


def drawn(kind: str, X: pd.DataFrame) -> np.ndarray:
    rng = np.random.default_rng(1)
    f = 0.3 * X["dose"].to_numpy() - 0.4 + rng.normal(size=DOCTORS)[X["doctor"]] / 2
    f += rng.normal(size=CLINICS)[X["clinic"].str[1:].astype(int)]
    if kind == "log_loss":
        return np.asarray(rng.random(N) < 1 / (1 + np.exp(-f)))
    return rng.poisson(np.exp(f)) if kind == "poisson" else f + rng.normal(size=N)


def fitted(kind: str, X: pd.DataFrame, y: Any, **settings: Any) -> Any:
    settings = {**FAST, **settings}
    if kind == "log_loss":
        return TPNNClassifier(**settings).fit(X, y)
    return TPNNRegressor(objective=kind, **settings).fit(X, y)


def effects(model: Any, name: str) -> pd.Series:
    frozen, place = model.model_, model.components_.index((name,))
    labels = frozen.encoder.axes[1][frozen.feature_names.index(name)].levels
    return pd.Series(frozen.tables[place][:, 0], [str(label) for label in labels])


def errors(model: Any, name: str) -> np.ndarray:
    place = model.components_.index((name,))
    return np.asarray(model.model_.evidence.posteriors[place].uncertainty().errors()[:, 0])


SCRIPT = """
rows$clinic <- factor(rows$clinic); rows$doctor <- factor(rows$doctor)
of <- function(family) {
  rows$y <- rows[[family]]
  fit <- gam(y ~ dose + s(clinic, bs = "re") + s(doctor, bs = "re"), data = rows, family = family,
             method = "REML", control = gam.control(epsilon = 1e-12))
  table <- summary(fit)
  data.frame(
    family = family, effect = coef(fit)[-(1:2)],
    level = c(levels(rows$clinic), levels(rows$doctor)), dose = coef(fit)["dose"],
    error = table$p.table["dose", 2], scale = fit$scale,
    clinic = fit$scale / fit$sp[1], doctor = fit$scale / fit$sp[2],
    clinic_edf = table$s.table[1, "edf"], doctor_edf = table$s.table[2, "edf"]
  )
}
answer <- do.call(rbind, lapply(c("gaussian", "binomial", "poisson"), of))
"""


def test_effects_and_variances_are_those_of_mgcv(rows: pd.DataFrame, tmp_path: Path) -> None:
    targets = {kind: drawn(kind, rows) for kind in FAMILIES}
    columns = {FAMILIES[kind]: y.astype(float) for kind, y in targets.items()}
    answers = answers_of_r(SCRIPT, {"rows": rows.assign(**columns)}, ["mgcv"], tmp_path)
    for kind, y in targets.items():
        model = fitted(kind, rows, y, random=["clinic", "doctor"], shapes={"dose": "linear"})
        answer = answers[answers["family"] == FAMILIES[kind]].reset_index()
        by_level = answer.set_index("level")["effect"]
        for known in model.model_.evidence.random:
            name = known.feature
            assert known.variance == pytest.approx(answer[name][0], rel=2e-3)
            assert known.dispersion == pytest.approx(answer["scale"][0], rel=1e-4)
            own = effects(model, name).iloc[:-1]
            assert known.n_groups == len(own) == rows[name].nunique()
            expected = by_level[list(own.index)]
            shares = rows[name].astype(str).value_counts(normalize=True)
            np.testing.assert_allclose(own, expected - (expected * shares).sum(), atol=2e-3)
            test = model.model_.evidence.tests.components[model.components_.index((name,))]
            assert test.degrees == pytest.approx(answer[f"{name}_edf"][0], rel=2e-3)
            assert test.p_value < 1e-4
        contrast = model.explain().contrast("dose", 1.0, 0.0)
        assert contrast.difference == pytest.approx(answer["dose"][0], abs=2e-3)
        assert contrast.error == pytest.approx(answer["error"][0], rel=2e-3)


def balanced(size: int = 12, groups: int = 10, spread: float = 1.0) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(3)
    place = np.repeat(np.arange(groups), size)
    y = 100 + 5 * (spread * rng.normal(size=groups)[place] + rng.normal(size=len(place)))
    return pd.DataFrame({"group": np.char.add("g", place.astype(str))}), y


def test_balanced_groups_have_the_variances_of_the_analysis_of_variance() -> None:
    X, y = balanced()
    model = fitted("squared_error", X, y, random=["group"])
    means = pd.Series(y).groupby(X["group"]).mean()
    within = float(((y - means[X["group"]].to_numpy()) ** 2).sum() / (len(y) - len(means)))
    between = float(means.var() - within / 12)
    (known,) = model.model_.evidence.random
    assert known.dispersion == pytest.approx(within, rel=1e-6)
    assert known.variance == pytest.approx(between, rel=1e-3)
    factor = 12 / (12 + within / between)
    np.testing.assert_allclose(known.credibility[:-1], factor, rtol=1e-4)
    assert known.credibility[-1] == 0  # of groups to come
    own = effects(model, "group").iloc[:-1]
    np.testing.assert_allclose(own, (means - means.mean())[own.index] * factor, rtol=1e-3)
    words = model.summary().header["random group"]
    assert f"{known.variance:.4g} between 10 groups, {known.dispersion:.4g} within" in words
    # posterior variance of a centred effect among m groups, and that of a new group
    own_variance = between * (1 - factor)
    np.testing.assert_allclose(errors(model, "group")[:-1] ** 2, own_variance * 9 / 10, rtol=1e-3)
    assert errors(model, "group")[-1] ** 2 == pytest.approx(1.1 * between, rel=1e-3)


def test_a_new_group_has_no_effect_and_a_band_with_the_variance(rows: pd.DataFrame) -> None:
    model = fitted("poisson", rows, drawn("poisson", rows), random=["clinic"])
    new = rows.assign(clinic="another")[:5]
    explained = model.explain(new)
    place = model.components_.index(("clinic",))
    assert not explained.scores[:, place].any()
    (known,) = model.model_.evidence.random
    half = explained.component("clinic").to_frame()["upper"].iloc[-1]
    assert half > 1.959 * np.sqrt(known.variance)


def test_groups_that_are_alike_have_no_effects() -> None:
    X, y = balanced(spread=0.0)
    model = fitted("squared_error", X, y, random=["group"])
    (known,) = model.model_.evidence.random
    assert known.variance < 0.05 * known.dispersion
    assert np.abs(effects(model, "group")).max() < 0.3 * y.std()
    assert model.model_.evidence.tests.components[0].p_value > 0.05


def test_groups_of_a_row_or_two_keep_their_nodes() -> None:
    rng = np.random.default_rng(5)
    place = np.sort(rng.integers(0, 2500, 4000))
    X = pd.DataFrame({"policy": place, "x": rng.normal(size=4000)})
    y = rng.poisson(np.exp(rng.normal(size=2500)[place] - 0.5))
    model = fitted("poisson", X, y, random=["policy"], bands=False)
    (known,) = model.model_.evidence.random
    assert known.n_groups == len(np.unique(place))
    assert 0.7 < known.variance < 1.3  # the truth is 1


def test_the_model_is_saved_and_exported_whole(rows: pd.DataFrame, tmp_path: Path) -> None:
    model = fitted("log_loss", rows, drawn("log_loss", rows), random=["clinic"])
    new = pd.concat([rows[:20], rows[:3].assign(clinic="another")])
    expected = model.predict_proba(new)
    model.model_.save(tmp_path / "model.tpnn")
    model.model_.to_json(tmp_path / "model.json")
    for name in ("model.tpnn", "model.json"):
        again = tpnn.load(tmp_path / name)
        np.testing.assert_array_equal(again.predict_proba(new), expected)
        (one,), (two,) = again.model_.evidence.random, model.model_.evidence.random
        assert one[:-1] == two[:-1]
        np.testing.assert_array_equal(one.credibility, two.credibility)
    code: dict[str, Any] = {}
    exec(model.model_.to_code("python"), code)
    scores = [code["score"](row)["prediction"] for row in new.to_dict("records")]
    np.testing.assert_allclose(scores, expected[:, 1], atol=1e-12)


def test_groups_without_a_finite_variance_stay_penalised() -> None:
    X, y = balanced()
    exact = pd.Series(y).groupby(X["group"]).transform("mean").to_numpy()
    X = X.assign(x=np.random.default_rng(6).normal(size=len(X)))  # no copies of the table
    with pytest.warns(UserWarning, match="a mixed model needs a likelihood with one maximum"):
        model = fitted("squared_error", X, exact, random=["group"])
    assert model.model_.evidence.random is None
    np.testing.assert_allclose(model.predict(X), exact, rtol=0.01)


def test_a_fit_does_not_start_with_groups_that_the_old_one_has_not_seen() -> None:
    X, y = balanced()
    old = fitted("squared_error", X, y, random=["group"]).model_
    new = TPNNRegressor(random=["group"], **FAST)
    with pytest.raises(ValueError, match=r"^start: column 'group' has new levels"):
        new.fit(X.assign(group="new " + X["group"]), y, start=old)
    with pytest.warns(UserWarning, match="random: a mixed model needs all rows in one fit"):
        assert new.fit(X, y, start=old).model_.evidence.random is None


@pytest.mark.parametrize("settings", [{"objective": "quantile"}, {"objective": "huber"}])
def test_losses_without_a_likelihood_are_refused(settings: Any) -> None:
    X, y = balanced()
    with pytest.raises(ValueError, match=r"^random: random intercepts need one target"):
        TPNNRegressor(random=["group"], **FAST, **settings).fit(X, y)
    with pytest.raises(ValueError, match=r"found squared_error with 2 output"):
        TPNNRegressor(random=["group"], **FAST).fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match=r"found cox with 1 output"):
        TPNNSurvival(random=["group"], **FAST).fit(X, np.column_stack([y, y > 100]))


def test_bad_values_of_random_are_refused() -> None:
    X, y = balanced()
    with pytest.raises(ValueError, match=r"^random: must be None, or a list of features"):
        TPNNRegressor(random="group")
    with pytest.raises(ValueError, match=r"^random: a feature that is random has no other shape"):
        TPNNRegressor(random=["group"], shapes={"group": "linear"})
    days = X.assign(group=pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(len(X)), "D"))
    with pytest.raises(ValueError, match=r"^random: groups are levels, found dates in 'group'"):
        TPNNRegressor(random=["group"], **FAST).fit(days, y)
    crossed = X.assign(x=np.arange(len(X)))
    with pytest.raises(ValueError, match=r"a random feature has no interactions, but 'group'"):
        TPNNRegressor(random=["group"], interactions=[("group", "x")]).fit(crossed, y)


@pytest.mark.parametrize("shape", ["random", "linear"])
def test_what_is_added_to_a_model_keeps_the_groups_that_are_not_in_the_new_rows(shape: str) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"g": rng.choice(list("uvwxyz"), 400)})
    y = 2.0 * (X["g"] == "w") - 1.0 * (X["g"] == "z") + 0.3 * rng.normal(size=400)
    settings: Any = {"n_bags": 2, "random_state": 0, "verbose": 0, "order": 1}
    model = TPNNRegressor(**settings, shapes={"g": shape}).fit(X, y)
    are_new, groups = X["g"].isin(["u", "v"]), pd.DataFrame({"g": list("wxyz")})
    with pytest.warns(UserWarning, match="needs all rows in one fit, found a model in start"):
        more = clone(model).fit(X[are_new], y[are_new] + 1.0, start=model)
    before, after = (one.predict(groups) for one in (model, more))
    np.testing.assert_allclose(np.diff(after), np.diff(before), atol=0.2)
