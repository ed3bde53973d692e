"""Which components are found: selection, planted signals, higher orders, many features."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import combinations

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from benchmarks.common.bars import Plan, Row, child_output, row
from benchmarks.common.data import california
from benchmarks.common.environment import seconds
from benchmarks.common.interface import Component
from benchmarks.common.quadrature import true_importance
from benchmarks.common.scores import rmse, selection_auroc
from tpnn import Grow, TPNNClassifier, TPNNRegressor, datasets
from tpnn._utils.arrays import FloatArray
from tpnn.loss.objectives import OBJECTIVES
from tpnn.search.screen import rank_pairs
from tpnn.solvers.problem.problem import Bagging, Problem
from tpnn.solvers.problem.rows import Targets
from tpnn.solvers.solution import Limits, NoProgress
from tpnn.table.encoder import TableEncoder
from tpnn.table.table import Table

PAPER = {"f1": 1.0, "f2": 0.943, "f3": 0.956}  # AUROC of ANOVA-T2PNN
PLANTED = {"features": 200, "mains": 5, "pairs": 5, "triples": 2}
SHAPES: tuple[Callable[[FloatArray], FloatArray], ...] = (
    lambda x: x,
    np.sin,
    np.sign,
    lambda x: np.sin(np.pi * x),
    lambda x: x**2 - 1 / 3,
)
N_SCREENED = 136  # features whose pairs are ranked


def measure_selection(plan: Plan) -> list[Row]:
    """Tell signal from noise among all main effects and pairs of the synthetic functions.

    A component is signal where its true norm, by quadrature of the true function, is above zero.
    """
    rows = []
    for name, paper in PAPER.items():
        truth = {s for s, norm in true_importance(name).items() if norm > 0}
        scores = np.array([_selection(name, truth, s, plan) for s in range(plan.synthetic_sets)])
        means = dict(zip(("AUROC", "precision", "recall"), scores.mean(0), strict=True))
        what = f"{name}, {plan.synthetic_rows:,} rows, {plan.synthetic_sets} data sets"
        rows.append(row("selection", f"AUROC, {what}", means["AUROC"], "", f">= {paper}"))
        for score in ("precision", "recall"):
            zeros = f"{score} of exact zeros, selection='noise', {what}"
            rows.append(row("selection", zeros, means[score], ""))
    return rows


def _selection(
    name: str, truth: set[Component], seed: int, plan: Plan
) -> tuple[float, float, float]:
    """AUROC of the norms, and precision and recall of what selection keeps."""
    data = datasets.make_synthetic(name, n_samples=plan.synthetic_rows, random_state=seed)
    model = TPNNRegressor(selection="noise", solver=_solver(plan), random_state=0)
    model.fit(data.X, data.y)
    kept = _indices(model, data.X)
    full = model.set_params(selection="none").fit(data.X, data.y).model_
    masses = [[axis.weights for axis in full.axes(s)] for s in full.components]
    norms = [_norm(table, mass) for table, mass in zip(full.tables, masses, strict=True)]
    auroc = selection_auroc(np.array(norms), np.array([s in truth for s in full.components]))
    return auroc, len(kept & truth) / len(kept), len(kept & truth) / len(truth)


def _solver(plan: Plan) -> Grow:
    """Return the default solver, which a quick plan stops early."""
    return Grow(max_rounds=plan.steps)


def _norm(table: FloatArray, masses: Iterable[FloatArray]) -> float:
    """Return E|f| under the product of the marginals."""
    mean = np.abs(table)
    for mass in masses:
        mean = np.tensordot(mass, mean, axes=(0, 0))
    return float(mean.mean())


def _indices(model: TPNNRegressor, X: pd.DataFrame) -> set[Component]:
    numbers = {name: number for number, name in enumerate(X.columns)}
    return {tuple(numbers[name] for name in names) for names in model.components_}


def planted(n_rows: int, seed: int) -> tuple[pd.DataFrame, FloatArray, set[Component]]:
    """Draw features, a target with signal-to-noise ratio 5, and the components that make it up.

    Each component is a product of odd and even functions of features of its own, of variance one.
    """
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n_rows, PLANTED["features"]))
    free = iter(rng.permutation(PLANTED["features"]).tolist())
    signal, truth = np.zeros(n_rows), set()
    for order, kind in enumerate(("mains", "pairs", "triples"), start=1):
        for number in range(PLANTED[kind]):
            component = tuple(sorted(next(free) for _ in range(order)))
            columns = [SHAPES[(number + axis) % 5](X[:, j]) for axis, j in enumerate(component)]
            part = np.prod(columns, axis=0)
            signal += (part - part.mean()) / part.std()
            truth.add(component)
    noise = rng.normal(size=n_rows) * signal.std() / np.sqrt(5)
    names = [f"X{j + 1}" for j in range(X.shape[1])]
    return pd.DataFrame(X, columns=names), signal + noise, truth


def measure_planted(plan: Plan) -> list[Row]:
    """Count planted components found, and others, with order=3 and default settings."""
    rows = []
    for seed in range(plan.planted_sets):
        X, y, truth = planted(plan.screened_rows, seed)
        model = TPNNRegressor(order=3, solver=_solver(plan), random_state=0)
        took = seconds(partial(model.fit, X, y))
        kept = _indices(model, X)
        what = f"of {len(truth)} planted in {len(X):,} x {X.shape[1]}, order=3, data set {seed}"
        rows += [
            row("planted", f"found {what}", len(kept & truth), "", f">= {len(truth)}"),
            row("planted", f"others {what}", len(kept - truth), "", "<= 2"),
            row("planted", f"fit {what}", took, "s"),
        ]
    return rows


def measure_madelon(plan: Plan) -> list[Row]:
    """AUROC on madelon by order, 80/20 splits."""
    X, y = datasets.load("madelon")
    rows = []
    for order, bar in ((2, ">= 0.605"), (3, ">= 0.80"), (4, ">= 0.80")):
        scores = [_auroc(X, y, order, seed, plan) for seed in range(plan.madelon_splits)]
        what = f"AUROC, {len(X):,} x {X.shape[1]}, order={order}, {len(scores)} splits"
        rows.append(row("madelon", what, float(np.mean(scores)), "", bar))
    return rows


def _auroc(X: pd.DataFrame, y: pd.Series, order: int, seed: int, plan: Plan) -> float:
    mixed = np.random.RandomState(seed).permutation(len(X))
    training, test = np.split(mixed, [int(0.8 * len(X))])
    model = TPNNClassifier(order=order, solver=_solver(plan), random_state=0)
    model.fit(X.iloc[training], y.iloc[training])
    return float(roc_auc_score(y.iloc[test], model.decision_function(X.iloc[test])))


def measure_third_order(plan: Plan) -> list[Row]:
    """Compare RMSE on California housing of order 3 with that of order 2."""
    errors: dict[int, list[float]] = {2: [], 3: []}
    for seed in range(plan.splits):
        data = california(seed, plan.training_rows)
        for order, found in errors.items():
            model = TPNNRegressor(order=order, solver=_solver(plan), random_state=0)
            found.append(
                rmse(data.test.y, model.fit(data.fitted.X, data.fitted.y).predict(data.test.X))
            )
    means = {order: float(np.mean(found)) for order, found in errors.items()}
    what = f"RMSE, California housing, {plan.splits} splits"
    return [
        row("third-order", f"{what}, order=2", means[2], ""),
        row("third-order", f"{what}, order=3", means[3], "", f"<= {means[2]:.5f}"),
    ]


def measure_screen(plan: Plan) -> list[Row]:
    """Seconds to rank all pairs of many features: by residuals, by NID, by EBM's FAST."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(plan.screened_rows, N_SCREENED))
    y = X[:, 0] + X[:, 3] * X[:, 77] + rng.normal(size=len(X))
    n_pairs = len(list(combinations(range(X.shape[1]), 2)))
    what = f"{n_pairs:,} pairs of {len(X):,} x {X.shape[1]}"
    problem, residual = _problem(X, y)
    features = list(range(X.shape[1]))
    taken = [seconds(lambda: rank_pairs(problem, residual, features, None)) for _ in range(3)]
    rows = [row("screening", f"residuals, {what}", min(taken[1:]), "s", "<= 10")]
    for name, rank in {"NID": _nid, "FAST of EBM": _fast}.items():
        try:
            rows.append(row("screening", f"{name}, {what}", rank(X, y), "s"))
        except ImportError:
            continue
    return rows


def _problem(X: FloatArray, y: FloatArray) -> tuple[Problem, FloatArray]:
    """Problem of some rows, and what the best constant leaves of their targets."""
    table, bagging = Table(X), Bagging(1, 0.15, 0)
    encoder = TableEncoder.fit(table, {1: 256})
    targets, objective = Targets(y[:, None], None, np.zeros(len(y))), OBJECTIVES["squared_error"]
    problem = Problem.build(table, encoder, targets, objective, bagging, {})
    return problem, np.asarray(problem.distinct.weights[:, None] * problem.rows.y, float)


def _nid(X: FloatArray, y: FloatArray) -> float:
    from tpnn.search import nid

    problem, _ = _problem(X, y)
    nothing = Grow(growth="none").solve(problem, Limits(), NoProgress())
    return seconds(lambda: nid.rank_pairs(problem, nothing, 300))


def _fast(X: FloatArray, y: FloatArray) -> float:
    from interpret.utils import measure_interactions

    return seconds(lambda: measure_interactions(X, y, interactions=300))


def measure_wide(plan: Plan) -> list[Row]:
    """Seconds and memory of a fit with thousands of features, in a fresh interpreter."""
    took, peak, found = child_output("fit_wide", plan.wide_rows, plan.wide_features).split()
    what = f"fit of {plan.wide_rows:,} x {plan.wide_features:,}"
    return [
        row("wide", what, float(took), "s", "<= 300"),
        row("wide", f"{what}, peak memory", float(peak), "GB", "<= 2"),
        row("wide", f"{what}, components found of 4", float(found), "", ">= 4"),
    ]
