"""Shape constraints that hold for the whole function, and certificates that they do.

On tables a shape is decidable. Along feature j the smallest step of f from one node to the next is

    step of f_j + sum over partners k of the smallest step of f_jk over all x_k,

because partners vary independently; between nodes f is linear. Convexity is the same with changes
of slope instead of steps. The nodes of f_jk are coarser and end sooner than those of f_j; beyond
them f_jk is constant, so its slope changes at its outer nodes too. With triples the minima of f_jk
and f_jkl are added although they share x_k: a lower bound, no longer the minimum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tpnn._typing import FloatArray
from tpnn.anova.components import Component
from tpnn.anova.purify import purify_tables
from tpnn.table.axis import Axis

Tables = dict[Component, FloatArray]

MONOTONE = {"increasing": 1.0, "decreasing": -1.0}
SIGNS = {**MONOTONE, "convex": 1.0, "concave": -1.0}
CURVED = ("convex", "concave")
N_SWEEPS = 5  # over the constrained features, while clipping
RELATIVE_RAMP = 1e-7  # of the largest value: a slope that keeps rounding from breaking a shape
USABLE_SHARE = 0.99  # of a main effect's rise that interactions may use up
SMALLEST_NEED = 1e-300  # keeps a division by no need from being 0 / 0


class Certificate(NamedTuple):
    """Proof that a shape holds, or where it does not.

    Parameters
    ----------
    shape : str
        The shape that was examined.
    minimum : float
        Smallest step (or change of slope) over all inputs, in the direction of the shape; the shape
        holds where it is not negative. A lower bound of it where there are triples.
    where : tuple of float
        Values of the feature between which, or the value at which, it is found.
    """

    shape: str
    minimum: float
    where: tuple[float, ...]

    @property
    def holds(self) -> bool:
        """Whether f has the shape for every value of the other features.

        f is constant beyond the outer nodes, so convex and concave are meant between them.
        """
        return self.minimum >= 0


def certificate(
    tables: Mapping[Component, FloatArray],
    axes: Mapping[int, Sequence[Axis]],
    feature: int,
    shape: str,
) -> Certificate:
    """Smallest step of f along a feature over all inputs."""
    margins = _margins(tables, axes, feature, shape)
    if len(margins) == 0:
        return Certificate(shape, 0.0, ())
    worst = int(np.argmin(margins))
    nodes = axes[1][feature].values
    where = nodes[worst + 1 : worst + 2] if shape in CURVED else nodes[worst : worst + 2]
    return Certificate(shape, float(margins[worst]), tuple(where.tolist()))


def _oriented(table: FloatArray, component: Component, feature: int) -> FloatArray:
    """Table as (M_j, product of the others) with the given feature first."""
    moved = np.moveaxis(table, component.index(feature), 0)
    return moved.reshape(len(moved), -1)


def _steps(values: FloatArray, axis: Axis, shape: str) -> FloatArray:
    """Find the steps between nodes, or the changes of slope at them, of values (M, ...)."""
    known = values[: axis.n_regular]
    steps = np.diff(known, axis=0) * SIGNS[shape]
    if shape not in CURVED:
        return steps
    widths = np.diff(axis.values[: axis.n_regular]).reshape(-1, *[1] * (values.ndim - 1))
    return np.diff(steps / widths, axis=0, prepend=0.0, append=0.0)  # constant beyond outer nodes


def _on_finest(steps: FloatArray, coarse: Axis, fine: Axis, shape: str) -> FloatArray:
    """Carry steps to fine nodes, for a function that is linear between coarse ones.

    Changes of slope are those at the inner fine nodes.
    """
    nodes, finer = coarse.values[: coarse.n_regular], fine.values[: fine.n_regular]
    if shape in CURVED:
        answer = np.zeros(len(finer))
        answer[np.searchsorted(finer, nodes)] = steps
        return answer[1:-1]
    interval = np.clip(np.searchsorted(nodes, finer[:-1], side="right") - 1, 0, len(nodes) - 2)
    inside = (finer[:-1] >= nodes[0]) & (finer[1:] <= nodes[-1])
    return np.where(inside, steps[interval] * np.diff(finer) / np.diff(nodes)[interval], 0.0)


def _margins(
    tables: Mapping[Component, FloatArray],
    axes: Mapping[int, Sequence[Axis]],
    feature: int,
    shape: str,
) -> FloatArray:
    """Smallest step of f over all inputs, from each fine node of a feature to the next.

    For curved shapes the smallest change of slope at each inner fine node.
    """
    fine = axes[1][feature]
    total = np.zeros(max(fine.n_regular - (2 if shape in CURVED else 1), 0))
    if len(total) == 0:
        return total
    for component, table in tables.items():
        axis = axes[len(component)][feature]
        if feature not in component or axis.n_regular < 2:
            continue
        steps = _steps(_oriented(table, component, feature), axis, shape)
        worst = steps.min(axis=1)
        if len(component) > 1:
            worst = np.minimum(worst, 0.0)  # an unknown partner contributes nothing
        total += _on_finest(worst, axis, fine, shape)
    return total


def constrained(
    tables: Tables, axes: Mapping[int, Sequence[Axis]], shapes: Mapping[int, str]
) -> tuple[float, Tables]:
    """Nearby pure tables whose sum has the shapes, and what moves into the intercept.

    Main effects are projected; interactions are clipped where a main effect cannot make up for
    them. Whatever still breaks a shape, by curvature, rounding or a conflict between features, is
    repaired last. Every subset of a component must be a component too; a feature without
    components has every shape.
    """
    shaped = dict(tables)
    shift = 0.0
    shapes = {feature: shape for feature, shape in shapes.items() if (feature,) in tables}
    for feature, shape in shapes.items():
        shaped[feature,] = project_main(shaped[feature,], axes[1][feature], shape)
    for _ in range(N_SWEEPS):
        for feature, shape in shapes.items():
            if shape not in CURVED:
                _clip(shaped, axes, feature, SIGNS[shape])
        moved, shaped = purify_tables(shaped, axes)
        shift += float(moved)
        if all((_margins(shaped, axes, j, shape) >= 0).all() for j, shape in shapes.items()):
            return shift, shaped
    for feature, shape in shapes.items():
        shift += _repair(shaped, axes, feature, shape)
    return shift, shaped


def project_main(table: FloatArray, axis: Axis, shape: str) -> FloatArray:
    """Nearest main effect of the given shape under the masses of the nodes, centred."""
    from sklearn.isotonic import isotonic_regression

    known, weights = table[: axis.n_regular], axis.weights[: axis.n_regular]
    if shape in CURVED:
        fitted = _convex(axis.values[: axis.n_regular], known * SIGNS[shape], weights)
    else:
        fitted = isotonic_regression(known * SIGNS[shape], sample_weight=weights)
    fitted = fitted + RELATIVE_RAMP * np.abs(fitted).max(initial=0.0) * _ramp(axis, shape)
    projected = np.concatenate([fitted * SIGNS[shape], table[axis.n_regular :]])
    centred: FloatArray = projected - axis.weights @ projected
    return centred


def _ramp(axis: Axis, shape: str) -> FloatArray:
    """Strictly increasing or convex function on the nodes, from 0 to 1."""
    if shape not in CURVED:
        return np.linspace(0.0, 1.0, axis.n_regular)
    nodes = axis.values[: axis.n_regular]
    ramp: FloatArray = ((nodes - nodes[0]) / (np.ptp(nodes) or 1.0)) ** 2
    return ramp


def _convex(nodes: FloatArray, values: FloatArray, weights: FloatArray) -> FloatArray:
    """Weighted least squares over convex piecewise linear functions on the nodes."""
    from scipy.optimize import nnls

    if len(nodes) < 3:
        return values
    x = (nodes - nodes[0]) / (nodes[-1] - nodes[0])
    hinges = np.maximum(x[:, None] - x[1:-1], 0.0)
    columns = np.column_stack([np.ones_like(x), -np.ones_like(x), x, -x, hinges])
    scale = np.sqrt(weights)
    coefficients, _ = nnls(columns * scale[:, None], values * scale, maxiter=50 * len(x))
    fitted: FloatArray = columns @ coefficients
    return fitted


def _clip(tables: Tables, axes: Mapping[int, Sequence[Axis]], feature: int, sign: float) -> None:
    """Clip the steps of interactions that the main effect cannot make up for, in place.

    Within a coarse interval where an interaction falls, the main effect becomes linear, so that its
    whole rise counts; the interactions share that rise in proportion to what they need.
    """
    partners = [s for s in tables if feature in s and len(s) > 1]
    for order in sorted({len(s) for s in partners}):
        chosen = [s for s in partners if len(s) == order]
        coarse, fine = axes[order][feature], axes[1][feature]
        if coarse.n_regular < 2:
            continue
        steps = {
            s: np.diff(_oriented(tables[s], s, feature)[: coarse.n_regular], axis=0) * sign
            for s in chosen
        }
        needs = {s: np.maximum(-step.min(axis=1), 0.0) for s, step in steps.items()}
        total = np.sum(list(needs.values()), axis=0)
        main, rise = _linearised(tables[feature,] * sign, coarse, fine, total)
        tables[feature,] = main * sign
        share = np.minimum(USABLE_SHARE * rise / np.maximum(total, SMALLEST_NEED), 1.0)
        for s in chosen:
            clipped = np.maximum(steps[s], -(needs[s] * share)[:, None]) - steps[s]
            tables[s] = _with_steps(tables[s], s, feature, coarse, clipped * sign)


def _linearised(
    main: FloatArray, coarse: Axis, fine: Axis, needs: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Make an increasing main effect linear in coarse intervals where something is needed.

    Returns it and its rise over every coarse interval.
    """
    nodes, finer = coarse.values[: coarse.n_regular], fine.values[: fine.n_regular]
    at_nodes = np.interp(nodes, finer, main[: fine.n_regular])
    linear = np.interp(finer, nodes, at_nodes)
    interval = np.clip(np.searchsorted(nodes, finer, side="right") - 1, 0, len(nodes) - 2)
    changed = main.copy()
    changed[: fine.n_regular] = np.where(needs[interval] > 0, linear, main[: fine.n_regular])
    return changed, np.maximum(np.diff(at_nodes), 0.0)


def _with_steps(
    table: FloatArray, component: Component, feature: int, axis: Axis, added: FloatArray
) -> FloatArray:
    """Table whose steps along a feature are changed by ``added`` (n_regular - 1, others)."""
    moved = np.moveaxis(table, component.index(feature), 0).copy()
    flat = moved.reshape(len(moved), -1)
    flat[1 : axis.n_regular] += np.cumsum(added, axis=0)
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
    factor = float(np.min(rise[scaled] / fall[scaled], initial=1.0))
    if factor < 1.0:
        fall = fall * (USABLE_SHARE * factor)
        for s in partners:
            tables[s] = tables[s] * (USABLE_SHARE * factor)
    nodes = axis.values[: axis.n_regular]
    for place, outwards in ends.items():
        bend = max(fall[place] / USABLE_SHARE - rise[place], 0.0) * SIGNS[shape]
        main[: axis.n_regular] += bend * np.maximum(outwards * (nodes - nodes[place + 1]), 0.0)
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
        nodes = axes[order][feature].values[: axes[order][feature].n_regular]
        places = np.searchsorted(fine.values[: fine.n_regular], nodes[[0, -1]]) - 1
        ends |= dict(zip(places.tolist(), (-1.0, 1.0), strict=True))
    return {place: way for place, way in ends.items() if 0 <= place < fine.n_regular - 2}
