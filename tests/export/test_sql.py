"""Queries give the model's own numbers, in DuckDB, SQLite and PostgreSQL."""

from __future__ import annotations

import re
import sqlite3
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from benchmarks.speed.exports.databases import (
    POSTGRES,
    Runner,
    in_duckdb,
    in_sqlite,
    postgres_server,
)
from tests.export.cases import (
    INJECTION,
    NAMES,
    TASKS,
    TOLERANCE,
    assert_equal_to_model,
    expected,
    fuzzed_rows,
    model_of,
    remainder_model,
)
from tpnn import AnovaModel, ComponentSet
from tpnn.export import sql
from tpnn.export.dialects import DIALECTS
from tpnn.table.encoder import LevelRules, TableEncoder
from tpnn.table.table import Table


@pytest.fixture(scope="session")
def postgres() -> Iterator[Runner]:
    if not POSTGRES:
        pytest.skip("PostgreSQL is not installed")
    with postgres_server() as run:
        yield run


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def database(request: pytest.FixtureRequest) -> tuple[str, Runner]:
    if request.param == "postgres":
        return "postgres", request.getfixturevalue("postgres")
    if request.param == "duckdb":
        pytest.importorskip("duckdb", reason="the package duckdb is not installed")
    return request.param, {"sqlite": in_sqlite, "duckdb": in_duckdb}[request.param]


@pytest.mark.parametrize("task", TASKS)
def test_a_query_equals_the_model(task: str, database: tuple[str, Runner]) -> None:
    dialect, run = database
    model = model_of(task)
    rows = fuzzed_rows(model, 300 if dialect == "sqlite" else 2000)
    query = model.to_sql(dialect, key="id", contributions=True)
    answer = run(query, rows)
    assert answer[:, 0].tolist() == rows["id"].tolist()
    assert_equal_to_model(answer[:, 1:], model, rows)


@pytest.mark.parametrize(
    ("task", "is_oblivious"), [*((task, True) for task in TASKS), ("several classes", False)]
)
def test_a_query_equals_a_model_with_a_remainder(
    task: str, is_oblivious: bool, database: tuple[str, Runner]
) -> None:
    dialect, run = database
    model = remainder_model(task, is_oblivious)
    rows = fuzzed_rows(model, 100 if dialect == "sqlite" else 500)
    answer = run(model.to_sql(dialect, key="id", contributions=True), rows)
    assert_equal_to_model(answer[:, 1:], model, rows)
    alone = run(model.to_sql(dialect, key="id"), rows)[:, 1 : 1 + len(model.intercepts)]
    truth = expected(model, rows)["raw"]
    unit = TOLERANCE * truth.std()
    np.testing.assert_allclose(alone.astype(float), truth, rtol=0, atol=unit)


def test_an_infinite_number_that_trees_alone_read_has_no_score(
    database: tuple[str, Runner],
) -> None:
    dialect, run = database
    model = remainder_model("regression")
    rows = fuzzed_rows(model, 2)
    read = {name for component in model.component_names for name in component}
    assert "holes" in set(model.required_features) - read
    rows["holes"] = [1.0, np.inf]
    answer = run(model.to_sql(dialect, key="id"), rows)
    assert answer[0, 1] is not None
    assert answer[1, 1] is None


@pytest.mark.parametrize(("is_oblivious", "limit"), [(True, "MOST_VALUES"), (False, "MOST_CASES")])
def test_a_remainder_that_is_too_large_is_refused(
    is_oblivious: bool, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, limit, 100)
    with pytest.raises(ValueError, match=r"room for 100\. Fit with remainder=False, or export"):
        remainder_model("regression", is_oblivious).to_sql("duckdb")


def test_what_the_model_refuses_has_no_score(database: tuple[str, Runner]) -> None:
    dialect, run = database
    model = model_of("counts")
    rows = fuzzed_rows(model, 6).assign(exposure=[1.0, 0.0, -1.0, np.nan, np.inf, 1.0])
    rows.loc[5, "holes"] = np.inf
    answer = run(model.to_sql(dialect, key="id"), rows)
    assert [score is None for score in answer[:, 1]] == [False] + [True] * 5
    assert [score is None for score in answer[:, 2]] == [False] + [True] * 5


def test_a_row_with_an_infinite_level_has_no_score(database: tuple[str, Runner]) -> None:
    dialect, run = database
    model = model_of("regression")
    rows = fuzzed_rows(model, 2)
    rows["code"] = [7.0, np.inf]
    answer = run(model.to_sql(dialect, key="id"), rows)
    assert answer[0, 1] is not None
    assert answer[1, 1] is None


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("make", [model_of, remainder_model])
def test_every_dialect_is_one_query_that_parses(
    dialect: str, task: str, make: Callable[[str], AnovaModel]
) -> None:
    sqlglot = pytest.importorskip("sqlglot", reason="the package sqlglot is not installed")
    query = make(task).to_sql(dialect, table=INJECTION, key="id", contributions=True)
    (tree,) = sqlglot.parse(query, read=dialect)
    tables = {table.name for table in tree.find_all(sqlglot.exp.Table)}
    assert INJECTION in tables
    columns = {column.name for column in tree.find_all(sqlglot.exp.Column)}
    assert {INJECTION, NAMES["number"]} <= columns
    literals = {text.this for text in tree.find_all(sqlglot.exp.Literal) if text.is_string}
    assert INJECTION in literals


def test_names_of_contributions_are_distinct() -> None:
    query = model_of("several classes").to_sql("postgres", contributions=True)
    names = re.findall(r'AS "((?:[^"]|"")*)"', query)
    assert len({name.casefold() for name in names}) == len(names)
    assert {"raw_score_a'b", "raw_score_B", "raw_score_b_2", "prediction_B"} <= set(names)


def test_a_schema_and_several_keys() -> None:
    query = model_of("regression").to_sql("postgres", table=("risk", "loans"), key=["a", "b"])
    assert 'FROM "risk"."loans"' in query
    assert 'k1 AS "b"' in query


def test_an_offset_without_a_column_is_announced() -> None:
    model = replace(model_of("regression"), has_offset=True)
    with pytest.warns(UserWarning, match="the query adds no offset"):
        model.to_sql("duckdb")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model_of("counts").to_sql("duckdb")


def test_an_unknown_dialect_is_refused() -> None:
    with pytest.raises(ValueError, match="dialect: must be one of postgres"):
        model_of("regression").to_sql("oracle")


@pytest.mark.parametrize("names", [{"table": ""}, {"key": "a\0b"}])
def test_names_that_sql_cannot_write_are_refused(names: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="name: a name in SQL needs"):
        model_of("regression").to_sql("duckdb", **names)


def test_durations_and_large_whole_numbers_as_levels() -> None:
    pytest.importorskip("duckdb", reason="the package duckdb is not installed")
    rng = np.random.default_rng(0)
    codes = np.array([2**53, 2**53 + 1, 2**53 + 2])
    rows = pd.DataFrame(
        {
            "wait": rng.integers(0, 10**12, 200).astype("timedelta64[us]"),
            "code": rng.choice(codes, 200),
        }
    )
    table = Table(rows)
    encoder = TableEncoder.fit(table, {1: 8}, rules=LevelRules(nominal=[1]))
    tables = tuple(rng.normal(size=(axis.n_nodes, 1)) for axis in encoder.axes[1])
    model = replace(
        model_of("regression"),
        encoder=encoder,
        components=ComponentSet(((0,), (1,))),
        tables=tables,
    )
    keyed = rows.assign(id=np.arange(200))
    answer = in_duckdb(model.to_sql("duckdb", key="id", contributions=True), keyed)
    assert_equal_to_model(answer[:, 1:], model, rows)


def main_effects(rows: pd.DataFrame, order: int = 1) -> AnovaModel:
    """Model with random values of every column of a frame and, of order 2, of every pair."""
    encoder = TableEncoder.fit(Table(rows), dict.fromkeys(range(1, order + 1), 8))
    features = range(encoder.n_features)
    components = tuple(s for size in range(1, order + 1) for s in combinations(features, size))
    rng = np.random.default_rng(0)
    tables = tuple(
        rng.normal(size=[*(encoder.axes[len(s)][j].n_nodes for j in s), 1]) for s in components
    )
    return replace(
        model_of("regression"),
        encoder=encoder,
        components=ComponentSet(components),
        tables=tables,
    )


NO_CASE = ("duckdb", "sqlite", "bigquery", "spark")  # know no small letters and capitals


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("names", "refusing"), [(("Age", "age"), NO_CASE), (("x" * 70, "x" * 69 + "y"), ("postgres",))]
)
def test_columns_that_a_database_takes_for_one_are_refused(
    dialect: str, names: tuple[str, str], refusing: tuple[str, ...]
) -> None:
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=names)
    model = main_effects(rows)
    if dialect in refusing:
        with pytest.raises(ValueError, match=r"^model: the columns .* are one column in this data"):
            model.to_sql(dialect)
        with pytest.raises(ValueError, match=r"^model: the columns .* are one column in this data"):
            main_effects(rows[[names[0]]]).to_sql(dialect, key=names[1])
    else:
        model.to_sql(dialect, key=names[0])


@pytest.mark.parametrize("dialect", ["sqlite", "duckdb"])
def test_a_column_that_is_not_there_is_an_error(dialect: str) -> None:
    """Not the text of its name, and not a column of the query itself."""
    if dialect == "duckdb":
        pytest.importorskip("duckdb", reason="the package duckdb is not installed")
    run = {"sqlite": in_sqlite, "duckdb": in_duckdb}[dialect]
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=["x5", "x0"])
    query = main_effects(rows).to_sql(dialect)
    assert len(run(query, rows)) == 50
    with pytest.raises(Exception, match="x0"):
        run(query, rows[["x5"]])


def test_text_in_a_number_column_of_sqlite_has_no_score() -> None:
    """Neither 0, which SQLite makes of text, nor what a part of it says."""
    rows = pd.DataFrame({"x": np.arange(50.0), "flag": np.arange(50) % 2})
    query = main_effects(rows).to_sql("sqlite", key="id")
    odd = ["abc", "", "1,5", "1.5", b"1", 1.5, None]
    lines = [(x, 1) for x in odd] + [(1.0, "true"), (1.0, None)]
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE loans (id INTEGER PRIMARY KEY, x, flag)")
        database.executemany("INSERT INTO loans (x, flag) VALUES (?, ?)", lines)
        scores = [score for _, score, _ in database.execute(query)]
    assert [score is None for score in scores] == [True] * 5 + [False, False, True, False]


DAYS = ("2020-03-01", "2020-03-01 10:11", "2020-03-01T10:11:12", "2020-03-01 10:11:12.3456")
NO_DAYS = (
    "garbage", "now", "12:30", "2020-02-31", "2020-03-01 10:11:12+02:00", "2020-03-01 10:11:12.5Z",
    "", 1583020800, 2459000.5,
)  # fmt: skip


def test_dates_of_sqlite_are_read_as_written_or_have_no_score() -> None:
    days = pd.DataFrame({"day": pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(200), "D")})
    model = main_effects(days)
    query = model.to_sql("sqlite", key="id")
    asked = pd.DataFrame({"id": range(len(DAYS)), "day": DAYS})
    moments = pd.DataFrame({"day": [pd.Timestamp(day) for day in DAYS]})
    scores = in_sqlite(query, asked)[:, 1].astype(float)
    assert scores == pytest.approx(model.raw_scores(moments), abs=1e-12)
    wrong = pd.DataFrame({"id": range(len(NO_DAYS)), "day": pd.Series(NO_DAYS, dtype=object)})
    assert list(in_sqlite(query, wrong)[:, 1]) == [None] * len(NO_DAYS)


def test_char_columns_of_postgres_keep_the_blanks_that_levels_have(postgres: Runner) -> None:
    rows = pd.DataFrame({"x": np.repeat(["a", "a ", "b"], 20)})
    model = main_effects(rows)
    asked = pd.DataFrame({"id": [0, 1], "x": ["a ", "b "]})
    query = model.to_sql("postgres", key="id").replace(
        'FROM "loans"', 'FROM (SELECT "id", CAST("x" AS CHAR(2)) AS "x" FROM "loans") AS t --'
    )
    with pytest.warns(UserWarning, match="levels"):
        expected = model.raw_scores(asked)
    assert postgres(query, asked)[:, 1].tolist() == pytest.approx(expected.tolist(), abs=1e-12)


def test_numerics_of_postgres_beyond_the_doubles_disturb_no_other_row(postgres: Runner) -> None:
    model = main_effects(pd.DataFrame({"x": [*np.arange(50.0), np.nan]}))
    texts = ["1e400", "-1e400", "1e-400", "NaN", "7.5", "1.7976931348623157e308"]
    asked = pd.DataFrame({"id": np.arange(6), "x": texts})
    query = model.to_sql("postgres", key="id").replace(
        'FROM "loans"', 'FROM (SELECT "id", CAST("x" AS NUMERIC) AS "x" FROM "loans") AS t --'
    )
    truth = model.raw_scores(pd.DataFrame({"x": [0.0, np.nan, 7.5, 1.7976931348623157e308]}))
    answer = postgres(query, asked)[:, 1].tolist()
    assert answer == [None, None, *[pytest.approx(score, abs=1e-12) for score in truth]]


def test_tiny_fractions_do_not_fail_in_postgres(postgres: Runner) -> None:
    """A product of two of them is below the smallest double, which is an error there."""
    steps = np.arange(49.0)
    rows = pd.DataFrame({"x": steps % 7 * 1e299, "y": steps // 7})
    model = main_effects(rows, order=2)
    tiny = [5e-324, 1e-300, 1e-200, 1e-100, 1e-17]
    asked = pd.DataFrame([(x, y) for x in tiny for y in tiny], columns=["x", "y"])
    keyed = asked.assign(id=np.arange(len(asked)))
    answer = postgres(model.to_sql("postgres", key="id", contributions=True), keyed)
    assert_equal_to_model(answer[:, 1:], model, asked)
