"""Fingerprints: equal for the same rows however they are passed, different for any change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tpnn import fingerprint


@pytest.fixture
def rows() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({
        "number": rng.normal(size=50), "count": rng.integers(0, 4, 50),
        "level": rng.choice(["a", "b", "1"], 50), "day": pd.Timestamp("2020-01-01"),
    })  # fmt: skip
    X.loc[3, "number"] = np.nan
    X.loc[4, "level"] = None
    return X, rng.normal(size=50)


def test_it_does_not_depend_on_the_order_or_the_kind_of_table(rows: Any) -> None:
    X, y = rows
    expected = fingerprint(X, y)
    order = np.random.default_rng(1).permutation(50)
    assert fingerprint(X.iloc[order], y[order]) == expected
    assert fingerprint(X[["day", "level", "count", "number"]], pd.Series(y)) == expected
    assert fingerprint(X.astype({"level": "category", "count": "Int64"}), y[:, None]) == expected
    assert fingerprint(X.astype({"count": "category"}), list(y)) == expected
    assert fingerprint({name: X[name].to_numpy() for name in X}, y) == expected
    polars = pytest.importorskip("polars")
    assert fingerprint(polars.from_pandas(X), y) == expected


def test_every_change_is_seen(rows: Any) -> None:
    X, y = rows
    swapped = X.copy()
    swapped.loc[[0, 1], "number"] = X.loc[[1, 0], "number"].to_numpy()
    variants: list[tuple[Any, Any]] = [
        (X, y), (X.rename(columns={"count": "counts"}), y), (X, np.roll(y, 1)), (X[1:], y[1:]),
        (swapped, y), (X.replace("a", "c"), y), (pd.concat([X, X]), np.r_[y, y]),
        (X.assign(number=np.nextafter(X.number, np.inf)), y), (X.drop(columns="day"), y),
        (X.assign(number=X["count"], count=X.number), y), (X, np.column_stack([y, y])),
        (X.fillna({"number": 0.0}), y), (X.fillna({"level": "None"}), y), (X, y > 0),
    ]  # fmt: skip
    assert len({fingerprint(*variant) for variant in variants}) == len(variants)


def test_zeros_and_labels() -> None:
    X = np.array([[0.0], [1.0]])
    assert fingerprint(X, ["a", "b"]) == fingerprint(X * [[-1.0], [1.0]], ["a", "b"])
    assert fingerprint(X, ["a", "b"]) != fingerprint(X, ["b", "a"])
    structured = np.array([(1.0, True), (2.0, False)], [("t", float), ("e", bool)])
    assert fingerprint(X, structured) == fingerprint(X, np.array([[1.0, 1.0], [2.0, 0.0]]))
