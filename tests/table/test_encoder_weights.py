"""Weights that stand for whole numbers of rows."""

from __future__ import annotations

from math import gcd

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpnn.table.encoder import whole_counts


@given(st.lists(st.integers(0, 1000), min_size=1).filter(any), st.integers(1, 50))
def test_counts_have_no_common_divisor(counts: list[int], unit: int) -> None:
    found = whole_counts(np.array(counts, float) * unit)
    assert found is not None
    assert gcd(*found.astype(int).tolist()) == 1
    assert np.array_equal(found * gcd(*counts), counts)


@pytest.mark.parametrize("weights", [[0.5, 1.0], [1.0, np.nextafter(2.0, 3.0)], [1.0, 2.0**53]])
def test_other_weights_have_no_counts(weights: list[float]) -> None:
    assert whole_counts(np.array(weights)) is None
