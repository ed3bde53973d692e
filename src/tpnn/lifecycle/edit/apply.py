"""Apply: the model that is the old one plus an edit, with unique components again.

An edit of a component S adds a table D to f, non-zero where the edit says. D is split into pure
parts, one for each subset of S: the part of S and of its subsets are added to these components, the
mean of D to the intercept. So f changes by D, and components stay the only ones that average to
zero along each of their features.
"""

from __future__ import annotations

from functools import partial, reduce

import numpy as np

from tpnn._utils.arrays import BoolArray, FloatArray
from tpnn.anova.components import Component, ComponentSet
from tpnn.anova.measure import purify_tables, unless_rounding
from tpnn.lifecycle.edit.change import Edit, refined, with_values
from tpnn.model.constrain import constrain, rounding_error
from tpnn.model.evidence import Evidence
from tpnn.model.model import AnovaModel, changed, restricted, tables_by_component
from tpnn.table.axis import Axis

SMALLEST_GAP = 1e-9  # of ranks of neighbouring nodes, for smoothing


def applied(model: AnovaModel, edit: Edit) -> AnovaModel:
    """Model after an edit, without a record of it."""
    if edit.operation == "without":
        if edit.component not in model.components.components:
            raise ValueError(
                f"without: must be a component of the model, found "
                f"{tuple(model.feature_names[j] for j in edit.component)!r}. It has "
                f"{model.component_names[:10]!r}."
            )
        others = [s for s in model.components if s != edit.component]
        return _after(restricted(model, others, model.remainder), set(), model)
    if edit.operation == "shape":
        names = model.feature_names
        shaped = constrain(model, {**model.shapes, names[edit.component[0]]: edit.value})
        return _after(shaped, _moved_components(model, shaped), model)
    finer = _refined_for(model, edit)
    zeros = finer.encoder.zeros([edit.component], len(model.intercepts))
    table = (zeros | tables_by_component(finer))[edit.component]
    added = difference(table, finer.axes(edit.component), edit)
    return _after(*_plus(finer, edit.component, added), model)


def _refined_for(model: AnovaModel, edit: Edit) -> AnovaModel:
    """Model on nodes between which no end of the edit lies."""
    if edit.operation == "smooth":  # ends where there is a node
        return model
    mains = model.encoder.axes[1]
    if edit.operation == "points":
        places = [x for x, _ in edit.value]
        feature = edit.where[0].feature
        finer = {edit.component[0]: partial(with_values, feature=feature, values=places)}
    else:
        finer = {
            j: partial(one.finer, main=mains[j])
            for j, one in zip(edit.component, edit.where, strict=True)
            if not one.is_all
        }
    return refined(model, len(edit.component), finer)


def difference(table: FloatArray, axes: tuple[Axis, ...], edit: Edit) -> FloatArray:
    """Return what an edit adds to a table (M_1, ..., M_d, n_outputs), zero elsewhere."""
    masks = [one.mask(axis) for one, axis in zip(edit.where, axes, strict=True)]
    inside: BoolArray = reduce(np.multiply.outer, [*masks, edit.outputs])
    new = table.copy()
    if edit.operation == "points":
        for x, effect in edit.value:
            new[axes[0].numbers == x] = effect
        inside[:] = edit.outputs
    elif edit.operation == "smooth":
        for place, (axis, mask) in enumerate(zip(axes, masks, strict=True)):
            if not axis.is_nominal:
                smoothed = np.tensordot(smoother(axis, mask, edit.value), new, axes=(1, place))
                new = np.moveaxis(smoothed, 0, place)
    elif edit.operation == "flatten":
        pairs = zip(axes, masks, strict=True)
        masses = reduce(np.multiply.outer, [axis.weights * mask for axis, mask in pairs])
        if not masses.any():  # only nodes of the edit itself
            masses = reduce(np.multiply.outer, [mask.astype(np.float64) for mask in masks])
        new[:] = np.tensordot(masses / masses.sum(), table, axes=masses.ndim)
    else:
        new = _computed(new, edit)
    return np.where(inside, new - table, 0.0)


def _computed(table: FloatArray, edit: Edit) -> FloatArray:
    if edit.operation == "limit":
        limited: FloatArray = np.clip(table, *edit.value)
        return limited
    if edit.operation == "set":
        return np.full_like(table, edit.value)
    factor, addend = (edit.value, 0.0) if edit.operation == "scale" else (1.0, edit.value)
    return table * float(factor) + float(addend)


def smoother(axis: Axis, mask: BoolArray, share: float) -> FloatArray:
    """Matrix (M, M) that smooths values along an ordered axis where ``mask`` is true.

    It minimises sum_m w_m (g_m - f_m)^2 + share^2 sum_m (g_{m+1} - g_m)^2 / (r_{m+1} - r_m) with
    masses w and ranks r: a node feels others up to about ``share`` of the rows away. The mean of
    the whole stays; where only a part is smoothed, the ends of that part stay.
    """
    matrix = np.eye(axis.n_nodes)
    inside = np.flatnonzero(mask[axis.regular])
    if len(inside) < 2:
        return matrix
    ranks, masses = axis.positions[inside], axis.weights[inside]
    stiff = share**2 / np.maximum(np.diff(ranks), SMALLEST_GAP)
    penalty = np.diag(np.append(stiff, 0.0) + np.append(0.0, stiff))
    penalty -= np.diag(stiff, 1) + np.diag(stiff, -1)
    left, right = np.diag(masses) + penalty, np.diag(masses)
    for end in (0, -1) if len(inside) < len(axis.values) else ():
        left[end], right[end] = 0.0, 0.0
        left[end, end] = right[end, end] = 1.0
    matrix[np.ix_(inside, inside)] = np.linalg.solve(left, right)
    return matrix


def _plus(
    model: AnovaModel, component: Component, added: FloatArray
) -> tuple[AnovaModel, set[Component]]:
    """Add a table to f; returns the model and the components that changed."""
    subsets = ComponentSet((component,)).with_subsets()
    zeros = model.encoder.zeros(subsets, len(model.intercepts))
    shift, parts = purify_tables(zeros | {component: added}, model.encoder.axes)
    outputs = range(len(model.intercepts))  # each with a unit of its own
    rounding = np.array(
        [rounding_error([t[..., k] for t in (*model.tables, added)]) for k in outputs]
    )
    parts = {s: unless_rounding(part, rounding) for s, part in parts.items()}
    tables = zeros | tables_by_component(model)
    touched = {s: part.any(tuple(range(len(s)))) for s, part in parts.items()}  # (K,) each
    sums = {s: np.where(touched[s], tables[s] + part, 0.0) for s, part in parts.items()}
    rest, sums = purify_tables(sums, model.encoder.axes)  # means of the rounding of large numbers
    for s, new in sums.items():
        tables[s] = np.where(touched[s], unless_rounding(new, rounding), tables[s] + new)
    kept = {s for s in sums if touched[s].any()}
    components = ComponentSet((*model.components, *kept))
    old = model.evidence
    spreads = zeros | dict(zip(model.components, old.spreads or (), strict=False))
    posteriors = dict(zip(model.components, old.posteriors or (), strict=False))
    edited = changed(
        model,
        components=components,
        tables=tuple(tables[s] for s in components),
        intercepts=model.intercepts + shift + rest,
        evidence=Evidence(
            spreads=old.spreads and tuple(spreads[s] for s in components),
            posteriors=old.posteriors and tuple(posteriors.get(s) for s in components),
        ),
    )
    return edited, kept


def _moved_components(before: AnovaModel, after: AnovaModel) -> set[Component]:
    """Components of the model after an edit that are not as before."""
    old = tables_by_component(before)
    tables = tables_by_component(after).items()
    return {s for s, table in tables if s not in old or not np.array_equal(old[s], table)}


def _after(model: AnovaModel, moved: set[Component], before: AnovaModel) -> AnovaModel:
    """Leave out what no longer belongs to a model of which some components were changed.

    Spreads and bands of these are void. Shapes stay where the certificate still holds. The baseline
    of a survival model stays: it is the hazard at f = 0.
    """
    spreads = zip(model.components, model.evidence.spreads or (), strict=False)
    posteriors = zip(model.components, model.evidence.posteriors or (), strict=False)
    still_valid = tuple(None if s in moved else posterior for s, posterior in posteriors)
    evidence = Evidence(
        spreads=tuple(np.zeros_like(array) if s in moved else array for s, array in spreads)
        or None,
        posteriors=still_valid if any(still_valid) else None,
        baseline=before.evidence.baseline,
    )
    held = {n: s for n, s in model.shapes.items() if model.certificate(n, s).holds}
    return changed(model, shapes=held, evidence=evidence)
