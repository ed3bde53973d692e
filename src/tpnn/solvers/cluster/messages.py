"""Messages between the driver and the holders of rows: steps, questions and answers.

An answer has two parts. Sums, of whole numbers, are added over the holders; largest values are
compared. Both are flat arrays, so that the answers to all questions of all bags are one object.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import Float32Array, FloatArray, RealArray
from tpnn.solvers.grow.engine import Tables

# Kinds of questions.
SLOPES = "slopes"  # compute the slopes of all rows, return the largest of every output
SUMS = "sums"  # sum residuals over the cells of a component
LARGEST_LOSS, LOSS = "largest loss", "loss"  # of the held-out rows, weighted: largest and sum


class Step(NamedTuple):
    """Values added to the cells of one component, in one output of one growth."""

    growth: int
    output: int
    component: int  # may be INTERCEPT
    values: Float32Array  # (n_cells,)


class Question(NamedTuple):
    """A question of a growth to the holders of its rows."""

    kind: str  # SLOPES, SUMS, LARGEST_LOSS or LOSS
    growth: int
    n_sums: int
    n_largest: int = 0
    output: int = 0
    component: int = 0
    with_masses: bool = False  # also sums of hessians
    scales: RealArray | None = None  # (2,) or (1,): turn values into whole numbers


class Request(NamedTuple):
    """Steps of a growth since its last request, and its questions."""

    steps: list[Step]  # applied before anything is answered
    questions: list[Question]  # all of one kind
    tables: Tables | None = None  # when slopes are asked for; kept for new holders


class Message(NamedTuple):
    """The requests of all growths, as they travel."""

    number: int  # a holder that gets a number twice answers from memory
    steps: list[Step]  # applied first
    questions: list[Question]


class Answer(NamedTuple):
    """Answer of holders to one question or to several."""

    sums: NDArray[np.int64]  # (n_sums,), added over the holders
    largest: FloatArray  # (n_largest,); the largest over the holders counts


NO_LARGEST: FloatArray = np.zeros(0)


def combined(answers: Sequence[Answer]) -> Answer:
    """Answer for the rows of several holders, from the answer of each.

    >>> parts = [Answer(np.array([1, 2]), np.array([0.5])), Answer(np.array([3, 0]), np.ones(1))]
    >>> combined(parts)
    Answer(sums=array([4, 2]), largest=array([1.]))
    """
    if len(answers) == 1:
        return answers[0]
    sums, largest = answers[0].sums.copy(), answers[0].largest.copy()  # Ray's are read-only
    for answer in answers[1:]:
        sums += answer.sums
        np.maximum(largest, answer.largest, out=largest)
    return Answer(sums, largest)


def joined(answers: Sequence[Answer]) -> Answer:
    """One answer to several questions, one after the other."""
    sums, largest = zip(*answers, strict=True)
    return Answer(np.concatenate(sums), np.concatenate(largest))


def divided(answer: Answer, questions: Sequence[Question]) -> list[Answer]:
    """Return the answers to single questions: the inverse of ``joined``."""
    ends = np.cumsum([(question.n_sums, question.n_largest) for question in questions], axis=0)
    sums = np.split(answer.sums, ends[:-1, 0])
    largest = np.split(answer.largest, ends[:-1, 1])
    return [Answer(*parts) for parts in zip(sums, largest, strict=True)]
