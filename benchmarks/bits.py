"""Fingerprints of fitted models: they tell whether a change of the code changed any model by a bit.

    python -m benchmarks.bits store before.json     # on the old code
    python -m benchmarks.bits compare before.json   # on the new code

Bits depend on the processor and on the versions of numba and torch, so both runs belong on one
machine. Every case is fitted once; a fingerprint covers predictions, tables, spreads and intercept.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tpnn import Descent, Grow, TPNNClassifier, TPNNRegressor, TPNNSurvival, datasets

STEPS = 60  # of gradient descent: enough to see a difference
Case = Callable[[str], tuple[Any, pd.DataFrame]]


def solver(name: str, **parameters: Any) -> Any:
    """Return a solver by name, with few steps of gradient descent."""
    return Grow(**parameters) if name == "grow" else Descent(max_steps=STEPS, **parameters)


def messy(n_rows: int = 1500) -> tuple[pd.DataFrame, pd.Series]:
    """Levels, an ordered category, dates, missing values, a constant column."""
    rng = np.random.default_rng(3)
    X = pd.DataFrame(
        {
            "income": rng.lognormal(size=n_rows),
            "city": rng.choice(["Rome", "Oslo", "Lima", "Cairo"], n_rows),
            "size": pd.Categorical(
                rng.choice(["S", "M", "L"], n_rows), categories=["S", "M", "L"], ordered=True
            ),
            "since": pd.Timestamp("2020-01-01")
            + pd.to_timedelta(rng.integers(0, 900, n_rows), "D"),
            "same": np.ones(n_rows),
            "flag": rng.random(n_rows) < 0.3,
        }
    )
    effect = X.city.map({"Rome": 1.0, "Oslo": -1.0, "Lima": 0.3, "Cairo": 0.0})
    y = np.log(X.income) * (1 + X.flag) + effect + 0.1 * rng.normal(size=n_rows)
    X.loc[rng.random(n_rows) < 0.1, "income"] = np.nan
    X.loc[rng.random(n_rows) < 0.1, "city"] = None
    return X, y


def shipped(name: str) -> Case:
    """Regression on a data set that comes with the package."""

    def fit(solver_name: str) -> tuple[Any, pd.DataFrame]:
        X, y = datasets.load(name)
        model = TPNNRegressor(solver=solver(solver_name), n_bags=4, random_state=0, verbose=0)
        return model.fit(X, y), X

    return fit


def two_classes(solver_name: str) -> tuple[Any, pd.DataFrame]:
    """Two classes."""
    X, y = datasets.load("wine")
    model = TPNNClassifier(solver=solver(solver_name), n_bags=3, random_state=1, verbose=0)
    return model.fit(X, y >= 6), X


def several_classes(solver_name: str) -> tuple[Any, pd.DataFrame]:
    """Three classes."""
    X, y = datasets.load("abalone")
    model = TPNNClassifier(solver=solver(solver_name), n_bags=2, random_state=2, verbose=0)
    return model.fit(X, np.digitize(y, [8, 11])), X


def survival(solver_name: str) -> tuple[Any, pd.DataFrame]:
    """Censored times."""
    rng = np.random.default_rng(5)
    X = pd.DataFrame(rng.normal(size=(900, 4)), columns=list("abcd"))
    life = rng.exponential(np.exp(-X.a - X.b * X.c))
    censored = rng.exponential(2.0, len(X))
    y = np.column_stack([np.minimum(life, censored), life <= censored])
    model = TPNNSurvival(solver=solver(solver_name), n_bags=3, random_state=3, verbose=0)
    return model.fit(X, y), X


def poisson(solver_name: str) -> tuple[Any, pd.DataFrame]:
    """Fit counts with weights and an offset."""
    rng = np.random.default_rng(6)
    X = pd.DataFrame(rng.normal(size=(2000, 4)), columns=list("abcd"))
    exposure = rng.uniform(0.2, 1.0, len(X))
    y = rng.poisson(exposure * np.exp(0.5 * X.a + np.sin(X.b) * X.c))
    model = TPNNRegressor(
        objective="poisson", solver=solver(solver_name), n_bags=3, random_state=4, verbose=0
    )
    return model.fit(X, y, rng.integers(1, 4, len(X)), np.log(exposure)), X


def messy_table(solver_name: str) -> tuple[Any, pd.DataFrame]:
    """Every kind of column."""
    X, y = messy()
    model = TPNNRegressor(solver=solver(solver_name), n_bags=3, random_state=5, verbose=0)
    return model.fit(X, y), X


def monotone(solver_name: str) -> tuple[Any, pd.DataFrame]:
    """Shapes of several features."""
    X, y = datasets.load("calhousing")
    model = TPNNRegressor(
        shapes={"MedInc": "increasing", "HouseAge": "convex"},
        solver=solver(solver_name), n_bags=2, random_state=6, verbose=0,
    )  # fmt: skip
    return model.fit(X[:4000], y[:4000]), X


def triples(solver_name: str) -> tuple[Any, pd.DataFrame]:
    """All components up to order three."""
    X, y = datasets.load("abalone")
    model = TPNNRegressor(
        order=3, interactions="all", solver=solver(solver_name), n_bags=2, random_state=7,
        max_nodes={1: 64, 2: 24, 3: 10}, verbose=0,
    )  # fmt: skip
    return model.fit(X, y), X


def searched(solver_name: str) -> tuple[Any, pd.DataFrame]:
    """Fit a wide table whose pairs are searched for."""
    rng = np.random.default_rng(8)
    X = pd.DataFrame(rng.normal(size=(1500, 40)), columns=[f"x{j}" for j in range(40)])
    y = X.x0 + X.x1 * X.x2 + 0.3 * rng.normal(size=len(X))
    model = TPNNRegressor(
        order=3, solver=solver(solver_name), n_bags=2, random_state=8, max_nodes=48, verbose=0
    )
    return model.fit(X, y), X


CASES: dict[str, Case] = {
    "calhousing": shipped("calhousing"),
    "abalone": shipped("abalone"),
    "wine": shipped("wine"),
    "two classes": two_classes,
    "several classes": several_classes,
    "survival": survival,
    "poisson": poisson,
    "messy": messy_table,
    "monotone": monotone,
    "triples": triples,
    "searched": searched,
}


def fingerprint(model: Any, X: pd.DataFrame) -> dict[str, str]:
    """Digests of what a fitted estimator predicts and of what it consists of."""
    frozen = model.model_
    predicted = model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)
    parts = {
        "predictions": [predicted],
        "tables": frozen.tables,
        "spreads": frozen.evidence.spreads,
        "intercept": [np.atleast_1d(frozen.intercept)],
    }
    digests = {name: digest(arrays) for name, arrays in parts.items()}
    return digests | {
        "components": str(len(frozen.components)),
        "mean": repr(float(predicted.mean())),
    }


def digest(arrays: Any) -> str:
    """Digest of the bits of some arrays."""
    whole = hashlib.sha256()
    for array in arrays:
        whole.update(np.ascontiguousarray(array, np.float64).tobytes())
    return whole.hexdigest()[:16]


def fingerprints() -> dict[str, dict[str, str]]:
    """Fingerprint of every case and solver."""
    found = {}
    for name, case in CASES.items():
        for solver_name in ("grow", "gradient"):
            found[f"{name}, {solver_name}"] = fingerprint(*case(solver_name))
            print(name, solver_name, found[f"{name}, {solver_name}"], flush=True)
    return found


def main(action: str, path: str) -> int:
    """Store fingerprints, or compare with stored ones and count the cases that differ."""
    if action == "store":
        Path(path).write_text(json.dumps(fingerprints(), indent=1))
        return 0
    before, now = json.loads(Path(path).read_text()), fingerprints()
    changed = [name for name in before if before[name] != now.get(name)]
    print(f"{len(changed)} of {len(before)} models differ: {', '.join(changed) or 'none'}")
    return len(changed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
