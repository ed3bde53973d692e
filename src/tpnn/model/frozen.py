"""FrozenModel: what the rooms below the model know of it.

The model's methods call these rooms, so they cannot import the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

from tpnn._utils.arrays import FloatArray
from tpnn.anova.components import Component, ComponentSet
from tpnn.anova.constraints import Certificate
from tpnn.anova.facts import Facts
from tpnn.anova.posterior import Posterior
from tpnn.loss.links import Link
from tpnn.table.axis import Axis
from tpnn.table.encoder import TableEncoder
from tpnn.table.frame import Table


class FrozenModel(Protocol):
    """The part of ``AnovaModel`` that exports, sheets and edits know; see there."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def encoder(self) -> TableEncoder:
        """Nodes and masses of the features."""

    @property
    def components(self) -> ComponentSet:
        """The subsets S."""

    @property
    def tables(self) -> tuple[FloatArray, ...]:
        """Values of each component on its nodes, (M_1, ..., M_d, n_outputs)."""

    @property
    def spreads(self) -> tuple[FloatArray, ...]:
        """Standard deviation of each value over the bags."""

    @property
    def posteriors(self) -> tuple[Posterior | None, ...] | None:
        """What is known about the truth behind each component; None without bands."""

    @property
    def facts(self) -> Facts | None:
        """What the rows of the fit say about each component; None where it is not known."""

    @property
    def intercepts(self) -> FloatArray:
        """Mean of f, (n_outputs,)."""

    @property
    def link(self) -> Link:
        """From raw score to prediction."""

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of several outputs."""

    @property
    def classes(self) -> tuple[Any, ...]:
        """Labels of a classifier."""

    @property
    def has_offset(self) -> bool:
        """Whether predictions need an offset."""

    @property
    def baseline(self) -> Any:
        """Baseline hazard of a survival model."""

    @property
    def shapes(self) -> Mapping[str, str]:
        """Shape of f along some features."""

    @property
    def provenance(self) -> Any:
        """Where the model comes from."""

    @property
    def edits(self) -> Any:
        """Log of the edits, and what they replaced; None without edits."""

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features."""

    @property
    def component_names(self) -> list[tuple[str, ...]]:
        """Components as tuples of feature names."""

    def axes(self, component: Sequence[int]) -> tuple[Axis, ...]:
        """Axes of a component."""

    def offset_of(self, table: Table, offset: Any = None) -> FloatArray | None:
        """Offset of every row."""

    def raw_scores(self, X: Any, offset: Any = None) -> FloatArray:
        """Intercept plus all components."""

    def component_scores(self, X: Any) -> FloatArray:
        """Value of every component on every row."""

    def certificate(self, feature: str, shape: str | None = None) -> Certificate:
        """Smallest step of f along a feature."""

    def by_component(self) -> dict[Component, FloatArray]:
        """Grids of shape (M_1, ..., M_d, n_outputs), by component."""

    def by_output(self) -> list[dict[Component, FloatArray]]:
        """Grids of shape (M_1, ..., M_d) of each output, by component."""

    def column_scores(self, columns: Sequence[FloatArray]) -> FloatArray:
        """Component scores of rows that are numbers already, one column for each feature."""


Model = TypeVar("Model", bound=FrozenModel)
