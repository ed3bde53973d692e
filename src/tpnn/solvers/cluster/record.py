"""Record: what the driver keeps so that any holder can be replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tpnn.solvers.cluster.holder import Beginning, PackedStep, Session
from tpnn.solvers.cluster.messages import Message, Request


class Record:
    """Grids of values at which slopes were last computed, and all steps since then.

    Parameters
    ----------
    session : Session
        The growths, as they began.
    """

    def __init__(self, session: Session) -> None:
        self._session, self._growths, self._number = session, dict(session.growths), -1

    def message(self, requests: Mapping[int, Request]) -> Message:
        """Next message, with the requests of all growths that still grow."""
        self._number += 1
        steps = [step for request in requests.values() for step in request.steps]
        questions = [asked for request in requests.values() for asked in request.questions]
        return Message(self._number, steps, questions)

    def add(self, requests: Mapping[int, Request], packed: Sequence[PackedStep]) -> None:
        """Note that requests, with their steps packed, are answered; other growths have ended."""
        self._growths = {
            number: self._growths[number]
            if request.tables is None
            else replace(self._growths[number], tables=request.tables, steps=[])
            for number, request in requests.items()
        }
        for step in packed:
            steps = self._growths[step.growth].steps
            if steps is not None and requests[step.growth].tables is None:
                steps.append(step)

    def growth(self, number: int) -> Beginning:
        """Where a holder begins that takes part in a growth from now on."""
        return self._growths[number]

    def session(self) -> Session:
        """Session in which a new holder goes on where the others are."""
        return replace(self._session, growths=self._growths)
