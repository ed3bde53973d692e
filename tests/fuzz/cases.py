"""Case: one random table with its targets, weights, offset and the settings of an estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.fuzz import columns as kinds
from tests.fuzz.columns import Column, Recipe, random_recipe
from tests.fuzz.containers import CONTAINERS, INSTALLED, NAMED, build, can_hold, without_order
from tests.fuzz.settings import HAS_TORCH, Settings, named, random_settings
from tpnn import Descent, TPNNClassifier, TPNNRegressor, TPNNSurvival

ESTIMATORS: dict[str, Any] = {
    "regression": TPNNRegressor, "classification": TPNNClassifier, "survival": TPNNSurvival,
}  # fmt: skip
NAMES = (
    "age", "", " ", "0", "1", "x0", "effect", "lower", "a x b", "日本", "output", "é\n", "<b>",
    "other", "income", "A", "x1",
)  # fmt: skip
OBJECTIVES: tuple[Any, ...] = (
    "squared_error", "squared_error", "absolute_error", "huber", "quantile", "poisson", "gamma",
    "tweedie", {"name": "quantile", "levels": [0.1, 0.5, 0.9]},
    {"name": "huber", "threshold": 0.1}, {"name": "tweedie", "power": 1.2},
)  # fmt: skip
POSITIVE = ("poisson", "gamma", "tweedie")
LARGEST_SURE_TARGET, LARGEST_SURE_OFFSET = 1e150, 100.0
Numbers = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Case:
    """Everything that one fit needs.

    Parameters
    ----------
    seed : int
        What the case was made from.
    task : {"regression", "classification", "survival"}
        Which estimator.
    columns, recipes : tuple of Column and of Recipe
        The table, and how to draw more rows of it.
    container : str
        Which library's table it becomes.
    target : array of shape (n_rows,) or (n_rows, 2)
        Targets, labels, or times and events.
    weights, offset : array of shape (n_rows,), or None
        Weight and offset of each row.
    settings : dict
        Parameters of the estimator, features by position.
    faults : frozenset of str
        Arguments of which one must be refused; empty where the fit must succeed.
    doubts : frozenset of str
        Arguments that may be refused, because they are valid but extreme.
    """

    seed: int
    task: str
    columns: tuple[Column, ...]
    recipes: tuple[Recipe, ...]
    container: str
    target: Numbers
    weights: Numbers | None
    offset: Numbers | None
    settings: Settings
    faults: frozenset[str] = frozenset()
    doubts: frozenset[str] = frozenset()

    @property
    def n_rows(self) -> int:
        """Number of rows of the table."""
        return len(self.columns[0].values)

    @property
    def is_named(self) -> bool:
        """Whether the table has names."""
        return self.container in NAMED

    @property
    def counted(self) -> list[int]:
        """Rows with a weight."""
        return [row for row in range(self.n_rows) if self.weights is None or self.weights[row] > 0]

    @property
    def lacks(self) -> str | None:
        """Library that the case needs and that is not installed here."""
        if self.container not in INSTALLED:
            return self.container
        return "torch" if isinstance(self.settings.get("solver"), Descent) > HAS_TORCH else None

    def table(self, container: str | None = None) -> Any:
        """Return the table of the rows to fit."""
        return build(container or self.container, self.columns)

    def estimator(self, places: Sequence[int] | None = None, **changes: Any) -> Any:
        """Return the estimator, for columns that stand at the given places."""
        where = places or range(len(self.columns))

        def name(feature: Any) -> Any:
            if not isinstance(feature, int):  # a wrong name, on purpose
                return feature
            return self.columns[feature].name if self.is_named else where[feature]

        return ESTIMATORS[self.task](**named(self.settings | changes, name))

    def fit(self, **changes: Any) -> Any:
        """Fit the estimator to the table."""
        return fit(self.estimator(**changes), self.table(), self)

    def take(self, rows: Sequence[int]) -> Case:
        """Return the case with the given rows only."""
        rows = list(rows)

        def of(values: Numbers | None) -> Numbers | None:
            return None if values is None else values[rows]

        return replace(
            self,
            columns=tuple(column.take(rows) for column in self.columns),
            target=self.target[rows],
            weights=of(self.weights),
            offset=of(self.offset),
        )

    def fresh_columns(self, rng: np.random.Generator, n_rows: int) -> tuple[Column, ...]:
        """Draw rows to predict on, with values that fit has not seen."""
        drawn = (recipe.fresh(rng, n_rows) for recipe in self.recipes)
        return tuple(
            replace(column, values=values)
            for column, values in zip(self.columns, drawn, strict=True)
        )


def fit(estimator: Any, table: Any, case: Case) -> Any:
    """Fit an estimator to a table with the targets, weights and offset of a case."""
    return estimator.fit(table, case.target, sample_weight=case.weights, offset=case.offset)


def random_case(seed: int) -> Case:
    """Make the case of a seed."""
    rng = np.random.default_rng([seed, 1])
    n_rows = int(rng.choice([2, 3, 5, 10, 30, 100, 300], p=[0.02, 0.03, 0.1, 0.2, 0.35, 0.2, 0.1]))
    recipes = tuple(random_recipe(rng) for _ in range(rng.integers(1, 6)))
    names = rng.choice(NAMES, len(recipes), replace=False)
    columns = tuple(
        Column(str(name), recipe.kind, recipe.values(rng, n_rows), recipe.levels,
               int(rng.integers(2)))
        for name, recipe in zip(names, recipes, strict=True)
    )  # fmt: skip
    if len(columns) > 1 and rng.random() < 0.1:  # two features that no one can tell apart
        columns = (*columns[:-1], replace(columns[0], name=columns[-1].name))
        recipes = (*recipes[:-1], recipes[0])
    holders = [container for container in CONTAINERS if can_hold(container, columns)]
    container = str(rng.choice(holders))
    settings = random_settings(rng, columns, without_order(container))
    task = str(rng.choice(list(ESTIMATORS), p=[0.6, 0.27, 0.13]))
    target = _random_target(rng, task, columns, settings)
    case = Case(
        seed=seed,
        task=task,
        columns=columns,
        recipes=recipes,
        container=container,
        target=target,
        weights=_random_weights(rng, n_rows),
        offset=_random_offset(rng, n_rows),
        settings=settings,
    )
    valid = _made_valid(case)
    return replace(valid, faults=_faults(valid), doubts=_doubts(valid))


def _signal(rng: np.random.Generator, columns: Sequence[Column]) -> Numbers:
    """One number for each row that depends on the table and on chance."""
    n_rows = len(columns[0].values)
    total = rng.normal(size=n_rows)
    for column in columns[:2]:
        places: dict[str, int] = {}
        ranks = np.array([places.setdefault(repr(v), len(places)) for v in column.values])
        total += rng.normal() * np.sin(ranks)
    return total


def _random_target(
    rng: np.random.Generator, task: str, columns: Sequence[Column], settings: Settings
) -> Numbers:
    signal = _signal(rng, columns)
    if task == "survival":
        times = np.exp(signal) if rng.random() < 0.5 else np.round(np.exp(signal))
        events = rng.random(len(signal)) < rng.choice([0.1, 0.5, 1.0])
        events[rng.integers(len(events))] = True
        return np.column_stack([times, events])
    if task == "classification":
        return _random_labels(rng, signal)
    objective = OBJECTIVES[rng.integers(len(OBJECTIVES))]
    settings["objective"] = objective
    if (objective if isinstance(objective, str) else objective["name"]) in POSITIVE:
        amounts = np.exp(np.clip(signal, -8, 8))
        unit = float(10 ** rng.choice([0.0, 0.0, -6.0, 6.0]))
        return np.asarray(np.ceil(amounts)) if rng.random() < 0.5 else amounts * unit
    if objective == "squared_error" and rng.random() < 0.05:
        return np.column_stack([signal, -2 * signal + rng.normal(size=len(signal))])
    return _random_amounts(rng, signal)


def _random_amounts(rng: np.random.Generator, signal: Numbers) -> Numbers:
    flavours = (
        signal, signal, np.round(signal), signal * 1e-9 + 5, signal * 1e100, signal * 1e-200,
        np.full(len(signal), 3.25), np.where(signal > 1, 1e6, 0.0), -0.0 * signal, signal * 1e300,
    )  # fmt: skip
    shares = (0.3, 0.2, 0.2, 0.05, 0.05, 0.05, 0.05, 0.04, 0.04, 0.02)
    return flavours[rng.choice(len(flavours), p=shares)]


def _random_labels(rng: np.random.Generator, signal: Numbers) -> Numbers:
    n_classes = int(rng.choice([2, 2, 2, 3, 5]))
    cuts = np.quantile(signal, np.sort(rng.random(n_classes - 1)))  # some classes are rare
    members = np.digitize(signal, cuts)
    members[: min(2, len(members))] = [0, 1][: len(members)]  # at least two classes
    names: list[Numbers] = [
        np.arange(5), np.array(["b", "a", "ä", "", "z"]), np.array([-1.0, 2.0, 0.0, 7.0, 1e9]),
        np.array(["b", "a", "ä", "", "z"], object),
    ]  # fmt: skip
    if n_classes == 2 and rng.random() < 0.2:
        return np.asarray(members == 1)
    return names[rng.integers(len(names))][members]


def _random_weights(rng: np.random.Generator, n_rows: int) -> Numbers | None:
    flavours: list[Numbers | None] = [
        None, rng.integers(0, 4, n_rows).astype(float), rng.random(n_rows), np.full(n_rows, 0.1),
        rng.random(n_rows) * 1e200, rng.random(n_rows) * 1e-200,
        np.where(rng.random(n_rows) < 0.1, 1000.0, 1.0),
    ]  # fmt: skip
    weights = flavours[rng.choice(7, p=[0.55, 0.15, 0.1, 0.05, 0.05, 0.05, 0.05])]
    if weights is not None:
        weights[:2] = weights.max() or 1.0  # both of the classes that are sure to be there
    return weights


def _random_offset(rng: np.random.Generator, n_rows: int) -> Numbers | None:
    if rng.random() < 0.8:
        return None
    return rng.normal(size=n_rows) * float(rng.choice([0.1, 1.0, 5.0, 500.0]))


def _made_valid(case: Case) -> Case:
    """Take away what the classes do not allow, and see to an event that counts."""
    if case.task == "survival":
        case.target[0, 1] = 1.0  # the first row always has weight
    if case.task == "classification" and len(np.unique(case.target)) > 2:
        return replace(case, offset=None, settings=case.settings | {"shapes": {}})
    return case


def _faults(case: Case) -> frozenset[str]:
    """Tell which arguments are wrong already: only columns that no model can use."""
    wrong = any(column.kind in kinds.REFUSED for column in case.columns)
    return frozenset({"X"} if wrong else ())


def _doubts(case: Case) -> frozenset[str]:
    """Tell which arguments are so large that a clear refusal is right too."""
    numbers = case.target if case.target.dtype.kind == "f" else np.zeros(1)
    doubts = {"y", "objective"} if np.abs(numbers).max() > LARGEST_SURE_TARGET else set()
    offset = case.offset if case.offset is not None else np.zeros(1)
    return frozenset(doubts | ({"offset"} if np.abs(offset).max() > LARGEST_SURE_OFFSET else set()))
