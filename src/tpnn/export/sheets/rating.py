"""RatingTables: a base rate and tables of factors, as a tariff is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn._utils.rules import Rule, check_parameters, one_of
from tpnn.anova.components import Component
from tpnn.export.sheets.bins import BandedModel, banded, refuse_unless, summed
from tpnn.export.sheets.tidy import refuse_remainder
from tpnn.loss.objectives import LOG_LOSS, POISSON, Objective
from tpnn.loss.row_values import checked_numbers, refuse_masked
from tpnn.model.model import AnovaModel, offset_of
from tpnn.table.columns import array_of, require_pandas
from tpnn.table.table import Table

if TYPE_CHECKING:
    import pandas as pd

RULES = {"base": Rule('"mode" or "mean"', one_of("mode", "mean"), "mode")}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RatingTables:
    """A base rate times one factor for each component.

    Parameters
    ----------
    base : float
        Prediction, or odds for a logit link, of a row whose factors are all 1, without offset.
    frames : dict of str to DataFrame
        For each component, by name, a line for every cell: its bands, ``relativity``, ``effect``
        (the logarithm of the factor before the base was chosen), ``mass`` and, where rows were
        given, ``n_rows``, ``actual``, ``expected`` and ``actual_over_expected``.
    losses : DataFrame
        For each component, what its bands lose: ``n_cells``, the ``variance`` of its effect under
        the training masses and ``variance_lost`` of it; where rows were given, ``deviance_lost``:
        by how much the mean deviance of the rows rises if this component alone is put on bands.
        The last line, where rows were given, is that of all components together.
    banded : BandedModel
        The bands, and the components on them.
    """

    base: float
    frames: Mapping[str, pd.DataFrame]
    losses: pd.DataFrame
    banded: BandedModel

    def predict(self, X: Any, offset: Any = None) -> FloatArray:
        """Predict by base times relativities, (n_rows,).

        Like ``AnovaModel.predict``, these are means; of two classes, probabilities of the second,
        of which base times relativities are the odds.
        """
        model = self.banded.model
        table = model.encoder.read(X)
        return model.link.inverse(_raw(self.banded, table, offset_of(model, table, offset)))

    @property
    def levels(self) -> pd.DataFrame:
        """Every level of every feature, and its band, whose name lists the first few only."""
        return self.banded.levels()

    def __repr__(self) -> str:
        return f"RatingTables(base {self.base:.6g}, {len(self.frames)} tables)"

    def _repr_html_(self) -> str:
        """Show the base, the losses, all tables and all levels in a notebook."""
        blocks = [f"<p>{escape(repr(self))}</p>", self.losses.to_html(index=False)]
        for name, frame in ({**self.frames, "Levels": self.levels}).items():
            blocks += [f"<h4>{escape(name)}</h4>", frame.to_html(index=False)]
        return "".join(blocks)


def rating_tables(
    model: AnovaModel,
    X: Any = None,
    y: Any = None,
    max_bands: int = 8,
    base: str = "mode",
    offset: Any = None,
) -> RatingTables:
    """Write a model with a log or logit link as a base rate and tables of relativities.

    Bands of a feature serve all its components. They are found by dynamic programming: no other
    bands of neighbouring values, at most ``max_bands``, lose less variance under the training
    masses. Levels are neighbours in the order of their effects. Missing values, and levels that fit
    has not seen, have bands of their own, which do not count.

    Parameters
    ----------
    model : AnovaModel
        The model.
    X, y : table and targets, optional
        Rows on which the loss and actual over expected are measured, in the deviance of the link:
        of Bernoulli for a logit, else of Poisson, which is proper for every mean.
    max_bands : int, default=8
        Largest number of bands of a feature.
    base : {"mode", "mean"}, default="mode"
        Where relativities are 1: in the cell of every table with most mass, or on average over the
        logarithms.
    offset : array of shape (n_rows,), optional
        Known part of the raw score of each row of X.

    Returns
    -------
    RatingTables
    """
    check_parameters({"base": base}, RULES)
    what = "rating tables are for models of rates, risks or two classes"
    refuse_unless(("rates", "survival", "classes"), model, what)
    refuse_remainder(model, "a rating table")
    if (X is None) != (y is None):
        raise ValueError(
            "y: rows are passed as X and y together, and only one of them was passed. Pass both, "
            "or neither."
        )
    grouped = banded(model, max_bands)
    shifts = {s: _base_effect(grouped, s, base) for s in grouped.tables}
    rows = None if X is None else _rows(grouped, X, y, offset)
    return RatingTables(
        base=float(np.exp(model.intercepts[0] + sum(shifts.values()))),
        frames={name: _frame(grouped, s, shifts[s], rows) for s, name in grouped.names().items()},
        losses=_losses(grouped, rows),
        banded=grouped,
    )


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows that a tariff is compared with."""

    table: Table
    codes: Mapping[int, Any]  # band of every row in each feature
    y: FloatArray  # targets
    raw: FloatArray  # raw scores of the model
    banded_raw: FloatArray  # raw scores on bands


def _rows(grouped: BandedModel, X: Any, y: Any, offset: Any) -> _Rows:
    model = grouped.model
    if model.evidence.baseline is not None:
        raise ValueError(
            "y: a survival model predicts no mean, so that actual over expected cannot be "
            "computed. Leave X and y out."
        )
    table = model.encoder.read(X)
    added = offset_of(model, table, offset)
    targets = _targets(model, y, table.n_rows)
    raw = model.raw_scores(table, None if model.encoder.offset_column else added)
    return _Rows(table, grouped.codes(table), targets, raw, _raw(grouped, table, added))


def _targets(model: AnovaModel, y: Any, n_rows: int) -> FloatArray:
    """Targets as numbers; labels of a classifier as 0 and 1."""
    refuse_masked("y", y)
    labels = array_of(y)
    is_class = bool(model.classes)
    values = (labels == model.classes[1]) * 1.0 if is_class else checked_numbers("y", labels)
    are_valid = np.isin(labels, list(model.classes)).all() if is_class else (values >= 0).all()
    if values.shape != (n_rows,) or not are_valid:
        rule = f"the labels {list(model.classes)}" if is_class else "numbers of at least 0"
        raise ValueError(
            f"y: {rule} are needed, one per row of X, found shape {values.shape} for {n_rows} rows "
            "or other values. Pass the targets of these rows."
        )
    return values


def _raw(grouped: BandedModel, table: Table, offset: FloatArray | None) -> FloatArray:
    """Raw scores on bands, (n_rows,)."""
    total = summed(grouped.tables, grouped.codes(table), table.n_rows)
    total += grouped.model.intercepts[0]
    return total if offset is None else total + offset


def _base_effect(grouped: BandedModel, component: Component, base: str) -> float:
    if base == "mean":
        return 0.0
    return float(grouped.tables[component].flat[int(grouped.masses(component).argmax())])


def _frame(
    grouped: BandedModel, component: Component, shift: float, rows: _Rows | None
) -> pd.DataFrame:
    require_pandas("rating_tables")
    import pandas as pd

    effect = grouped.tables[component]
    columns = grouped.lines(component)
    numbers: dict[str, Any] = {
        "relativity": np.exp(effect - shift).ravel(),
        "effect": effect.ravel(),
        "mass": grouped.masses(component).ravel(),
    }
    if rows is not None:
        codes = tuple(rows.codes[feature] for feature in component)
        cell = np.ravel_multi_index(codes, effect.shape)
        predicted = grouped.model.link.inverse(rows.banded_raw)
        counts, actual, expected = (
            np.bincount(cell, w, minlength=effect.size) for w in (None, rows.y, predicted)
        )
        ratio = np.divide(actual, expected, out=np.full(effect.size, np.nan), where=expected > 0)
        numbers |= {"n_rows": counts, "actual": actual, "expected": expected}
        numbers["actual_over_expected"] = ratio
    taken = {f"{name} (feature)" if name in numbers else name: v for name, v in columns.items()}
    return pd.DataFrame({**taken, **numbers})


def _losses(grouped: BandedModel, rows: _Rows | None) -> pd.DataFrame:
    import pandas as pd

    lines: list[dict[str, Any]] = []
    for component, name in grouped.names().items():
        variance, lost = grouped.variances(component)
        cells = grouped.tables[component].size
        line = {"component": name, "n_cells": cells, "variance": variance, "variance_lost": lost}
        lines.append(line)
    frame = pd.DataFrame(lines, columns=["component", "n_cells", "variance", "variance_lost"])
    if rows is None:
        return frame
    total = pd.DataFrame([{"component": "(all)", "n_cells": frame["n_cells"].sum()}])
    frame = pd.concat([frame, total], ignore_index=True) if len(frame) else total
    return frame.assign(deviance_lost=_lost_deviances(grouped, rows))


def _lost_deviances(grouped: BandedModel, rows: _Rows) -> list[float]:
    """Rise of the mean deviance by each component's bands, then by all of them."""
    objective = LOG_LOSS if grouped.model.task.kind == "classes" else POISSON
    before = _mean_deviance(objective, rows.y, rows.raw)
    scores = grouped.model.component_scores(rows.table)
    raws = [
        rows.raw - scores[:, k] + table[tuple(rows.codes[j] for j in component)]
        for k, (component, table) in enumerate(grouped.tables.items())
    ]
    return [_mean_deviance(objective, rows.y, raw) - before for raw in (*raws, rows.banded_raw)]


def _mean_deviance(objective: Objective, y: FloatArray, raw: FloatArray) -> float:
    """Twice the mean loss; the deviance up to a constant of y, which differences do not have."""
    return 2 * float(np.mean(objective.losses(y[:, None], raw[:, None])))
