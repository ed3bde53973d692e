"""Gradient solver: full-batch Adam on the tables, early stopping for each bag.

One step: parameters -> tables (torch) -> raw scores of all rows (gather) -> loss and gradient per
row -> histograms of the gradient (its adjoint) -> back through the tables to the parameters. The
validation loss of every bag comes out of the same pass over the rows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from tpnn._threads import SharedLimit, Workers, split
from tpnn._typing import BoolArray, Float32Array, FloatArray, IntArray
from tpnn.anova.measure import Marginal
from tpnn.descent.basis import Activation, Scale
from tpnn.descent.network import ComponentNetwork, start_centres
from tpnn.loss.losses import Objective
from tpnn.problem.coded import CodedComponents
from tpnn.problem.rows import TrainingRows
from tpnn.problem.solution import Progress, Solution

PART_SIZE = 400_000  # basis values per network: several networks, so that all cores have work
TIE = 1e-6  # losses closer than this are equal, so that rounding does not choose the best step
TOLERANCE = 1e-3  # relative fall of the validation loss that counts as progress
HALVING_STEP = 400  # the learning rate at step t is divided by 1 + t / HALVING_STEP
ROWS_PER_TASK = 4096  # sums over this many rows are added up in order, whatever the threads


@dataclass(frozen=True)
class Schedule:
    """How fast and how long to train.

    Parameters
    ----------
    learning_rate : float
        Step size of Adam.
    l2 : float
        Ridge penalty on beta.
    max_steps, patience : int
        Steps at most, and steps without a better validation loss after which a bag is done.
    deadline : float
        Time of ``time.monotonic`` at which to stop with the best so far.
    """

    learning_rate: float
    l2: float
    max_steps: int
    patience: int
    deadline: float


class Stopping:
    """Keeps the records of a run and says when it is over.

    Parameters
    ----------
    n_bags : int
        Number of bags.
    schedule : Schedule
        Its limits.
    """

    def __init__(self, n_bags: int, schedule: Schedule) -> None:
        self.schedule = schedule
        self.mark = np.full(n_bags, np.inf)
        self.last_fall = np.zeros(n_bags, int)
        self.step = -1

    def record(
        self, training: Float32Array, validation: Float32Array, seconds: float
    ) -> dict[str, float]:
        """Take note of the losses (n_bags,) of the next step and return its line of the history."""
        self.step += 1
        fell = validation < self.mark * (1 - TOLERANCE)
        self.mark = np.where(fell, validation, self.mark)
        self.last_fall[fell] = self.step
        return {
            "step": self.step,
            "training_loss": float(training.mean()),
            "validation_loss": float(validation.mean()),
            "seconds": seconds,
        }

    def must_stop(self) -> bool:
        """Whether every bag has stalled, or steps or time are used up."""
        stalled = bool((self.step - self.last_fall >= self.schedule.patience).all())
        over = self.step >= self.schedule.max_steps
        return stalled or over or time.monotonic() >= self.schedule.deadline


class NetworkSettings(NamedTuple):
    """Kind and number of the bases.

    Parameters
    ----------
    n_bases : dict from order to int
        Number of bases K of each component.
    shared_bases, activation, scale
        As in ``ComponentNetwork``.
    signs : dict from feature to float
        1 or -1 for main effects that may only increase or decrease.
    """

    n_bases: dict[int, int]
    shared_bases: bool
    activation: Activation
    scale: Scale
    signs: Mapping[int, float] = MappingProxyType({})


def make_networks(
    marginal: Marginal,
    features: IntArray,
    settings: NetworkSettings,
    n_bags: int,
    seed: int,
    part_size: int = PART_SIZE,
) -> list[ComponentNetwork]:
    """Networks that together hold the components of one order; shared bases need a single one."""
    count, order = features.shape
    n_bases, shared = settings.n_bases[order], settings.shared_bases
    centres = start_centres(count, order, n_bases, n_bags, shared, seed + order)
    most = count if shared else max(1, part_size // (n_bags * order * marginal.n_nodes * n_bases))
    return [
        ComponentNetwork(
            marginal,
            torch.as_tensor(features[first:last]),
            centres if shared else centres[:, first:last].clone(),
            shared,
            settings.activation,
            settings.scale,
            _signs(features[first:last], settings.signs),
        )
        for first, last in split(count, most)
    ]


def _signs(features: IntArray, signs: Mapping[int, float]) -> torch.Tensor | None:
    """Sign of each component, None where none is bound."""
    if features.shape[1] > 1 or not signs:
        return None
    return torch.tensor([signs.get(feature, 0.0) for feature in features[:, 0].tolist()])


class Adam:
    """Adam with its usual constants (torch's own takes seconds to import).

    Parameters
    ----------
    parameters : list of tensor
        What to update, from the gradients that autograd leaves on them.
    """

    def __init__(self, parameters: list[torch.nn.Parameter]) -> None:
        self.parameters = parameters
        self.means = [torch.zeros_like(parameter) for parameter in parameters]
        self.squares = [torch.zeros_like(parameter) for parameter in parameters]
        self.steps = 0

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        """Move every parameter against its gradient."""
        self.steps += 1
        rate = learning_rate / (1 - 0.9**self.steps)
        correction = math.sqrt(1 - 0.999**self.steps)
        for parameter, mean, square in zip(self.parameters, self.means, self.squares, strict=True):
            assert parameter.grad is not None
            mean.lerp_(parameter.grad, 0.1)
            square.mul_(0.999).addcmul_(parameter.grad, parameter.grad, value=0.001)
            parameter.addcdiv_(mean, square.sqrt().div_(correction).add_(1e-8), value=-rate)


class _Part:
    """Some components of one order: network, optimiser, best parameters, place in the tables."""

    def __init__(
        self,
        network: ComponentNetwork,
        coded: CodedComponents,
        first: int,
        tables: Float32Array,
        l2: float,
    ) -> None:
        self.network, self.coded, self.l2 = network, coded, l2
        self.first, self.last = first, first + network.n_components
        self.tables = torch.from_numpy(tables[self.first : self.last])  # what the gather reads
        self.best = [parameter.detach().clone() for parameter in network.parameters()]
        self.optimiser = Adam(list(network.parameters()))

    def publish(self) -> None:
        """Compute the tables of the current parameters."""
        self.output = self.network()
        self.tables.copy_(self.output.detach())

    def keep(self, improved: BoolArray) -> None:
        """Remember the current parameters of the bags that improved."""
        bags = torch.from_numpy(improved)
        for best, parameter in zip(self.best, self.network.parameters(), strict=True):
            best[bags] = parameter.detach()[bags]

    def advance(self, gradient: Float32Array, learning_rate: float) -> None:
        """One Adam step down the gradient (n_rows, n_bags) of the loss in the raw scores."""
        sums = self.coded.histogram(gradient, self.first, self.last)
        self.network.zero_grad()
        self.output.backward(torch.tensor(sums))  # copied, so that its alignment is always the same
        coefficients = self.network.coefficients
        assert coefficients.grad is not None
        coefficients.grad.add_(coefficients.detach(), alpha=self.l2)
        self.optimiser.step(learning_rate)
        self.network.bind()
        self.publish()

    def restore(self) -> None:
        """Go back to the best parameters, in double precision."""
        with torch.no_grad():
            for best, parameter in zip(self.best, self.network.parameters(), strict=True):
                parameter.copy_(best)
        self.network.double()


def use_card(device: str) -> bool:
    """Whether to train on an NVIDIA card; asking for one that is not there is an error."""
    present = torch.cuda.is_available()
    if device == "cuda" and not present:
        raise ValueError(
            "device: 'cuda' needs an NVIDIA card and a CUDA build of torch, found none "
            f"(torch {torch.__version__}). Pass device='cpu'."
        )
    return present and device != "cpu"


def _one_thread() -> None:
    """Keep torch to the calling thread: a pool of its own gives other bits from run to run."""
    torch.set_num_threads(1)


def _limit_torch() -> Callable[[], object]:
    before = torch.get_num_threads()
    _one_thread()
    return lambda: torch.set_num_threads(before)


# The parallel work is that of Workers; a second pool of spinning threads would fight for the cores.
ONE_TORCH_THREAD = SharedLimit(_limit_torch)


class GradientSolver:
    """Trains the networks of all orders on one set of rows.

    Parameters
    ----------
    coded : list of CodedComponents
        For each order, all its components over the training rows.
    marginals : list of Marginal
        For each order, the measure of every feature.
    settings : NetworkSettings
        Kind and number of the bases.
    rows : TrainingRows
        Targets and bag weights.
    objective : Objective
        The loss.
    schedule : Schedule
        Step size and stopping.
    seed : int
        Seed of the starting b.
    """

    def __init__(
        self,
        coded: Sequence[CodedComponents],
        marginals: Sequence[Marginal],
        settings: NetworkSettings,
        rows: TrainingRows,
        objective: Objective,
        schedule: Schedule,
        seed: int,
    ) -> None:
        self.coded, self.rows, self.objective, self.schedule = coded, rows, objective, schedule
        self.n_rows, self.n_bags = rows.training.shape
        self.n_lanes = self.n_bags * objective.n_outputs  # a lane is one output of one bag
        self.training = np.repeat(rows.training, objective.n_outputs, axis=1)
        self.tables = [np.empty((*order.shape, self.n_lanes), np.float32) for order in coded]
        self.parts = [
            _Part(network, order, first, tables, schedule.l2)
            for order, marginal, tables in zip(coded, marginals, self.tables, strict=True)
            for network, first in _with_offsets(
                make_networks(marginal, order.features, settings, self.n_lanes, seed)
            )
        ]
        self.gradient = np.empty_like(self.training)
        self.intercepts = np.zeros(self.n_lanes, np.float32)

    def fit(self, start: FloatArray, progress: Progress) -> Solution:
        """Train from the constants ``start`` (K,) until every bag has stopped improving."""
        history: list[dict[str, float]] = []
        began = time.monotonic()
        best = np.full(self.n_bags, np.inf)
        self.intercepts = np.tile(start, self.n_bags).astype(np.float32)
        best_intercepts = self.intercepts
        stopping = Stopping(self.n_bags, self.schedule)
        with ONE_TORCH_THREAD, Workers(prepare=_one_thread) as workers:
            workers.map(_Part.publish, self.parts)
            while True:
                training, validation, newton = self._evaluate(workers)
                improved = validation < best * (1 - TIE)
                best = np.where(improved, validation, best)
                lanes = np.repeat(improved, self.objective.n_outputs)
                best_intercepts = np.where(lanes, self.intercepts, best_intercepts)
                for part in self.parts:
                    part.keep(lanes)
                history.append(stopping.record(training, validation, time.monotonic() - began))
                progress(history[-1])
                if stopping.must_stop():
                    return self._solution(best_intercepts, history)
                # NOTE[DIFF] there is an intercept; a Newton step needs no step size of its own.
                self.intercepts = self.intercepts - newton
                rate = self.schedule.learning_rate / (1 + stopping.step / HALVING_STEP)
                step = partial(_Part.advance, gradient=self.gradient, learning_rate=rate)
                workers.map(step, self.parts)

    def _evaluate(self, workers: Workers) -> tuple[Float32Array, Float32Array, Float32Array]:
        """Training and validation loss (n_bags,), and the Newton step of the intercepts (n_lanes,).

        Leaves the training loss's derivative in the raw scores in ``self.gradient``.
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
        """Add up losses (2, n_bags) and both derivatives (2, n_lanes) of some rows."""
        y, weights = self.rows.y[rows], self.training[rows]
        losses = [
            (self.objective.losses(y, raw, side[rows]) * side[rows]).sum(0)
            for side in (self.rows.training, self.rows.validation)
        ]
        gradient, hessian = self.objective.slopes(y, raw, self.rows.training[rows])
        self.gradient[rows] = gradient * weights
        return np.stack(losses), np.stack([self.gradient[rows].sum(0), (hessian * weights).sum(0)])

    def _solution(
        self, intercepts: NDArray[np.floating], history: list[dict[str, float]]
    ) -> Solution:
        tables, terms = [], []
        for part in self.parts:
            part.restore()
            with torch.no_grad():
                values = part.network().numpy()  # (C, cells, B)
            shape = (part.coded.n_nodes,) * part.coded.features.shape[1]
            tables += [table.reshape(*shape, self.n_lanes) for table in values]
            terms += part.network.terms()
        listed = self.objective.n_outputs == 1 and not any(p.network.has_levels for p in self.parts)
        return Solution(intercepts.astype(np.float64), tables, terms if listed else None, history)


def _with_offsets(
    networks: Sequence[ComponentNetwork],
) -> Iterator[tuple[ComponentNetwork, int]]:
    first = 0
    for network in networks:
        yield network, first
        first += network.n_components
