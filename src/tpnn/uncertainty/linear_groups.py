"""Groups: components whose posteriors are found together, so that no matrix gets too large.

Components of one group are judged given each other, and given the means of all others. The main
effects belong to every group, as they share features with all the interactions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MOST_FUNCTIONS = 800  # of a group; of several outputs fewer, so that the time is that of two
SHARED_PART = 0.5  # of a group that main effects may take in all groups


def groups(
    sizes: Sequence[int], orders: Sequence[int], strengths: Sequence[float], most: int
) -> list[list[int]]:
    """Numbers of the components of each group, with about ``most`` functions at most.

    Each group gets strong and weak interactions, so that the variances of a kind are pooled over
    the same mixture. A component takes its posterior from the first group that has it.

    >>> groups([2, 2, 3, 3, 3, 3], [1, 1, 2, 2, 2, 2], [9, 9, 1, 3, 2, 4], most=10)
    [[0, 1, 5, 4], [0, 1, 3, 2]]
    """
    shared = [number for number, order in enumerate(orders) if order == 1]
    if sum(sizes[number] for number in shared) > SHARED_PART * most:
        shared = []
    others = [number for number in range(len(sizes)) if number not in set(shared)]
    others.sort(key=lambda number: (-strengths[number], number))
    room = most - sum(sizes[number] for number in shared)
    n_groups = max(-(-sum(sizes[number] for number in others) // room), 1)
    found, taken = [list(shared) for _ in range(n_groups)], np.zeros(n_groups, np.intp)
    for number in others:
        emptiest = int(taken.argmin())
        found[emptiest].append(number)
        taken[emptiest] += sizes[number]
    return found


def most_functions(n_outputs: int) -> int:
    """Largest number of functions of a group."""
    return int(MOST_FUNCTIONS / np.sqrt(n_outputs))
