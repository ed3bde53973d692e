"""Runner: the cells of a spec that have no line yet, several at a time, with the time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import torch
from tqdm import tqdm

from benchmarks.common.cells import Cell, Line
from benchmarks.common.pool import ignore_warnings, in_processes
from benchmarks.paper.cells import run_cell, stability_line
from benchmarks.paper.results import Results


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


def _lines(work: Callable[[Cell], Line], cells: Sequence[Cell], jobs: int) -> Iterable[Line]:
    if jobs == 1:
        return map(work, cells)
    return (future.result() for _, future in in_processes(work, cells, jobs))


def _work(cell: Cell, results: Results, quick: bool, until: float) -> Line:
    if time.time() > until:
        return {**cell._asdict(), "skipped": "no time left"}
    ignore_warnings()
    line = run_cell(cell, results, quick)
    torch.cuda.empty_cache()  # other processes share the card
    return line


def _summary(line: Line) -> str:
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
