"""ComponentTable: one component on the scales of its features, as a user reads it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.anova.posterior import LEVEL, POINTWISE, Posterior
from tpnn.explain.response import RAW, RESPONSE, ScaledEffect, check_scale, compared
from tpnn.loss.links import LINKS, Link
from tpnn.table.axis import Axis
from tpnn.table.columns import require_pandas
from tpnn.table.words import originals

if TYPE_CHECKING:
    import pandas as pd

MAX_ROWS_SHOWN = 10  # of a frame, in a notebook
OWN_COLUMNS = "output", "effect", "lower", "upper", "reference", "density"  # beside the features


@dataclass(frozen=True, eq=False, repr=False)
class ComponentTable:
    """One component on the scales of its features.

    Parameters
    ----------
    names : tuple of str
        The d features.
    axes : tuple of Axis
        Nodes of each feature, in its own unit.
    effect : array of shape (M_1, ..., M_d[, n_outputs])
        Value of the component on its nodes.
    posterior : Posterior or None
        What is known about the truth behind the component; None if the model has no bands.
    density : array of shape (M_1, ..., M_d), or None
        Share of the data at each node: of the rows explained or, for main effects, of the training
        rows. None where the joint distribution is not known.
    output_names : tuple of str
        Names of the outputs; empty for one output.
    link : Link
        Link of the model, which says what the response scale is.
    ratio : str
        What effects on the response scale are called; by default as the link says.
    """

    names: tuple[str, ...]
    axes: tuple[Axis, ...]
    effect: FloatArray
    posterior: Posterior | None
    density: FloatArray | None
    output_names: tuple[str, ...] = ()
    link: Link = LINKS["identity"]
    ratio: str = ""

    @property
    def band(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper end of the pointwise band of 95 %; an error if the model has none."""
        return self.on_scale().band(LEVEL)

    def on_scale(self, scale: str = RAW, reference: Any = None) -> ScaledEffect:
        """Effect and band on the raw or on the response scale; arguments as in ``to_frame``."""
        check_scale(scale)
        uncertainty = None if self.posterior is None else self.posterior.uncertainty()
        if scale == RAW:
            return ScaledEffect(self.effect, uncertainty)
        return compared(
            self.names, self.axes, self.effect, uncertainty, self.link, reference, self.ratio
        )

    def __repr__(self) -> str:
        """Say what the component is, without its numbers."""
        nodes = " x ".join(str(axis.n_nodes) for axis in self.axes)
        outputs = f", {len(self.output_names)} outputs" if self.output_names else ""
        return (
            f"ComponentTable({' x '.join(self.names)}: {nodes} nodes{outputs}, "
            f"effects from {self.effect.min():.3g} to {self.effect.max():.3g})"
        )

    def _repr_html_(self) -> str:
        """Show the frame in a notebook, which leaves out the middle of a long one."""
        return f"<p>{escape(repr(self))}</p>{self.to_frame().to_html(max_rows=MAX_ROWS_SHOWN)}"

    def to_frame(
        self,
        scale: str = RAW,
        reference: Any = None,
        level: float | None = None,
        kind: str = POINTWISE,
    ) -> pd.DataFrame:
        """One line per node and output: feature values, effect, lower, upper and density.

        The band from ``lower`` to ``upper`` covers the true effect over 95 % of the data, on
        average; simultaneous bands cover all of it in about 95 % of fits.

        A feature that has one of these names becomes the column "effect (feature)" and so on.

        Parameters
        ----------
        scale : {"raw", "response"}, default="raw"
            On the response scale the effect is compared with that at a reference: a factor on the
            prediction for a log link (of a survival model: on the hazard), on the odds for a logit,
            else a difference. The column ``reference`` marks the line of the reference. The band
            is that of the difference, so it has no width there.
        reference : value, tuple of values or dict from feature to value, optional
            The reference of each feature; by default the most frequent level or the median.
        level : float, optional
            Level of the band, between 0 and 1. By default 0.95, or NaN for bands that a model does
            not have, such as one of another library.
        kind : {"pointwise", "simultaneous"}, default="pointwise"
            Whether the level holds at each node or for all nodes at once.
        """
        require_pandas("to_frame")
        import pandas as pd

        shape = self.effect.shape
        nodes = np.indices(shape).reshape(len(shape), -1)
        columns: dict[str, Any] = {}
        for name, axis, node in zip(self.names, self.axes, nodes, strict=False):
            while name in OWN_COLUMNS or name in columns:
                name += " (feature)"
            numbers = axis.values if axis.levels is None else np.arange(float(len(axis.values)))
            numbers = axis.with_missing(numbers, np.nan)
            values = originals(axis.kind, numbers, axis.levels)[node]
            columns[name] = pd.Series(values, dtype=values.dtype)  # levels can have any type
        if self.output_names:
            columns["output"] = np.array(self.output_names, dtype=object)[nodes[-1]]
        scaled = self.on_scale(scale, reference)
        band = map(np.ravel, scaled.band(level, kind))
        bounds = dict(zip(("lower", "upper"), band, strict=True))
        columns |= {"effect": scaled.values.ravel(), **bounds}
        if scale == RESPONSE:  # NaN is no node
            at = (np.nan,) * len(self.axes) if scaled.reference is None else scaled.reference
            columns["reference"] = (nodes[: len(at)] == np.array(at)[:, None]).all(0)
        if self.density is not None:
            columns["density"] = self.density[tuple(nodes[: len(self.axes)])]
        return pd.DataFrame(columns)


def joint_density(axes: Sequence[Axis], columns: Sequence[FloatArray]) -> FloatArray:
    """Share of the rows that are nearest to each node, (M_1, ..., M_d).

    Rows with a value that fit has not seen have no node, so that the shares add up to less than 1.

    >>> axis = Axis(np.array([0.0, 1.0]), np.array([0.5, 0.5]))
    >>> joint_density([axis], [np.array([0.1, 0.2, 0.9, np.nan])])
    array([0.5 , 0.25])
    """
    shape = tuple(axis.n_nodes + 1 for axis in axes)  # what fit has not seen is on node M
    nodes = []
    for axis, column in zip(axes, columns, strict=True):
        lower, fraction = axis.locate(column)
        nodes.append(lower + (fraction > 0.5))
    counts = np.bincount(np.ravel_multi_index(nodes, shape), minlength=math.prod(shape))
    seen = tuple(slice(size - 1) for size in shape)
    return counts.reshape(shape)[seen] / max(len(columns[0]), 1)
