"""One long string among many costs its own memory once, as a label, a group or a target."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.conftest import QUICK
from tpnn import TPNNClassifier, TPNNRegressor, fingerprint, load
from tpnn.estimators.inputs import checked_groups

N_ROWS = 1000
LONG = "x" * 100_000  # 400 MB in an array of strings of this length
MOST_BYTES = 40_000_000
X = np.random.default_rng(0).normal(size=(N_ROWS, 2))
NAMES = [LONG if i % 50 == 7 else f"group {i % 50}" for i in range(N_ROWS)]
LABELS = [LONG if i < 20 else "b" for i in range(N_ROWS)]


def polars(values: list[str]) -> Any:
    return pytest.importorskip("polars").Series(values)


def peak(use: Callable[[], Any]) -> int:
    """Most bytes that were allocated at once."""
    tracemalloc.start()
    try:
        use()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", [list, polars, lambda names: np.array(names, object)])
def test_groups(kind: Any) -> None:
    groups = kind(NAMES)
    assert peak(lambda: checked_groups(groups, N_ROWS, None)) < MOST_BYTES


@pytest.mark.parametrize("kind", [list, tuple, polars])
def test_groups_are_numbered_in_the_order_of_their_names(kind: Any) -> None:
    names = ["b", "a", "a b", "a", "a'"]
    assert np.array_equal(checked_groups(kind(names), 5, None), [3, 0, 1, 0, 2])


def test_groups_of_several_types() -> None:
    assert len(np.unique(checked_groups([1, "1", 1.5, "a"], 4, None))) == 4


@pytest.mark.parametrize("kind", [list, polars])
def test_fingerprints(kind: Any) -> None:
    y = kind(NAMES)
    assert peak(lambda: fingerprint(X, y)) < MOST_BYTES
    assert fingerprint(X, y) == fingerprint(X, np.array(NAMES, object))


@pytest.mark.parametrize("kind", [list, polars])
@pytest.mark.parametrize("class_weight", [None, "balanced", {LONG: 2.0, "b": 1.0}])
def test_labels(kind: Any, class_weight: Any, tmp_path: Any) -> None:
    y, model = kind(LABELS), TPNNClassifier(class_weight=class_weight, **QUICK)
    assert peak(lambda: model.fit(X, y)) < MOST_BYTES
    assert peak(lambda: model.score(X, y)) < MOST_BYTES
    model.model_.save(tmp_path / "saved")
    assert load(tmp_path / "saved").classes_.tolist() == model.classes_.tolist()


def test_text_is_no_number() -> None:
    def refused() -> None:
        with pytest.raises(ValueError, match=r"^y: targets must be numbers, found object"):
            TPNNRegressor(**QUICK).fit(X, NAMES)

    assert peak(refused) < MOST_BYTES
