"""Channel: how a compiled loop sends steps and questions to a kernel, and waits for the answer."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.compile import compiled
from tpnn.solvers.grow.card.card import LARGEST_FAST_BYTES, Card, Memory
from tpnn.solvers.grow.rounds import INTERCEPT, NOTHING, begin_round, decide, grid_shape

COMPONENT_WORDS = 9  # columns, bytes of a code, strides, first entry, number of entries
CODE_BYTES, STRIDES, FIRST_ENTRY, N_ENTRIES = 3, 4, 7, 8  # places of a component's words
N_ROWS, N_COPIES = 0, 1  # first words of the structures of all visits
COPIED_BYTES, MOST_COPIES = 48 * 1024, 32  # of the sums of a block
BYTES_PER_SUM, BYTES_PER_VALUE = 8, 4


class Channel(NamedTuple):
    """How a compiled loop reaches a kernel."""

    launch: Any  # functions of the driver
    copy: Any
    wait: Any
    kernel: int
    stream: int
    n_blocks: int  # of the kernel
    n_threads: int  # of a block
    parameters: int  # address of the kernel's list of parameters, which names ``words`` alone
    steps: Any  # (2,), addresses of the last step: on the host, on the card
    words: Any  # (n_words,), the structure that the kernel reads
    numbers: Any  # (n_words,), the same memory
    last: Any  # (1,), component whose step the rows have not taken yet, or NOTHING


class OpenChannel:
    """A channel, and the memory that it names."""

    def __init__(
        self,
        card: Card,
        kernel: str,  # its name
        n_words: int,  # of its structure
        step: Any,  # (n_cells,), in memory of the host that the card can reach
    ) -> None:
        self._stream, self.step = card.new_stream(), card.filled(np.zeros_like(step))
        words = np.zeros(n_words, np.int64)
        self._parameters = np.array([words.ctypes.data])
        self._held: list[Any] = [step]
        self.channel = Channel(
            *card.functions,
            kernel=card.kernels[kernel],
            stream=int(self._stream.ptr),
            n_blocks=card.n_blocks,
            n_threads=card.n_threads,
            parameters=int(self._parameters.ctypes.data),
            steps=np.array([step.ctypes.data, self.step.address]),
            words=words,
            numbers=words.view(np.float64),
            last=np.array([NOTHING]),
        )

    def name(self, place: int, *memories: Memory | NDArray[Any]) -> None:
        """Write the addresses of memory, which is kept, to words from a place on."""
        for word, memory in enumerate(memories, start=place):
            if isinstance(memory, np.ndarray):
                self.channel.words[word] = memory.ctypes.data
            else:
                self.channel.words[word] = memory.address
        self._held += memories


@compiled()
def _n_copies(n_sums: int) -> Any:
    """Count the copies of its sums that a block has room for; 0 if they do not fit."""
    n_bytes = max(n_sums, 1) * BYTES_PER_SUM
    copies = min(COPIED_BYTES // n_bytes, MOST_COPIES)
    return max(copies, 1) if n_bytes <= LARGEST_FAST_BYTES else 0


@compiled()
def send(channel: Any, n_cells: int, n_sums: int) -> Any:
    """Run the kernel on ``words`` and wait for it; return 0 or the number of an error.

    ``n_cells`` are those of the step to be taken, which may be 0.
    """
    words, status = channel.words, 0
    words[N_COPIES] = _n_copies(n_sums)
    n_bytes = words[N_COPIES] * n_sums * BYTES_PER_SUM
    if n_cells:
        on_host, on_card = channel.steps
        status = channel.copy(on_card, on_host, BYTES_PER_VALUE * n_cells, channel.stream)
    if status == 0:
        status = channel.launch(
            channel.kernel, channel.n_blocks, 1, 1, channel.n_threads, 1, 1, n_bytes,
            channel.stream, channel.parameters, 0,
        )  # fmt: skip
    if status == 0:
        status = channel.wait(channel.stream)
    return status


# Places in the structure of a visit, after those of all visits:
WITH_MASSES, ANSWER_STRIDE, SCALES, LAST = 2, 3, 4, 6
NEXT = LAST + COMPONENT_WORDS
STEP = NEXT + COMPONENT_WORDS  # then residual, hessian, sums, answer, number of blocks done
VISIT_WORDS = STEP + 6


class Columns(NamedTuple):
    """Where the codes of the features are on the card."""

    fine: Any  # (n_features,), addresses of the columns, for main effects
    coarse: Any  # the same for pairs
    fine_bytes: int  # of one code
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
