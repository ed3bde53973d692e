"""Laws of what becomes of a fitted model: edits, sums and differences of models, exports."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.columns import BYTES, DECIMAL, SURROGATE
from tests.fuzz.laws import FOLDER, N_FRESH, Trial, close, require
from tests.fuzz.random_edits import check_edited, edited_often
from tpnn import AnovaModel, compare, merge

UNKNOWN_TO_CODE = (BYTES, DECIMAL, SURROGATE)


def check_all(trial: Trial) -> None:
    """Check every law of what becomes of a model."""
    for law in (edited, merged, restricted, compared, with_intervals, exported, summarised):
        law(trial)


def _scored(trial: Trial, model: AnovaModel) -> Any:
    """Raw scores of the rows that fit has not seen, by a model made of the fitted one."""
    return model.raw_scores(trial.fresh_table, np.zeros(N_FRESH))


def edited(trial: Trial) -> None:
    """Check that edited models live on, and that edits do not touch the remainder."""
    after = edited_often(trial.model, trial.rng)
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        check_edited(trial.model, after, trial.fresh_table, Path(folder))
    if after.remainder is not None:  # restrict leaves it out
        found, known = (m.remainder_scores(trial.fresh_table) for m in (after, trial.model))
        require(close(found, known, trial.scale, 1e-12), "edits leave the remainder")


def merged(trial: Trial) -> None:
    """Check that the mean of a model with itself is this model."""
    for models in ([trial.model], [trial.model, trial.model]):
        mean = merge(models)
        require(close(_scored(trial, mean), trial.fresh_raw, trial.scale), "mean of equal models")


def restricted(trial: Trial) -> None:
    """Check that the components alone are all but the remainder."""
    alone = trial.model.restrict(list(trial.model.components))
    expected = trial.fresh_raw - trial.model.remainder_scores(trial.fresh_table)
    require(close(_scored(trial, alone), expected, trial.scale), "all components alone")


def compared(trial: Trial) -> None:
    """Check that differences of components sum to that of raw scores, and are zero of one model."""
    core = trial.model.restrict(trial.model.components.components[::2])
    expected = _scored(trial, core) - trial.fresh_raw
    for other, truth in ((core, expected), (trial.model, 0 * expected)):
        parts = compare({"old": trial.model, "new": other}, trial.fresh_table).row_differences()
        sums = parts.to_numpy().reshape(N_FRESH, -1, len(trial.model.intercepts)).sum(1)
        require(close(sums.reshape(truth.shape), truth, trial.scale), "differences of components")


def with_intervals(trial: Trial) -> None:
    """Check that intervals are nested in their coverage and have the prediction inside."""
    calibration, zeros = trial.model.evidence.calibration, np.zeros(N_FRESH)
    if calibration is None:
        return
    if calibration.errors is not None:
        errors = trial.model.standard_errors(trial.fresh_table)
        require((np.isfinite(errors) & (errors >= 0)).all(), "standard errors")
    if len(calibration.scores) < N_FRESH:
        return
    narrow, wide = (
        trial.model.predict_interval(trial.fresh_table, share, offset=zeros) for share in (0.5, 0.8)
    )
    if calibration.scale is None:
        require((narrow <= wide).all() and narrow.any(1).all(), "sets of classes")
        return
    ends = np.array([wide[0], narrow[0], trial.model.predict(trial.fresh_table, zeros), narrow[1],
                     wide[1]])  # fmt: skip
    require(np.isfinite(ends).all() and (np.diff(ends, axis=0) >= 0).all(), "nested intervals")


def exported(trial: Trial) -> None:
    """Check that the source code of the model, which needs Python alone, gives its raw scores."""
    model = trial.model
    columns = {model.feature_names[j]: trial.fresh[place] for j, place in enumerate(trial.places)}
    if any(column.kind in UNKNOWN_TO_CODE for column in columns.values()):
        return
    code: dict[str, Any] = {}
    exec(compile(model.to_code("python"), "model", "exec"), code)
    are_doubles = getattr(trial.fresh_table, "dtype", None) == np.float64  # also large integers
    held = [
        [float(x) if are_doubles and x is not None else x for x in each.values]
        for each in columns.values()
    ]
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*held, strict=True)]
    given = (0.0,) if model.has_offset else ()
    found = np.array([code["score"](row, *given)["raw_score"] for row in rows])
    require(close(found, trial.fresh_raw, trial.scale), "the model as Python code")


def summarised(trial: Trial) -> None:
    """Check that the summary has a line for every part, and words for all of it."""
    summary = trial.model.summary()
    n_parts = len(trial.model.components) + (trial.model.remainder is not None)
    require(len(summary.lines) >= n_parts, "lines of the summary")
    require(repr(summary) and summary._repr_html_(), "a summary in words")
