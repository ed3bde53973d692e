"""A network as a model: scaling, training, and back to NumPy."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Any, Self, TypedDict

import numpy as np
import torch
from sklearn.preprocessing import MinMaxScaler, QuantileTransformer, StandardScaler
from torch import Tensor, nn

from benchmarks.common.interface import Component, Rows, Task
from benchmarks.common.models.descent import Batch, Schedule, descend, evaluate, loss_of
from tpnn._utils.arrays import FloatArray

Build = Callable[[Tensor, int], nn.Module]  # scaled training rows (n, p), n_outputs -> network

SCALERS: dict[str, Callable[[int], Any]] = {
    "minmax": lambda _: MinMaxScaler(),
    "standard": lambda _: StandardScaler(),
    "quantile": lambda n: QuantileTransformer(n_quantiles=min(1000, n), subsample=n),
}


class Training(TypedDict, total=False):
    """How a network is trained: parameters of ``NeuralModel``, which has their defaults."""

    seed: int
    schedule: Schedule | None
    device: str | None


class AdditiveNetwork(nn.Module):
    """Network f(x) = intercept + sum_S f_S(x_S).

    Parameters
    ----------
    components : list of tuple of int
        The subsets S, those of fewer features first.
    n_outputs : int
        Number of raw scores.
    """

    def __init__(self, components: list[Component], n_outputs: int) -> None:
        super().__init__()
        self.components = components
        self.intercept = nn.Parameter(torch.zeros(n_outputs))
        for order, group in groupby(components, key=len):
            self.register_buffer(f"features_{order}", torch.tensor(list(group)))

    def features_by_order(self) -> list[Tensor]:
        """Features of the components of each order d, shape (C_d, d) each."""
        return [tensor for name, tensor in self.named_buffers() if name.startswith("features_")]

    def component_scores(self, x: Tensor) -> Tensor:
        """Value of every component, (n, p) -> (n, C, n_outputs)."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        """Raw scores, (n, p) -> (n, n_outputs)."""
        return self.intercept + self.component_scores(x).sum(1)


class NeuralModel:
    """A network trained on scaled features and, for regression, a standardised target.

    Parameters
    ----------
    build : callable
        From the scaled training rows and the number of outputs to a network.
    task : Task
        What is predicted.
    scaler : {"minmax", "standard", "quantile"}
        How features are scaled; fitted to the training rows.
    seed : int
        Seed of the starting weights and of the batches.
    schedule : Schedule
        How to train.
    device : str, optional
        Where to train; a card where there is one, by default.
    """

    network: nn.Module

    def __init__(
        self,
        build: Build,
        task: Task,
        scaler: str,
        seed: int = 0,
        schedule: Schedule | None = None,
        device: str | None = None,
    ) -> None:
        self.build, self.task, self.scaler = build, task, scaler
        self.seed, self.schedule = seed, schedule or Schedule()
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")

    def fit(self, training: Rows, validation: Rows) -> Self:
        """Train the network, keeping the epoch that is best on the validation rows."""
        self._scale = SCALERS[self.scaler](len(training.X)).fit(training.X)
        self.centre, self.unit = 0.0, 1.0
        if self.task.kind == "regression":
            self.centre, self.unit = float(training.y.mean()), float(training.y.std()) or 1.0
        first, second = map(self._batch, (training, validation))
        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            self.network = self.build(first.x, self.task.n_outputs).to(self.device)
            loss = loss_of(self.task)
            self.epoch = descend(self.network, first, second, loss, self.schedule, self.seed)
        return self

    def raw_scores(self, X: FloatArray) -> FloatArray:
        """Raw scores on the scale of the target, shape (n, n_outputs)."""
        return self.centre + self.unit * self._evaluate("forward", X)

    def _evaluate(self, method: str, X: FloatArray) -> FloatArray:
        values = evaluate(self.network, self._inputs(X), method)
        return values.double().cpu().numpy()

    def _batch(self, rows: Rows) -> Batch:
        return Batch(self._inputs(rows.X), self._targets(rows.y))

    def _inputs(self, X: FloatArray) -> Tensor:
        scaled = self._scale.transform(X)
        return torch.as_tensor(scaled, dtype=torch.float32, device=self.device)

    def _targets(self, y: Any) -> Tensor:
        if self.task.kind == "multiclass":
            return torch.as_tensor(y, dtype=torch.long, device=self.device)
        scaled = (np.asarray(y, np.float64) - self.centre) / self.unit
        return torch.as_tensor(scaled, dtype=torch.float32, device=self.device)


class NeuralAdditiveModel(NeuralModel):
    """A NeuralModel whose network is an AdditiveNetwork."""

    network: AdditiveNetwork

    @property
    def components(self) -> list[Component]:
        """Features of each component."""
        return self.network.components

    @property
    def intercept(self) -> FloatArray:
        """Intercept on the scale of the target, shape (n_outputs,)."""
        start = self.network.intercept.detach().double().cpu().numpy()
        return np.asarray(self.centre + self.unit * start)

    def component_scores(self, X: FloatArray) -> FloatArray:
        """Components on the scale of the target, shape (n, C, n_outputs)."""
        return self.unit * self._evaluate("component_scores", X)
