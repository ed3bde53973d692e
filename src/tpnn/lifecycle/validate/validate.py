"""validate: discrimination, calibration, weak slices, robustness and groups of a model.

Slices are cells of one or two features in which the model is wrong, searched exhaustively. Every
cell with enough rows is tested: whether its targets have the mean that the model predicts, at
the right slope, and, where targets are numbers, whether errors are larger than elsewhere. Holm's
method over all tests keeps the chance of any false finding at the rate that is asked for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
import pandas as pd

from tpnn import __version__
from tpnn._utils.arrays import BoolArray, FloatArray, IntArray
from tpnn._utils.files import write_file
from tpnn._utils.rules import Rule, check_parameters, is_not_negative
from tpnn.explain.metrics import measure
from tpnn.explain.metrics.curves import score_words
from tpnn.explain.metrics.estimates import estimate, with_power
from tpnn.explain.report.static import counted, notebook
from tpnn.explain.report.writing import Report, finite, records
from tpnn.export.sheets.rating import RatingTables
from tpnn.export.sheets.scorecard import ScoreCard
from tpnn.lifecycle.calibration import calibration_tests
from tpnn.lifecycle.merge import as_model
from tpnn.lifecycle.monitor import FALSE_ALARM_RATE, RULES, holm
from tpnn.lifecycle.validate.challenger import Challenge, challenged
from tpnn.lifecycle.validate.robustness import NOISE, Robustness, robustness
from tpnn.lifecycle.validate.validation_page import (
    ANNEX_IV,
    SR_26_2,
    TRIPOD_AI,
    validation_page,
)
from tpnn.model.edit_log import review_words
from tpnn.model.model import AnovaModel, part_names, part_scores
from tpnn.model.task import Task
from tpnn.table.encoder import Feature
from tpnn.table.table import Table
from tpnn.table.words import MISSING_WORD, column, value_word

N_BINS = 4  # of a feature without levels
MOST_LEVELS = 12  # that have a slice each; rarer ones share one
LEAST_ROWS = 50  # of a slice, and of its complement
MISSING, OTHER = "missing", "other levels"
SIZE_OF_ERRORS = "size of errors"
COLUMNS = ["slice", "n_rows", "wrong", "actual", "expected", "p_value"]


def weak_slices(
    model: AnovaModel, X: Any, y: Any, raw: FloatArray, rate: float
) -> tuple[pd.DataFrame, int]:
    """Slices in which the model is wrong, most certain first, and how many were tested.

    ``raw`` contains the offset. ``rate`` is the chance of any finding if the model is right
    everywhere.
    """
    task = model.task.told(y)
    target = task.targets(y, len(raw))
    tests, sizes = calibration_tests(task, target, raw), _error_sizes(task, target, raw)
    lines = []
    for name, rows in _slices(model, X):
        start = name, int(rows.sum())
        lines += [(*start, test.name, *test.means(rows), test.p_value(rows)) for test in tests]
        if sizes is not None:
            both = sizes[rows], sizes[~rows]
            means = ((side**2).mean() for side in both)
            lines.append((*start, SIZE_OF_ERRORS, *means, _larger(*both)))
    frame = pd.DataFrame(lines, columns=COLUMNS)
    found = frame[holm(frame["p_value"].to_numpy(float), rate)]
    return found.sort_values("p_value", kind="stable").reset_index(drop=True), len(frame)


def _error_sizes(task: Task, target: FloatArray, raw: FloatArray) -> FloatArray | None:
    """Roots of absolute errors of numbers, which are not far from normal; None for other tasks."""
    if task.kind != "numbers" or raw.ndim > 1:
        return None
    return np.asarray(np.sqrt(np.abs(target[:, 0] - raw)))


def _larger(inside: FloatArray, outside: FloatArray) -> float:
    """Chance that means differ so much in this direction, by Welch's test."""
    from scipy.stats import ttest_ind

    p_value = ttest_ind(inside, outside, equal_var=False, alternative="greater").pvalue
    return 1.0 if np.isnan(p_value) else float(p_value)


def _slices(model: AnovaModel, X: Any) -> Iterator[tuple[str, BoolArray]]:
    """Every slice of one and of two features with enough rows, and enough outside."""
    table = model.encoder.read(X)
    binned = []
    for number, feature in enumerate(model.encoder.features):
        codes, words = _binned(feature, model.encoder.numbers(table, number))
        binned.append((codes, [f"{model.feature_names[number]}: {word}" for word in words]))
    sets: list[Sequence[tuple[IntArray, list[str]]]] = [[one] for one in binned]
    sets += list(combinations(binned, 2))
    for chosen in sets:
        shape = [len(words) for _, words in chosen]
        cells = np.ravel_multi_index(tuple(codes for codes, _ in chosen), shape)
        counts = np.bincount(cells, minlength=int(np.prod(shape)))
        wanted = (counts >= LEAST_ROWS) & (len(cells) - counts >= LEAST_ROWS)
        for cell in np.flatnonzero(wanted):
            bins = np.unravel_index(cell, shape)
            names = [words[code] for (_, words), code in zip(chosen, bins, strict=True)]
            yield ", ".join(names), cells == cell


def _binned(feature: Feature, column: FloatArray) -> tuple[IntArray, list[str]]:
    """Bin of each row, and the bins in words."""
    finite = np.isfinite(column)
    if feature.levels:
        counts = np.bincount(column[finite].astype(np.intp), minlength=len(feature.levels))
        shown = np.argsort(-counts, kind="stable")[:MOST_LEVELS]
        code_of = np.full(len(feature.levels), len(shown))
        code_of[shown] = np.arange(len(shown))
        codes = np.where(finite, code_of[np.where(finite, column, 0).astype(np.intp)], len(shown))
        words = [*(str(feature.levels[level]) for level in shown), OTHER, MISSING]
    else:
        ranks = np.arange(1, N_BINS) / N_BINS
        edges = np.unique(np.quantile(column[finite], ranks)) if finite.any() else np.empty(0)
        codes = np.searchsorted(edges, np.where(finite, column, 0.0), side="left")
        texts = [value_word(feature, edge) for edge in edges]
        middle = [f"{low} to {high}" for low, high in pairwise(texts)]
        words = [f"up to {texts[0]}", *middle, f"above {texts[-1]}"] if texts else ["all"]
        words = [*words, MISSING]
    return np.where(np.isnan(column), len(words) - 1, codes), words


NOISE_RULES = {"noise": Rule("a finite number of at least 0", is_not_negative, NOISE)}


class ValidationSettings(TypedDict, total=False):
    """Settings of a validation that have a usual value."""

    false_alarm_rate: float
    noise: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Validation:
    """What ``tpnn.validate`` measured.

    Parameters
    ----------
    scores : DataFrame
        Discrimination and calibration by task: ``value``, ``standard_error``, and the ends
        ``lower`` and ``upper`` of a confidence interval of 95 %.
    calibration : DataFrame
        Mean prediction and mean target of about ten groups of rows, from the smallest to the
        largest prediction, and ``actual_over_expected``. For survival, the share that survives as
        observed and as predicted, at ten times.
    slices : DataFrame
        Slices of one or two features in which the model is wrong beyond chance: mean target
        ``actual`` and mean prediction ``expected``, or the mean size of errors inside and outside.
        For survival these are events per row, for quantiles shares of rows below.
    n_slices : int
        How many tests the search for them made.
    robustness : Robustness
        How predictions change with the values of rows: noise, permutation, missing values,
        values that fit has not seen, and the worst case.
    groups : DataFrame
        For each group of a protected attribute: number of rows, mean prediction, and
        ``difference`` of its mean raw score from that of all other rows.
    group_components : DataFrame
        These differences split into components and the remainder, which sum to them.
    facts : dict
        Rows, date, version, components, settings and provenance.
    false_alarm_rate : float
        Chance of any weak slice where the model is right everywhere.
    sheets : dict of str to DataFrame
        Of a score card its points with counts and its cut-offs, of rating tables all tables and the
        steps to them; empty for other models.
    challenge : Challenge, optional
        The model beside its challenger: ``scores``, ``about`` and ``price``, a sentence.
    """

    scores: pd.DataFrame
    calibration: pd.DataFrame
    slices: pd.DataFrame
    n_slices: int
    robustness: Robustness
    groups: pd.DataFrame
    group_components: pd.DataFrame
    facts: Mapping[str, Any]
    false_alarm_rate: float
    sheets: Mapping[str, pd.DataFrame]
    challenge: Challenge | None = None

    def __repr__(self) -> str:
        return f"Validation({self.facts['rows']} rows, {len(self.slices)} weak slices)"

    @property
    def verdict(self) -> str:
        """The validation in a sentence: the first score, and whether any slice is wrong."""
        words = f"{len(self.slices)} weak slices"
        if len(self.slices) < 2:
            words = "one weak slice" if len(self.slices) else "no weak slice"
        words += f" in {counted(self.n_slices, 'test')}"
        if len(self.slices):
            words += f", first of all {self.slices.iloc[0]['slice']}"
        if not len(self.scores):
            return f"{words[0].upper()}{words[1:]}."
        score = self.scores.iloc[0]
        value, low, high = column([score["value"], score["lower"], score["upper"]])
        rows = counted(self.facts["rows"], "row")
        return f"{score_words(score['score'])} {value} ({low} to {high}) on {rows}; {words}."

    def _repr_html_(self) -> str:
        """Show the verdict and the scores in a notebook."""
        return notebook(self.verdict, self.scores)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as values that JSON can hold, with empty fields for people."""
        frames = ("scores", "calibration", "slices", "groups", "group_components")
        tables = {name: records(getattr(self, name)) for name in frames}
        fields = {"EU AI Act, Annex IV": ANNEX_IV, "SR 26-2": SR_26_2, "TRIPOD+AI": TRIPOD_AI}
        empty = {name: dict.fromkeys(headings, "") for name, headings in fields.items()}
        rest = {"n_slices": self.n_slices, "false_alarm_rate": self.false_alarm_rate,
                "robustness": self.robustness.to_dict()}  # fmt: skip
        if self.challenge is not None:
            rest["challenger"] = {"about": self.challenge.about, "price": self.challenge.price,
                                  "scores": records(self.challenge.scores)}  # fmt: skip
        rest["sheets"] = {name: records(frame) for name, frame in self.sheets.items()}
        return {"facts": finite(dict(self.facts)), **tables, **rest, "to_write": empty}

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write ``to_dict()`` to a file."""
        write_file(path, json.dumps(self.to_dict(), indent=1).encode())

    def to_html(self, path: str | os.PathLike[str]) -> Report:
        """Write one self-contained page that can be filed."""
        write_file(path, validation_page(self).encode())
        return Report(Path(path))


def validate(
    model: Any,
    X: Any,
    y: Any,
    protected: Any = None,
    *,
    offset: Any = None,
    power: float | None = None,
    challenger: Any = None,
    **settings: Unpack[ValidationSettings],
) -> Validation:
    """Measure what a validator asks of a model, on rows that it has not seen.

    Parameters
    ----------
    model : AnovaModel, fitted estimator, loaded model, score card or rating tables
        The model. A card and a tariff are judged by their own scores, and are part of the report.
    X, y : table and targets
        Rows that it has not seen.
    protected : list of str, or dict from str to array of shape (n_rows,), optional
        Protected attributes: columns of X, which need not be features of the model, or labels of
        each row by the attribute's name.
    offset : array of shape (n_rows,), optional
        Known part of the raw score of each row.
    power : float, optional
        Score by the Tweedie deviance of this power instead of the loss of the fit.
    challenger : True, model, function or array of shape (n_rows,), optional
        A model that need not be readable, or its predictions, to state the price of readability.
        True is gradient boosting by scikit-learn, fitted to the rows of ``model`` if that is an
        estimator that was fitted in this process, else to four fifths of X at a time.
    **settings
        ``false_alarm_rate`` (0.05) is the chance of any weak slice where the model is right
        everywhere. ``noise`` (0.05) is the standard deviation of the noise that is added to
        numbers, and how far each of them moves in the worst case, as a share of the distance from
        the lower to the upper tenth of its training rows.

    Returns
    -------
    Validation
        With ``to_dict()``, ``to_json(path)`` and ``to_html(path)``.
    """
    noise, rate = settings.pop("noise", NOISE), settings.pop("false_alarm_rate", FALSE_ALARM_RATE)
    if settings:
        raise TypeError(f"validate: there is no argument {next(iter(settings))!r}. Leave it out.")
    check_parameters({"noise": noise, "false_alarm_rate": rate}, RULES | NOISE_RULES)
    frozen = as_model(model)
    table = frozen.encoder.read(X)
    # Points of rows tie, and the sum of the card's components would break ties by rounding.
    is_card = isinstance(model, ScoreCard)
    raw = model.log_odds(table) if is_card else frozen.raw_scores(table, offset)
    task = with_power(frozen.task, power).told(y)
    slices, n_slices = weak_slices(frozen, table, y, raw, rate)
    attributes = attributes_of(X, protected, len(raw))
    groups, parts = group_differences(frozen, table, raw, attributes)
    return Validation(
        scores=_scores(task, y, raw),
        calibration=_calibration(frozen, table, y, offset, power),
        slices=slices,
        n_slices=n_slices,
        robustness=robustness(frozen, table, y, raw, task=task, noise=noise),
        groups=groups,
        group_components=parts,
        facts=_facts(frozen, len(raw)),
        false_alarm_rate=rate,
        sheets=_sheets(model, X, y),
        challenge=challenged(model, frozen, X, y, offset, power, challenger),
    )


def _sheets(model: Any, X: Any, y: Any) -> dict[str, pd.DataFrame]:
    """Tables of a score card or a tariff."""
    if isinstance(model, ScoreCard):
        return {"Score card": model.to_frame(X, y), "Cut-offs": model.cutoffs(X, y)}
    if isinstance(model, RatingTables):
        return {"Steps": model.steps, **model.frames}
    return {}


def _scores(task: Task, y: Any, raw: FloatArray) -> pd.DataFrame:
    estimates = estimate(task, y, raw)
    lines = [(one.name, one.value, one.standard_error, *one.interval()) for one in estimates]
    return pd.DataFrame(lines, columns=["score", "value", "standard_error", "lower", "upper"])


def _calibration(
    model: AnovaModel, X: Any, y: Any, offset: Any, power: float | None
) -> pd.DataFrame:
    metrics = measure(model, X, y, offset, power=power)
    frames = []
    for group in metrics.groups:
        frame = pd.DataFrame(
            {"output": group.output, "n_rows": group.n_rows, "predicted": group.predicted,
             "actual": group.actual, "actual_over_expected": group.actual / group.predicted}
        )  # fmt: skip
        frames.append(frame)
    for curve in metrics.survival:
        shown = np.linspace(0, len(curve.times) - 1, 10).astype(int)
        frame = pd.DataFrame(
            {"output": curve.rows, "time": curve.times[shown],
             "predicted": curve.predicted[shown], "actual": curve.observed[shown]}
        )  # fmt: skip
        frames.append(frame)
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _facts(model: AnovaModel, n_rows: int) -> dict[str, Any]:
    provenance = {} if model.provenance is None else model.provenance.as_dict()
    return {
        "rows": n_rows,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "version": __version__,
        "features": list(model.required_features),
        "components": [" x ".join(names) for names in model.component_names],
        "remainder": "none" if model.remainder is None else repr(model.remainder),
        "link": model.link.name,
        "identifiability_error": model.identifiability_error(),
        "reviews": [list(review) for review in review_words(model)],
        "provenance": provenance,
    }


def group_differences(
    model: AnovaModel, X: Table, raw: FloatArray, attributes: Mapping[str, Any]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Difference of each group's mean raw score from that of all other rows, and its parts."""
    n_rows, outputs = len(raw), model.output_names or ("",)
    names, columns = part_names(model), model.encoder.columns(model.encoder.read(X))
    scores = part_scores(model, columns).reshape(n_rows, len(names), len(outputs))
    means = model.link.inverse(raw).reshape(n_rows, -1)
    lines, by_component = [], []
    for attribute, labels in attributes.items():
        for label in sorted(set(labels.tolist()), key=str):
            inside = labels == label
            if inside.all():
                continue
            gap = scores[inside].mean(0) - scores[~inside].mean(0)  # (n_parts, n_outputs)
            for k, output in enumerate(outputs):
                key = {"attribute": attribute, "group": str(label), "output": output}
                lines.append(key | {
                    "n_rows": int(inside.sum()),
                    "mean_prediction": float(means[inside, k].mean()),
                    "difference": float(gap[:, k].sum()),
                })  # fmt: skip
                by_component += [
                    key | {"component": name, "difference": float(gap[s, k])}
                    for s, name in enumerate(names)
                ]
    frames = pd.DataFrame(lines), pd.DataFrame(by_component)
    if model.output_names or not lines:
        return frames
    return frames[0].drop(columns="output"), frames[1].drop(columns="output", errors="ignore")


def attributes_of(X: Any, protected: Any, n_rows: int) -> dict[str, Any]:
    """Label of each row for every protected attribute; missing ones are a group of their own."""
    attributes = {} if protected is None else protected
    if isinstance(attributes, str):
        attributes = [attributes]
    if not isinstance(attributes, Mapping):
        attributes = {name: X[name] for name in attributes}
    labels = {}
    for name, values in attributes.items():
        of_rows = np.asarray(values, object)
        of_rows = np.where(pd.isna(of_rows), MISSING_WORD, of_rows)
        if of_rows.shape != (n_rows,):
            raise ValueError(
                f"protected: one label per row is needed, found shape {of_rows.shape} for {name!r} "
                f"and {n_rows} rows. Pass columns of X, or labels of its rows."
            )
        labels[str(name)] = of_rows
    return labels
