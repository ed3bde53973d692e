"""How true fitted components are: ``python -m benchmarks.truth.components``.

Every cell is a fit to one sample of a setting below, by default or with the pairs of the setting,
true ones and one without effect. The lines have the distance of each component from its truth under
the product of the marginals, the slope of the estimate on the truth, and what its band covers.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.common.cells import Line, complete
from benchmarks.common.markdown import fixed, markdown
from benchmarks.truth.known_truths import Sample, Term, of_terms, scores, uniform
from tpnn import TPNNClassifier, TPNNRegressor, TPNNSurvival
from tpnn._utils.arrays import FloatArray

N_NEW = 4000  # rows on which whole functions are compared
FITS = "default", "given"

Pair = tuple[str, str]


class Truth(NamedTuple):
    """A sample, new rows with their true raw scores, and the pairs that are given."""

    sample: Sample
    terms: Sequence[Term]
    pairs: Sequence[Pair]
    new: pd.DataFrame
    task: str


# Settings, written down before any of them was fitted

SMOOTH = [
    Term(("a",), lambda a: np.sin(2 * np.pi * a)),
    Term(("b",), lambda b: 2 * b - 1),
    Term(("c",), lambda c: 6 * (c - 0.5) ** 2),
]
SMOOTH_PAIR = Term(("a", "d"), lambda a, d: 1.5 * (2 * a - 1) * np.cos(np.pi * d))
BUMP = Term(
    ("a", "b"), lambda a, b: 4 * np.exp(-((a - 0.35) ** 2 + (b - 0.6) ** 2) / (2 * 0.18**2))
)
PRODUCT = Term(("a", "b"), lambda a, b: 3 * (2 * a - 1) * (2 * b - 1))
RIDGE = Term(("a", "b"), lambda a, b: 1.2 * np.sin(2 * np.pi * (a + b)))
BOARD = Term(("a", "b"), lambda a, b: 1.0 * ((np.floor(3 * a) + np.floor(3 * b)) % 2 == 0))
STEP = Term(("c",), lambda c: 1.0 * (np.asarray(c) > 0.6))
BLOCKS_AT = np.array([0.1, 0.15, 0.27, 0.42, 0.61, 0.78])
BLOCKS_BY = np.array([1.2, -1.5, 1.0, -1.4, 1.6, -0.7])
ROUGH = [
    Term(("a",), lambda a: (np.asarray(a)[..., None] > BLOCKS_AT) @ BLOCKS_BY),
    Term(("b",), lambda b: 2 * np.sqrt(b * (1 - b)) * np.sin(2.1 * np.pi / (b + 0.08))),
    Term(("c",), lambda c: 1.0 * (np.asarray(c) > 0.4)),
]


def correlated(n_rows: int, n_features: int, seed: int, rho: float) -> pd.DataFrame:
    """Features on (0, 1) whose normal scores have equal correlations."""
    from scipy.special import ndtr

    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n_rows, 1))
    values = np.sqrt(rho) * common + np.sqrt(1 - rho) * rng.normal(size=(n_rows, n_features))
    return pd.DataFrame(ndtr(values), columns=list("abcdefghij")[:n_features])


def with_levels(n_rows: int, seed: int) -> pd.DataFrame:
    """Four features on (0, 1) and twenty levels of uneven frequency."""
    X = uniform(n_rows, 4, seed)
    rng = np.random.default_rng([seed, 2])
    X["k"] = np.array([f"l{k:02d}" for k in range(20)])[rng.zipf(1.5, n_rows).clip(1, 20) - 1]
    return X


def level_effect(k: Any) -> Any:
    """Effect of a level, by its number."""
    return np.vectorize(lambda v: np.sin(3.7 * float(str(v)[1:])))(k)


def drawn(raw: FloatArray, task: str, X: pd.DataFrame, seed: int) -> tuple[Any, Any]:
    """Targets of raw scores, and the estimator that fits them."""
    rng, given = np.random.default_rng([seed, 1]), dict[str, Any](random_state=seed, verbose=0)
    if task in ("two classes", "rare"):
        return rng.random(len(raw)) < 1 / (1 + np.exp(-raw)), TPNNClassifier(**given)
    if task == "poisson":
        return rng.poisson(np.exp(raw)), TPNNRegressor(objective="poisson", **given)
    if task == "gamma":
        return rng.gamma(2.0, np.exp(raw) / 2), TPNNRegressor(objective="gamma", **given)
    if task == "cox":
        times, ends = rng.exponential(np.exp(-raw)), rng.exponential(2.0, len(raw))
        y = np.column_stack([np.minimum(times, ends), times <= ends])
        return y, TPNNSurvival(**given)
    noise = rng.standard_t(3, len(raw)) / np.sqrt(3) if task == "t3" else rng.normal(size=len(raw))
    if task == "uneven":
        noise = noise * (0.3 + 1.4 * X["b"].to_numpy())
    return raw + (0.5 if task == "quiet" else 1.0) * noise, TPNNRegressor(**given)


TABLES: dict[str, Callable[[int, int], pd.DataFrame]] = {
    "uniform": lambda n, seed: uniform(n, 5, seed),
    "rho .3": lambda n, seed: correlated(n, 5, seed, 0.3),
    "rho .8": lambda n, seed: correlated(n, 5, seed, 0.8),
    "levels": with_levels,
    "ten": lambda n, seed: uniform(n, 10, seed),
}


class Setting(NamedTuple):
    """What a setting is made of."""

    n_rows: int
    terms: Sequence[Term]
    pairs: Sequence[Pair]
    table: str = "uniform"
    task: str = "numbers"
    factor: float = 1.0
    shift: float = 0.0


SMOOTH_ALL, SMOOTH_PAIRS = [*SMOOTH, SMOOTH_PAIR], [("a", "d"), ("b", "e")]
ON_AB: list[Pair] = [("a", "b"), ("c", "d")]
TRIPLE = Term(("b", "c", "d"), lambda b, c, d: 6 * (2 * b - 1) * (2 * c - 1) * (2 * d - 1))
SETTINGS: dict[str, Setting] = {
    "smooth 300": Setting(300, SMOOTH_ALL, SMOOTH_PAIRS),
    "smooth 1000": Setting(1000, SMOOTH_ALL, SMOOTH_PAIRS),
    "smooth 5000": Setting(5000, SMOOTH_ALL, SMOOTH_PAIRS),
    "bump 300": Setting(300, [*SMOOTH, BUMP], ON_AB),
    "bump 1000": Setting(1000, [*SMOOTH, BUMP], ON_AB),
    "bump 5000": Setting(5000, [*SMOOTH, BUMP], ON_AB),
    "product 1000": Setting(1000, [*SMOOTH, PRODUCT], ON_AB),
    "ridge 1000": Setting(1000, [*SMOOTH, RIDGE], ON_AB),
    "board 1000": Setting(1000, [STEP, BOARD], ON_AB),
    "board 5000": Setting(5000, [STEP, BOARD], ON_AB),
    "two classes 1000": Setting(1000, [*SMOOTH, PRODUCT], ON_AB, task="two classes"),
    "rare 2000": Setting(2000, [*SMOOTH, PRODUCT], ON_AB, task="rare", shift=-5.0),
    "poisson 1000": Setting(1000, [*SMOOTH, PRODUCT], ON_AB, task="poisson", factor=0.5),
    "gamma 1000": Setting(1000, [*SMOOTH, PRODUCT], ON_AB, task="gamma", factor=0.4),
    "cox 1000": Setting(1000, [*SMOOTH, STEP, PRODUCT], ON_AB, task="cox", factor=0.7),
    "rho .3 1000": Setting(1000, SMOOTH_ALL, SMOOTH_PAIRS, "rho .3"),
    "rho .8 1000": Setting(1000, SMOOTH_ALL, SMOOTH_PAIRS, "rho .8"),
    "rough 1000": Setting(1000, ROUGH, [("a", "d")], task="quiet"),
    "rough 5000": Setting(5000, ROUGH, [("a", "d")], task="quiet"),
    "levels 1000": Setting(
        1000, [*SMOOTH, Term(("k",), level_effect)], [("a", "d"), ("a", "k")], "levels"
    ),
    "nulls 300": Setting(300, SMOOTH, [("a", "e")], "ten"),
    "t3 1000": Setting(1000, SMOOTH_ALL, SMOOTH_PAIRS, task="t3"),
    "uneven 1000": Setting(1000, SMOOTH_ALL, SMOOTH_PAIRS, task="uneven"),
    "triple 2000": Setting(2000, [*SMOOTH, TRIPLE], [("b", "c"), ("a", "e")]),
}


def truth_of(setting: Setting, seed: int) -> Truth:
    """Sample of a setting."""
    X, new = (TABLES[setting.table](n, s) for n, s in ((setting.n_rows, seed), (N_NEW, seed + 999)))
    raw = setting.factor * scores(X, setting.terms)
    y, estimator = drawn(raw - raw.mean() + setting.shift, setting.task, X, seed)
    truth = of_terms(X, setting.terms, setting.factor)
    sample = Sample(X=X, y=y, estimator=estimator, truth=truth)
    terms = [
        Term(t.features, lambda *x, t=t: setting.factor * t.function(*x)) for t in setting.terms
    ]
    return Truth(sample, terms, setting.pairs, new, setting.task)


def measure(setting: str, fit: str, seed: int) -> Line:
    """Fit a sample by default or with its pairs; compare every component with its truth."""
    truth = truth_of(SETTINGS[setting], seed)
    sample, estimator = truth.sample, truth.sample.estimator
    if fit == "given":
        estimator.set_params(interactions=[list(pair) for pair in truth.pairs])
    model = estimator.fit(sample.X, sample.y).model_
    raw = model.raw_scores(truth.new)
    wanted = scores(truth.new, truth.terms)
    gap = np.reshape(raw, len(wanted)) - wanted
    explanation, named = model.explain(), [tuple(c) for c in model.component_names]
    parts = []
    for names in [*((name,) for name in sample.X.columns), *truth.pairs]:
        there = names in named
        table = (explanation if there else whole_tables(truth, seed)).component(names)
        parts.append(part_of(sample, table, there))
    return {"rmse": float(gap.std()), "size": float(wanted.std()), "parts": parts}


def whole_tables(truth: Truth, seed: int) -> Any:
    """Explanation of a model that has the nodes of all components; its values do not matter."""
    pairs = [list(pair) for pair in truth.pairs]
    model = TPNNRegressor(interactions=pairs, random_state=seed, n_bags=1, bands=False, verbose=0)
    return model.fit(truth.sample.X, np.arange(len(truth.sample.X)) % 7).explain()


def part_of(sample: Sample, table: Any, there: bool) -> dict[str, Any]:
    """Distance of a component from its truth, and how its band covers it."""
    wanted, shown = sample.truth(table), table.effect if there else 0 * table.effect
    masses = reduce(np.multiply.outer, [axis.weights for axis in table.axes])

    def mean(values: FloatArray) -> float:
        return float((masses * values).sum())

    size = mean(wanted**2)
    part = {
        "names": list(table.names),
        "size": size**0.5,
        "error": mean((shown - wanted) ** 2) ** 0.5,
        "slope": mean(shown * wanted) / size if size > 1e-12 else None,
    }
    if there and table.posterior is not None:
        lower, upper = table.band
        part |= {"covered": mean((lower <= wanted) & (wanted <= upper)),
                 "width": mean(upper - lower) / 2}  # fmt: skip
    return part


HEAD = ["setting", "fit", "samples", "error: main effects", "pairs", "whole function",
        "slope of pairs", "covered, %: main effects", "pairs", "half width of pairs"]  # fmt: skip


def as_table(lines: Iterable[Line]) -> str:
    """Means over the samples of each setting and fit; errors are root mean squares."""
    cells: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        cells.setdefault((line["setting"], line["fit"]), []).append(line)
    rows = [
        [*cell, str(len(found)), *fixed(_row(found), [3, 3, 3, 2, 1, 1, 2])]
        for cell, found in cells.items()
    ]
    return markdown([HEAD, *rows])


def _row(lines: Sequence[Line]) -> list[float]:
    parts = [part for line in lines for part in line["parts"]]
    mains, pairs = ([p for p in parts if len(p["names"]) == order] for order in (1, 2))

    def mean(name: str, of: Sequence[dict[str, Any]], power: float = 1.0) -> float:
        values = [part[name] ** power for part in of if part.get(name) is not None]
        return float(np.mean(values)) ** (1 / power) if values else np.nan

    def true(of: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        return [part for part in of if part["slope"] is not None]

    return [
        mean("error", mains, 2), mean("error", pairs, 2), mean("rmse", lines, 2),
        mean("slope", pairs), 100 * mean("covered", true(mains)),
        100 * mean("covered", true(pairs)), mean("width", pairs),
    ]  # fmt: skip


def main() -> None:
    """Measure what has no line yet, and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.truth.components", description=__doc__
    )
    parser.add_argument("--samples", type=int, default=2, help="of each setting, 2 by default")
    parser.add_argument("--only", nargs="+", default=[""], help="settings with this in their names")
    given = parser.parse_args()
    asked = [setting for setting in SETTINGS if any(words in setting for words in given.only)]
    cells = [(s, fit, seed) for s in asked for fit in FITS for seed in range(given.samples)]
    lines = complete("components", ("setting", "fit", "seed"), cells, measure)
    print(as_table(line for line in lines if line["setting"] in asked))


if __name__ == "__main__":
    main()
