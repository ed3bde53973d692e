"""Every export beside the model: a dozen models on fuzzed rows, then speed and size.

    python -m benchmarks.speed.exports
    python -m benchmarks.speed.exports --targets c python --rows 6000

Targets that are not installed are left out. The results are written as ``exports.md``.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.common.cells import PAGES, RESULTS
from benchmarks.common.environment import circumstances
from benchmarks.common.markdown import markdown
from benchmarks.speed.exports import Scored
from benchmarks.speed.exports.databases import (
    POSTGRES,
    Runner,
    in_duckdb,
    in_sqlite,
    postgres_server,
)
from benchmarks.speed.exports.fits import FITS, fitted
from benchmarks.speed.exports.languages import PROGRAMS, plain_rows, run_code
from benchmarks.speed.exports.sessions import run_session
from tests.export.cases import TASKS, expected, fuzzed_rows, model_of
from tpnn import AnovaModel, ComponentSet
from tpnn._utils.arrays import FloatArray
from tpnn.loss.links import LINKS
from tpnn.table.encoder import TableEncoder
from tpnn.table.table import Table

STORED, PAGE = RESULTS / "exports.json", PAGES / "exports.md"
N_ROWS = 100_000  # over all models
N_REFUSED = 20  # rows of each model with an infinite number
REPEATS = 3
SMALLEST = 1e-300  # prediction that a difference is relative to
LIBRARIES = ("numpy", "duckdb", "onnxruntime")
HEADING = """# Exports

`python -m benchmarks.speed.exports` writes this page. Every target scores the same fuzzed rows of
{models} models: on nodes, just beside and far beyond them, with missing values and levels that the
fit has not seen. The differences from Python are the largest ones, in standard deviations of the
raw score; those of probabilities, risks and means of a log link are relative. Rows with an infinite
number, which Python refuses, must have no score.
"""
FOOTER = """
Size and rows per second are those of two classes by 8 numbers, 8 main effects of 64 nodes and 28
pairs of 8 x 8 nodes, without contributions ({date}, {cpu}). Rows are counted by seconds of one
core, in databases with the reading of the rows; in PostgreSQL by seconds on a busy machine.
"""


Score = Callable[[AnovaModel, pd.DataFrame, bool], Scored]  # model, rows, with contributions


class Target(NamedTuple):
    """An export that can be run."""

    is_installed: bool  # whether it can be run here
    score: Score  # score rows with a model; the last argument says whether contributions are wanted
    n_timed_rows: int  # rows whose time is taken


def score_by_code(language: str, model: AnovaModel, rows: pd.DataFrame, effects: bool) -> Scored:
    """Score rows with source code."""
    found = run_code(language, model, plain_rows(rows), contributions=effects)
    return Scored(found.answers, found.seconds, found.size)


def score_by_query(
    dialect: str, run: Runner, model: AnovaModel, rows: pd.DataFrame, effects: bool
) -> Scored:
    """Score rows in a database; one within this process is measured by its processor time."""
    query = model.to_sql(dialect, key="id", contributions=effects)
    clock = time.perf_counter if dialect == "postgres" else time.process_time
    began = clock()
    answers = run(query, rows)
    return Scored(answers[:, 1:].astype(np.float64), clock() - began, len(query))


def score_in_postgres(model: AnovaModel, rows: pd.DataFrame, effects: bool) -> Scored:
    """Score rows in a PostgreSQL that is started for it."""
    with postgres_server() as run:
        return score_by_query("postgres", run, model, rows, effects)


TARGETS = {
    "c": Target(PROGRAMS["c"].is_installed, partial(score_by_code, "c"), 100_000),
    "javascript": Target(PROGRAMS["javascript"].is_installed,
                         partial(score_by_code, "javascript"), 50_000),
    "python": Target(True, partial(score_by_code, "python"), 5_000),
    "duckdb": Target(importlib.util.find_spec("duckdb") is not None,
                     partial(score_by_query, "duckdb", in_duckdb), 100_000),
    "sqlite": Target(True, partial(score_by_query, "sqlite", in_sqlite), 2_000),
    "postgres": Target(bool(POSTGRES), score_in_postgres, 20_000),
    "onnx": Target(importlib.util.find_spec("onnxruntime") is not None, run_session, 100_000),
}  # fmt: skip


def models(n_rows: int) -> Iterator[tuple[str, AnovaModel, pd.DataFrame]]:
    """Name, model and fuzzed rows of a dozen models of all kinds."""
    each = -(-n_rows // (len(TASKS) + len(FITS)))
    for task in TASKS:
        model = model_of(task)
        yield f"{task}, random values", model, fuzzed_rows(model, each)
    for task in FITS:
        yield task, *fitted(task, each)


def refused_rows(model: AnovaModel, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with an infinite number in one column, that of an offset among them."""
    bad = rows[:N_REFUSED].copy()
    used = {feature for component in model.components for feature in component}
    called = [model.feature_names[feature] for feature in sorted(used)]
    offset = model.encoder.offset_column
    called += [] if offset is None or offset.name is None else [offset.name]
    numbers = [name for name in called if rows[name].dtype.kind == "f"]
    for number in range(len(bad)):
        infinite = np.inf if number % 2 else -np.inf
        bad.loc[bad.index[number], numbers[number % len(numbers)]] = infinite
    return bad


def compare(target: Target, name: str, model: AnovaModel, rows: pd.DataFrame) -> dict[str, Any]:
    """Largest differences between an export and the model."""
    found, truth, k = target.score(model, rows, True), expected(model, rows), len(model.intercepts)
    spread, n = float(truth["raw"].std()), len(rows)
    raw, means, effects = np.split(np.abs(found.answers - _side_by_side(truth)), [k, 2 * k], axis=1)
    refused = target.score(model, refused_rows(model, rows), True).answers
    return {
        "model": name,
        "rows": n,
        "raw": float(raw.max() / spread),
        "contributions": float(effects.max() / spread),
        "predictions": float((means / _units(model, truth)).max()),
        "refused": int(np.isnan(refused[:, :k]).all(1).sum()),
        "to_refuse": len(refused),
    }


def _units(model: AnovaModel, truth: dict[str, FloatArray]) -> FloatArray:
    """Units of differences of predictions: themselves, or the spread of raw scores."""
    if model.link.name in ("identity", "quantiles"):  # which can be zero
        return np.full_like(truth["means"], truth["raw"].std())
    return np.maximum(np.abs(truth["means"]), SMALLEST)


def _side_by_side(truth: dict[str, FloatArray]) -> FloatArray:
    """Raw scores, predictions and contributions as exports answer them, (n_rows, n_answers)."""
    n = len(truth["raw"])
    return np.hstack([truth["raw"], truth["means"], truth["effects"].reshape(n, -1)])


def timed_model() -> AnovaModel:
    """Two classes by 8 numbers: main effects of 64 nodes and 28 pairs of 8 x 8 nodes."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(5000, 8)), columns=list("abcdefgh"))
    encoder = TableEncoder.fit(Table(table), {1: 64, 2: 8})
    components = ComponentSet.up_to(8, 2)
    tables = tuple(
        rng.normal(size=[*(encoder.axes[len(s)][j].n_nodes for j in s), 1]) for s in components
    )
    return AnovaModel(
        encoder=encoder,
        components=components,
        tables=tables,
        intercepts=np.zeros(1),
        link=LINKS["logit"],
    )


def timed(target: Target) -> dict[str, Any]:
    """Rows per second and size of an export."""
    model, n = timed_model(), target.n_timed_rows
    rows = pd.DataFrame(np.random.default_rng(1).normal(size=(n, 8)), columns=list("abcdefgh"))
    rows.insert(0, "id", np.arange(n))
    ran = [target.score(model, rows, False) for _ in range(REPEATS)]
    return {"size": ran[0].size, "rows_per_second": n / median(each.seconds for each in ran)}


def run(names: list[str], n_rows: int) -> dict[str, Any]:
    """Compare and time targets."""
    results: dict[str, Any] = {name: {"compared": []} for name in names}
    for called, model, rows in models(n_rows):
        for name in names:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about levels that a fit has not seen
                result = compare(TARGETS[name], called, model, rows)
            results[name]["compared"].append(result)
            print(name, result, flush=True)
    for name in names:
        results[name] |= timed(TARGETS[name])
        print(name, {key: results[name][key] for key in ("size", "rows_per_second")}, flush=True)
    return {"targets": results, **circumstances(LIBRARIES)}


def page(stored: dict[str, Any]) -> str:
    """Write the results as Markdown."""
    head = ("target", "rows", "raw score", "contributions", "predictions", "refused", "size",
            "rows per second")  # fmt: skip
    lines: list[tuple[str, ...]] = [head]
    for name, result in stored["targets"].items():
        found = pd.DataFrame(result["compared"])
        worst = [f"{found[what].max():.1e}" for what in ("raw", "contributions", "predictions")]
        refused = f"{found['refused'].sum()} of {found['to_refuse'].sum()}"
        rate = float(f"{result['rows_per_second']:.2g}")
        size = f"{result['size'] / 1000:,.0f} kB"
        lines.append((name, f"{found['rows'].sum():,}", *worst, refused, size, f"{rate:,.0f}"))
    footer = FOOTER.format(date=stored["date"], cpu=stored["machine"]["cpu"])
    table = markdown(lines, padded=True)
    return f"{HEADING.format(models=len(found))}\n{table}\n{footer}"


def main() -> None:
    """Compare the exports that are installed here, and store what is found."""
    parser = argparse.ArgumentParser(description=__doc__)
    installed = [name for name, target in TARGETS.items() if target.is_installed]
    parser.add_argument("--targets", nargs="+", choices=installed, default=installed)
    parser.add_argument("--rows", type=int, default=N_ROWS)
    arguments = parser.parse_args()
    stored = run(arguments.targets, arguments.rows)
    STORED.write_text(json.dumps(stored, indent=1) + "\n")
    PAGE.write_text(page(stored))


if __name__ == "__main__":
    main()
