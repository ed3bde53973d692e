"""monitor: indices by the textbook, exact shifts, alarms at their nominal rate."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.export.sheets.models import mixed_model, mixed_rows
from tests.models import random_model, table_model, with_evidence, with_remainder
from tpnn import AnovaModel, TPNNClassifier, load, monitor, purify
from tpnn.lifecycle.monitor import Shares, shares_of_masses
from tpnn.loss.links import LINKS
from tpnn.model.evidence import Baseline


def additive(link: str = "identity") -> AnovaModel:
    """A model of two numbers and a level, linear between -3 and 3."""
    tables = {"a": [-3.0, 3.0], "b": [-1.5, 1.5], "g": [0.0, 1.0]}
    return purify(tables, {"a": [-3, 3], "b": [-3, 3], "g": ["u", "v"]}, link=link)


def rows(rng: np.random.Generator, n_rows: int) -> pd.DataFrame:
    frame = pd.DataFrame(
        {"a": rng.normal(size=n_rows).clip(-3, 3), "b": rng.uniform(-3, 3, n_rows)}
    )
    return frame.assign(g=rng.choice(["u", "v"], n_rows))


def test_the_index_is_that_of_the_textbook() -> None:
    rng = np.random.default_rng(0)
    old, new = rows(rng, 2000), rows(rng, 1000)
    new["a"] += 0.5
    old.loc[::10, "b"] = np.nan
    found = monitor(table_model(old, 1), old, new).features.set_index("feature")["psi"]
    edges = [-np.inf, *np.quantile(old["a"], np.arange(0.1, 0.95, 0.1)), np.inf]
    p, q = (pd.cut(x, edges).value_counts(normalize=True, sort=False) for x in (old["a"], new["a"]))
    assert found["a"] == pytest.approx(((q - p) * np.log(q / p)).sum())
    p, q = (frame["g"].value_counts(normalize=True).sort_index() for frame in (old, new))
    assert found["g"] == pytest.approx(((q - p) * np.log(q / p)).sum())
    gone = (0.1 - 1e-4) * np.log(0.1 / 1e-4)  # missing values of the reference alone
    assert found["b"] > gone


def test_masses_are_bins_of_the_training_rows() -> None:
    """Scored on its own training rows, a model's masses say that nothing drifted at all."""
    frame = mixed_rows(400)
    model = table_model(frame, 1)
    same = monitor(model, None, frame)
    assert same.features["psi"].abs().max() < 1e-12
    assert same.features["p_value"].min() > 0.999
    assert np.abs(same.components["shift"]).max() < 1e-12
    assert same.alarms == ()


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_shifts_of_components_sum_to_that_of_the_mean_score(n_outputs: int) -> None:
    model, rng = random_model(3, 2, n_outputs=n_outputs), np.random.default_rng(0)
    old, new = rng.normal(size=(200, 3)), rng.normal(0.3, 1, size=(100, 3))
    for reference, before in ((old, model.raw_scores(old).mean(0)), (None, model.intercepts)):
        found = monitor(model, reference, new)
        shift = np.reshape(model.raw_scores(new).mean(0) - before, -1)
        by_output = found.components["shift"].to_numpy().reshape(-1, n_outputs).sum(0)
        assert np.abs(by_output - shift).max() < 1e-12
        assert np.abs(found.score["shift"] - shift).max() < 1e-12
        assert np.allclose(found.score["new"], np.reshape(model.raw_scores(new).mean(0), -1))


TARGETS = {
    "identity": lambda rng, mean: mean + rng.normal(size=len(mean)),
    "logit": lambda rng, mean: rng.random(len(mean)) < mean,
    "log": lambda rng, mean: rng.poisson(mean),
}


@pytest.mark.slow
@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("has_reference", [True, False])
def test_the_remainder_is_one_part_of_the_shift(n_outputs: int, has_reference: bool) -> None:
    model, rng = with_remainder(random_model(3, 2, n_outputs=n_outputs)), np.random.default_rng(0)
    before, after = rng.normal(size=(500, 3)), rng.normal(0.5, 1.0, size=(400, 3))
    found = monitor(model, before if has_reference else None, after)
    mean = model.raw_scores(before).mean(0) if has_reference else model.intercepts
    shift = (model.raw_scores(after).mean(0) - mean).reshape(-1)
    assert np.allclose(found.score["shift"], shift)
    parts = found.components
    assert "remainder" in set(parts["component"])
    by_output = parts.groupby("output")["shift"].sum() if n_outputs > 1 else parts["shift"].sum()
    assert np.allclose(by_output, shift)


@pytest.mark.parametrize("link", TARGETS)
def test_false_alarms_are_as_rare_as_they_should_be(link: str) -> None:
    """Five tests at 0.2 together, 150 times without any change; 0.3 is three errors above it."""
    model, alarms = additive(link), 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        old, new = rows(rng, 400), rows(rng, 300)
        y = TARGETS[link](rng, model.predict(new))
        alarms += bool(monitor(model, old, new, y, false_alarm_rate=0.2).alarms)
    assert 0.08 < alarms / 150 < 0.3


@pytest.mark.slow
def test_false_alarms_from_the_file_alone() -> None:
    """The masses are those of 400 rows, which the provenance says."""
    alarms = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        known = SimpleNamespace(n_rows=400)
        model = replace(table_model(rows(rng, 400), 1), provenance=known)
        alarms += bool(monitor(model, None, rows(rng, 300), false_alarm_rate=0.2).alarms)
    assert 0.08 < alarms / 150 < 0.3


def test_features_that_no_prediction_needs_are_no_alarm() -> None:
    """A feature that has a shape stays in a model without a component of it."""
    rng = np.random.default_rng(1)
    old, new = rows(rng, 1000), rows(rng, 500)
    new["b"] += 2.0
    model = replace(table_model(old, 1).restrict([(0,), (2,)]), shapes={"b": "increasing"})
    for reference in (old, None):
        found = monitor(model, reference, new)
        assert found.features["feature"].tolist() == ["a", "g"]
        assert found.alarms == ()


@pytest.mark.parametrize("reference", ["rows", "file"])
def test_drift_is_found_where_it_is(reference: str) -> None:
    rng = np.random.default_rng(1)
    old, new = rows(rng, 1000), rows(rng, 500)
    new["b"] += 0.6
    model = table_model(old, 1)
    found = monitor(model, old if reference == "rows" else None, new)
    assert "feature b" in found.alarms
    assert not {"feature a", "feature g"} & set(found.alarms)


def test_values_that_were_never_there_are_alarming() -> None:
    rng = np.random.default_rng(1)
    old, new = rows(rng, 1000), rows(rng, 500)
    new.loc[:20, "a"], new.loc[:20, "g"] = np.nan, "new"
    with pytest.warns(UserWarning, match="fit has not seen"):
        found = monitor(table_model(old, 1), None, new)
    assert {"feature a", "feature g"} <= set(found.alarms)


def test_calibration_drift_is_found() -> None:
    rng = np.random.default_rng(0)
    model, X = additive("logit"), rows(rng, 2000)
    for raw in (model.raw_scores(X) + 0.4, 1.5 * model.raw_scores(X)):  # too low, then too flat
        y = rng.random(2000) < 1 / (1 + np.exp(-raw))
        found = monitor(model, X, X, y)
        assert found.alarms == ("calibration mean or slope",)
        assert set(found.scores["score"]) >= {"AUROC", "Calibration slope"}


def test_calibration_of_other_tasks() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 2))
    classes = replace(random_model(2, 1, n_outputs=3), link=LINKS["softmax"], classes=(0, 1, 2))
    labels = (rng.random((1500, 1)) > classes.predict(X).cumsum(1)).sum(1).clip(0, 2)
    assert monitor(classes, X, X, labels).alarms == ()
    assert monitor(classes, X, X, np.where(rng.random(1500) < 0.2, 0, labels)).alarms
    cox = replace(random_model(2, 1), link=LINKS["log"])
    times = rng.exponential(1 / cox.predict(X))
    y = np.column_stack([np.minimum(times, 1.0), times < 1.0])
    grid = np.linspace(0.001, 1.0, 1000)
    cox = with_evidence(cox, baseline=Baseline(grid, np.log(grid)))
    assert monitor(cox, X, X, y).alarms == ()
    assert monitor(cox, X, X, np.column_stack([0.7 * y[:, 0], y[:, 1]])).alarms
    assert len(monitor(with_evidence(cox, baseline=None), X, X, y).calibration) == 0


def test_the_file_is_enough(tmp_path: Any, quick: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    X = rows(rng, 400)
    y = (X["a"] + rng.normal(size=400) > 0).astype(int)
    fitted = TPNNClassifier(**quick).fit(X, y)
    fitted.model_.save(tmp_path / "model.tpnn")
    found = monitor(load(tmp_path / "model.tpnn").model_, None, rows(rng, 200))
    json.dumps(found.to_dict(), default=float)
    assert repr(found).startswith("Drift(")
    assert monitor(fitted, X, X.sample(frac=1, random_state=0), y).features["psi"].max() == 0


def test_sparse_bins_are_joined() -> None:
    """One row in a bin of mass 1e-6 is no drift; the test has enough rows in every bin."""
    found = Shares(np.array([0.5, 0.5 - 1e-6, 1e-6]), np.array([0.5, 0.499, 0.001]), 1000, 1000)
    assert found.p_value() > 0.9
    assert Shares(np.array([1.0]), np.array([1.0]), 10, 10).p_value() == 1.0


def test_bins_of_nodes_hold_tenths_of_the_mass() -> None:
    axis = table_model(pd.DataFrame({"a": np.arange(1000.0)}), 1).encoder.axes[1][0]
    shares = shares_of_masses(axis, np.arange(1000.0), np.inf)
    assert shares.reference[:10].sum() == pytest.approx(1)
    assert np.allclose(shares.reference[:10], 0.1, atol=0.02)
    assert np.allclose(shares.reference, shares.new)


def test_a_rate_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="false_alarm_rate: must be a number above 0 and below 1"):
        monitor(mixed_model(1), None, mixed_rows(10), false_alarm_rate=0.0)


@pytest.mark.parametrize("has_reference", [True, False])
def test_bins_have_the_shares_behind_the_index(has_reference: bool) -> None:
    """Of each sample they add up to 1, in words that differ, and the index is their sum."""
    rng = np.random.default_rng(0)
    old, new = rows(rng, 2000), rows(rng, 1000)
    new["a"] += 0.5
    old.loc[::10, "b"] = np.nan
    found = monitor(table_model(old, 1), old if has_reference else None, new)
    index = found.features.set_index("feature")["psi"]
    for name, frame in found.bins.groupby("feature"):
        p, q = frame["reference"].to_numpy(), frame["new"].to_numpy()
        assert (p.sum(), q.sum()) == (pytest.approx(1), pytest.approx(1))
        assert frame["bin"].is_unique
        p, q = p.clip(1e-4), q.clip(1e-4)
        assert index[name] == pytest.approx(((q - p) * np.log(q / p)).sum(), rel=1e-6)
    levels = found.bins[found.bins["feature"] == "g"].set_index("bin")["new"]
    assert levels.to_dict() == pytest.approx(new["g"].value_counts(normalize=True).to_dict())
    assert "(missing)" in set(found.bins.loc[found.bins["feature"] == "b", "bin"])
    if has_reference:  # no more digits than tell the bins apart
        numbers = re.findall(
            r"[\d.]+", " ".join(found.bins.loc[found.bins["feature"] == "a", "bin"])
        )
        assert max(len(number.replace(".", "")) for number in numbers) <= 4


def test_the_page_begins_with_the_verdict(tmp_path: Path) -> None:
    """And has a picture of the shifts and of each feature, the one that moved most first."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    rng = np.random.default_rng(0)
    old, new = rows(rng, 2000), rows(rng, 1000)
    new["b"] += 0.5
    drift = monitor(additive(), old, new, additive().predict(new) + rng.normal(size=1000))
    page = drift.to_html(tmp_path / "drift.html").path.read_text(encoding="utf-8")
    assert f'<p class="lede">{drift.verdict}</p>' in page
    ranked = drift.features.sort_values("p_value")["feature"].tolist()
    assert ranked[0] == "b"
    assert re.findall(r"<h3>(.*?)</h3>", page) == ["Shift by component", *ranked]
    assert re.findall(r"<h2>(.*?)</h2>", page) == ["Score", "Targets", "Features"]
    assert "&lt; 0.001" in page
    several = random_model(3, 2, n_outputs=2)
    table = rng.normal(size=(200, 3))
    page = monitor(several, table, table + 1).to_html(tmp_path / "two.html").path.read_text()
    assert re.findall(r"<h3>(.*?)</h3>", page)[:2] == list(several.output_names)
