"""Laws of the explanation: norms, variance shares, Shapley values, reasons, concurvity."""

from __future__ import annotations

from itertools import combinations
from math import comb, factorial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tpnn import AnovaModel, Explanation, TPNNClassifier, TPNNRegressor, load_model, stability
from tpnn.anova.components import ComponentSet
from tpnn.anova.purify import purify_tables
from tpnn.explain.concurvity import Imitators, hat_functions
from tpnn.loss.links import LINKS
from tpnn.table.axis import Axis
from tpnn.table.encoder import Feature, TableEncoder


@pytest.fixture(scope="module")
def explanation(table: Any, quick: Any) -> Explanation:
    X, y = table
    return TPNNRegressor(**quick).fit(X, y).explain()


@pytest.fixture(scope="module")
def sample(explanation: Explanation, table: Any) -> np.ndarray:
    """Component scores on rows drawn from the product of the marginals."""
    X, _ = table
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.choice(X[name], 40_000) for name in X])
    return explanation.model.component_scores(rows)


def random_model(n_features: int, order: int, seed: int = 0) -> AnovaModel:
    """A model with random pure components of every order, on a handful of nodes."""
    rng = np.random.default_rng(seed)
    axes = []
    for _ in range(n_features):
        masses = rng.random(rng.integers(2, 5))
        axes.append(Axis(np.sort(rng.normal(size=len(masses))), masses / masses.sum()))
    by_order = {size: tuple(axes) for size in range(1, order + 1)}
    encoder = TableEncoder(None, by_order, (Feature("number"),) * n_features)
    components = ComponentSet.up_to(n_features, order)
    raw = {s: rng.normal(size=[axes[j].n_nodes for j in s]) for s in components}
    intercept, pure = purify_tables(raw, encoder.axes)
    tables = tuple(pure[s] for s in components)
    spreads = tuple(np.zeros_like(table) for table in tables)
    return AnovaModel(
        encoder, components, tables, spreads, float(intercept), LINKS["identity"],
        "sigmoid", "centred", None,
    )  # fmt: skip


def coalition_value(model: AnovaModel, x: np.ndarray, known: tuple[int, ...]) -> float:
    """E f(x_known, X_rest) by summing over all nodes of the other features."""
    axes = model.encoder.axes[1]
    points = [np.array([x[j]]) if j in known else a.values for j, a in enumerate(axes)]
    masses = [np.ones(1) if j in known else a.weights for j, a in enumerate(axes)]
    grid = np.stack([g.ravel() for g in np.meshgrid(*points, indexing="ij")], axis=1)
    weight = np.prod(np.meshgrid(*masses, indexing="ij"), axis=0).ravel()
    return float(weight @ model.raw_scores(grid))


def brute_force(model: AnovaModel, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shapley values and interaction indices by their definitions over all coalitions."""
    p = len(x)
    subsets = [s for size in range(p + 1) for s in combinations(range(p), size)]
    value = {s: coalition_value(model, x, s) for s in subsets}

    def with_(coalition: tuple[int, ...], *more: int) -> float:
        return value[tuple(sorted((*coalition, *more)))]

    single, double = np.zeros(p), np.zeros((p, p))
    for s in subsets:
        for j in set(range(p)) - set(s):
            weight = factorial(len(s)) * factorial(p - len(s) - 1) / factorial(p)
            single[j] += weight * (with_(s, j) - value[s])
        for j, k in combinations(sorted(set(range(p)) - set(s)), 2):
            weight = 1 / ((p - 1) * comb(p - 2, len(s)))
            gain = with_(s, j, k) - with_(s, j) - with_(s, k) + value[s]
            double[j, k] += weight * gain
    return single, double + double.T


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_shapley_values_equal_brute_force(order: int) -> None:
    """Values between nodes included: the model is linear there, and so is the game."""
    model = random_model(4, order)
    rows = np.random.default_rng(1).normal(size=(3, 4))
    local = Explanation(model, model.encoder.read(rows))
    values, interactions = local.shap_values(), local.shap_interaction_values()
    for row, found, pairs in zip(rows, values.values, interactions.values, strict=True):
        single, double = brute_force(model, row)
        assert np.allclose(found, single, atol=1e-12)
        off_diagonal = ~np.eye(4, dtype=bool)
        assert np.allclose(2 * pairs[off_diagonal], double[off_diagonal], atol=1e-12)
        assert np.allclose(pairs, pairs.T)
        assert np.allclose(pairs.sum(1), single, atol=1e-12)
    total = values.base_values + values.values.sum(1)
    assert np.allclose(total, model.raw_scores(rows))


def test_kernel_shap_agrees(table: Any, quick: Any) -> None:
    """KernelSHAP of the same model, with the product of the marginals as its background."""
    shap = pytest.importorskip("shap", reason="shap is not installed")
    model = random_model(4, 3)
    rng = np.random.default_rng(2)
    background = np.column_stack(
        [rng.choice(axis.values, 2000, p=axis.weights) for axis in model.encoder.axes[1]]
    )
    rows = rng.normal(size=(5, 4))
    sampled = shap.KernelExplainer(model.raw_scores, background).shap_values(rows, silent=True)
    exact = Explanation(model, model.encoder.read(rows)).shap_values().values
    scale = model.raw_scores(background).std()
    assert np.abs(sampled - exact).max() < 5 * scale / np.sqrt(len(background))
    assert np.corrcoef(sampled.ravel(), exact.ravel())[0, 1] > 0.995


def test_shap_plots_accept_the_values(table: Any, quick: Any) -> None:
    shap = pytest.importorskip("shap", reason="shap is not installed")
    from matplotlib import pyplot

    X, y = table
    model = TPNNRegressor(**quick).fit(X, y)
    values = model.shap_values(X[:40])
    assert isinstance(values, shap.Explanation)
    assert list(values.feature_names) == list(X)
    assert np.array_equal(values.data, X[:40].to_numpy())
    for draw in (shap.plots.beeswarm, shap.plots.bar, shap.plots.heatmap):
        draw(values, show=False)
        pyplot.close("all")
    shap.plots.waterfall(values[0], show=False)
    shap.plots.scatter(values[:, "smooth"], show=False)
    pairs = model.explain(X[:40]).shap_interaction_values()
    shap.plots.scatter(pairs[:, 0, 3], show=False)
    pyplot.close("all")


def test_shapley_values_without_shap(
    explanation: Explanation, table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "shap", None)
    X, _ = table
    local = Explanation(explanation.model, explanation.model.encoder.read(X[:5]))
    values = local.shap_values()
    assert values.values.shape == values.data.shape == (5, 4)
    assert np.allclose(values.base_values + values.values.sum(1), local.model.raw_scores(X[:5]))


def test_importance_is_the_l1_norm(explanation: Explanation, sample: np.ndarray) -> None:
    """Exact under the node masses; between nodes |f| is only nearly linear."""
    importance = explanation.importance()
    assert list(importance.values()) == sorted(importance.values(), reverse=True)
    for names, scores in zip(explanation.model.component_names, sample.T, strict=True):
        assert importance[names] == pytest.approx(np.abs(scores).mean(), rel=0.05, abs=1e-3)


def test_normalised_importance_is_relative_to_the_largest(explanation: Explanation) -> None:
    plain, relative = explanation.importance(), explanation.importance(normalise=True)
    largest = max(plain.values())
    assert relative == pytest.approx({names: value / largest for names, value in plain.items()})


def test_sobol_shares_are_variance_shares(explanation: Explanation, sample: np.ndarray) -> None:
    shares = explanation.sobol()
    assert sum(shares.values()) == pytest.approx(1.0)
    total = sample.sum(1).var()
    for names, scores in zip(explanation.model.component_names, sample.T, strict=True):
        assert shares[names] == pytest.approx(scores.var() / total, abs=0.02)


def test_sobol_indices_equal_their_definition() -> None:
    """Main: Var E[f | x_j] / Var f. Total: one minus that of all other features."""
    model = random_model(3, 3)
    axes = model.encoder.axes[1]
    grids = np.meshgrid(*(axis.values for axis in axes), indexing="ij")
    values = model.raw_scores(np.stack([g.ravel() for g in grids], 1)).reshape(grids[0].shape)

    def mean(array: np.ndarray, over: list[int]) -> np.ndarray:
        for j in sorted(over, reverse=True):
            array = np.tensordot(array, axes[j].weights, axes=(j, 0))
        return array

    variance = float(mean((values - mean(values, [0, 1, 2])) ** 2, [0, 1, 2]))
    found = Explanation(model).sobol_indices()
    for j, name in enumerate(model.feature_names):
        others = [k for k in range(3) if k != j]
        main = axes[j].weights @ (mean(values, others) - mean(values, [0, 1, 2])) ** 2 / variance
        squares = mean(np.expand_dims(mean(values, [j]), j) ** 2, others).item()
        closed = (squares - float(mean(values, [0, 1, 2])) ** 2) / variance
        assert found[name].main == pytest.approx(main)
        assert found[name].total == pytest.approx(1 - closed)
        assert found[name].interaction == pytest.approx(found[name].total - found[name].main)


def test_component_table_is_the_model_on_its_nodes(explanation: Explanation, table: Any) -> None:
    X, _ = table
    local = Explanation(explanation.model, explanation.model.encoder.read(X))
    pair = local.component(("level", "smooth"))
    assert pair.names == ("smooth", "level")
    assert pair.density is not None
    assert pair.density.sum() == pytest.approx(1.0)
    frame = pair.to_frame()
    assert list(frame) == ["smooth", "level", "effect", "lower", "upper", "density"]
    rows = pd.DataFrame(0.0, index=frame.index, columns=X.columns)
    rows[["smooth", "level"]] = frame[["smooth", "level"]]
    scores = explanation.model.component_scores(rows)[:, local.find(("smooth", "level"))]
    assert np.allclose(scores, frame["effect"])
    assert explanation.component("smooth").density is not None  # of the training rows
    assert explanation.component(("smooth", "level")).density is None


def test_reasons_are_the_largest_contributions(explanation: Explanation, table: Any) -> None:
    X, _ = table
    local = Explanation(explanation.model, explanation.model.encoder.read(X[:20]))
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


def test_concurvity_is_the_r2_of_a_regression(explanation: Explanation, table: Any) -> None:
    """The block inverse equals a least-squares fit of the columns that may imitate, by their rank.

    Imitators of an interaction are the functions of all features and the other interactions.
    """
    X, _ = table
    local = Explanation(explanation.model, explanation.model.encoder.read(X))
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


def test_stability_is_the_formula_of_the_paper(table: Any, quick: Any) -> None:
    X, y = table
    fits = [TPNNRegressor(**{**quick, "random_state": s, "n_bags": 1}).fit(X, y) for s in range(3)]
    found = stability(fits, X[:50])
    scores = np.stack([fit.model_.component_scores(X[:50]) for fit in fits])  # (3, n, C)
    spread = ((scores - scores.mean(0)) ** 2).sum(0)
    expected = (spread / (scores**2).sum(0)).mean(0)
    for names, value in zip(fits[0].components_, expected, strict=True):
        assert found.components[names] == pytest.approx(value)
    assert found.score == pytest.approx(expected.mean())
    assert stability([fits[0], fits[0].model_], X).score == pytest.approx(0.0, abs=1e-12)


def test_stability_counts_a_missing_component_as_zero(table: Any, quick: Any) -> None:
    X, y = table
    mains = TPNNRegressor(**{**quick, "order": 1}).fit(X, y)
    pair = TPNNRegressor(**quick, interactions=[("smooth", "level")]).fit(X, y)
    found = stability([mains, pair], X)
    assert found.components["smooth", "level"] == pytest.approx(0.5)


def test_stability_of_other_features(table: Any, quick: Any) -> None:
    X, y = table
    fits = [TPNNRegressor(**quick).fit(X, y), TPNNRegressor(**quick).fit(X[X.columns[::-1]], y)]
    with pytest.raises(ValueError, match=r"^models: all fits must have the same features"):
        stability(fits, X)
    with pytest.raises(ValueError, match=r"^models: at least two fits are needed, found 1"):
        stability(fits[:1], X)


def test_explaining_needs_rows_and_known_columns(explanation: Explanation, table: Any) -> None:
    X, y = table
    with pytest.raises(ValueError, match=r"^rows: an explanation of rows is needed"):
        explanation.shap_values()
    model = TPNNRegressor(order=1, n_bags=1, max_steps=2).fit(X, y)
    with pytest.raises(ValueError, match=r"^X: the columns seen during fit are needed, \['atom'\]"):
        model.explain(X.drop(columns="atom"))
    with pytest.raises(ValueError, match=r"^X: the number of columns must be that of fit"):
        model.shap_values(X.to_numpy()[:, :2])
    with pytest.raises(ValueError, match=r"^component: features must be names or .*, found 'age'"):
        explanation.component("age")
    with pytest.raises(ValueError, match=r"^component: features must be names or .*, found 1.5"):
        explanation.component(1.5)
    with pytest.raises(ValueError, match=r"^component: must be one of the model's components"):
        explanation.component(("smooth", "atom", "level"))


def test_components_by_index(explanation: Explanation) -> None:
    assert explanation.component(0).names == ("smooth",)
    assert explanation.component((3, "smooth")).names == ("smooth", "level")


def test_a_loaded_model_explains_any_table(table: Any, quick: Any, tmp_path: Path) -> None:
    X, y = table
    model = TPNNRegressor(**quick).fit(X, y)
    model.model_.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    expected = model.explain(X)
    for rows in (X, X[X.columns[::-1]], X.to_numpy(), X.to_numpy().tolist()):
        local = Explanation(loaded, rows)
        assert np.array_equal(local.shap_values().values, expected.shap_values().values)
        assert local.reasons() == expected.reasons()
        assert np.array_equal(local.component("atom").density, expected.component("atom").density)


def test_features_named_like_the_columns_of_a_frame(table: Any, quick: Any) -> None:
    X, y = table
    X = X.set_axis(["effect", "lower", "effect (feature)", "output"], axis=1)
    explanation = TPNNRegressor(**quick).fit(X, y).explain()
    frame = explanation.component(("effect", "effect (feature)")).to_frame()
    assert list(frame)[:3] == ["effect (feature)", "effect (feature) (feature)", "effect"]
    table_of = explanation.component("lower")
    frame = table_of.to_frame()
    assert np.array_equal(frame["lower (feature)"], table_of.axes[0].values)
    assert np.array_equal(frame["lower"], table_of.band[0])


def test_one_warning_for_rows_with_unseen_values(table: Any, quick: Any) -> None:
    X, y = table
    local = TPNNRegressor(**quick).fit(X, y).explain(X[:5].assign(atom=np.nan))
    with pytest.warns(UserWarning, match="^X: levels or missing values") as caught:
        local.reasons()
    assert len(caught) == 1


def test_representation_is_short(explanation: Explanation, table: Any) -> None:
    model = "AnovaModel(10 components of 4 features, order 2, identity link)"
    assert repr(explanation) == f"Explanation({model})"
    assert repr(Explanation(explanation.model, table[0])) == f"Explanation({model}, 400 rows)"


@pytest.fixture(scope="module")
def mixed(table: Any) -> pd.DataFrame:
    """The common table with labels, a date and missing values beside its numbers."""
    X, _ = table
    rng = np.random.default_rng(9)
    days = pd.to_timedelta(rng.integers(0, 500, len(X)), "D")
    town = rng.choice(["Ulm", "Bonn", "Trier"], len(X))
    mixed = X[["smooth", "skewed"]].assign(town=town, since=pd.Timestamp("2021-01-01") + days)
    mixed.loc[::8, "skewed"] = np.nan
    return mixed


def test_original_scales(mixed: pd.DataFrame, table: Any) -> None:
    """Labels, dates and missing values come back as they were given."""
    settings = {"n_bags": 2, "max_steps": 30, "random_state": 0, "verbose": 0}
    local = TPNNRegressor(**settings).fit(mixed, table[1]).explain(mixed)
    assert set(local.component("town").to_frame()["town"]) == {"Ulm", "Bonn", "Trier"}
    assert set(local.component("since").to_frame()["since"]) <= set(mixed["since"])
    assert local.component("skewed").to_frame()["skewed"].isna().sum() == 1
    frame = local.component(("skewed", "town")).to_frame()
    assert frame.loc[frame["skewed"].isna(), "density"].sum() == pytest.approx(1 / 8)
    by_town = frame.groupby("town")["density"].sum()
    assert np.allclose(by_town, mixed["town"].value_counts(normalize=True)[by_town.index])
    words = {reason.feature: str(reason) for reason in local.reasons(4)[0]}
    assert words["town"].startswith(f"town = {mixed['town'][0]} ")
    assert words["since"].startswith(f"since = {mixed['since'][0]:%Y-%m-%d}")
    assert words["skewed"].startswith("skewed = (missing) ")


def test_several_outputs(mixed: pd.DataFrame, table: Any) -> None:
    """Shapley values of each class sum to its score; one output is explained like any model."""
    settings = {"n_bags": 2, "max_steps": 30, "random_state": 0, "verbose": 0}
    labels = np.array(["a", "b", "c"])[np.digitize(table[1], np.quantile(table[1], [0.3, 0.6]))]
    model = TPNNClassifier(**settings).fit(mixed, labels)
    local = model.explain(mixed[:50])
    values = local.shap_values()
    assert values.values.shape == (50, 4, 3)
    raw = model.decision_function(mixed[:50])
    assert np.allclose(values.base_values + values.values.sum(1), raw)
    assert np.allclose(local.shap_interaction_values().values.sum(2), values.values)
    assert sum(local.sobol().values()) == pytest.approx(1.0)
    one = local.of("b")
    assert np.allclose(one.model.raw_scores(mixed[:50]), raw[:, 1])
    assert np.allclose(one.shap_values().values, values.values[..., 1])
    assert len(one.reasons(2)) == 50
    frame = local.component("town").to_frame()
    assert np.allclose(
        frame[frame["output"] == "b"]["effect"], one.component("town").to_frame()["effect"]
    )
    with pytest.raises(ValueError, match=r"^output: one output is needed here, found 3\. Choose"):
        local.reasons()
    with pytest.raises(ValueError, match=r"^explanation: a plot shows one output, found 3"):
        local.plot("town")
    with pytest.raises(ValueError, match=r"^output: must be one of the model's outputs, found 'd'"):
        local.of("d")
