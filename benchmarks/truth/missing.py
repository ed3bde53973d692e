"""Coverage of the effects of a complete table, of which a column has gaps.

`python -m benchmarks.truth.missing [samples]` prints a table. Of three uniform features
two have normal scores with a correlation of 0.7. A share of the first is missing, by chance or by
odds whose logarithm rises with the second feature or with the target.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

from tpnn import TPNNRegressor

N_ROWS, CORRELATION, SHARE, NOISE = 1000, 0.7, 0.3, 0.5
Effect = Callable[[Any], Any]
EFFECTS: dict[str, Effect] = {
    "wave": lambda u: np.sin(2 * np.pi * u),
    "line": lambda u: 3 * (u - 0.5),
    "bump": lambda u: 1.5 * np.exp(-(((u - 0.5) / 0.15) ** 2)),
}
SETTINGS = (("chance", "wave", 1), ("second feature", "bump", 2), ("target", "wave", 1),
            ("target", "line", 1))  # fmt: skip


def drawn(cause: str, effect: str, seed: int) -> tuple[pd.DataFrame, Any, Any, dict[str, Effect]]:
    """Complete table, rows with gaps in the first column, targets and true effects."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(N_ROWS, 3))
    scores[:, 1] = CORRELATION * scores[:, 0] + np.sqrt(1 - CORRELATION**2) * scores[:, 1]
    X = pd.DataFrame(norm.cdf(scores), columns=list("abc"))
    effects: dict[str, Effect] = {"a": EFFECTS[effect], "b": lambda u: 6 * (u - 0.5) ** 2}
    effects["c"] = EFFECTS["line"]
    f = np.sum([each(X[name].to_numpy()) for name, each in effects.items()], axis=0)
    y = f + NOISE * rng.normal(size=N_ROWS)
    shares = {"chance": 0.5, "second feature": X["b"], "target": norm.cdf((y - y.mean()) / y.std())}
    return X, rng.random(N_ROWS) < 2 * SHARE * shares[cause], y, effects


def judged(model: Any, X: pd.DataFrame, effects: dict[str, Effect]) -> list[tuple[float, float]]:
    """Root mean square error and coverage of the effects of the first two features."""
    found = []
    for name in "ab":
        frame = model.explain().component(name).to_frame()
        frame = frame[frame[name].notna()]
        truth = effects[name](frame[name].astype(float)) - effects[name](X[name]).mean()
        inside = (frame["lower"] <= truth) & (truth <= frame["upper"])
        found.append((float(((frame["effect"] - truth) ** 2).mean()), float(inside.mean())))
    return found


def main(n_samples: int) -> None:
    """Print one line for each setting and way."""
    warnings.simplefilter("ignore")
    print("| missing by | effect | way | errors of a, b | covered, % |\n|---|---|---|---|---|")
    for cause, effect, order in SETTINGS:
        found: dict[str, list[Any]] = {}
        for seed in range(n_samples):
            X, gap, y, effects = drawn(cause, effect, seed)
            gaps = X.assign(a=X["a"].mask(gap))
            quick: dict[str, Any] = {"order": order, "random_state": seed}
            fits = {
                "complete table": TPNNRegressor(**quick).fit(X, y),
                "a node": TPNNRegressor(**quick).fit(gaps, y),
                "rows without gaps": TPNNRegressor(**quick).fit(X[~gap], y[~gap]),
                '`missing="impute"`': TPNNRegressor(**quick, missing="impute").fit(gaps, y),
            }
            for way, model in fits.items():
                found.setdefault(way, []).append(judged(model, X, effects))
        for way, samples in found.items():
            (one, other), (first, second) = np.mean(samples, 0).T
            errors = f"{one**0.5:.3f}, {other**0.5:.3f}"
            covered = f"{100 * first:.0f}, {100 * second:.0f}"
            print(f"| {cause} | {effect} | {way} | {errors} | {covered} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
