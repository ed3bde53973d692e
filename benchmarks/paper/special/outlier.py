"""Spline-GAM beyond the range of its training rows: the block with 1,243 people per household."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.common.interface import Additive, Rows
from benchmarks.paper import coded
from benchmarks.paper.families import Setting, build

OCCUPATION = 5  # AveOccup


def measure(name: str, model: str, split: int, quick: bool) -> dict[str, Any]:
    """Fit without the block with the largest AveOccup, then look at it and at the test rows."""
    table, parts = coded.table("calhousing"), coded.split("calhousing", split, quick)
    worst = table.X[table.X[:, OCCUPATION].argmax()]
    truth = float(table.y[table.X[:, OCCUPATION].argmax()])
    training, validation = (_without(rows, worst) for rows in (parts.training, parts.validation))
    fitted = build(model, Setting("calhousing", table.task, split, None, quick))
    fitted.fit(training, validation)
    assert isinstance(fitted, Additive)
    highest = training.X[:, OCCUPATION].max()
    along = np.tile(worst, (41, 1))
    along[:, OCCUPATION] = np.linspace(0, worst[OCCUPATION], 41)
    effect = fitted.component_scores(along)[:, OCCUPATION, 0]
    predicted = fitted.raw_scores(parts.test.X)[:, 0]
    return {
        "scores": {"prediction": float(fitted.raw_scores(worst[None])[0, 0]), "truth": truth},
        "contributions": fitted.component_scores(worst[None])[0, :, 0].round(3).tolist(),
        "largest_in_training": float(highest),
        "effect": [along[:, OCCUPATION].round(1).tolist(), effect.round(3).tolist()],
        "scatter": [parts.test.y[:300].round(2).tolist(), predicted[:300].round(2).tolist()],
    }


def _without(rows: Rows, row: Any) -> Rows:
    kept = (row != rows.X).any(1)
    return Rows(rows.X[kept], rows.y[kept])
