"""The paper's headline orderings on small samples of f1: each of them could fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("torch", reason="the paper's networks need torch")

from benchmarks.common.interface import Rows, Task
from benchmarks.common.models.default_tpnn import DefaultTPNN
from benchmarks.common.models.descent import Schedule
from benchmarks.common.models.gam_tpnn import gam_tpnn
from benchmarks.common.models.nam import nam
from benchmarks.common.models.nbm import nbm
from benchmarks.common.models.paper import paper
from benchmarks.common.quadrature import true_importance
from benchmarks.common.scores import selection_auroc
from tpnn import stability_scores
from tpnn.datasets import make_synthetic

TASK, PLAN = Task("regression"), Schedule(max_steps=200, patience=200)
MAKERS: dict[str, Callable[[int], Any]] = {
    "tpnn": lambda seed: DefaultTPNN(TASK, 2, seed=seed, n_bags=4),
    "paper": lambda seed: paper(TASK, 2, 10, seed=seed, schedule=PLAN),
    "gam_tpnn": lambda seed: gam_tpnn(TASK, 2, 10, seed=seed, schedule=PLAN),
    "nam": lambda seed: nam(TASK, 2, (32, 16), seed=seed, schedule=PLAN),
    "nbm": lambda seed: nbm(TASK, 2, (32, 16), {1: 10, 2: 20}, seed=seed, schedule=PLAN),
}


class Found(NamedTuple):
    """Instability of the main effects and of all components, and AUROC of selection."""

    mains: float
    overall: float
    auroc: float


@pytest.fixture(scope="module")
def found() -> dict[str, Found]:
    """What each model shows over three samples of 1,000 rows."""
    return {name: look(make) for name, make in MAKERS.items()}


def look(make: Callable[[int], Any]) -> Found:
    probes = make_synthetic("f1", 100, random_state=99).X.to_numpy()
    truth = true_importance("f1")
    signal = np.array([size > 0 for size in truth.values()])
    estimates, aurocs = [], []
    for seed in range(3):
        data = make_synthetic("f1", 1000, random_state=seed)
        rows = Rows(data.X.to_numpy(), data.y.to_numpy())
        parts = (Rows(rows.X[part], rows.y[part]) for part in (slice(700), slice(700, None)))
        model = make(seed).fit(*parts)
        values = model.component_scores(probes)[:, :, 0]
        known = dict(zip(model.components, values.T, strict=True))
        shown = np.column_stack([known.get(c, np.zeros(len(probes))) for c in truth])
        aurocs.append(selection_auroc(np.abs(shown).mean(0), signal))
        estimates.append(shown)
    scores = stability_scores(np.array(estimates))
    return Found(scores[:5].mean(), scores.mean(), float(np.mean(aurocs)))


@pytest.mark.parametrize("ours", ["tpnn", "paper"])
@pytest.mark.parametrize("other", ["nam", "nbm"])
def test_components_are_more_stable(found: dict[str, Found], ours: str, other: str) -> None:
    assert found[ours].overall < found[other].overall
    assert found[ours].mains < 0.5 * found[other].mains


@pytest.mark.parametrize("ours", ["tpnn", "paper"])
@pytest.mark.parametrize("other", ["nam", "nbm"])
def test_signal_components_are_found(found: dict[str, Found], ours: str, other: str) -> None:
    assert found[ours].auroc > 0.95
    assert found[ours].auroc > found[other].auroc + 0.2


def test_without_sum_to_zero_components_are_less_stable(found: dict[str, Found]) -> None:
    assert found["paper"].overall < found["gam_tpnn"].overall
    assert found["paper"].mains < 0.5 * found["gam_tpnn"].mains
