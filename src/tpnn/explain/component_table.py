"""ComponentTable: one component on the scales of its features, as a user reads it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from tpnn._typing import FloatArray
from tpnn.table.axis import Axis
from tpnn.table.words import originals

if TYPE_CHECKING:
    import pandas as pd

BAND_DEVIATIONS = 2.0  # half the width of a band, in standard deviations over the bags
MAX_ROWS_SHOWN = 10  # of a frame, in a notebook
OWN_COLUMNS = ("output", "effect", "lower", "upper", "density")  # of a frame, beside the features


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
    spread : array, shape of ``effect``
        Standard deviation of each value over the bags.
    density : array of shape (M_1, ..., M_d), or None
        Share of the data at each node: of the rows explained or, for main effects, of the training
        rows. None where the joint distribution is not known.
    output_names : tuple of str
        Names of the outputs; empty for one output.
    """

    names: tuple[str, ...]
    axes: tuple[Axis, ...]
    effect: FloatArray
    spread: FloatArray
    density: FloatArray | None
    output_names: tuple[str, ...] = ()

    @property
    def band(self) -> tuple[FloatArray, FloatArray]:
        """Effect minus and plus two standard deviations over the bags."""
        reach = BAND_DEVIATIONS * self.spread
        return self.effect - reach, self.effect + reach

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

    def to_frame(self) -> pd.DataFrame:
        """One line per node and output: feature values, effect, lower, upper and density.

        A feature that has one of these names becomes the column "effect (feature)" and so on.
        """
        import pandas as pd

        shape = self.effect.shape
        places = np.indices(shape).reshape(len(shape), -1)
        columns: dict[str, Any] = {}
        for name, axis, place in zip(self.names, self.axes, places, strict=False):
            while name in OWN_COLUMNS or name in columns:
                name += " (feature)"
            columns[name] = originals(axis.kind, _numbers(axis), axis.levels)[place]
        if self.output_names:
            columns["output"] = np.array(self.output_names, dtype=object)[places[-1]]
        lower, upper = self.band
        columns |= {"effect": self.effect.ravel(), "lower": lower.ravel(), "upper": upper.ravel()}
        if self.density is not None:
            columns["density"] = self.density[tuple(places[: len(self.axes)])]
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
    known = tuple(slice(size - 1) for size in shape)
    return counts.reshape(shape)[known] / max(len(columns[0]), 1)


def _numbers(axis: Axis) -> FloatArray:
    """Nodes as places in the list of their labels where they have labels, else as they are."""
    if axis.levels is None:
        return axis.values
    return np.append(np.arange(float(axis.n_regular)), [np.nan] * axis.has_missing)
