"""Models that grow on a card have the same bits as those that grow in memory."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.conftest import told
from tests.solvers.grow.card.emulation import EmulatedCard
from tpnn import Grow, TPNNClassifier, TPNNRegressor
from tpnn.solvers.grow import solver as solver_module
from tpnn.solvers.grow.card import card as choice
from tpnn.solvers.grow.card.card import CardError, nvidia_card

N_ROWS = 300
SETTINGS: dict[str, Any] = {
    "interactions": "all", "n_bags": 2, "bands": False, "random_state": 0, "n_jobs": 1,
    "solver": Grow(max_rounds=70, patience=20),
}  # fmt: skip


@pytest.fixture(scope="module")
def rows() -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers, levels and missing values, with a triple."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({
        "a": rng.normal(size=N_ROWS), "b": rng.normal(size=N_ROWS),
        "c": rng.choice(list("uvw"), N_ROWS), "d": rng.integers(0, 3, N_ROWS),
    })  # fmt: skip
    signs = np.sign(X.a) * np.sign(X.b) * (X.d - 1)
    X.loc[rng.random(N_ROWS) < 0.1, "a"] = np.nan
    return X, (3 * signs + (X.c == "u") * X.b + 0.1 * rng.normal(size=N_ROWS)).to_numpy()


def bits(model: Any) -> list[bytes]:
    return [*(table.tobytes() for table in model.model_.tables), model.model_.intercepts.tobytes()]


def on_card(monkeypatch: pytest.MonkeyPatch, card: Any) -> None:
    monkeypatch.setattr(solver_module, "card_for", lambda device, problem: card)


@pytest.mark.parametrize(("n_classes", "order"), [(0, 3), (2, 3), (3, 2)])
def test_same_bits(
    rows: Any, card: Any, monkeypatch: pytest.MonkeyPatch, n_classes: int, order: int
) -> None:
    X, y = rows
    kind: Any = TPNNClassifier if n_classes else TPNNRegressor
    target = pd.qcut(y, n_classes, labels=False) if n_classes else y
    expected = kind(order=order, **SETTINGS).fit(X, target)
    on_card(monkeypatch, card)
    found = kind(order=order, **SETTINGS).fit(X, target)
    assert bits(found) == bits(expected)
    assert told(found)[-1]["step"] > 0  # the last that grew


def test_more_rounds_go_on_from_the_card(
    rows: Any, card: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = rows
    settings = {**SETTINGS, "order": 2}
    once = TPNNRegressor(**{**settings, "solver": Grow(max_rounds=30)}).fit(X, y)
    on_card(monkeypatch, card)
    part = TPNNRegressor(**{**settings, "solver": Grow(max_rounds=20)}).fit(X, y)
    more = TPNNRegressor(**{**settings, "solver": Grow(max_rounds=10)}).fit(X, y, start=part)
    assert bits(more) == bits(once)


def test_frozen_components_keep_the_rows_in_memory(
    rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = rows
    first = TPNNRegressor(order=1, **SETTINGS).fit(X, y)
    settings, card = {**SETTINGS, "order": 3}, EmulatedCard()
    expected = TPNNRegressor(**settings).fit(X, y, start=first, freeze=["a"])
    monkeypatch.setattr(choice, "nvidia_card", lambda: card)
    found = TPNNRegressor(device="cuda", **settings).fit(X, y, start=first, freeze=["a"])
    assert bits(found) == bits(expected)
    assert card.n_filled == 0


def test_a_card_is_taken_where_there_is_one(rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows
    small = EmulatedCard()
    small.free_bytes = 1e4
    monkeypatch.setattr(choice, "nvidia_card", lambda: small)
    monkeypatch.setattr(choice, "find_spec", lambda name: name == "cupy")
    model = TPNNRegressor(order=1, device="cuda", **SETTINGS)
    with pytest.raises(CardError, match="too little memory"):
        model.fit(X, y)
    expected = bits(model.set_params(device="cpu").fit(X, y))
    monkeypatch.setattr(choice, "FEWEST_ROWS", N_ROWS)
    assert bits(model.set_params(device="auto").fit(X, y)) == expected  # too small: in memory
    large = EmulatedCard()
    monkeypatch.setattr(choice, "nvidia_card", lambda: large)
    assert bits(model.fit(X, y)) == expected
    assert large.n_filled > 0


def test_no_card_is_said(rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows
    monkeypatch.setitem(sys.modules, "cupy", None)
    nvidia_card.cache_clear()
    with pytest.raises(CardError, match=r"^device: .* needs CuPy, .* device='cpu', which gives"):
        TPNNRegressor(device="cuda", **SETTINGS).fit(X, y)
