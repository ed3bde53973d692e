"""Scores: a report measures its model as scikit-learn does, or an error says why not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.explain.report.pages import payload
from tests.models import random_model, with_evidence
from tpnn import AnovaModel, TPNNClassifier, TPNNRegressor, TPNNSurvival
from tpnn.explain.metrics import measure
from tpnn.explain.report import write_report


def measured(model: AnovaModel, X: Any, y: Any) -> dict[str, float]:
    return {score.name: score.value for score in measure(model, X, y).scores}


def scores_of_page(path: Path) -> dict[str, float]:
    return {name: value for name, value, _ in payload(path)["scores"]}


def test_scores_are_those_of_scikit_learn(mixed: Any, fast: Any, tmp_path: Path) -> None:
    from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score, roc_curve

    X, y = mixed
    path = tmp_path / "page.html"
    labels = np.where(y > 0, "yes", "no")
    model = TPNNClassifier(**fast).fit(X[100:], labels[100:])
    model.report(path, X[:100], labels[:100], title="Held out")
    share = model.predict_proba(X[:100])
    false, true, _ = roc_curve(labels[:100] == "yes", share[:, 1])
    expected = {
        "Log loss": log_loss(labels[:100], share),
        "Accuracy": model.score(X[:100], labels[:100]),
        "AUROC": roc_auc_score(labels[:100] == "yes", share[:, 1]),
        "KS": max(true - false),
        "Brier score": brier_score_loss(labels[:100] == "yes", share[:, 1]),
    }
    scores = scores_of_page(path)
    assert {name: scores[name] for name in expected} == pytest.approx(expected)
    assert list(scores)[: len(expected)] == list(expected)
    three = np.array(["a", "b", "c"])[np.digitize(y, [-0.5, 0.7])]
    model = TPNNClassifier(**fast).fit(X, three)
    model.report(path, X, three)
    scores = scores_of_page(path)
    assert scores["Log loss"] == pytest.approx(log_loss(three, model.predict_proba(X)))
    with pytest.raises(
        ValueError, match=r"^y: labels must be those of fit, \['a', 'b', 'c'\], found \['d'\]"
    ):
        model.report(path, X, np.full(len(X), "d"))
    with pytest.raises(ValueError, match=r"^X: rows are needed to score targets, found None"):
        model.report(path, y=three)


@pytest.mark.parametrize("labels", [("A", "B"), (0, 1), ("yes ", "no")])
def test_labels_that_fit_has_not_seen(
    labels: tuple[Any, Any], mixed: Any, fast: Any, tmp_path: Path
) -> None:
    X, y = mixed
    model = TPNNClassifier(**{**fast, "order": 1}).fit(X, np.where(y > 0, "yes", "no"))
    with pytest.raises(
        ValueError, match=r"^y: labels must be those of fit, \['no', 'yes'\], found"
    ):
        model.report(tmp_path / "page.html", X, np.where(y > 0, *labels))


def test_held_out_rows_of_one_class(mixed: Any, fast: Any, tmp_path: Path) -> None:
    """What needs both classes is left out; equal numbers are equal labels."""
    X, y = mixed
    model = TPNNClassifier(**{**fast, "order": 1}).fit(X, y > 0)
    positive = X[y > 0]
    model.report(tmp_path / "page.html", positive, np.ones(len(positive)))
    data = payload(tmp_path / "page.html")
    share = model.predict_proba(positive)[:, 1]
    assert scores_of_page(tmp_path / "page.html") == pytest.approx(
        {
            "Log loss": -np.mean(np.log(share)),
            "Accuracy": np.mean(share > 0.5),
            "Brier score": np.mean((1 - share) ** 2),
        }
    )
    assert data["classes"] == ["False", "True"]


def test_targets_of_another_length_or_shape(
    models: dict[str, AnovaModel], mixed: Any, tmp_path: Path
) -> None:
    X, y = mixed
    path = tmp_path / "page.html"
    write_report(models["regression"], path, X, y)
    expected = scores_of_page(path)
    write_report(models["regression"], path, X, y.to_frame())
    assert scores_of_page(path) == expected
    write_report(models["regression"], path, X[:1], y[:1])
    assert "R2" not in scores_of_page(path)
    assert "RMSE" in scores_of_page(path)
    for task in ("regression", "two classes", "quantiles"):
        with pytest.raises(
            ValueError, match=r"^y: one value per row of X is needed, found shape \(499,\) for 500"
        ):
            write_report(models[task], path, X, y[:-1])
    with pytest.raises(ValueError, match=r"^y: targets like those of fit are needed, of shape"):
        write_report(models["regression"], path, X, np.column_stack([y, y]))


def test_survival_is_scored_by_concordance(mixed: Any, fast: Any, tmp_path: Path) -> None:
    """With every form of the target; a model without a baseline uses that of the rows."""
    X, y = mixed
    fields = np.rec.fromarrays([y.to_numpy() > 0, np.exp(y.to_numpy())], names=["event", "time"])
    model = TPNNSurvival(**{**fast, "order": 1}).fit(X, fields)
    path = tmp_path / "page.html"
    for target in (fields, np.column_stack([np.exp(y), y > 0])):
        model.report(path, X, target)
        found = scores_of_page(path)
        assert list(found) == ["Cox loss", "C-index", "Events over expected"]
        assert found["C-index"] == pytest.approx(model.score(X, fields))
    data = payload(path)
    assert data["scored"]
    assert data["hasBaseline"]
    curve = data["survival"][0]
    times = np.linspace(0, fields["time"].max(), len(curve["times"]))
    expected = model.predict_survival(X, times).mean(0)
    assert curve["times"] == pytest.approx(times, rel=1e-4)
    assert np.abs(curve["predicted"] - expected).max() < 1e-4
    without = with_evidence(model.model_, baseline=None)
    write_report(without, path, X, fields)
    found = scores_of_page(path)
    assert list(found) == ["Cox loss", "C-index"]
    assert found["C-index"] == pytest.approx(model.score(X, fields))
    assert not payload(path)["hasBaseline"]
    assert payload(path)["survival"][0]["observed"] == curve["observed"]


@pytest.mark.parametrize(
    ("objective", "name"),
    [
        ("poisson", "Poisson deviance"),
        ("gamma", "Gamma deviance"),
        ({"name": "tweedie", "power": 1.7}, "Tweedie deviance"),
    ],
)
def test_each_loss_of_rates_has_its_own_deviance(
    objective: Any, name: str, mixed: Any, fast: Any, tmp_path: Path
) -> None:
    X, y = mixed
    target = np.exp(y.to_numpy())
    model = TPNNRegressor(**{**fast, "order": 1, "objective": objective}).fit(X, target)
    model.report(tmp_path / "page.html", X, target)
    scores = scores_of_page(tmp_path / "page.html")
    assert name in scores
    share = scores["Share of the deviance explained"]
    assert share == pytest.approx(model.score(X, target))


def test_a_masked_target_is_refused(models: dict[str, AnovaModel], mixed: Any) -> None:
    X, y = mixed
    hidden = np.ma.masked_array(y.to_numpy(), mask=np.arange(len(y)) == 3)
    with pytest.raises(ValueError, match=r"^y: every row needs a value, found 1 masked"):
        measure(models["regression"], X, hidden)


def test_scores_include_the_offset(exposed: Any, tmp_path: Path) -> None:
    from sklearn.metrics import r2_score

    model, X, y, offset = exposed
    model.report(tmp_path / "page.html", X, y, offset=offset)
    data = payload(tmp_path / "page.html")
    expected = r2_score(y, model.predict(X, offset))
    assert expected > 0.8 > 0 > r2_score(y, model.predict(X, 0 * offset))
    assert scores_of_page(tmp_path / "page.html")["R2"] == pytest.approx(expected)
    assert len(data["offsets"]) == len(data["rows"])
    with pytest.raises(ValueError, match=r"^offset: one finite number per row is needed"):
        model.report(tmp_path / "page.html", X, y, offset=offset[:5])


def test_quantiles_are_scored_by_their_mean_pinball_loss(
    models: dict[str, AnovaModel], mixed: Any
) -> None:
    X, y = mixed
    model = models["quantiles"]
    predicted, losses = model.predict(X), []
    for level, column in zip((0.1, 0.5, 0.9), predicted.T, strict=True):
        rest = y - column
        losses.append(np.where(rest > 0, level * rest, (level - 1) * rest).mean())
    found = measured(model, X, y)
    assert found["quantile"] == pytest.approx(np.mean(losses))
    assert found["Share of rows up to quantile 0.9"] == np.mean(y <= predicted[:, 2])


def test_a_model_without_labels_is_scored_by_sorted_ones(
    models: dict[str, AnovaModel], mixed: Any
) -> None:
    """As files of the first versions have them: two classes by their order, several by name."""
    X, y = mixed
    two = replace(models["two classes"], classes=())
    labels = np.where(y > 0, "yes", "no")
    expected = measured(models["two classes"], X, y > 0)
    assert measured(two, X, labels) == pytest.approx(expected)
    three = replace(models["three classes"], classes=())
    named = np.array(["a", "b", "c"])[np.digitize(y, [-0.5, 0.7])]
    expected = measured(models["three classes"], X, named)
    assert measured(three, X, named) == pytest.approx(expected)
    with pytest.raises(ValueError, match=r"^y: labels must be those of fit, 2 classes, found"):
        measured(two, X, named)


def test_several_targets_are_scored_together_and_each() -> None:
    model = random_model(3, 2, n_outputs=2)
    rows = np.random.default_rng(0).normal(size=(40, 3))
    predicted = model.predict(rows)
    found = measured(model, rows, predicted)
    assert found["squared_error"] == 0.0
    assert [found[f"R2 of output {k}"] for k in (0, 1)] == [1.0, 1.0]
    found = measured(model, rows, predicted + np.array([2.0, 4.0]))
    assert found["squared_error"] == pytest.approx((4.0 + 16.0) / 2)
    assert [found[f"RMSE of output {k}"] for k in (0, 1)] == pytest.approx([2.0, 4.0])
    with pytest.raises(ValueError, match=r"of shape \(40, 2\), found shape \(40,\)"):
        measured(model, rows, predicted[:, 0])


def test_reliability_is_that_of_rows_that_bags_held_out(
    mixed: Any, fast: Any, tmp_path: Path
) -> None:
    X, y = mixed
    model = TPNNClassifier(**fast).fit(X, np.where(y > 0, "yes", "no"))
    model.report(tmp_path / "page.html")
    (shown,) = payload(tmp_path / "page.html")["reliability"]
    (found,) = model.model_.evidence.calibration.reliability
    assert shown["output"] == "yes"
    assert shown["actual"] == pytest.approx(found.actual, rel=1e-4)
    assert shown["predicted"] == pytest.approx(found.predicted, rel=1e-4)
    assert sum(shown["masses"]) == pytest.approx(1, rel=1e-3)
