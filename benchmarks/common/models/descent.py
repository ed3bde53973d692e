"""Mini-batch Adam as in the paper: the epoch is chosen on validation rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.common.interface import Task

Loss = Callable[[Tensor, Tensor], Tensor]
WARM = 2  # calls before a recording, in which libraries and Adam make what they keep
Pool = Any  # memory that recordings share, as torch names it

if torch.cuda.is_available():
    torch.set_float32_matmul_precision("high")


@dataclass(frozen=True)
class Schedule:
    """How to train a network.

    The paper names the learning rate and the batch size and that the epoch is chosen on validation
    rows; the longest run and the patience are ours.
    """

    learning_rate: float = 5e-3  # step size of Adam
    batch_size: int = 4096  # rows of a batch
    max_steps: int = 2000  # batches at most
    patience: int = 300  # batches without a better validation loss after which training ends
    evaluate_every: int = 1  # batches between two looks at the validation rows, at least


class Batch(NamedTuple):
    """Rows on the device: inputs (n, p) and targets (n,)."""

    x: Tensor
    y: Tensor


def loss_of(task: Task) -> Loss:
    """Return the mean loss of raw scores (n, n_outputs) and targets (n,)."""
    if task.kind == "multiclass":
        return functional.cross_entropy
    if task.kind == "binary":
        return lambda raw, y: functional.binary_cross_entropy_with_logits(raw[:, 0], y)
    return lambda raw, y: functional.mse_loss(raw[:, 0], y)


def descend(
    network: nn.Module, training: Batch, validation: Batch, loss: Loss, plan: Schedule, seed: int
) -> int:
    """Train, go back to the epoch with the smallest validation loss and return its number."""
    if not training.x.is_cuda:
        return _descend(Epochs(network, training, loss, plan, seed), validation)
    cuda: Any = torch.cuda
    before, aside = cuda.current_stream(), cuda.Stream()  # where work can be recorded
    aside.wait_stream(before)
    with cuda.stream(aside):
        pool = cuda.graph_pool_handle()
        epoch = _descend(Epochs(network, training, loss, plan, seed, pool), validation)
    before.wait_stream(aside)
    return epoch


def _descend(epochs: Epochs, validation: Batch) -> int:
    network, loss, plan = epochs.network, epochs.loss, epochs.plan
    validate = Replayed(lambda: loss(evaluate(network, validation.x), validation.y), epochs.pool)
    state = list(network.state_dict().values())
    kept = [tensor.clone() for tensor in state]
    best, best_epoch, best_step = np.inf, 0, 0
    step = epoch = looked = 0
    while step < plan.max_steps and step - best_step < plan.patience:
        step += epochs.train()
        epoch += 1
        if step - looked < plan.evaluate_every and step < plan.max_steps:
            continue
        looked = step
        value = float(validate())
        if value < best:
            best, best_epoch, best_step = value, epoch, step
            _copy(state, kept)
    if best_epoch == 0:
        raise FloatingPointError("The validation loss was not a number after any epoch.")
    _copy(kept, state)
    return best_epoch


class Epochs:
    """Steps of Adam, an epoch at a time; on a card each step is the replay of a recording.

    Parameters
    ----------
    network, training, loss, plan, seed
        As in ``descend``.
    pool : Pool, optional
        Where to record the steps, on a card.
    """

    def __init__(
        self,
        network: nn.Module,
        training: Batch,
        loss: Loss,
        plan: Schedule,
        seed: int,
        pool: Pool | None = None,
    ) -> None:
        self.network, self.loss, self.plan, self.pool = network, loss, plan, pool
        self.n_rows, device, card = len(training.x), training.x.device, training.x.is_cuda
        self.generator = torch.Generator(device).manual_seed(seed)
        size = min(plan.batch_size, self.n_rows)
        self.rows = torch.zeros(size, dtype=torch.long, device=device)  # of the batch
        rate = plan.learning_rate
        adam = torch.optim.Adam(network.parameters(), rate, fused=card, capturable=card)
        step = partial(_step, network, training, loss, adam)
        self.steps = {
            count: Replayed(partial(step, self.rows[:count]), pool)
            for count in {size, self.n_rows % size or size}
        }

    def train(self) -> int:
        """Take every row once, in a new order; return the number of steps."""
        device = self.rows.device
        order = torch.randperm(self.n_rows, device=device, generator=self.generator)
        batches = torch.split(order, len(self.rows))
        for batch in batches:
            self.rows[: len(batch)].copy_(batch)
            self.steps[len(batch)]()
        return len(batches)


def _step(
    network: nn.Module, training: Batch, loss: Loss, adam: torch.optim.Optimizer, rows: Tensor
) -> Tensor:
    """Change the parameters by one step on some rows; return the loss before."""
    network.train()
    adam.zero_grad()
    value = loss(network(training.x[rows]), training.y[rows])
    torch.autograd.backward(value)
    adam.step()
    return value.detach()


class Replayed:
    """Work on tensors that stay where they are; on a card it is recorded once, then replayed.

    Parameters
    ----------
    work : callable
        What to do; it returns one tensor.
    pool : Pool, optional
        Where to record it; without one every call works anew.
    """

    value: Tensor

    def __init__(self, work: Callable[[], Tensor], pool: Pool | None) -> None:
        self.work, self.pool = work, pool
        self.plain = np.inf if pool is None else WARM  # calls that are not replayed
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> Tensor:
        """Do the work and return its tensor, which the next call may overwrite."""
        if self.plain > 0:
            self.plain -= 1
            return self.work()
        if self.graph is None:
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, self.pool, torch.cuda.current_stream()):
                self.value = self.work()
        self.graph.replay()
        return self.value


@torch.no_grad()
def _copy(source: list[Tensor], target: list[Tensor]) -> None:
    for one, other in zip(source, target, strict=True):
        other.copy_(one)


@torch.no_grad()
def evaluate(network: nn.Module, x: Tensor, method: str = "forward", rows: int = 1024) -> Tensor:
    """Return what a method of the network says about the rows of x, block by block."""
    network.eval()
    call: Any = getattr(network, method)
    return torch.cat([call(block) for block in torch.split(x, rows)])
