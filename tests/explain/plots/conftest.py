"""Every figure of a test is closed after it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from matplotlib import pyplot


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    pyplot.close("all")
