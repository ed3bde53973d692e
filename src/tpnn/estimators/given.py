"""What a fit is given: the user's table as it is read, its targets, the settings and the limits."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any, NamedTuple

from tpnn._utils.threads import threads_of
from tpnn.anova.components import resolve_feature
from tpnn.estimators.checks import check_rows
from tpnn.estimators.settings import Settings
from tpnn.loss.offset import column_offset
from tpnn.solvers.problem.scaling import Targets
from tpnn.solvers.problem.stopping import Limits
from tpnn.table.frame import Table


class Given(NamedTuple):
    """A table that was read, its targets, the settings of the fit and its limits."""

    table: Table
    targets: Targets
    settings: Settings
    limits: Limits


def prepare(X: Any, targets: Targets, settings: Settings) -> Given:
    """Start the clock and read the table; a column that is the offset joins the targets."""
    limits, table = start_clock(settings), read(X, targets, settings)
    if table.offset_column is None:
        return Given(table, targets, settings, limits)
    known = column_offset(table, table.offset_column)
    by_name = settings.by_name(table.column_names)
    return Given(table, replace(targets, offset=known), by_name, limits)


def start_clock(settings: Settings) -> Limits:
    """Limits of a fit that starts now."""
    deadline = time.monotonic() + (settings.time_limit or math.inf)
    return Limits(deadline, threads_of(settings.n_jobs), settings.device)


def read(X: Any, targets: Targets, settings: Settings) -> Table:
    """Read the user's table, one row for each target; a column of offsets is set aside."""
    table = Table(X)
    check_rows(table.n_rows, len(targets.y))
    argument = "offset" if settings.exposure is None else "exposure"
    column = settings.offset if settings.exposure is None else settings.exposure
    if column is None:
        return table
    place = resolve_feature(column, table.column_names, argument)
    if table.n_features == 1:
        raise ValueError(
            f"{argument}: a feature is needed besides it, found {column!r} as the only column of "
            "X. Pass more columns."
        )
    return table.set_aside(place, argument == "exposure")
