"""Scrambled bits are those of splitmix64, for numbers and for arrays."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tpnn.solvers.problem.rows import scrambled

MASK = (1 << 64) - 1
STEP = 0x9E3779B97F4A7C15
# The first numbers of splitmix64 from the seed 1234567, as published with the generator.
PUBLISHED = (6457827717110365317, 3203168211198807973, 9817491932198370423)


def restated(bits: int) -> int:
    """The finaliser in whole numbers of any size."""
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & MASK
    return bits ^ (bits >> 31)


def test_the_published_sequence() -> None:
    states = [(1234567 + step * STEP) & MASK for step in (1, 2, 3)]
    assert tuple(int(scrambled(np.uint64(state))) for state in states) == PUBLISHED


@given(st.lists(st.integers(0, MASK), min_size=1, max_size=20))
def test_an_array_is_scrambled_number_by_number(values: list[int]) -> None:
    array = np.array(values, np.uint64)
    assert scrambled(array).tolist() == [restated(value) for value in values]


def test_different_bits_stay_different() -> None:
    assert len(np.unique(scrambled(np.arange(100_000, dtype=np.uint64)))) == 100_000
