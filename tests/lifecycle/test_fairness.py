"""Gaps between groups, and the nearest model with smaller ones, found by brute force as well."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from tests.export.sheets.models import mixed_model, mixed_rows
from tests.models import random_model, with_remainder
from tpnn import AnovaModel, fairness
from tpnn.loss.links import LINKS
from tpnn.model.constrain import constrain

X = mixed_rows(600, seed=1)
SEX = np.where(X["count"].to_numpy() + np.random.default_rng(0).normal(0, 4, 600) > 5, "f", "m")
MODEL = mixed_model(2, "logit")
Y = (np.random.default_rng(1).random(600) < MODEL.predict(X)).astype(int)


def gap(model: AnovaModel, rows: Any = X, inside: Any = SEX == "f", offset: Any = None) -> float:
    raw = model.raw_scores(rows, offset)
    raw = raw if offset is None else raw - offset
    return float(raw[inside].mean() - raw[~inside].mean())


def test_ratios_and_differences_are_those_of_the_formulas() -> None:
    found = fairness(MODEL, X, {"sex": SEX}, Y, threshold=0.4)
    line = found.groups.set_index("group").loc["f"]
    mean, inside = MODEL.predict(X), SEX == "f"
    passed = mean < 0.4
    assert line["selection_rate"] == passed[inside].mean()
    ratio = passed[inside].mean() / passed[~inside].mean()
    assert line["adverse_impact_ratio"] == pytest.approx(ratio)
    smd = (mean[inside].mean() - mean[~inside].mean()) / mean.std()
    assert line["standardised_difference"] == pytest.approx(smd)
    assert line["difference"] == pytest.approx(gap(MODEL))
    parts = found.group_components.query("group == 'f'")["difference"]
    assert parts.sum() == pytest.approx(line["difference"])
    wanted = fairness(MODEL, X, {"sex": SEX}, threshold=0.4, favourable="at least")
    rates = wanted.groups["selection_rate"] + found.groups["selection_rate"]
    assert np.allclose(rates, 1)


@pytest.mark.parametrize("has_remainder", [False, True])
def test_the_nearest_model_has_the_gap_that_is_asked_for(has_remainder: bool) -> None:
    model = with_remainder(MODEL) if has_remainder else MODEL
    found = fairness(model, X, {"sex": SEX})
    for wanted in (0.0, -0.1, 0.3):
        near = found.nearest("f", wanted)
        assert gap(near) == pytest.approx(wanted, abs=1e-9)
        assert gap(near) == pytest.approx(-gap(near, inside=SEX == "m"))
        assert near.predict(X).mean() == pytest.approx(model.predict(X).mean())
        assert near.identifiability_error() < 1e-9
    same = found.nearest("f", gap(model))
    assert np.allclose(same.raw_scores(X), model.raw_scores(X), atol=1e-9)


def test_no_other_pure_model_with_that_gap_is_nearer() -> None:
    """Least squares over all values of the components, with both laws as constraints."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(80, 2))
    inside = rows[:, 0] + rng.normal(size=80) > 0.3
    model = fairness(random_model(2, 2), rows, {"a": inside}).model
    near = fairness(model, rows, {"a": inside}).nearest(True, 0.1)
    sizes = [table.size for table in model.tables]

    def split(values: np.ndarray) -> list[np.ndarray]:
        parts = np.split(values, np.cumsum(sizes)[:-1])
        return [part.reshape(t.shape) for part, t in zip(parts, model.tables, strict=True)]

    masses = [np.ones(())] * len(sizes)
    for place, component in enumerate(model.components):
        for axis in model.axes(component):
            masses[place] = np.multiply.outer(masses[place], axis.weights)

    def distance(values: np.ndarray) -> float:
        parts = zip(split(values), masses, strict=True)
        return float(sum((mass * part[..., 0] ** 2).sum() for part, mass in parts))

    def moved(values: np.ndarray) -> float:
        tables = [t + d for t, d in zip(model.tables, split(values), strict=True)]
        return gap(replace(model, tables=tuple(tables)), rows, inside) - 0.1

    def means(values: np.ndarray) -> np.ndarray:
        parts = zip(model.components, split(values), strict=True)
        lines = [
            np.tensordot(part[..., 0], axis.weights, axes=(k, 0)).ravel()
            for s, part in parts for k, axis in enumerate(model.axes(s))
        ]  # fmt: skip
        return np.concatenate(lines)

    # Both constraints are linear: read their matrix off one value at a time, and solve for the
    # least weighted square.
    whole, start = np.eye(sum(sizes)), moved(np.zeros(sum(sizes)))
    matrix = np.array([np.append(means(one), moved(one) - start) for one in whole]).T
    scale = 1 / np.sqrt(np.concatenate([mass.ravel() for mass in masses]))
    wanted = np.append(np.zeros(len(matrix) - 1), -start)
    best = scale * np.linalg.lstsq(matrix * scale, wanted, rcond=1e-10)[0]
    change = [a - b for a, b in zip(near.tables, model.tables, strict=True)]
    found = distance(np.concatenate([part.ravel() for part in change]))
    assert moved(best) == pytest.approx(0, abs=1e-9)
    assert found == pytest.approx(distance(best))
    assert np.abs(means(np.concatenate([part.ravel() for part in change]))).max() < 1e-10


def test_the_curve_is_the_price_of_a_smaller_gap() -> None:
    found = fairness(MODEL, X, {"sex": SEX}, Y)
    curve = found.curve("f", n_steps=5)
    assert curve["gap"].iloc[0] == pytest.approx(gap(MODEL))
    assert curve["gap"].iloc[-1] == 0
    raw = found.nearest("f").raw_scores(X)
    chance = 1 / (1 + np.exp(-raw))
    loss = -np.mean(np.where(Y == 1, np.log(chance), np.log(1 - chance)))
    assert curve["loss"].iloc[-1] == pytest.approx(loss)
    assert curve["auc"].iloc[-1] == pytest.approx(roc_auc_score(Y, raw))
    assert curve["loss"].iloc[-1] > curve["loss"].iloc[0] - 0.02
    ratio = (chance < 0.5)[SEX == "f"].mean() / (chance < 0.5)[SEX == "m"].mean()
    assert curve["adverse_impact_ratio"].iloc[-1] == pytest.approx(ratio)
    assert fairness(MODEL, X, {"sex": SEX}).curve("f", n_steps=2)["loss"].isna().all()


def test_an_offset_is_no_part_of_a_gap_and_shapes_are_kept_or_dropped() -> None:
    years = np.where(SEX == "f", 0.4, -0.4)
    model = replace(mixed_model(1), has_offset=True)
    near = fairness(model, X, {"sex": SEX}, offset=years).nearest("f")
    assert gap(near, offset=years) == pytest.approx(0, abs=1e-9)
    shaped = constrain(mixed_model(1), {"count": "increasing"})
    for wanted in (gap(shaped), -5.0):
        new = fairness(shaped, X, {"sex": SEX}).nearest("f", wanted)
        assert ("count" in new.shapes) == new.certificate("count", "increasing").holds
    assert "count" not in new.shapes


def test_what_cannot_be_measured() -> None:
    found = fairness(MODEL, X.assign(sex=SEX, old=X["count"] > 5), ["sex", "old"])
    assert set(found.groups["attribute"]) == {"sex", "old"}
    with pytest.raises(ValueError, match="attribute: must be one of"):
        found.nearest("f")
    with pytest.raises(ValueError, match="group: must be a group of 'sex'"):
        found.nearest("x", attribute="sex")
    with pytest.raises(ValueError, match="favourable: must be"):
        fairness(MODEL, X, {"sex": SEX}, favourable="high")
    with pytest.raises(ValueError, match="model: gaps are those of one output"):
        fairness(random_model(2, 1, n_outputs=2), np.zeros((2, 2)), {"a": [0, 1]})
    rows = np.random.default_rng(0).normal(size=(60, 2))
    empty = replace(random_model(2, 1).restrict([]), link=LINKS["identity"])
    with pytest.raises(ValueError, match="group: no component of the model tells"):
        fairness(empty, rows, {"a": rows[:, 0] > 0}).nearest(True)
    assert isinstance(found.curve("f", "sex", 2), pd.DataFrame)
