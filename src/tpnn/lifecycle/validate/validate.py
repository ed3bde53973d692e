"""validate: discrimination, calibration, weak slices, robustness and groups of a model."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tpnn import __version__
from tpnn._utils.arrays import FloatArray
from tpnn._utils.files import write_file
from tpnn._utils.rules import is_not_negative
from tpnn.explain.metrics import measure
from tpnn.explain.metrics.estimates import estimate, with_power
from tpnn.explain.report.writing import Report, finite
from tpnn.lifecycle.merge import as_model
from tpnn.lifecycle.validate.robustness import NOISE, Robustness, robustness
from tpnn.lifecycle.validate.slices import weak_slices
from tpnn.lifecycle.validate.validation_page import ANNEX_IV, SR_26_2, validation_page
from tpnn.model.model import AnovaModel, part_names, part_scores
from tpnn.model.task import Task
from tpnn.table.table import Table
from tpnn.table.words import MISSING_WORD

if TYPE_CHECKING:
    import pandas as pd

FALSE_ALARM_RATE = 0.05


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

    def __repr__(self) -> str:
        return f"Validation({self.facts['rows']} rows, {len(self.slices)} weak slices)"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as values that JSON can hold, with empty fields for people."""
        frames = ("scores", "calibration", "slices", "groups", "group_components")
        tables = {
            name: json.loads(getattr(self, name).to_json(orient="records")) for name in frames
        }
        fields = {"EU AI Act, Annex IV": ANNEX_IV, "SR 26-2": SR_26_2}
        empty = {name: dict.fromkeys(headings, "") for name, headings in fields.items()}
        rest = {"n_slices": self.n_slices, "false_alarm_rate": self.false_alarm_rate,
                "robustness": self.robustness.to_dict()}  # fmt: skip
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
    false_alarm_rate: float = FALSE_ALARM_RATE,
    noise: float = NOISE,
) -> Validation:
    """Measure what a validator asks of a model, on rows that it has not seen.

    Parameters
    ----------
    model : AnovaModel, fitted estimator or loaded model
        The model.
    X, y : table and targets
        Rows that it has not seen.
    protected : list of str, or dict from str to array of shape (n_rows,), optional
        Protected attributes: columns of X, which need not be features of the model, or labels of
        each row by the attribute's name.
    offset : array of shape (n_rows,), optional
        Known part of the raw score of each row.
    power : float, optional
        Score by the Tweedie deviance of this power instead of the loss of the fit.
    false_alarm_rate : float, default=0.05
        Chance of any weak slice where the model is right everywhere.
    noise : float, default=0.05
        Standard deviation of the noise that is added to numbers, and how far each of them moves in
        the worst case, as a share of the distance from the lower to the upper tenth of its
        training rows.

    Returns
    -------
    Validation
        With ``to_dict()``, ``to_json(path)`` and ``to_html(path)``.
    """
    if not is_not_negative(noise):
        raise ValueError(
            f"noise: must be a finite number of at least 0, found {noise!r}. Pass a share of the "
            "range of each feature, such as 0.05."
        )
    frozen = as_model(model)
    table = frozen.encoder.read(X)
    raw, task = frozen.raw_scores(table, offset), with_power(frozen.task, power).told(y)
    slices, n_slices = weak_slices(frozen, table, y, raw, false_alarm_rate)
    attributes = _attributes(X, protected, len(raw))
    groups, parts = _group_differences(frozen, table, raw, attributes)
    return Validation(
        scores=_scores(task, y, raw),
        calibration=_calibration(frozen, table, y, offset, power),
        slices=slices,
        n_slices=n_slices,
        robustness=robustness(frozen, table, y, raw, task=task, noise=noise),
        groups=groups,
        group_components=parts,
        facts=_facts(frozen, len(raw)),
        false_alarm_rate=false_alarm_rate,
    )


def _scores(task: Task, y: Any, raw: FloatArray) -> pd.DataFrame:
    import pandas as pd

    estimates = estimate(task, y, raw)
    lines = [(one.name, one.value, one.standard_error, *one.interval()) for one in estimates]
    return pd.DataFrame(lines, columns=["score", "value", "standard_error", "lower", "upper"])


def _calibration(
    model: AnovaModel, X: Any, y: Any, offset: Any, power: float | None
) -> pd.DataFrame:
    import pandas as pd

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
        "provenance": provenance,
    }


def _group_differences(
    model: AnovaModel, X: Table, raw: FloatArray, attributes: Mapping[str, Any]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Difference of each group's mean raw score from that of all other rows, and its parts."""
    import pandas as pd

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
    return frames[0].drop(columns="output"), frames[1].drop(columns="output")


def _attributes(X: Any, protected: Any, n_rows: int) -> dict[str, Any]:
    """Label of each row for every protected attribute; missing ones are a group of their own."""
    import pandas as pd

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
