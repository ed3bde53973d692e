"""Speed of explanations: Shapley values against samplers and trees, local scores, the report."""

from __future__ import annotations

import shutil
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.bars import Plan, Row, row
from benchmarks.common.data import california
from benchmarks.common.environment import seconds
from tpnn import AnovaModel, Grow, TPNNRegressor, datasets, distill
from tpnn.explain.report import write_report

EXPLAINED = 1000  # rows of wine
BACKGROUND = 100  # rows that KernelSHAP averages over
WIDE_FEATURES, WIDE_PAIRS = 100, 200


def measure_explanation(plan: Plan) -> list[Row]:
    """Measure Shapley values, local scores, and the size and start of the report."""
    return [*_shapley(plan), *_local_scores(plan), *_reports(plan)]


def _shapley(plan: Plan) -> list[Row]:
    """Explain 1,000 rows of wine by each method, for the same boosted trees."""
    import shap
    import xgboost

    X, y = datasets.load("wine")
    box = xgboost.XGBRegressor(n_estimators=100, max_depth=7, random_state=0).fit(X, y)
    rows = X.iloc[:EXPLAINED]
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fidelity is a row of the table
        model = distill(box, X, random_state=0)
    distilling = time.perf_counter() - began
    explanation = model.explain(rows)
    explanation.shap_values()
    ours = min(seconds(lambda: model.explain(rows).shap_values()) for _ in range(5))
    few = max(5, plan.predicted_rows // 50_000)  # KernelSHAP is linear in its rows
    background = X.sample(BACKGROUND, random_state=0)
    kernel = shap.KernelExplainer(lambda table: box.predict(table), background)
    sampled = seconds(lambda: kernel.shap_values(rows.iloc[:few], silent=True)) * EXPLAINED / few
    trees = shap.TreeExplainer(box)
    exact = min(seconds(lambda: trees.shap_values(rows)) for _ in range(3))
    truth = shap.TreeExplainer(box, X.sample(300, random_state=1)).shap_values(rows.iloc[:200])
    agreement = np.corrcoef(explanation.shap_values().values[:200].ravel(), truth.ravel())[0, 1]
    what = f"{len(rows):,} rows of wine, {len(model.components_)} components"
    slow = f"KernelSHAP, timed on {few} rows and scaled to {len(rows):,},"
    return [
        row("explanation", f"Shapley values, {what}", 1000 * ours, "ms"),
        row("explanation", f"{slow} / ours", sampled / ours, "times", ">= 6500"),
        row("explanation", "TreeSHAP, 100 trees of depth 7 / ours", exact / ours, "times", ">= 1"),
        row("explanation", "distillation of the trees", distilling, "s"),
        row("explanation", "fidelity, R2 on held-out rows", model.fidelity_, ""),
        row("explanation", "correlation with the trees' own Shapley values", agreement, ""),
    ]


def _local_scores(plan: Plan) -> list[Row]:
    data = california(0, plan.training_rows)
    model = TPNNRegressor(solver=Grow(max_rounds=plan.steps), random_state=0).fit(
        data.fitted.X, data.fitted.y
    )
    rng = np.random.default_rng(0)
    X = data.fitted.X.to_numpy()[rng.integers(0, len(data.fitted.X), plan.predicted_rows)]
    taken = seconds(lambda: model.explain(X).scores)
    what = f"local scores, {len(X):,} rows x {len(model.components_)} components"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        model.report(path, data.test.X, data.test.y)
        size = path.stat().st_size / 1e6
    return [
        row("explanation", what, taken, "s", "<= 10"),
        row("explanation", "report of California housing", size, "MB", "<= 1.5"),
    ]


def _reports(plan: Plan) -> list[Row]:
    """Write and open the report of a wide model."""
    model, X = _wide_model(plan)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        write_report(model, path, X)
        what = f"report, {WIDE_FEATURES} features, {len(model.components)} components"
        rows = [row("explanation", what, path.stat().st_size / 1e6, "MB", "<= 10")]
        if shutil.which("chromedriver") and shutil.which("chromium"):
            rows.append(row("explanation", f"{what}, opens", _opening(path), "s", "<= 2"))
    return rows


def _wide_model(plan: Plan) -> tuple[AnovaModel, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(min(3000, plan.training_rows), WIDE_FEATURES))
    y = X @ rng.normal(size=WIDE_FEATURES) + X[:, 0] * X[:, 1]
    pairs = [(i, j) for i in range(21) for j in range(i + 1, 21)][:WIDE_PAIRS]
    solver = Grow(max_rounds=plan.short_steps)
    model = TPNNRegressor(n_bags=1, solver=solver, interactions=pairs, random_state=0)
    return model.fit(X, y).model_, X


def _opening(path: Path) -> float:
    """Seconds from the request to a page whose model has answered, in headless Chromium."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
                 "--disable-background-networking", "--disable-dev-shm-usage"):  # fmt: skip
        options.add_argument(flag)
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        began = time.perf_counter()
        driver.get(path.as_uri())
        while not driver.execute_script("return document.documentElement.dataset.ready"):
            time.sleep(0.01)
        return time.perf_counter() - began
    finally:
        driver.quit()
