"""What travels between the driver and the holders of rows: steps and questions, and answers.

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

SLOPES, SUMS, LARGEST_LOSS, LOSS = "slopes", "sums", "largest loss", "loss"  # kinds of questions


class Step(NamedTuple):
    """What was added to the cells of a component of one output of one growth.

    Parameters
    ----------
    growth, output, component : int
        Their numbers; the component may be the intercept.
    values : array of shape (n_cells,)
        The step.
    """

    growth: int
    output: int
    component: int
    values: Float32Array


class Question(NamedTuple):
    """What a growth asks of the holders of its rows.

    Parameters
    ----------
    kind : {SLOPES, SUMS, LARGEST_LOSS, LOSS}
        To compute the slopes of all rows and tell the largest of every output; sums of residuals
        over the cells of a component; the largest weighted loss of a held-out row; the sum of them.
    growth, output, component : int
        Their numbers.
    with_masses : bool
        Whether sums of hessians are asked for too.
    scales : array of shape (2,) or (1,)
        What turns values into whole numbers.
    n_sums, n_largest : int
        Sizes of the two parts of the answer.
    """

    kind: str
    growth: int
    n_sums: int
    n_largest: int = 0
    output: int = 0
    component: int = 0
    with_masses: bool = False
    scales: RealArray | None = None


class Request(NamedTuple):
    """Steps that a growth has taken since it last asked, and what it asks now.

    Parameters
    ----------
    steps : list of Step
        Applied before anything is answered.
    questions : list of Question
        All of one kind.
    tables : Tables, optional
        Grids of values when slopes are asked for; they stay with the driver, who sends them to a
        holder that replaces another.
    """

    steps: list[Step]
    questions: list[Question]
    tables: Tables | None = None


class Message(NamedTuple):
    """The requests of all growths, as they travel.

    Parameters
    ----------
    number : int
        Counts the messages of a session: a holder that gets one twice answers from memory.
    steps : list of Step
        Applied first.
    questions : list of Question
        Answered then.
    """

    number: int
    steps: list[Step]
    questions: list[Question]


class Answer(NamedTuple):
    """What holders answer to one question or to several.

    Parameters
    ----------
    sums : array of shape (n_sums,)
        Whole numbers, to be added over the holders.
    largest : array of shape (n_largest,)
        Values of which the largest over the holders counts.
    """

    sums: NDArray[np.int64]
    largest: FloatArray


NO_LARGEST: FloatArray = np.zeros(0)


def combined(answers: Sequence[Answer]) -> Answer:
    """Answer for the rows of several holders, from theirs.

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
