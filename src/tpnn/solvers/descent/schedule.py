"""Schedule: how fast and how long to train, on a CPU and on a card alike."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from tpnn._utils.arrays import BoolArray, Float32Array
from tpnn.solvers.descent.networks import ComponentNetwork
from tpnn.solvers.solution import EarlyStopping, Event, Limits, Progress

TIE_SHARE = 1e-6  # relative difference of losses below which rounding must not decide
PROGRESS_SHARE = 1e-3  # relative fall of the held-out loss that counts as progress
HALVING_STEP = 400  # the learning rate at step t is divided by 1 + t / HALVING_STEP


@dataclass(frozen=True)
class Schedule:
    """How fast and how long to train."""

    learning_rate: float  # of Adam
    l2: float  # ridge penalty on beta
    max_steps: int
    patience: int  # steps without a lower held-out loss after which a bag stops

    def rate(self, step: Any) -> Any:
        """Learning rate at a step, counted from 0."""
        return self.learning_rate / (1 + step / HALVING_STEP)

    def stopping(self, n_bags: int) -> EarlyStopping:
        """Early stopping for ``n_bags`` bags."""
        return EarlyStopping(n_bags, self.patience, tolerance=PROGRESS_SHARE, tie=TIE_SHARE)


class TrainingLog:
    """Events of a training run, and whether it is over, on a CPU and on a card alike."""

    def __init__(self, schedule: Schedule, limits: Limits, progress: Progress, n_bags: int) -> None:
        self.schedule, self.limits, self.progress = schedule, limits, progress
        self.stopping = schedule.stopping(n_bags)
        self.events: list[Event] = []
        self.last = time.monotonic()
        progress.begin(schedule.max_steps + 1, "step")  # the first one is the start

    @property
    def step(self) -> int:
        """Number of the last step, counted from 0."""
        return len(self.events) - 1

    def record(self, training: Float32Array, validation: Float32Array) -> BoolArray:
        """Record the losses (n_bags,) of the next step; return which bags are at their best."""
        last, self.last = self.last, time.monotonic()
        event = Event(
            stage="descent",
            step=len(self.events),
            training_loss=float(training.mean()),
            validation_loss=float(validation.mean()),
            seconds=self.last - last,
        )
        self.events.append(event)
        self.progress.advance(event)
        return self.stopping.update(validation, self.step)

    def must_stop(self) -> bool:
        """Whether every bag has stalled, or the steps or the time are used up."""
        over = self.step >= self.schedule.max_steps
        if self.stopping.has_stalled or over:
            return True
        if is_cut := self.limits.are_reached():
            self.events[-1] = replace(self.events[-1], note="until the time limit")
        return is_cut


def make_adam(
    networks: Sequence[ComponentNetwork], l2: float, rate: torch.Tensor | None = None
) -> torch.optim.Adam:
    """Adam for all parameters of some networks, with a ridge penalty on beta only.

    If the learning rate is a tensor on a card, it can change while a recorded graph is replayed.
    """
    parameters = [p for network in networks for p in network.parameters()]
    betas = {id(network.coefficients) for network in networks}
    groups: list[dict[str, Any]] = [
        {"params": [p for p in parameters if id(p) in betas], "weight_decay": l2},
        {"params": [p for p in parameters if id(p) not in betas]},
    ]
    first = 1e-3 if rate is None else rate
    return torch.optim.Adam(groups, first, foreach=False, capturable=rate is not None)
