"""Gradient training on the CPU: full-batch Adam with early stopping for each bag.

One step: parameters -> grids of values (torch) -> raw scores of all rows (gather) -> loss and
gradient of each row -> histograms of the gradient (the adjoint of the gather) -> gradient of the
parameters (torch). The held-out loss of every bag comes out of the same pass over the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import torch

from tpnn._utils.arrays import BoolArray, Float32Array, RealArray
from tpnn._utils.threads import SharedLimit, Workers, split
from tpnn.solvers.descent.networks import (
    ComponentNetwork,
    NetworkSettings,
    make_networks,
    solution_of,
)
from tpnn.solvers.descent.schedule import Schedule, TrainingLog, make_adam
from tpnn.solvers.problem.coded import CodedComponents
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.solution import Event, Limits, Progress, Solution

ROWS_PER_TASK = 4096  # the sums of the tasks are added in order, whatever the number of threads


class _Part:
    """Some components of one order: network, optimiser, best parameters and grids of values."""

    def __init__(
        self,
        network: ComponentNetwork,
        coded: CodedComponents,
        first: int,
        tables: Float32Array,
        l2: float,
    ) -> None:
        self.network, self.coded = network, coded
        self.first, self.last = first, first + network.n_components
        self.tables = torch.from_numpy(tables[self.first : self.last])  # what the gather reads
        self.best = [parameter.detach().clone() for parameter in network.parameters()]
        self.optimiser = make_adam([network], l2)

    def publish(self) -> None:
        """Compute the grids of the current parameters."""
        self.output = self.network()
        self.tables.copy_(self.output.detach())

    def keep(self, improved: BoolArray) -> None:
        """Remember the current parameters of the bags that improved."""
        bags = torch.from_numpy(improved)
        for best, parameter in zip(self.best, self.network.parameters(), strict=True):
            best[bags] = parameter.detach()[bags]

    def advance(self, gradient: Float32Array, learning_rate: float) -> None:
        """Take one step of Adam, from the gradient (n_rows, n_bags) in the raw scores."""
        sums = self.coded.histogram(gradient, self.first, self.last)
        self.network.zero_grad()
        self.output.backward(torch.tensor(sums))  # a copy, whose alignment is always the same
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate
        self.optimiser.step()
        self.network.bind()
        self.publish()

    def restore(self) -> None:
        """Restore the best parameters, in double precision."""
        with torch.no_grad():
            for best, parameter in zip(self.best, self.network.parameters(), strict=True):
                parameter.copy_(best)
        self.network.double()


def card_is_present(device: str) -> bool:
    """Whether there is an NVIDIA card to train on; raise if "cuda" is requested without one."""
    present = torch.cuda.is_available()
    if device == "cuda" and not present:
        raise ValueError(
            "device: 'cuda' needs an NVIDIA card and a CUDA build of torch, found none "
            f"(torch {torch.__version__}). Pass device='cpu'."
        )
    return present


def _one_thread() -> None:
    """Keep torch on the calling thread: its own pool gives different bits from run to run."""
    torch.set_num_threads(1)


def _limit_torch() -> Callable[[], object]:
    before = torch.get_num_threads()
    _one_thread()
    return lambda: torch.set_num_threads(before)


# Workers do the parallel work; a second pool of spinning threads would compete for the cores.
ONE_TORCH_THREAD = SharedLimit(_limit_torch)


class GradientTraining:
    """Trains the networks of all orders on one problem."""

    def __init__(
        self,
        problem: Problem,
        settings: NetworkSettings,
        schedule: Schedule,
        limits: Limits,
    ) -> None:
        self.problem, self.settings = problem, settings
        self.schedule, self.limits = schedule, limits
        self.coded, self.rows, self.objective = problem.coded, problem.rows, problem.objective
        self.n_rows, self.n_bags = self.rows.training.shape
        self.n_lanes = self.n_bags * self.objective.n_outputs  # a lane is one output of one bag
        self.training = np.repeat(self.rows.training, self.objective.n_outputs, axis=1)
        self.tables = [np.empty((*order.shape, self.n_lanes), np.float32) for order in self.coded]
        self.parts = [
            _Part(network, order, first, tables, schedule.l2)
            for order, tables in zip(self.coded, self.tables, strict=True)
            for network, first in _with_offsets(
                make_networks(problem, order.features, settings, self.n_lanes)
            )
        ]
        self.gradient = np.empty_like(self.training)
        self.intercepts = np.zeros(self.n_lanes, np.float32)

    def fit(self, progress: Progress) -> Solution:
        """Train from the best constants until every bag has stopped improving."""
        log = TrainingLog(self.schedule, self.limits, progress, self.n_bags)
        self.intercepts = np.tile(self.problem.best_constant, self.n_bags).astype(np.float32)
        best_intercepts = self.intercepts
        with ONE_TORCH_THREAD, self.limits.workers(_one_thread) as workers:
            workers.map(_Part.publish, self.parts)
            while True:
                training, validation, newton = self._evaluate(workers)
                improved = log.record(training, validation)
                lanes = np.repeat(improved, self.objective.n_outputs)
                best_intercepts = np.where(lanes, self.intercepts, best_intercepts)
                for part in self.parts:
                    part.keep(lanes)
                if log.must_stop():
                    return self._solution(best_intercepts, log.events)
                # NOTE[DIFF] there is an intercept; its Newton step needs no learning rate.
                self.intercepts = self.intercepts - newton
                rate = self.schedule.rate(log.step)
                step = partial(_Part.advance, gradient=self.gradient, learning_rate=rate)
                workers.map(step, self.parts)

    def _evaluate(self, workers: Workers) -> tuple[Float32Array, Float32Array, Float32Array]:
        """Training and held-out loss (n_bags,), and the Newton step of the intercepts (n_lanes,).

        The derivative of the training loss in the raw scores is stored in ``self.gradient``.
        """

        def score(task: tuple[int, int]) -> tuple[Float32Array, Float32Array]:
            rows = slice(*task)
            raw = self.rows.offset[rows] + self.intercepts
            for order, tables in zip(self.coded, self.tables, strict=True):
                order.gather(tables, task[0], raw)
            return self._losses_and_slopes(rows, raw)

        most = self.n_rows if self.objective.couples_rows else ROWS_PER_TASK
        sums = workers.map(score, split(self.n_rows, most))
        losses = np.sum([loss for loss, _ in sums], axis=0)
        slopes = np.sum([slope for _, slope in sums], axis=0)
        return losses[0], losses[1], slopes[0] / slopes[1]

    def _losses_and_slopes(
        self, rows: slice, raw: Float32Array
    ) -> tuple[Float32Array, Float32Array]:
        """Sum losses (2, n_bags) and both derivatives (2, n_lanes) over some rows."""
        y, weights = self.rows.y[rows], self.training[rows]
        losses = [
            (self.objective.losses(y, raw, side[rows]) * side[rows]).sum(0)
            for side in (self.rows.training, self.rows.validation)
        ]
        gradient, hessian = self.objective.slopes(y, raw, self.rows.training[rows])
        self.gradient[rows] = gradient * weights
        return np.stack(losses), np.stack([self.gradient[rows].sum(0), (hessian * weights).sum(0)])

    def _solution(self, intercepts: RealArray, events: list[Event]) -> Solution:
        for part in self.parts:
            part.restore()
        networks = [part.network for part in self.parts]
        return solution_of(self.problem, networks, intercepts, events, self.settings)


def _with_offsets(
    networks: Sequence[ComponentNetwork],
) -> Iterator[tuple[ComponentNetwork, int]]:
    first = 0
    for network in networks:
        yield network, first
        first += network.n_components
