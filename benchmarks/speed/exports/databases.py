"""Queries run in databases: SQLite, DuckDB, and a PostgreSQL of its own."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tpnn.export.dialects import DIALECTS

Answers = NDArray[Any]  # (n_rows, n_columns), sorted by the first column
Runner = Callable[[str, pd.DataFrame], Answers]
AS_POSTGRES = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []  # never as root
POSTGRES = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))


def in_sqlite(query: str, rows: pd.DataFrame) -> Answers:
    """Score the rows, called ``loans``, in SQLite; the table must outlive the query."""
    database = sqlite3.connect(":memory:")
    try:
        rows.to_sql("loans", database, index=False)
        answer = sorted(database.execute(query).fetchall())
        assert database.execute("SELECT COUNT(*) FROM loans").fetchone() == (len(rows),)
    finally:
        database.close()
    return np.array(answer, dtype=object)


def in_duckdb(query: str, rows: pd.DataFrame) -> Answers:
    """Score the rows, called ``loans``, in DuckDB."""
    import duckdb

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
        """Stop the server."""
        self._call(self.bin / "pg_ctl", "-D", self.folder / "data", "-m", "immediate", "stop")

    def run(self, query: str, rows: pd.DataFrame) -> Answers:
        """Score the rows, called ``loans``."""
        types = {
            "i": "BIGINT",
            "f": "DOUBLE PRECISION",
            "b": "BOOLEAN",
            "M": "TIMESTAMP",
            "O": "TEXT",
        }
        columns = ", ".join(
            f"{DIALECTS['postgres'].name(str(name))} {types[rows[name].dtype.kind]}"
            for name in rows
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


@contextmanager
def postgres_server() -> Iterator[Runner]:
    """Start a server, and remove all of it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))  # a socket needs a short path
    if AS_POSTGRES:
        shutil.chown(folder, "postgres")
    server = Postgres(folder)
    try:
        yield server.run
    finally:
        server.close()
        shutil.rmtree(folder)
