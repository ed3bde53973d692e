"""``tpnn fit``: a model of a table, and its score on held-out rows."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import tpnn
from tpnn._utils.arrays import BoolArray
from tpnn._utils.files import is_stream
from tpnn.cli.csv_files import CsvFormat
from tpnn.cli.frames import column_of, features_of, read_training_table, targets_of
from tpnn.cli.output import check_output, counted
from tpnn.cli.predict import is_of_many_files
from tpnn.explain.metrics import measure
from tpnn.loss.objectives import OF_SURVIVAL, is_objective

MAX_CLASS_NUMBERS = 2  # numbers with at most so many distinct values are classes


class Rows(NamedTuple):
    """Features and targets of some rows, and their weights where there are any."""

    X: pd.DataFrame
    y: Any
    weights: Any

    def take(self, chosen: BoolArray) -> Rows:
        """Those rows that are chosen."""
        weights = None if self.weights is None else self.weights[chosen]
        return Rows(self.X[chosen], self.y[chosen], weights)


def run_fit(options: argparse.Namespace) -> None:
    """Fit a model to all rows, save it, and tell how a fit to some of them does on the others."""
    check_output(options.output, options.data)
    if is_of_many_files(options.data):
        raise ValueError(
            f"data: tpnn fit reads one file of this machine, found {options.data!r}. Fit many, "
            "or those of a store, in Python: TPNNRegressor().fit(path, target)."
        )
    rows = _read(options)
    task = _task(options, rows.y)
    held_out = _held_out(rows.y, task, options.held_out, options.seed)
    scores = _held_out_scores(rows, held_out, task, options)
    model = _fit(rows, task, options)
    assert model.provenance is not None
    targets = tuple(name for name in (options.target, options.event) if name is not None)
    known = {name: float(value) for name, value in scores.items() if np.isfinite(value)}
    origin = replace(model.provenance, targets=targets, scores={**model.provenance.scores, **known})
    replace(model, provenance=origin).save(options.output)
    result = {
        "task": task,
        "rows": len(rows.X),
        "components": len(model.components),
        "model": options.output,
        "held_out_rows": int(held_out.sum()),
        "scores": scores,
    }
    screen = sys.stderr if is_stream(options.output) else sys.stdout
    print(json.dumps(result) if options.json else _words(result), file=screen)


def _words(result: dict[str, Any]) -> str:
    sizes = f"{counted(result['rows'], 'row')}, {counted(result['components'], 'component')}"
    lines = [f"{result['task']}: {sizes}, saved to {result['model']}"]
    if result["scores"]:
        scores = ", ".join(f"{name} {value:.4g}" for name, value in result["scores"].items())
        rows = counted(result["held_out_rows"], "held-out row")
        lines.append(f"on {rows}, fitted to the others: {scores}")
    return "\n".join(lines)


def run_verify(options: argparse.Namespace) -> None:
    """Fit a model again to the rows that it comes from, and say whether all bits are the same."""
    model = tpnn.load(options.model).model_
    known = () if model.provenance is None else model.provenance.targets
    if options.target is None and known:
        options.target, options.event = known[0], (*known[1:], options.event)[0]
    if options.target is None:
        raise ValueError(
            f"--target: is needed, because {options.model} does not know what its target is "
            "called. Name the column."
        )
    listed = {} if model.provenance is None else model.provenance.settings
    categorical = listed.get("categorical")
    labels = categorical if isinstance(categorical, list) else []
    rows = _rows(read_training_table(options.data, CsvFormat.of(options), labels), options)
    answer = tpnn.verify(model, rows.X, rows.y.to_numpy(), sample_weight=rows.weights)
    if not answer.holds:
        raise ValueError(f"{options.model}: {answer}")
    print(f"{options.model}: {answer}")


def _read(options: argparse.Namespace) -> Rows:
    """Read the rows that have a target."""
    table = read_training_table(options.data, CsvFormat.of(options), options.categorical)
    asked = {"--offset": options.offset, "--exposure": options.exposure}
    named = [("--categorical", c) for c in options.categorical]
    named += [("--shapes", name) for name, _ in options.shapes]
    for option, name in [*asked.items(), *named]:
        if name is not None:
            column_of(table, name, option)
    return _rows(table, options)


def _rows(table: pd.DataFrame, options: argparse.Namespace) -> Rows:
    """Features, targets and weights of the rows that have a target."""
    y = targets_of(table, options)
    present = pd.DataFrame(y).notna().all(axis=1)
    if not present.all():
        rows = counted(int((~present).sum()), "row")
        print(f"leaving out {rows} without a target", file=sys.stderr)
        table, y = table[present], y[present]
    weights = options.weights and column_of(table, options.weights, "--weights").to_numpy()
    X = features_of(table, options).drop(columns=options.weights or [])
    return Rows(X, y, weights)


def _task(options: argparse.Namespace, y: Any) -> str:
    """Task that is asked for, or that the options and the target say."""
    task: str = options.task
    if task == "auto":
        task = _guessed_task(options, y)
    needed = [("--objective", options.objective, _task_of(options.objective)),
              ("--exposure", options.exposure, "regression")]  # fmt: skip
    for option, value, its_task in needed:
        if value is not None and task != its_task:
            raise ValueError(
                f"{option}: is for {its_task}, and this is a task of {task}. Leave it out, or pass "
                f"--task {its_task}."
            )
    if task == "survival" and options.event is None:
        raise ValueError("--event: survival needs it. Name the column of events, or change --task.")
    if task != "survival" and options.event is not None:
        raise ValueError(
            f"--event: is for survival, and this is a task of {task}. Leave it out, or change "
            "--task."
        )
    return task


def _task_of(objective: Any) -> str:
    """Task that a loss is for."""
    return "survival" if is_objective(objective, OF_SURVIVAL) else "regression"


def _guessed_task(options: argparse.Namespace, y: Any) -> str:
    if options.event is not None:
        return "survival"
    if options.objective is not None:
        return _task_of(options.objective)
    is_number = pd.api.types.is_numeric_dtype(y) and not pd.api.types.is_bool_dtype(y)
    return "regression" if is_number and y.nunique() > MAX_CLASS_NUMBERS else "classification"


def _held_out(y: Any, task: str, share: float, seed: int) -> BoolArray:
    """Rows to hold out, drawn from every class, and from events and censored rows, alike."""
    strata = np.zeros(len(y)) if task == "regression" else pd.DataFrame(y).iloc[:, -1].to_numpy()
    rng, held_out = np.random.default_rng(seed), np.zeros(len(y), bool)
    for code in range(1 + int((codes := pd.factorize(strata)[0]).max(initial=0))):
        rows = np.flatnonzero(codes == code)
        held_out[rng.permutation(rows)[: int(share * len(rows))]] = True
    return held_out


def _held_out_scores(
    rows: Rows, held_out: BoolArray, task: str, options: argparse.Namespace
) -> dict[str, float]:
    """Scores on held-out rows of a fit to the others."""
    if not held_out.any():
        return {}
    model = _fit(rows.take(~held_out), task, options)
    X, y, _ = rows.take(held_out)
    with warnings.catch_warnings():  # levels of one row alone may well be held out
        warnings.filterwarnings("ignore", "X: levels or missing values that fit has not seen")
        scores = measure(model, X, y).scores
    return {score.name: score.value for score in scores}


def _fit(rows: Rows, task: str, options: argparse.Namespace) -> tpnn.AnovaModel:
    kinds: dict[str, Any] = {
        "regression": tpnn.TPNNRegressor,
        "classification": tpnn.TPNNClassifier,
        "survival": tpnn.TPNNSurvival,
    }
    # which not every estimator has
    further = {"objective": options.objective, "exposure": options.exposure}
    estimator = kinds[task](
        order=options.order,
        max_components=options.max_components,
        shapes=dict(options.shapes) or None,
        categorical=options.categorical or "auto",
        offset=options.offset,
        n_bags=options.bags,
        random_state=options.seed,
        verbose=1,
        **{name: value for name, value in further.items() if value is not None},
    )
    estimator.fit(rows.X, rows.y.to_numpy(), rows.weights)
    model: tpnn.AnovaModel = estimator.model_
    return model
