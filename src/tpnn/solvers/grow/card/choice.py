"""Whether a problem grows on a card."""

from __future__ import annotations

from importlib.util import find_spec

from tpnn.solvers.grow.card.card import Card, CardError, nvidia_card
from tpnn.solvers.problem.problem import Problem

FEWEST_ROWS = 200_000  # from which on "auto" looks for a card
BYTES_PER_ROW = 44  # of one output of one bag: two slopes, sides and, for triples, in double


def card_for(device: str, problem: Problem) -> Card | None:
    """Card on which a problem grows, or None for the memory of the host.

    "cuda" raises CardError where no card can be used. "auto" then stays in memory, as it does
    without CuPy and with few rows: the model is the same. So it is with frozen components, whose
    parts are taken out of steps in memory.
    """
    n_rows, has_frozen = len(problem.rows.y), problem.base is not None and problem.base.frozen
    is_small = n_rows < FEWEST_ROWS or not find_spec("cupy")
    if device == "cpu" or has_frozen or (device == "auto" and is_small):
        return None
    try:
        card = nvidia_card()
        card.require(bytes_needed(problem))
    except CardError:
        if device == "cuda":
            raise
        return None
    return card


def bytes_needed(problem: Problem) -> float:
    """Memory of the card that the rows of a problem need."""
    codes = sum(part.nbytes for part in problem.codes.by_order.values())
    n_lanes = problem.n_bags * problem.objective.n_outputs
    return float(codes + BYTES_PER_ROW * n_lanes * len(problem.rows.y))
