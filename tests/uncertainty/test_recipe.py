"""The recipe: bands cover the truth on any task, and cheaper ways agree with the exact one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks.common.quadrature import true_component
from tests.uncertainty.problems import solved
from tpnn import TPNNClassifier, TPNNRegressor, TPNNSurvival
from tpnn.datasets import make_synthetic
from tpnn.solvers.grow.solver import Grow
from tpnn.solvers.solution import Limits
from tpnn.uncertainty import equations, linear_model
from tpnn.uncertainty.recipe import infer

FAST: Any = {"n_bags": 4, "random_state": 0, "solver": Grow(growth="none")}
N = 600


def effects(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two effects of mean zero under the uniform distribution on (0, 1)."""
    return np.sin(2 * np.pi * x), 2 * x - 1


def uniform(seed: int, n_rows: int = N) -> tuple[pd.DataFrame, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.random((n_rows, 3)), columns=list("abc"))
    return X, effects(X["a"].to_numpy())[0] + effects(X["b"].to_numpy())[1], rng


def covered(model: Any, factor: float = 1.0, level: float = 0.95, output: str = "") -> float:
    """Share of the data of all three main effects over which the band holds the truth."""
    explanation = model.explain().of(output) if output else model.explain()
    shares = []
    for name in "abc":
        frame = explanation.component(name).to_frame(level=level)
        sine, line = effects(frame[name].to_numpy())
        truth = factor * {"a": sine, "b": line, "c": 0 * line}[name]
        truth = truth - np.average(truth, weights=frame["density"])
        inside = (frame["lower"] <= truth) & (truth <= frame["upper"])
        shares.append(float(frame["density"] @ inside))
    return float(np.mean(shares))


def regression(seed: int) -> float:
    X, f, rng = uniform(seed)
    return covered(TPNNRegressor(order=1, **FAST).fit(X, f + rng.normal(size=N)))


def two_classes(seed: int) -> float:
    X, f, rng = uniform(seed)
    y = rng.random(N) < 1 / (1 + np.exp(-f))
    return covered(TPNNClassifier(order=1, **FAST).fit(X, y))


def three_classes(seed: int) -> float:
    """Log-odds f, 0 and -f: centred, the score of the first class is f."""
    X, f, rng = uniform(seed)
    scores = np.column_stack([f, 0 * f, -f]) + rng.gumbel(size=(N, 3))
    model = TPNNClassifier(order=1, **FAST).fit(X, np.array(list("pqr"))[scores.argmax(1)])
    return covered(model, output="p")


def poisson(seed: int) -> float:
    X, f, rng = uniform(seed)
    y = rng.poisson(np.exp(0.7 * f))
    return covered(TPNNRegressor(order=1, objective="poisson", **FAST).fit(X, y), 0.7)


def gamma(seed: int) -> float:
    X, f, rng = uniform(seed)
    y = rng.gamma(2.0, np.exp(0.7 * f))
    return covered(TPNNRegressor(order=1, objective="gamma", **FAST).fit(X, y), 0.7)


def tweedie(seed: int) -> float:
    """Sums of a Poisson number of gamma amounts."""
    X, f, rng = uniform(seed)
    counts = rng.poisson(np.exp(0.5 * f))
    y = rng.gamma(np.maximum(2.0 * counts, 1e-300), np.exp(0.3 * f)) * (counts > 0)
    return covered(TPNNRegressor(order=1, objective="tweedie", **FAST).fit(X, y), 0.8)


def quantile(seed: int) -> float:
    X, f, rng = uniform(seed)
    objective = {"name": "quantile", "levels": [0.3, 0.7]}
    model = TPNNRegressor(order=1, objective=objective, **FAST).fit(X, f + rng.normal(size=N))
    return covered(model, output=model.model_.output_names[1])


def absolute_error(seed: int) -> float:
    X, f, rng = uniform(seed)
    y = f + rng.standard_t(2, size=N)
    return covered(TPNNRegressor(order=1, objective="absolute_error", **FAST).fit(X, y))


def survival(seed: int) -> float:
    X, f, rng = uniform(seed)
    times, ends = rng.exponential(np.exp(-f)), rng.exponential(2.0, N)
    y = np.column_stack([np.minimum(times, ends), times <= ends])
    return covered(TPNNSurvival(order=1, **FAST).fit(X, y))


TASKS: dict[str, Callable[[int], float]] = {
    function.__name__: function
    for function in (regression, two_classes, three_classes, poisson, gamma, tweedie, quantile,
                     absolute_error, survival)
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_bands_cover_the_truth(task: str) -> None:
    """Nominally 95 %; the mean of five fits is within a wide margin of it."""
    shares = [TASKS[task](seed) for seed in range(5)]
    assert 0.86 <= np.mean(shares) <= 0.998, shares


def test_a_lower_level_covers_less() -> None:
    X, f, rng = uniform(0)
    model = TPNNRegressor(order=1, **FAST).fit(X, f + rng.normal(size=N))
    shares = [covered(model, level=level) for level in (0.2, 0.5, 0.99)]
    assert shares == sorted(shares)
    assert shares[0] < 0.6 < 0.9 < shares[2]


@pytest.mark.slow
def test_simultaneous_bands_hold_whole_curves() -> None:
    """Nominally 95 % of the curves; bands of that level at every node hold fewer of them."""
    whole: dict[str, list[bool]] = {"pointwise": [], "simultaneous": []}
    for seed in range(15):
        X, f, rng = uniform(seed)
        model = TPNNRegressor(order=1, **FAST).fit(X, f + rng.normal(size=N))
        for kind, held in whole.items():
            for name, truth in zip("ab", effects(np.linspace(0, 1, N)), strict=True):
                frame = model.explain().component(name).to_frame(level=0.95, kind=kind)
                curve = np.interp(frame[name], np.linspace(0, 1, N), truth)
                curve -= np.average(curve, weights=frame["density"])
                held.append(bool(((frame["lower"] <= curve) & (curve <= frame["upper"])).all()))
    assert np.mean(whole["simultaneous"]) >= 0.9
    assert np.mean(whole["pointwise"]) < 0.9


@pytest.mark.slow
def test_bands_of_levels_and_of_missing_values_cover_their_effects() -> None:
    """Three levels and a missing value, each an effect of its own."""
    known = {"Ulm": 1.0, "Bonn": 0.0, "Trier": -0.5}
    inside = []
    for seed in range(8):
        X, f, rng = uniform(seed)
        X["town"] = rng.choice(list(known), N, p=[0.5, 0.4, 0.1])
        is_missing = rng.random(N) < 0.2
        X.loc[is_missing, "c"] = np.nan
        y = f + X["town"].map(known) + 0.8 * is_missing + rng.normal(size=N)
        explanation = TPNNRegressor(order=1, **FAST).fit(X, y).explain()
        town, c = (explanation.component(name).to_frame(level=0.95) for name in ("town", "c"))
        for frame, truth in ((town, town["town"].map(known)), (c, 0.8 * c["c"].isna())):
            centred = truth - np.average(truth, weights=frame["density"])
            held = (frame["lower"] <= centred) & (centred <= frame["upper"])
            inside.append(np.average(held, weights=frame["density"]))
    assert np.mean(inside) >= 0.86, inside


def errors(found: Any) -> np.ndarray:
    return np.concatenate([p.uncertainty().errors().ravel() for p in found.values()])


def shifts(found: Any) -> np.ndarray:
    known = [p.uncertainty() for p in found.values()]
    return np.concatenate([(u.units * (u.functions @ u.shifts)).ravel() for u in known])


@pytest.fixture(scope="module")
def correlated() -> Any:
    """A problem of six correlated features and all their pairs, with its solution."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12_000, 6)) + rng.normal(size=(12_000, 1))
    y = X[:, 0] + X[:, 1] * X[:, 2] + np.sin(X[:, 3]) + rng.normal(size=len(X))
    growth = {**FAST, "solver": Grow(max_rounds=60)}
    return solved(TPNNRegressor(order=2, interactions="all", **growth), X, y)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["groups", "rows", "both"])
def test_cheaper_ways_agree_with_the_exact_one(
    correlated: Any, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups of a third of the functions, or half the rows: about the same errors and shifts."""
    exact = infer(correlated.problem, correlated.solution, Limits()).posteriors
    if way != "rows":
        monkeypatch.setattr(linear_model, "MOST_FUNCTIONS", 160)
    if way != "groups":
        monkeypatch.setattr(linear_model, "ENOUGH_ROWS", 6000)
    cheap = infer(correlated.problem, correlated.solution, Limits()).posteriors
    ratio = errors(cheap) / errors(exact)
    assert np.median(ratio) == pytest.approx(1.0, abs=0.1)
    assert np.quantile(ratio, [0.02, 0.98]) == pytest.approx([1.0, 1.0], abs=0.35)
    assert (ratio == 1).mean() < 0.1  # it was another way
    distance = np.abs(shifts(cheap) - shifts(exact)) / errors(exact)
    assert distance.mean() < 0.15


def test_the_columns_may_come_in_any_order() -> None:
    X, f, rng = uniform(3)
    y = f + X["a"] * X["c"] + rng.normal(size=N)
    model = TPNNRegressor(order=2, interactions="all", **FAST)
    one = model.fit(X, y).explain().component(("a", "c")).to_frame(level=0.9)
    other = model.fit(X[["c", "b", "a"]], y).explain().component(("a", "c")).to_frame(level=0.9)
    wide = [f.pivot(index="a", columns="c", values="lower").to_numpy() for f in (one, other)]
    assert np.array_equal(*wide)


def test_pairs_and_triples_levels_and_missing_values_have_bands() -> None:
    X, f, rng = uniform(4)
    X["town"] = rng.choice(["Ulm", "Bonn", "Trier"], N)
    X.loc[::9, "c"] = np.nan
    y = f + (X["town"] == "Ulm") + rng.normal(size=N)
    model = TPNNRegressor(
        order=3, interactions=[("a", "c"), ("a", "b", "town")], n_bags=3, random_state=0
    ).fit(X, y)
    for names in model.components_:
        frame = model.explain().component(names).to_frame(level=0.95)
        widths = frame["upper"] - frame["lower"]
        assert np.isfinite(widths).all()
        assert (widths > 0).all()
    town = model.explain().component("town").to_frame("response", "Bonn", level=0.95)
    ulm = town[town["town"] == "Ulm"].iloc[0]
    assert 0 < ulm["lower"] < 1 < ulm["upper"]


@pytest.mark.slow
def test_pairs_of_a_known_function_are_covered_where_bags_are_not() -> None:
    data = make_synthetic("f1", n_samples=1500, random_state=0)
    model = TPNNRegressor(order=2, n_bags=4, random_state=0).fit(data.X, data.y)
    explanation, points = model.explain(), np.full((0, 5), 0.5)
    by_band, by_bags = [], []
    for component in [(0,), (1,), (2,), (3,), (4,), (0, 1)]:
        table = explanation.component(component)
        nodes = np.meshgrid(*(axis.values for axis in table.axes), indexing="ij")
        points = np.full((nodes[0].size, 5), 0.5)
        points[:, component] = np.column_stack([node.ravel() for node in nodes])
        truth = true_component("f1", component, points).reshape(table.effect.shape)
        lower, upper = table.band
        by_band.append(((lower <= truth) & (truth <= upper)).mean())
        spread = model.model_.evidence.spreads[explanation.find(component)][..., 0]
        by_bags.append((np.abs(table.effect - truth) <= 2 * spread).mean())
    assert np.mean(by_band) >= 0.88
    assert np.mean(by_bags) < 0.8


def test_constant_features_have_bands_without_a_word(capfd: pytest.CaptureFixture[str]) -> None:
    """LAPACK prints a complaint about empty matrices, past Python."""
    model = TPNNRegressor(n_bags=2, verbose=0).fit(np.ones((40, 2)), np.arange(40.0))
    assert model.model_.evidence.posteriors is not None
    assert capfd.readouterr() == ("", "")


def test_a_time_limit_ends_between_groups_of_components(monkeypatch: pytest.MonkeyPatch) -> None:
    X, f, rng = uniform(0, n_rows=100)
    fit = solved(TPNNRegressor(order=1, **FAST), X, f + rng.normal(size=len(f)))
    monkeypatch.setattr(linear_model, "MOST_FUNCTIONS", 10)  # those of one main effect
    n_looks = 0

    def is_third_look(limits: Limits) -> bool:
        nonlocal n_looks
        n_looks += 1
        return n_looks == 3

    monkeypatch.setattr(Limits, "are_reached", is_third_look)
    with pytest.raises(TimeoutError, match="no time for bands"):
        infer(fit.problem, fit.solution, Limits())
    assert n_looks == 3


@pytest.mark.parametrize("size", [1e3, 1e200])
def test_a_posterior_that_is_lost_in_rounding_is_refused(
    monkeypatch: pytest.MonkeyPatch, size: float
) -> None:
    """As for two rows that a Poisson model fits exactly: without noise, errors are magnified."""
    X, f, rng = uniform(0, n_rows=100)
    fit = solved(TPNNRegressor(order=1, **FAST), X, f + rng.normal(size=len(f)))
    exact = equations.Factored.times

    def magnified(covariance: equations.Factored, values: np.ndarray) -> np.ndarray:
        return size * exact(covariance, values)

    monkeypatch.setattr(equations.Factored, "times", magnified)
    with pytest.raises(np.linalg.LinAlgError, match="lost in rounding"):
        infer(fit.problem, fit.solution, Limits())
