"""Neural interaction detection (Tsang, Cheng, Liu 2017): rank pairs by the weights of a network.

A multilayer perceptron with an l1 penalty is fitted to the residual of the main effects. Features
can interact only in a hidden unit that all of them enter, so the strength of the pair {j, k} is the
sum over the units h of the first layer of

    (|w_out|' |W_L| ... |W_2|)_h min(|W_1[h, j]|, |W_1[h, k]|).

NOTE[DIFF] the main effects come from the solver, not from networks trained alongside.
"""

from __future__ import annotations

import math
import time

import numpy as np
import torch
from torch import nn

from tpnn._utils.arrays import FloatArray
from tpnn.anova.components import Component
from tpnn.anova.measure import Marginal
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.solution import EarlyStopping, Solution

HIDDEN_UNITS = (140, 100, 60, 20)  # as in the NID paper
L1_PENALTY = 5e-5  # on every weight
LEARNING_RATE, ROWS_PER_BATCH = 1e-3, 256
MAX_EPOCHS, PATIENCE_EPOCHS = 100, 5
HELD_OUT_SHARE = 0.15  # of the rows, for early stopping
MOST_ROWS = 250_000  # more rank no better


def fit_network(
    inputs: FloatArray, residual: FloatArray, seed: int, deadline: float = math.inf
) -> list[FloatArray]:
    """Fit a perceptron to the residual (n_rows, K) on inputs (n_rows, p); return its weights.

    Training stops at the deadline, a value of ``time.monotonic()``.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        x, y = (torch.as_tensor(a, dtype=torch.float32) for a in (inputs, residual))
        y = y / y.square().mean().sqrt().clamp(min=1e-30)
        sizes = (x.shape[1], *HIDDEN_UNITS)
        layers = [nn.Linear(a, b) for a, b in zip(sizes, HIDDEN_UNITS, strict=False)]
        network = nn.Sequential(*(m for layer in layers for m in (layer, nn.ReLU())))
        network.append(nn.Linear(HIDDEN_UNITS[-1], y.shape[1]))
        mixed = torch.randperm(len(x))
        held_out = max(int(HELD_OUT_SHARE * len(x)), 1)
        _train(network, x, y, mixed[held_out:], mixed[:held_out], deadline)
    return [m.weight.detach().numpy() for m in network if isinstance(m, nn.Linear)]


def _train(
    network: nn.Sequential,
    x: torch.Tensor,
    y: torch.Tensor,
    training: torch.Tensor,
    held_out: torch.Tensor,
    deadline: float,
) -> None:
    """Minimise the penalised squared error until held-out error stops falling or time ends."""
    optimiser = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
    weights = [m.weight for m in network if isinstance(m, nn.Linear)]
    stopping, state = EarlyStopping(1, PATIENCE_EPOCHS + 1), network.state_dict()
    for epoch in range(MAX_EPOCHS):
        for rows in torch.split(training[torch.randperm(len(training))], ROWS_PER_BATCH):
            if time.monotonic() >= deadline:
                break
            penalty = sum((w.abs().sum() for w in weights), start=torch.zeros(()))
            loss = (network(x[rows]) - y[rows]).square().mean() + L1_PENALTY * penalty
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        with torch.no_grad():
            error = (network(x[held_out]) - y[held_out]).square().mean()
        if stopping.update(error.numpy()[None], epoch)[0]:
            state = {name: value.clone() for name, value in network.state_dict().items()}
        if stopping.has_stalled or time.monotonic() >= deadline:
            break
    network.load_state_dict(state)


def pair_strengths(weights: list[FloatArray]) -> FloatArray:
    """Strength of every pair, (p, p), from the weights of all layers."""
    first = np.abs(weights[0])  # (h, p)
    influence = np.ones((1, len(weights[-1])))
    for matrix in reversed(weights[1:]):
        influence = influence @ np.abs(matrix)
    strengths = np.zeros((first.shape[1], first.shape[1]))
    for share, unit in zip(influence[0], first, strict=True):
        strengths += share * np.minimum(unit[:, None], unit)
    return strengths


def rank_pairs(
    problem: Problem, solution: Solution, most: int, deadline: float = math.inf
) -> list[Component]:
    """Rank pairs by a network fitted to what a solution has left; the best ``most``, best first."""
    problem = problem.sampled(MOST_ROWS)
    features = problem.features  # in canonical order
    axes = [problem.encoder.axes[1][feature] for feature in features]
    codes = problem.codes.by_order[1][features].astype(np.intp)  # (p, n)
    ranks = np.take_along_axis(Marginal.of(axes).positions, codes, 1)
    weights = fit_network(ranks.T - 0.5, residual(problem, solution), problem.seed, deadline)
    strengths = pair_strengths(weights)
    first, second = np.triu_indices(len(strengths), 1)
    top = np.argsort(-strengths[first, second], kind="stable")[:most]
    pairs = ((features[first[i]], features[second[i]]) for i in top)
    return [(min(pair), max(pair)) for pair in pairs]


def residual(problem: Problem, solution: Solution) -> FloatArray:
    """Negative gradient (n, K) of the loss at the mean of the bags, times each row's weight."""
    raw = problem.by_output(problem.raw_scores(solution)).mean(-2)  # (n, K)
    weights = problem.distinct.weights[:, None]
    gradient, _ = problem.objective.slopes(problem.rows.y, raw, weights)
    slopes: FloatArray = -weights * gradient
    return slopes
