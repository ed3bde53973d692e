"""Neural additive models of order one and two, as the ANOVA-TPNN paper trains them.

One network per component, ReLU layers of 64, 64 and 32 units, features scaled to [0, 1], Adam with
learning rate 0.005 on batches of 4096 rows. The best epoch is chosen on the validation rows.
"""

from __future__ import annotations

import copy
from itertools import combinations, pairwise

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.peers.data import FloatArray, Split, Task

HIDDEN = (64, 64, 32)
LEARNING_RATE, BATCH = 5e-3, 4096
MOST_EPOCHS, PATIENCE = 500, 50
LOSSES = {
    "regression": nn.functional.mse_loss,
    "binary": nn.functional.binary_cross_entropy_with_logits,
}


class Networks(nn.Module):
    """One small network per component, all of the same number of inputs, evaluated together."""

    def __init__(self, components: list[tuple[int, ...]], generator: torch.Generator) -> None:
        super().__init__()
        self.register_buffer("inputs", torch.tensor(components))  # (n_components, order)
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        sizes = [len(components[0]), *HIDDEN, 1]
        for before, after in pairwise(sizes):
            bound = before**-0.5
            for kind, shape in ((self.weights, (before, after)), (self.biases, (1, after))):
                start = torch.rand(len(components), *shape, generator=generator)
                kind.append(nn.Parameter((2 * start - 1) * bound))

    def forward(self, X: Tensor) -> Tensor:
        """Values of all components, (n_rows, n_components), of features X (n_rows, p)."""
        layer = X[:, self.inputs].transpose(0, 1)  # (n_components, n_rows, order)
        for depth, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            layer = torch.baddbmm(bias, torch.relu(layer) if depth else layer, weight)
        return layer[:, :, 0].T


class NeuralAdditiveModel(nn.Module):
    """Intercept plus a network for every subset of at most ``order`` features."""

    def __init__(self, n_features: int, order: int, seed: int) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)
        subsets = [list(combinations(range(n_features), o)) for o in range(1, order + 1)]
        self.components = [component for same_order in subsets for component in same_order]
        self.parts = nn.ModuleList(Networks(s, self.generator) for s in subsets)
        self.intercept = nn.Parameter(torch.zeros(()))
        self.register_buffer("low", torch.zeros(n_features))
        self.register_buffer("high", torch.ones(n_features))
        self.shift, self.scale = 0.0, 1.0  # of the target

    def forward(self, X: Tensor) -> Tensor:
        """Values of all components, (n_rows, n_components)."""
        scaled = (X - self.low) / (self.high - self.low)
        return torch.cat([part(scaled) for part in self.parts], 1)

    def fit(self, data: Split, task: Task) -> None:
        """Train on the training rows and keep the epoch that is best on the validation rows."""
        X, y, n = torch.tensor(data.X).float(), torch.tensor(data.y).float(), data.n_training
        self.low, self.high = X[:n].min(0).values, X[:n].max(0).values
        self.high = torch.where(self.high > self.low, self.high, self.low + 1)
        if task == "regression":
            self.shift, self.scale = float(y[:n].mean()), float(y[:n].std())
        y = (y - self.shift) / self.scale
        loss, optimizer = LOSSES[task], torch.optim.Adam(self.parameters(), LEARNING_RATE)
        best, best_epoch, state = np.inf, 0, copy.deepcopy(self.state_dict())
        for epoch in range(MOST_EPOCHS):
            for batch in torch.randperm(n, generator=self.generator).split(BATCH):
                optimizer.zero_grad()
                loss(self.intercept + self(X[batch]).sum(1), y[batch]).backward()
                optimizer.step()
            with torch.no_grad():
                held_out = float(loss(self.intercept + self(X[n:]).sum(1), y[n:]))
            if held_out < best:
                best, best_epoch, state = held_out, epoch, copy.deepcopy(self.state_dict())
            elif epoch - best_epoch >= PATIENCE:
                break
        self.load_state_dict(state)

    @torch.no_grad()
    def component_scores(self, X: FloatArray) -> FloatArray:
        """Values of all components on the scale of the target, (n_rows, n_components)."""
        return self(torch.tensor(X).float()).double().numpy() * self.scale

    def raw_scores(self, X: FloatArray) -> FloatArray:
        """Predicted target, or logit, (n_rows,)."""
        constant = self.shift + self.scale * float(self.intercept)
        return constant + self.component_scores(X).sum(1)
