"""monitor: whether new rows, their scores and their targets are still what they were."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn._utils.files import write_file
from tpnn._utils.rules import SHARE, check_parameters
from tpnn.explain.metrics.estimates import estimate
from tpnn.explain.report import Report
from tpnn.explain.report.static import counted, notebook
from tpnn.export.sheets.card_use import stability_parts
from tpnn.lifecycle.calibration import calibration_tests
from tpnn.lifecycle.merge import as_model
from tpnn.lifecycle.monitor_page import monitor_page
from tpnn.model.model import AnovaModel, part_names, row_scores
from tpnn.table.axis import UNSEEN_WORD, Axis
from tpnn.table.encoder import Feature
from tpnn.table.table import NUMBER, PERIODIC, Table
from tpnn.table.words import MISSING_WORD, column, column_of, node_words, value_word

FALSE_ALARM_RATE = 0.05
N_BINS = 10  # of a feature without levels; missing values have one more
LEAST_ROWS = 5.0  # bins with fewer are joined, because the test needs them
CALIBRATION = ["test", "actual", "expected", "p_value"]
SCORES = ["score", "value", "lower", "upper"]
RULES = {"false_alarm_rate": SHARE._replace(example=FALSE_ALARM_RATE)}


class Shares(NamedTuple):
    """Shares of rows in bins."""

    reference: FloatArray  # (n_bins,)
    new: FloatArray  # (n_bins,)
    n_reference: float  # number of reference rows; infinite if it is not known
    n_new: int  # number of new rows
    words: tuple[str, ...] = ()  # (n_bins,): the bins

    def psi(self) -> float:
        """Return the population stability index, sum_b (q_b - p_b) log(q_b / p_b).

        >>> round(Shares(np.array([0.5, 0.5]), np.array([0.6, 0.4]), 100, 100).psi(), 4)
        0.0405
        """
        return float(stability_parts(self.reference, self.new).sum())

    def p_value(self) -> float:
        """p-value of no drift, by the chi-squared test of two samples.

        Bins with too few rows are joined. A row between two nodes is shared by two bins of masses,
        which makes the test conservative.
        """
        from scipy.stats import chi2

        p, q, pooled = self._without_sparse_bins()
        if len(p) < 2:
            return 1.0
        size = 1 / (1 / self.n_new + 1 / self.n_reference)
        with np.errstate(divide="ignore", invalid="ignore"):
            distances = np.where(p == q, 0.0, (q - p) ** 2 / pooled)
        return float(chi2.sf(size * distances.sum(), len(p) - 1))

    def _without_sparse_bins(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Shares of the reference, of the new rows and of both, in bins with enough rows."""
        p, q = self.reference, self.new
        is_sample = np.isfinite(self.n_reference)
        weight = self.n_new / (self.n_new + self.n_reference) if is_sample else 0.0
        typical = weight * q + (1 - weight) * p if is_sample else (p + q) / 2
        enough = typical * min(self.n_new, self.n_reference) >= LEAST_ROWS
        if not enough.all():
            p, q, typical = (np.append(s[enough], s[~enough].sum()) for s in (p, q, typical))
            if typical[-1] * min(self.n_new, self.n_reference) < LEAST_ROWS and len(p) > 1:
                p, q = (_last_joined(share, int(typical[:-1].argmax())) for share in (p, q))
        return p, q, weight * q + (1 - weight) * p


def _last_joined(shares: FloatArray, target: int) -> FloatArray:
    """Add the last bin to another one."""
    joined = shares[:-1].copy()
    joined[target] += shares[-1]
    return joined


def shares_of_rows(feature: Feature, reference: FloatArray, new: FloatArray) -> Shares:
    """Bins of two samples: levels, or tenths of the reference; missing values have their own.

    Numbers are as the encoder reads them: NaN is missing, inf an unseen level.
    """
    if feature.levels:
        edges = np.arange(len(feature.levels) + 1.0) - 0.5
    else:
        present = reference[~np.isnan(reference)]
        ranks = np.arange(1, N_BINS) / N_BINS
        edges = np.unique(np.quantile(present, ranks)) if len(present) else np.empty(0)
    counts = [_counts(edges, column) for column in (reference, new)]
    p, q = (count / max(count.sum(), 1) for count in counts)
    words = ["", *map(str, feature.levels), UNSEEN_WORD]  # no row is below the first level
    if not feature.levels:
        words = _ranges(feature, edges)
    return Shares(p, q, len(reference), len(new), (*words, MISSING_WORD))


def _ranges(feature: Feature, edges: FloatArray) -> list[str]:
    """Bins between edges in words."""
    ends = _ends(feature, edges.tolist())
    if not ends:
        return ["any value"]
    between = [f"{low} to {high}" for low, high in pairwise(ends)]
    return [f"up to {ends[0]}", *between, f"above {ends[-1]}"]


def _ends(feature: Feature, edges: list[float]) -> list[str]:
    """Edges in words: numbers with as few digits as tell them apart."""
    tries = [column(edges), *(column_of(edges, digits) for digits in range(4, 9))]
    is_number = feature.kind in (NUMBER, PERIODIC)
    distinct = (words for words in tries if is_number and len(set(words)) == len(edges))
    return next(distinct, [value_word(feature, edge) for edge in edges])


def _counts(edges: FloatArray, column: FloatArray) -> FloatArray:
    """Rows up to each edge, beyond the last one, and without a value."""
    missing = np.isnan(column)
    bins = np.searchsorted(edges, column[~missing], side="left")
    return np.append(np.bincount(bins, minlength=len(edges) + 1), missing.sum()).astype(np.float64)


def shares_of_masses(axis: Axis, new: FloatArray, n_reference: float) -> Shares:
    """Bins of nodes: levels, or tenths of the training mass; the masses are the reference.

    A new row gives its mass to the two neighbouring nodes, as a training row does.
    """
    bins = np.arange(axis.n_nodes + 1)
    if axis.levels is None:
        regular = np.minimum((axis.positions[axis.regular] * N_BINS).astype(np.intp), N_BINS - 1)
        bins = np.append(axis.with_missing(regular, N_BINS), N_BINS + axis.has_missing)
    p = np.bincount(bins, np.append(axis.weights, 0.0)).astype(np.float64)
    q = np.bincount(bins, axis.masses_of(new)) / max(len(new), 1)
    nodes = node_words(axis)
    words = [_span(nodes, np.flatnonzero(bins[:-1] == number)) for number in range(len(p) - 1)]
    return Shares(p, q, n_reference, len(new), (*words, UNSEEN_WORD))


def _span(words: Sequence[str], nodes: IntArray) -> str:
    """First and last of some nodes in words; empty without any."""
    ends = [words[node] for node in nodes[[0, -1]]] if len(nodes) else [""]
    return " to ".join(dict.fromkeys(ends))


@dataclass(frozen=True, eq=False, kw_only=True)
class Drift:
    """What ``tpnn.monitor`` found.

    Parameters
    ----------
    features : DataFrame
        For each feature that the model depends on its stability index ``psi``, the ``p_value`` of
        no drift, and ``alarm``.
    bins : DataFrame
        The share of the reference and of the new rows in each bin of each feature.
    components : DataFrame
        For each component, the remainder, and output, the ``shift`` of its mean from the reference
        to the new rows and its ``standard_error``. The shifts sum to that of the mean raw score.
    score : DataFrame
        For each output the mean raw score of the reference and of the new rows, its ``shift``, and
        the ``p_value`` and ``alarm`` of a shift.
    calibration : DataFrame
        For each output, where there are targets: mean target ``actual``, mean prediction
        ``expected``, and the ``p_value`` and ``alarm`` of errors that the model does not
        expect. For survival these are events per row, for quantiles shares of rows below.
    scores : DataFrame
        Where targets were given: scores of the model on the new rows, with ``lower`` and ``upper``
        end of a confidence interval of 95 %.
    alarms : tuple of str
        What is alarming, in words; empty where nothing is.
    false_alarm_rate : float
        Chance of any alarm at all where nothing has changed.
    """

    features: pd.DataFrame
    bins: pd.DataFrame
    components: pd.DataFrame
    score: pd.DataFrame
    calibration: pd.DataFrame
    scores: pd.DataFrame
    alarms: tuple[str, ...]
    false_alarm_rate: float

    def __repr__(self) -> str:
        return f"Drift({'; '.join(self.alarms) if self.alarms else 'no alarm'})"

    @property
    def verdict(self) -> str:
        """What is alarming in a sentence, and else that nothing is."""
        rate = f"the chance of any alarm without a change is {100 * self.false_alarm_rate:g} %"
        if not self.alarms:
            tested = counted(len(self.features), "feature")
            tested += ", the score and the targets" if len(self.calibration) else " and the score"
            return f"No alarm: in {tested} no change is beyond chance; {rate}."
        return f"{counted(len(self.alarms), 'alarm')}: {'; '.join(self.alarms)} ({rate})."

    def _repr_html_(self) -> str:
        """Show the verdict and the features that moved most in a notebook."""
        return notebook(self.verdict, self.features.sort_values("p_value", kind="stable"))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as values that JSON can hold."""
        names = ("features", "bins", "components", "score", "calibration", "scores")
        frames = {name: getattr(self, name).to_dict("records") for name in names}
        return frames | {"alarms": list(self.alarms), "false_alarm_rate": self.false_alarm_rate}

    def to_html(self, path: str | os.PathLike[str]) -> Report:
        """Write one self-contained page: the verdict first, then what moved, drawn."""
        write_file(path, monitor_page(self).encode())
        return Report(Path(path))


def monitor(
    model: Any,
    X_reference: Any,
    X_new: Any,
    y_new: Any = None,
    *,
    offset: Any = None,
    false_alarm_rate: float = FALSE_ALARM_RATE,
) -> Drift:
    """Find out whether new rows, their scores and their targets are still what they were.

    Features are compared in bins, tenths of the reference or levels: by the population stability
    index, and by a chi-squared test. The shift of the mean raw score is split into components,
    exactly. With targets, a score test asks whether they have the mean that the model predicts.
    All tests together raise any false alarm with probability ``false_alarm_rate`` at most (Holm).

    Without reference rows the model's own masses are the reference, so that its file is enough: the
    stability index then uses bins of nodes, and the mean of every component over the reference is
    zero. For main effects that is the mean over the training rows. Means of interactions over these
    rows are not in the file, so the test of the score is about main effects alone.

    Parameters
    ----------
    model : AnovaModel, fitted estimator or loaded model
        The model in use.
    X_reference : table, or None
        Rows of a time when all was well.
    X_new : table
        New rows.
    y_new : array, optional
        Their targets, like those of fit.
    offset : array of shape (n_rows,), optional
        Known part of the raw score of each new row; it matters for targets only.
    false_alarm_rate : float, default=0.05
        Chance of any alarm where nothing has changed.

    Returns
    -------
    Drift
        With ``to_dict()`` and ``to_html(path)``.
    """
    check_parameters({"false_alarm_rate": false_alarm_rate}, RULES)
    frozen = as_model(model)
    new = frozen.encoder.read(X_new)
    reference = None if X_reference is None else frozen.encoder.read(X_reference)
    features, bins = _features(frozen, reference, new)
    components, score = _shifts(frozen, reference, new)
    calibration, scores = _targets(frozen, new, y_new, offset)
    frames = {"feature": features, "score": score, "calibration": calibration}
    p_values = np.concatenate([frame["p_value"].to_numpy(float) for frame in frames.values()])
    is_alarm = holm(p_values, false_alarm_rate)
    alarms, start = [], 0
    for word, frame in frames.items():
        frame["alarm"] = is_alarm[start : start + len(frame)]
        start += len(frame)
        alarms += [f"{word} {name}".strip() for name in frame[frame["alarm"]].iloc[:, 0]]
    return Drift(
        features=features,
        bins=bins,
        components=components,
        score=score,
        calibration=calibration,
        scores=scores,
        alarms=tuple(alarms),
        false_alarm_rate=false_alarm_rate,
    )


def holm(p_values: FloatArray, rate: float) -> Any:
    """Which hypotheses to reject so that any false rejection has probability ``rate`` at most.

    >>> holm(np.array([0.001, 0.06, 0.03, 0.2]), 0.1)
    array([ True, False,  True, False])
    """
    order = np.argsort(p_values)
    limits = rate / (len(p_values) - np.arange(len(p_values)))
    passed = np.logical_and.accumulate(p_values[order] <= limits)
    rejected = np.zeros(len(p_values), bool)
    rejected[order[passed]] = True
    return rejected


def _reference_rows(model: AnovaModel) -> float:
    """Return the number of rows behind the masses, where the model knows it."""
    return np.inf if model.provenance is None else float(model.provenance.n_rows)


def _features(
    model: AnovaModel, reference: Table | None, new: Table
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Stability index and p-value of every feature that the model depends on, and its bins."""
    encoder, names = model.encoder, model.required_features
    shares: list[Shares] = []
    for feature in map(model.feature_names.index, names):
        column = encoder.numbers(new, feature)
        if reference is None:
            axis = encoder.axes[min(encoder.axes)][feature]
            shares.append(shares_of_masses(axis, column, _reference_rows(model)))
        else:
            before = encoder.numbers(reference, feature)
            shares.append(shares_of_rows(encoder.features[feature], before, column))
    features = pd.DataFrame({
        "feature": names,
        "psi": [one.psi() for one in shares],
        "p_value": [one.p_value() for one in shares],
    })  # fmt: skip
    lines = [
        (name, *bin_)
        for name, one in zip(names, shares, strict=True)
        for bin_ in zip(one.words, one.reference, one.new, strict=True)
        if bin_[1] or bin_[2]
    ]
    return features, pd.DataFrame(lines, columns=["feature", "bin", "reference", "new"])


def _shifts(
    model: AnovaModel, X_reference: Table | None, X_new: Table
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Shift of each component's mean, and of the mean raw score."""
    new = row_scores(model, X_new)
    shape = (1, *new.shape[1:])
    reference = np.zeros(shape) if X_reference is None else row_scores(model, X_reference)
    n_reference = _reference_rows(model) if X_reference is None else len(reference)
    spread = _squares(new) if X_reference is None else _squares(reference)
    shift = new.mean(0) - reference.mean(0)  # (n_components, n_outputs)
    errors = np.sqrt(_squares(new) / len(new) + spread / n_reference)
    outputs = model.output_names or ("",)
    lines = [
        (name, output, shift[k, o], errors[k, o])
        for k, name in enumerate(part_names(model))
        for o, output in enumerate(outputs)
    ]
    components = pd.DataFrame(lines, columns=["component", "output", "shift", "standard_error"])
    tested = [X_reference is not None] * new.shape[1]
    tested[: len(model.components)] = [any(tested) or len(s) == 1 for s in model.components]
    before = model.intercepts + reference.mean(0).sum(0)
    score = pd.DataFrame({
        "output": outputs,
        "reference": before,
        "new": before + shift.sum(0),
        "shift": shift.sum(0),
        "p_value": _mean_p_values(new[:, tested].sum(1), reference[:, tested].sum(1), n_reference),
    })  # fmt: skip
    return (components if model.output_names else components.drop(columns="output")), score


def _squares(scores: FloatArray) -> FloatArray:
    """Variance over rows, zero where there is one only."""
    return scores.var(0, ddof=1) if len(scores) > 1 else np.zeros(scores.shape[1:])


def _mean_p_values(new: FloatArray, reference: FloatArray, n_reference: float) -> FloatArray:
    """Two-sided p-values of equal means, for each output, (n_outputs,)."""
    from scipy.special import ndtr

    spread = _squares(reference) if len(reference) > 1 else _squares(new)
    error = np.sqrt(_squares(new) / len(new) + spread / n_reference)
    shift = np.abs(new.mean(0) - reference.mean(0))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(shift > 0, shift / error, 0.0)
    return np.asarray(2 * ndtr(-ratio))


def _targets(model: AnovaModel, X: Any, y: Any, offset: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Test of calibration, and scores with intervals; empty without targets."""
    if y is None:
        return pd.DataFrame(columns=CALIBRATION), pd.DataFrame(columns=SCORES)
    raw = model.raw_scores(X, offset)
    task = model.task.told(y)
    tests = calibration_tests(task, task.targets(y, len(raw)), raw)
    lines = [(one.name, *one.means(), one.p_value()) for one in tests]
    scores = [(one.name, one.value, *one.interval()) for one in estimate(task, y, raw)]
    return pd.DataFrame(lines, columns=CALIBRATION), pd.DataFrame(scores, columns=SCORES)
