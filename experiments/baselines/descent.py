"""Mini-batch Adam as in the paper: the epoch is chosen on validation rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.baselines.interface import Task

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Schedule:
    """How to train a network.

    The paper names the learning rate and the batch size and that the epoch is chosen on validation
    rows; the longest run and the patience are ours.

    Parameters
    ----------
    learning_rate : float
        Step size of Adam.
    batch_size : int
        Rows of a batch.
    max_steps : int
        Batches at most.
    patience : int
        Batches without a better validation loss after which training ends.
    evaluate_every : int
        Batches between two looks at the validation rows, at least; by default after each epoch.
    """

    learning_rate: float = 5e-3
    batch_size: int = 4096
    max_steps: int = 2000
    patience: int = 300
    evaluate_every: int = 1


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
    parameters = list(network.parameters())
    optimiser = torch.optim.Adam(parameters, plan.learning_rate, fused=training.x.is_cuda)
    generator = torch.Generator(training.x.device).manual_seed(seed)
    best, best_epoch, best_step = np.inf, 0, 0
    kept: dict[str, Tensor] = {}
    step = epoch = looked = 0
    while step < plan.max_steps and step - best_step < plan.patience:
        network.train()
        order = torch.randperm(len(training.x), device=training.x.device, generator=generator)
        for rows in torch.split(order, plan.batch_size):
            optimiser.zero_grad()
            torch.autograd.backward(loss(network(training.x[rows]), training.y[rows]))
            optimiser.step()
            step += 1
        epoch += 1
        if step - looked < plan.evaluate_every and step < plan.max_steps:
            continue
        looked = step
        value = float(loss(evaluate(network, validation.x), validation.y))
        if value < best:
            best, best_epoch, best_step = value, epoch, step
            kept = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    network.load_state_dict(kept)
    return best_epoch


@torch.no_grad()
def evaluate(network: nn.Module, x: Tensor, method: str = "forward", rows: int = 4096) -> Tensor:
    """Return what a method of the network says about the rows of x, block by block."""
    network.eval()
    call: Any = getattr(network, method)
    return torch.cat([call(block) for block in torch.split(x, rows)])
