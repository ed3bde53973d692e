"""Cards to test with: one that is emulated and, where there is one, a real one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.solvers.grow.card.emulation import EmulatedCard
from tpnn.solvers.grow.card.card import CardError, nvidia_card


@pytest.fixture(params=["emulated", "nvidia"])
def card(request: pytest.FixtureRequest) -> Any:
    if request.param == "emulated":
        return EmulatedCard()
    try:
        return nvidia_card()
    except CardError as error:
        pytest.skip(str(error))
