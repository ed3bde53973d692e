"""Proportional hazards: whether the effect of a component changes with time.

Each component f_S is a covariate with the coefficient 1. The score test (Grambsch & Therneau, 1994)
asks whether the coefficient would be 1 + theta g(t), where g is the share of events before t. Other
coefficients are nuisances: what the score owes to them is taken out, so that shrunken effects,
whose coefficients are not quite 1, do no harm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.explain.metrics.hazards import kaplan_meier
from tpnn.loss.risk_sets import Spells, died
from tpnn.model.model import AnovaModel
from tpnn.model.task import Task

if TYPE_CHECKING:
    import pandas as pd

WHOLE = "all components"
SMALLEST_SHARE = 1e-10  # of the variance of a sum, below which a component says nothing


def proportional_hazards(model: AnovaModel, X: Any, y: Any, offset: Any = None) -> pd.DataFrame:
    """Test for each component whether its effect on the hazard stays the same over time.

    Parameters
    ----------
    model : AnovaModel
        The ``model_`` of a TPNNSurvival fitted by "cox".
    X, y : table and targets
        Rows, those of the fit or others; y has times and events, with entries and strata if there
        are some.
    offset : array of shape (n_rows,), optional
        Known part of the log risk of each row.

    Returns
    -------
    DataFrame
        A line for each component, and a last one for all together: ``chi2`` with its ``degrees`` of
        freedom, ``p_value``, and ``change``, about how much larger the effect is at the last event
        than at the first, as a share of the effect: -1 is an effect that vanishes. With hazards
        that are proportional, p-values are uniform.

    Examples
    --------
    >>> from tpnn import TPNNSurvival
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2))
    >>> y = np.column_stack([rng.exponential(np.exp(-X[:, 0])), np.ones(500)])
    >>> model = TPNNSurvival(order=1, n_bags=2, random_state=0).fit(X, y)
    >>> bool(proportional_hazards(model.model_, X, y)["p_value"].iloc[0] > 0.01)
    True
    """
    import pandas as pd
    from scipy.stats import chi2

    task = Task.of(model)
    if task.kind != "survival" or not task.objective.is_alone:
        raise ValueError(
            'model: one fitted by TPNNSurvival(objective="cox") is needed, found one of '
            f"{task.objective.name!r}. Its hazards are not assumed to be proportional."
        )
    table = model.encoder.read(X)
    target, raw = task.targets(y, table.n_rows), model.raw_scores(table, offset)
    if target.shape[1] == 2:
        late = np.full(len(raw), -np.inf)
        target = np.column_stack([target, late, np.zeros(len(raw))])
    scores, variances = score_test(target, raw, model.component_scores(table))
    lines = []
    for number, names in enumerate(model.component_names):
        score, variance = scores[number], variances[number, number]
        known = variance > 0
        lines.append({
            "component": " x ".join(names),
            "chi2": score**2 / variance if known else np.nan,
            "degrees": 1,
            "change": score / variance if known else np.nan,
        })  # fmt: skip
    rank = int(np.linalg.matrix_rank(variances, hermitian=True))
    total = float(scores @ np.linalg.pinv(variances, hermitian=True) @ scores)
    lines.append({"component": WHOLE, "chi2": total, "degrees": rank, "change": np.nan})
    frame = pd.DataFrame(lines)
    frame.insert(3, "p_value", chi2.sf(frame["chi2"], frame["degrees"]))
    return frame


def score_test(
    target: FloatArray, raw: FloatArray, covariates: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Scores (m,) of covariates (n, m) times g(t), and their covariances (m, m).

    Sums over the rows at risk at each event are differences of cumulative sums over events, so that
    no matrix is needed for each event: sum_t d_t Cov_t = C' diag(e) C - sum_t d_t mean_t mean_t',
    where e_i is the number of events that are expected of row i.
    """
    spells, happened = Spells.of(target), died(target)[:, 0]
    deaths = spells.added(spells.place, happened[:, None])[:-1, 0]
    scale = np.sqrt(np.maximum((covariates**2).mean(0), np.finfo(float).tiny))
    columns = covariates / scale
    risk = np.exp(raw - raw.max())
    alive = np.maximum(spells.alive(risk[:, None])[:, 0], np.finfo(float).tiny)
    steps = spells.added(spells.first, risk[:, None] * columns)
    steps -= spells.added(spells.place + 1, risk[:, None] * columns)
    means = np.cumsum(steps, axis=0)[:-1] / alive[:, None]  # (n_places, m)
    moment = np.empty(spells.n_places)
    moment[spells.place] = target[:, 0]
    passed = 1 - kaplan_meier(target, np.nextafter(moment, -np.inf))
    passed = passed - np.average(passed, weights=deaths)
    informations = []
    for power in range(3):
        counts = deaths * passed**power
        before = np.append(0.0, np.cumsum(counts / alive))
        expected = risk * (before[spells.place + 1] - before[spells.first])
        whole = columns.T @ (expected[:, None] * columns)
        informations.append(whole - means.T @ (counts[:, None] * means))
    residuals = happened[:, None] * (columns - means[spells.place])
    plain, changing = residuals.sum(0), passed[spells.place] @ residuals
    held = informations[1] @ np.linalg.pinv(informations[0], hermitian=True)
    scores = changing - held @ plain
    variances = informations[2] - held @ informations[1]
    silent = np.diag(variances) < SMALLEST_SHARE * np.diag(informations[0]).max(initial=0.0)
    variances[silent] = variances[:, silent] = 0.0
    return scores * scale, variances * np.outer(scale, scale)
