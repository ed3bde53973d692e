"""What is measured in a fresh interpreter: ``python -m benchmarks.common.child TASK ARGUMENT ...``.

Imports are inside the functions: which modules are loaded, and when, is part of what is measured.
"""

from __future__ import annotations

import json
import sys


def first_fit() -> None:
    """Print the seconds of a first fit of few rows by default, imports and loading excluded."""
    from benchmarks.common.data import california
    from benchmarks.common.environment import seconds
    from tpnn import TPNNRegressor

    data = california(seed=0, most_rows=500)
    model = TPNNRegressor(random_state=0)
    print(seconds(lambda: model.fit(data.fitted.X, data.fitted.y)))


def load_and_predict(path: str, n_features: str) -> None:
    """Apply a saved model and print how many of torch and numba were loaded for it."""
    import numpy as np

    from tpnn import load

    load(path).model_.predict(np.zeros((10, int(n_features))))
    print(len({"torch", "numba"} & sys.modules.keys()))


def fit_when_told(n_rows: str, settings: str) -> None:
    """Prepare a table and the library, say so, then fit main effects once a line arrives."""
    from benchmarks.common.data import random_table
    from benchmarks.common.settings import as_parameters
    from tpnn import TPNNRegressor

    model = TPNNRegressor(order=1, random_state=0, **as_parameters(json.loads(settings)))
    model.fit(*random_table(200))
    X, y = random_table(int(n_rows))
    print("ready", flush=True)
    sys.stdin.readline()
    model.fit(X, y)


def fit_shape(n_rows: str, n_features: str, n_pairs: str, settings: str) -> None:
    """Print seconds and gigabytes of a fit of all main effects and some pairs."""
    from itertools import combinations, islice

    from benchmarks.common.bars import resident_bytes
    from benchmarks.common.data import random_table
    from benchmarks.common.environment import seconds
    from benchmarks.common.settings import as_parameters
    from tpnn import TPNNRegressor

    pairs = list(islice(combinations(range(int(n_features)), 2), int(n_pairs)))
    parameters = as_parameters(json.loads(settings))
    model = TPNNRegressor(interactions=pairs, random_state=0, **parameters)
    model.fit(*random_table(300, int(n_features)))  # compiles what the fit needs
    X, y = random_table(int(n_rows), int(n_features))
    before = resident_bytes()
    time = seconds(lambda: model.fit(X, y))
    print(json.dumps({"seconds": time, "gigabytes": (resident_bytes(peak=True) - before) / 1e9}))


def fit_wide(n_rows: str, n_features: str) -> None:
    """Print seconds, peak memory in GB and the number of true components that a fit finds."""
    import resource

    import numpy as np

    from benchmarks.common.environment import seconds
    from tpnn import TPNNRegressor

    rng = np.random.default_rng(0)
    X = rng.normal(size=(int(n_rows), int(n_features)))
    y = X[:, 7] + np.sin(X[:, 100]) + X[:, 50] ** 2 + X[:, 11] * X[:, -1]
    y += 0.5 * rng.normal(size=len(X))
    model = TPNNRegressor(random_state=0)
    took = seconds(lambda: model.fit(X, y))
    true = {("x7",), ("x100",), ("x50",), ("x11", f"x{int(n_features) - 1}")}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(took, peak, len(true & set(model.components_)))


TASKS = {
    task.__name__: task
    for task in (first_fit, load_and_predict, fit_when_told, fit_shape, fit_wide)
}

if __name__ == "__main__":
    TASKS[sys.argv[1]](*sys.argv[2:])
