"""ANOVA-SHAP against Kernel-SHAP: the same black box explained in two ways.

The black box is XGBoost with 100 trees of depth 7 and rate 0.1 on wine. ANOVA-SHAP fits an additive
model to its predictions and reads phi_j = sum over S with j of f_S / |S| off the components;
Kernel-SHAP, of the package shap, fits a weighted linear model for every row explained.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.common.environment import seconds
from benchmarks.common.interface import Additive, Rows, Task
from benchmarks.paper import coded
from benchmarks.paper.families import Setting, build
from tpnn._utils.arrays import FloatArray

INPUTS = np.array(
    [
        [6.9, 0.22, 0.32, 9.3, 0.04, 22, 110, 0.99, 3.34, 0.54, 10.7],
        [7.0, 0.17, 0.33, 4.0, 0.03, 17, 127, 0.99, 3.19, 0.39, 10.6],
        [6.9, 0.25, 0.35, 9.2, 0.03, 42, 150, 0.99, 3.21, 0.36, 11.5],
    ]
)
BACKGROUND = 100  # rows that stand for the data in Kernel-SHAP
MANY = 1000  # rows for the speed ratio
TIMED = 20  # rows on which Kernel-SHAP is timed


def measure(name: str, model: str, split: int, quick: bool) -> dict[str, Any]:
    """Explain the paper's three wines both ways, and time both."""
    import shap
    import xgboost

    parts = coded.split("wine", split, quick)
    box = xgboost.XGBRegressor(n_estimators=100, max_depth=7, learning_rate=0.1, n_jobs=1)
    box.fit(parts.training.X, parts.training.y)
    fitted = build(model, Setting("wine", Task("regression"), split, None, quick))
    explained = [Rows(rows.X, box.predict(rows.X)) for rows in parts[:2]]
    fit_seconds = seconds(lambda: fitted.fit(*explained))
    assert isinstance(fitted, Additive)
    rows = nearest_rows(parts.training.X)
    kernel = shap.KernelExplainer(box.predict, shap.sample(parts.training.X, BACKGROUND, split))
    slow = np.asarray(kernel.shap_values(rows, silent=True))
    fast = anova_shap(fitted, rows)
    many = np.resize(parts.test.X, (MANY, rows.shape[1]))
    fast_seconds = seconds(lambda: anova_shap(fitted, many))
    slow_seconds = seconds(lambda: kernel.shap_values(many[:TIMED], silent=True)) * MANY / TIMED
    others = np.asarray(kernel.shap_values(many[:TIMED], silent=True))
    same = anova_shap(fitted, many[:TIMED])
    return {
        "scores": {
            "same_sign": float((np.sign(slow) == np.sign(fast)).mean()),
            "correlation": float(np.corrcoef(others.ravel(), same.ravel())[0, 1]),
            "speed_ratio": slow_seconds / fast_seconds,
            "speed_ratio_with_fit": slow_seconds / (fast_seconds + fit_seconds),
        },
        "kernel": slow.round(3).tolist(),
        "anova": fast.round(3).tolist(),
    }


def nearest_rows(X: FloatArray) -> FloatArray:
    """Return the three inputs with the printed density, 0.99, replaced by that of a like wine.

    Density varies in the third decimal, which the paper does not print.
    """
    rows = INPUTS.copy()
    others = [j for j in range(X.shape[1]) if j != 7]
    spread = X.std(0)
    for row in rows:
        distance = np.abs((X[:, others] - row[others]) / spread[others]).sum(1)
        row[7] = X[distance.argmin(), 7]
    return rows


def anova_shap(model: Additive, X: FloatArray) -> FloatArray:
    """Return phi_j = sum over S with j of f_S / |S|, shape (n, p)."""
    values = np.zeros(X.shape)
    scores = model.component_scores(X)[:, :, 0]
    for index, component in enumerate(model.components):
        values[:, component] += scores[:, [index]] / len(component)
    return values
