"""Runner: the cells of a spec that have no line yet, several at a time, with the time left."""

from __future__ import annotations

import multiprocessing
import sys
import time
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from typing import Any

import torch
from tqdm import tqdm

from experiments.cells import Cell, Results, run_cell, stability_line

OTHERS = "interpret|xgboost|pygam|optuna|sklearn|joblib|numpy|scipy"  # not ours to warn about


def run(
    cells: Sequence[Cell],
    results: Results,
    jobs: int = 1,
    quick: bool = False,
    deadline: float = float("inf"),
) -> int:
    """Run what is missing; return the number of cells that failed.

    Parameters
    ----------
    cells : sequence of Cell
        What to run, in order.
    results : Results
        Where finished cells are kept; a cell that is there is not run again.
    jobs : int
        Processes.
    quick : bool
        Few rows and steps.
    deadline : float
        Seconds after which no cell is begun.
    """
    done = results.finished()
    missing = [cell for cell in dict.fromkeys(cells) if cell not in done]
    work = partial(_work, results=results, quick=quick, until=time.time() + deadline)
    failed = 0
    bar = tqdm(total=len(missing), unit="cell", smoothing=0.05, file=sys.stderr)
    for line in _lines(work, missing, jobs):
        failed += "failed" in line
        bar.set_postfix_str(_summary(line))
        bar.update()
        if "failed" in line:
            bar.write(_summary(line), file=sys.stderr)
    bar.close()
    return failed


def _lines(work: Any, cells: Sequence[Cell], jobs: int) -> Iterable[dict[str, Any]]:
    if jobs == 1:
        yield from map(work, cells)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        for future in as_completed([pool.submit(work, cell) for cell in cells]):
            yield future.result()


def _work(cell: Cell, results: Results, quick: bool, until: float) -> dict[str, Any]:
    if time.time() > until:
        return {**cell._asdict(), "skipped": "no time left"}
    warnings.filterwarnings("ignore", module=OTHERS)
    line = run_cell(cell, results, quick)
    torch.cuda.empty_cache()  # other processes share the card
    return line


def _summary(line: dict[str, Any]) -> str:
    cell = "{data} {model} split {split}".format(**line)
    if "failed" in line:
        return f"{cell}: {line['failed'][:200]}"
    return cell


def add_stability(cells: Iterable[Cell], results: Results, fewest: int = 2) -> None:
    """Add a line of stability scores for every data set and model that has new components."""
    known = {
        (line["data"], line["model"]): line["n_fits"]
        for line in results.read()
        if "stability" in line
    }
    splits: dict[tuple[str, str], list[int]] = {}
    for cell in dict.fromkeys(cells):
        if results.components(cell).exists():
            splits.setdefault((cell.data, cell.model), []).append(cell.split)
    for (data, model), found in splits.items():
        if len(found) >= fewest and len(found) > known.get((data, model), 0):
            results.append(stability_line(data, model, found, results))
