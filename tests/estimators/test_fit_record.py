"""Facts of a fit: held-out losses, concurvity and p-values against what they are made of."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.uncertainty.problems import solved
from tpnn import TPNNRegressor
from tpnn.estimators.fit_record import component_tests
from tpnn.estimators.pipeline import Solved, finished, refit
from tpnn.model.task import Task
from tpnn.search.select import HeldOut, Selection
from tpnn.solvers.solution import Limits, NoProgress, Stopwatch
from tpnn.uncertainty.recipe import infer


@pytest.fixture(scope="module")
def found(table: Any, quick: Any) -> Solved:
    X, y = table
    return solved(TPNNRegressor(**quick, interactions="all"), X, y)


def test_the_loss_without_a_component_is_that_of_the_others(found: Solved) -> None:
    """Scored on the held-out rows of the bags, less the noise that averaging removes."""
    problem, solution = found.problem, found.solution
    model = problem.freeze(solution, Task(problem.objective))
    tests = infer(problem, solution, Limits()).tests
    facts = component_tests(model, problem, solution, problem.objective, tests, found.searched)
    whole, unit = HeldOut(problem, solution), float(2 * problem.scale[0] ** 2)
    assert facts.loss == pytest.approx(unit * whole.loss)  # half the square on the training scale
    for place, component in enumerate(model.components):
        others = [s for s in solution.components if set(s) != set(component)]
        index = next(i for i, s in enumerate(solution.components) if set(s) == set(component))
        rest = HeldOut(problem, solution.restrict({tuple(sorted(s)) for s in others}))
        expected = unit * (rest.loss + whole.averaged_noise(index))
        assert facts.components[place].loss_without == pytest.approx(expected)
        assert facts.components[place].p_value == tests[component].p_value
        assert facts.components[place].degrees == tests[component].degrees


def test_p_values_of_what_a_search_chose_count_the_candidates(found: Solved) -> None:
    known = infer(found.problem, found.solution, Limits())
    given = replace(found, posteriors=known.posteriors, tests=known.tests)
    task = Task(found.problem.objective)
    plain, searched = (
        finished(replace(given, searched=orders), task, Limits(), False, Stopwatch()).evidence.tests
        for orders in (frozenset[int](), frozenset({2}))
    )
    assert plain is not None
    assert searched is not None
    n_candidates = [math.comb(4, 1)] * 4 + [math.comb(4, 2)] * 6
    for one, other, count in zip(plain.components, searched.components, n_candidates, strict=True):
        expected = min(one.p_value * (count if count == 6 else 1), 1.0)
        assert other.p_value == pytest.approx(expected)


def test_concurvity_is_that_of_the_training_rows(quick: Any) -> None:
    """All values are nodes and all rows differ in y, so the explanation of them says the same."""
    rng = np.random.default_rng(0)
    levels = rng.permutation(np.repeat(list("abcc"), 100))
    X = pd.DataFrame({"x": rng.integers(0, 8, 400).astype(float), "level": levels})
    X["copy"] = X["x"] + rng.integers(0, 3, 400)
    X.loc[:20, "copy"] = np.nan
    y = X["x"] + (X["level"] == "a") + rng.normal(size=400)
    model = TPNNRegressor(**{**quick, "order": 2}).fit(X, y)
    facts = model.model_.evidence.tests
    assert facts is not None
    expected = model.explain(X).concurvity()
    for names, line in zip(model.components_, facts.components, strict=True):
        assert line.concurvity == pytest.approx(expected[names].share, abs=1e-6)


def test_orders_that_are_taken_whole_were_not_searched(table: Any, quick: Any) -> None:
    X, y = table
    assert solved(TPNNRegressor(**quick, interactions="all"), X, y).searched == set()
    assert solved(TPNNRegressor(**{**quick, "order": 1}), X, y).searched == set()
    assert solved(TPNNRegressor(**quick, interactions=2), X, y).searched == {2}
    listed = solved(TPNNRegressor(**quick, interactions=[("smooth", "level")]), X, y)
    assert listed.searched == set()


def test_p_values_of_what_a_selection_kept_count_the_candidates(found: Solved) -> None:
    """Held-out rows keep the best, as a search does; what loses none is as before."""
    kept = [s for s in found.components if len(s) == 1] + [(0, 1), (1, 2)]
    chosen = Selection.of_all([*kept, *(s for s in found.components if s not in kept)], len(kept))
    after = refit(found, chosen, NoProgress())
    assert after.searched == found.searched | {2}
    same = refit(found, Selection.of_all(found.components), NoProgress())
    assert same.searched == found.searched
    late = replace(found, limits=Limits(deadline=0.0))
    assert refit(late, chosen, NoProgress()).searched == after.searched
