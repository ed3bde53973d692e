"""merge: on every row the weighted mean of the raw scores, with unique components."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks.speed.exports.databases import in_sqlite
from tests.export.sheets.models import fuzzed_rows, mixed_model, mixed_rows
from tests.models import (
    random_model,
    remainder_means,
    table_model,
    with_bands,
    with_evidence,
    with_remainder,
)
from tpnn import AnovaModel, TPNNSurvival, load, merge, purify
from tpnn.model.check import check_model
from tpnn.model.evidence import Baseline
from tpnn.model.model import pruned
from tpnn.table.table import OffsetColumn


def raw(model: AnovaModel, X: Any) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of unseen values, which are meant here
        return model.raw_scores(X)


def different_models(order: int) -> list[AnovaModel]:
    """Three models with other rows, features, nodes, levels and orders each."""
    first = mixed_rows(300, seed=1)
    second = mixed_rows(200, seed=2)[["town", "amount", "count", "size"]]
    second = second[second["town"].isin(["Ulm", "A", " x ", "#N/A"]) & second["amount"].notna()]
    third = mixed_rows(60, seed=3)[["size", "since"]].assign(other=np.arange(60) % 7)
    third = third[third["size"] != "c"]
    models = [table_model(first, order), table_model(second, min(order, 2)), table_model(third, 1)]
    return [replace(model, intercepts=np.array([k + 0.3])) for k, model in enumerate(models)]


@pytest.mark.parametrize("order", [1, 2, 3])
def test_it_is_the_weighted_mean_of_the_raw_scores(order: int) -> None:
    models = different_models(order)
    X = fuzzed_rows(mixed_model(), 500).assign(other=np.linspace(-2, 9, 500))
    X.loc[::17, "other"] = np.nan
    merged = merge(models, weights=[5, 2, 3])
    expected = 0.5 * raw(models[0], X) + 0.2 * raw(models[1], X) + 0.3 * raw(models[2], X)
    assert np.abs(merged.raw_scores(X) - expected).max() < 1e-12 * max(np.abs(expected).max(), 1)
    assert merged.identifiability_error() < 1e-12


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_trees_of_remainders_are_merged(order: int) -> None:
    """Whatever codes each model has; one of the models has no remainder."""
    first, second, third = different_models(order)
    models = [with_remainder(first, seed=1), second, with_remainder(third, seed=2)]
    X = fuzzed_rows(mixed_model(), 500).assign(other=np.linspace(-2, 9, 500))
    X.loc[::17, "other"] = np.nan
    merged = merge(models, weights=[5, 2, 3])
    expected = 0.5 * raw(models[0], X) + 0.2 * raw(models[1], X) + 0.3 * raw(models[2], X)
    assert np.abs(merged.raw_scores(X) - expected).max() < 1e-12 * max(np.abs(expected).max(), 1)
    assert merged.identifiability_error() < 1e-12
    check_model(merged)


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_no_component_of_a_merged_model_is_in_its_remainder(n_outputs: int) -> None:
    models = [random_model(4, 2, seed, n_outputs) for seed in (1, 2)]
    merged = merge([with_remainder(models[0]), with_remainder(models[1], seed=1)], [1, 2])
    assert merged.remainder is not None
    assert merged.remainder.share > 1e-3
    assert max(remainder_means(merged)) < 1e-12


def test_masses_are_pooled() -> None:
    """The masses of a model of rows A and of one of rows B are those of all rows."""
    one, two = mixed_rows(300, seed=1), mixed_rows(100, seed=2)
    models = [table_model(rows, 2) for rows in (one, two)]
    merged = merge(models, weights=[300, 100])
    town = merged.encoder.axes[1][5]
    counts = pd.concat([one, two])["town"].value_counts(dropna=False, normalize=True)
    for label, mass in zip(town.levels or (), town.weights, strict=False):
        assert mass == pytest.approx(counts.get(label, 0.0))
    assert town.weights[town.missing] == pytest.approx(counts[np.nan])
    count = merged.encoder.axes[1][1]
    assert count.weights[count.regular] @ count.values == pytest.approx(
        pd.concat([one, two])["count"].mean()
    )
    means = [a.weights[a.regular] @ a.values for a in (m.encoder.axes[1][0] for m in models)]
    amount = merged.encoder.axes[1][0]
    mean = amount.weights[amount.regular] @ amount.values
    assert mean == pytest.approx(np.dot(means, [0.75, 0.25]))
    for order in (1, 2):
        assert np.allclose([a.weights.sum() for a in merged.encoder.axes[order]], 1)


def test_components_average_to_zero_over_the_rows_of_all_models() -> None:
    """Not only over the nodes, as long as every value is a node of its model."""
    names = ["count", "size", "town"]
    rows = [mixed_rows(300, seed=1)[names], mixed_rows(100, seed=2)[names]]
    merged = merge([table_model(frame, 2) for frame in rows], weights=[300, 100])
    scores = merged.component_scores(pd.concat(rows))
    mains = [k for k, component in enumerate(merged.components) if len(component) == 1]
    assert np.abs(scores[:, mains].mean(0)).max() < 1e-12


def test_several_outputs_and_tables_without_names() -> None:
    models = [random_model(3, 2, seed, n_outputs=3) for seed in (1, 2)]
    X = np.random.default_rng(0).normal(size=(100, 3))
    X[::7, 1] = np.nan
    merged = merge(models)
    expected = (raw(models[0], X) + raw(models[1], X)) / 2
    assert np.abs(merged.raw_scores(X) - expected).max() < 1e-12
    assert merged.output_names == models[0].output_names
    assert merged.identifiability_error() < 1e-12


def test_features_that_were_left_out_are_found_by_position() -> None:
    one, two = random_model(4, 1, 1), random_model(4, 1, 2)
    kept = pruned(one.restrict([(1,)])), pruned(two.restrict([(0,), (3,)]))
    X = np.random.default_rng(0).normal(size=(50, 4))
    merged = merge(kept)
    assert merged.feature_names == ("x0", "x1", "x3")
    expected = (kept[0].raw_scores(X) + kept[1].raw_scores(X)) / 2
    assert np.abs(merged.raw_scores(X) - expected).max() < 1e-12


def test_one_model_is_itself_and_a_mean_of_copies_too() -> None:
    model = mixed_model(2)
    X = fuzzed_rows(model, 200)
    for merged in (merge([model]), merge([model] * 3, [1, 2, 3])):
        assert merged.component_names == model.component_names
        assert np.abs(merged.raw_scores(X) - raw(model, X)).max() < 1e-12
        assert merged.intercept == pytest.approx(model.intercept, abs=1e-12)


def test_it_is_saved_and_exported_like_any_other_model(tmp_path: Any) -> None:
    merged = merge([mixed_model(2), table_model(mixed_rows(99, 5)[["size", "town"]], 2, "log")])
    X = fuzzed_rows(mixed_model(), 100)
    merged.save(tmp_path / "merged.tpnn")
    assert np.array_equal(load(tmp_path / "merged.tpnn").model_.raw_scores(X), merged.raw_scores(X))
    tables = merged.rating_tables(max_bands=100)
    assert np.isfinite(tables.predict(X)).all()


def test_a_query_knows_the_nodes_of_unseen_levels() -> None:
    """Also those of ordered levels, which models that were fitted do not have."""
    sizes = pd.Categorical(["s", "m", "l"] * 9, ["s", "m", "l"], ordered=True)
    frame = pd.DataFrame({"size": sizes, "town": ["Ulm", "Bonn", None] * 9})
    merged = merge([table_model(frame, 2), table_model(frame[frame["size"] != "m"][:7], 2)])
    rows = pd.DataFrame({"size": ["s", "m", "l", "xl", None], "town": ["Ulm", "x", None, "y", "z"]})
    answer = in_sqlite(merged.to_sql("sqlite"), rows)
    assert np.allclose(np.sort(answer[:, 0].astype(float)), np.sort(merged.raw_scores(rows)))


def test_an_ebm_is_merged_with_a_model() -> None:
    interpret = pytest.importorskip("interpret.glassbox")
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=300), "g": rng.choice(["u", "v", "w"], 300)})
    y = X["a"] + (X["g"] == "u")
    ebm = interpret.ExplainableBoostingRegressor(max_rounds=20, outer_bags=2, n_jobs=1).fit(X, y)
    model = table_model(X[X["g"] != "w"], 2)
    Z = pd.concat([X, pd.DataFrame({"a": [np.nan, 0.1], "g": ["new", None]})])
    expected = 0.25 * purify(ebm).raw_scores(Z) + 0.75 * raw(model, Z)
    assert np.abs(merge([ebm, model], [1, 3]).raw_scores(Z) - expected).max() < 1e-12
    assert np.allclose(ebm.predict(X), purify(ebm).raw_scores(X))


def test_survival_averages_log_cumulative_hazards() -> None:
    models = [with_evidence(random_model(2, 1, seed), baseline=baseline) for seed, baseline in (
        (1, Baseline(np.array([1.0, 3.0]), np.array([-2.0, -1.0]))),
        (2, Baseline(np.array([2.0, 4.0]), np.array([-3.0, 0.5]))),
    )]  # fmt: skip
    models = [replace(model, link=mixed_model().link) for model in models]
    merged, X = merge(models, [1, 3]), np.array([[0.2, -0.5]])
    times = np.array([2.0, 3.5, 4.5])
    logs = [np.log(-np.log(model.predict_survival(X, times))) for model in models]
    found = np.log(-np.log(merged.predict_survival(X, times)))
    assert np.allclose(found, 0.25 * logs[0] + 0.75 * logs[1])
    assert np.array_equal(merged.predict_survival(X, [0.5, 1.5]), [[1.0, 1.0]])
    assert merge([models[0], with_evidence(models[1], baseline=None)]).evidence.baseline is None


def test_fitted_survival_models(quick: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 2)), np.c_[rng.exponential(size=300), rng.random(300) < 0.7]
    models = [TPNNSurvival(**quick).fit(X[rows], y[rows]) for rows in (slice(150), slice(150, 300))]
    merged = merge(models)
    expected = (models[0].predict(X) + models[1].predict(X)) / 2
    assert np.abs(merged.raw_scores(X) - expected).max() < 1e-12
    assert np.isfinite(merged.predict_survival(X, [0.5])).all()


def test_an_offset_column_stays_one() -> None:
    def fitted(names: list[str]) -> AnovaModel:
        model = table_model(mixed_rows(100)[names], 1, "log")
        column = OffsetColumn("years", 0, True)
        return replace(model, encoder=replace(model.encoder, offset_column=column))

    models = [fitted(["amount", "town"]), fitted(["town", "count"])]
    X = mixed_rows(50, 7).assign(years=np.linspace(0.1, 2, 50))
    merged = merge(models)
    assert np.allclose(merged.raw_scores(X), (raw(models[0], X) + raw(models[1], X)) / 2)
    with pytest.raises(ValueError, match="models: all must have the same column as offset"):
        merge([models[0], table_model(mixed_rows(100), 1, "log")])


def test_bands_are_void() -> None:
    assert merge([with_bands(random_model(2, 1))]).evidence.posteriors is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"link": mixed_model().link}, "models: all must have the same link"),
        ({"classes": ("no", "yes")}, "models: all must have the same classes"),
        ({"output_names": ("a",)}, "models: all must have the same outputs"),
    ],
)
def test_models_of_other_tasks_are_refused(change: dict[str, Any], message: str) -> None:
    model = random_model(2, 1)
    with pytest.raises(ValueError, match=message):
        merge([model, replace(model, **change)])


def test_what_cannot_be_matched_is_refused() -> None:
    numbers = table_model(pd.DataFrame({"a": [1.0, 2.0, 3.0]}), 1)
    levels = table_model(pd.DataFrame({"a": ["u", "v", "w"]}), 1)
    with pytest.raises(ValueError, match="a feature must be of one kind in all of them"):
        merge([numbers, levels])
    with pytest.raises(ValueError, match="features are matched by name"):
        merge([numbers, random_model(1, 1)])
    with pytest.raises(ValueError, match="features are matched by name"):
        merge([random_model(2, 1), random_model(3, 1)])
    up, down = (
        table_model(
            pd.DataFrame({"a": pd.Categorical(["u", "v"], categories=order, ordered=True)}), 1
        )
        for order in (["u", "v"], ["v", "u"])
    )
    with pytest.raises(ValueError, match="models: the models order the levels"):
        merge([up, down])
    with pytest.raises(ValueError, match="models: the list is empty"):
        merge([])
    for weights in ([1.0], [1.0, 0.0], [1.0, np.nan], ["a", "b"], [[1.0], [1.0, 2.0]]):
        with pytest.raises(ValueError, match="weights: one positive number is needed"):
            merge([numbers, numbers], weights)
