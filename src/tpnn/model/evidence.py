"""Baseline: the cumulative hazard of a Cox model where the raw score is zero."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from tpnn._utils.arrays import Float32Array, FloatArray, RealArray
from tpnn.loss.links import LINKS
from tpnn.loss.targets import checked_numbers
from tpnn.table.axis import read_only


class Baseline(NamedTuple):
    """Breslow's cumulative baseline hazard H_0, a step function of time.

    Parameters
    ----------
    times : array of shape (n_times,)
        Distinct times at which events were observed, increasing.
    log_hazard : array of shape (n_times,)
        log H_0 from each of these times on. Logarithms, because offsets of several hundred push
        H_0 itself out of the range of floats.
    """

    times: FloatArray
    log_hazard: FloatArray

    def frozen(self) -> Baseline:
        """Make its arrays read-only."""
        return Baseline(read_only(self.times), read_only(self.log_hazard))

    def survival(self, raw: FloatArray, times: Any) -> FloatArray:
        """S(t | x) = exp(-H_0(t) exp(f(x))) for raw scores f(x), shape (n_rows, n_times)."""
        steps = np.searchsorted(self.times, checked_numbers("times", times), side="right")
        log_hazard = raw[:, None] + np.append(-np.inf, self.log_hazard)[steps]
        survival: FloatArray = np.exp(-LINKS["log"].inverse(log_hazard))
        return survival


class Scale(NamedTuple):
    """An additive model of a logarithm, of |residuals| or of standard errors.

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


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Calibration:
    """What held-out rows say about the predictions of a model.

    Parameters
    ----------
    scores : array of shape (n_scores, n_outputs)
        Score at the ranks 1, 2, ... of n_scores + 1, sorted; one column for the classes, no rows
        without intervals.
    groups : tuple of GroupScores
        The same for each value of features that have few.
    scale : Scale, optional
        Scale of the residuals of numbers; None for classes.
    reliability : tuple of Reliability
        Predictions beside targets, for each output.
    errors : Scale, optional
        Standard error of the raw score.
    """

    scores: Float32Array = field(default_factory=lambda: np.empty((0, 1), np.float32))
    groups: tuple[GroupScores, ...] = ()
    scale: Scale | None = None
    reliability: tuple[Reliability, ...] = ()
    errors: Scale | None = None

    def __repr__(self) -> str:
        return f"Calibration({len(self.scores)} scores, {len(self.groups)} groups)"

    @property
    def arrays(self) -> tuple[RealArray, ...]:
        """All arrays, in a fixed order."""
        groups = (group.scores for group in self.groups)
        found = (array for one in self.reliability for array in one)
        scales = (_scale_arrays(scale) for scale in (self.scale, self.errors))
        return (self.scores, *groups, *found, *(array for arrays in scales for array in arrays))

    @property
    def group_features(self) -> tuple[int, ...]:
        """Features by whose values the rows can be grouped."""
        return tuple(dict.fromkeys(group.feature for group in self.groups))

    def group_of(self, feature: int) -> dict[int, Float32Array]:
        """Scores at each node of a feature."""
        return {group.node: group.scores for group in self.groups if group.feature == feature}

    def frozen(self) -> Calibration:
        """Make its arrays read-only."""
        return self._with(map(read_only, self.arrays))

    def renumbered(self, place: Mapping[int, int]) -> Calibration:
        """Give features other numbers."""
        groups = tuple(group._replace(feature=place[group.feature]) for group in self.groups)
        scale, errors = (
            one and one._replace(features=tuple(place[j] for j in one.features))
            for one in (self.scale, self.errors)
        )
        return replace(self, groups=groups, scale=scale, errors=errors)

    def _with(self, arrays: Iterable[Any]) -> Calibration:
        """Put other arrays, in the order of ``arrays``, in their places."""
        remaining = iter(arrays)
        scores = next(remaining)
        groups = tuple(group._replace(scores=next(remaining)) for group in self.groups)
        found = tuple(Reliability(*islice(remaining, len(one))) for one in self.reliability)
        scales = []
        for one in (self.scale, self.errors):
            if one is not None:
                knots, heights = islice(remaining, 2)
                tables = tuple(islice(remaining, len(one.features)))
                one = Scale(one.features, tables, knots, heights)
            scales.append(one)
        return Calibration(
            scores=scores, groups=groups, scale=scales[0], reliability=found, errors=scales[1]
        )

    def as_dict(self) -> dict[str, Any]:
        """Return all fields as lists that JSON can hold."""
        return {
            "scores": self.scores.tolist(),
            "groups": [[group.feature, group.node, group.scores.tolist()] for group in self.groups],
            "scale": _scale_dict(self.scale),
            "reliability": [
                {name: array.tolist() for name, array in one._asdict().items()}
                for one in self.reliability
            ],
            "errors": _scale_dict(self.errors),
        }

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Calibration:
        """Make it from what ``as_dict`` returned."""
        scores = stored["scores"]
        return cls(
            scores=_numbers(scores).astype(np.float32) if scores else cls().scores,
            groups=tuple(
                GroupScores(feature, node, _numbers(found).astype(np.float32))
                for feature, node, found in stored["groups"]
            ),
            scale=_scale_of(stored["scale"]),
            reliability=tuple(
                Reliability(*(_numbers(one[name]) for name in Reliability._fields))
                for one in stored["reliability"]
            ),
            errors=_scale_of(stored["errors"]),
        )

    def packed(self) -> tuple[dict[str, Any], dict[str, RealArray]]:
        """Header and arrays of a file, of which ``unpacked`` makes the same calibration."""
        scales = {"scale": self.scale, "errors": self.errors}
        header = {
            "groups": [[group.feature, group.node] for group in self.groups],
            **{name: None if one is None else list(one.features) for name, one in scales.items()},
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
        nothing, none = np.empty(0), np.empty(0, np.float32)
        n_reliabilities = header["n_reliabilities"]
        if n_reliabilities > len(header["shapes"]):  # a huge number would take all memory
            raise ValueError("every reliability must have arrays")
        scale, errors = (
            None if header[name] is None
            else Scale(tuple(header[name]), (nothing,) * len(header[name]), nothing, nothing)
            for name in ("scale", "errors")
        )  # fmt: skip
        empty = cls(
            groups=tuple(GroupScores(feature, node, none) for feature, node in header["groups"]),
            scale=scale,
            reliability=(Reliability(nothing, nothing, nothing),) * n_reliabilities,
            errors=errors,
        )
        flat = {
            np.dtype(np.float32): arrays["calibration_scores"],
            np.dtype(np.float64): arrays["calibration_numbers"],
        }
        if any(array.dtype != kind for kind, array in flat.items()):
            raise TypeError("calibration: scores must be single numbers, all others doubles")
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
            is_feature = _is_place(group.feature, len(sizes))
            if not is_feature or not _is_place(group.node, sizes[group.feature]):
                return "groups must be nodes of features"
        if any(len({array.shape for array in one}) > 1 for one in self.reliability):
            return "every group of rows must have its means"
        scales = (one for one in (self.scale, self.errors) if one is not None)
        broken = (_broken_scale(scale, sizes, n_outputs) for scale in scales)
        return next((rule for rule in broken if rule is not None), None)


def _scale_arrays(scale: Scale | None) -> tuple[RealArray, ...]:
    return () if scale is None else (scale.knots, scale.heights, *scale.tables)


def _scale_dict(scale: Scale | None) -> dict[str, Any] | None:
    return scale and {
        "features": list(scale.features),
        "tables": [table.tolist() for table in scale.tables],
        "knots": scale.knots.tolist(),
        "heights": scale.heights.tolist(),
    }


def _scale_of(stored: Mapping[str, Any] | None) -> Scale | None:
    if stored is None:
        return None
    return Scale(
        features=tuple(stored["features"]),
        tables=tuple(_numbers(table) for table in stored["tables"]),
        knots=_numbers(stored["knots"]),
        heights=_numbers(stored["heights"]),
    )


def _broken_scale(scale: Scale, sizes: tuple[int, ...], n_outputs: int) -> str | None:
    if not all(_is_place(feature, len(sizes)) for feature in scale.features):
        return "the scale must be one of features"
    shapes = [(sizes[feature], n_outputs) for feature in scale.features]
    if shapes != [table.shape for table in scale.tables]:
        return "the scale must have the nodes of its features"
    knots = scale.knots
    fits = knots.shape == scale.heights.shape and knots.ndim == 2 and len(knots) > 0
    if not fits or knots.shape[1] != n_outputs or (np.diff(knots, axis=0) < 0).any():
        return "the knots of the scale must increase"
    return None


def _is_place(number: Any, size: int) -> bool:
    return type(number) is int and 0 <= number < size


def _flat(arrays: list[RealArray]) -> RealArray:
    return np.concatenate([np.empty(0), *(array.ravel() for array in arrays)])


def _numbers(values: Any) -> FloatArray:
    """Nested lists of numbers as an array of doubles; no text is taken for a number."""
    array = np.array(values)
    if array.dtype.kind not in "iuf" and array.size:
        raise TypeError(f"numbers are needed, found {array.dtype}")
    return array.astype(np.float64)


class ComponentFacts(NamedTuple):
    """What the rows of a fit say about one component; NaN where it is not known.

    Parameters
    ----------
    degrees : float
        Effective degrees of freedom: the coefficients of its smooth part that the data determine.
    p_value : float
        Of the test that the component is zero, given all others.
    loss_without : float
        Held-out loss if the component is left out, in the unit of the target.
    loss_error : float
        Standard error of the difference to the loss with it.
    concurvity : float
        Share of its variance over the training rows that other components could imitate.
    """

    degrees: float = math.nan
    p_value: float = math.nan
    loss_without: float = math.nan
    loss_error: float = math.nan
    concurvity: float = math.nan


class Facts(NamedTuple):
    """What the rows of a fit say about its components.

    Parameters
    ----------
    loss_name : str
        Name of the loss.
    loss : float
        Held-out loss of the bags, in the unit of the target.
    components : tuple of ComponentFacts
        One for each component of the model.
    """

    loss_name: str
    loss: float
    components: tuple[ComponentFacts, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the facts as a dict that JSON can hold; what is not known is None."""
        lines = [[None if math.isnan(value) else value for value in s] for s in self.components]
        return {"loss_name": self.loss_name, "loss": self.loss, "components": lines}

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Facts:
        """Make them from what ``as_dict`` returned; numbers that are not known are left out."""
        return cls(stored["loss_name"], stored["loss"], tuple(map(_line, stored["components"])))

    def first_broken_rule(self, n_components: int) -> str | None:
        """Return the rule that the facts break, or None if they make sense."""
        if not isinstance(self.loss_name, str) or not _is_finite(self.loss):
            return "the loss must have a name and be finite"
        if len(self.components) != n_components:
            return "every component must have its facts"
        if not all(
            type(value) is float and not math.isinf(value) for s in self.components for value in s
        ):
            return "facts must be numbers"
        shares = [value for s in self.components for value in (s.p_value, s.concurvity)]
        if any(value < 0 or value > 1 for value in shares):
            return "p-values and concurvity must be shares"
        return None


def _line(values: Sequence[Any]) -> ComponentFacts:
    known = values[: len(ComponentFacts._fields)]
    return ComponentFacts(*(math.nan if value is None else value for value in known))


def _is_finite(value: Any) -> bool:
    return type(value) is float and math.isfinite(value)
