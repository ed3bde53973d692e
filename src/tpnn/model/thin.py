"""Thin: a model of less text, whose raw scores differ from the model's by a stated tolerance.

Nodes that a linear interpolation between their neighbours replaces are left out, and values are
rounded to as few decimals as the tolerance allows. Half of the tolerance is for either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.anova.components import Component
from tpnn.anova.measure import moved, product_mean
from tpnn.anova.posterior import Posterior
from tpnn.model.evidence import Calibration, Evidence, Scale
from tpnn.model.remainder import weighted_parts
from tpnn.table.axis import Axis
from tpnn.table.encoder import TableEncoder

if TYPE_CHECKING:
    from tpnn.model.model import AnovaModel

Tables = Mapping[Component, FloatArray]  # (M_1, ..., M_d, n_outputs) each
MOST_DECIMALS = 300  # 10 to this power is a double
DIGITS = 3  # of the variances of bands


class Kept(NamedTuple):
    """Nodes that are left of one axis."""

    axis: Axis  # the old one
    regular: IntArray  # numbers of its regular nodes that are left; that of missing values stays

    @property
    def nodes(self) -> IntArray:
        """Numbers of all nodes that are left."""
        return np.append(self.regular, np.arange(self.axis.n_nodes)[self.axis.missing])

    @property
    def thin_axis(self) -> Axis:
        """Axis of these nodes; the mass of the others is shared by their neighbours."""
        few = replace(self.axis, values=self.axis.values[self.regular])
        return replace(few, weights=few.masses_of(self.axis.numbers, self.axis.weights)[:-1])


def thinned(model: AnovaModel, thin: float) -> AnovaModel:
    """Model with fewer nodes and digits, if ``thin`` is not 0; prints how far its raw scores are.

    No raw score differs by more than ``thin`` times the standard deviation of the raw score under
    the product of the marginals. The log of edits, which vouches for each digit, is left out.
    """
    if isinstance(thin, bool) or not isinstance(thin, Real) or not 0 <= thin < 1:
        raise ValueError(
            "thin: must be a share of the raw score's spread, at least 0 and below 1, found "
            f"{thin!r}. Pass 1e-3, or 0 for all digits."
        )
    if not thin:
        return model
    rest, spread = model.remainder, raw_spread(model)
    held: Tables = {} if rest is None else rest.held
    groups: list[Tables] = [dict(zip(model.components, model.tables, strict=True)), held]
    kept = _kept_nodes(model, [{s: t / spread for s, t in g.items()} for g in groups], thin / 2)
    rows = [{s: _rows(table, s, kept) for s, table in tables.items()} for tables in groups]
    axes = {order: list(axes) for order, axes in model.encoder.axes.items()}
    for (order, feature), one in kept.items():
        axes[order][feature] = one.thin_axis
    encoder = replace(model.encoder, axes={d: tuple(a) for d, a in axes.items()})
    encoders = encoder, model.encoder
    left = thin * spread - _deviation(encoders, groups, rows)
    decimals = _decimals(2 * left / max(sum(map(len, groups)), 1))
    tables, of_trees = ({s: _rounded(t, decimals) for s, t in few.items()} for few in rows)
    n_cells = [sum(t.size for few in some for t in few.values()) for some in (groups, rows)]
    off = _deviation(encoders, groups, [tables, of_trees])
    print(
        f"thin={float(thin):g}: {n_cells[1]:,} of {n_cells[0]:,} values are left, with up to "
        f"{max(max(decimals), 0)} decimals; raw scores differ from the model's by at most "
        f"{_words(off)}, {float((off / spread).max()):.2g} of their spread."
    )
    return replace(
        model,
        encoder=encoder,
        tables=tuple(tables.values()),
        basis=model.basis._replace(terms=None),
        evidence=_evidence(model, kept, decimals),
        edits=None,
        remainder=rest and replace(rest, tables=tuple(of_trees.values())),
    )


def raw_spread(model: AnovaModel) -> FloatArray:
    """Return standard deviations of raw scores under the product of the marginals, (n_outputs,).

    It is 1 where the raw score is constant.
    """
    parts = weighted_parts(model)
    unit = max((float(np.abs(values).max(initial=0.0)) for _, values, _ in parts), default=0) or 1.0
    variances = [product_mean((values / unit) ** 2, masses) for _, values, masses in parts]
    spread = unit * np.sqrt(np.sum(variances, axis=0) + np.zeros(len(model.intercepts)))
    return np.asarray(np.where(spread > 0, spread, 1.0))


def _kept_nodes(
    model: AnovaModel, groups: Sequence[Tables], thin: float
) -> dict[tuple[int, int], Kept]:
    """Nodes to keep, by order and feature, of tables in units of the raw score's spread."""
    tables = [item for group in groups for item in group.items()]
    logs = {j: table for scale in _scales(model) for j, table in zip(*scale[:2], strict=True)}
    kept, grouped = {}, set(_calibration(model).group_features)
    for order, feature in sorted({(len(s), j) for s, _ in tables for j in s}):
        axis = model.encoder.axes[order][feature]
        if axis.levels is not None or (order == 1 and feature in grouped):
            continue
        along = [
            np.moveaxis(table, s.index(feature), 0)
            for s, table in tables
            if len(s) == order and feature in s
        ]
        values = [table.reshape(len(table), -1) * len(tables) * order for table in along]
        if order == 1 and feature in logs:
            values.append(logs[feature])
        needed = _needed(axis.values, np.hstack(values)[axis.regular], thin)
        kept[order, feature] = Kept(axis, needed)
    return kept


def _needed(x: FloatArray, values: FloatArray, tolerance: float) -> IntArray:
    """Nodes x between which values (n_nodes, n_curves) are linear within a tolerance.

    >>> _needed(np.arange(5.0), np.array([[0.0], [1.0], [2.0], [1.0], [0.0]]), 1e-9)
    array([0, 2, 4])
    """
    kept, x = [0], x / 2
    for end in range(2, len(x)):
        between, first = slice(kept[-1] + 1, end), kept[-1]
        share = ((x[between] - x[first]) / (x[end] - x[first]))[:, None]
        line = values[first] + share * (values[end] - values[first])
        if np.abs(values[between] - line).max(initial=0.0) > tolerance:
            kept.append(end - 1)
    return np.array([*kept, len(x) - 1] if len(x) > 1 else range(len(x)), np.intp)


def _rows(table: Any, component: Component, kept: Mapping[tuple[int, int], Kept]) -> Any:
    """Entries of a table at the nodes that are left."""
    for place, feature in enumerate(component):
        if one := kept.get((len(component), feature)):
            table = table.take(one.nodes, place)
    return table


def _deviation(
    encoders: Sequence[TableEncoder], groups: Sequence[Tables], few: Sequence[Tables]
) -> FloatArray:
    """Sum over the components of how far each moves at most, (n_outputs,), at all old nodes.

    Between the old nodes no component moves farther. The encoders are the thin and the old one. The
    second of the groups is taken from the first.
    """
    shifts: dict[Component, FloatArray] = {}
    for sign, old, new in zip((1, -1), groups, few, strict=True):
        for s, table in new.items():
            coarse, fine = ([each.axes[len(s)][j] for j in s] for each in encoders)
            shifts[s] = shifts.get(s, 0.0) + sign * (moved(table, coarse, fine) - old[s])
    nothing = np.zeros(next(iter(groups[0].values())).shape[-1]) if groups[0] else np.zeros(1)
    worst = [nothing, *(np.abs(one).reshape(-1, one.shape[-1]).max(0) for one in shifts.values())]
    return np.asarray(sum(worst))


def _decimals(steps: FloatArray) -> list[int]:
    """Decimals of numbers of each output that may be rounded to multiples of a step.

    >>> _decimals(np.array([0.05, 0.01, 300.0]))
    [2, 2, -2]
    """
    return [
        min(math.ceil(-math.log10(step)), MOST_DECIMALS) if step > 0 else MOST_DECIMALS
        for step in steps.tolist()
    ]


def _rounded(values: FloatArray, decimals: Sequence[int]) -> FloatArray:
    """Round the numbers of each output, without zeros that have a sign."""
    columns = [
        values[..., k] if d >= MOST_DECIMALS else np.round(values[..., k], d) + 0.0
        for k, d in enumerate(decimals)
    ]
    return np.stack(columns, axis=-1)


def _words(numbers: FloatArray) -> str:
    return ", ".join(f"{number:.2g}" for number in numbers.tolist())


def _calibration(model: AnovaModel) -> Calibration:
    return model.evidence.calibration or Calibration()


def _scales(model: AnovaModel) -> list[Scale]:
    known = _calibration(model)
    return [scale for scale in (known.scale, known.errors) if scale is not None]


def _evidence(
    model: AnovaModel, kept: Mapping[tuple[int, int], Kept], decimals: Sequence[int]
) -> Evidence:
    """Evidence at the nodes that are left."""
    known, components = model.evidence, model.components
    spreads = known.spreads and tuple(
        _rounded(_rows(spread, s, kept), decimals)
        for s, spread in zip(components, known.spreads, strict=True)
    )
    posteriors = known.posteriors and tuple(
        posterior and _posterior(posterior, s, kept)
        for s, posterior in zip(components, known.posteriors, strict=True)
    )
    calibration = known.calibration
    if calibration is not None:
        scale, errors = (
            one
            and one._replace(
                tables=tuple(_rows(t, (j,), kept) for j, t in zip(*one[:2], strict=True))
            )
            for one in (calibration.scale, calibration.errors)
        )
        calibration = replace(calibration, scale=scale, errors=errors)
    return replace(known, spreads=spreads, posteriors=posteriors, calibration=calibration)


def _posterior(
    posterior: Posterior, component: Component, kept: Mapping[tuple[int, int], Kept]
) -> Posterior:
    rough = _rows(posterior.rough, component, kept)
    size = np.floor(np.log10(np.where(rough > 0, rough, 1.0)))
    unit = 10.0 ** (size - (DIGITS - 1))  # (M_1, ..., M_d, n_outputs)
    factors = [
        factor[kept[len(component), j].nodes] if (len(component), j) in kept else factor
        for j, factor in zip(component, posterior.factors, strict=True)
    ]
    whole = (np.rint(rough / unit) * unit).astype(np.float32)
    return replace(posterior, factors=tuple(factors), rough=whole)
