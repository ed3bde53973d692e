"""Rounds of boosting with rows on a card: the loop of ``tpnn.solvers.grow.rounds``.

One kernel takes the last step and answers the next question. The loop is compiled and runs without
the interpreter lock, so that every bag has a thread of its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tpnn._utils.compile import compiled
from tpnn.solvers.grow.card.channel import CODE_BYTES, COMPONENT_WORDS, N_ENTRIES, STRIDES, send
from tpnn.solvers.grow.rounds import INTERCEPT, NOTHING, begin_round, decide, grid_shape

# Places in the structure of a visit, after those of all visits:
WITH_MASSES, ANSWER_STRIDE, SCALES, LAST = 2, 3, 4, 6
NEXT = LAST + COMPONENT_WORDS
STEP = NEXT + COMPONENT_WORDS  # then residual, hessian, sums, answer, number of blocks done
VISIT_WORDS = STEP + 6


class Columns(NamedTuple):
    """Where the codes of the features are on the card.

    Parameters
    ----------
    fine, coarse : array of shape (n_features,), int64
        Addresses of the columns, for main effects and for pairs.
    fine_bytes, coarse_bytes : int
        Bytes of a code of each.
    """

    fine: Any
    coarse: Any
    fine_bytes: int
    coarse_bytes: int


@compiled()
def _describe(words: Any, columns: Any, plan: Any, component: int) -> None:
    """Describe a component to the kernel."""
    words[:] = 0
    if component == NOTHING:
        return
    n_pairs, (m, k) = len(plan.pairs), grid_shape(plan, component)
    words[STRIDES], words[STRIDES + 1], words[N_ENTRIES] = k, 1, m * k
    if component >= n_pairs:
        words[0], words[CODE_BYTES] = columns.fine[component - n_pairs], columns.fine_bytes
    elif component != INTERCEPT:
        a, b = plan.pairs[component]
        words[0], words[1] = columns.coarse[a], columns.coarse[b]
        words[CODE_BYTES] = columns.coarse_bytes


@compiled()
def ask(channel: Any, columns: Any, plan: Any, asked: Any, scales: Any) -> Any:
    """Take the last step, then sum over the cells of the component that is asked about."""
    words = channel.words
    last, following = words[LAST:NEXT], words[NEXT:STEP]
    _describe(last, columns, plan, channel.last[0])
    _describe(following, columns, plan, asked[0])
    words[WITH_MASSES] = asked[1]
    channel.numbers[SCALES], channel.numbers[SCALES + 1] = scales[0], scales[1]
    status = send(channel, last[N_ENTRIES], following[N_ENTRIES] * (1 + asked[1]))
    channel.last[0] = asked[0]
    return status


@compiled()
def grow_rounds_on_card(
    channel: Any, columns: Any, growth: Any, plan: Any, scales: Any, n_rounds: int, with_pairs: bool
) -> Any:
    """Run some rounds; return 0 or the number of an error. The last step is still to be taken."""
    for _ in range(n_rounds):
        begin_round(growth, plan, with_pairs)
        while growth.asked[0] != NOTHING:
            status = ask(channel, columns, plan, growth.asked, scales)
            if status:
                return status
            decide(growth, plan, scales, with_pairs)
    return 0
