"""Classes: accuracy, log-loss, ROC curves and calibration of predicted probabilities."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.metrics import accuracy_score, auc, log_loss, roc_curve

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.explain.metrics.groups import grouped
from tpnn.explain.metrics.records import Metrics, Roc, Score
from tpnn.loss.losses import LOG_LOSS
from tpnn.model.files import Label

MAX_CURVE_POINTS = 200
CHANCE_AREA = 0.5  # of a constant prediction


def class_metrics(
    codes: IntArray, classes: Sequence[Label], shares: FloatArray, offset: FloatArray
) -> Metrics:
    """Metrics of predicted probabilities.

    Areas need rows of the class and others; they are left out where there are none.

    Parameters
    ----------
    codes : array of shape (n_rows,)
        Number of each row's class.
    classes : sequence of label
        The classes.
    shares : array of shape (n_rows, n_classes)
        Predicted probabilities.
    offset : array of shape (n_rows,)
        Known part of the log-odds, of two classes.
    """
    constant = _constant_shares(codes, shares.shape[1], offset)
    labels = range(len(classes))
    scores = [
        Score(
            "Accuracy",
            float(accuracy_score(codes, shares.argmax(1))),
            float(accuracy_score(codes, constant.argmax(1))),
        ),
        Score(
            "Log-loss",
            float(log_loss(codes, shares, labels=labels)),
            float(log_loss(codes, constant, labels=labels)),
        ),
    ]
    shown = range(1, 2) if len(classes) == 2 else labels
    rocs = [
        roc(str(classes[k]), codes == k, shares[:, k])
        for k in shown
        if 0 < (codes == k).sum() < len(codes)
    ]
    groups = [grouped(str(classes[k]), (codes == k).astype(float), shares[:, k]) for k in shown]
    return Metrics(
        scores=(*scores, *_area_scores(rocs, len(classes))), rocs=tuple(rocs), groups=tuple(groups)
    )


def roc(output: str, is_class: FloatArray, scores: FloatArray) -> Roc:
    """ROC curve of one class, thinned out to ``MAX_CURVE_POINTS`` after it was measured."""
    false_positive, true_positive, _ = roc_curve(is_class, scores)
    kept = np.unique(np.linspace(0, len(false_positive) - 1, MAX_CURVE_POINTS).astype(np.intp))
    return Roc(
        output=output,
        area=float(auc(false_positive, true_positive)),
        ks=float(np.max(true_positive - false_positive)),
        false_positive=false_positive[kept],
        true_positive=true_positive[kept],
    )


def _constant_shares(codes: IntArray, n_classes: int, offset: FloatArray) -> FloatArray:
    """Probabilities (n_rows, n_classes) of the constant that fits best, given the offset."""
    frequencies = np.bincount(codes, minlength=n_classes) / len(codes)
    if n_classes > 2 or not offset.any() or frequencies.max() == 1:
        return np.tile(frequencies, (len(codes), 1))
    target, known = codes[:, None].astype(float), offset[:, None]
    raw = known + LOG_LOSS.start(target, known, np.ones(len(codes)))
    second = LOG_LOSS.link.inverse(raw)[:, 0]
    return np.column_stack([1 - second, second])


def _area_scores(rocs: Sequence[Roc], n_classes: int) -> list[Score]:
    if n_classes == 2:
        return [
            score
            for roc in rocs
            for score in (Score("AUROC", roc.area, CHANCE_AREA), Score("KS", roc.ks, 0.0))
        ]
    return [Score(f"AUROC of {roc.output}", roc.area, CHANCE_AREA) for roc in rocs]
