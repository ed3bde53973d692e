"""Recourse beside DiCE: ``python -m benchmarks.peers.recourse``, with ``dice-ml`` installed.

For 50 test rows that a model puts into the second class, every method looks for a change that puts
them into the first. What has a line is not measured again. All methods see the same model behind
``predict_proba`` and the same ranges, those of the training rows. DiCE's methods run at their
defaults and return four changes, of which the cheapest that reaches the target counts.

The cost is ours for all: the sum of changes in units of the distance from the lower to the upper
tenth of the training rows; another level costs 1. Data sets are found in the folder ``TPNN_DATA``.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import time
import warnings
from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.common.cells import Line, complete
from benchmarks.common.markdown import markdown
from tpnn import TPNNClassifier, datasets

DATA = ("fico_heloc", "churn")
N_ROWS, TRAINING_SHARE, MOST_TRAINING_ROWS = 50, 0.8, 5000
SETTINGS: dict[str, Any] = {"n_bags": 4, "random_state": 0, "verbose": 0}
TARGET, MAX_CHANGES = 0.5, 2
DICE_METHODS, N_CHANGES = ("random", "genetic", "kdtree"), 4
OUTCOME = "outcome"


Change = Callable[[pd.DataFrame], pd.DataFrame]  # a row -> rows that might replace it


class Case(NamedTuple):
    """A fitted model, its training rows with their classes, and the rows to change."""

    model: Any
    X: pd.DataFrame
    y: Any
    rows: pd.DataFrame

    @property
    def numbers(self) -> list[str]:
        """Features that are numbers."""
        return [str(name) for name in self.X if pd.api.types.is_numeric_dtype(self.X[name])]

    @property
    def ranges(self) -> dict[str, Any]:
        """Values of the training rows, from the smallest to the largest, or all levels."""
        return {
            str(name): (column.min(), column.max()) if name in self.numbers else sorted(set(column))
            for name, column in self.X.items()
        }


@cache
def case_of(name: str) -> Case:
    """Fit a data set; rows without missing values, which DiCE does not take."""
    X, y = datasets.load(name)
    complete = X.notna().all(axis=1).to_numpy()
    X, classes = X[complete].reset_index(drop=True), y[complete].to_numpy()
    order = np.random.default_rng(0).permutation(len(X))
    n_training = int(TRAINING_SHARE * len(X))
    training, test = order[:n_training][:MOST_TRAINING_ROWS], order[n_training:]
    model = TPNNClassifier(**SETTINGS).fit(X.iloc[training], classes[training])
    second = model.predict_proba(X.iloc[test])[:, 1] > TARGET
    rows = X.iloc[test[second][:N_ROWS]]
    return Case(model, X.iloc[training], classes[training], rows)


def ours(case: Case) -> Change:
    """Return the method that asks the model itself."""

    def change(row: pd.DataFrame) -> pd.DataFrame:
        found = case.model.recourse(row, TARGET, ranges=case.ranges, max_changes=MAX_CHANGES)
        return pd.DataFrame([found.row] if found.is_possible else [], columns=list(row))

    return change


def dice(case: Case, method: str) -> Change:
    """Return one of DiCE's methods."""
    import dice_ml

    frame = case.X.assign(**{OUTCOME: case.y})
    data = dice_ml.Data(dataframe=frame, continuous_features=case.numbers, outcome_name=OUTCOME)
    model = dice_ml.Model(model=case.model, backend="sklearn", model_type="classifier")
    explainer = dice_ml.Dice(data, model, method=method)

    def change(row: pd.DataFrame) -> pd.DataFrame:
        found = explainer.generate_counterfactuals(
            row.reset_index(drop=True), total_CFs=N_CHANGES, desired_class="opposite"
        ).cf_examples_list[0]
        kept: pd.DataFrame | None = found.final_cfs_df
        columns = list(row)
        if kept is None:
            return pd.DataFrame([], columns=columns)
        return kept[columns].astype({name: row[name].dtype for name in columns}, errors="ignore")

    return change


def measure(case: Case, change: Change, row: pd.DataFrame) -> Line:
    """Change one row, and judge the cheapest change that reaches the target."""
    began = time.process_time()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            found = change(row)
    except Exception as error:  # a method that finds nothing may raise
        return {"seconds": time.process_time() - began, "reached": False, "error": str(error)[:200]}
    line: Line = {"seconds": time.process_time() - began, "reached": False}
    if len(found):
        reached = case.model.predict_proba(found)[:, 1] <= TARGET
        costs = np.where(reached, cost_of(case, row, found), np.inf)
        best = found.iloc[int(costs.argmin())]
        if reached.any():
            line |= {"reached": True, "cost": float(costs.min())}
            names = case.model.model_.feature_names
            moved = [name for name in names if best[name] != row[name].iloc[0]]
            line |= {"changed": len(moved)}
            line |= {"in_range": all(_is_inside(best[n], case.ranges[n]) for n in moved)}
    return line


def _is_inside(value: Any, given: Any) -> bool:
    return bool(given[0] <= value <= given[1]) if isinstance(given, tuple) else value in given


def cost_of(case: Case, row: pd.DataFrame, found: pd.DataFrame) -> Any:
    """Cost of each change, (n_changes,)."""
    encoder, total = case.model.model_.encoder, np.zeros(len(found))
    for name, axis in zip(encoder.feature_names, encoder.axes[1], strict=True):
        new, old = found[name], row[name].iloc[0]
        if name in case.numbers:
            total += np.abs(new.to_numpy(np.float64) - float(old)) / axis.tenths_range
        else:
            total += (new != old).to_numpy(np.float64)
    return total


def as_table(lines: list[Line]) -> str:
    """One line for each data set and method; costs are medians over rows that both ways reach."""
    head = ["data", "method", "rows", "reached, %", "median cost", "cost beside ours",
            "features changed", "in range, %", "CPU seconds a row"]  # fmt: skip
    rows = [head]
    for name in DATA:
        own = {line["row"]: line.get("cost") for line in lines
               if line["data"] == name and line["model"] == "ours"}  # fmt: skip
        for method in ("ours", *DICE_METHODS):
            found = [line for line in lines if (line["data"], line["model"]) == (name, method)]
            reached = [line for line in found if line["reached"]]
            if not found:
                continue
            shares = [line["cost"] / own[line["row"]] for line in reached if own[line["row"]]]
            figures = [
                f"{np.median([line['cost'] for line in reached]):.2f}",
                f"{np.median(shares):.1f}" if shares else "",
                f"{np.mean([line['changed'] for line in reached]):.1f}",
                f"{100 * np.mean([line['in_range'] for line in reached]):.0f}",
            ] if reached else [""] * 4  # fmt: skip
            seconds = np.mean([line["seconds"] for line in found])
            rows.append([name, method, str(len(found)),
                         f"{100 * len(reached) / len(found):.0f}", *figures,
                         f"{seconds:.2f}"])  # fmt: skip
    return markdown(rows)


@cache
def changes(name: str, method: str) -> Change:
    """Return a method that changes rows of a data set."""
    case = case_of(name)
    return ours(case) if method == "ours" else dice(case, method)


def main() -> None:
    """Measure what has no line yet, and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers.recourse", description=__doc__
    )
    parser.add_argument("--data", nargs="+", default=DATA)
    parser.add_argument("--methods", nargs="*", default=("ours", *DICE_METHODS))
    parser.add_argument("--rows", type=int, default=N_ROWS, help="of each data set, 50 by default")
    given = parser.parse_args()

    def measured(name: str, method: str, number: int) -> Line:
        return measure(case_of(name), changes(name, method), case_of(name).rows.iloc[[number]])

    cells = product(given.data, given.methods, range(given.rows))
    print(as_table(complete("recourse", ("data", "model", "row"), cells, measured)))


if __name__ == "__main__":
    main()
