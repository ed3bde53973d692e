"""Reasons: the largest contributions to a row's score, in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.explain.contributions import Contributions
from tpnn.model.model import AnovaModel
from tpnn.table.axis import Axis
from tpnn.table.words import value_word

SCORE_NAMES = {"identity": "score", "logit": "log-odds"}  # by link


@dataclass(frozen=True)
class Reason:
    """One feature's contribution to the raw score of one row.

    Parameters
    ----------
    feature : str
        The feature.
    value : str
        Its value in the row, in words.
    contribution : float
        Shapley value of the feature or, on the response scale of a log or logit link, its
        exponential: the factor on the prediction or on the odds.
    words : str
        One sentence, for a letter.
    lower : float
        Lower end of the interval of the contribution, of at least 95 %; NaN if the model has no
        bands, or for a value that fit has not seen.
    upper : float
        Its upper end.
    """

    feature: str
    value: str
    contribution: float
    words: str
    lower: float = math.nan
    upper: float = math.nan

    def __str__(self) -> str:
        return self.words

    def __repr__(self) -> str:
        has_band = not math.isnan(self.lower)
        band = f", from {self.lower:.4g} to {self.upper:.4g}" if has_band else ""
        return f"Reason({self.feature!r}, {self.value!r}, {self.contribution:.4g}{band})"


def reasons(
    model: AnovaModel,
    columns: Sequence[FloatArray],
    found: Contributions,
    n_reasons: int,
    adverse: str | None,
    as_factor: bool = False,
) -> list[list[Reason]]:
    """List the largest contributions of every row, in words.

    Parameters
    ----------
    model : AnovaModel
        The model explained.
    columns : sequence of array of shape (n_rows,)
        The rows explained, as numbers.
    found : Contributions
        Shapley values, perhaps less those of a reference row.
    n_reasons : int
        Largest number of reasons per row.
    adverse : {"low", "high"} or None
        The unfavourable direction of the raw score; contributions in the other are left out.
    as_factor : bool, default=False
        Whether to write contributions as factors.
    """
    if adverse not in (None, "low", "high"):
        raise ValueError(
            f"adverse: must be 'low', 'high' or None, found {adverse!r}. Pass 'low' where a low "
            "score is unfavourable."
        )
    if not isinstance(n_reasons, Integral) or isinstance(n_reasons, bool) or n_reasons < 1:
        raise ValueError(
            f"n_reasons: must be a whole number of at least 1, found {n_reasons!r}. "
            "Pass for example n_reasons=4."
        )
    strength = {None: np.abs, "low": np.negative, "high": np.positive}[adverse](found.values)
    order = np.argsort(-strength, axis=1, kind="stable")[:, :n_reasons]
    return [
        [
            _reason(model, columns[feature][row], found, (row, feature), as_factor)
            for feature in features
            if strength[row, feature] > 0
        ]
        for row, features in enumerate(order)
    ]


def _reason(
    model: AnovaModel, number: float, found: Contributions, place: tuple[int, int], as_factor: bool
) -> Reason:
    """Put the contribution of one feature to one row into words; ``place`` is (row, feature)."""
    feature = place[1]
    name, link, shown = model.feature_names[feature], model.link.name, found.values[place]
    value = value_word(model.encoder.features[feature], number)
    ends = [shown - found.reaches[place], shown + found.reaches[place]]
    verb, score = "raises" if shown > 0 else "lowers", SCORE_NAMES.get(link, "raw score")
    if as_factor:
        shown, *ends = np.exp([shown, *ends])
        verb, score = "multiplies", "odds" if link == "logit" else "prediction"
    if link == "logit" and model.classes:
        score += f" of {model.classes[1]}"
    standing = _standing(model.encoder.axes[1][feature], number)
    words = f"{name} = {value}{standing} {verb} the {score} by {abs(shown):.3g}"
    if found.reference is not None:
        usual = value_word(model.encoder.features[feature], float(found.reference[feature][0]))
        words += f", compared with {usual}"
    return Reason(
        feature=name,
        value=value,
        contribution=float(shown),
        words=f"{words}.",
        lower=float(ends[0]),
        upper=float(ends[1]),
    )


def _standing(axis: Axis, number: float) -> str:
    """Say where a value stands among the training rows; nothing for labels.

    >>> _standing(Axis(np.array([1.0, 2.0]), np.array([0.8, 0.2])), 2.0)
    ', higher than in 80 % of cases,'
    """
    if axis.is_nominal or not np.isfinite(number):
        return ""
    regular, weights = axis.values[: axis.n_regular], axis.weights[: axis.n_regular]
    below, above = (
        float(weights[side].sum() / weights.sum()) for side in (regular < number, regular > number)
    )
    side, share = ("higher", below) if below >= above else ("lower", above)
    return f", {side} than in {100 * share:.0f} % of cases," if share >= 0.5 else ""
