"""Constrain: the nearby model whose sum has a shape along some features."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.anova.components import Component, canonical, in_order, resolve_features
from tpnn.anova.posterior import Posterior
from tpnn.anova.shapes import LINEAR, Tables, check_shape, constrained
from tpnn.model.evidence import ComponentTest, Evidence
from tpnn.model.model import AnovaModel, changed, restricted, tables_by_output

RELATIVE_ROUNDING = 1e-12  # of the largest value of a model
FEW_DIGITS = 1e-296  # below, doubles are too coarse to average to zero


def constrain(
    model: AnovaModel, shapes: Mapping[Any, str], features: Sequence[int] = ()
) -> AnovaModel:
    """Nearby model that has these shapes, by feature, with certificates of at least zero.

    Components are added where clipped interactions leave something of lower order, such as the main
    effect of a feature that has a shape. The interactions of a linear feature are left out.
    Spreads, posteriors and tests stay as they were: the projection moves the mean of the bags only.
    A feature in the remainder is refused. Every step rounds, and some go on until a shape holds, so
    features are visited in an order that does not depend on that of the columns: by default by
    name, else that of ``features``.
    """
    names = model.feature_names
    indices = resolve_features(shapes, names, "shapes")
    for index, shape in indices.items():
        check_shape(model.encoder, index, shape, "shapes")
    if model.remainder is not None:
        model.remainder.refuse_steps(names, indices, "shapes")
    linear = {index for index, shape in indices.items() if shape == LINEAR}
    bent = [s for s in model.components if len(s) > 1 and not linear.isdisjoint(s)]
    if bent:
        straight = [s for s in model.components if s not in bent]
        model = restricted(model, straight, model.remainder)
    wider = _with_subsets(model)
    ordered = features or sorted(range(len(names)), key=names.__getitem__)
    results = [_shaped(wider, tables, indices, ordered) for tables in tables_by_output(wider)]
    shifts = np.array([shift for shift, _ in results])
    tables = [np.stack([shaped[s] for _, shaped in results], -1) for s in wider.components]
    rounding = rounding_error(tables)
    kept = [
        component in model.components.components
        or bool(np.abs(table).max() > (0.0 if _has_shape(component, indices) else rounding))
        for component, table in zip(wider.components, tables, strict=True)
    ]
    places = [place for place, is_kept in enumerate(kept) if is_kept]
    tests = wider.evidence.tests
    evidence = replace(
        wider.evidence.of_components(places),
        tests=tests and tests._replace(components=tuple(compress(tests.components, kept))),
    )
    return changed(
        model,
        **in_order(dict(compress(zip(wider.components, tables, strict=True), kept))),
        intercepts=model.intercepts + shifts,
        evidence=evidence,
        shapes={names[index]: shape for index, shape in indices.items()},
    )


def _shaped(
    model: AnovaModel, tables: Tables, shapes: Mapping[int, str], features: Sequence[int]
) -> tuple[float, Tables]:
    """Constrain the tables of one output, with features in a fixed order."""
    ordered = {  # copies: sums round by where their numbers lie in memory
        s: np.transpose(tables[tuple(sorted(s))], np.argsort(np.argsort(s))).copy("C")
        for s in canonical(tables, features)
    }
    in_order = {feature: shapes[feature] for feature in features if feature in shapes}
    shift, shaped = constrained(ordered, model.encoder.axes, in_order)
    return shift, {tuple(sorted(s)): np.transpose(t, np.argsort(s)) for s, t in shaped.items()}


def _has_shape(component: Component, shapes: Mapping[int, str]) -> bool:
    """Whether it is a main effect with a shape, which interactions of any size may lean on."""
    return len(component) == 1 and component[0] in shapes


def rounding_error(tables: Iterable[FloatArray]) -> float:
    """Size up to which values are rounding error; a component below it is left out.

    >>> rounding_error([np.array([1.0, -2.0]), np.array([0.5])])
    2e-12
    """
    sizes = (float(np.abs(table).max()) for table in tables)
    return max(RELATIVE_ROUNDING * max(sizes, default=0.0), FEW_DIGITS)


def _with_subsets(model: AnovaModel) -> AnovaModel:
    """Add all subsets of the components; new ones are zero without error."""
    components, evidence = model.components.with_subsets(), model.evidence
    zeros = model.encoder.zeros(components, len(model.intercepts))

    def filled(
        values: Sequence[Any], new: Callable[[FloatArray], Any] = lambda zero: zero
    ) -> tuple[Any, ...]:
        old = dict(zip(model.components, values, strict=True))
        return tuple(old[s] if s in old else new(zero) for s, zero in zeros.items())

    spreads, posteriors, tests = evidence.spreads, evidence.posteriors, evidence.tests
    if tests is not None:
        lines = filled(tests.components, lambda _: ComponentTest())
        tests = tests._replace(components=lines)
    return changed(
        model,
        components=components,
        tables=filled(model.tables),
        evidence=Evidence(
            spreads=spreads and filled(spreads),
            posteriors=posteriors and filled(posteriors, lambda zero: Posterior.zero(zero.shape)),
            tests=tests,
        ),
    )
