"""Known truths: samples whose components are known, for the coverage of bands.

A truth is a sum of terms, functions of a few features. Its components are unique under the product
of the marginals of the sample: a term on T has a component on every part S of T,

    t_S = mean of t over the features outside S, centred along every feature of S.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.common.quadrature import true_component
from tpnn import TPNNClassifier, TPNNRegressor, TPNNSurvival
from tpnn._utils.arrays import FloatArray
from tpnn.datasets import load, make_synthetic
from tpnn.datasets.synthetic import get_function
from tpnn.explain.component_table import ComponentTable

N_VALUES = {0: 1, 1: 400, 2: 60}  # of each feature that is averaged out, by their number
DEVIATIONS = {"two classes": 2.0, "poisson": 0.7, "regression": 1.0}  # of the raw score
PAPER_FUNCTIONS, REAL_TABLES = ("f1", "f2", "f3"), ("calhousing", "abalone", "wine")
TASKS = ("regression", "two classes", "poisson")


class Term(NamedTuple):
    """A summand of a truth: features by name, and a function of their columns."""

    features: tuple[str, ...]
    function: Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A table with targets, and what is known about them."""

    X: pd.DataFrame
    y: Any
    estimator: Any  # what fits it
    # from a component's table to its true values, shape of its effect
    truth: Callable[[ComponentTable], FloatArray]
    output: str = ""  # which of several outputs is compared


def of_function(name: str, task: str, n_rows: int, seed: int) -> Sample:
    """Sample of a function of the paper; its components are those of the population."""
    data, function = make_synthetic(name, n_rows, random_state=seed), get_function(name)
    factor = 1.0 if task == "regression" else DEVIATIONS[task] / np.sqrt(function.variance)
    y = data.y if task == "regression" else targets(factor * (data.f - function.mean), task, seed)
    names = list(data.X.columns)

    def truth(table: ComponentTable) -> FloatArray:
        nodes = np.meshgrid(*(axis.values for axis in table.axes), indexing="ij")
        points = np.full((nodes[0].size, len(names)), 0.8)
        component = tuple(names.index(feature) for feature in table.names)
        points[:, component] = np.column_stack([node.ravel() for node in nodes])
        values: FloatArray = factor * true_component(name, component, points)
        return values.reshape(nodes[0].shape)

    return Sample(X=data.X, y=y, estimator=estimator_of(task, seed), truth=truth)


def of_terms(X: pd.DataFrame, terms: Sequence[Term], factor: float = 1.0) -> Any:
    """Truth of a sum of terms, times a factor, on the nodes of a component."""

    def truth(table: ComponentTable) -> FloatArray:
        frame = table.to_frame()
        nodes = {name: frame.iloc[:, j].to_numpy() for j, name in enumerate(table.names)}
        values = np.zeros(len(frame))
        for term in terms:
            if set(table.names) <= set(term.features):
                values += mean_of_term(term, nodes, X)
        grid = values.reshape(table.effect.shape)
        for axis, scale in enumerate(table.axes):
            grid = grid - np.expand_dims(np.tensordot(scale.weights, grid, (0, axis)), axis)
        return factor * grid

    return truth


def mean_of_term(term: Term, nodes: dict[str, Any], X: pd.DataFrame) -> FloatArray:
    """Mean of a term over the marginals of its features that have no nodes here."""
    others = [name for name in term.features if name not in nodes]
    n_values = N_VALUES[len(others)]
    picked = [_spaced(X[name], n_values) for name in others]
    means = [
        term.function(
            *({**nodes, **dict(zip(others, point, strict=True))}[f] for f in term.features)
        )
        for point in product(*picked)
    ]
    return np.asarray(np.mean(means, axis=0), np.float64) * np.ones(len(next(iter(nodes.values()))))


def _spaced(column: Any, count: int) -> Any:
    """Values of a column, evenly spaced in their order."""
    values = column.sort_values().to_numpy()
    return values[((np.arange(count) + 0.5) / count * len(values)).astype(int)]


def scores(X: pd.DataFrame, terms: Sequence[Term]) -> FloatArray:
    """Sum of the terms on all rows."""
    parts = [term.function(*(X[name].to_numpy() for name in term.features)) for term in terms]
    return np.asarray(reduce(np.add, parts), np.float64)


def targets(raw: FloatArray, task: str, seed: int) -> Any:
    """Draw targets of a raw score; noise of a regression is half of its standard deviation."""
    rng = np.random.default_rng([seed, 1])
    if task == "poisson":
        return rng.poisson(np.exp(raw))
    if task == "two classes":
        return rng.random(len(raw)) < 1 / (1 + np.exp(-raw))
    return raw + 0.5 * raw.std() * rng.normal(size=len(raw))


def estimator_of(task: str, seed: int) -> Any:
    """Estimator of a task with its default settings."""
    if task == "two classes":
        return TPNNClassifier(random_state=seed, verbose=0)
    objective = "poisson" if task == "poisson" else "squared_error"
    return TPNNRegressor(random_state=seed, verbose=0, objective=objective)


def sample_of(
    X: pd.DataFrame, terms: Sequence[Term], task: str = "regression", seed: int = 0, **given: Any
) -> Sample:
    """Sample of a sum of terms, as log-odds or log-rate in units of its standard deviation."""
    raw = scores(X, terms)
    factor = 1.0 if task == "regression" else DEVIATIONS[task] / float(raw.std())
    y = given.get("y", targets(factor * (raw - raw.mean()), task, seed))
    estimator = given.get("estimator", estimator_of(task, seed))
    return Sample(X=X, y=y, estimator=estimator, truth=of_terms(X, terms, factor),
                  output=given.get("output", ""))  # fmt: skip


# Real features


SHAPES: tuple[Callable[[Any], Any], ...] = (
    lambda u: 2 * u - 1,
    lambda u: np.sin(2 * np.pi * u),
    lambda u: 2 * np.exp(-(((u - 0.5) / 0.15) ** 2)),
    lambda u: 0 * u,
    lambda u: 3 * np.maximum(u - 0.6, 0),
)


def on_real_features(name: str, task: str, seed: int) -> Sample:
    """Five shapes in turn as main effects on ranks, the fourth zero, and two pairs of products."""
    X = load(name)[0]
    X = X if isinstance(X, pd.DataFrame) else pd.DataFrame(X)
    ranks = [_Ranks(X[column]) for column in X.columns]

    def main(j: int) -> Term:
        return Term((X.columns[j],), lambda x: SHAPES[j % len(SHAPES)](ranks[j](x)))

    def pair(i: int, j: int) -> Term:
        product_of = lambda x, z: 2 * (2 * ranks[i](x) - 1) * np.sin(2 * np.pi * ranks[j](z))  # noqa: E731
        return Term((X.columns[i], X.columns[j]), product_of)

    terms = [*(main(j) for j in range(X.shape[1])), pair(1, 2), pair(4, 6)]
    return sample_of(X, terms, task, seed)


class _Ranks:
    """Ranks between 0 and 1 of the values of a column, linear in between."""

    def __init__(self, column: Any) -> None:
        self.levels = sorted(set(column)) if column.dtype.kind not in "fiu" else None
        numbers = np.sort(self._numbers(column.to_numpy()))
        self.values, first, counts = np.unique(numbers, return_index=True, return_counts=True)
        self.ranks = (first + counts / 2) / len(numbers)

    def _numbers(self, values: Any) -> FloatArray:
        if self.levels is None:
            return np.asarray(values, np.float64)
        return np.array([float(self.levels.index(level)) for level in np.atleast_1d(values)])

    def __call__(self, values: Any) -> FloatArray:
        """Ranks of some values."""
        return np.asarray(np.interp(self._numbers(values), self.values, self.ranks))


# Settings that were written down before any of them was fitted


def uniform(n_rows: int, n_features: int, seed: int) -> pd.DataFrame:
    """Independent features on (0, 1), named a, b, c, ..."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(rng.random((n_rows, n_features)), columns=list("abcdefghij")[:n_features])


WAVES = [
    Term(("a",), lambda a: np.sin(2 * np.pi * a)),
    Term(("b",), lambda b: 2 * b - 1),
    Term(("a", "c"), lambda a, c: 3 * (a - 0.5) * (2 * c - 1)),
]


def friedman(seed: int) -> Sample:
    """Friedman's first function of ten features, 2,000 rows, noise of variance 1."""
    X = uniform(2000, 10, seed)
    terms = [
        Term(("a", "b"), lambda a, b: 10 * np.sin(np.pi * a * b)),
        Term(("c",), lambda c: 20 * (c - 0.5) ** 2),
        Term(("d",), lambda d: 10 * d),
        Term(("e",), lambda e: 5 * e),
    ]
    y = scores(X, terms) + np.random.default_rng([seed, 1]).normal(size=len(X))
    return sample_of(X, terms, seed=seed, y=y)


def heavy_tails(seed: int) -> Sample:
    """Five normal features with correlations of 0.5, noise of a t distribution with 3 df."""
    rng = np.random.default_rng(seed)
    values = np.sqrt(0.5) * (rng.normal(size=(3000, 5)) + rng.normal(size=(3000, 1)))
    X = pd.DataFrame(values, columns=list("abcde"))
    terms = [
        Term(("a",), lambda a: a),
        Term(("d",), lambda d: np.tanh(2 * d)),
        Term(("b", "c"), lambda b, c: 0.7 * b * c),
    ]
    return sample_of(X, terms, seed=seed, y=scores(X, terms) + rng.standard_t(3, size=len(X)))


def steps_and_bumps(seed: int) -> Sample:
    """Whole numbers from 0 to 9 and log-normal values; steps, a narrow bump, a step of a pair."""
    rng = np.random.default_rng(seed)
    X = uniform(4000, 4, seed)
    X["a"], X["b"] = rng.integers(0, 10, 4000), rng.lognormal(0.0, 1.0, 4000)
    terms = [
        Term(("a",), lambda a: 1.0 * (np.asarray(a) >= 4)),
        Term(("b",), lambda b: np.log(b)),
        Term(("c",), lambda c: 2 * np.exp(-(((c - 0.3) / 0.05) ** 2))),
        Term(("c", "d"), lambda c, d: 1.0 * (np.asarray(c) > 0.5) * (np.asarray(d) > 0.7)),
    ]
    return sample_of(X, terms, seed=seed)


def levels_and_missing(seed: int) -> Sample:
    """Levels, fifteen of uneven frequency, and a sixth of a column missing; a pair of both."""
    rng = np.random.default_rng(seed)
    X = uniform(3000, 4, seed)
    X["a"] = rng.choice(list("pqrstu"), 3000)
    X["b"] = np.array([f"level {k:02d}" for k in range(15)])[rng.zipf(1.6, 3000).clip(1, 15) - 1]
    X.loc[rng.random(3000) < 1 / 6, "c"] = np.nan
    terms = [
        Term(("a",), lambda a: 1.0 * np.isin(a, ["p", "q"]) - 0.5 * np.isin(a, ["u"])),
        Term(("b",), lambda b: np.vectorize(lambda v: np.sin(float(v[-2:])))(b)),
        Term(("c",), lambda c: np.where(np.isnan(c), 0.7, np.sin(2 * np.pi * np.nan_to_num(c)))),
        Term(("a", "d"), lambda a, d: np.isin(a, ["p", "s"]) * (2 * d - 1)),
    ]
    return sample_of(X, terms, seed=seed)


def few_rows(seed: int) -> Sample:
    """300 rows, three features, noise as large as the signal."""
    X = uniform(300, 3, seed)
    raw, rng = scores(X, WAVES), np.random.default_rng([seed, 1])
    return sample_of(X, WAVES, seed=seed, y=raw + raw.std() * rng.normal(size=len(X)))


def uneven_noise(seed: int) -> Sample:
    """Noise whose standard deviation rises tenfold with the first feature."""
    X = uniform(3000, 4, seed)
    noise = 0.2 * 10 ** X["a"].to_numpy() * np.random.default_rng([seed, 1]).normal(size=len(X))
    return sample_of(X, WAVES, seed=seed, y=scores(X, WAVES) + noise)


def three_classes(seed: int) -> Sample:
    """Log-odds f, 0 and -f: centred, the score of the first class is f."""
    X, rng = uniform(3000, 4, seed), np.random.default_rng([seed, 1])
    raw = scores(X, WAVES)
    noisy = np.column_stack([raw, 0 * raw, -raw]) + rng.gumbel(size=(len(X), 3))
    model = TPNNClassifier(random_state=seed, verbose=0)
    y = np.array(list("pqr"))[noisy.argmax(1)]
    return sample_of(X, WAVES, seed=seed, y=y, estimator=model, output="p")


def gamma_amounts(seed: int) -> Sample:
    """Amounts with a log link and a coefficient of variation of 0.7."""
    X, rng = uniform(3000, 4, seed), np.random.default_rng([seed, 1])
    model = TPNNRegressor(objective="gamma", random_state=seed, verbose=0)
    y = rng.gamma(2.0, np.exp(scores(X, WAVES)))
    return sample_of(X, WAVES, seed=seed, y=y, estimator=model)


def survival_times(seed: int) -> Sample:
    """Exponential times, about half of them censored."""
    X, rng = uniform(2000, 4, seed), np.random.default_rng([seed, 1])
    times, ends = rng.exponential(np.exp(-scores(X, WAVES))), rng.exponential(1.0, len(X))
    y = np.column_stack([np.minimum(times, ends), times <= ends])
    model = TPNNSurvival(random_state=seed, verbose=0)
    return sample_of(X, WAVES, seed=seed, y=y, estimator=model)


def high_quantile(seed: int) -> Sample:
    """Quantile of level 0.8 with exponential noise."""
    X, rng = uniform(3000, 4, seed), np.random.default_rng([seed, 1])
    objective = {"name": "quantile", "levels": 0.8}
    model = TPNNRegressor(objective=objective, random_state=seed, verbose=0)
    y = scores(X, WAVES) + rng.exponential(0.7, len(X))
    return sample_of(X, WAVES, seed=seed, y=y, estimator=model)


def a_triple(seed: int) -> Sample:
    """Product of three features beside main effects and a pair, 5,000 rows."""
    triple = Term(("b", "c", "d"), lambda b, c, d: 8 * (2 * b - 1) * (2 * c - 1) * (2 * d - 1))
    X = uniform(5000, 4, seed)
    return sample_of(X, [*WAVES, triple], seed=seed)


FIXED_BEFORE: dict[str, Callable[[int], Sample]] = {
    function.__name__.replace("_", " "): function
    for function in (friedman, heavy_tails, steps_and_bumps, levels_and_missing, few_rows,
                     uneven_noise, three_classes, gamma_amounts, survival_times, high_quantile,
                     a_triple)
}  # fmt: skip


def all_settings(rows: Sequence[int]) -> Iterator[tuple[str, Callable[[int], Sample]]]:
    """Name of every setting, and a function from a seed to a sample of it."""
    for n_rows, task, name in product(rows, TASKS, PAPER_FUNCTIONS):

        def of(seed: int, name: str = name, task: str = task, n: int = n_rows) -> Sample:
            return of_function(name, task, n, seed)

        yield f"{name}, {task}, {n_rows} rows", of
    for name, task in product(REAL_TABLES, TASKS[:2]):

        def real(seed: int, name: str = name, task: str = task) -> Sample:
            return on_real_features(name, task, seed)

        yield f"features of {name}, {task}", real
    yield from FIXED_BEFORE.items()
