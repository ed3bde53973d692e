"""Page of a comparison: scores, components, curves over each other, rows that flip."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tpnn._typing import FloatArray
from tpnn.anova.components import Component
from tpnn.model.model import AnovaModel
from tpnn.pages.charts import Line, chart, charts
from tpnn.pages.page import Section, page, table
from tpnn.table.axis import Axis
from tpnn.table.words import node_words

if TYPE_CHECKING:
    import pandas as pd

MOST_CHARTS = 24


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
            (charts(_curves(comparison)),),
        ),
        Section("Flips", "Rows for which the two models decide differently.", (table(flips),)),
    ]
    lede = f"{second} beside {first}, component by component."
    return page(f"{first} and {second}", lede, facts, sections)


def _curves(comparison: Compared) -> list[str]:
    """Draw the main effects of the first output, the largest differences first."""
    sizes = {
        component: float(np.abs(values).max())
        for component, values in comparison.difference.by_component().items()
        if len(component) == 1
    }
    ranked = sorted(sizes, key=lambda component: -sizes[component])[:MOST_CHARTS]
    return [_curve(comparison, component) for component in ranked]


def _curve(comparison: Compared, component: Component) -> str:
    (axis,) = comparison.difference.axes(component)
    (name,) = (comparison.difference.feature_names[feature] for feature in component)
    n_regular = axis.n_regular - axis.has_unseen
    has_levels = axis.levels is not None
    x = np.arange(float(n_regular)) if has_levels else axis.values[:n_regular]
    both = (comparison.old, comparison.given[0]), (comparison.new, comparison.given[1])
    with_bands = all(given.posteriors is not None for _, given in both)
    lines = []
    for label, (model, given) in zip(comparison.names, both, strict=True):
        values = model.by_component().get(component)
        y = np.zeros(n_regular) if values is None else values[:n_regular, 0]
        reach = _reach(given, name, axis) if with_bands else None
        lines.append(Line(label, x, y, None if reach is None else reach[:n_regular]))
    return chart(name, lines, node_words(axis)[:n_regular] if has_levels else None)


def _reach(given: AnovaModel, name: str, axis: Axis) -> FloatArray | None:
    """Half the width of a model's own band at common nodes.

    It is zero where the model has no main effect, and None where an edit made the band void.
    """
    names = given.component_names
    if (name,) not in names or given.posteriors is None:
        return np.zeros(axis.n_nodes)
    place = names.index((name,))
    posterior = given.posteriors[place]
    if posterior is None:
        return None
    (own,) = given.axes(given.components.components[place])
    reach = posterior.uncertainty().half_widths()[..., 0]
    if axis.levels is None:
        regular = own.values[: own.n_regular]
        return np.interp(axis.values[: axis.n_regular], regular, reach[: own.n_regular])
    known = dict(zip(own.levels or (), reach, strict=False))
    return np.array([known.get(level, 0.0) for level in axis.levels])
