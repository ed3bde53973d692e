"""What tests of several ways to predict share."""

from __future__ import annotations

import pytest

from tpnn.model import interpolate_numba
from tpnn.model.interpolate import ACCOUNT


@pytest.fixture
def all_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Predictions of many rows use the compiled loops, whatever they cost."""
    monkeypatch.setattr(ACCOUNT, "module", interpolate_numba)
    monkeypatch.setattr(ACCOUNT, "_is_closed", False)
