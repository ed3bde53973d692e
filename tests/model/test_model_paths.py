"""Ways to predict: one row, a few, many, compiled or not, from any container, give the same bits.

The table is messy: numbers with and without missing values, a constant, flags, strings, ordered
levels, numbers that are names, dates; and rows hold what fit has not seen.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tpnn import AnovaModel, ComponentSet
from tpnn.loss.links import LINKS
from tpnn.model.interpolate import ACCOUNT, MIN_COMPILED_ROWS
from tpnn.model.model import tables_by_component
from tpnn.table.encoder import LevelRules, TableEncoder
from tpnn.table.table import Table

pytestmark = pytest.mark.filterwarnings("ignore:X. levels or missing values")
MAX_NODES = {1: 40, 2: 8, 3: 5, 4: 3}  # by order
N_ROWS = MIN_COMPILED_ROWS + 50


def messy_table(n_rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"number": rng.normal(size=n_rows), "flag": rng.random(n_rows) < 0.3})
    X["gaps"] = np.where(rng.random(n_rows) < 0.2, np.nan, rng.lognormal(size=n_rows) * 1e3)
    X["constant"] = 7
    X["colour"] = rng.choice(["red", "green", "blue'", ""], n_rows)
    X["size"] = pd.Categorical(rng.choice(["S", "M", "L"], n_rows), ["S", "M", "L"], ordered=True)
    X["branch"] = rng.integers(100, 104, n_rows)
    X["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 90, n_rows), "D")
    return X


def odd_rows(n_rows: int) -> pd.DataFrame:
    """Rows like those of fit, with values beyond its range, unseen levels and new gaps."""
    X = messy_table(n_rows, seed=1)
    X.loc[0, "number"], X.loc[1, "number"], X.loc[2, "number"] = 1e300, -1e300, np.nan
    X.loc[3, "colour"], X.loc[4, "colour"], X.loc[5, "branch"] = "mauve", None, 999
    X.loc[6, "size"], X.loc[7, "day"], X.loc[8, "gaps"] = None, pd.NaT, -0.0
    X.loc[9, ["constant", "branch"]] = [-3, 100]
    return X


def messy_model(order: int, n_outputs: int) -> AnovaModel:
    X, rng = messy_table(400, seed=0), np.random.default_rng(order)
    sizes = {o: MAX_NODES[o] for o in range(1, order + 1)}
    encoder = TableEncoder.fit(Table(X), sizes, rules=LevelRules(nominal=(6,)))
    components = ComponentSet.up_to(X.shape[1], order)
    tables = tuple(
        rng.normal(size=[*(encoder.axes[len(s)][j].n_nodes for j in s), n_outputs])
        for s in components
    )
    return AnovaModel(
        encoder=encoder,
        components=components,
        tables=tables,
        intercepts=rng.normal(size=n_outputs),
        link=LINKS["identity"],
        output_names=tuple(f"output {k}" for k in range(n_outputs)) if n_outputs > 1 else (),
    )


def scores_by_definition(model: AnovaModel, columns: list[np.ndarray], row: int) -> np.ndarray:
    """Sum over all cells of all tables, each weighted by the product of its nodes' weights."""
    total = model.intercepts.copy()
    for component, table in tables_by_component(model).items():
        values = table
        for feature, axis in zip(component, model.axes(component), strict=True):
            lower, fraction = (part[0] for part in axis.locate(columns[feature][row : row + 1]))
            weights = np.zeros(axis.n_nodes + 2)
            weights[lower], weights[lower + 1] = 1 - fraction, fraction
            values = np.tensordot(weights[: axis.n_nodes], values, axes=1)
        total += values
    return total


@pytest.mark.parametrize(("order", "n_outputs"), [(1, 1), (2, 1), (3, 2), (4, 1)])
def test_all_ways_give_the_same_bits(order: int, n_outputs: int, all_compiled: None) -> None:
    model, X = messy_model(order, n_outputs), odd_rows(N_ROWS)
    many = model.raw_scores(X)
    assert model._predictor._compiled is not None or model._beside_trees[1].bundles
    for n_rows in (1, 2, 12, 60, 1500, MIN_COMPILED_ROWS - 1):
        for start in (0, 3, 9) if n_rows < 60 else (0,):
            rows = slice(start, start + n_rows)
            assert np.array_equal(model.raw_scores(X[rows]), many[rows])
    scores = model.component_scores(X)
    for rows in (slice(0, 1), slice(0, 12), slice(0, 700)):
        assert np.array_equal(model.component_scores(X[rows]), scores[rows])
    columns = model.encoder.columns(model.encoder.read(X[:12]))
    expected = [scores_by_definition(model, columns, row) for row in range(12)]
    np.testing.assert_allclose(many[:12].reshape(12, -1), expected, rtol=1e-12, atol=1e-11)


def test_a_row_is_the_same_whatever_holds_it(all_compiled: None) -> None:
    """A matrix, a list of rows, a frame of one type, of several types, one row or all."""
    rng = np.random.default_rng(0)
    train = pd.DataFrame(rng.integers(0, 6, (300, 3)) * [1.0, 0.25, 3.0], columns=["a", "b", "c"])
    encoder = TableEncoder.fit(Table(train), {1: 9, 2: 4}, rules=LevelRules(nominal=(2,)))
    components = ComponentSet.up_to(3, 2)
    tables = tuple(
        rng.normal(size=[*(encoder.axes[len(s)][j].n_nodes for j in s), 1]) for s in components
    )
    model = AnovaModel(
        encoder=encoder,
        components=components,
        tables=tables,
        intercepts=np.zeros(1),
        link=LINKS["identity"],
    )
    expected = model.raw_scores(train)
    for frame in (
        train,
        train.astype({"a": np.int8}),
        train.astype({"c": "Int64"}),
        train[["c", "b", "a"]],
    ):
        assert np.array_equal(model.raw_scores(frame), expected)
        for row in range(20):
            assert model.raw_scores(frame[row : row + 1])[0] == expected[row]
    for row in range(20):
        assert model.raw_scores(train.to_numpy()[row : row + 1])[0] == expected[row]
        assert model.raw_scores(train.to_numpy()[row : row + 1].tolist())[0] == expected[row]


def test_the_loops_are_those_of_the_fixture(all_compiled: None) -> None:
    assert ACCOUNT.loops(MIN_COMPILED_ROWS, 1).__name__ == "tpnn.model.interpolate_numba"
