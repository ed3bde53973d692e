"""Every objective, and targets that it accepts."""

from __future__ import annotations

import numpy as np

from tpnn.loss.objectives import (
    OBJECTIVES,
    huber,
    quantiles,
    several_classes,
    several_targets,
    tweedie,
)

EVERY = {
    **OBJECTIVES,
    "three quantiles": quantiles([0.1, 0.5, 0.9]),
    "two targets": several_targets(2),
    "three classes": several_classes(3),
    "tweedie 1.2": tweedie(1.2),
    "huber 2": huber(2.0),
}


OF_ROWS = [name for name, one in EVERY.items() if not one.couples_rows]


def targets(name: str, n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """Valid targets of an objective, (n_rows, T)."""
    if name in ("cox", "cox_efron"):
        return np.column_stack([rng.integers(1, 9, n_rows), rng.random(n_rows) < 0.6]).astype(float)
    if name == "fine_gray":
        return np.column_stack([rng.integers(1, 9, n_rows), rng.integers(0, 3, n_rows)]) * 1.0
    if name == "three classes":
        return np.eye(3)[rng.integers(0, 3, n_rows)]
    if name == "log_loss":
        return (rng.random((n_rows, 1)) < 0.3).astype(float)
    return rng.gamma(2.0, size=(n_rows, 2 if name == "two targets" else 1))
