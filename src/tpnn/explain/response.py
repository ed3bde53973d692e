"""Response scale: effects as factors or differences, compared with a reference value.

With g the link, r the reference and d = f_S(x_S) - f_S(r_S), the effect on the response scale is
exp(d) for a log link, a relativity, and for a logit, an odds ratio; else it is d itself. The
product of all relativities is the prediction at x over the prediction at r.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.anova.posterior import LEVEL, POINTWISE, Uncertainty
from tpnn.loss.links import LINKS, Link
from tpnn.model.model import AnovaModel
from tpnn.table.axis import Axis
from tpnn.table.table import DATE, DURATION
from tpnn.table.words import node_words

RAW, RESPONSE = "raw", "response"
BAND_SENTENCE = "The band covers the true effect over 95 % of the data, on average."
BAND_WORDS, NO_BAND_WORDS = "95 % band", "no band known"
NO_BANDS = (
    "{}: this model or component has no bands. It was fitted with bands=False, comes from another "
    "library, ran out of time, or was edited, which makes a band void. Fit again with bands=True, "
    "or leave {} out."
)
DIFFERENCE = "difference"  # what effects are called where they are no factors


@dataclass(frozen=True, eq=False)
class ScaledEffect:
    """The effect of a component on the raw or on the response scale.

    Parameters
    ----------
    difference : array of shape (M_1, ..., M_d[, n_outputs])
        Raw effect, on the response scale minus that at the reference.
    uncertainty : Uncertainty or None
        What is known about the truth behind it; None if the model has no bands.
    is_factor : bool
        Whether the response is multiplied by exp(difference).
    label : str
        What the values are.
    at : str
        Where they are neutral, in words: the reference.
    reference : tuple of int or None
        Node of each feature at which the effect is neutral; None if it is none of the nodes.
    """

    difference: FloatArray
    uncertainty: Uncertainty | None = None
    is_factor: bool = False
    label: str = "effect"
    at: str = ""
    reference: tuple[int, ...] | None = None

    @property
    def neutral(self) -> float:
        """Value that changes nothing: 1 for factors, else 0."""
        return float(self.is_factor)

    @property
    def has_band(self) -> bool:
        """Whether the model has bands."""
        return self.uncertainty is not None

    @property
    def values(self) -> FloatArray:
        """The effect."""
        return self.on_scale(self.difference)

    def band(
        self, level: float | None = None, kind: str = POINTWISE
    ) -> tuple[FloatArray, FloatArray]:
        """Lower and upper end of the band of the effect; arguments as in ``to_frame``."""
        if self.uncertainty is None:
            if level is not None or kind != POINTWISE:
                name = "kind" if level is None else "level"
                raise ValueError(NO_BANDS.format(name, name))
            unknown = np.full(self.difference.shape, np.nan)
            return unknown, unknown
        widths = self.uncertainty.half_widths(LEVEL if level is None else level, kind)
        reach = widths.reshape(self.difference.shape)
        return self.on_scale(self.difference - reach), self.on_scale(self.difference + reach)

    def on_scale(self, raw: FloatArray) -> FloatArray:
        """Raw differences on this scale."""
        return LINKS["log"].inverse(raw) if self.is_factor else raw


def check_scale(scale: Any) -> None:
    """Refuse what is no scale."""
    if scale not in (RAW, RESPONSE):
        raise ValueError(
            f"scale: must be 'raw' or 'response', found {scale!r}. Pass 'response' for "
            "relativities or odds ratios."
        )


def is_factor(link: Link, scale: str) -> bool:
    """Whether contributions are shown as factors: on the response scale of a log or logit link."""
    check_scale(scale)
    if scale == RESPONSE and link.kind == "classes" and not link.ratio:
        raise ValueError(
            "scale: 'response' is for one output, and this model has several classes. Pass 'raw', "
            "or explain one class with explanation.of(...)."
        )
    return scale == RESPONSE and bool(link.ratio)


def compared(
    names: Sequence[str],
    axes: Sequence[Axis],
    effect: FloatArray,
    uncertainty: Uncertainty | None,
    link: Link,
    reference: Any,
    label: str = "",
) -> ScaledEffect:
    """Effect on the response scale, compared with the reference; ``label`` is its name."""
    as_factor = is_factor(link, RESPONSE)
    values = _by_name(names, reference)
    places = [_place(n, a, values.get(n)) for n, a in zip(names, axes, strict=True)]
    at_reference, shares, words = effect, list[FloatArray](), list[str]()
    for (lower, fraction), axis, name in zip(places, axes, names, strict=True):
        upper = min(lower + 1, axis.n_nodes - 1)
        at_reference = (1 - fraction) * at_reference[lower] + fraction * at_reference[upper]
        nodes = np.arange(axis.n_nodes)
        shares.append((1 - fraction) * (nodes == lower) + fraction * (nodes == upper))
        word = str(values[name]) if fraction else node_words(axis)[lower]
        words.append(f"{name} = {word}")
    return ScaledEffect(
        difference=effect - at_reference,
        uncertainty=uncertainty and uncertainty.minus(reduce(np.multiply.outer, shares)),
        is_factor=as_factor,
        label=label or link.ratio or DIFFERENCE,
        at=", ".join(words),
        reference=None if any(t for _, t in places) else tuple(lower for lower, _ in places),
    )


def reference_row(model: AnovaModel, reference: Any) -> list[FloatArray]:
    """Read the reference values of all features, as numbers of shape (1,) each."""
    names, axes = model.feature_names, model.encoder.axes[1]
    if isinstance(reference, Mapping) and not set(reference) <= set(names):
        wrong = next(name for name in reference if name not in names)
        raise ValueError(
            f"reference: must name features of the model, found {wrong!r}. It has "
            f"{list(names[:10])}."
        )
    values = _by_name(names, reference)
    return [_read(name, axis, values.get(name)) for name, axis in zip(names, axes, strict=True)]


def feature_value(model: AnovaModel, feature: int, value: Any, argument: str) -> FloatArray:
    """Read a value of one feature as a number, of shape (1,); None is the usual one."""
    return _read(model.feature_names[feature], model.encoder.axes[1][feature], value, argument)


def _read(name: str, axis: Axis, value: Any, argument: str = "reference") -> FloatArray:
    lower, fraction = _place(name, axis, value, argument)
    low, high = axis.numbers[[lower, min(lower + 1, axis.n_nodes - 1)]]
    return np.array([low + fraction * (high - low) if fraction else low])


def _by_name(names: Sequence[str], reference: Any) -> dict[str, Any]:
    """Read reference values: given by name, for each feature in turn, or for the only one."""
    if reference is None:
        return {}
    if isinstance(reference, Mapping):
        return {name: reference[name] for name in names if name in reference}
    values = list(reference) if isinstance(reference, list | tuple) else [reference]
    if len(values) != len(names):
        raise ValueError(
            f"reference: one value is needed for each of {list(names)}, found {reference!r}. "
            "Pass a dict from feature to value; features that it leaves out take their usual value."
        )
    return dict(zip(names, values, strict=True))


def _place(name: str, axis: Axis, value: Any, argument: str = "reference") -> tuple[int, float]:
    """Lower node of a reference value, and how far it lies towards the next one.

    Without a value it is the most frequent level or the median.
    """
    if value is None:
        return base_node(axis), 0.0
    if axis.levels is not None:
        words = node_words(axis)
        if str(value) not in words:
            raise ValueError(
                f"{argument}: must be a level of {name!r}, found {value!r}. It has {words[:10]}."
            )
        return words.index(str(value)), 0.0
    lower, fraction = axis.locate(np.array([_number(name, axis.kind, value, argument)]))
    if lower[0] == axis.n_nodes:
        raise ValueError(
            f"{argument}: must be a finite value of {name!r}, or missing if fit has seen missing "
            f"values there, found {value!r}. Leave it out for the median."
        )
    return int(lower[0]), float(fraction[0])


def base_node(axis: Axis) -> int:
    """Node of the most frequent level or of the median, with which others are compared."""
    masses = axis.weights[axis.regular]
    if axis.levels is not None and not axis.is_empty:
        return int(np.argmax(masses))
    up_to = np.cumsum(masses)
    return int(np.searchsorted(up_to, up_to[-1:].sum() / 2))  # no value but missing ones: node 0


def _number(name: str, kind: str, value: Any, argument: str) -> float:
    try:
        if kind == DATE:
            return float(np.datetime64(value, "us").astype(np.int64)) / 1e6
        if kind == DURATION:
            return float(np.timedelta64(value, "us").astype(np.int64)) / 1e6
        return float(value)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{argument}: must be a value of {name!r}, a {kind}, found {value!r}. "
            "Pass one that the column could hold."
        ) from error
