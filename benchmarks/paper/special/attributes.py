"""CelebA's attribute table: gender from the other 39 attributes, with and without monotone.

Annotated attributes are 0 or 1 where the paper's classifier sees what a network thinks of an image,
so accuracies do not compare with the paper's; directions and importance do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.common.models.descent import Batch, Schedule, descend, evaluate
from benchmarks.paper import coded
from benchmarks.paper.special.concepts import classifier, label_loss
from benchmarks.paper.special.images import CELEBA_DIRECTIONS, ImageSet
from tpnn._utils.arrays import FloatArray

PLAN = Schedule(1e-3, batch_size=256, max_steps=3000, patience=1000, evaluate_every=100)
QUICK = Schedule(learning_rate=1e-3, batch_size=256, max_steps=20, patience=20)
SHOWN = ("No_Beard", "Wearing_Lipstick", "Heavy_Makeup")
NODES = 21


def measure(name: str, model: str, split: int, quick: bool) -> dict[str, Any]:
    """Train one classifier on the attributes."""
    names = tuple(coded.table("celeba_attr").names)
    directions = {names.index(name): d for name, d in CELEBA_DIRECTIONS.items()}
    empty = np.zeros((0, 1, 1, 1), np.float32)
    images = ImageSet(empty, empty, empty, names, directions)
    parts = coded.split("celeba_attr", split, quick)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    training, validation, test = (
        Batch(
            torch.as_tensor(rows.X > 0, dtype=torch.float32, device=device),
            torch.as_tensor(rows.y, dtype=torch.float32, device=device),
        )
        for rows in parts
    )
    with torch.random.fork_rng():
        torch.manual_seed(split)
        network = classifier(model, images).to(device)
        descend(network, training, validation, label_loss, QUICK if quick else PLAN, split)
    raw = evaluate(network, test.x)[:, 0].cpu().numpy()
    correct = (raw > 0) == (test.y.cpu().numpy() > 0.5)
    return {
        "scores": {"accuracy": float(correct.mean())},
        **(_explained(network, names, test, raw) if model.startswith("head") else {}),
    }


def _explained(network: nn.Module, names: tuple[str, ...], test: Batch, raw: Any) -> dict[str, Any]:
    """Return curves, importance and ranks of the attributes shown, and their scores on rows."""
    count = len(names)
    scores = _main_effects(network, test.x, count)
    importance = np.abs(scores).mean(0)
    ranks = (-importance).argsort().argsort() + 1
    grid = torch.linspace(0, 1, NODES, device=test.x.device)[:, None].expand(NODES, count)
    effects = _main_effects(network, grid, count)
    places = [names.index(name) for name in SHOWN]
    return {
        "curves": effects[:, places].T.round(4).tolist(),
        "importance": (importance / importance.max())[places].round(4).tolist(),
        "ranks": ranks[places].tolist(),
        "rows": {
            "raw": raw[:200].astype(np.float64).round(3).tolist(),
            "truth": test.y[:200].int().tolist(),
            "shown": scores[:200][:, places].round(3).tolist(),
        },
    }


def _main_effects(network: nn.Module, x: Tensor, count: int) -> FloatArray:
    """Return the main effects on the rows of x, shape (n, count)."""
    return evaluate(network, x, "component_scores")[:, :count, 0].double().cpu().numpy()
