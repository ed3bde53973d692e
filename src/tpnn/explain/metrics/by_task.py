"""Numbers: R2, RMSE and deviance, pinball loss of quantiles, and calibration by decile."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.metrics import (
    accuracy_score,
    auc,
    log_loss,
    mean_pinball_loss,
    mean_tweedie_deviance,
    r2_score,
    roc_curve,
    root_mean_squared_error,
)

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.explain.metrics.records import Metrics, Roc, Score, SurvivalCurve, grouped, unit_of
from tpnn.loss.objectives import LOG_LOSS, quantiles, tweedie
from tpnn.model.codec import Label
from tpnn.model.evidence import Baseline

POISSON_POWER, GAMMA_POWER = 1.0, 2.0
R2_DECIMALS = 12  # rounding of sums is not a score


def number_metrics(
    actual: FloatArray, predicted: FloatArray, offset: FloatArray, outputs: Sequence[str]
) -> Metrics:
    """R2 and RMSE of numbers, and their calibration by decile of the prediction.

    R2 needs two rows; it is left out where there is one.

    Parameters
    ----------
    actual, predicted : array of shape (n_rows,) or (n_rows, n_targets)
        Targets and predictions.
    offset : array of shape (n_rows,)
        Known part of the predictions.
    outputs : sequence of str
        Names of several targets.
    """
    known = offset if actual.ndim == 1 else offset[:, None]
    constant = known + (actual - known).mean(0)
    groups = [grouped(name, actual[:, k], predicted[:, k]) for k, name in enumerate(outputs)] or [
        grouped("", actual, predicted)
    ]
    return Metrics(scores=tuple(_squares(actual, predicted, constant)), groups=tuple(groups))


def rate_metrics(
    actual: FloatArray, predicted: FloatArray, offset: FloatArray, power: float | None
) -> Metrics:
    """Deviance, and actual over expected, of predictions exp(raw score).

    Deciles are those of the prediction per unit of exposure exp(offset).

    Parameters
    ----------
    actual, predicted : array of shape (n_rows,)
        Targets and predictions.
    offset : array of shape (n_rows,)
        Logarithm of the exposure.
    power : float or None
        Power of the Tweedie deviance that was fitted; None, where it is not known, is Poisson.
    """
    asked = POISSON_POWER if power is None else power
    group = grouped("", actual, predicted, np.log(predicted) - offset)
    lowest = actual.min()
    if lowest < 0 or (lowest == 0 and asked >= GAMMA_POWER) or not actual.any():
        constant = np.full_like(actual, actual.mean())
        return Metrics(scores=tuple(_squares(actual, predicted, constant)), groups=(group,))
    known = offset[:, None]
    raw = known + tweedie(asked).start(actual[:, None], known, np.ones(len(actual)))
    constant = np.exp(raw[:, 0])
    both = predicted, constant
    deviances = [mean_tweedie_deviance(actual, p, power=asked) for p in both]
    explained = [1 - deviance / deviances[1] if deviances[1] else 0.0 for deviance in deviances]
    scores = [
        Score(f"Mean {deviance_name(asked)} deviance", *map(float, deviances)),
        Score("Share of the deviance explained", *map(float, explained)),
        Score(
            "Actual over expected", *(float(actual.sum() / p.sum()) for p in (predicted, constant))
        ),
    ]
    squares = _squares(actual, predicted, constant)
    return Metrics(scores=(*scores, *squares), groups=(group,))


def quantile_metrics(
    actual: FloatArray, predicted: FloatArray, offset: FloatArray, levels: Sequence[float]
) -> Metrics:
    """Pinball loss of predicted quantiles (n_rows, n_levels), and the share of rows below each."""
    start = quantiles(levels).start(actual[:, None], offset[:, None], np.ones(len(actual)))
    constant = offset[:, None] + start  # (n_rows, n_levels)
    both = predicted, constant
    losses = [
        float(np.mean([mean_pinball_loss(actual, p[:, k], alpha=a) for k, a in enumerate(levels)]))
        for p in both
    ]
    below = [
        Score(
            f"Share of rows up to quantile {level:g}",
            *(float((actual <= p[:, k]).mean()) for p in both),
        )
        for k, level in enumerate(levels)
    ]
    return Metrics(scores=(Score("Mean pinball loss", *losses), *below))


def _squares(actual: FloatArray, predicted: FloatArray, constant: FloatArray) -> list[Score]:
    """R2 and RMSE in a unit in which squares do not overflow."""
    unit = unit_of(actual, predicted)
    truth, both = actual / unit, (predicted / unit, constant / unit)
    errors = [unit * float(root_mean_squared_error(truth, values)) for values in both]
    rmse = Score("RMSE", *errors)
    if len(truth) == 1:
        return [rmse]
    return [Score("R2", *(round(float(r2_score(truth, p)), R2_DECIMALS) for p in both)), rmse]


def deviance_name(power: float) -> str:
    """Name of the deviance of a Tweedie power."""
    known = {POISSON_POWER: "Poisson", GAMMA_POWER: "gamma"}
    return known.get(power, f"Tweedie (power {power:g})")


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


MAX_TIMES = 100  # of a curve
RISK_THIRDS = ("lowest third of risk", "middle third of risk", "highest third of risk")
MIN_ROWS_OF_A_THIRD = 10
CHANCE_CONCORDANCE = 0.5


def breslow(
    times: FloatArray, events: FloatArray, raw: FloatArray, weights: FloatArray | None = None
) -> Baseline:
    """Breslow's estimate: at each event, deaths over the summed risk of the rows still alive."""
    mass = np.ones_like(times) if weights is None else weights
    order = np.argsort(-times, kind="stable")
    with np.errstate(divide="ignore"):  # weights may be zero
        log_alive = np.logaddexp.accumulate((np.log(mass) + raw)[order])
    event_times = np.unique(times[(events > 0) & (mass > 0)])
    last = np.searchsorted(-times[order], -event_times, side="right") - 1
    deaths = [(mass * events)[times == time].sum() for time in event_times]
    return Baseline(event_times, np.logaddexp.accumulate(np.log(deaths) - log_alive[last]))


def kaplan_meier(times: FloatArray, events: FloatArray, asked: FloatArray) -> FloatArray:
    """Share that survives beyond the times asked for: product of (1 - deaths / alive).

    >>> times, events = np.array([1.0, 2.0, 3.0]), np.array([1.0, 0.0, 1.0])
    >>> kaplan_meier(times, events, np.array([0.5, 1.0, 3.0]))
    array([1.        , 0.66666667, 0.        ])
    """
    moments, number = np.unique(times, return_inverse=True)
    deaths = np.bincount(number, events)
    alive = len(times) - np.searchsorted(np.sort(times), moments)
    lived = np.append(1.0, np.cumprod(1 - deaths / alive))
    survived: FloatArray = lived[np.searchsorted(moments, asked, side="right")]
    return survived


def concordance(times: FloatArray, events: FloatArray, risk: FloatArray) -> float:
    """Share of comparable pairs of rows in which the higher risk has the earlier event.

    A pair is comparable if its earlier time is an event; equal risks count one half.

    >>> concordance(np.array([1.0, 2.0, 3.0]), np.ones(3), np.array([3.0, 2.0, 2.0]))
    0.8333333333333334
    """
    agreed = comparable = 0.0
    for time, own in zip(times[events > 0], risk[events > 0], strict=True):
        later = risk[(times > time) | ((times == time) & (events == 0))]
        comparable += len(later)
        agreed += (later < own).sum() + 0.5 * (later == own).sum()
    return float(agreed / comparable) if comparable else 0.5


def survival_metrics(
    times: FloatArray, events: FloatArray, raw: FloatArray, baseline: Baseline | None
) -> Metrics:
    """Concordance, and survival curves of all rows and of thirds by risk.

    Parameters
    ----------
    times, events : array of shape (n_rows,)
        Time until the event or until censoring, and 1 for an event.
    raw : array of shape (n_rows,)
        Raw scores, the logarithm of the risk.
    baseline : Baseline or None
        Hazard of the training rows; where it is not known, that of these rows is used.
    """
    score = Score("C-index", concordance(times, events, raw), CHANCE_CONCORDANCE)
    if baseline is None and not events.any():
        return Metrics(scores=(score,))
    hazard = breslow(times, events, raw) if baseline is None else baseline
    everyone = np.ones(len(times), bool)
    third = np.searchsorted(np.quantile(raw, [1 / 3, 2 / 3]), raw)
    parts = [("all rows", everyone)]
    if np.bincount(third, minlength=3).min() >= MIN_ROWS_OF_A_THIRD:
        parts += [(name, third == k) for k, name in enumerate(RISK_THIRDS)]
    curves = [_curve(name, times[rows], events[rows], raw[rows], hazard) for name, rows in parts]
    return Metrics(scores=(score,), survival=tuple(curves))


def _curve(
    name: str, times: FloatArray, events: FloatArray, raw: FloatArray, baseline: Baseline
) -> SurvivalCurve:
    asked = np.linspace(0.0, times.max(), MAX_TIMES)
    predicted = baseline.survival(raw, asked).mean(0)
    return SurvivalCurve(name, asked, kaplan_meier(times, events, asked), predicted)
