"""Fit California housing, compare with simple models on held-out rows, and draw the components.

Run it with ``make demo``; pictures go to the folder ``demo-output``.
"""

from __future__ import annotations

import time
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import numpy as np
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import train_test_split

from tpnn import TPNNRegressor, datasets, plots

OUTPUT = Path("demo-output")


def main() -> None:
    """Fit, print, draw."""
    X, y = datasets.load("calhousing")
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=0)
    print(f"California housing: {len(X_train):,} rows to learn from, {len(X_test):,} held out")

    began = time.perf_counter()
    TPNNRegressor(n_bags=1, max_steps=60, verbose=0).fit(X_train[:200], y_train[:200])
    print(f"compiled in {time.perf_counter() - began:.1f} s (the first time only, then cached)\n")

    began = time.perf_counter()
    model = TPNNRegressor(random_state=0, verbose=1).fit(X_train, y_train)
    seconds = time.perf_counter() - began

    print("\nTest RMSE (in 100,000 dollars)")
    rivals = {"mean": DummyRegressor(), "linear model": LinearRegression()}
    for name, rival in rivals.items():
        print(f"  {name:<16}{error(rival.fit(X_train, y_train), X_test, y_test):.3f}")
    print(f"  {'TPNNRegressor':<16}{error(model, X_test, y_test):.3f}   fitted in {seconds:.1f} s")

    explanation = model.explain()
    ranked = list(explanation.importance().items())
    print("\nTen most important components, E|f_S| relative to the first")
    for names, value in ranked[:10]:
        share = value / ranked[0][1]
        print(f"  {' x '.join(names):<24}{share:6.3f}  {'#' * round(40 * share)}")
    print(
        f"\nWorst mean along any axis of any component: {model.model_.identifiability_error():.1e}"
    )
    print("(zero up to rounding: no other decomposition of this model averages to zero)")

    OUTPUT.mkdir(exist_ok=True)
    plots.components(explanation, n_components=9).savefig(OUTPUT / "components.png", dpi=130)
    plots.importance(explanation).figure.savefig(OUTPUT / "importance.png", dpi=130)
    print(f"\nPictures: {OUTPUT / 'components.png'}, {OUTPUT / 'importance.png'}")


def error(model: object, X: object, y: np.ndarray) -> float:
    """Root mean squared error of a fitted model."""
    return float(root_mean_squared_error(y, model.predict(X)))  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
