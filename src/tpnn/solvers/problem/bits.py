"""Scrambled bits, from which row keys, splits into bags and random cuts are made."""

from __future__ import annotations

from typing import Any

import numpy as np

from tpnn._utils.compile import compiled


@compiled()
def scrambled(bits: Any) -> Any:
    """Scramble 64 bits, or an array of them (the finaliser of splitmix64).

    >>> hex(scrambled(np.uint64(0x9E3779B97F4A7C15)))
    '0xe220a8397b1dcdaf'
    """
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
