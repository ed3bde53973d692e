"""Account: compiled loops are got once NumPy has worked as long as getting them takes."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.models import small_model
from tpnn.model import interpolate as worth
from tpnn.model.interpolate import ACCOUNT, MIN_COMPILED_ROWS, NUMPY_CELLS_PER_SECOND, Account

ROWS = 10 * MIN_COMPILED_ROWS


class Loops(SimpleNamespace):
    """Stands for the module of compiled loops, and counts how often they are got."""

    n_times = 0

    def are_kept(self) -> bool:
        return bool(self.kept)

    def warm_up(self) -> None:
        self.n_times += 1

    def announcer(self) -> None:
        """Stands for that of the other module."""


@pytest.fixture
def _numba_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", SimpleNamespace())  # type: ignore[arg-type]


def offer(monkeypatch: pytest.MonkeyPatch, kept: bool) -> Loops:
    loops = Loops(kept=kept)
    monkeypatch.setattr(worth, "import_module", lambda name: loops)
    return loops


def seconds_until_bought(account: Account) -> float:
    """Seconds of NumPy's work before the loops are used."""
    cells_per_row = int(NUMPY_CELLS_PER_SECOND / ROWS / 50)
    while account.loops(ROWS, cells_per_row) is None:
        assert account.n_cells < 100 * NUMPY_CELLS_PER_SECOND
    return account.n_cells / NUMPY_CELLS_PER_SECOND


@pytest.mark.usefixtures("_numba_is_imported")
@pytest.mark.parametrize(
    ("kept", "price"),
    [(True, worth.SECONDS_TO_LOAD), (False, worth.SECONDS_TO_LOAD + worth.SECONDS_TO_COMPILE)],
)
def test_loops_are_got_once_numpy_has_worked_as_long(
    monkeypatch: pytest.MonkeyPatch, kept: bool, price: float
) -> None:
    loops, account = offer(monkeypatch, kept), Account()
    assert seconds_until_bought(account) == pytest.approx(price, abs=0.03)
    assert account.loops(ROWS, 1) is loops
    assert loops.n_times == 1


def test_numba_that_nothing_has_imported_costs_more(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, kept=True)
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    price = worth.SECONDS_TO_LOAD + worth.SECONDS_TO_IMPORT
    assert seconds_until_bought(Account()) == pytest.approx(price, abs=0.03)


def test_small_predictions_are_neither_counted_nor_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    offer(monkeypatch, kept=True)
    account = Account()
    for _ in range(3):
        assert account.loops(MIN_COMPILED_ROWS - 1, 10**9) is None
    assert account.n_cells == 0


def test_a_single_prediction_of_50_000_rows_compiles_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With 500 pairs, and with 20 triples and 36 components of lower orders."""
    loops = offer(monkeypatch, kept=False)
    for cells_per_row in (500 * 4, 20 * 8 + 36 * 4):
        assert Account().loops(50_000, cells_per_row) is None
    assert loops.n_times == 0


@pytest.mark.parametrize("failure", [ImportError, OSError, AttributeError])
def test_numpy_does_it_where_numba_does_not_load(
    monkeypatch: pytest.MonkeyPatch, failure: type[Exception]
) -> None:
    asked: list[str] = []

    def refuse(name: str) -> Any:
        asked.append(name)
        raise failure(name)

    X = np.random.default_rng(0).normal(size=(300, 3))
    expected = small_model(2).raw_scores(X)
    monkeypatch.setattr(worth, "import_module", refuse)
    monkeypatch.setattr(worth, "MIN_COMPILED_ROWS", 0)
    monkeypatch.setattr(worth, "NUMPY_CELLS_PER_SECOND", 1)
    for name, value in vars(Account()).items():
        monkeypatch.setattr(ACCOUNT, name, value)
    for _ in range(2):
        assert np.array_equal(small_model(2).raw_scores(X), expected)
    assert len(asked) == 1
