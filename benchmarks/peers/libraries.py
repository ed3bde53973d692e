"""The libraries that are compared, each at its defaults, with levels given as it wants them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.common.interface import Kind
from benchmarks.peers.frames import levels
from tpnn._utils.arrays import FloatArray

THREADS = 2
ABSENT = "missing"  # CatBoost takes no missing levels


class Peer:
    """An estimator that takes levels as strings.

    Parameters
    ----------
    estimator : object
        Whatever the library calls its estimator.
    kind : {"regression", "binary", "multiclass"}
        What it predicts.
    """

    def __init__(self, estimator: Any, kind: Kind) -> None:
        self.estimator, self.kind = estimator, kind

    def fit(self, X: pd.DataFrame, y: NDArray[Any]) -> Self:
        """Fit to all rows."""
        self.estimator.fit(X, y)
        return self

    def predict(self, X: pd.DataFrame) -> FloatArray:
        """Return numbers (n,), or probabilities of all classes (n, n_classes)."""
        if self.kind == "regression":
            return np.asarray(self.estimator.predict(X), np.float64)
        return np.asarray(self.estimator.predict_proba(X), np.float64)

    def components(self) -> dict[str, int] | None:
        """Return the number of components of each order, None where there are none."""
        return None


class _Ours(Peer):
    def components(self) -> dict[str, int]:
        return _by_order(self.estimator.model_.components)


class _EBM(Peer):
    def components(self) -> dict[str, int]:
        return _by_order(self.estimator.term_features_)


class _CatBoost(Peer):
    """Levels are strings, a missing one too."""

    def fit(self, X: pd.DataFrame, y: NDArray[Any]) -> Self:
        self.estimator.fit(filled_levels(X), y, cat_features=levels(X))
        return self

    def predict(self, X: pd.DataFrame) -> FloatArray:
        return super().predict(filled_levels(X))


def filled_levels(X: pd.DataFrame) -> pd.DataFrame:
    """Return the features with a level of its own for missing ones."""
    return X.fillna(dict.fromkeys(levels(X), ABSENT))


class _WithCategories(Peer):
    """Levels are those of the rows to fit, others are missing; columns go by their position.

    Some names of columns are refused by LightGBM, others by XGBoost.
    """

    def fit(self, X: pd.DataFrame, y: NDArray[Any]) -> Self:
        self.dtypes = {
            column: pd.CategoricalDtype(sorted(X[column].dropna().unique())) for column in levels(X)
        }
        return super().fit(self._coded(X), y)

    def predict(self, X: pd.DataFrame) -> FloatArray:
        return super().predict(self._coded(X))

    def _coded(self, X: pd.DataFrame) -> pd.DataFrame:
        return X.astype(self.dtypes).set_axis([f"x{j}" for j in range(X.shape[1])], axis=1)


def _by_order(components: Any) -> dict[str, int]:
    counts = Counter(len(component) for component in components)
    return {str(order): counts[order] for order in sorted(counts)}


def ours(kind: Kind, seed: int, **settings: Any) -> Peer:
    """Our estimator, at its defaults but for these settings."""
    from tpnn import TPNNClassifier, TPNNRegressor

    estimator = TPNNRegressor if kind == "regression" else TPNNClassifier
    return _Ours(estimator(random_state=seed, n_jobs=THREADS, verbose=0, **settings), kind)


def _ebm(kind: Kind, seed: int, **settings: Any) -> Peer:
    from interpret import glassbox

    task = "Regressor" if kind == "regression" else "Classifier"
    estimator = getattr(glassbox, f"ExplainableBoosting{task}")
    return _EBM(estimator(random_state=seed, n_jobs=THREADS, **settings), kind)


def _catboost(kind: Kind, seed: int) -> Peer:
    from catboost import CatBoostClassifier, CatBoostRegressor

    estimator = CatBoostRegressor if kind == "regression" else CatBoostClassifier
    quiet = {"verbose": False, "allow_writing_files": False}
    return _CatBoost(estimator(random_seed=seed, thread_count=THREADS, **quiet), kind)


def _lightgbm(kind: Kind, seed: int) -> Peer:
    from lightgbm import LGBMClassifier, LGBMRegressor

    estimator = LGBMRegressor if kind == "regression" else LGBMClassifier
    return _WithCategories(estimator(random_state=seed, n_jobs=THREADS, verbose=-1), kind)


def _xgboost(kind: Kind, seed: int) -> Peer:
    from xgboost import XGBClassifier, XGBRegressor

    estimator = XGBRegressor if kind == "regression" else XGBClassifier
    settings = {"random_state": seed, "n_jobs": THREADS, "enable_categorical": True}
    return _WithCategories(estimator(**settings), kind)


class Maker(NamedTuple):
    """A module, and what builds a model with it for a kind of target and a seed."""

    module: str
    build: Callable[[Kind, int], Peer]


MODELS = {
    "tpnn": Maker("tpnn", ours),
    "catboost": Maker("catboost", _catboost),
    "lightgbm": Maker("lightgbm", _lightgbm),
    "xgboost": Maker("xgboost", _xgboost),
    "ebm": Maker("interpret", _ebm),
}
QUICK_MODELS = {**MODELS, "ebm": Maker("interpret", partial(_ebm, outer_bags=2))}
OURS, EBM, TUNED = "tpnn", "ebm", "catboost_tuned"
TREES = ("catboost", "lightgbm", "xgboost")
RIVALS = (*TREES, EBM)
ALONE = "tpnn without remainder"
NAMES = {"catboost": "CatBoost", "lightgbm": "LightGBM", "xgboost": "XGBoost", EBM: "EBM"}


def version(maker: Maker) -> str | None:
    """Return the version of a model's library, None where it is not installed.

    Ours has a tag of its sources too: a change of a constant changes models, not the version.
    """
    try:
        module = import_module(maker.module)
    except ImportError:
        return None
    found = str(module.__version__)
    return f"{found}+{_tag_of_sources()}" if maker.module == OURS else found


def _tag_of_sources() -> str:
    """Return a hash of the rooms that a fit goes through."""
    root = Path(str(import_module(OURS).__file__)).parent
    rooms = ("table", "anova", "loss", "model", "solvers", "search", "estimators")
    digest = hashlib.sha256()
    for path in sorted(path for room in rooms for path in (root / room).rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]
