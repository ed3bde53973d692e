"""Queries give the model's own numbers, in DuckDB, SQLite and PostgreSQL."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.export.cases import INJECTION, NAMES, TASKS, assert_equal_to_model, fuzzed_rows, model_of
from tpnn import ComponentSet
from tpnn.export.dialects import DIALECTS
from tpnn.table.encoder import LevelRules, TableEncoder
from tpnn.table.frame import Table

Runner = Callable[[str, pd.DataFrame], np.ndarray]
AS_POSTGRES = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []  # never as root
POSTGRES = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))


def in_sqlite(query: str, rows: pd.DataFrame) -> np.ndarray:
    database = sqlite3.connect(":memory:")
    try:
        rows.to_sql("loans", database, index=False)
        answer = sorted(database.execute(query).fetchall())
        assert database.execute("SELECT COUNT(*) FROM loans").fetchone() == (len(rows),)
    finally:
        database.close()
    return np.array(answer, dtype=object)


def in_duckdb(query: str, rows: pd.DataFrame) -> np.ndarray:
    duckdb = pytest.importorskip("duckdb", reason="the package duckdb is not installed")
    with duckdb.connect() as database:
        database.register("loans", rows)
        return np.array(sorted(database.execute(query).fetchall()), dtype=object)


class Postgres:
    """A server with its own socket and directory, run by a user that is not root."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin = folder, POSTGRES[-1].parent
        self._call(self.bin / "initdb", "-D", folder / "data", "-A", "trust", "-E", "UTF8",
                   "--locale=C", "-U", "tester", "--no-sync")  # fmt: skip
        options = f"-k {folder} -c listen_addresses='' -c fsync=off"
        self._call(self.bin / "pg_ctl", "-D", folder / "data", "-o", options,
                   "-l", folder / "log", "-w", "start")  # fmt: skip

    def _call(self, *command: object, script: str = "") -> str:
        words = [*AS_POSTGRES, *map(str, command)]
        done = subprocess.run(words, input=script, capture_output=True, text=True, cwd="/")
        assert done.returncode == 0, done.stderr
        return done.stdout

    def close(self) -> None:
        self._call(self.bin / "pg_ctl", "-D", self.folder / "data", "-m", "immediate", "stop")

    def run(self, query: str, rows: pd.DataFrame) -> np.ndarray:
        types = {
            "i": "BIGINT",
            "f": "DOUBLE PRECISION",
            "b": "BOOLEAN",
            "M": "TIMESTAMP",
            "O": "TEXT",
        }
        columns = ", ".join(
            f"{DIALECTS['postgres'].name(name)} {types[rows[name].dtype.kind]}" for name in rows
        )
        values = "\n".join("\t".join(map(_copied, row)) for row in rows.itertuples(index=False))
        script = (
            f"BEGIN;\nCREATE TABLE loans ({columns});\nCOPY loans FROM STDIN;\n{values}\n\\.\n"
            f"COPY ({query.rstrip()} ORDER BY 1) TO STDOUT;\nROLLBACK;\n"
        )
        command = [self.bin / "psql", "-h", self.folder, "-U", "tester", "-d", "postgres",
                   "-X", "-q", "-v", "ON_ERROR_STOP=1"]  # fmt: skip
        lines = self._call(*command, script=script).splitlines()
        return np.array([[None if cell == "\\N" else float(cell) for cell in line.split("\t")]
                         for line in lines], dtype=object)  # fmt: skip


def _copied(value: Any) -> str:
    if value is None or value is pd.NaT:
        return "\\N"
    text = str(value).replace("\\", "\\\\")
    return text.replace("\t", "\\t").replace("\n", "\\n")


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    if not POSTGRES:
        pytest.skip("PostgreSQL is not installed")
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))  # a socket needs a short path
    if AS_POSTGRES:
        shutil.chown(folder, "postgres")
    server = Postgres(folder)
    yield server.run
    server.close()
    shutil.rmtree(folder)


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def database(request: pytest.FixtureRequest) -> tuple[str, Runner]:
    if request.param == "postgres":
        return "postgres", request.getfixturevalue("postgres")
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
        spreads=tables,
    )
    keyed = rows.assign(id=np.arange(200))
    answer = in_duckdb(model.to_sql("duckdb", key="id", contributions=True), keyed)
    assert_equal_to_model(answer[:, 1:], model, rows)
