"""Edits: f changes by exactly the edit on all rows, and components stay the only ones of f."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.models import random_model, table_model, with_bands, with_evidence, with_remainder
from tpnn import AnovaModel, Explanation, TPNNSurvival, load, purify
from tpnn.model.edit_log import digest
from tpnn.model.evidence import Baseline

UNIQUE = 1e-12
EQUAL = 1e-12
CUTS = {
    "age": ({"between": (20, 23)}, lambda x: x.between(20, 23)),
    "income": ({"between": (0.513, 1.234)}, lambda x: x.between(0.513, 1.234)),
    "town": ({"levels": ["c", "k"]}, lambda x: x.isin(["c", "k"])),
    "grade": ({"levels": ["mid"]}, lambda x: x == "mid"),
    "since": (
        {"between": ("2020-05-01", "2021-01-01")},
        lambda x: x.between("2020-05-01", "2021-01-01"),
    ),
}


def rows_between(X: pd.DataFrame) -> pd.DataFrame:
    """The rows, and rows whose numbers are no nodes and lie at the ends of ranges."""
    near = [20.0, np.nextafter(23, 50), np.nextafter(23, 0), 23.0, 19.5, 21.7, 17.0, 95.0]
    ends = [0.513, np.nextafter(0.513, 0), 1.234, np.nextafter(1.234, 9), 1.0, 0.0, 99.0, np.nan]
    more = X.iloc[:8].assign(age=near, income=ends)
    return pd.concat([X.assign(age=X["age"].astype(float)), more], ignore_index=True)


def check_added(model: AnovaModel, edited: AnovaModel, rows: Any, expected: np.ndarray) -> None:
    """Raw scores have changed by what is expected, and the decomposition is unique again."""
    change = edited.raw_scores(rows) - model.raw_scores(rows)
    assert np.abs(change - expected).max() <= EQUAL
    assert edited.identifiability_error() <= UNIQUE
    total = edited.component_scores(rows).sum(1) + edited.intercept
    assert np.abs(total - edited.raw_scores(rows)).max() <= EQUAL


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("name", CUTS)
def test_a_range_of_a_feature_changes_by_exactly_the_edit(
    name: str, order: int, models: dict[int, AnovaModel], X: pd.DataFrame
) -> None:
    """Every row in the range, ends included, and no other; also between nodes."""
    where, inside = CUTS[name]
    rows = rows_between(X)
    edited = models[order].edit(name, add=0.2, **where)
    check_added(models[order], edited, rows, 0.2 * inside(rows[name]).to_numpy())


@pytest.mark.parametrize("pair", list(combinations(CUTS, 2)))
@pytest.mark.parametrize("order", [2, 3])
def test_a_rectangle_of_a_pair_changes_by_exactly_the_edit(
    pair: tuple[str, str], order: int, models: dict[int, AnovaModel], X: pd.DataFrame
) -> None:
    rows, where, inside = rows_between(X), {}, np.ones(len(X) + 8, bool)
    for name in pair:
        for key, value in CUTS[name][0].items():
            where.setdefault(key, {})[name] = value
        inside &= CUTS[name][1](rows[name]).to_numpy()
    edited = models[order].edit(pair, add=-0.7, **where)
    check_added(models[order], edited, rows, -0.7 * inside)


def test_a_box_of_a_triple_changes_by_exactly_the_edit(
    models: dict[int, AnovaModel], X: pd.DataFrame
) -> None:
    rows = rows_between(X)
    edited = models[3].edit(
        ("town", "age", "income"), between={"age": (30, 41.5), "income": (None, 1.234)},
        levels={"town": ["k", "a"]}, missing=["income"], add=1.5,
    )  # fmt: skip
    inside = rows["age"].between(30, 41.5) & rows["town"].isin(["k", "a"])
    inside &= ~(rows["income"] > 1.234)
    check_added(models[3], edited, rows, 1.5 * inside.to_numpy())


def test_values_beyond_the_outer_nodes_change_with_these(
    models: dict[int, AnovaModel], X: pd.DataFrame
) -> None:
    """There the model is constant, before an edit and after."""
    rows = X.iloc[:2].assign(age=[5.0, 120.0])
    edited = models[1].edit("age", between=(80, None), add=0.2)
    scores = [model.component_scores(rows)[:, 0] + model.intercept for model in (models[1], edited)]
    assert np.allclose(scores[1] - scores[0], [0.0, 0.2], atol=EQUAL)


def test_missing_values_change_alone(models: dict[int, AnovaModel], X: pd.DataFrame) -> None:
    edited = models[2].edit("income", missing=True, add=0.4)
    check_added(models[2], edited, X, 0.4 * X["income"].isna().to_numpy())


def test_other_operations_do_what_they_say(models: dict[int, AnovaModel], X: pd.DataFrame) -> None:
    """Each against its own arithmetic on the scores of the component."""
    model = models[2]
    X = X[np.isin(X["age"], model.encoder.axes[1][0].values)]
    scores, inside = model.component_scores(X)[:, 0], X["age"].between(30, 40).to_numpy()
    where = {"between": (30, 40)}
    axis = model.encoder.axes[1][0]
    chosen = (axis.values >= 30) & (axis.values <= 40)
    mean = np.average(model.tables[0][chosen, 0], weights=axis.weights[chosen])
    for change, new in (
        ({"set": 0.3}, 0.3),
        ({"scale": 0.5}, 0.5 * scores),
        ({"limit": (-0.1, None)}, np.maximum(scores, -0.1)),
        ({"flatten": True}, mean),
    ):
        edited = model.edit("age", **where, **change)
        check_added(model, edited, X, np.where(inside, new - scores, 0.0))


def test_points_bend_the_curve_between_their_neighbours(models: dict[int, AnovaModel]) -> None:
    """At a point the effect is as given; at the nodes around it nothing changes."""
    model = models[1]
    edited = model.edit("age", points={30.5: 2.0})
    rows = pd.DataFrame({"age": [30.0, 30.25, 30.5, 30.75, 31.0, 60.0]})
    fill = {name: [np.nan] * 6 for name in model.feature_names if name != "age"}
    with pytest.warns(UserWarning, match=r"^X: levels or missing"):
        before, after = (m.component_scores(rows.assign(**fill))[:, 0] for m in (model, edited))
    moved = after - before + (edited.intercept - model.intercept)
    rise = 2.0 - before[2]
    assert np.allclose(moved, [0, rise / 2, rise, rise / 2, 0, 0], atol=1e-12)


def test_smoothing_keeps_the_mean_and_what_is_outside(
    models: dict[int, AnovaModel], X: pd.DataFrame
) -> None:
    model = models[2]
    whole = model.edit("age", smooth=0.2)
    assert (
        np.abs(np.diff(whole.tables[0][:, 0])).sum() < np.abs(np.diff(model.tables[0][:, 0])).sum()
    )
    assert np.allclose(whole.intercepts, model.intercepts, atol=1e-12)
    part = model.edit("age", smooth=0.2, between=(30, 50))
    change = part.raw_scores(X) - model.raw_scores(X)
    inner = X["age"].between(31, 49).to_numpy()
    assert np.abs(change[~inner]).max() <= EQUAL < np.abs(change[inner]).max()
    stiff = model.edit("age", smooth=1.0).edit("age", smooth=1.0).edit("age", smooth=1.0)
    assert np.ptp(stiff.tables[0]) < 0.05 * np.ptp(model.tables[0])


def test_without_leaves_a_component_out(models: dict[int, AnovaModel], X: pd.DataFrame) -> None:
    model = models[2]
    place = model.component_names.index(("age", "town"))
    edited = model.edit(("town", "age"), without=True, why="not allowed")
    check_added(model, edited, X, -model.component_scores(X)[:, place])
    assert ("age", "town") not in edited.component_names
    assert edited.evidence.posteriors is not None
    assert None not in edited.evidence.posteriors


@pytest.mark.parametrize("shape", ["increasing", "decreasing", "convex", "linear"])
def test_a_shape_is_certified_also_after_other_edits(
    shape: str, models: dict[int, AnovaModel]
) -> None:
    """Nodes that an edit has added have no mass, which the projection must stand."""
    edited = models[2].edit("income", between=(0.5, 0.6), add=0.5)
    edited = edited.edit("income", between=(0.52, 0.55), add=0.3).edit("income", shape=shape)
    assert edited.certificate("income", shape).holds
    assert edited.shapes == {"income": shape}
    assert edited.identifiability_error() <= UNIQUE
    broken = edited.edit("income", points={0.51: -9.0, 0.6: 9.0, 0.7: -9.0})
    assert broken.shapes == {}
    assert broken.log()[-1]["changed"]["shapes_lost"] == ["income"]


def test_one_of_several_outputs_changes_alone() -> None:
    model = random_model(3, 3, n_outputs=3)
    rows = np.random.default_rng(1).normal(size=(200, 3)) * 2
    edited = model.edit((0, 2), between={0: (-0.3, 0.9)}, output="output 1", add=0.2)
    change = edited.raw_scores(rows) - model.raw_scores(rows)
    nodes = model.encoder.axes[1][0].values
    clipped = np.clip(rows[:, 0], nodes[0], nodes[-1])  # beyond the outer nodes f is constant
    inside = (clipped >= -0.3) & (clipped <= 0.9)
    assert np.abs(change - 0.2 * inside[:, None] * [0, 1, 0]).max() <= EQUAL
    assert edited.identifiability_error() <= UNIQUE
    everything = model.edit(1, add=0.2).raw_scores(rows) - model.raw_scores(rows)
    assert np.abs(everything - 0.2).max() <= EQUAL


def test_factors_of_a_log_link_and_hazards_of_survival(X: pd.DataFrame) -> None:
    """An edit of the logarithm multiplies the mean, or the hazard at all times."""
    model = table_model(X, 2, "log", unit=0.1)
    model = with_evidence(model, baseline=Baseline(np.array([1.0, 2.0]), np.array([-2.0, -1.0])))
    edited = model.edit("age", between=(None, 30), add=np.log(1.5))
    young = X["age"].to_numpy() <= 30
    ratio = edited.predict(X) / model.predict(X)
    assert np.allclose(ratio, np.where(young, 1.5, 1.0), rtol=1e-12)
    hazards = [np.log(m.predict_survival(X, [1.0, 2.0])) for m in (model, edited)]
    assert np.allclose(hazards[1], hazards[0] * ratio[:, None], rtol=1e-9)


def test_a_fitted_survival_model_states_the_effect(quick: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 2)), columns=["a", "b"])
    y = np.column_stack([rng.exponential(np.exp(-X["a"])), rng.random(200) < 0.7])
    model = TPNNSurvival(**quick).fit(X, y).model_
    edited = model.edit("a", scale=-1.0, X=X, y=y)
    (record,) = edited.log()
    assert record["effect"]["loss"] == "cox"
    assert record["effect"]["n_rows"] == 200
    assert record["effect"]["after"] > record["effect"]["before"]
    assert all(map(np.array_equal, edited.evidence.baseline, model.evidence.baseline))
    assert edited.provenance is not None
    assert edited.provenance.scores == {}


def test_bands_of_changed_components_are_void(models: dict[int, AnovaModel]) -> None:
    """Those of others stay, also on finer nodes; asking for a void one says why."""
    model = models[2]
    edited = model.edit(("age", "income"), between={"age": (20, 33.3), "income": (1, 2)}, add=1.0)
    assert edited.evidence.posteriors is not None
    void = [
        n
        for n, p in zip(edited.component_names, edited.evidence.posteriors, strict=True)
        if p is None
    ]
    assert void == [("age",), ("income",), ("age", "income")]
    other = Explanation(edited).component(("age", "town"))
    old = Explanation(model).component(("age", "town"))
    kept = np.isin(other.axes[0].values, old.axes[0].values)
    assert kept.sum() < len(kept)
    for new_end, old_end in zip(other.band, old.band, strict=True):
        assert np.allclose(new_end[kept], old_end, rtol=1e-5)
    with pytest.raises(ValueError, match="or was edited, which makes a band void"):
        Explanation(edited).component("age").to_frame(level=0.95)
    assert Explanation(edited).component("age").to_frame()["lower"].isna().all()


def test_levels_that_shared_a_node_are_told_apart(X: pd.DataFrame) -> None:
    """In a pair the rarest levels share a node; an edit of one leaves the others."""
    model = with_bands(table_model(X, 2))
    axis = model.encoder.axes[2][2]
    shared = np.flatnonzero(axis.groups == axis.groups.max())
    level = model.encoder.features[2].levels[shared[1]]
    assert len(shared) > 2
    edited = model.edit(("age", "town"), levels={"town": [level]}, add=1.0)
    check_added(model, edited, X, 1.0 * (X["town"] == level).to_numpy())
    again = edited.edit(("town", "grade"), levels={"town": [level]}, scale=0.0)
    assert again.identifiability_error() <= UNIQUE


def test_as_many_nodes_in_another_order_are_other_nodes() -> None:
    """The pair has a node less than the main effect; the level apart comes last in one of them."""
    rng = np.random.default_rng(0)
    towns = rng.permutation(list("aaaaaaaaabbbbbbbbcccccccddddddeeeeefffffgggghhhi"))
    X = pd.DataFrame({"town": towns, "x": rng.normal(size=len(towns))})
    model = table_model(X, 2)
    assert [model.encoder.axes[order][0].n_nodes for order in (1, 2)] == [9, 8]
    edited = model.edit(("town", "x"), levels={"town": ["h"]}, between={"x": (0, 1)}, add=1.0)
    check_added(model, edited, X, 1.0 * ((X["town"] == "h") & X["x"].between(0, 1)).to_numpy())


def test_nothing_is_changed_in_place(models: dict[int, AnovaModel], X: pd.DataFrame) -> None:
    model = models[2]
    before, old_digest = model.raw_scores(X), digest(model)
    edited = model.edit("age", add=1.0, between=(20, 30))
    assert digest(model) == old_digest
    assert np.array_equal(model.raw_scores(X), before)
    with pytest.raises(ValueError, match="read-only"):
        edited.tables[0][:] = 0.0


def test_an_ebm_can_be_edited() -> None:
    from tests.lifecycle.foreign.test_ebm import with_pair

    model = purify(with_pair(missing=5.0))
    rows = pd.DataFrame({"a": [0.0, 9.0, np.nan, 1.0], "b": 0.0, "k": ["u", "v", "new", "u"]})
    edited = model.edit("k", levels=["u"], add=0.5)
    check_added(model, edited, rows, np.array([0.5, 0, 0, 0.5]))
    edited = model.edit(("a", "k"), levels={"k": ["u"]}, missing=["a"], add=0.5)
    assert edited.identifiability_error() <= UNIQUE


WRONG = {
    "component: features must be names": (("wage",), {"add": 1}),
    "component: must have at most 2 features": ((("age", "income", "town"),), {"add": 1}),
    "between: must meet the values of 'age' that the model knows, from 18 to 89, found (200": (
        ("age",), {"between": (200, 300), "add": 1}),
    "between: the first number must not exceed": (("age",), {"between": (30, 20), "add": 1}),
    "between: must be a pair": (("age",), {"between": 30, "add": 1}),
    "between: 'town' has levels": (("town",), {"between": (1, 2), "add": 1}),
    "between: values of 'age' must be numbers": (("age",), {"between": ("x", 2), "add": 1}),
    "between: values of 'since' must be dates": (("since",), {"between": ("x", None), "add": 1}),
    "between: a component of several features needs a dict": (
        (("age", "income"),), {"between": (1, 2), "add": 1}),
    "between: features must be those of the component": (
        ("age",), {"between": {"income": (1, 2)}, "add": 1}),
    "levels: must be levels of 'town', found 'zz'": (("town",), {"levels": ["zz"], "add": 1}),
    "levels: 'age' has numbers": (("age",), {"levels": [20], "add": 1}),
    "levels: the list is empty": (("town",), {"levels": [], "add": 1}),
    "missing: 'age' had no missing values": (("age",), {"missing": True, "add": 1}),
    "edit: exactly one of": (("age",), {"add": 1, "set": 2}),
    "edit: exactly one of add": (("age",), {}),
    "add: must be a finite number": (("age",), {"add": np.nan}),
    "limit: must be a pair of numbers in order": (("age",), {"limit": (2, 1)}),
    "smooth: must be True, or a share": (("age",), {"smooth": -1}),
    "smooth: the levels of 'town' have no order": (("town",), {"smooth": 0.1}),
    "points: is for numbers, and 'town' has levels": (("town",), {"points": {"a": 1}}),
    "points: a value is listed twice": (("age",), {"points": [(30, 1), (30, 2)]}),
    "shape: a shape needs an order": (("town",), {"shape": "increasing"}),
    "shape: is for the whole feature": (
        ("age",), {"shape": "increasing", "between": (20, 30)}),
    "output: must be one of the model's outputs": (("age",), {"add": 1, "output": "b"}),
    "colour: an edit is one of": (("age",), {"colour": "red"}),
    "why: must be text": (("age",), {"add": 1, "why": 3}),
    "X: the effect of an edit is measured on rows with targets": (("age",), {"add": 1, "y": [1]}),
}  # fmt: skip


@pytest.mark.parametrize("message", WRONG)
def test_wrong_edits_are_refused(message: str, models: dict[int, AnovaModel]) -> None:
    model = models[2]
    old_digest = digest(model)
    component, change = WRONG[message]
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        model.edit(*component, **change)
    assert digest(model) == old_digest
    assert model.edits is None


def test_seconds_of_a_date_are_those_of_the_log(models: dict[int, AnovaModel]) -> None:
    """The log has whole microseconds: what it says is what was done."""
    since = models[2].feature_names.index("since")
    first, _, last = models[2].encoder.axes[1][since].values[:3].tolist()
    edited = models[2].edit("since", between=(first + 3e-7, last - 3e-7), add=1.0)
    assert replay_digest(models[2], edited) == digest(edited)
    assert len(edited.log()) == 1
    with pytest.raises(ValueError, match=r"^between: values of 'since' must be dates, found 1e"):
        models[2].edit("since", between=(None, 1e300), add=1.0)


def replay_digest(model: AnovaModel, edited: AnovaModel) -> str:
    """Digest of a model to which the edits of another are applied as the log has them."""
    for record in edited.log():
        edit = dict(record["edit"])
        model = model.edit(tuple(edit.pop("component")), **edit)
    return digest(model)


def test_each_output_has_its_own_rounding() -> None:
    """One output is flat, and edits of one with small numbers are not lost beside large ones."""
    model = random_model(2, 1, n_outputs=2)
    model = replace(model, output_names=("large", "small"))
    name = model.feature_names[0]
    flat = model.edit(name, flatten=True, output="small")
    assert not flat.tables[0][..., 1].any()
    units = np.array([1e12, 1e-12])
    model = replace(model, tables=tuple(table * units for table in model.tables))
    doubled = model.edit(name, scale=2.0, output="small")
    before, after = (m.tables[0][..., 1] for m in (model, doubled))
    assert np.allclose(after, 2 * before, rtol=1e-9, atol=0)
    assert np.array_equal(doubled.tables[0][..., 0], model.tables[0][..., 0])


def test_only_components_can_be_left_out(models: dict[int, AnovaModel]) -> None:
    with pytest.raises(ValueError, match=r"^without: must be a component of the model"):
        models[2].edit("age", without=True).edit("age", without=True)


EDITS: dict[str, tuple[Any, dict[str, Any]]] = {
    "a range between nodes": ("income", {"between": (0.513, 1.234), "add": 0.2}),
    "levels that share a node": (("town", "age"), {"levels": {"town": ["c"]}, "add": 1.0}),
    "points": ("age", {"points": {20.5: 0.1, 44.0: -0.2}}),
    "smooth": ("since", {"smooth": True}),
    "without": ("grade", {"without": True}),
    "without a pair": (("age", "income"), {"without": True}),
}


@pytest.mark.parametrize("kind", EDITS)
def test_an_edit_leaves_the_remainder_as_it_is(
    kind: str, models: dict[int, AnovaModel], X: pd.DataFrame, tmp_path: Path
) -> None:
    """The raw score changes by the edit of the core, and to undo it gives the old model back."""
    (component, change), rows = EDITS[kind], rows_between(X)
    core, model = models[2], with_remainder(models[2], seed=1)
    edited = model.edit(component, **change)
    expected = core.edit(component, **change).raw_scores(rows) - core.raw_scores(rows)
    assert np.abs(edited.raw_scores(rows) - model.raw_scores(rows) - expected).max() <= EQUAL
    rest = edited.remainder_scores(rows)
    assert np.abs(rest - model.remainder_scores(rows)).max() <= EQUAL
    assert rest.std() > 0.1
    edited.save(tmp_path / "model.tpnn")
    loaded = load(tmp_path / "model.tpnn").model_
    assert np.array_equal(loaded.raw_scores(rows), edited.raw_scores(rows))
    assert digest(loaded.undo()) == digest(model) != digest(core)


def test_the_digest_is_that_of_the_remainder_too(models: dict[int, AnovaModel]) -> None:
    model = with_remainder(models[2])
    assert model.remainder is not None
    others = [model.remainder.scaled(1.5), with_remainder(models[2], seed=1).remainder, None]
    assert len({digest(m) for m in (model, *(replace(model, remainder=r) for r in others))}) == 4
    edited = model.edit("age", add=0.2)
    with pytest.raises(ValueError, match="it was changed without a record"):
        replace(edited, remainder=others[0]).log()


def test_a_feature_that_nothing_depends_on_any_more_is_not_in_the_digest(
    models: dict[int, AnovaModel], tmp_path: Path
) -> None:
    """A file leaves the feature out, and what the trees could have held of it, which is zero."""
    model = with_remainder(models[1], n_trees=1)  # which is a leaf alone, so that all is zero
    names = [names for names in model.component_names if names != ("age",)]
    edited = model.edit("age", without=True)
    assert "age" not in edited.required_features
    assert model.remainder is not None
    assert model.remainder.components.components[0] == (0,) != names
    edited.save(tmp_path / "model.tpnn")
    loaded = load(tmp_path / "model.tpnn").model_
    assert digest(loaded) == digest(edited)
    assert loaded.log() == edited.log()


def test_no_shape_is_promised_of_a_feature_in_the_remainder(models: dict[int, AnovaModel]) -> None:
    """A certificate of the core would be one of a part of the model."""
    model = with_remainder(models[2])
    for promise in (
        lambda: model.edit("income", shape="increasing"),
        lambda: model.certificate("income"),
    ):
        with pytest.raises(ValueError, match=r"'income'. Fit with remainder=False"):
            promise()


def test_an_edit_too_small_for_exact_means_keeps_the_components_unique() -> None:
    """Doubles below 1e-307 have few digits, so their mean along a feature cannot be zero."""
    model = random_model(1, 1, seed=1)
    model = replace(model, tables=tuple(np.zeros_like(table) for table in model.tables))
    edited = model.edit("x0", between=(0.0, None), add=1e-320)
    assert edited.identifiability_error() <= UNIQUE


def test_what_rounding_leaves_of_a_smoothed_feature_is_flattened(
    models: dict[int, AnovaModel],
) -> None:
    """It is small beside the smoothed feature, and large beside the flat one."""
    model = models[1].restrict(["age"])
    smooth = model.edit("age", smooth=1.0).edit("age", scale=1e-6)
    flat = smooth.edit("age", flatten=True)
    assert smooth.identifiability_error() <= UNIQUE
    assert flat.identifiability_error() <= UNIQUE
    assert not flat.tables[0].any()


def test_the_components_of_a_smaller_model_go_by_name_or_place(
    models: dict[int, AnovaModel],
) -> None:
    kept = models[2].restrict(["age", ("income", "age"), 1])
    names = models[2].feature_names
    places = [(0,), (1,), tuple(sorted(map(names.index, ("age", "income"))))]
    assert digest(kept) == digest(models[2].restrict(places))
    with pytest.raises(ValueError, match=r"^components: features must be names or indices of col"):
        models[2].restrict([("aeg",)])
    with pytest.raises(ValueError, match=r"^restrict: must be components of the model and nothing"):
        models[2].restrict([("age", "income", "town")])
