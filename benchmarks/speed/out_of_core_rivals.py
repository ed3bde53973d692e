"""Boosted trees that read the same Parquet files in parts, each in its own way.

XGBoost's ``hist`` keeps quantised pages of the table in files (its external memory); LightGBM takes
rows from a ``Sequence`` and keeps its own codes of them, one byte a value, in memory.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

VALIDATION_SHARE, MOST_VALIDATION_ROWS = 0.1, 500_000  # of the rows, the last ones
N_BINS, LEARNING_RATE, PATIENCE = 256, 0.1, 50

Predict = Callable[[np.ndarray], Any]


class Boosting(NamedTuple):
    """Largest number of rounds, and seconds after which no further round begins."""

    rounds: int
    seconds: float


class Boosted(NamedTuple):
    """What predicts rows (n, n_columns), the rounds, and whether the time ended the boosting."""

    predict: Predict
    rounds: int
    is_cut: bool


class Part(NamedTuple):
    """One row group: its file, its number there, and its rows among all."""

    file: Path
    number: int
    start: int
    stop: int


@dataclass(frozen=True)
class Parts:
    """Row groups of all files of a folder, the columns first and the target ``y`` last."""

    folder: Path  # folder of Parquet files

    @cached_property
    def all(self) -> list[Part]:
        """Return the row groups in order."""
        import pyarrow.parquet as pq

        found: list[Part] = []
        for file in sorted(self.folder.glob("*.parquet")):
            metadata = pq.ParquetFile(file).metadata
            for number in range(metadata.num_row_groups):
                start = found[-1].stop if found else 0
                n_rows = metadata.row_group(number).num_rows
                found.append(Part(file, number, start, start + n_rows))
        return found

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.all[-1].stop

    def divided(self) -> tuple[list[Part], list[Part]]:
        """Return the row groups to train on, and the last ones, which are held out."""
        n_held_out = min(VALIDATION_SHARE * self.n_rows, MOST_VALIDATION_ROWS)
        training = [part for part in self.all[:-1] if part.stop <= self.n_rows - n_held_out]
        return training, self.all[len(training) :]


def read_group(part: Part) -> tuple[np.ndarray, np.ndarray]:
    """Columns (n, n_columns) of a row group in single precision, and its targets (n,)."""
    import pyarrow.parquet as pq

    table = pq.ParquetFile(part.file).read_row_group(part.number)
    names = [name for name in table.column_names if name != "y"]
    X = np.empty((len(table), len(names)), np.float32)
    for place, name in enumerate(names):
        X[:, place] = table[name].to_numpy()
    return X, table["y"].to_numpy()


def targets(parts: list[Part]) -> np.ndarray:
    """Targets of some row groups."""
    import pyarrow.parquet as pq

    columns = [pq.ParquetFile(p.file).read_row_group(p.number, columns=["y"])["y"] for p in parts]
    return np.concatenate([column.to_numpy() for column in columns])


def xgboost(folder: Path, boosting: Boosting) -> Boosted:
    """Boost with external memory; the pages of the table are files beside its folder."""
    import xgboost as xgb

    class Pages(xgb.DataIter):
        """Row groups, one after the other."""

        def __init__(self, parts: list[Part], name: str) -> None:
            super().__init__(cache_prefix=f"{folder}-{name}", on_host=False)
            self.parts = parts
            self.remaining: Iterator[Part] = iter(parts)

        def next(self, input_data: Callable[..., Any]) -> bool:
            part = next(self.remaining, None)
            if part is None:
                return False
            X, y = read_group(part)
            input_data(data=X, label=y)
            return True

        def reset(self) -> None:
            self.remaining = iter(self.parts)

    class Deadline(xgb.callback.TrainingCallback):
        """Stops when the time is up."""

        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            return time.monotonic() > deadline

    deadline = time.monotonic() + boosting.seconds
    training, held_out = Parts(folder).divided()
    rows = xgb.ExtMemQuantileDMatrix(Pages(training, "training"), max_bin=N_BINS)
    judge = xgb.ExtMemQuantileDMatrix(Pages(held_out, "held_out"), max_bin=N_BINS, ref=rows)
    parameters = {"tree_method": "hist", "max_bin": N_BINS, "eta": LEARNING_RATE, "seed": 0}
    model = xgb.train(
        parameters, rows, boosting.rounds, evals=[(judge, "held_out")], verbose_eval=False,
        early_stopping_rounds=PATIENCE, callbacks=[Deadline()],
    )  # fmt: skip
    kept = (0, model.best_iteration + 1)
    return Boosted(
        predict=lambda X: model.inplace_predict(X, iteration_range=kept),
        rounds=model.num_boosted_rounds(),
        is_cut=time.monotonic() > deadline or model.num_boosted_rounds() >= boosting.rounds,
    )


def lightgbm(folder: Path, boosting: Boosting) -> Boosted:
    """Boost on rows that a sequence reads."""
    import lightgbm as lgb

    class Rows(lgb.Sequence):
        """Rows of some row groups; the one read last is kept."""

        def __init__(self, parts: list[Part]) -> None:
            self.parts, self.batch_size = parts, max(p.stop - p.start for p in parts)
            self.starts = np.array([part.start - parts[0].start for part in parts])
            self.kept: tuple[int, np.ndarray] = (-1, np.empty((0, 0)))

        def __len__(self) -> int:
            return self.parts[-1].stop - self.parts[0].start

        def __getitem__(self, wanted: Any) -> Any:
            if not isinstance(wanted, slice):
                return self._within(wanted, wanted + 1)[0]
            start, stop, _ = wanted.indices(len(self))
            pieces = []
            while start < stop:
                pieces.append(self._within(start, stop))
                start += len(pieces[-1])
            return np.concatenate(pieces)

        def _within(self, start: int, stop: int) -> np.ndarray:
            """Rows up to the end of the row group of the first."""
            number = int(np.searchsorted(self.starts, start, "right")) - 1
            if self.kept[0] != number:
                self.kept = number, read_group(self.parts[number])[0].astype(np.float64)
            first = self.starts[number]
            return self.kept[1][start - first : stop - first]

    def stop_in_time(state: Any) -> None:
        if time.monotonic() > deadline:
            raise lgb.callback.EarlyStopException(state.iteration, state.evaluation_result_list)

    deadline = time.monotonic() + boosting.seconds
    training, held_out = Parts(folder).divided()
    parameters = {
        "objective": "regression", "learning_rate": LEARNING_RATE, "max_bin": N_BINS - 1,
        "verbosity": -1, "seed": 0, "num_threads": os.cpu_count(),
    }  # fmt: skip
    rows = lgb.Dataset(Rows(training), targets(training), params=parameters)
    judge = lgb.Dataset(Rows(held_out), targets(held_out), reference=rows)
    ended = lgb.early_stopping(PATIENCE, verbose=False)
    model = lgb.train(parameters, rows, boosting.rounds, [judge], callbacks=[ended, stop_in_time])
    n_rounds = model.current_iteration()
    is_cut = time.monotonic() > deadline or n_rounds >= boosting.rounds
    return Boosted(lambda X: model.predict(X), n_rounds, is_cut)


RIVALS: dict[str, Callable[[Path, Boosting], Boosted]] = {
    "XGBoost": xgboost,
    "LightGBM": lightgbm,
}
