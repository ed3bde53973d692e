"""Data sets of the paper, coded and split alike for every model."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.common.cells import RESULTS
from benchmarks.common.data import TASKS, cut, load, one_hot
from benchmarks.common.interface import Rows, Split, Task
from benchmarks.paper import formats
from tpnn import datasets
from tpnn._utils.arrays import FloatArray

CACHE = RESULTS / "cache"  # coded tables; may be deleted
PROBES = 200  # pre-selected inputs at which the stability score compares components
QUICK_ROWS = 1000

SUBSET = "a subset of the paper's data, not comparable with its number"
SYNTHETIC = "synthetic data of the same shape, the real files were absent"


class Source(NamedTuple):
    """Where a data set comes from."""

    file: str  # name for ``common.data.load``
    unit: float = 1.0  # what the target is divided by
    label: str = ""  # what to say beside every number


SOURCES = {  # by the name in the tables and in the lines of finished cells
    "calhousing": Source("calhousing"),
    "wine": Source("wine"),
    "online": Source("online_news_subset", unit=1e4, label=SUBSET),
    "abalone": Source("abalone"),
    "fico": Source("fico_heloc"),
    "churn": Source("churn"),
    "credit": Source("credit_subset", label=SUBSET),
    "letter": Source("letter"),
    "drybean": Source("drybean"),
    "madelon": Source("madelon"),
    "celeba_attr": Source("celeba_attr"),
}
FUNCTIONS = ("f1", "f2", "f3")
RANKING = ("microsoft", "yahoo")
NAMES = (*SOURCES, *FUNCTIONS, *RANKING)


class Table(NamedTuple):
    """A whole data set: features (n, p), their names, targets (n,), task, label."""

    X: FloatArray
    names: list[str]
    y: NDArray[Any]
    task: Task
    label: str


def split(name: str, seed: int, quick: bool = False) -> Split:
    """Shuffle and cut a data set; a synthetic function is drawn anew for every seed."""
    if name in FUNCTIONS:
        sample = datasets.make_synthetic(name, random_state=seed)
        rows = Rows(sample.X.to_numpy(), sample.y.to_numpy())
    else:
        rows = Rows(table(name).X, table(name).y)
    return cut(rows, seed, QUICK_ROWS if quick else None)


def probes(name: str) -> FloatArray:
    """Return the inputs at which components are compared, (PROBES, p); the same for all splits."""
    X = table(name).X
    return X[np.random.RandomState(12345).permutation(len(X))[:PROBES]]


@lru_cache(maxsize=2)
def table(name: str) -> Table:
    """Return a data set, from the cache where its file has been coded before."""
    if name not in SOURCES:
        return _made(name)
    path = CACHE / f"{name}.npz"
    if not path.exists():
        coded = _code(name)
        CACHE.mkdir(exist_ok=True)
        meta = np.array([coded.task.kind, str(coded.task.n_outputs), coded.label])
        np.savez_compressed(path, X=coded.X, names=np.array(coded.names), y=coded.y, meta=meta)
    with np.load(path) as stored:
        kind, n_outputs, label = stored["meta"].tolist()
        task = Task(kind, int(n_outputs))
        return Table(stored["X"], stored["names"].tolist(), stored["y"], task, label)


def _made(name: str) -> Table:
    """Return a data set that is drawn, or read from a folder of its own."""
    if name in FUNCTIONS:
        sample = datasets.make_synthetic(name, n_samples=2000, random_state=12345)
        names = list(sample.X.columns)
        return Table(sample.X.to_numpy(), names, sample.y.to_numpy(), Task("regression"), "")
    folder = formats.find(name)
    X, y = formats.read_ranking(folder, name) if folder else formats.ranking_alike(name)
    names = [f"feature {j + 1}" for j in range(X.shape[1])]
    return Table(X, names, y, Task("regression"), "" if folder else SYNTHETIC)


def _code(name: str) -> Table:
    """Read a data set and code its categories and classes as numbers."""
    source = SOURCES[name]
    features, target = load(source.file)
    coded, task = one_hot(features), TASKS[source.file]
    y = target / source.unit if task.kind == "regression" else target
    return Table(coded.to_numpy(np.float64), list(coded.columns), y, task, source.label)
