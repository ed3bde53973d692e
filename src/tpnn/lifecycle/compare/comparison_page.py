"""Page of a comparison: scores, components, curves and heat maps, rows that flip."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.anova.components import Component
from tpnn.explain.report.static import Line, Section, chart, charts, page, table
from tpnn.lifecycle.compare.pairs import pair_maps, short_words
from tpnn.model.model import AnovaModel
from tpnn.table.axis import Axis

if TYPE_CHECKING:
    import pandas as pd


MOST_CHARTS, MOST_MAPS = 24, 10


class Compared(Protocol):
    """What the page shows of a ``Comparison``; see there."""

    @property
    def names(self) -> tuple[str, str]:
        """Names of the two models."""

    @property
    def old(self) -> AnovaModel:
        """The old model."""

    @property
    def new(self) -> AnovaModel:
        """The new model."""

    @property
    def difference(self) -> AnovaModel:
        """New less old."""

    @property
    def given(self) -> tuple[AnovaModel, AnovaModel]:
        """The models as they were."""

    @property
    def frame(self) -> pd.DataFrame:
        """Components."""

    @property
    def scores(self) -> pd.DataFrame:
        """Scores."""

    @property
    def flips(self) -> pd.DataFrame:
        """Rows that flip."""

    def row_differences(self) -> pd.DataFrame:
        """Differences of components on rows."""


def comparison_page(comparison: Compared) -> str:
    """Write the page."""
    first, second = comparison.names
    frame, flips = comparison.frame, comparison.flips
    n_rows = len(comparison.row_differences())
    moved = frame[frame["component"] != "(intercept)"]["status"].value_counts()
    facts: list[tuple[str, Any]] = [("Rows", n_rows), ("Decisions that flip", len(flips))]
    facts += [(f"Components {status}", int(count)) for status, count in moved.items()]
    mains, maps = _ranked(comparison, 1)[:MOST_CHARTS], _maps(comparison)
    sections = [
        Section(
            "Scores",
            "Both models on the same rows. The standard error is that of the paired difference."
            if len(comparison.scores)
            else "No targets were given.",
            (table(comparison.scores),) if len(comparison.scores) else (),
        ),
        Section(
            "Components",
            "Means of absolute contributions over the rows, both models split under the masses of "
            "these rows. The differences of a row sum to the difference of its raw scores.",
            (table(frame),),
        ),
        Section(
            "Curves",
            "Main effects over each other, those that differ most first; bands of 95 % where both "
            "models have them.",
            (charts([_curve(comparison, *one) for one in mains]),),
        ),
        Section(
            "Interactions",
            f"Pairs that differ most, up to {MOST_MAPS}, the old and the new grid of values and "
            "their difference in the same colours. Every node has the same width, so numbers go by "
            "rank."
            if maps
            else "No pair differs between the two models.",
            tuple(maps),
        ),
        Section("Flips", "Rows for which the two models decide differently.", (table(flips),)),
    ]
    lede = f"{second} beside {first}, component by component."
    return page(f"{first} and {second}", lede, facts, sections)


def _ranked(comparison: Compared, order: int) -> list[tuple[Component, int]]:
    """Components of an order with the number of an output, the largest differences first."""
    difference, frame = comparison.difference, comparison.frame
    named = {" x ".join(n): s for n, s in zip(difference.component_names, difference.components,
                                              strict=True) if len(s) == order}  # fmt: skip
    outputs = difference.output_names or ("",)
    pairs = zip(frame["component"], frame.get("output", [""] * len(frame)), strict=True)
    return [(named[name], outputs.index(output)) for name, output in pairs if name in named]


def _title(comparison: Compared, component: Component, output: int) -> str:
    names = [comparison.difference.feature_names[feature] for feature in component]
    outputs = comparison.difference.output_names
    return " × ".join(names) + (f": {outputs[output]}" if outputs else "")


def _maps(comparison: Compared) -> list[str]:
    """Draw the pairs that differ most; pairs that are the same in both models are left out."""
    first, second = comparison.names
    models = {first: comparison.old, second: comparison.new,
              f"{second} less {first}": comparison.difference}  # fmt: skip
    values = comparison.difference.by_component()
    found: list[str] = []
    for component, output in _ranked(comparison, 2):
        if values[component][..., output].any() and len(found) < MOST_MAPS:
            title = _title(comparison, component, output)
            found.append(pair_maps(title, models, component, output))
    return found


def _curve(comparison: Compared, component: Component, output: int) -> str:
    (axis,) = comparison.difference.axes(component)
    (name,) = (comparison.difference.feature_names[feature] for feature in component)
    n_regular = axis.n_regular - axis.has_unseen
    has_levels = axis.levels is not None
    x = np.arange(float(n_regular)) if has_levels else axis.values[:n_regular]
    both = (comparison.old, comparison.given[0]), (comparison.new, comparison.given[1])
    with_bands = all(given.evidence.posteriors is not None for _, given in both)
    lines = []
    for label, (model, given) in zip(comparison.names, both, strict=True):
        values = model.by_component().get(component)
        y = np.zeros(n_regular) if values is None else values[:n_regular, output]
        reach = _reach(given, name, axis, output) if with_bands else None
        lines.append(Line(label, x, y, None if reach is None else reach[:n_regular]))
    words, title = short_words(axis), _title(comparison, component, output)
    missing = _at_missing(comparison, component, output)
    if has_levels:
        return chart(title, lines, words[:n_regular], note=missing)
    return chart(title, lines, ends=(words[0], words[n_regular - 1]), note=missing)


def _at_missing(comparison: Compared, component: Component, output: int) -> str:
    """Effects of both models where the feature is missing, if rows are; they are on no curve."""
    (axis,) = comparison.difference.axes(component)
    if not axis.has_missing or axis.weights[axis.missing_node] == 0:
        return ""
    values = [model.by_component().get(component) for model in (comparison.old, comparison.new)]
    old, new = (0.0 if v is None else v[axis.missing_node, output] for v in values)
    return f"Missing values: {old:.4g} and {new:.4g}."


def _reach(given: AnovaModel, name: str, axis: Axis, output: int) -> FloatArray | None:
    """Half the width of a model's own band at common nodes.

    It is zero where the model has no main effect, and None where an edit made the band void.
    """
    names = given.component_names
    if (name,) not in names or given.evidence.posteriors is None:
        return np.zeros(axis.n_nodes)
    place = names.index((name,))
    posterior = given.evidence.posteriors[place]
    if posterior is None:
        return None
    (own,) = given.axes(given.components.components[place])
    reach = posterior.uncertainty().half_widths()[..., output]
    if axis.levels is None:
        regular = own.values[: own.n_regular]
        return np.interp(axis.values[: axis.n_regular], regular, reach[: own.n_regular])
    known = dict(zip(own.levels or (), reach, strict=False))
    return np.array([known.get(level, 0.0) for level in axis.levels])
