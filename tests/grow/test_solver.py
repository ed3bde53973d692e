"""The growing solver: trees on tables, the smooth start, widths, and what it reaches."""

from __future__ import annotations

import _thread
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from threadpoolctl import threadpool_info

import tpnn
from tpnn import AnovaModel, ComponentSet, TPNNClassifier, TPNNRegressor, datasets
from tpnn._threads import Workers
from tpnn.anova.dictionary import N_SIGMOIDS
from tpnn.anova.measure import Marginal
from tpnn.anova.purify import purify_tables
from tpnn.grow.rectangles import (
    TreeSettings,
    cell_sums,
    draw_uniform,
    fill_step,
    grow_tree,
    subtract_step,
    summed_area,
)
from tpnn.grow.ridge_start import (
    RIDGE,
    MainDictionary,
    PairDictionary,
    SmoothStart,
    coarsen,
)
from tpnn.grow.widths import smoother
from tpnn.loss.links import LINKS
from tpnn.loss.losses import OBJECTIVES
from tpnn.problem.coded import CodedComponents
from tpnn.table.encoder import TableEncoder
from tpnn.table.frame import Table

EVERY_CUT = TreeSettings(4, 1.0, 0.0, 1.0, 1.0, 100, False)


def table_case(seed: int, shape: tuple[int, int]) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    rows, columns = (rng.integers(0, size, 500).astype(np.uint8) for size in shape)
    return rows, columns, rng.normal(size=500).astype(np.float32)


def areas(rows: np.ndarray, columns: np.ndarray, values: np.ndarray, shape: Any) -> np.ndarray:
    sums = np.empty(shape, np.float32)
    cell_sums(rows, columns, values, sums)
    area = np.empty((shape[0] + 1, shape[1] + 1))
    summed_area(sums, area)
    return area


def test_summed_area_by_hand() -> None:
    rows, columns, values = table_case(0, (6, 9))
    area = areas(rows, columns, values, (6, 9))
    inside = (rows < 4) & (columns < 7)
    assert area[4, 7] == pytest.approx(values[inside].sum(), abs=1e-4)
    assert area[6, 9] == pytest.approx(values.sum(), abs=1e-4)


def test_tree_is_a_partition_and_its_leaves_are_means() -> None:
    rows, columns, values = table_case(1, (6, 9))
    residual = areas(rows, columns, values, (6, 9))
    mass = areas(rows, columns, np.ones(500, np.float32), (6, 9))
    boxes = np.empty((4, 4), np.int64)
    n_boxes, gain = grow_tree(residual, mass, EVERY_CUT, np.zeros(1, np.uint64), boxes)
    assert n_boxes == 4
    assert gain > 0
    covered, step, table = np.zeros((6, 9)), np.empty((6, 9), np.float32), np.zeros((6, 9), "f4")
    for top, bottom, left, right in boxes:
        covered[top:bottom, left:right] += 1
    assert (covered == 1).all()
    fill_step(residual, mass, boxes, n_boxes, EVERY_CUT, table, step)
    for top, bottom, left, right in boxes:
        inside = (rows >= top) & (rows < bottom) & (columns >= left) & (columns < right)
        assert step[top, left] == pytest.approx(values[inside].mean(), abs=1e-4)
    before = (values.astype(float) ** 2).sum()
    subtract_step(rows, columns, step, np.ones(500, np.float32), values)
    drop = before - (values.astype(float) ** 2).sum()
    root = residual[-1, -1] ** 2 / 500
    assert drop == pytest.approx(gain + root, rel=1e-3)  # the gain is what squared error falls by


def test_first_cut_of_a_main_effect_is_the_best_one() -> None:
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 20, 1000).astype(np.uint8)
    values = np.where(codes >= 13, 1.0, -1.0).astype(np.float32)
    nil = np.zeros(1000, np.uint8)
    residual, mass = (areas(codes, nil, v, (20, 1)) for v in (values, np.ones_like(values)))
    boxes = np.empty((2, 4), np.int64)
    grow_tree(residual, mass, EVERY_CUT._replace(n_leaves=2), np.zeros(1, np.uint64), boxes)
    assert sorted(boxes[:, :2].tolist()) == [[0, 13], [13, 20]]


def test_random_numbers_are_uniform() -> None:
    state = np.array([5], np.uint64)
    draws = np.array([draw_uniform(state) for _ in range(4000)])
    assert 0 <= draws.min() < draws.max() < 1
    assert draws.mean() == pytest.approx(0.5, abs=0.02)
    assert np.histogram(draws, 10, (0, 1))[0].min() > 320


def marginal_of(sizes: list[int], seed: int) -> Marginal:
    rng = np.random.default_rng(seed)
    weights = [rng.dirichlet(np.ones(size)) for size in sizes]
    return Marginal.stack([np.cumsum(w) - w / 2 for w in weights], weights)


def test_smooth_start_is_ridge_regression() -> None:
    """Against scikit-learn on the explicit design matrix of the dictionary."""
    rng = np.random.default_rng(0)
    marginal = marginal_of([7, 7, 7], 0)
    pairs = np.array([[0, 1], [1, 2]])
    codes = rng.integers(0, 7, (3, 400)).astype(np.uint8)
    mains, products = MainDictionary(marginal, np.arange(3)), PairDictionary(marginal, pairs)
    coded = [CodedComponents(codes, np.arange(3)[:, None], 7), CodedComponents(codes, pairs, 7)]
    y = rng.normal(size=(400, 1)).astype(np.float32)
    columns = [mains.bases[j][codes[j]] for j in range(3)]
    for (a, b), left, right in zip(pairs, products.first, products.second, strict=True):
        columns.append((left[codes[a]][:, :, None] * right[codes[b]][:, None]).reshape(400, -1))
    expected = Ridge(RIDGE, fit_intercept=False).fit(np.hstack(columns), y[:, 0])
    ones = np.ones_like(y)
    with Workers(1) as workers:
        problem = SmoothStart(
            [mains, products],
            coded,
            y,
            0 * y,
            ones,
            ones / 400,
            OBJECTIVES["squared_error"],
            workers,
            lambda: False,
        )
        coefficients = problem.fit(0.0).coefficients
    raw = np.zeros((400, 1), np.float32)
    for part, dictionary, c in zip(coded, (mains, products), coefficients, strict=True):
        part.gather(dictionary.tables(c), 0, raw)
    assert np.allclose(raw[:, 0], expected.predict(np.hstack(columns)), atol=2e-2)


def test_coarsening_keeps_mass_and_mean() -> None:
    marginal = marginal_of([7, 3], 2)
    codes = np.array([[0, 3, 6], [0, 1, 2]], np.uint8)
    coarse, merged = coarsen(marginal, codes, 4)
    assert coarse.sizes.tolist() == [4, 3]
    assert np.allclose(coarse.weights.sum(1), 1)
    means = [(m.weights * m.positions).sum(1) for m in (marginal, coarse)]
    assert np.allclose(*means)
    assert merged.tolist() == [[0, 1, 3], [0, 1, 2]]


def test_dictionaries_have_adjoints() -> None:
    rng = np.random.default_rng(1)
    marginal = marginal_of([5, 5, 5], 1)
    for dictionary in (
        MainDictionary(marginal, np.array([2, 0, 1])),
        PairDictionary(marginal, np.array([[0, 2], [1, 0]])),
    ):
        coefficients = rng.normal(size=dictionary.zeros(3).shape)
        tables = dictionary.tables(coefficients)
        other = rng.normal(size=tables.shape)
        assert np.vdot(tables, other) == pytest.approx(
            np.vdot(coefficients, dictionary.adjoint(other)), rel=1e-5
        )


def test_smoother_turns_steps_into_sigmoids() -> None:
    positions = np.array([0.1, 0.3, 0.6, 0.9])
    table = np.array([1.0, -2.0, 0.5, 3.0])
    kernel = smoother(positions, 0.07)
    assert np.allclose(kernel.sum(1), 1)
    middles = (positions[1:] + positions[:-1]) / 2
    sigmoids = 1 / (1 + np.exp(-(positions[:, None] - middles) / 0.07))
    assert np.allclose(kernel @ table, table[0] + sigmoids @ np.diff(table))


def test_purification_changes_no_value_and_is_pure() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=300), rng.exponential(size=300)])
    encoder = TableEncoder.fit(Table(X), {1: 12, 2: 5})
    components = ComponentSet.up_to(2, 2)
    shapes = [[encoder.axes[len(s)][j].n_nodes for j in s] for s in components]
    tables = {s: rng.normal(size=shape) for s, shape in zip(components, shapes, strict=True)}
    intercept, pure = purify_tables(tables, encoder.axes)

    def model(parts: dict[Any, np.ndarray], constant: float) -> AnovaModel:
        tables = tuple(part[..., None] for part in parts.values())
        return AnovaModel(
            encoder=encoder, components=components, tables=tables, spreads=tables,
            intercepts=np.array([constant]), link=LINKS["identity"],
        )  # fmt: skip

    assert model(pure, 0.0).identifiability_error() < 1e-12
    points = rng.normal(size=(200, 2)) * 2
    expected = model(tables, 0.0).raw_scores(points)
    assert np.allclose(model(pure, float(intercept)).raw_scores(points), expected)


def test_few_distinct_rows_are_fitted_as_the_many_they_stand_for() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, (20_000, 1)).astype(float)
    label = rng.random(20_000) < np.where(x[:, 0] == 1, 0.9, 0.1)
    model = TPNNClassifier(n_bags=2, random_state=0, verbose=0).fit(x, label)
    assert model.predict_proba([[0.0], [1.0]])[:, 1] == pytest.approx([0.1, 0.9], abs=0.02)
    levels = np.tile(np.arange(4.0), 1250)[:, None]
    linear = TPNNRegressor(n_bags=2, random_state=0, verbose=0).fit(levels, levels[:, 0])
    assert linear.predict(levels[:4]) == pytest.approx([0, 1, 2, 3], abs=0.1)


def test_a_rare_level_is_learned() -> None:
    x = np.array([0.0] * 950 + [1.0] * 50)[:, None]
    label = np.r_[np.zeros(950), np.ones(49), 0.0]
    model = TPNNClassifier(n_bags=4, random_state=0, verbose=0).fit(x, label)
    assert model.predict_proba([[1.0]])[0, 1] > 0.8


@pytest.mark.parametrize("max_nodes", [{1: 5}, {1: 32}, {2: 200}, 3])
def test_law_holds_for_any_number_of_nodes(table: Any, max_nodes: Any) -> None:
    X, y = table
    model = TPNNRegressor(n_bags=2, max_nodes=max_nodes, random_state=0, verbose=0).fit(X, y)
    assert model.model_.identifiability_error() < 1e-12


def test_result_does_not_depend_on_the_number_of_threads(
    table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = table
    one = TPNNRegressor(n_bags=3, random_state=0).fit(X, y).predict(X)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0})
    assert np.array_equal(TPNNRegressor(n_bags=3, random_state=0).fit(X, y).predict(X), one)


def test_fits_in_two_threads_agree_and_give_the_pools_back(table: Any) -> None:
    X, y = table
    before = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    with ThreadPoolExecutor(3) as pool:
        jobs = [pool.submit(TPNNRegressor(n_bags=2, random_state=0).fit, X, y) for _ in range(3)]
        first, *others = (job.result().predict(X) for job in jobs)
    assert all(np.array_equal(first, other) for other in others)
    after = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    assert after == before


def test_rounds_and_patience_are_limits(table: Any) -> None:
    X, y = table
    model = TPNNRegressor(n_bags=1, max_steps=20, random_state=0, verbose=0).fit(X, y)
    assert max(record["rounds"] for record in model.history_) <= 20


def test_without_growth_a_pair_has_the_rank_of_its_dictionary(table: Any) -> None:
    X, y = table
    none, smooth, auto = (
        TPNNRegressor(growth=growth, n_bags=2, max_steps=80, random_state=0).fit(X, y)
        for growth in ("none", "smooth", "auto")
    )
    pair = none.components_.index(("smooth", "skewed"))
    ranks = [np.linalg.matrix_rank(m.model_.tables[pair][..., 0], tol=1e-6) for m in (none, smooth)]
    assert ranks[0] <= N_SIGMOIDS[2] < ranks[1]
    assert [record["rounds"] for record in none.history_] == [0, 0]
    assert [record["smooth_start"] for record in smooth.history_] == [True, True]
    assert auto.history_[1::2] == [
        {**record, "seconds": ANY} for record in smooth.history_
    ]  # bags do not know how the others start
    assert none.model_.identifiability_error() < 1e-6


def test_large_problems_grow_from_zero_alone(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table
    small = TPNNRegressor(n_bags=2, max_steps=20, random_state=0).fit(X, y)
    monkeypatch.setattr("tpnn.grow.solver.MOST_STARTED", 0)
    large = TPNNRegressor(n_bags=2, max_steps=20, random_state=0).fit(X, y)
    assert [record["smooth_start"] for record in large.history_] == [False, False]
    losses = [record["validation_loss"] for record in small.history_[::2]]
    assert [record["validation_loss"] for record in large.history_] == losses
    smooth = TPNNRegressor(growth="smooth", n_bags=1, max_steps=20, random_state=0).fit(X, y)
    assert [record["smooth_start"] for record in smooth.history_] == [True]  # as it was asked for
    ridge = TPNNRegressor(l2=0.1, n_bags=1, max_steps=20, random_state=0).fit(X, y)
    assert [record["smooth_start"] for record in ridge.history_] == [False, True]


def test_features_that_say_the_same_share_it_with_a_large_l2() -> None:
    rng = np.random.default_rng(0)
    told = rng.random(1000)
    X = np.stack([told, told + 0.1 * rng.normal(size=1000)], axis=1)
    y = told + 0.3 * rng.normal(size=1000)

    def unevenness(l2: float) -> float:
        model = TPNNRegressor(order=1, growth="none", l2=l2, n_bags=2, random_state=0).fit(X, y)
        first, second = model.explain().importance().values()
        return first / second - 1

    assert unevenness(3.0) < 0.2 < 1 < unevenness(1e-6)


def test_pure_interactions_are_found() -> None:
    """XOR has no main effect; the random first cut makes it visible."""
    rng = np.random.default_rng(0)
    X = rng.random((2000, 3))
    y = np.sign(X[:, 0] - 0.5) * np.sign(X[:, 1] - 0.5) + 0.1 * rng.normal(size=2000)
    model = TPNNRegressor(n_bags=2, random_state=0, verbose=0).fit(X, y)
    assert model.score(X, y) > 0.9
    assert next(iter(model.explain().importance())) == ("x0", "x1")


def test_auto_grows_unless_gradients_are_needed(table: Any) -> None:
    X, y = table
    quick = {"n_bags": 1, "max_steps": 3, "random_state": 0, "verbose": 0}
    assert "rounds" in TPNNRegressor(**quick).fit(X, y).history_[0]
    assert "rounds" in TPNNRegressor(**quick, order=3).fit(X[["level", "smooth"]], y).history_[0]
    for asked in ({"n_bases": 4}, {"shared_bases": True}, {"activation": "relu"}):
        assert "step" in TPNNRegressor(**quick, **asked).fit(X, y).history_[0]
        with pytest.raises(ValueError, match=rf"^solver: 'grow' decides .*{next(iter(asked))}="):
            TPNNRegressor(**quick, **asked, solver="grow").fit(X, y)


def test_time_limit(table: Any) -> None:
    X, y = table
    model = TPNNRegressor(n_bags=2, time_limit=1e-6, random_state=0, verbose=0).fit(X, y)
    assert all(record["rounds"] == 0 for record in model.history_)
    assert np.isfinite(model.predict(X)).all()


def test_interrupt_leaves_the_estimator_unfitted() -> None:
    X = np.random.default_rng(0).normal(size=(60_000, 12))
    model = TPNNRegressor(n_bags=64, verbose=0)
    threading.Timer(3.0, _thread.interrupt_main).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, X[:, 0] * X[:, 1])
    assert time.monotonic() - began < 30
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_default_fit_does_not_import_torch() -> None:
    code = (
        "import sys, numpy as np; from tpnn import TPNNRegressor, TPNNClassifier;"
        "X = np.random.default_rng(0).normal(size=(60, 2));"
        "TPNNRegressor(n_bags=1).fit(X, X[:, 0]).explain(X).importance();"
        "TPNNClassifier(n_bags=1).fit(X, X[:, 0] > 0).predict(X);"
        "print('torch' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        cwd=Path(tpnn.__file__).parents[1],
    )  # fmt: skip
    assert run.stdout == "False\n"


def test_gradient_solver_without_torch_names_the_extra(
    table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = table
    for name in ("tpnn.descent.solver", "tpnn.descent.network", "tpnn.descent.basis"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r'pip install "tpnn\[torch\]"'):
        TPNNRegressor(solver="gradient", n_bags=1).fit(X, y)


def split(name: str) -> tuple[Any, Any, Any, Any]:
    X, y = datasets.load(name)
    X = X.select_dtypes("number")
    order = np.random.RandomState(0).permutation(len(y))
    cut = int(0.8 * len(y))
    return X.iloc[order[:cut]], y.iloc[order[:cut]], X.iloc[order[cut:]], y.iloc[order[cut:]]


@pytest.mark.parametrize(
    ("name", "bar"), [("calhousing", 0.452), ("wine", 0.685), ("abalone", 2.30)]
)
def test_default_keeps_its_accuracy(name: str, bar: float) -> None:
    """A guard: test RMSE of the default on one split, with a margin of about two per cent."""
    X, y, X_test, y_test = split(name)
    model = TPNNRegressor(random_state=0, verbose=0).fit(X, y)
    error = float(np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2)))
    assert error < bar
    assert model.model_.identifiability_error() < 1e-12


def test_classifier_is_better_than_main_effects_where_there_is_a_pair() -> None:
    rng = np.random.default_rng(3)
    X = rng.random((3000, 4))
    label = rng.random(3000) < 1 / (1 + np.exp(-8 * (X[:, 0] - 0.5) * (X[:, 1] - 0.5) * 4))
    pairs = TPNNClassifier(n_bags=2, random_state=0, verbose=0).fit(X[:2000], label[:2000])
    mains = TPNNClassifier(order=1, n_bags=2, random_state=0, verbose=0).fit(X[:2000], label[:2000])
    assert pairs.score(X[2000:], label[2000:]) > mains.score(X[2000:], label[2000:]) + 0.1


@pytest.mark.parametrize(("n_classes", "n_starts"), [(2, 2), (3, 1)])
def test_the_progress_bar_counts_every_bag_once_a_start(
    n_classes: int, n_starts: int, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 2)), rng.integers(0, n_classes, 200)
    TPNNClassifier(n_bags=3, max_steps=5, random_state=0, verbose=1).fit(X, y)
    begun = capsys.readouterr().err.split("\r")[1]
    assert f"0/{3 * n_starts} " in begun
