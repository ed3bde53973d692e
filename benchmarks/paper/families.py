"""Every model of the tables by name: family, order, and what is varied.

``paper2-k30`` is ANOVA-T^2PNN by the paper's recipe with 30 bases. A family such as ``paper2``
stands for its grid; tables show the member that is best on validation rows, averaged over splits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from benchmarks.common.interface import Component, Model, Task
from benchmarks.common.models.default_tpnn import DefaultTPNN
from benchmarks.common.models.descent import Schedule
from benchmarks.common.models.dnn import ARCHITECTURES, dnn
from benchmarks.common.models.ebm import EBM
from benchmarks.common.models.gam_tpnn import gam_tpnn
from benchmarks.common.models.linear import Linear
from benchmarks.common.models.nam import nam
from benchmarks.common.models.nbm import nbm
from benchmarks.common.models.nodegam import nodegam
from benchmarks.common.models.paper import paper
from benchmarks.common.models.pygam import SplineGAM
from benchmarks.common.models.sum_to_zero import SumToZero
from benchmarks.common.models.tree import DecisionTree
from benchmarks.common.models.xgboost import XGBoostGrid
from benchmarks.paper.special import HOMES
from tpnn import Descent, Grow

WIDE = ("microsoft", "yahoo", "madelon")  # data sets with many features
SMALL_K = ("online", "credit", *WIDE)  # where the paper's grid ends at 50
N_BASES = (10, 30, 50, 100)
NEURAL = ("paper", "nbmtpnn", "relu", "gamtpnn", "nam", "nbm", "nodegam", "dnn")
QUICK = Schedule(max_steps=60, patience=60)
RUNTIME_NBM = {1: 10}  # bases of NB^1M in the runtime table


class Setting(NamedTuple):
    """What a model is built for."""

    data: str  # name of the data set, which decides some layer sizes
    task: Task  # what is predicted
    seed: int  # random state
    pairs: Sequence[Component] | None = None  # interactions to include where not all are
    quick: bool = False  # whether to train for a moment only


def members(family: str, data: str) -> list[str]:
    """Return the grid behind a name of a table, the name itself where there is none.

    >>> members("paper2", "online"), members("nam1", "wine")
    (['paper2-k10', 'paper2-k30', 'paper2-k50'], ['nam1'])
    """
    if re.fullmatch(r"(paper|nbmtpnn|relu|gamtpnn)[12]", family):
        largest = 50 if data in SMALL_K or family.startswith("relu") else 100
        return [f"{family}-k{k}" for k in N_BASES if k <= largest]
    if family == "dnn" and data not in HOMES:  # a bottleneck has one architecture
        return [f"dnn-{architecture}" for architecture in ARCHITECTURES]
    return [family]


def build(name: str, setting: Setting) -> Model:
    """Build a model, not yet fitted.

    >>> build("nam2", Setting("wine", Task("regression"), 0)).schedule.batch_size
    4096
    """
    found = re.fullmatch(r"([a-z]+)([12]?)(?:-(.+))?", name)
    if found is None or found[1] not in _BUILDERS:
        raise ValueError(f"model: must begin with one of {', '.join(_BUILDERS)}, found {name!r}.")
    family, order, variant = found[1], int(found[2] or 1), found[3] or ""
    options: dict[str, Any] = {}
    if family in NEURAL:
        options = {"seed": setting.seed, "schedule": QUICK if setting.quick else Schedule()}
    model = _BUILDERS[family](setting, order, variant, options)
    return SumToZero(model) if variant == "centred" else model


Builder = Callable[[Setting, int, str, dict[str, Any]], Any]


def _tpnn(setting: Setting, order: int, variant: str, options: dict[str, Any]) -> Model:
    descends = variant == "gradient"
    settings: dict[str, Any] = {"solver": "gradient" if descends else "auto"}
    if setting.quick:
        solver = Descent(max_steps=50) if descends else Grow(max_rounds=50)
        settings = {"solver": solver, "n_bags": 2}
    return DefaultTPNN(setting.task, order, setting.seed, **settings)


def _recipe(**fixed: Any) -> Builder:
    def build_one(setting: Setting, order: int, variant: str, options: dict[str, Any]) -> Model:
        n_bases = int(variant.removeprefix("k"))
        return paper(setting.task, order, n_bases, setting.pairs, **options, **fixed)

    return build_one


def _gam_tpnn(setting: Setting, order: int, variant: str, options: dict[str, Any]) -> Model:
    n_bases = int(variant.removeprefix("k"))
    return gam_tpnn(setting.task, order, n_bases, setting.pairs, **options)


def _nam(setting: Setting, order: int, variant: str, options: dict[str, Any]) -> Model:
    hidden: tuple[int, ...] = (64, 64, 32)
    if variant == "small":
        hidden = (16, 16, 8)
    elif setting.data in WIDE:
        hidden = (64, 32, 16) if order == 1 else (64, 16, 8)
    elif order == 2 and setting.data in ("online", "credit", "drybean"):
        hidden = (64, 32, 16)
    return nam(setting.task, order, hidden, setting.pairs, **options)


def _nbm(setting: Setting, order: int, variant: str, options: dict[str, Any]) -> Model:
    if variant == "small":
        return nbm(setting.task, order, (32, 16, 16), RUNTIME_NBM, setting.pairs, **options)
    return nbm(setting.task, order, pairs=setting.pairs, **options)


def _nodegam(setting: Setting, order: int, variant: str, options: dict[str, Any]) -> Model:
    if setting.quick:
        return nodegam(setting.task, order, n_trees=16, **options)
    return nodegam(setting.task, order, n_trees=64 * order, seed=setting.seed)


def _ebm(setting: Setting, order: int, variant: str, options: dict[str, Any]) -> Model:
    settings = {"outer_bags": 2, "max_rounds": 20} if setting.quick else {}
    return EBM(setting.task, order, setting.seed, **settings)


def _xgboost(setting: Setting, order: int, variant: str, options: dict[str, Any]) -> Model:
    if setting.quick:
        return XGBoostGrid(setting.task, setting.seed, (3,), (0.1,), (20, 50))
    return XGBoostGrid(setting.task, setting.seed)


def _spline(setting: Setting, order: int, variant: str, options: dict[str, Any]) -> Model:
    if setting.quick:
        return SplineGAM(setting.task, order, (0.6,))
    return SplineGAM(setting.task, order)


_BUILDERS: dict[str, Builder] = {
    "tpnn": _tpnn,
    "paper": _recipe(),
    "nbmtpnn": _recipe(shared_bases=True),
    "relu": _recipe(activation="relu"),
    "gamtpnn": _gam_tpnn,
    "nam": _nam,
    "nbm": _nbm,
    "nodegam": _nodegam,
    "dnn": lambda setting, _, variant, options: dnn(setting.task, variant or "deep", **options),
    "spline": _spline,
    "ebm": _ebm,
    "xgboost": _xgboost,
    "tree": lambda setting, *_: DecisionTree(setting.task, setting.seed),
    "linear": lambda setting, *_: Linear(setting.task),
}
