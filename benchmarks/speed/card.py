"""Fits on an NVIDIA card beside fits on the processors: seconds by stage, errors, equal bits.

python -m benchmarks.speed.card            # the two sizes of the documentation
python -m benchmarks.speed.card --rows 100000 --features 20 --pairs 30 --also-cpu
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import combinations, islice, product
from typing import Any

import numpy as np

from tpnn import TPNNRegressor
from tpnn.model.edit_log import digest

SIZES = ((960_000, 136, 300), (10_000_000, 50, 100))
N_TEST = 100_000
NOISE = 1.0


def table(n_rows: int, n_features: int, seed: int) -> tuple[Any, Any, Any]:
    """Features, noisy targets and their means: curves of all features, surfaces of some."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((n_rows, n_features), np.float32)
    slopes = np.random.default_rng(0).standard_normal(n_features)
    mean = np.zeros(n_rows)
    for j in range(n_features):
        mean += 0.3 * slopes[j] * np.tanh(features[:, j])
    for j in range(min(n_features // 2, 30)):
        mean += 0.5 * np.sin(2 * features[:, 2 * j]) * features[:, 2 * j + 1]
    return features, mean + NOISE * rng.standard_normal(n_rows), mean


def listed_pairs(n_features: int, n_pairs: int) -> list[tuple[int, int]]:
    """Pairs that the means depend on, then others."""
    real = [(2 * j, 2 * j + 1) for j in range(min(n_features // 2, 30))]
    others = (pair for pair in combinations(range(n_features), 2) if pair not in set(real))
    return [*real, *islice(others, n_pairs - len(real))]


def fitted(
    device: str, n_pairs: int, n_bags: int, data: tuple[Any, Any, Any], are_listed: bool
) -> dict[str, Any]:
    """Fit pairs that are listed, or the best of all, and measure."""
    features, y, _ = data
    n_features = features.shape[1]
    pairs = listed_pairs(n_features, n_pairs) if are_listed else n_pairs
    model = TPNNRegressor(
        order=2, interactions=pairs, n_bags=n_bags, bands=False, device=device, random_state=0
    )
    began = time.perf_counter()
    model.fit(features, y)
    seconds = time.perf_counter() - began
    test, _, truth = table(N_TEST, n_features, seed=1)
    error = float(np.sqrt(np.mean((model.predict(test) - truth) ** 2)))
    grown = [event for event in model.history_ if event["stage"] == "grow"]
    return {
        "device": device, "n_rows": len(y), "n_features": n_features, "n_pairs": n_pairs,
        "pairs": "listed" if are_listed else "found", "n_bags": n_bags,
        "seconds": round(seconds, 2), "error": round(error, 5),
        "growth_seconds": round(max(event["seconds"] for event in grown), 2),
        "rounds": [event["step"] for event in grown], "digest": digest(model.model_)[:16],
    }  # fmt: skip


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--bags", type=int, default=8)
    parser.add_argument("--also-cpu", action="store_true")
    given = parser.parse_args()
    sizes = SIZES if given.rows is None else ((given.rows, given.features, given.pairs),)
    for are_listed in (False, True):
        fitted("cuda", 3, 2, table(60_000, 6, seed=0), are_listed)  # compile
    for n_rows, n_features, n_pairs in sizes:
        data = table(n_rows, n_features, seed=0)
        devices = ("cuda", "cpu") if given.also_cpu else ("cuda",)
        for device, are_listed in product(devices, (False, True)):
            print(json.dumps(fitted(device, n_pairs, given.bags, data, are_listed)), flush=True)


if __name__ == "__main__":
    main()
