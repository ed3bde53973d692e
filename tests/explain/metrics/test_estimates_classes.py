"""Classes: areas, distances and calibration by their definitions, beside a constant."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

from tpnn.explain.metrics import Metrics
from tpnn.explain.metrics.curves import MAX_CURVE_POINTS, calibration_groups, roc, roc_curves
from tpnn.explain.metrics.estimates import beside_constant
from tpnn.loss.links import LINKS
from tpnn.loss.objectives import LOG_LOSS, several_classes
from tpnn.model.task import Task


def class_metrics(
    codes: np.ndarray, classes: tuple[int | str, ...], shares: np.ndarray, offset: np.ndarray
) -> Metrics:
    """What is measured of predicted probabilities."""
    is_two = len(classes) == 2
    task = Task(LOG_LOSS if is_two else several_classes(len(classes)), classes=classes)
    raw = np.log(shares[:, 1]) - np.log(shares[:, 0]) if is_two else np.log(shares)
    target = task.targets(np.array(classes)[codes], len(codes))
    return Metrics(
        scores=tuple(beside_constant(task, target, raw, offset)),
        rocs=roc_curves(task, target, raw),
        groups=calibration_groups(task, target, raw, offset),
    )


def guesses(n_rows: int, n_classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Classes, and rounded probabilities with many ties that lean towards them."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_classes, n_rows)
    shares = rng.dirichlet(np.ones(n_classes), n_rows) + 0.5 * np.eye(n_classes)[codes]
    shares = np.round(shares / shares.sum(1, keepdims=True), 1) + 0.01
    return codes, shares / shares.sum(1, keepdims=True)


def test_area_and_ks_by_brute_force() -> None:
    """Area: share of pairs in the right order; KS: largest gap of two distribution functions."""
    codes, shares = guesses(300, 2)
    found = {
        score.name: score for score in class_metrics(codes, (0, 1), shares, np.zeros(300)).scores
    }
    positive, negative = shares[codes == 1, 1], shares[codes == 0, 1]
    gaps = positive[:, None] - negative
    assert found["AUROC"].value == pytest.approx(np.mean((gaps > 0) + 0.5 * (gaps == 0)))
    distances = [(positive > t).mean() - (negative > t).mean() for t in np.unique(shares[:, 1])]
    assert found["KS"].value == pytest.approx(max(distances))
    assert (found["AUROC"].constant, found["KS"].constant) == (0.5, 0.0)


def test_the_constant_is_the_best_one() -> None:
    codes, shares = guesses(200, 2)
    codes[:50] = 1
    scores = {
        score.name: score for score in class_metrics(codes, (0, 1), shares, np.zeros(200)).scores
    }
    levels = np.linspace(0.001, 0.999, 999)
    losses = [log_loss(codes, np.full(200, level)) for level in levels]
    assert scores["log_loss"].constant == pytest.approx(min(losses), abs=1e-5)
    assert scores["Accuracy"].constant == max(codes.mean(), 1 - codes.mean())


def test_the_constant_comes_on_top_of_the_offset() -> None:
    rng = np.random.default_rng(1)
    offset = rng.normal(size=500)
    codes = (rng.random(500) < 1 / (1 + np.exp(-offset - 0.7))).astype(int)
    shares = np.full((500, 2), 0.5)
    scores = {score.name: score for score in class_metrics(codes, (0, 1), shares, offset).scores}
    losses = [log_loss(codes, 1 / (1 + np.exp(-offset - c))) for c in np.linspace(-2, 2, 401)]
    assert scores["log_loss"].constant == pytest.approx(min(losses), abs=1e-4)
    assert scores["log_loss"].constant < log_loss(codes, np.full(500, codes.mean()))


def test_several_classes_are_each_set_against_the_rest() -> None:
    codes, shares = guesses(400, 3)
    found = class_metrics(codes, ("a", "b", "c"), shares, np.zeros(400))
    shares = LINKS["softmax"].inverse(np.log(shares))  # with the ties that rounding leaves
    scores = {score.name: score.value for score in found.scores}
    assert scores["Accuracy"] == accuracy_score(codes, shares.argmax(1))
    assert scores["log_loss"] == pytest.approx(log_loss(codes, shares))
    for k, name in enumerate("abc"):
        assert scores[f"AUROC of {name}"] == pytest.approx(roc_auc_score(codes == k, shares[:, k]))
    assert [roc.output for roc in found.rocs] == ["a", "b", "c"]
    assert [groups.output for groups in found.groups] == ["a", "b", "c"]


def test_a_class_without_rows_has_no_area() -> None:
    codes, shares = guesses(100, 3)
    codes[codes == 2] = 0
    found = class_metrics(codes, ("a", "b", "c"), shares, np.zeros(100))
    assert [roc.output for roc in found.rocs] == ["a", "b"]


def test_a_long_curve_is_thinned_out_but_measured_in_full() -> None:
    rng = np.random.default_rng(0)
    scores = rng.random(20_000)
    is_class = rng.random(20_000) < scores
    found = roc("x", is_class, scores)
    assert len(found.true_positive) <= MAX_CURVE_POINTS
    assert found.area == pytest.approx(roc_auc_score(is_class, scores), abs=1e-12)
    assert (found.false_positive[0], found.false_positive[-1]) == (0.0, 1.0)
    assert np.trapezoid(found.true_positive, found.false_positive) == pytest.approx(
        found.area, abs=1e-3
    )


def test_calibration_groups_hold_every_row_once() -> None:
    codes, shares = guesses(1000, 2)
    (groups,) = class_metrics(codes, (0, 1), shares, np.zeros(1000)).groups
    assert groups.n_rows.sum() == 1000
    assert (np.diff(groups.predicted) > 0).all()
    assert groups.n_rows @ groups.actual == pytest.approx(codes.sum())
    assert groups.n_rows @ groups.predicted == pytest.approx(shares[:, 1].sum())
