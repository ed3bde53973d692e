"""validate: planted weak cells are found, clean data is not accused, differences are exact."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from tests.lifecycle.test_monitor import TARGETS, additive, rows
from tests.models import random_model, with_evidence, with_remainder
from tpnn import TPNNClassifier, monitor, validate
from tpnn.explain.metrics.estimates import estimate
from tpnn.lifecycle.validate.validate import ANNEX_IV, SR_26_2, TRIPOD_AI, weak_slices
from tpnn.loss.links import LINKS
from tpnn.model.evidence import Baseline


@pytest.mark.slow
@pytest.mark.parametrize("link", TARGETS)
def test_clean_data_is_accused_at_the_nominal_rate(link: str) -> None:
    """60 tables from the model itself, at a rate of 0.2; 0.37 is more than three errors above."""
    model, found = additive(link), 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X = rows(rng, 800)
        y = TARGETS[link](rng, model.predict(X))
        found += len(weak_slices(model, X, y, model.raw_scores(X), 0.2)[0]) > 0
    assert found / 60 < 0.37


def planted(kind: str) -> tuple[Any, pd.DataFrame, np.ndarray]:
    """Targets that follow the model except where b is high and g is "u"."""
    rng = np.random.default_rng(0)
    X = rows(rng, 2000)
    weak = (X["b"] > 1.5) & (X["g"] == "u")
    model = additive("logit" if kind == "labels" else "identity")
    mean = model.predict(X)
    if kind == "labels":
        return model, X, np.where(weak, rng.random(2000) < 0.5, rng.random(2000) < mean)
    noise = rng.normal(size=2000)
    wrong = 0.7 * weak if kind == "bias" else 0.0
    return model, X, mean + wrong + noise * np.where(weak & (kind == "noise"), 2.5, 1.0)


@pytest.mark.parametrize("kind", ["labels", "bias", "noise"])
def test_a_planted_weak_cell_is_found_first(kind: str) -> None:
    model, X, y = planted(kind)
    first = validate(model, X, y).slices.iloc[0]
    assert first["slice"].startswith("b: above 1.")
    assert first["slice"].endswith("g: u")
    assert first["wrong"] == ("size of errors" if kind == "noise" else "mean or slope")


def test_a_weak_group_of_missing_values_is_found() -> None:
    rng = np.random.default_rng(0)
    model, X = additive(), rows(rng, 1000)
    y = model.predict(X) + rng.normal(size=1000)
    X.loc[:99, "a"] = np.nan
    y[:100] = 1 + rng.normal(size=100)
    with pytest.warns(UserWarning, match="fit has not seen"):
        found = validate(model, X, y)
    assert "a: missing" in set(found.slices["slice"])


def test_values_that_fit_has_not_seen_are_warned_about_once() -> None:
    rng = np.random.default_rng(0)
    model, X = additive("log"), rows(rng, 400)
    y = rng.poisson(model.predict(X))
    X.loc[:9, "g"] = "new"
    for check in (lambda: validate(model, X, y), lambda: monitor(model, None, X, y)):
        with pytest.warns(UserWarning, match="fit has not seen") as caught:
            check()
        assert len(caught) == 1


def test_differences_of_groups_are_sums_of_components() -> None:
    rng = np.random.default_rng(0)
    model, X = additive("logit"), rows(rng, 500)
    y = rng.random(500) < 0.5
    sex = np.where(X["a"] > 0, "f", "m").astype(object)
    sex[:5], sex[5:9], sex[9:12] = None, np.nan, pd.NA
    found = validate(model, X, y, protected={"sex": sex, "g": X["g"]})
    raw = model.raw_scores(X)
    known = np.array(["(missing)" if k < 12 else label for k, label in enumerate(sex)])
    by_name = found.groups.set_index(["attribute", "group"])
    parts = found.group_components.groupby(["attribute", "group"])["difference"].sum()
    for attribute, labels in (("sex", known), ("g", X["g"])):
        for group in set(labels):
            inside = np.asarray(labels == group)
            gap = raw[inside].mean() - raw[~inside].mean()
            assert by_name.loc[(attribute, group), "difference"] == pytest.approx(gap, abs=1e-12)
            assert parts[attribute, group] == pytest.approx(gap, abs=1e-12)
            assert by_name.loc[(attribute, group), "n_rows"] == inside.sum()
    assert set(validate(model, X, y, protected=["g"]).groups["group"]) == {"u", "v"}
    with pytest.raises(ValueError, match="protected: one label per row is needed"):
        validate(model, X, y, protected={"sex": sex[:-1]})


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_differences_of_groups_have_the_remainder_as_a_part(n_outputs: int, tmp_path: Path) -> None:
    model = with_remainder(random_model(3, 2, n_outputs=n_outputs))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    raw = model.raw_scores(X)
    group = np.where(X[:, 0] > 0, "up", "down")
    found = validate(model, X, raw + rng.normal(size=raw.shape), {"side": group})
    gap = (raw[group == "up"].mean(0) - raw[group == "down"].mean(0)).reshape(-1)
    parts = found.group_components[found.group_components["group"] == "up"]
    of_output = [parts] if n_outputs == 1 else [one for _, one in parts.groupby("output")]
    for one, expected in zip(of_output, gap, strict=True):
        assert one["component"].tolist()[-1] == "remainder"
        assert one["difference"].abs().tolist()[-1] > 0.001
        assert one["difference"].sum() == pytest.approx(expected)
    found.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "Remainder(" in page
    for group in ("up", "down"):  # each unfolds to its largest parts
        parts = found.group_components[found.group_components["group"] == group]
        for _, one in parts.groupby("output" if n_outputs > 1 else "group"):
            largest = one.loc[one["difference"].abs().nlargest(5).index, "component"]
            lines = "</th>.*?<th>".join(name.replace(" x ", " × ") for name in largest)
            assert re.search(f"<summary>side: {group}.*?<th>{lines}</th>", page, re.DOTALL)


def test_intervals_cover_the_truth() -> None:
    """The area of a large sample lies in 95 % of the intervals of small ones."""
    model = additive("logit")
    rng = np.random.default_rng(0)
    X = rows(rng, 200_000)
    truth = roc_auc_score(rng.random(200_000) < model.predict(X), model.raw_scores(X))
    covered = 0
    for _ in range(60):
        Z = rows(rng, 150)
        y = rng.random(150) < model.predict(Z)
        found = {one.name: one.interval() for one in estimate(model.task, y, model.raw_scores(Z))}
        covered += found["AUROC"][0] < truth < found["AUROC"][1]
    assert covered >= 51


def test_calibration_by_decile() -> None:
    rng = np.random.default_rng(0)
    model, X = additive("log"), rows(rng, 1000)
    y = rng.poisson(model.predict(X))
    frame = validate(model, X, y).calibration
    assert frame["n_rows"].sum() == 1000
    assert len(frame) == 10
    total = (frame["actual"] * frame["n_rows"]).sum()
    assert total == pytest.approx(y.sum())
    assert np.allclose(frame["actual_over_expected"], frame["actual"] / frame["predicted"])


def test_every_task(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    classes = replace(random_model(2, 1, n_outputs=3), link=LINKS["softmax"], classes=(0, 1, 2))
    labels = rng.integers(0, 3, 400)
    several = replace(random_model(2, 1, n_outputs=2))
    baseline = Baseline(np.array([0.1, 1.0]), np.array([-2.0, 0.0]))
    cox = with_evidence(replace(random_model(2, 1), link=LINKS["log"]), baseline=baseline)
    times = np.column_stack([rng.exponential(size=400), rng.random(400) < 0.6])
    tasks = {"AUROC of 1": (classes, labels), "R2 of output 1": (several, several.predict(X) + 1),
             "C-index": (cox, times)}  # fmt: skip
    for score, (model, y) in tasks.items():
        found = validate(model, X, y)
        assert score in set(found.scores["score"])
        assert (found.scores["lower"] <= found.scores["value"]).all()
        assert "<h2>Calibration</h2>" in found.to_html(tmp_path / "page.html").path.read_text()


def test_the_document(tmp_path: Path, quick: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    X = rows(rng, 400)
    y = (X["a"] + rng.normal(size=400) > 0).astype(int)
    model = TPNNClassifier(**quick).fit(X[:200], y[:200])
    found = validate(model, X[200:], y[200:], protected=["g"])
    found.to_json(tmp_path / "validation.json")
    read = json.loads((tmp_path / "validation.json").read_text())
    assert read == found.to_dict()
    assert read["facts"]["provenance"]["n_rows"] == 200
    assert set(read["to_write"]["EU AI Act, Annex IV"].values()) == {""}
    page = found.to_html(tmp_path / "validation.html").path.read_text()
    assert page.count("<textarea") == len(ANNEX_IV) + len(SR_26_2) + len(TRIPOD_AI)
    assert "http:" not in page
    assert "https:" not in page
    assert "default-src 'none'; script-src 'sha256-" in page  # nothing else is loaded or runs
    assert page.count("<script") == 1
    assert "random_state" in page
