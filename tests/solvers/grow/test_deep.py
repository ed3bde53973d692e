"""Deep growth: its columns, its bags and what becomes of its questions, against plain NumPy."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tpnn.anova.components import InteractionRules
from tpnn.anova.trees import TreeFeature
from tpnn.loss.objectives import OBJECTIVES
from tpnn.solvers.grow.deep import (
    FEW_CODES,
    FEWEST_ROWS_OF_MANY_CODES,
    LEVEL_PRIOR_ROWS,
    DeepBag,
    DeepGrowth,
    _drawn,
    as_trees,
    goes_right,
    level_codes,
    ordered_codes,
    raw_scores,
)
from tpnn.solvers.grow.deep_trees import MOST_CODES, TreeRules, meetings_of
from tpnn.solvers.problem.problem import Bagging, Problem
from tpnn.solvers.problem.rows import Targets
from tpnn.solvers.solution import Limits, NoProgress
from tpnn.table.axis import Axis
from tpnn.table.encoder import TableEncoder
from tpnn.table.table import NOMINAL, Table

N_ROWS, RATE = 250, 0.2
OBLIVIOUS = TreeRules(
    depth=4, is_oblivious=True, most_features=3, rate=RATE, ridge=1.0, column_share=0.5,
    largest_step=np.inf,
)  # fmt: skip
SHARP = (OBLIVIOUS._replace(rate=0.7),)
BOTH = OBLIVIOUS, OBLIVIOUS._replace(is_oblivious=False)


def mixed_frame(n_rows: int = N_ROWS, seed: int = 0) -> pd.DataFrame:
    """Numbers, numbers with gaps, levels, levels with gaps, a constant and few numbers."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "number": rng.normal(size=n_rows),
            "gaps": np.where(rng.random(n_rows) < 0.2, np.nan, rng.normal(size=n_rows)),
            "level": rng.choice(list("abcde"), n_rows),
            "either": rng.choice([*"pqr", None], n_rows),
            "constant": 1.0,
            "few": rng.integers(0, 3, n_rows).astype(float),
        }
    )


def problem_of(frame: pd.DataFrame, y: np.ndarray, objective: str = "squared_error") -> Problem:
    table = Table(frame)
    encoder = TableEncoder.fit(table, {1: 32, 2: 12, 3: 6})
    targets = Targets(y.reshape(len(y), -1), None, np.zeros(len(y)))
    bagging = Bagging(2, 0.2, 0)
    return Problem.build(table, encoder, targets, OBJECTIVES[objective], bagging, {})


def growth_of(problem: Problem, n_threads: int | None = 2, **changes: Any) -> DeepGrowth:
    settings = {
        "limits": Limits(n_threads=n_threads), "progress": NoProgress(), "tree_rules": BOTH,
        "meetings": meetings_of(InteractionRules()), "max_rounds": 12, "patience": 12,
            "features": problem.features, **changes,
    }  # fmt: skip
    return DeepGrowth(problem=problem, **settings)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return mixed_frame()


@pytest.fixture(scope="module")
def target(frame: pd.DataFrame) -> np.ndarray:
    known = frame.gaps.fillna(2.0) * (frame.level == "c") + frame.number * (frame.either == "q")
    return (known + frame.few + frame.either.isna()).to_numpy()


@pytest.fixture(scope="module")
def problem(frame: pd.DataFrame, target: np.ndarray) -> Problem:
    return problem_of(frame, target)


@pytest.fixture(scope="module")
def bags(problem: Problem) -> list[DeepBag]:
    return growth_of(problem).grow()


# Columns and codes


def test_missing_values_come_before_all_numbers() -> None:
    axis = Axis(np.arange(4.0), np.ones(5) / 5, has_missing=True)
    codes = ordered_codes(axis, MOST_CODES)
    assert codes[axis.missing] == 0
    assert codes[axis.regular].tolist() == [1, 2, 3, 4]
    assert ordered_codes(Axis(np.arange(4.0), np.ones(4) / 4), MOST_CODES).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("has_missing", [False, True])
def test_many_numbers_share_codes_of_one_byte(has_missing: bool) -> None:
    masses = np.ones(1000 + has_missing) / (1000 + has_missing)
    axis = Axis(np.arange(1000.0), masses, has_missing=has_missing)
    codes = ordered_codes(axis, MOST_CODES)
    regular = codes[axis.regular].astype(int)
    assert codes.dtype == np.uint8
    assert set(np.diff(regular)) == {0, 1}
    assert (regular[0], regular[-1]) == (has_missing, MOST_CODES - 1)


def levels_case(n_levels: int, n_rows: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(n_levels)
    nodes = rng.integers(0, n_levels, n_rows).astype(np.uint16)
    residual, hessian = rng.normal(size=n_rows), rng.uniform(0.5, 2.0, n_rows)
    masses = np.bincount(nodes, minlength=n_levels) / n_rows
    axis = Axis(np.arange(float(n_levels)), masses, NOMINAL, groups=np.arange(n_levels))
    prior = LEVEL_PRIOR_ROWS * hessian.mean()
    steps = np.array(
        [residual[nodes == k].sum() / (hessian[nodes == k].sum() + prior) for k in range(n_levels)]
    )
    return nodes, residual, hessian, axis, steps


def test_levels_are_in_the_order_of_their_newton_steps() -> None:
    *case, steps = levels_case(9, 120)
    assert level_codes(*case).tolist() == np.argsort(np.argsort(steps)).tolist()


def test_levels_of_few_rows_are_near_the_average() -> None:
    """One row with the largest residual of all does not come last."""
    nodes = np.array([0] * 50 + [1] * 50 + [2])
    residual = np.array([-1.0] * 50 + [1.0] * 50 + [3.0])
    axis = Axis(np.arange(3.0), np.bincount(nodes) / 101, NOMINAL, groups=np.arange(3))
    codes = level_codes(nodes.astype(np.uint8), residual, np.ones(101), axis)
    assert codes.tolist() == [0, 2, 1]


def test_many_levels_share_codes_with_their_neighbours() -> None:
    *case, steps = levels_case(700, 5000)
    codes, axis = level_codes(*case).astype(int), case[3]
    assert (np.diff(codes[np.argsort(steps)]) >= 0).all()
    rows = np.bincount(codes, axis.weights, MOST_CODES)
    assert rows.max() <= 1 / MOST_CODES + axis.weights.max() + 1e-12
    assert codes.max() == MOST_CODES - 1


def test_columns_are_those_of_features_that_vary(frame: pd.DataFrame, bags: Any) -> None:
    names = [frame.columns[j] for j in bags[0].columns.features]
    assert sorted(names) == ["either", "few", "gaps", "level", "number"]
    sizes = dict(zip(names, bags[0].columns.sizes.tolist(), strict=True))
    assert (sizes["level"], sizes["either"], sizes["few"]) == (5, 4, 3)


@pytest.mark.parametrize(("n_outputs", "count"), [(2, 2), (5, 3)])
def test_levels_are_sorted_once_for_each_output(
    frame: pd.DataFrame, target: np.ndarray, n_outputs: int, count: int
) -> None:
    """Two levels have one order, and no feature more than three."""
    two = frame.assign(either=np.where(frame.number > 0, "p", "q"))
    problem = problem_of(two, target)
    several = replace(problem.objective, n_outputs=n_outputs)
    slopes = np.random.default_rng(0).normal(size=(N_ROWS, n_outputs))
    growth = growth_of(replace(problem, objective=several))
    where = np.arange(len(problem.rows.y))
    columns = growth._columns(0, where, slopes[where], np.ones_like(slopes[where]))
    names = [frame.columns[j] for j in columns.features]
    assert (names.count("level"), names.count("either"), names.count("few")) == (count, 1, 1)


def test_columns_of_few_rows_have_few_codes(problem: Problem) -> None:
    assert len(problem.rows.y) < FEWEST_ROWS_OF_MANY_CODES
    few, many = growth_of(problem)._ordered, problem.encoder.axes[1]
    for feature, codes in few.items():
        assert codes.max() < FEW_CODES
        assert np.array_equal(codes, ordered_codes(many[feature], FEW_CODES))


def test_a_tree_asks_about_the_columns_that_it_drew(problem: Problem) -> None:
    """Each tree draws a share of the columns anew, and each column is drawn equally often."""
    n_columns, count = 12, 9
    drawn = [_drawn(n_columns, count, np.uint64(seed)) for seed in range(2_000)]
    assert all(len(set(some.tolist())) == count for some in drawn)
    assert all((np.diff(some) > 0).all() for some in drawn)
    shares = np.bincount(np.concatenate(drawn), minlength=n_columns) / len(drawn)
    assert np.abs(shares - count / n_columns).max() < 0.05
    assert np.array_equal(_drawn(5, 5, np.uint64(1)), np.arange(5))


# Growth


def by_hand(problem: Problem, bag: DeepBag, number: int) -> float:
    """Half the mean squared error of the held-out rows of a bag."""
    raw = raw_scores(problem, bag, slice(None))[:, 0] + problem.best_constant[0]
    weights = problem.rows.validation[:, number].astype(float)
    return float(weights @ (0.5 * (problem.rows.y[:, 0] - raw) ** 2))


def test_a_bag_knows_the_raw_scores_of_all_rows(problem: Problem) -> None:
    """They are the constant, the offset and the trees, also on rows that are on neither side."""
    rows, without = problem.rows, np.arange(5)
    sides = {name: getattr(rows, name).copy() for name in ("training", "validation")}
    for side in sides.values():
        side[without] = 0.0
    lighter = replace(problem, rows=replace(rows, **sides))
    for bag in growth_of(lighter).grow():
        expected = raw_scores(lighter, bag, slice(None)) + problem.best_constant + rows.offset
        assert np.allclose(bag.raw, expected, rtol=0, atol=1e-12)


def test_the_loss_of_a_bag_is_that_of_its_held_out_rows(problem: Problem, bags: Any) -> None:
    for number, bag in enumerate(bags):
        expected = by_hand(problem, bag, number)
        assert bag.loss == pytest.approx(expected / problem.rows.validation[:, number].sum())


def test_a_bag_ends_with_its_best_tree(problem: Problem) -> None:
    """Among all its beginnings it has the lowest held-out loss."""
    whole = growth_of(problem, max_rounds=150, patience=3, tree_rules=SHARP).grow()
    for number, bag in enumerate(whole):
        assert 0 < len(bag.trees) < 150
        starts = [replace(bag, trees=bag.trees[:n]) for n in range(len(bag.trees) + 1)]
        losses = [by_hand(problem, start, number) for start in starts]
        assert np.argmin(losses) == len(bag.trees)


def same(one: list[DeepBag], other: list[DeepBag]) -> bool:
    """Whether bags have the same trees in every bit."""
    return all(
        len(a.trees) == len(b.trees)
        and all(
            np.array_equal(x, y)
            for own, its in zip(a.trees, b.trees, strict=True)
            for x, y in zip(own, its, strict=True)
        )
        for a, b in zip(one, other, strict=True)
    )


def test_more_trees_begin_with_the_same_ones(problem: Problem) -> None:
    patient = growth_of(problem, max_rounds=12, patience=100).grow()
    hasty = growth_of(problem, max_rounds=12, patience=1).grow()
    for one, other in zip(hasty, patient, strict=True):
        assert len(one.trees) <= len(other.trees)
        assert same([one], [replace(other, trees=other.trees[: len(one.trees)])])


@pytest.mark.parametrize("n_threads", [1, 4])
def test_threads_change_no_bit(problem: Problem, bags: Any, n_threads: int) -> None:
    assert same(growth_of(problem, n_threads).grow(), bags)


def test_another_seed_grows_other_trees(problem: Problem, bags: Any) -> None:
    other = replace(problem, bagging=replace(problem.bagging, seed=1))
    assert not same(growth_of(other).grow(), bags)


def test_bags_differ(bags: Any) -> None:
    one, other = bags
    assert not same([one], [other])


def test_kinds_of_trees_take_turns_and_their_steps_grow(problem: Problem) -> None:
    """Steps at their bound are the rate, which is twice as large after 150 trees."""
    bound = 1e-4
    rules = tuple(each._replace(largest_step=bound) for each in BOTH)
    bag = growth_of(problem, tree_rules=rules, max_rounds=30, patience=30).grow()[0]
    assert len(bag.trees) == 30
    for number, tree in enumerate(bag.trees):
        assert np.abs(tree.values).max() == pytest.approx(bound * RATE * (1 + number / 150))
        levels = [slice((1 << d) - 1, (2 << d) - 1) for d in range(4)]
        shared = [len(set(zip(tree.columns[some], tree.cuts[some], strict=True))) == 1
                  for some in levels]  # fmt: skip
        assert all(shared) == (number % 2 == 0)


def test_no_time_is_no_trees(problem: Problem) -> None:
    limits = Limits(deadline=time.monotonic() - 1)
    growth = growth_of(problem, limits=limits)
    grown = growth.grow()
    assert [bag.trees for bag in grown] == [[], []]
    assert {event.note for event in growth.events} == {"deep trees, until the time limit"}
    assert not raw_scores(problem, grown[0], slice(None)).any()


def test_events_tell_the_trees_and_the_loss_of_each_bag(problem: Problem) -> None:
    growth = growth_of(problem)
    grown = growth.grow()
    told = [(event.bag, event.step, event.validation_loss) for event in growth.events]
    assert told == [(number, len(bag.trees), bag.loss) for number, bag in enumerate(grown)]


# From codes to values


def scores_of(problem: Problem, bags: Any, frame: pd.DataFrame) -> list[np.ndarray]:
    columns = problem.encoder.columns(problem.encoder.read(frame))
    return [trees.scores(columns) for trees in as_trees(problem, bags)]


def test_trees_of_values_are_those_of_codes(
    problem: Problem, bags: Any, frame: pd.DataFrame
) -> None:
    rows = frame.iloc[problem.distinct.rows]
    for bag, scores in zip(bags, scores_of(problem, bags, rows), strict=True):
        assert np.allclose(scores, raw_scores(problem, bag, slice(None)), atol=1e-12)
        some = slice(20, 50)
        assert np.array_equal(raw_scores(problem, bag, some),
                              raw_scores(problem, bag, slice(None))[some])  # fmt: skip


def test_a_value_in_the_middle_of_two_nodes_goes_as_it_did_in_training() -> None:
    """Whole numbers that are farther apart than nodes: many lie exactly between two of these."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"a": rng.integers(0, 300, 900), "b": rng.integers(0, 90, 900)})
    problem = problem_of(frame, ((frame.a % 50 > 20) * frame.b).to_numpy(float))
    middles = [axis.ends for axis in problem.encoder.axes[1]]
    assert min(np.isin(ends, x).sum() for ends, x in zip(middles, frame.T.values, strict=True)) > 5
    grown = growth_of(problem).grow()
    found = scores_of(problem, grown, frame.iloc[problem.distinct.rows])
    for bag, scores in zip(grown, found, strict=True):
        assert np.allclose(scores, raw_scores(problem, bag, slice(None)), rtol=0, atol=1e-12)


def test_values_between_nodes_go_with_the_nearest_one(
    problem: Problem, bags: Any, frame: pd.DataFrame
) -> None:
    nodes = problem.encoder.axes[1][0].values
    rng = np.random.default_rng(1)
    number = rng.uniform(nodes[0] - 1, nodes[-1] + 1, len(frame))
    nearest = nodes[np.abs(number[:, None] - nodes).argmin(1)]
    found = scores_of(problem, bags, frame.assign(number=number))
    expected = scores_of(problem, bags, frame.assign(number=nearest))
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def test_features_know_the_share_of_the_rows_in_each_code(
    problem: Problem, bags: Any, frame: pd.DataFrame
) -> None:
    trees = as_trees(problem, bags)[0]
    columns = problem.encoder.columns(problem.encoder.read(frame))
    for feature, x in zip(trees.features, columns, strict=True):
        counts = np.bincount(feature.codes(x), minlength=feature.n_codes)
        assert np.allclose(feature.masses, counts / len(frame))


def test_what_fit_has_not_seen_goes_with_the_most_rows(
    problem: Problem, bags: Any, frame: pd.DataFrame
) -> None:
    """At every question, levels and missing values that are new take the side of the majority."""
    columns = problem.encoder.columns(problem.encoder.read(frame))
    for trees in as_trees(problem, bags):
        for j, right in trees.each_question():
            feature = trees.features[j]
            of_rows = right[feature.codes(columns[j])]
            for code in (-2, -1):
                if feature.masses[code] == 0:
                    assert right[code] == (of_rows.mean() > 0.5)


def test_no_rounding_decides_where_each_side_has_half_of_the_rows() -> None:
    """What fit has not seen goes left then."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        parts = rng.multinomial(50, np.ones(12) / 12, size=2).ravel() / 100
        feature = TreeFeature(np.empty(0), np.arange(24, dtype=np.int32), np.append(parts, [0, 0]))
        right = goes_right(feature, np.arange(24), np.arange(24) >= 12)
        assert not right[24:].any()


def test_a_column_with_one_value_or_no_residual_grows_nothing() -> None:
    frame = pd.DataFrame({"a": np.ones(40)})
    alone = growth_of(problem_of(frame, np.arange(40.0))).grow()
    assert [bag.trees for bag in alone] == [[], []]
    even = growth_of(problem_of(mixed_frame(40), np.full(40, 2.0))).grow()
    assert [bag.trees for bag in even] == [[], []]
