"""Fits to Parquet files larger than memory beside boosted trees: seconds, memory, error.

    python -m benchmarks.speed.out_of_core 10000000 --store
    python -m benchmarks.speed.out_of_core 2000000 --ways "tpnn in memory" "tpnn in files"
    python -m benchmarks.speed.out_of_core --exponent --store

For each number of rows a generator writes files of 20 columns (160 bytes a row, in the folder that
TMPDIR names), and every way of fitting runs in a process of its own, one after the other:

- "tpnn in files": the columns are read one at a time, as if the table did not fit into memory;
- "tpnn in memory": the table is read as a whole, for the comparison of bits;
- "XGBoost": ``hist`` with external memory, which reads the row groups into files of its own;
- "LightGBM": a ``Sequence`` of the row groups.

Printed are the seconds of a fit, the peak of the memory of its process beside that of mapped
files, the rounds, the distance to the true function and the RMSE on new rows. Whether two models of
tpnn agree in every bit is seen from a digest. ``--exponent`` fits tpnn alone to 1, 2, 4 and
8 million rows and says by which power of the rows the time grows. ``--store`` keeps
the results, beside those of other sizes, and writes them as ``out_of_core.md``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bits import digest
from benchmarks.common.cells import PAGES, RESULTS, Line, pack, read
from benchmarks.common.environment import ROOT, circumstances, described, peak_memory, say, seconds
from benchmarks.common.markdown import markdown, paragraph
from benchmarks.common.scores import rmse
from benchmarks.speed.growth import exponent
from benchmarks.speed.out_of_core_rivals import RIVALS, Boosting

LINES, PAGE = RESULTS / "out_of_core.jsonl", PAGES / "out_of_core.md"
N_COLUMNS, ROWS_PER_FILE, ROWS_PER_GROUP, NOISE = 20, 1_000_000, 1 << 17, 0.5
NEW_ROWS, FEWEST_GROUPS = 100_000, 20
IN_FILES, IN_MEMORY = "tpnn in files", "tpnn in memory"
WAYS = (IN_FILES, IN_MEMORY, *RIVALS)
EXPONENT_ROWS = (1_000_000, 2_000_000, 4_000_000, 8_000_000)
PACKAGES = ("tpnn", "xgboost", "lightgbm", "pyarrow", "numpy", "numba")

HEADING = f"""`python -m benchmarks.speed.out_of_core` writes this page. A table of {N_COLUMNS}
uniform columns, with four main effects, two pairs and noise of standard deviation {NOISE}, is in
Parquet files. tpnn fits main effects and all pairs, its table left in the files; XGBoost uses
`hist` with external memory, LightGBM a sequence of row groups. Both boost with their default trees
at a rate of 0.1 until the last rows, at most 500,000, have not gained for 50 rounds; a fit that a
limit of time or of rounds ended before is cut, and its error would fall on. Memory is that of the
process without mapped files. The distance is that to the true function, and the RMSE is that on
{NEW_ROWS:,} new rows. Rounds of tpnn are those of its first bag."""
GROWTH = """From {first:,} to {last:,} rows the time of tpnn grows with the power {power:.2f} of
the rows."""


def block(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns (n_rows, 20), uniform, and the true function of them."""
    X = np.random.default_rng(seed).uniform(-1, 1, size=(n_rows, N_COLUMNS))
    truth = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + np.abs(X[:, 2]) + 0.5 * X[:, 3]
    truth += 2 * X[:, 4] * X[:, 5] + np.where(X[:, 6] > 0.2, X[:, 7], 0.0)
    return X, truth


def named(X: np.ndarray) -> dict[str, np.ndarray]:
    """Columns by name."""
    return {f"x{place:02}": X[:, place] for place in range(N_COLUMNS)}


def write_files(folder: Path, n_rows: int) -> None:
    """Write files of a million rows each, with a column ``y``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for number, start in enumerate(range(0, n_rows, ROWS_PER_FILE)):
        X, truth = block(min(ROWS_PER_FILE, n_rows - start), seed=number + 1)
        noise = np.random.default_rng([number, 7]).normal(scale=NOISE, size=len(X))
        table = pa.table(named(X) | {"y": truth + noise})
        file = folder / f"{number:05}.parquet"
        pq.write_table(table, file, row_group_size=min(ROWS_PER_GROUP, -(-n_rows // FEWEST_GROUPS)))


def fit_ours(folder: str, way: str, bags: int | None) -> Line:
    """Fit tpnn in this process."""
    from tpnn import TPNNRegressor
    from tpnn.estimators import inputs

    inputs.TABLE_MEMORY_SHARE = 0.0 if way == IN_FILES else 1.0
    model = TPNNRegressor(order=2, n_bags=bags or "auto", bands=False, random_state=0, verbose=0)
    took = seconds(lambda: model.fit(folder, "y"))
    rounds = [event["step"] for event in model.history_ if event["stage"] == "grow"]
    found = {"seconds": took, "rounds": rounds[0], "bits": bits(model)}
    return found | errors(lambda X: model.predict(named(X)))


def bits(model: Any) -> str:
    """Digest of the grids of values and the intercept of a model."""
    return digest((*model.model_.tables, model.model_.intercepts))[:12]


def fit_rival(folder: str, way: str, boosting: Boosting) -> Line:
    """Fit boosted trees in this process."""
    began = time.perf_counter()
    model = RIVALS[way](Path(folder), boosting)
    took = time.perf_counter() - began
    known = {"seconds": took, "rounds": model.rounds, "is_cut": model.is_cut, "bits": ""}
    return known | errors(model.predict)


def errors(predict: Any) -> dict[str, float]:
    """Distance to the true function on new rows, and RMSE on their targets."""
    X, truth = block(NEW_ROWS, seed=0)
    y = truth + np.random.default_rng(7).normal(scale=NOISE, size=NEW_ROWS)
    predicted = predict(X)
    return {"distance": rmse(truth, predicted), "error": rmse(y, predicted)}


def measured(folder: Path, way: str, options: list[str]) -> Line:
    """Fit in a process of its own, with the peak of its memory in GB."""
    module = "benchmarks.speed.out_of_core"
    command = [sys.executable, "-m", module, "--fit", str(folder), way, *options]
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    peak = peak_memory(child, with_mapped_files=False)
    assert child.stdout is not None
    found: Line = json.loads(child.stdout.read().splitlines()[-1])
    return {**found, "GB": peak / 1e9}


def fits_of(n_rows: int, ways: list[str], options: list[str]) -> list[Line]:
    """Write a table and fit it in some ways."""
    fits = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "table"
        folder.mkdir()
        say(f"writing {n_rows:,} rows")
        write_files(folder, n_rows)
        for way in ways:
            found = measured(folder, way, options)
            fits.append({"rows": n_rows, "way": way, **found, **circumstances(PACKAGES)})
            print(" ".join(cell.rjust(14) for cell in cells(fits[-1])), flush=True)
    return fits


HEAD = ("rows", "by", "seconds", "GB", "bytes/row", "rounds", "distance", "RMSE", "bits")


def cells(fit: Line) -> tuple[str, ...]:
    """One line of the table."""
    each = 1e9 * fit["GB"] / fit["rows"]
    rounds = f"{fit['rounds']}" + (", cut" if fit.get("is_cut") else "")
    return (
        f"{fit['rows']:,}", fit["way"], f"{fit['seconds']:.0f}", f"{fit['GB']:.2f}", f"{each:.0f}",
        rounds, f"{fit['distance']:.4f}", f"{fit['error']:.4f}", fit["bits"],
    )  # fmt: skip


def power(fits: list[Line]) -> str:
    """Say how the time of tpnn grows with the rows; nothing where sizes are missing."""
    times = {fit["rows"]: fit["seconds"] for fit in fits if fit["way"] == IN_FILES}
    if not times.keys() >= set(EXPONENT_ROWS):
        return ""
    found = exponent(list(EXPONENT_ROWS), [times[n_rows] for n_rows in EXPONENT_ROWS])
    return GROWTH.format(first=EXPONENT_ROWS[0], last=EXPONENT_ROWS[-1], power=found)


def page(fits: list[Line]) -> str:
    """Write the results as Markdown."""
    last = fits[-1]
    names, tools = {"xgboost": "XGBoost", "lightgbm": "LightGBM"}, last["versions"]
    rivals = [f"{name} {tools[package]}" for package, name in names.items() if package in tools]
    where = described(last, max(fit["load"] for fit in fits))
    made = "; ".join([where, *([", ".join(rivals)] if rivals else [])])
    first, *others = (paragraph(text) for text in (HEADING, power(fits), f"{made}.") if text)
    table = markdown([HEAD, *map(cells, fits)], padded=True)
    return "\n\n".join(["# Tables larger than memory", first, table, *others]) + "\n"


def store(new: list[Line]) -> None:
    """Keep results beside those of other sizes and ways, and write the page."""
    by_key = {(fit["rows"], WAYS.index(fit["way"])): fit for fit in [*read(LINES), *new]}
    fits = [by_key[key] for key in sorted(by_key)]
    pack(LINES, fits)
    PAGE.write_text(page(fits))


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", type=int, nargs="*", help="numbers of rows")
    parser.add_argument("--ways", nargs="*", choices=WAYS, help="default: all but in memory")
    parser.add_argument("--bags", type=int, help="bags of tpnn; by default as many as it chooses")
    parser.add_argument(
        "--rounds", type=int, default=1000, help="of boosting at most (%(default)s)"
    )
    parser.add_argument(
        "--seconds", type=float, default=2700, help="of boosting at most (%(default)s)"
    )
    parser.add_argument("--exponent", action="store_true", help="fit tpnn to 1, 2, 4, 8 million")
    parser.add_argument("--store", action="store_true", help="keep the results, write the page")
    parser.add_argument("--fit", nargs=2, metavar=("FOLDER", "WAY"), help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Measure, and store what is found."""
    given = arguments()
    boosting = Boosting(given.rounds, given.seconds)
    if given.fit:
        folder, way = given.fit
        is_rival = way in RIVALS
        fit = fit_rival(folder, way, boosting) if is_rival else fit_ours(folder, way, given.bags)
        print(json.dumps(fit))
        return
    options = ["--rounds", str(boosting.rounds), "--seconds", str(boosting.seconds)]
    options += ["--bags", str(given.bags)] if given.bags else []
    print(" ".join(name.rjust(14) for name in HEAD))
    fits: list[Line] = []
    for n_rows in given.rows:
        fits += fits_of(n_rows, given.ways or [IN_FILES, *RIVALS], options)
    for n_rows in EXPONENT_ROWS if given.exponent else ():
        fits += fits_of(n_rows, [IN_FILES], options)
    print(power(fits))
    if given.store:
        store(fits)


if __name__ == "__main__":
    main()
