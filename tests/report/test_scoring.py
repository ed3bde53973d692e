"""Scoring: the scores of a report are those of scikit-learn, or an error says why not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models import random_model
from tests.report.pages import payload
from tpnn import AnovaModel, TPNNClassifier, TPNNSurvival
from tpnn.report import write_report
from tpnn.report.scoring import held_out_scores


def test_scores_are_those_of_scikit_learn(mixed: Any, fast: Any, tmp_path: Path) -> None:
    from sklearn.metrics import log_loss, roc_auc_score

    X, y = mixed
    path = tmp_path / "page.html"
    labels = np.where(y > 0, "yes", "no")
    model = TPNNClassifier(**fast).fit(X[100:], labels[100:])
    model.report(path, X[:100], labels[:100], title="Held out")
    share = model.predict_proba(X[:100])
    assert payload(path)["scores"] == pytest.approx(
        {
            "Accuracy": model.score(X[:100], labels[:100]),
            "Log-loss": log_loss(labels[:100], share),
            "AUROC": roc_auc_score(labels[:100] == "yes", share[:, 1]),
        }
    )
    three = np.array(["a", "b", "c"])[np.digitize(y, [-0.5, 0.7])]
    model = TPNNClassifier(**fast).fit(X, three)
    model.report(path, X, three)
    scores = payload(path)["scores"]
    assert scores["Log-loss"] == pytest.approx(log_loss(three, model.predict_proba(X)))
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
    assert data["scores"] == pytest.approx(
        {"Accuracy": np.mean(share > 0.5), "Log-loss": -np.mean(np.log(share))}
    )
    assert data["classes"] == ["False", "True"]


def test_targets_of_another_length_or_shape(
    models: dict[str, AnovaModel], mixed: Any, tmp_path: Path
) -> None:
    X, y = mixed
    path = tmp_path / "page.html"
    write_report(models["regression"], path, X, y)
    expected = payload(path)["scores"]
    write_report(models["regression"], path, X, y.to_frame())
    assert payload(path)["scores"] == expected
    write_report(models["regression"], path, X[:1], y[:1])
    assert set(payload(path)["scores"]) == {"RMSE"}
    for task in ("regression", "two classes", "quantiles"):
        with pytest.raises(
            ValueError, match=r"^y: one value per row of X is needed, found shape \(499,\) for 500"
        ):
            write_report(models[task], path, X, y[:-1])
    with pytest.raises(ValueError, match=r"^y: targets like those of fit are needed, of shape"):
        write_report(models["regression"], path, X, np.column_stack([y, y]))


def test_survival_is_shown_without_scores(mixed: Any, fast: Any, tmp_path: Path) -> None:
    X, y = mixed
    fields = np.rec.fromarrays([y.to_numpy() > 0, np.exp(y.to_numpy())], names=["event", "time"])
    model = TPNNSurvival(**{**fast, "order": 1}).fit(X, fields)
    for target in (fields, np.column_stack([np.exp(y), y > 0])):
        model.report(tmp_path / "page.html", X, target)
        assert payload(tmp_path / "page.html")["scores"] == {}


def test_scores_include_the_offset(exposed: Any, tmp_path: Path) -> None:
    from sklearn.metrics import r2_score

    model, X, y, offset = exposed
    model.report(tmp_path / "page.html", X, y, offset=offset)
    data = payload(tmp_path / "page.html")
    expected = r2_score(y, model.predict(X, offset))
    assert expected > 0.8 > 0 > r2_score(y, model.predict(X, 0 * offset))
    assert data["scores"]["R2"] == pytest.approx(expected)
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
    assert held_out_scores(model, X, y) == pytest.approx({"Mean pinball loss": np.mean(losses)})


def test_a_model_without_labels_is_scored_by_sorted_ones(
    models: dict[str, AnovaModel], mixed: Any
) -> None:
    """As files of the first versions have them: two classes by their order, several by name."""
    X, y = mixed
    two = replace(models["two classes"], classes=())
    labels = np.where(y > 0, "yes", "no")
    expected = held_out_scores(models["two classes"], X, y > 0)
    assert held_out_scores(two, X, labels) == pytest.approx(expected)
    three = replace(models["three classes"], classes=())
    named = np.array(["a", "b", "c"])[np.digitize(y, [-0.5, 0.7])]
    expected = held_out_scores(models["three classes"], X, named)
    assert held_out_scores(three, X, named) == pytest.approx(expected)
    with pytest.raises(ValueError, match=r"^y: labels must be those of fit, 2 classes, found"):
        held_out_scores(two, X, named)


def test_several_targets_are_scored_together() -> None:
    model = random_model(3, 2, n_outputs=2)
    rows = np.random.default_rng(0).normal(size=(40, 3))
    predicted = model.predict(rows)
    assert held_out_scores(model, rows, predicted) == pytest.approx({"R2": 1.0, "RMSE": 0.0})
    assert held_out_scores(model, rows, predicted + 2.0)["RMSE"] == pytest.approx(2.0)
    with pytest.raises(ValueError, match=r"of shape \(40, 2\), found shape \(40,\)"):
        held_out_scores(model, rows, predicted[:, 0])
