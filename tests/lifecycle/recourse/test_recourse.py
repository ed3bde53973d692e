"""recourse: as cheap as the best combination, within ranges, impossible only if it is."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.export.sheets.models import mixed_model, mixed_rows
from tests.models import random_model, table_model, with_remainder
from tpnn import AnovaModel, ComponentSet, TPNNClassifier, TPNNRegressor, load, purify
from tpnn.anova.trees import TreeBuilder, TreeFeature
from tpnn.lifecycle.recourse import choices as leaves
from tpnn.model.remainder import Remainder


def brute_force(
    model: AnovaModel, row: dict[str, Any], low: float, options: dict[str, list[Any]], most: int
) -> float:
    """Smallest cost over all combinations of options that reach a raw score; inf without one."""
    units = {name: axis.tenths_range for name, axis in
             zip(model.feature_names, model.encoder.axes[1], strict=True)}  # fmt: skip

    def cost(name: str, value: Any) -> float:
        return 1.0 if isinstance(value, str) else abs(value - row[name]) / units[name]

    records, costs = [], []
    for names in (c for size in range(1, most + 1) for c in combinations(options, size)):
        for values in product(*(options[name] for name in names)):
            records.append({**row, **dict(zip(names, values, strict=True))})
            costs.append(sum(cost(n, v) for n, v in zip(names, values, strict=True)
                             if v != row[n]))  # fmt: skip
    reached = model.raw_scores(records) >= low
    return min(np.array(costs)[reached], default=np.inf)


def levels_and_pairs(seed: int) -> tuple[AnovaModel, dict[str, Any], dict[str, list[Any]]]:
    """A model with pairs and triples of two numbers and a level on a few nodes."""
    rng = np.random.default_rng(seed)
    nodes: dict[str, Any] = {"a": [0, 1, 2, 4], "b": [0, 3, 5], "g": ["u", "v", "w"]}
    keys = [("a",), ("b",), ("g",), ("a", "b"), ("a", "g"), ("a", "b", "g")]
    tables = {key: rng.normal(size=[len(nodes[name]) for name in key]) for key in keys}
    return purify(tables, nodes), {"a": 1.5, "b": 4.5, "g": "v"}, nodes


def on_a_curve(model: AnovaModel, row: dict[str, Any], name: str, low: float) -> float:
    """Smallest cost of changing one feature alone: where its curve crosses the raw score.

    Between two values on both sides of a step there is nothing to choose.
    """
    feature = model.feature_names.index(name)
    axis, ends = model.encoder.axes[1][feature], np.empty(0)
    if model.remainder is not None:
        ends = model.remainder.trees.features[feature].ends
    beside = np.concatenate([ends, np.nextafter(ends, np.inf)])
    x = np.unique(np.concatenate([axis.values, [row[name]], beside]))
    f = model.raw_scores([{**row, name: value} for value in x]) - low
    roots, is_step = [x[f >= 0]], np.isin(x[:-1], ends)
    for k in np.flatnonzero((f[:-1] * f[1:] < 0) & ~is_step):
        roots.append([x[k] - f[k] * (x[k + 1] - x[k]) / (f[k + 1] - f[k])])
    found = np.concatenate(roots)
    return float(np.abs(found - row[name]).min(initial=np.inf)) / axis.tenths_range


@pytest.mark.parametrize("max_changes", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_it_is_as_cheap_as_the_best_combination(seed: int, max_changes: int) -> None:
    model, row, nodes = levels_and_pairs(seed)
    now = model.raw_scores(row)[0]
    for gain in (0.5, 1.5, 3.0, 10.0):
        found = model.recourse(row, now + gain, max_changes=max_changes)
        together = brute_force(model, row, now + gain, nodes, max_changes)
        expected = min(together, *(on_a_curve(model, row, name, now + gain) for name in "ab"))
        assert found.is_possible == np.isfinite(expected)
        if found.is_possible:
            assert found.cost == pytest.approx(expected, abs=2e-5)
            assert found.cost > expected - 1e-12
            assert len(found.changes) <= max_changes
            assert model.predict(found.row)[0] >= now + gain
            assert found.prediction == pytest.approx(model.predict(found.row)[0], abs=1e-12)


@pytest.mark.parametrize("max_changes", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_trees_are_part_of_the_programme(seed: int, max_changes: int) -> None:
    """Linked features have the nodes to choose from, and every two features meet in some tree."""
    model, row, nodes = levels_and_pairs(seed)
    model = with_remainder(model, n_trees=40, depth=3, seed=seed)
    now = model.raw_scores(row)[0]
    possible = []
    for gain in (0.5, 1.5, 3.0, 6.0, 100.0):
        found = model.recourse(row, now + gain, max_changes=max_changes)
        together = brute_force(model, row, now + gain, nodes, max_changes)
        expected = min(together, *(on_a_curve(model, row, name, now + gain) for name in "ab"))
        possible.append(found.is_possible)
        assert found.is_possible == np.isfinite(expected)
        if found.is_possible:
            assert found.cost == pytest.approx(expected, abs=2e-5)
            assert model.predict(found.row)[0] >= now + gain
            assert found.prediction == pytest.approx(model.predict(found.row)[0], abs=1e-12)
    assert possible[0]
    assert not possible[-1]


def test_a_step_of_trees_is_crossed_and_no_more() -> None:
    """Whole numbers go to the next one beyond it, others to the next number there is."""
    builder = TreeBuilder([TreeFeature(np.array([3.5]), None, np.array([0.5, 0.5, 0, 0]))], 1)
    question = builder.question(0, np.array([False, True, False, False]))
    builder.root(builder.node(question, builder.leaf(np.zeros(1)), builder.leaf(np.ones(1))))
    for nodes, expected in (([0, 7], 4.0), ([0.5, 7], np.nextafter(3.5, 4))):
        core = purify({"a": np.array([0.0, 0.1])}, {"a": nodes})
        rest = Remainder(builder.trees(), np.zeros(1), ComponentSet(()), (), 0.0, 0.0)
        model = replace(core, remainder=rest)
        found = model.recourse({"a": 2}, 1.0)
        assert found.row["a"] == expected
        assert model.predict(found.row)[0] >= 1.0
        assert not model.recourse({"a": 2}, 1.2).is_possible


def test_a_fit_with_a_remainder(table: Any, quick: Any) -> None:
    X, y = table
    model = TPNNRegressor(**quick, remainder=True, max_components=2).fit(X, y).model_
    rng, row = np.random.default_rng(0), X.iloc[[0]]
    now = model.predict(row)[0]
    others = X.sample(3000, replace=True, random_state=0).reset_index(drop=True)
    for name in rng.choice(X.columns, 2, replace=False):  # two features change, all others stay
        others = others.assign(**{n: row[n].iloc[0] for n in X.columns if n != name})
    best = float(model.predict(others).max())
    for target in (now + 0.3, best):
        found = model.recourse(row, target)
        assert found.is_possible
        assert model.predict([found.row])[0] >= target
    nowhere = model.recourse(row, 1000.0)
    assert not nowhere.is_possible
    assert nowhere.prediction >= best - 1e-9


def test_trees_that_are_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model, row, _ = levels_and_pairs(0)
    model = with_remainder(model)
    monkeypatch.setattr(leaves, "MOST_PRODUCTS", 10)
    with pytest.raises(ValueError, match=r"leaves of the remainder.*or fit with remainder=False"):
        model.recourse(row, model.raw_scores(row)[0] + 1.0)


@pytest.mark.parametrize("seed", range(4))
def test_whole_numbers_stay_whole(seed: int) -> None:
    """Main effects move between nodes, too; every whole number is tried."""
    rng = np.random.default_rng(seed)
    nodes: dict[str, Any] = {"a": [0, 7, 12, 20], "b": [0, 3, 30]}
    model = purify({n: rng.normal(size=len(nodes[n])) for n in nodes}, nodes)
    row = {"a": 9, "b": 10}
    options = {"a": list(range(21)), "b": list(range(31))}
    now = model.raw_scores(row)[0]
    for gain in (0.2, 0.6, 1.2):
        found = model.recourse(row, now + gain)
        expected = brute_force(model, row, now + gain, options, 2)
        assert found.is_possible == np.isfinite(expected)
        if found.is_possible:
            assert found.cost == pytest.approx(expected, abs=1e-9)
            assert all(float(new).is_integer() for _, new in found.changes.values())


def test_a_free_feature_goes_exactly_as_far_as_it_must() -> None:
    model = purify({"a": [0.0, 1.0, 3.0]}, {"a": [0.5, 1.5, 3.5]}, link="logit")
    row = {"a": 0.5}
    target = float(1 / (1 + np.exp(-2.0)))
    found = model.recourse(row, target)
    assert found.row["a"] == pytest.approx(2.5, abs=1e-4)
    assert model.predict(found.row)[0] >= target
    back = model.recourse({"a": 3.5}, target)  # from above
    assert back.row["a"] == pytest.approx(2.5, abs=1e-4)
    assert model.predict(back.row)[0] <= target
    there = model.recourse({"a": 2.5}, (target - 0.1, target + 0.1))
    assert (there.is_possible, there.changes, there.cost) == (True, {}, 0.0)


def test_ranges_are_never_violated() -> None:
    rng = np.random.default_rng(0)
    model, row, _ = levels_and_pairs(1)
    now = model.raw_scores(row)[0]
    for _ in range(15):
        low, high = np.sort(rng.uniform(0, 4, 2))
        ranges = {"a": (low, high), "b": (None, 4), "g": ["v", "w"]}
        found = model.recourse(row, now + rng.uniform(0.1, 2), ranges=ranges, max_changes=3)
        for name, (_, new) in found.changes.items():
            assert name != "a" or low <= new <= high
            assert name != "b" or new <= 4
            assert name != "g" or new in ("v", "w")


def test_a_value_outside_its_range_stays_or_enters_it() -> None:
    model = purify({"a": [0.0, 10.0]}, {"a": [0.5, 10.5]})
    found = model.recourse({"a": 1.0}, 3.0, ranges={"a": (6.0, 8.0)})
    assert found.row["a"] == pytest.approx(6.0)
    far = model.recourse({"a": 1.0}, 3.0, ranges={"a": (20.0, 30.0)})
    assert far.row["a"] == pytest.approx(20.0)  # beyond the nodes, where the curve is flat
    assert not model.recourse({"a": 1.0}, 9.0, ranges={"a": (2.0, 8.0)}).is_possible


def test_fixed_features_stay() -> None:
    model, row, nodes = levels_and_pairs(2)
    now = model.raw_scores(row)[0]
    found = model.recourse(row, now + 0.5, fixed=["a", "g"], max_changes=3)
    expected = brute_force(model, row, now + 0.5, {"b": [0, 3, 5]}, 1)
    assert found.is_possible == np.isfinite(expected)
    assert set(found.changes) <= {"b"}
    nothing = model.recourse(row, now + 0.5, fixed=list(nodes))
    assert not nothing.is_possible
    assert nothing.prediction == pytest.approx(now)


def test_impossible_tells_the_best_that_can_be_reached() -> None:
    model, row, nodes = levels_and_pairs(3)
    found = model.recourse(row, 100.0, max_changes=3)
    grid = [dict(zip(nodes, values, strict=True)) for values in
            product([*nodes["a"], 1.5], [*nodes["b"], 4.5], nodes["g"])]  # fmt: skip
    assert not found.is_possible
    assert np.isnan(found.cost)
    assert found.prediction == pytest.approx(model.predict(grid).max())


def test_missing_values_and_unseen_levels_stay() -> None:
    model = mixed_model(1)
    row = mixed_rows(400).iloc[[0]].assign(amount=np.nan, town="Ulm")
    now = model.predict(row)[0]
    found = model.recourse(row, now * 1.05, max_changes=3)
    assert found.is_possible
    assert "amount" not in found.changes
    frame = pd.DataFrame([found.row])
    assert model.predict(frame)[0] == pytest.approx(found.prediction)
    early = np.datetime64("2016-01-01")
    dated = model.recourse(row, now * 1.02, ranges={"since": (None, early)}, max_changes=1,
                           fixed=["count", "waited", "size", "town"])  # fmt: skip
    assert set(dated.changes) <= {"since"}
    for _, new in dated.changes.values():
        assert new <= early


def test_estimators_and_loaded_models(tmp_path: Any, quick: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"income": rng.lognormal(size=400), "town": rng.choice(["Ulm", "Bonn"], 400)})
    y = (X["income"] + (X["town"] == "Ulm") + rng.normal(size=400) > 1.5).astype(int)
    model = TPNNClassifier(**quick).fit(X, y)
    row = X.iloc[[int(model.predict_proba(X)[:, 1].argmin())]]
    found = model.recourse(row, 0.5)
    assert model.predict_proba(pd.DataFrame([found.row]))[0, 1] >= 0.5
    model.model_.save(tmp_path / "model.tpnn")
    again = load(tmp_path / "model.tpnn").recourse(row, 0.5)
    assert again.changes == found.changes


def test_an_exposure_is_no_choice() -> None:
    model = table_model(mixed_rows(100)[["amount", "count"]], 1, "log")
    row = {"amount": 0.1, "count": 3.0}
    now = model.raw_scores(row)[0]
    found = model.recourse(row, float(np.exp(now + 1.1)), offset=[1.0])
    plain = model.recourse(row, float(np.exp(now + 0.1)))
    assert found.cost == pytest.approx(plain.cost, abs=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": 2.0}, "target: must be a prediction above 0 and below 1"),
        ({"target": "yes"}, "target: must be a prediction"),
        ({"target": (0.8, 0.2)}, "target: must be a prediction"),
        ({"fixed": ["z"]}, "fixed: features must be names"),
        ({"ranges": {"z": (0, 1)}}, "ranges: features must be names"),
        ({"ranges": {"a": (3, 1)}}, "ranges: the first number must not exceed the second"),
        ({"ranges": {"a": (3, 1, 2)}}, "ranges: must be a pair"),
        ({"ranges": {"g": ["x"]}}, "ranges: must be levels of 'g', found 'x'"),
        ({"max_changes": 0}, "max_changes: must be a whole number of at least 1"),
        ({"row": [{"a": 1, "g": "u"}] * 2}, "row: must be a single row, and the table has 2"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: dict[str, Any], message: str) -> None:
    model = purify({"a": [0, 1], "g": [0, 1]}, {"a": [0, 1], "g": ["u", "v"]}, link="logit")
    with pytest.raises(ValueError, match=message):
        model.recourse(**{"row": {"a": 0, "g": "u"}, "target": 0.9, **arguments})


def test_several_outputs_are_refused() -> None:
    with pytest.raises(ValueError, match="model: recourse needs one output, and this model has 3"):
        random_model(2, 1, n_outputs=3).recourse([[0, 0]], 1.0)
