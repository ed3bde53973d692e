"""Queries give the model's own numbers, in DuckDB, SQLite and PostgreSQL."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import replace

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
from tests.export.cases import INJECTION, NAMES, TASKS, assert_equal_to_model, fuzzed_rows, model_of
from tpnn import ComponentSet
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
def test_every_dialect_is_one_query_that_parses(dialect: str, task: str) -> None:
    sqlglot = pytest.importorskip("sqlglot", reason="the package sqlglot is not installed")
    query = model_of(task).to_sql(dialect, table=INJECTION, key="id", contributions=True)
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
