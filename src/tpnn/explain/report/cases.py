"""Data of single cases: how sure the model is of one, its survival curve, targets of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.model.evidence import Baseline, Scale
from tpnn.model.intervals import score_at
from tpnn.model.model import AnovaModel

COVERAGE = 0.9  # of intervals of targets and of sets of classes
DIGITS = 8
MOST_TIMES = 2000  # of a survival curve; fewer events are all shown


def summarise_cases(model: AnovaModel) -> dict[str, Any]:
    """Collect what the page needs to say how sure the model is of a case.

    ``reach`` is the score that a share ``COVERAGE`` of held-out rows do not exceed, for each
    output; ``scale`` and ``errors`` are the additive models of ``tpnn.model.intervals``. ``cause``
    is the kind of event that a survival curve is about, None where there is only one.
    """
    calibration, baseline = model.evidence.calibration, model.evidence.baseline
    found: dict[str, Any] = {"coverage": COVERAGE, "reach": None, "scale": None, "errors": None}
    if calibration is not None:
        n_scores = len(calibration.scores)
        if COVERAGE * (n_scores + 1) <= n_scores:
            found["reach"] = _short(score_at(calibration.scores, COVERAGE, ""))
        found["scale"] = calibration.scale and _scale(calibration.scale)
        found["errors"] = calibration.errors and _scale(calibration.errors)
    return {
        "task": model.task.kind,
        "cause": model.task.objective.cause,
        "sureness": found,
        "baseline": baseline and _curves(baseline),
    }


def targets_of(model: AnovaModel, y: Any, n_rows: int, shown: IntArray) -> list[list[float]]:
    """Targets of the rows that the page shows, as the loss takes them; none without targets.

    Lives with entries or strata have none: their concordance needs all rows at risk.
    """
    if y is None or n_rows == 0:
        return []
    targets = model.task.told(y).targets(y, n_rows)[shown]
    is_short = model.task.kind != "survival" or targets.shape[1] == 2
    found: list[list[float]] = targets.tolist()
    return found if is_short else []


def _scale(scale: Scale) -> dict[str, Any]:
    """Additive model of a logarithm: tables by feature, and knots and heights by output."""
    return {
        "features": list(scale.features),
        "tables": [_short(table.T) for table in scale.tables],
        "knots": _short(scale.knots.T),
        "heights": _short(scale.heights.T),
    }


def _curves(baseline: Baseline) -> list[dict[str, Any]]:
    """List times, log hazards and their errors of each stratum, from the first to the last time.

    Errors are 0 where they are not known.
    """
    names = baseline.strata or ("",)
    curves = []
    for name, part in zip(names, baseline.parts, strict=True):
        n_times = part.stop - part.start
        chosen = np.unique(np.linspace(0, n_times - 1, min(n_times, MOST_TIMES)).astype(np.intp))
        errors = np.zeros_like(baseline.times) if baseline.errors is None else baseline.errors
        times, hazards, spreads = (
            _short(values[part][chosen]) for values in (baseline.times, baseline.log_hazard, errors)
        )
        curves.append({"name": name, "times": times, "logHazard": hazards, "errors": spreads})
    return curves


def _short(values: FloatArray) -> Any:
    """Nested lists with ``DIGITS`` significant digits."""
    if values.ndim > 1:
        return [_short(row) for row in values]
    return [float(f"{x:.{DIGITS}g}") for x in values.tolist()]
