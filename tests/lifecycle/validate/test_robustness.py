"""robustness: what changes of values do, by hand; a worst case that no search breaks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.export.sheets.models import fuzzed_rows, mixed_model, mixed_rows
from tests.lifecycle.test_monitor import additive, rows
from tests.models import random_model, with_remainder
from tpnn import AnovaModel, purify, validate
from tpnn.lifecycle.validate.robustness import (
    attained_moves,
    noise_amounts,
    robustness,
    worst_moves,
)
from tpnn.model.model import column_scores, part_scores, restricted

NEAR = 1e-12


def shaken(
    model: AnovaModel, columns: list[np.ndarray], amounts: dict[int, float], n_tries: int
) -> np.ndarray:
    """Raw scores of rows at corners, on nodes and at random places of their boxes, (tries, ...)."""
    rng, found = np.random.default_rng(0), []
    for _ in range(n_tries):
        moved = list(columns)
        for feature, amount in amounts.items():
            share = rng.choice([-1.0, 0.0, 1.0, 2.0], len(columns[0]))
            share[share == 2] = rng.uniform(-1, 1, (share == 2).sum())
            there = columns[feature] + share * amount
            nodes = model.encoder.axes[1][feature].values
            nearest = nodes[np.abs(there[:, None] - nodes).argmin(1)]
            inside = (np.abs(nearest - columns[feature]) <= amount) & (rng.random(len(there)) < 0.4)
            moved[feature] = np.where(inside, nearest, there)
        parts = part_scores(model, moved).reshape(len(columns[0]), -1, len(model.intercepts))
        found.append(model.intercepts + parts.sum(1))
    return np.array(found)


@pytest.mark.parametrize(("order", "n_outputs"), [(1, 1), (2, 1), (3, 1), (2, 2)])
@pytest.mark.parametrize("has_rest", [False, True])
def test_no_search_breaks_the_bound(order: int, n_outputs: int, has_rest: bool) -> None:
    model = random_model(3, order, seed=order, n_outputs=n_outputs)
    model = with_remainder(model) if has_rest else model
    columns = list(np.random.default_rng(1).normal(size=(3, 20)))
    amounts = {0: 0.4, 1: 0.8, 2: 0.2}
    moves = worst_moves(model, columns, amounts)
    moved = shaken(model, columns, amounts, 200)
    now = shaken(model, columns, {}, 1)[0]
    for sign, bound in ((1, moves.rises.sum(1)), (-1, moves.falls.sum(1))):
        largest = (sign * (moved - now)).max(0)  # (n_rows, n_outputs)
        assert (largest <= bound + NEAR).all()
        for k in range(n_outputs):
            attained = attained_moves(model, columns, amounts, sign, k)
            assert (attained <= bound[:, k] + NEAR).all()
            assert attained.min() >= 0
            if order == 1 and not has_rest:
                assert np.abs(attained - bound[:, k]).max() < NEAR


@pytest.mark.parametrize("order", [1, 2, 3])
def test_every_component_attains_its_worst_case(order: int) -> None:
    """A fine grid of the box finds it up to what lies between two values of the grid."""
    model = random_model(order, order, seed=4)
    numbers, amounts = np.array([0.1, -0.2, 0.3])[:order], {0: 0.5, 1: 0.7, 2: 0.3}
    sides = [np.linspace(x - amounts[j], x + amounts[j], 41) for j, x in enumerate(numbers)]
    grid = [np.ravel(side) for side in np.meshgrid(*sides, indexing="ij")]
    scores, now = column_scores(model, grid), column_scores(model, [*numbers[:, None]])[0]
    moves = worst_moves(model, [*numbers[:, None]], amounts)
    rises, falls = scores.max(0) - now, now - scores.min(0)
    for found, bound in ((rises, moves.rises[0, :, 0]), (falls, moves.falls[0, :, 0])):
        assert (found <= bound + NEAR).all()
        assert np.allclose(found, bound, atol=0.05 * np.ptp(scores))


def test_noise_zero_changes_nothing() -> None:
    model, X = mixed_model(2), fuzzed_rows(mixed_model(2), 60)
    raw = np.zeros(60)
    with pytest.warns(UserWarning, match="fit has not seen"):
        found = robustness(model, X, np.ones(60), raw, task=model.task, noise=0.0)
    noisy = found.changes[found.changes["change"] == "noise"]
    assert len(noisy) == 5
    assert (noisy[["mean_change", "largest_change", "score_change"]] == 0).all(axis=None)
    assert (found.worst_case.filter(regex="mean|largest") == 0).all(axis=None)


def test_changes_are_those_of_changed_tables() -> None:
    """Missing values, values of other rows and noise, made in the table itself."""
    model, X = additive(), rows(np.random.default_rng(0), 80)
    y = model.predict(X)
    found = validate(model, X, y, noise=0.2).robustness
    lines = found.changes.set_index(["change", "feature"])
    assert found.score == "squared_error"
    gone = X.assign(a=np.nan)
    with pytest.warns(UserWarning, match="fit has not seen"):
        moved = model.predict(gone) - y
    line = lines.loc["missing", "a"]
    assert line["mean_change"] == pytest.approx(np.abs(moved).mean())
    assert line["largest_change"] == pytest.approx(np.abs(moved).max())
    assert line["score"] == line["score_change"] == pytest.approx(np.mean(moved**2))
    assert lines.loc[("noise", "a"), "amount"] == pytest.approx(0.2 * 6)
    assert ("noise", "g") not in lines.index
    flipped = X.assign(g=np.where(X["g"] == "u", "v", "u"))
    share = lines.loc[("values of other rows", "g"), "largest_change"]
    assert share == pytest.approx(np.abs(model.predict(flipped) - y).max())
    again = validate(model, X, y, noise=0.2).robustness
    pd.testing.assert_frame_equal(found.changes, again.changes)


def test_noise_has_its_size() -> None:
    """Of a line with slope 1, the mean change is that of the noise: its size times E|N(0, 1)|."""
    model = additive()
    X = rows(np.random.default_rng(0), 4000).assign(a=0.0, b=0.0)
    found = robustness(model, X, np.ones(4000), np.zeros(4000), task=model.task).changes
    change = found.set_index(["change", "feature"]).loc[("noise", "a"), "mean_change"]
    assert change == pytest.approx(0.05 * 6 * np.sqrt(2 / np.pi), rel=0.05)


def test_changes_move_the_remainder_too() -> None:
    whole = with_remainder(random_model(3, 2, seed=1))
    core = restricted(whole, [(0,), (1,), (0, 1)])  # a feature is in the remainder alone
    model = replace(core, remainder=whole.remainder)
    X = np.random.default_rng(0).normal(size=(400, 3))
    y = model.raw_scores(X)
    found = validate(model, X, y, noise=0.3).robustness
    missing = found.changes[found.changes["change"] == "missing"].set_index("feature")
    for feature in range(3):
        without = X.copy()
        without[:, feature] = np.nan
        with pytest.warns(UserWarning, match="missing"):
            change = np.abs(model.raw_scores(without) - y)
        line = missing.loc[f"x{feature}"]
        assert line["mean_change"] == pytest.approx(change.mean())
    assert not found.is_exact
    worst = found.worst_case.set_index("direction")
    split = found.worst_case_components.set_index("component")
    assert (worst["mean_attained"] > 0).all()
    assert (split.loc["remainder", ["rise", "fall"]] > 0).all()
    assert worst.loc["rise", "mean_bound"] == pytest.approx(split["rise"].sum())


def test_rows_outside_are_counted() -> None:
    model = additive()
    X = pd.DataFrame({"a": [-9.0, 9.0, 9.0, 0.0, 3.0], "b": [0.0, 9.0, 0.0, 0.0, np.nan],
                      "g": ["u", "v", "w", "u", "v"]})  # fmt: skip
    with pytest.warns(UserWarning, match="fit has not seen"):
        found = robustness(model, X, np.arange(5.0), np.zeros(5), task=model.task)
    counts = found.extrapolation.set_index("feature").T.to_dict("list")
    assert counts == {"a": [1, 2, 0, 0], "b": [0, 1, 0, 1], "g": [0, 0, 1, 0]}
    assert found.n_outside == 4


def test_the_split_sums_and_decisions_are_kept() -> None:
    model, X = mixed_model(2, "logit"), mixed_rows(50)
    raw = model.raw_scores(X)
    found = robustness(model, X, np.arange(50) % 2, raw, task=model.task, noise=0.005)
    parts = found.worst_case_components[["rise", "fall"]].sum()
    bounds = found.worst_case.set_index("direction")["mean_bound"]
    assert parts.to_numpy() == pytest.approx(bounds.to_numpy(), abs=1e-12)
    assert not found.is_exact
    columns = model.encoder.columns(model.encoder.read(X))
    moved = shaken(model, columns, noise_amounts(model, found.noise), 100)[..., 0]
    flips = ((moved > 0) != (raw > 0)).any(0)
    assert found.decisions_kept is not None
    assert 0 < found.decisions_kept <= 1 - flips.mean()


def test_the_page_says_whether_it_is_exact(tmp_path: Path) -> None:
    for model, words in ((additive(), "some values attain it"),
                         (mixed_model(2, "identity"), "which nothing exceeds")):  # fmt: skip
        X = rows(np.random.default_rng(0), 30) if model.encoder.n_features == 3 else mixed_rows(30)
        found = validate(model, X, model.predict(X))
        page = found.to_html(tmp_path / "page.html").path.read_text("utf-8")
        assert words in page
        assert "<h2>Robustness</h2>" in page
        read = json.loads(json.dumps(found.to_dict()))["robustness"]
        assert read["is_exact"] == ("attain it" in words)
        assert len(read["changes"]) == len(found.robustness.changes)


def test_rows_are_spread_over_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many rows some are taken, the rarest class among them."""
    monkeypatch.setattr("tpnn.lifecycle.validate.robustness.MOST_ROWS", 30)
    monkeypatch.setattr("tpnn.lifecycle.validate.robustness.MOST_WORST_ROWS", 10)
    X = rows(np.random.default_rng(0), 400)
    found = validate(additive("logit"), X, np.arange(400) == 7).robustness
    assert (found.n_rows, found.n_worst_rows) == (30, 10)
    assert np.isfinite(found.changes["score"]).all()


def test_a_peak_between_the_corners_is_found() -> None:
    """The best values of the box are on nodes within it."""
    nodes = {"a": [0, 1, 2], "b": [0, 1, 2]}
    model = purify({("a", "b"): [[0, 0, 0], [0, 5, 0], [0, 0, 0]]}, nodes)
    columns = [np.array([0.9]), np.array([1.2])]
    top = 5 - model.raw_scores({"a": 0.9, "b": 1.2})[0]
    assert worst_moves(model, columns, {0: 0.9, 1: 0.8}).rises.sum() >= top - NEAR
    assert attained_moves(model, columns, {0: 0.9, 1: 0.8}, 1, 0)[0] == pytest.approx(top)
