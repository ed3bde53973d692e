"""Calibration: what held-out rows say about the predictions of a model.

A prediction interval is conformal: with the score s_i = |y_i - mu(x_i)| / scale(x_i) of held-out
rows, and q the score that a share ``coverage`` of them do not exceed,

    mu(x) +- q scale(x),    scale(x) = exp(sum_j g_j(x_j) + h(f(x))).

A set of classes holds those whose probability is at least 1 - q, with the score 1 - p(y_i | x_i).
If new rows are like the held-out ones, the share of them whose target lies inside is ``coverage``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from tpnn._typing import Float32Array, FloatArray, RealArray
from tpnn.table.axis import read_only


class Scale(NamedTuple):
    """How far targets lie from predictions: an additive model of log |residual|.

    Parameters
    ----------
    features : tuple of int
        The features j.
    tables : tuple of array of shape (M_j, n_outputs)
        g_j on the nodes of main effects.
    knots, heights : array of shape (n_knots, n_outputs)
        Raw scores, increasing, and h there, the constant included; linear between them.
    """

    features: tuple[int, ...]
    tables: tuple[FloatArray, ...]
    knots: FloatArray
    heights: FloatArray


class GroupScores(NamedTuple):
    """Sorted scores (n_scores, n_outputs) of the held-out rows at one node of a feature."""

    feature: int
    node: int
    scores: Float32Array


class Reliability(NamedTuple):
    """Means of held-out rows in about ten groups, from the smallest to the largest prediction.

    Parameters
    ----------
    predicted, actual : array of shape (n_groups,)
        Mean prediction and mean target of each group.
    masses : array of shape (n_groups,)
        Share of the mass of all held-out rows.
    """

    predicted: FloatArray
    actual: FloatArray
    masses: FloatArray


@dataclass(frozen=True, eq=False, kw_only=True)
class Calibration:
    """What held-out rows say about the predictions of a model.

    Parameters
    ----------
    scores : array of shape (n_scores, n_outputs)
        Score at the ranks 1, 2, ... of n_scores + 1, sorted; one column for the classes.
    groups : tuple of GroupScores
        The same for each value of features that have few.
    scale : Scale, optional
        Scale of numbers; None for classes.
    reliability : tuple of Reliability
        Predictions beside targets, for each output.
    intercept_errors : array of shape (n_outputs,)
        Standard error of each intercept.
    """

    scores: Float32Array
    groups: tuple[GroupScores, ...]
    scale: Scale | None
    reliability: tuple[Reliability, ...]
    intercept_errors: FloatArray

    @property
    def arrays(self) -> tuple[RealArray, ...]:
        """All arrays, in a fixed order."""
        scale = () if self.scale is None else (self.scale.knots, self.scale.heights)
        tables = () if self.scale is None else self.scale.tables
        groups = (group.scores for group in self.groups)
        found = (array for one in self.reliability for array in one)
        return (self.scores, self.intercept_errors, *groups, *found, *scale, *tables)

    @property
    def group_features(self) -> tuple[int, ...]:
        """Features by whose values the rows can be grouped."""
        return tuple(dict.fromkeys(group.feature for group in self.groups))

    def group_of(self, feature: int) -> dict[int, Float32Array]:
        """Scores at each node of a feature."""
        return {group.node: group.scores for group in self.groups if group.feature == feature}

    def frozen(self) -> Calibration:
        """Make its arrays read-only."""
        return self._with([read_only(array) for array in self.arrays])

    def renumbered(self, place: Mapping[int, int]) -> Calibration:
        """Give features other numbers."""
        groups = tuple(group._replace(feature=place[group.feature]) for group in self.groups)
        scale = self.scale
        moved = scale and scale._replace(features=tuple(place[j] for j in scale.features))
        return replace(self, groups=groups, scale=moved)

    def _with(self, arrays: list[Any]) -> Calibration:
        """Put other arrays, in the order of ``arrays``, in their places."""
        remaining = iter(arrays)
        scores, errors = next(remaining), next(remaining)
        groups = tuple(group._replace(scores=next(remaining)) for group in self.groups)
        found = tuple(Reliability(*(next(remaining) for _ in one)) for one in self.reliability)
        scale = self.scale
        if scale is not None:
            knots, heights = next(remaining), next(remaining)
            scale = Scale(scale.features, tuple(remaining), knots, heights)
        return Calibration(
            scores=scores, groups=groups, scale=scale, reliability=found, intercept_errors=errors
        )

    def as_dict(self) -> dict[str, Any]:
        """Return all fields as lists that JSON can hold."""
        scale = self.scale
        return {
            "scores": self.scores.tolist(),
            "groups": [[group.feature, group.node, group.scores.tolist()] for group in self.groups],
            "scale": scale
            and {
                "features": list(scale.features),
                "tables": [table.tolist() for table in scale.tables],
                "knots": scale.knots.tolist(),
                "heights": scale.heights.tolist(),
            },
            "reliability": [
                {name: array.tolist() for name, array in one._asdict().items()}
                for one in self.reliability
            ],
            "intercept_errors": self.intercept_errors.tolist(),
        }

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Calibration:
        """Make it from what ``as_dict`` returned."""
        scale = stored["scale"]
        return cls(
            scores=_numbers(stored["scores"]).astype(np.float32),
            groups=tuple(
                GroupScores(feature, node, _numbers(scores).astype(np.float32))
                for feature, node, scores in stored["groups"]
            ),
            scale=scale
            and Scale(
                features=tuple(scale["features"]),
                tables=tuple(_numbers(table) for table in scale["tables"]),
                knots=_numbers(scale["knots"]),
                heights=_numbers(scale["heights"]),
            ),
            reliability=tuple(
                Reliability(*(_numbers(one[name]) for name in Reliability._fields))
                for one in stored["reliability"]
            ),
            intercept_errors=_numbers(stored["intercept_errors"]),
        )

    def packed(self) -> tuple[dict[str, Any], dict[str, RealArray]]:
        """Header and arrays of a file, of which ``unpacked`` makes the same calibration."""
        header = {
            "groups": [[group.feature, group.node] for group in self.groups],
            "features": None if self.scale is None else list(self.scale.features),
            "n_reliabilities": len(self.reliability),
            "shapes": [list(array.shape) for array in self.arrays],
        }
        single, double = self._split()
        return header, {
            "calibration_scores": _flat(single).astype(np.float32),
            "calibration_numbers": _flat(double),
        }

    @classmethod
    def unpacked(cls, header: Mapping[str, Any], arrays: Mapping[str, RealArray]) -> Calibration:
        """Make it from what ``packed`` returned."""
        nothing, features = np.empty(0), header["features"]
        empty = cls(
            scores=np.empty(0, np.float32),
            groups=tuple(GroupScores(*group, np.empty(0, np.float32)) for group in header["groups"]),
            scale=None
            if features is None
            else Scale(tuple(features), (nothing,) * len(features), nothing, nothing),
            reliability=(Reliability(nothing, nothing, nothing),) * header["n_reliabilities"],
            intercept_errors=nothing,
        )
        flat = {
            np.dtype(np.float32): arrays["calibration_scores"],
            np.dtype(np.float64): arrays["calibration_numbers"],
        }
        places, found = dict.fromkeys(flat, 0), []
        for place, shape in zip(empty.arrays, header["shapes"], strict=True):
            start, kind = places[place.dtype], place.dtype
            places[kind] = start + math.prod(shape)
            found.append(flat[kind][start : places[kind]].reshape(shape))
        return empty._with(found)

    def _split(self) -> tuple[list[RealArray], list[RealArray]]:
        """Arrays in single precision, and the others."""
        single = [array for array in self.arrays if array.dtype == np.float32]
        return single, [array for array in self.arrays if array.dtype != np.float32]

    def first_broken_rule(self, sizes: tuple[int, ...], n_outputs: int) -> str | None:
        """Return the rule that a field breaks, or None; ``sizes`` are numbers of nodes."""
        if not all(np.isfinite(array).all() for array in self.arrays):
            return "numbers must be finite"
        kept = (self.scores, *(group.scores for group in self.groups))
        width = 1 if self.scale is None else n_outputs
        sorted_up = all(s.ndim == 2 and s.shape[1] == width for s in kept)
        if not sorted_up or any((np.diff(s, axis=0) < 0).any() or (s < 0).any() for s in kept):
            return "scores must be sorted and not negative"
        for group in self.groups:
            if not (_is_place(group.feature, sizes) and 0 <= group.node < sizes[group.feature]):
                return "groups must be nodes of features"
        if self.intercept_errors.shape != (n_outputs,) or (self.intercept_errors < 0).any():
            return "every intercept must have a standard error"
        if any(len({array.shape for array in one}) > 1 for one in self.reliability):
            return "every group of rows must have its means"
        return None if self.scale is None else _broken_scale(self.scale, sizes, n_outputs)


def _broken_scale(scale: Scale, sizes: tuple[int, ...], n_outputs: int) -> str | None:
    if not all(_is_place(feature, sizes) for feature in scale.features):
        return "the scale must be one of features"
    shapes = [(sizes[feature], n_outputs) for feature in scale.features]
    if shapes != [table.shape for table in scale.tables]:
        return "the scale must have the nodes of its features"
    knots = scale.knots
    fits = knots.shape == scale.heights.shape and knots.ndim == 2 and len(knots) > 0
    if not fits or knots.shape[1] != n_outputs or (np.diff(knots, axis=0) < 0).any():
        return "the knots of the scale must increase"
    return None


def _is_place(feature: Any, sizes: tuple[int, ...]) -> bool:
    return type(feature) is int and 0 <= feature < len(sizes)


def _flat(arrays: list[RealArray]) -> RealArray:
    return np.concatenate([np.empty(0), *(array.ravel() for array in arrays)])


def _numbers(values: Any) -> FloatArray:
    """Nested lists of numbers as an array of doubles; no text is taken for a number."""
    array = np.array(values)
    if array.dtype.kind not in "iuf" and array.size:
        raise TypeError(f"numbers are needed, found {array.dtype}")
    return array.astype(np.float64)
