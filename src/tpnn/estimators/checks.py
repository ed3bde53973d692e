"""Checks of what is passed to ``fit`` and ``predict`` besides the table itself.

Errors name the argument and say the rule, what was found and what to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray
from sklearn.utils import column_or_1d

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.loss.row_values import checked_numbers, refuse_masked
from tpnn.table.columns import StoredColumns, array_of, is_missing

LARGEST_WEIGHT = 1e100  # sums of larger weights could overflow
TABLE_MEMORY_SHARE = 0.5  # of the free memory, for a fit to a table that is read as a whole
CGROUPS = (  # folder, limit and usage of a container's memory: version 2, version 1
    ("/sys/fs/cgroup", "memory.max", "memory.current"),
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
)


def checked_target(y: Any, dtype: Any) -> NDArray[Any]:
    """Targets as a finite array of shape (n_rows,), converted if a dtype is given."""
    if y is None:
        raise ValueError(
            "y: targets are needed, found None. This estimator requires y to be passed, but the "
            "target y is None: pass one value per row."
        )
    target = column_or_1d(array_of(y), warn=True)
    if target.dtype.kind in "mM" or (target.dtype.kind == "O" and any(map(is_missing, target))):
        raise ValueError(
            f"y: targets must be numbers or labels, found dates, None or NaN ({target.dtype}). "
            "Drop those rows or convert them."
        )
    if np.iscomplexobj(target):
        raise ValueError(
            "y: targets must be real, found complex numbers. Complex data not supported."
        )
    try:
        target = target if dtype is None else np.asarray(target, dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"y: targets must be numbers, found {target.dtype} ({error}). "
            "Use TPNNClassifier for labels."
        ) from error
    if target.dtype.kind == "f" and not np.isfinite(target).all():
        bad = int((~np.isfinite(target)).sum())
        raise ValueError(
            f"y: every target must be finite, found NaN or inf in {bad} of {len(target)} rows. "
            "Drop those rows."
        )
    return target


def checked_targets(y: Any) -> tuple[FloatArray, tuple[str, ...]]:
    """One or several targets as floats (n_rows, T), and their names."""
    refuse_masked("y", y)
    array = array_of(y)
    if array.ndim != 2 or array.shape[1] == 1:
        return checked_target(y, np.float64)[:, None], ("y",)
    targets = [checked_target(column, np.float64) for column in array.T]
    names = getattr(y, "columns", [f"y{number}" for number in range(len(targets))])
    return np.column_stack(targets), tuple(map(str, names))


def check_range(target: FloatArray, objective: Any) -> None:
    """Refuse targets outside the range of an objective."""
    if not objective.accepts(target):
        raise ValueError(
            f"y: the objective {objective.name!r} needs {objective.rule}, found values from "
            f"{target.min()} to {target.max()}. Change the objective or the targets."
        )


def check_rows(n_rows: int, n_targets: int) -> None:
    """Refuse a table that is too short or differs in length from its targets."""
    if n_rows != n_targets:
        raise ValueError(
            f"y: one value per row of X is needed, found {n_targets} for {n_rows} rows "
            "(inconsistent numbers of samples). Pass X and y of the same length."
        )
    if n_rows < 2:
        raise ValueError(
            f"X: at least 2 rows are needed, found {n_rows} sample(s) "
            f"(n_samples={n_rows}). Pass more rows."
        )


def checked_weights(sample_weight: Any, n_rows: int) -> FloatArray | None:
    """Weights as an array of shape (n_rows,), or None if all rows count the same."""
    if sample_weight is None:
        return None
    weights = checked_numbers("sample_weight", sample_weight)
    if weights.ndim == 0:
        weights = np.full(n_rows, float(weights))
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight: one weight per row is needed, found shape {weights.shape} for "
            f"{n_rows} rows. Sample weights must be 1D array or scalar: pass {n_rows} values."
        )
    if not np.isfinite(weights).all() or (weights < 0).any() or not (n_rows and weights.any()):
        raise ValueError(
            "sample_weight: weights must be finite, none negative and not all zero, found values "
            f"from {weights.min(initial=0)} to {weights.max(initial=0)}. Correct them."
        )
    return weights / weights.max() if weights.max() > LARGEST_WEIGHT else weights


def checked_groups(groups: Any, n_rows: int, weights: FloatArray | None) -> IntArray | None:
    """Return the number of each row's group, (n_rows,), by the names in order; None without."""
    if groups is None:
        return None
    refuse_masked("groups", groups)
    names = array_of(groups)
    if names.shape != (n_rows,):
        raise ValueError(
            f"groups: one group per row is needed, found shape {names.shape} for {n_rows} rows. "
            f"Pass {n_rows} names or numbers."
        )
    n_missing = sum(map(is_missing, names))
    if n_missing:
        raise ValueError(
            f"groups: every row needs a group, found None or NaN in {n_missing} of {n_rows} rows. "
            "Drop those rows, or give each a group of its own."
        )
    if names.dtype.kind == "O" and not _are_texts(groups, names):
        names = np.fromiter(map(repr, names), object, n_rows)
    numbers: IntArray = np.unique(names, return_inverse=True)[1]
    counted = numbers if weights is None else numbers[weights > 0]
    if len(np.unique(counted)) < 2:
        raise ValueError(
            "groups: at least two groups with rows that count are needed, found one: every bag "
            "holds out whole groups. Pass more rows, or leave groups out."
        )
    return numbers


def _are_texts(groups: Any, names: NDArray[Any]) -> bool:
    """Whether groups are strings in a list or of polars, which are sorted as they are."""
    is_listed = isinstance(groups, list | tuple) or str(getattr(groups, "dtype", "")) == "String"
    return is_listed and all(isinstance(name, str) for name in names)


def check_one_offset(parameters: Mapping[str, Any], offset: Any) -> None:
    """Refuse more than one of the parameters offset and exposure and fit's argument offset."""
    columns = [name for name in ("offset", "exposure") if parameters.get(name) is not None]
    given = [f"the parameter {name}={parameters[name]!r}" for name in columns]
    if offset is not None:
        given.append("offsets passed to fit")
    if len(given) > 1:
        raise ValueError(
            f"offset: only one offset is possible, found {' and '.join(given)}. Add them up in one "
            "column, the exposure by its logarithm, and pass offset='that column' alone."
        )


def available_memory() -> float:
    """Bytes that this process may still use: of the machine, or of its container if that is less.

    A limit that is absent, unreadable or "max" leaves the machine's memory as it is.
    """
    machine = float(psutil.virtual_memory().available)
    return max(0.0, min([machine, *(_container_memory(*cgroup) for cgroup in CGROUPS)]))


def memory_for_tables() -> float:
    """Bytes up to which a fit to a table in files reads it as a whole."""
    return TABLE_MEMORY_SHARE * available_memory()


def refuse_stored(X: Any) -> None:
    """Refuse a table larger than memory for a loss in which every row depends on others."""
    if isinstance(X, StoredColumns):
        raise ValueError(
            f"X: a survival model needs all rows in memory, because the loss of each depends on "
            f"the others at risk, found {X.shape[0]:,} rows of {X.shape[1]} columns in files and "
            f"{available_memory() / 1e9:.1f} GB free. Pass fewer rows or columns, or fit whether "
            "the event happens within a fixed time with TPNNClassifier."
        )


def _container_memory(folder: str, limit: str, usage: str) -> float:
    """Bytes below the limit of a control group, file caches counted as free; inf without limit."""
    try:
        size, used = (float(Path(folder, name).read_text()) for name in (limit, usage))
    except (OSError, ValueError):  # "max" is no number
        return np.inf
    return size - used + _cached_bytes(Path(folder, "memory.stat"))


def _cached_bytes(statistics: Path) -> float:
    """Bytes of files that the kernel drops when memory is short, 0 where it does not say."""
    try:
        found = dict(line.split() for line in statistics.read_text().splitlines())
        names = ("inactive_file", "active_file")  # "total" in version 1 is with all subgroups
        return float(sum(int(found.get(f"total_{name}", found.get(name, 0))) for name in names))
    except (OSError, ValueError):
        return 0.0


def seed_from(random_state: Any) -> int:
    """Seed of a fit: the given number, or one drawn from the generator or from fresh entropy."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**32))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**32))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**32, dtype=np.uint64))
    return int(random_state)
