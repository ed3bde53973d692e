"""``tpnn demo``: California housing prices, fitted, drawn and reported."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import tpnn


def run_demo(options: argparse.Namespace) -> None:
    """Fit California housing, print its error and importance, write pictures and the report."""
    X, y = tpnn.datasets.load("calhousing")
    order = np.random.default_rng(0).permutation(len(X))
    held_out, training = order[: len(X) // 5], order[len(X) // 5 :]
    print(f"California housing: {len(training):,} rows to learn from, {len(held_out):,} held out")
    compiling = _seconds(lambda: _quick_fit(X, y))
    print(f"compiled in {compiling:.1f} s (the first time only, then cached)\n")
    model = tpnn.TPNNRegressor(random_state=0, verbose=1)
    fitting = _seconds(lambda: model.fit(X.iloc[training], y.iloc[training]))
    truth = y.iloc[held_out].to_numpy()
    errors = model.predict(X.iloc[held_out]) - truth
    print("\nTest RMSE (in 100,000 dollars)")
    print(f"  mean            {np.sqrt(np.mean((truth - y.iloc[training].mean()) ** 2)):.3f}")
    print(f"  TPNNRegressor   {np.sqrt(np.mean(errors**2)):.3f}   fitted in {fitting:.1f} s")
    print("\nTen most important components, E|f_S| relative to the first")
    for names, relative in list(model.explain().importance(normalise=True).items())[:10]:
        print(f"  {' x '.join(names):<24}{relative:6.3f}  {'#' * round(40 * relative)}")
    worst = model.model_.identifiability_error()
    print(f"\nLargest mean of any component along any of its features: {worst:.1e}")
    print("(zero up to rounding, so this decomposition of the model is the only one)")
    folder = Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    _draw(model, folder)
    rows = X.iloc[held_out]
    words = {"title": "California house prices", "target": "median house value (100,000 $)"}
    model.report(folder / "report.html", rows, truth, **words)
    print(f"\nOpen {folder / 'report.html'}: the model runs in the page.")


def _draw(model: tpnn.TPNNRegressor, folder: Path) -> None:
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("agg")
    explanation = model.explain()
    tpnn.explain.plots.components(explanation).savefig(folder / "components.png", dpi=130)
    explanation.plot().figure.savefig(folder / "importance.png", dpi=130)


def _quick_fit(X: pd.DataFrame, y: pd.Series[Any]) -> None:
    tpnn.TPNNRegressor(n_bags=1, solver=tpnn.Grow(max_rounds=60), verbose=0).fit(X[:200], y[:200])


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
