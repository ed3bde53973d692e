"""Concept bottleneck models: image -> concepts -> label, the last step by each of the models.

Joint (JCBM): the network that sees the image and the classifier are trained together, on the label
and on the concepts. Independent (ICBM): the first is trained on the concepts and kept, then the
classifier on the concepts it predicts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.common.interface import components_up_to
from benchmarks.common.models.descent import Batch, Schedule, descend, evaluate
from benchmarks.common.models.dnn import ARCHITECTURES, mlp
from benchmarks.common.models.nam import NAM
from benchmarks.common.models.nbm import N_BASES, NBM
from benchmarks.common.models.nodegam import NodeGam
from benchmarks.paper.special.images import ImageSet, load
from tpnn import TPNNHead

PLAN = Schedule(learning_rate=1e-3, batch_size=256, max_steps=1500, patience=400)
QUICK = Schedule(learning_rate=1e-3, batch_size=256, max_steps=20, patience=20)
N_IMAGES = 6000
N_BASES_HEAD = {1: {1: 30}, 2: {1: 10, 2: 3}}  # by the order of the model, as in the appendix
NAM_HIDDEN = {1: (64, 64, 32), 2: (16, 16, 8)}
NBM_HIDDEN = {1: (256, 128, 128), 2: (128, 64, 64)}


def classifier(model: str, images: ImageSet) -> nn.Module:
    """Build the last step, from concepts in [0, 1] to a logit."""
    count, order = len(images.names), 2 if "2" in model else 1
    shapes: Any = images.directions if model.endswith("-monotone") else None
    components = components_up_to(count, order)
    builders: dict[str, Any] = {
        "head": lambda: TPNNHead(
            count, order=order, n_bases=N_BASES_HEAD[order], marginal="running", shapes=shapes
        ),
        "nam": lambda: NAM(components, 1, NAM_HIDDEN[order]),
        "nbm": lambda: NBM(components, 1, NBM_HIDDEN[order], N_BASES),
        "nodegam": lambda: NodeGam(count, 1, order, 2, 4, 50),
        "dnn": lambda: mlp((count, *ARCHITECTURES["deep"], 1)),
        "linear": lambda: nn.Linear(count, 1),
    }
    network: nn.Module = builders[model.partition("-")[0].rstrip("12")]()
    return network


class Bottleneck(nn.Module):
    """Image -> logits of the concepts and of the label, (n, channels, s, s) -> (n, q + 1).

    Parameters
    ----------
    channels, side, n_concepts : int
        Sizes.
    last : nn.Module
        From concepts in [0, 1] to the logit of the label.
    """

    def __init__(self, channels: int, side: int, n_concepts: int, last: nn.Module) -> None:
        super().__init__()
        self.eyes = nn.Sequential(
            nn.Conv2d(channels, 16, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * ((side + 3) // 4) ** 2, n_concepts),
        )
        self.last = last

    def forward(self, images: Tensor) -> Tensor:
        """Logits of the concepts, then of the label."""
        concepts = self.eyes(images)
        return torch.cat([concepts, self.last(concepts.sigmoid())], 1)


def joint_loss(raw: Tensor, y: Tensor) -> Tensor:
    """Loss of the label plus the mean loss of the concepts; y is (n, q + 1)."""
    losses = functional.binary_cross_entropy_with_logits(raw, y, reduction="none").mean(0)
    return losses[-1] + losses[:-1].mean()


def concept_loss(raw: Tensor, y: Tensor) -> Tensor:
    """Mean loss of the concepts alone; y is (n, q + 1)."""
    return functional.binary_cross_entropy_with_logits(raw[:, :-1], y[:, :-1])


def label_loss(raw: Tensor, y: Tensor) -> Tensor:
    """Loss of the label alone; y is (n,)."""
    return functional.binary_cross_entropy_with_logits(raw[:, 0], y)


def measure(name: str, model: str, split: int, quick: bool) -> dict[str, Any]:
    """Train one bottleneck and report its accuracies."""
    images = load(600 if quick else N_IMAGES, split)
    plan = QUICK if quick else PLAN
    device = "cuda" if torch.cuda.is_available() else "cpu"
    y = np.concatenate([images.concepts, images.labels[:, None]], 1)
    whole = Batch(*(torch.as_tensor(a, device=device) for a in (images.images, y)))
    first, second = (share * len(y) // 10 for share in (7, 8))
    training, validation, test = (
        Batch(whole.x[a:b], whole.y[a:b]) for a, b in ((0, first), (first, second), (second, None))
    )
    with torch.random.fork_rng():
        torch.manual_seed(split)
        last = classifier(model, images)
        _, channels, side, _ = images.images.shape
        network = Bottleneck(channels, side, len(images.names), last).to(device)
        loss = joint_loss if name == "jcbm" else concept_loss
        descend(network, training, validation, loss, plan, split)
        if name == "icbm":
            first_seen, then_seen = (_as_seen(network, rows) for rows in (training, validation))
            descend(network.last, first_seen, then_seen, label_loss, plan, split)
    raw = evaluate(network, test.x).cpu().numpy()
    correct = (raw > 0) == (test.y.cpu().numpy() > 0.5)
    return {
        "scores": {
            "accuracy": float(correct[:, -1].mean()),
            "concepts": float(correct[:, :-1].mean()),
        },
        **(_wrong_directions(network.last, images, device) if model.startswith("head") else {}),
    }


def _as_seen(network: Bottleneck, rows: Batch) -> Batch:
    """Return the concepts that the network sees in the images, and the labels."""
    return Batch(evaluate(network.eyes, rows.x).sigmoid(), rows.y[:, -1].contiguous())


def _wrong_directions(head: nn.Module, images: ImageSet, device: str) -> dict[str, Any]:
    """Return how many main effects move against the direction that is known of them."""
    q = len(images.names)
    ends = torch.stack([torch.zeros(q), torch.ones(q)]).to(device)
    scores = evaluate(head, ends, "component_scores")[:, :q, 0]
    rise = (scores[1] - scores[0]).cpu().numpy()
    wrong = [
        images.names[j]
        for j, direction in images.directions.items()
        if rise[j] * (1 if direction == "increasing" else -1) < 0
    ]
    return {"wrong_directions": wrong, "rises": rise.astype(np.float64).round(3).tolist()}
