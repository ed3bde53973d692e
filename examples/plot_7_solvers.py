"""
Choosing a solver: sharp or smooth
==================================

A solver is an object with its own parameters. :class:`~tpnn.Grow`, the default, follows sharp edges and
has smoother variants; :class:`~tpnn.Descent` is the paper's. Here the truth is known, so we can see what
each of them makes of a step and of a wave in a few hundred noisy rows.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from tpnn import Descent, Grow, TPNNRegressor, plots

rng = np.random.default_rng(3)
X = pd.DataFrame(rng.uniform(size=(800, 2)), columns=["step", "wave"])
truth = {"step": lambda x: (x > 0.4) - 0.6, "wave": lambda x: np.sin(2 * np.pi * x)}
y = sum(effect(X[feature]) for feature, effect in truth.items()) + 0.5 * rng.normal(size=800)

SOLVERS = {
    "Grow()": Grow(),
    'Grow(growth="smooth")': Grow(growth="smooth"),
    'Grow(growth="none")': Grow(growth="none"),
    "Descent()": Descent(),
}

# %%
# One fit for each solver, and how far its two main effects are from the truth.

fits = {
    name: TPNNRegressor(order=1, solver=solver, random_state=0).fit(X, y)
    for name, solver in SOLVERS.items()
}
grid = pd.DataFrame({"step": np.linspace(0.01, 0.99, 400), "wave": np.linspace(0.01, 0.99, 400)})
for name, model in fits.items():
    scores = model.model_.component_scores(grid)  # (400, 2)
    errors = [
        np.sqrt(np.mean((column - effect(grid[feature])) ** 2))
        for column, (feature, effect) in zip(scores.T, truth.items(), strict=True)
    ]
    print(f"{name:22} error of the step {errors[0]:.3f}, of the wave {errors[1]:.3f}")

# %%
# The main effects with their bands; the truth is dotted.

figure, panels = plt.subplots(2, 4, figsize=(12, 5), layout="constrained", sharey="row")
for column, (name, model) in zip(panels.T, fits.items(), strict=True):
    for panel, (feature, effect) in zip(column, truth.items(), strict=True):
        plots.main_effect(model.explain(), feature, ax=panel)
        panel.plot(grid[feature], effect(grid[feature]), ":", color="black", linewidth=1)
    column[0].set_title(name, fontsize=10)

# %%
# Parameters of a solver are reached from outside, by two underscores. That is how a search tunes them.

model = TPNNRegressor(order=1, solver=Grow(growth="none"), random_state=0)
for l2 in (0.001, 0.1, 1.0):
    model.set_params(solver__l2=l2).fit(X[:600], y[:600])
    print(f"l2={l2:<6} R2 on held-out rows {model.score(X[600:], y[600:]):.3f}")
