"""A small table in files, and what two fits to it must have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


def write_table(folder: Path, seed: int = 1) -> str:
    """Write a table of 400 rows as two files; return their pattern."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(400, 3)).round(2), columns=["a", "b", "c"])
    frame["level"] = rng.choice(["x", "y", None], 400)
    frame["weight"] = rng.integers(0, 3, 400).astype(float)
    frame["y"] = np.sin(frame.a) + frame.b * (frame.level == "x") + 0.1 * rng.normal(size=400)
    frame["label"] = np.where(frame.y + frame.c > 0, "yes", "no")
    frame[:150].to_parquet(folder / "1.parquet")
    frame[150:].to_parquet(folder / "2.parquet")
    return str(folder / "*.parquet")


def assert_same(one: Any, other: Any) -> None:
    """Two fitted estimators have the same model in every bit, from the same rows."""
    a, b = one.model_, other.model_
    assert a.components == b.components
    assert np.array_equal(a.intercepts, b.intercepts)
    assert all(np.array_equal(x, y) for x, y in zip(a.tables, b.tables, strict=True))
    assert a.provenance.fingerprint == b.provenance.fingerprint
    assert a.provenance.scores == b.provenance.scores
    assert a.provenance.settings == b.provenance.settings
