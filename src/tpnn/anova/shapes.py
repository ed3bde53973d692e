"""Shape constraints that hold for the whole function, and certificates that they do.

On tables a shape is decidable. Along feature j the smallest step of f from one node to the next is

    step of f_j + sum over partners k of the smallest step of f_jk over all x_k,

because partners vary independently; between nodes f is linear. Convexity is the same with changes
of slope instead of steps. The nodes of f_jk are coarser and end sooner than those of f_j; beyond
them f_jk is constant, so its slope changes at its outer nodes too. With triples the minima of f_jk
and f_jkl are added although they share x_k: a lower bound, no longer the minimum.

f is periodic along a feature where all tables are the same at its first and at its last node. Under
the masses of these two nodes their mean is the nearest such table, and it is pure if the table was.

A feature along which f is linear has no interactions: they would be constant beyond their outer
nodes, where the main effect goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.anova.components import Component
from tpnn.anova.measure import purify_tables
from tpnn.table.axis import Axis
from tpnn.table.encoder import TableEncoder
from tpnn.table.table import NOMINAL, PERIODIC

Tables = dict[Component, FloatArray]

MONOTONE = {"increasing": 1.0, "decreasing": -1.0}
CURVED = {"convex": 1.0, "concave": -1.0}
WRAPPED = "periodic"  # what all functions of a periodic number are
LINEAR = "linear"  # both convex and concave; the nodes of interactions end too soon for a line
RANDOM = "random"  # effects of groups, drawn from a normal distribution
SIGNS = MONOTONE | CURVED
SHAPES = (*SIGNS, LINEAR)
N_SWEEPS = 5  # passes over the constrained features that clip interactions
RELATIVE_RAMP = 1e-7  # of the largest value: a slope that keeps rounding from breaking a shape
SMALLEST_MASS = 1e-12  # a projection needs positive masses of all nodes
USABLE_SHARE = 0.99  # how much of a main effect's rise interactions may use up
SMALLEST_NEED = 1e-300  # instead of 0, by which nothing can be divided
LARGEST_SLOPE = 1e300  # differences of larger ones could overflow
SMALLEST_NODE, MAGNIFICATION = 1e-250, 2.0**700  # nodes that are all smaller are magnified
N_ROUNDINGS = 16  # error of a change of slope, in units in the last place of the largest value


class Certificate(NamedTuple):
    """Proof that a shape holds, or where it does not.

    Parameters
    ----------
    shape : str
        The shape that was examined.
    minimum : float
        Smallest step (or change of slope) over all inputs, in the direction of the shape, for a
        line in either direction; the shape holds where it is not negative. A lower bound of it
        where there are triples. A change of slope is 0 where it is within rounding: 16 units in the
        last place of the largest values of the feature's components, over the distance of the
        nodes.
    where : tuple of float
        Values of the feature between which, or the value at which, it is found.
    """

    shape: str
    minimum: float
    where: tuple[float, ...]

    @property
    def holds(self) -> bool:
        """Whether f has the shape for every value of the other features.

        f is constant beyond the outer nodes, so convex, concave and linear are meant between them.
        """
        return self.minimum >= 0


def certificate(
    tables: Mapping[Component, FloatArray],
    axes: Mapping[int, Sequence[Axis]],
    feature: int,
    shape: str,
) -> Certificate:
    """Smallest step of f along a feature over all inputs."""
    if shape == LINEAR:
        ways = [certificate(tables, axes, feature, curved) for curved in CURVED]
        return min(ways, key=lambda way: way.minimum)._replace(shape=LINEAR)
    if shape == WRAPPED:
        return _wrapping(tables, axes, feature)
    large = _magnified(axes, [feature])
    margins = _margins(tables, large, feature, shape)
    if len(margins) == 0:
        return Certificate(shape, 0.0, ())
    nodes, unit = axes[1][feature].values, 1.0
    if shape in CURVED:
        margins = _rounded(margins, tables, large[1][feature], feature)
        unit = 1.0 if large is axes else MAGNIFICATION
    worst = int(np.argmin(margins))
    where = nodes[worst + 1 : worst + 2] if shape in CURVED else nodes[worst : worst + 2]
    return Certificate(shape, float(margins[worst]) * unit, tuple(where.tolist()))


def _wrapping(
    tables: Mapping[Component, FloatArray], axes: Mapping[int, Sequence[Axis]], feature: int
) -> Certificate:
    """Minus the largest jump from the last node of a feature to its first one."""
    jump = 0.0
    for component, table in tables.items():
        if feature in component:
            ends = _oriented(table, component, feature)[axes[len(component)][feature].regular]
            jump += float(np.abs(ends[-1] - ends[0]).max())
    return Certificate(WRAPPED, -jump + 0.0, tuple(axes[1][feature].values[[-1, 0]].tolist()))


def _tied(tables: Tables, axes: Mapping[int, Sequence[Axis]], feature: int) -> Tables:
    """Tables that have the same values at the first and at the last node of a feature."""
    tied = dict(tables)
    for component in (s for s in tables if feature in s):
        axis, place = axes[len(component)][feature], component.index(feature)
        table = np.moveaxis(tables[component].copy(), place, 0)
        table[axis.regular] = _closed(table[axis.regular], axis.weights[axis.regular])
        tied[component] = np.moveaxis(table, 0, place)
    return tied


def _closed(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Weighted least squares over values that end as they begin."""
    first, last = weights[0], weights[-1]
    share = last / (first + last) if first + last > 0 else 0.5
    closed = values.copy()
    closed[0] = closed[-1] = (1 - share) * values[0] + share * values[-1]
    return closed


def _magnified(
    axes: Mapping[int, Sequence[Axis]], features: Iterable[int]
) -> Mapping[int, Sequence[Axis]]:
    """Axes on which differences over distances of nodes are finite; as they are where possible."""
    tiny = [j for j in features if _is_tiny(axes[1][j])]
    if not tiny:
        return axes
    larger = {order: list(of_order) for order, of_order in axes.items()}
    for of_order in larger.values():
        for j in tiny:
            of_order[j] = replace(of_order[j], values=of_order[j].values * MAGNIFICATION)
    return larger


def _is_tiny(axis: Axis) -> bool:
    return len(axis.values) > 1 and bool(np.abs(axis.values).max() < SMALLEST_NODE)


def _rounded(
    margins: FloatArray, tables: Mapping[Component, FloatArray], axis: Axis, feature: int
) -> FloatArray:
    """Set changes of slope that are negative by no more than rounding to 0."""
    sizes = [float(np.abs(table).max()) for s, table in tables.items() if feature in s]
    distances = np.diff(axis.values)
    unit = N_ROUNDINGS * np.finfo(np.float64).eps * sum(sizes)
    with np.errstate(over="ignore"):
        rounding = unit / np.minimum(distances[:-1], distances[1:])
    return np.where((margins < 0) & (margins >= -rounding), 0.0, margins)


def _oriented(table: FloatArray, component: Component, feature: int) -> FloatArray:
    """Table as (M_j, product of the others), with the axis of one feature first."""
    moved = np.moveaxis(table, component.index(feature), 0)
    return moved.reshape(len(moved), -1)


def _steps(values: FloatArray, axis: Axis, shape: str) -> FloatArray:
    """Find the steps between nodes, or the changes of slope at them, of values (M, ...)."""
    steps = np.diff(values[axis.regular], axis=0) * SIGNS[shape]
    if shape not in CURVED:
        return steps
    widths = np.diff(axis.values).reshape(-1, *[1] * (values.ndim - 1))
    with np.errstate(over="ignore"):
        slopes = np.clip(steps / widths, -LARGEST_SLOPE, LARGEST_SLOPE)
    return np.diff(slopes, axis=0, prepend=0.0, append=0.0)  # constant beyond outer nodes


def _on_finest(steps: FloatArray, coarse: Axis, fine: Axis, shape: str) -> FloatArray:
    """Carry steps to fine nodes, for a function that is linear between coarse ones.

    Changes of slope are those at the inner fine nodes.
    """
    nodes, finer = coarse.values, fine.values
    if shape in CURVED:
        answer = np.zeros(len(finer))
        answer[np.searchsorted(finer, nodes)] = steps
        return answer[1:-1]
    interval = np.clip(np.searchsorted(nodes, finer[:-1], side="right") - 1, 0, len(nodes) - 2)
    inside = (finer[:-1] >= nodes[0]) & (finer[1:] <= nodes[-1])
    with np.errstate(over="ignore"):  # outside, a share of an interval may be anything
        shares = np.diff(finer) / np.diff(nodes)[interval]
    return steps[interval] * np.where(inside, shares, 0.0)


def _margins(
    tables: Mapping[Component, FloatArray],
    axes: Mapping[int, Sequence[Axis]],
    feature: int,
    shape: str,
) -> FloatArray:
    """Smallest step of f over all inputs, from each fine node of a feature to the next.

    For curved shapes the smallest change of slope at each inner fine node. The sum over components
    does not depend on their order, so where f is flat, it is so for every reader of the model.
    """
    fine = axes[1][feature]
    parts = [np.zeros(max(len(fine.values) - (2 if shape in CURVED else 1), 0))]
    if len(parts[0]) == 0:
        return parts[0]
    for component, table in tables.items():
        axis = axes[len(component)][feature]
        if feature not in component or len(axis.values) < 2:
            continue
        steps = _steps(_oriented(table, component, feature), axis, shape)
        worst = steps.min(axis=1)
        if len(component) > 1:
            worst = np.minimum(worst, 0.0)  # an unknown partner contributes nothing
        parts.append(_on_finest(worst, axis, fine, shape))
    return np.asarray(np.sort(parts, axis=0).sum(axis=0))


def constrained(
    tables: Tables, axes: Mapping[int, Sequence[Axis]], shapes: Mapping[int, str]
) -> tuple[float, Tables]:
    """Nearby pure tables whose sum has the shapes, and what moves into the intercept.

    Main effects are projected. Interactions are clipped where a main effect cannot make up for
    them. A shape may still be broken by curvature, rounding or a conflict between features; that is
    repaired last. Every subset of a component must be a component too. A feature without
    components, or with missing values only, has every shape. A linear feature must have no
    interactions.
    """
    shaped = dict(tables)
    shift = 0.0
    shapes = {j: s for j, s in shapes.items() if (j,) in tables and not axes[1][j].is_empty}
    axes = _magnified(axes, shapes)
    for feature, shape in shapes.items():
        shaped[feature,] = project_main(shaped[feature,], axes[1][feature], shape)
    wrapping = [j for j, shape in shapes.items() if shape == WRAPPED]
    # Nothing bends a line, or moves the ends of a period apart.
    shapes = {j: shape for j, shape in shapes.items() if shape not in (LINEAR, RANDOM, WRAPPED)}
    # Clipping along one feature may break the shape along another, so it is repeated.
    for _ in range(N_SWEEPS):
        for feature, shape in shapes.items():
            if shape not in CURVED:
                _clip(shaped, axes, feature, SIGNS[shape])
        moved, shaped = purify_tables(shaped, axes)
        shift += float(moved)
        for feature in wrapping:
            shaped = _tied(shaped, axes, feature)
        if all((_margins(shaped, axes, j, shape) >= 0).all() for j, shape in shapes.items()):
            return shift, shaped
    # The sweeps did not end. From here on nothing is purified again, so each repair lasts.
    for feature, shape in shapes.items():
        shift += _repair(shaped, axes, feature, shape)
    for feature, shape in shapes.items():
        if shape in CURVED:
            shift += _bend(shaped, axes, feature, shape)
    return shift, shaped


def project_main(table: FloatArray, axis: Axis, shape: str) -> FloatArray:
    """Nearest main effect of the given shape under the masses of the nodes, centred.

    Levels without order, which can only be linear, are free.
    """
    if axis.is_nominal:
        return table
    from sklearn.isotonic import isotonic_regression

    values, weights = table[axis.regular], axis.weights[axis.regular]
    if not weights.all():  # nodes that an edit has added
        weights = np.maximum(weights, SMALLEST_MASS)
    if len(values) == 0:  # missing values have no order
        fitted = values
    elif shape == WRAPPED:
        fitted = _closed(values, weights)
    elif shape == LINEAR:
        fitted = _line(axis.values, values, weights)
    else:
        raised = values * SIGNS[shape]
        if shape in CURVED:
            raised = _convex(axis.values, raised, weights)
        else:
            raised = isotonic_regression(raised, sample_weight=weights)
        raised = raised + RELATIVE_RAMP * np.abs(raised).max() * _ramp(axis, shape)
        fitted = raised * SIGNS[shape]
    projected = axis.with_missing(fitted, table[axis.missing])
    return np.asarray(projected - axis.weights @ projected)


def _ramp(axis: Axis, shape: str) -> FloatArray:
    """Strictly increasing or convex function on the nodes, from 0 to 1."""
    if shape not in CURVED:
        return np.linspace(0.0, 1.0, len(axis.values))
    nodes = axis.values
    return np.asarray(((nodes - nodes[:1]) / (np.ptp(nodes) if len(nodes) > 1 else 1.0)) ** 2)


def _convex(nodes: FloatArray, values: FloatArray, weights: FloatArray) -> FloatArray:
    """Weighted least squares over convex piecewise linear functions on the nodes.

    It is solved for values of size 1: the solver overflows on very large ones.
    """
    from scipy.optimize import nnls

    if len(nodes) < 3:
        return values
    _, size = np.frexp(np.abs(values).max())  # a power of two, by which to scale is exact
    x = (nodes - nodes[0]) / (nodes[-1] - nodes[0])
    hinges = np.maximum(x[:, None] - x[1:-1], 0.0)
    columns = np.column_stack([np.ones_like(x), -np.ones_like(x), x, -x, hinges])
    scale = np.sqrt(weights)
    unit = np.ldexp(values, -size) * scale
    coefficients, _ = nnls(columns * scale[:, None], unit, maxiter=50 * len(x))
    return np.asarray(np.ldexp(columns @ coefficients, size))


def _line(nodes: FloatArray, values: FloatArray, weights: FloatArray) -> FloatArray:
    """Weighted least squares over straight lines; of one or two nodes, their values."""
    if len(nodes) < 3:
        return values
    _, size = np.frexp(np.abs(values).max())  # as in _convex
    x = (nodes - nodes[0]) / (nodes[-1] - nodes[0])
    shares, unit = weights / weights.sum(), np.ldexp(values, -size)
    centred = x - shares @ x
    slope = (shares * centred) @ unit / (shares @ centred**2)
    return np.asarray(np.ldexp(shares @ unit + slope * centred, size))


def _clip(tables: Tables, axes: Mapping[int, Sequence[Axis]], feature: int, sign: float) -> None:
    """Clip the steps of interactions that the main effect cannot make up for, in place.

    Within a coarse interval where an interaction falls, the main effect becomes linear, so that its
    whole rise counts; the interactions share that rise in proportion to what they need.
    """
    partners = [s for s in tables if feature in s and len(s) > 1]
    for order in sorted({len(s) for s in partners}):
        chosen = [s for s in partners if len(s) == order]
        coarse, fine = axes[order][feature], axes[1][feature]
        if len(coarse.values) < 2:
            continue
        steps = {
            s: np.diff(_oriented(tables[s], s, feature)[coarse.regular], axis=0) * sign
            for s in chosen
        }
        needs = {s: np.maximum(-step.min(axis=1), 0.0) for s, step in steps.items()}
        total = np.sum(list(needs.values()), axis=0)
        main, rise = _linearised(tables[feature,] * sign, coarse, fine, total)
        tables[feature,] = main * sign
        share = np.minimum(USABLE_SHARE * rise, total) / np.maximum(total, SMALLEST_NEED)
        for s in chosen:
            clipped = np.maximum(steps[s], -(needs[s] * share)[:, None]) - steps[s]
            tables[s] = _with_steps(tables[s], s, feature, coarse, clipped * sign)


def _linearised(
    main: FloatArray, coarse: Axis, fine: Axis, needs: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Make an increasing main effect linear in coarse intervals where something is needed.

    Returns it and its rise over every coarse interval.
    """
    nodes, finer = coarse.values, fine.values
    at_nodes = _interpolated(nodes, finer, main[fine.regular])
    linear = _interpolated(finer, nodes, at_nodes)
    interval = np.clip(np.searchsorted(nodes, finer, side="right") - 1, 0, len(nodes) - 2)
    changed = main.copy()
    changed[fine.regular] = np.where(needs[interval] > 0, linear, main[fine.regular])
    return changed, np.maximum(np.diff(at_nodes), 0.0)


def _interpolated(x: FloatArray, nodes: FloatArray, values: FloatArray) -> FloatArray:
    """Interpolate linearly; take the lower node where two nodes are too close for a slope."""
    with np.errstate(over="ignore", invalid="ignore"):
        between = np.interp(x, nodes, values)
    lower = np.clip(np.searchsorted(nodes, x, side="right") - 1, 0, None)
    return np.where(np.isfinite(between), between, values[lower])


def _with_steps(
    table: FloatArray, component: Component, feature: int, axis: Axis, added: FloatArray
) -> FloatArray:
    """Table whose steps along a feature are changed by ``added`` (n_values - 1, others)."""
    moved = np.moveaxis(table, component.index(feature), 0).copy()
    flat = moved.reshape(len(moved), -1)
    flat[axis.regular][1:] += np.cumsum(added, axis=0)
    return np.moveaxis(flat.reshape(moved.shape), 0, component.index(feature))


def _repair(tables: Tables, axes: Mapping[int, Sequence[Axis]], feature: int, shape: str) -> float:
    """Make the margins of a feature not negative, in place; returns what moves to the intercept.

    Interactions are scaled down. At its outer nodes an interaction changes its slope because it
    ends there; scaling would shrink it to nothing. There the main effect is bent outwards instead,
    which changes only the tails.
    """
    partners = [s for s in tables if feature in s and len(s) > 1]
    axis = axes[1][feature]
    main = project_main(tables[feature,], axis, shape)
    rise = np.maximum(_margins({(feature,): main}, axes, feature, shape), 0.0)
    fall = -_margins({s: tables[s] for s in partners}, axes, feature, shape)
    ends = _ends({len(s) for s in partners}, axes, feature) if shape in CURVED else {}
    scaled = fall > 0
    scaled[list(ends)] = False
    with np.errstate(over="ignore"):
        factor = float(np.min(rise[scaled] / fall[scaled], initial=1.0))
    if factor < 1.0:
        fall = fall * (USABLE_SHARE * factor)
        for s in partners:
            tables[s] = tables[s] * (USABLE_SHARE * factor)
    nodes = axis.values
    for place, outwards in ends.items():
        bend = max(fall[place] / USABLE_SHARE - rise[place], 0.0) * SIGNS[shape]
        main[axis.regular] += bend * np.maximum(outwards * (nodes - nodes[place + 1]), 0.0)
    moved = float(axis.weights @ main)
    tables[feature,] = main - moved
    return moved


def _bend(tables: Tables, axes: Mapping[int, Sequence[Axis]], feature: int, shape: str) -> float:
    """Bend a main effect where f still bends the wrong way, in place; returns what moves.

    After the repair only rounding errors of the projection are left; the bends are as small.
    """
    axis = axes[1][feature]
    margins = _margins(tables, axes, feature, shape)
    missing = np.maximum(-_rounded(margins, tables, axis, feature), 0.0)
    if not missing.any():
        return 0.0
    nodes, main = axis.values, tables[feature,].copy()
    slopes = np.append(0.0, np.cumsum(missing)) * SIGNS[shape]  # of what is added between nodes
    main[axis.regular][1:] += np.cumsum(slopes * np.diff(nodes))
    moved = float(axis.weights @ main)
    tables[feature,] = main - moved
    return moved


def _ends(
    orders: Iterable[int], axes: Mapping[int, Sequence[Axis]], feature: int
) -> dict[int, float]:
    """Where interactions end among the inner fine nodes of a feature, and the way outwards."""
    fine = axes[1][feature]
    ends: dict[int, float] = {}
    for order in orders:
        nodes = axes[order][feature].values
        places = np.searchsorted(fine.values, nodes[[0, -1]]) - 1
        ends |= dict(zip(places.tolist(), (-1.0, 1.0), strict=True))
    return {place: way for place, way in ends.items() if 0 <= place < len(fine.values) - 2}


def check_shape(
    encoder: TableEncoder,
    index: int,
    shape: str,
    argument: str,
    levels: bool = False,
    is_given: bool = True,
) -> None:
    """Refuse an unknown shape, or one of a feature without order or of a periodic one.

    ``levels`` says that levels without order may be linear; ``is_given`` that the feature is to
    get the shape, not only to be looked at.
    """
    if shape == WRAPPED and encoder.features[index].kind == PERIODIC:
        return
    if shape == RANDOM and levels:
        if encoder.features[index].kind == NOMINAL or encoder.axes[1][index].is_empty:
            return
        raise ValueError(
            f"random: groups are levels, found {encoder.features[index].kind}s in "
            f"{encoder.feature_names[index]!r}. Pass them as text."
        )
    if shape not in SHAPES:
        raise ValueError(
            f"{argument}: must be one of {', '.join(SHAPES)}, found {shape!r}. "
            "Pass 'increasing', for example."
        )
    if encoder.features[index].kind == PERIODIC and is_given:
        raise ValueError(
            f"{argument}: a periodic feature ends as it begins and has no other shape, found "
            f"{shape!r} for {encoder.feature_names[index]!r}. Leave it out."
        )
    if encoder.features[index].kind == NOMINAL and not (shape == LINEAR and levels):
        raise ValueError(
            f"{argument}: a shape needs an order, found the nominal feature "
            f"{encoder.feature_names[index]!r}. Leave it out, or make it an ordered category."
        )
