"""RatingTables: a base rate and tables of factors, as a tariff is written."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn._utils.rules import Rule, check_parameters, is_positive, is_whole
from tpnn.anova.components import Component
from tpnn.export.sheets.band_workbook import write_tariff
from tpnn.export.sheets.bins import (
    BandedModel,
    band_of_value,
    band_rules,
    banded,
    check_both,
    refuse_unless,
    summed,
    targets_of,
)
from tpnn.export.sheets.tidy import refuse_remainder
from tpnn.loss.objectives import LOG_LOSS, POISSON, Objective
from tpnn.model.model import AnovaModel, offset_of
from tpnn.table.columns import require_pandas

if TYPE_CHECKING:
    import pandas as pd

MAX_BANDS = 8  # of a feature, where nothing else is said
BASE = ("mode", "mean")
BASES = Rule(
    '"mode", "mean" or a dict of values', lambda b: isinstance(b, dict) or b in BASE, "mode"
)
LIMIT = Rule("a positive number", is_positive, 1.25)
DIGITS = Rule("a whole number of at least 0", lambda value: is_whole(value) and value >= 0, 2)
LOSSES = ["component", "n_cells", "variance", "variance_lost"]
STEPS = ["step", "base", "actual", "expected", "actual_over_expected", "deviance"]


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
        given, ``n_rows``, ``exposure`` (the number of rows if the model has none), ``actual``,
        ``expected``, ``observed`` and ``fitted``, which are these two over the exposure, and
        ``actual_over_expected``.
    losses : DataFrame
        For each component, what its bands lose: ``n_cells``, the ``variance`` of its effect under
        the training masses and ``variance_lost`` of it; where rows were given, ``deviance_lost``:
        by how much the mean deviance of the rows rises if this component alone is put on bands.
        The last line, where rows were given, is that of all components together.
    steps : DataFrame
        The base after each step from the model to this tariff and, where rows were given, their
        ``actual``, ``expected``, ``actual_over_expected`` and mean ``deviance``.
    banded : BandedModel
        The bands, and the components on them.
    base_effects : dict of tuple of int to float
        Logarithm of the factor of each component where its relativity is 1.
    rows : Rows, or None
        The rows that were given.
    """

    base: float
    frames: Mapping[str, pd.DataFrame]
    losses: pd.DataFrame
    steps: pd.DataFrame
    banded: BandedModel
    base_effects: Mapping[Component, float]
    rows: Rows | None

    def predict(self, X: Any, offset: Any = None) -> FloatArray:
        """Predict by base times relativities, (n_rows,).

        Like ``AnovaModel.predict``, these are means; of two classes, probabilities of the second,
        of which base times relativities are the odds.
        """
        model = self.banded.model
        table = model.encoder.read(X)
        added = offset_of(model, table, offset)
        return model.link.inverse(_raw(self.banded, self.banded.codes(table), added, table.n_rows))

    def rebalanced(self, X: Any = None, y: Any = None, offset: Any = None) -> RatingTables:
        """Tariff of which actual and expected are equal, by another base.

        They are those of the rows that the tables were made with, or of others.
        """
        rows = self.rows if X is None else _rows(self.banded, X, y, offset)
        if rows is None:
            raise ValueError(
                "X: rows are needed to balance a tariff, and the tables were made without any. "
                "Pass X and y here or to rating_tables()."
            )
        raw, objective = rows.raw_on(self.banded), _objective(self.banded.model)
        shift = objective.start(rows.y[:, None], raw[:, None], np.ones(len(raw)))
        intercept = self.banded.intercept + float(shift[0])
        return self._stepped("rebalanced", replace(self.banded, intercept=intercept))

    def capped(self, low: float, high: float, of: Sequence[str] = ()) -> RatingTables:
        """Tariff without relativities below ``low`` and above ``high``.

        ``of`` names the components whose tables are capped; by default all of them are.
        """
        check_parameters({"low": low, "high": high}, {"low": LIMIT, "high": LIMIT})
        if not low <= 1 <= high:
            raise ValueError(
                f"low: relativities of 1 must stay possible, found a cap of {low:g} to {high:g}. "
                "Pass a low of at most 1 and a high of at least 1."
            )
        unknown = [name for name in of if name not in self.frames]
        if unknown:
            raise ValueError(
                f"of: must name tables, found {unknown[0]!r}. There are {list(self.frames)[:10]!r}."
            )
        changed = self._changed(lambda factors: np.clip(factors, low, high), of)
        return self._stepped(f"capped at {low:g} and {high:g}", changed)

    def rounded(self, digits: int = 2) -> RatingTables:
        """Tariff with relativities of so many digits after the point."""
        check_parameters({"digits": digits}, {"digits": DIGITS})
        changed = self._changed(lambda factors: np.round(factors, digits), ())
        if any(np.isneginf(table).any() for table in changed.tables.values()):
            raise ValueError(
                f"digits: {digits} make some relativities 0, which no premium survives. Pass more, "
                "or cap them first."
            )
        return self._stepped(f"rounded to {digits} digits", changed)

    def _changed(
        self, change: Callable[[FloatArray], FloatArray], of: Sequence[str]
    ) -> BandedModel:
        """Bands with other relativities in some tables."""
        tables = dict(self.banded.tables)
        for component, shift in self.base_effects.items():
            if not of or self.banded.name(component) in of:
                with np.errstate(divide="ignore"):
                    factors = np.log(change(np.exp(tables[component] - shift)))
                tables[component] = factors + shift
        return replace(self.banded, tables=tables)

    def _stepped(self, step: str, grouped: BandedModel) -> RatingTables:
        """Tables of other factors, with a line that says what they change."""
        return _tables(grouped, self.base_effects, self.rows, (self.steps, self.losses), step)

    def to_excel(self, path: str | os.PathLike[str], X: Any = None, offset: Any = None) -> None:
        """Write a workbook that looks relativities up and multiplies them; rows of X come first.

        Its exposure, if the model has one, is a column to fill in.
        """
        write_tariff(self, path, X, offset)

    @property
    def levels(self) -> pd.DataFrame:
        """Every level of every feature, its band, and its relativity where it is a main effect."""
        relativities = {
            s[0]: np.exp(table - self.base_effects[s])
            for s, table in self.banded.tables.items() if len(s) == 1
        }  # fmt: skip
        return self.banded.levels("relativity", relativities)

    def __repr__(self) -> str:
        return f"RatingTables(base {self.base:.6g}, {len(self.frames)} tables)"

    def _repr_html_(self) -> str:
        """Show the base, the steps, the losses, all tables and all levels in a notebook."""
        blocks = [f"<p>{escape(repr(self))}</p>", self.steps.to_html(index=False),
                  self.losses.to_html(index=False)]  # fmt: skip
        for name, frame in ({**self.frames, "Levels": self.levels}).items():
            blocks += [f"<h4>{escape(name)}</h4>", frame.to_html(index=False)]
        return "".join(blocks)


def rating_tables(
    model: AnovaModel,
    X: Any = None,
    y: Any = None,
    max_bands: int | Mapping[str, int] = MAX_BANDS,
    base: Any = "mode",
    offset: Any = None,
    cuts: Mapping[str, Any] | None = None,
    min_share: float = 0.0,
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
    max_bands : int or dict from str to int, default=8
        Largest number of bands of a feature, or that of each feature by its name.
    base : {"mode", "mean"} or dict, default="mode"
        Where relativities are 1: in the cell of every table with most mass, or on average over the
        logarithms. A dict has a value or level of some features, whose bands are the base; of all
        others it is the band with most mass.
    offset : array of shape (n_rows,), optional
        Known part of the raw score of each row of X.
    cuts : dict from str to list, optional
        Bands of some features, by name: the increasing values at which a new band begins or, for a
        feature with levels, a list of levels for each band; all other levels are one band more.
    min_share : float, default=0
        Smallest share of the training rows in a band that is found.

    Returns
    -------
    RatingTables
    """
    check_parameters({"base": base}, {"base": BASES})
    what = "rating tables are for models of rates, risks or two classes"
    refuse_unless(("rates", "survival", "classes"), model, what)
    refuse_remainder(model, "a rating table")
    check_both(X, y)
    grouped = banded(model, band_rules(model, max_bands, MAX_BANDS, cuts, min_share))
    rows = None if X is None else _rows(grouped, X, y, offset)
    first = [] if rows is None else [_step(grouped, rows, "model", rows.raw)]
    steps, losses = pd_frame(first, STEPS), _losses(grouped, rows)
    return _tables(grouped, _base_effects(grouped, base), rows, (steps, losses), "put on bands")


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows that a tariff is compared with."""

    codes: Mapping[int, IntArray]  # band of every row in each feature
    y: FloatArray  # targets
    raw: FloatArray  # raw scores of the model, offset included
    scores: FloatArray  # (n_rows, n_components), of the model
    offset: FloatArray | None

    @property
    def exposure(self) -> FloatArray:
        """Factor on the prediction of each row that is known; 1 where there is none."""
        return np.ones(len(self.y)) if self.offset is None else np.exp(self.offset)

    def raw_on(self, grouped: BandedModel) -> FloatArray:
        """Raw scores on bands, (n_rows,)."""
        return _raw(grouped, self.codes, self.offset, len(self.y))


def _rows(grouped: BandedModel, X: Any, y: Any, offset: Any) -> Rows:
    model = grouped.model
    if model.evidence.baseline is not None:
        raise ValueError(
            "y: a survival model predicts no mean, so that actual over expected cannot be "
            "computed. Leave X and y out."
        )
    table = model.encoder.read(X)
    added = offset_of(model, table, offset)
    targets = targets_of(model, y, table.n_rows)
    raw = model.raw_scores(table, None if model.encoder.offset_column else added)
    scores = model.component_scores(table)
    return Rows(grouped.codes(table), targets, raw, scores, added)


def _raw(
    grouped: BandedModel, codes: Mapping[int, IntArray], offset: FloatArray | None, n_rows: int
) -> FloatArray:
    """Raw scores on bands, (n_rows,)."""
    total = summed(grouped.tables, codes, n_rows) + grouped.intercept
    return total if offset is None else total + offset


def _tables(
    grouped: BandedModel,
    base_effects: Mapping[Component, float],
    rows: Rows | None,
    known: tuple[pd.DataFrame, pd.DataFrame],
    step: str,
) -> RatingTables:
    """Tables of these factors; ``known`` has the steps so far, and what bands lose."""
    base = float(np.exp(grouped.intercept + sum(base_effects.values())))
    raw = None if rows is None else rows.raw_on(grouped)
    line = {} if rows is None or raw is None else _step(grouped, rows, step, raw)
    before: list[Any] = known[0].to_dict("records")
    return RatingTables(
        base=base,
        frames={
            grouped.name(s): _frame(grouped, s, shift, rows, raw)
            for s, shift in base_effects.items()
        },
        losses=known[1],
        steps=pd_frame([*before, {"step": step, "base": base, **line}], STEPS),
        banded=grouped,
        base_effects=base_effects,
        rows=rows,
    )


def pd_frame(lines: list[dict[str, Any]], columns: list[str]) -> pd.DataFrame:
    """Frame of lines, in which what a line lacks is NaN."""
    require_pandas("rating_tables")
    import pandas as pd

    return pd.DataFrame(lines, columns=columns)


def _step(grouped: BandedModel, rows: Rows, step: str, raw: FloatArray) -> dict[str, Any]:
    """Actual, expected and deviance of raw scores."""
    model = grouped.model
    actual, expected = float(rows.y.sum()), float(model.link.inverse(raw).sum())
    return {
        "step": step,
        "actual": actual,
        "expected": expected,
        "actual_over_expected": actual / expected,
        "deviance": _mean_deviance(_objective(model), rows.y, raw),
    }


def _base_effects(grouped: BandedModel, base: Any) -> dict[Component, float]:
    """Effect of each component where its relativity shall be 1."""
    if base == "mean":
        return dict.fromkeys(grouped.tables, 0.0)
    values = {} if base == "mode" else dict(base)
    model, cell = grouped.model, {}
    for feature, bands in grouped.bands.items():
        name = model.feature_names[feature]
        cell[feature] = int(bands.band_masses.argmax())
        if name in values:
            cell[feature] = band_of_value(model, feature, bands, values.pop(name))
    if values:
        raise ValueError(
            f"base: must name features of the tables, found {next(iter(values))!r}. They have "
            f"{[model.feature_names[j] for j in grouped.bands][:10]!r}."
        )
    return {s: float(table[tuple(cell[j] for j in s)]) for s, table in grouped.tables.items()}


def _frame(
    grouped: BandedModel,
    component: Component,
    shift: float,
    rows: Rows | None,
    raw: FloatArray | None,
) -> pd.DataFrame:
    import pandas as pd

    effect = grouped.tables[component]
    columns = grouped.line_labels(component)
    numbers: dict[str, Any] = {
        "relativity": np.exp(effect - shift).ravel(),
        "effect": effect.ravel(),
        "mass": grouped.masses(component).ravel(),
    }
    if rows is not None and raw is not None:
        codes = tuple(rows.codes[feature] for feature in component)
        cell = np.ravel_multi_index(codes, effect.shape)
        predicted = grouped.model.link.inverse(raw)
        counts, exposure, actual, expected = (
            np.bincount(cell, w, minlength=effect.size)
            for w in (None, rows.exposure, rows.y, predicted)
        )
        numbers |= {
            "n_rows": counts,
            "exposure": exposure,
            "actual": actual,
            "expected": expected,
            "observed": _ratio(actual, exposure),
            "fitted": _ratio(expected, exposure),
            "actual_over_expected": _ratio(actual, expected),
        }
    taken = {f"{name} (feature)" if name in numbers else name: v for name, v in columns.items()}
    return pd.DataFrame({**taken, **numbers})


def _ratio(above: Any, below: Any) -> FloatArray:
    return np.where(below > 0, above / np.where(below > 0, below, 1.0), np.nan)


def _losses(grouped: BandedModel, rows: Rows | None) -> pd.DataFrame:
    lines: list[dict[str, Any]] = []
    for component, table in grouped.tables.items():
        variance, lost = grouped.variances(component)
        name = grouped.name(component)
        lines.append(dict(zip(LOSSES, (name, table.size, variance, lost), strict=True)))
    if rows is None:
        return pd_frame(lines, LOSSES)
    n_cells = sum(table.size for table in grouped.tables.values())
    frame = pd_frame([*lines, {"component": "(all)", "n_cells": n_cells}], LOSSES)
    objective = _objective(grouped.model)
    before = _mean_deviance(objective, rows.y, rows.raw)
    raws = [
        rows.raw - rows.scores[:, k] + table[tuple(rows.codes[j] for j in component)]
        for k, (component, table) in enumerate(grouped.tables.items())
    ]
    raws.append(rows.raw_on(grouped))
    rises = [_mean_deviance(objective, rows.y, raw) - before for raw in raws]
    return frame.assign(deviance_lost=rises)


def _objective(model: AnovaModel) -> Objective:
    return LOG_LOSS if model.task.kind == "classes" else POISSON


def _mean_deviance(objective: Objective, y: FloatArray, raw: FloatArray) -> float:
    """Twice the mean loss, less that of a perfect prediction."""
    perfect = 0.0
    if objective is POISSON:
        perfect = float(np.mean(y - y * np.log(np.where(y > 0, y, 1.0))))
    return 2 * (float(np.mean(objective.losses(y[:, None], raw[:, None]))) - perfect)
