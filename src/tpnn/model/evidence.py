"""Evidence: what the rows of a fit say about its model; a changed model loses it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields, is_dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from tpnn._utils.arrays import Float32Array, FloatArray, Int32Array, IntArray, RealArray
from tpnn.anova.posterior import Posterior
from tpnn.loss.lifetimes import checked_times, stratum_codes
from tpnn.loss.links import LINKS
from tpnn.model.codec import LATER


class Baseline(NamedTuple):
    """Breslow's cumulative baseline hazard H_0 of a Cox model, a step function of time.

    Parameters
    ----------
    times : array of shape (n_times,)
        Distinct times at which events were observed, increasing; those of one stratum after those
        of another.
    log_hazard : array of shape (n_times,)
        log H_0 from each of these times on. Logarithms, because offsets of several hundred push
        H_0 itself out of the range of floats.
    errors : array of shape (n_times,), optional
        Standard error of log H_0.
    strata : tuple of str
        Names of the strata, each with its own H_0; none if there are no strata.
    starts : array of shape (n_strata,), optional
        Place of the first time of each stratum.
    """

    times: FloatArray
    log_hazard: FloatArray
    errors: FloatArray | None = None
    strata: tuple[str, ...] = ()
    starts: Int32Array | None = None

    @property
    def parts(self) -> list[slice]:
        """Places of the times of each stratum; one part if there are no strata."""
        starts = [0] if self.starts is None else self.starts.tolist()
        return list(map(slice, starts, [*starts[1:], len(self.times)]))

    def at(self, values: FloatArray, before: float, times: Any, codes: IntArray) -> FloatArray:
        """Values (n_times,) from each time on, at times (n or 1, k) for strata (n,): (n, k).

        ``before`` is the value before the first time.
        """
        asked = np.broadcast_to(times, (len(codes), np.shape(times)[1]))
        found = np.empty(asked.shape)
        for code, part in enumerate(self.parts):
            rows, padded = codes == code, np.append(before, values[part])
            found[rows] = padded[np.searchsorted(self.times[part], asked[rows], side="right")]
        return found

    def hazard(self, raw: FloatArray, times: Any, strata: Any = None) -> FloatArray:
        """H(t | x) = H_0(t) exp(f(x)) for raw scores f(x), shape (n_rows, n_times)."""
        codes = stratum_codes(strata, self.strata, len(raw))
        log_hazard = self.at(self.log_hazard, -np.inf, checked_times(times).reshape(1, -1), codes)
        return LINKS["log"].inverse(raw[:, None] + log_hazard)

    def survival(self, raw: FloatArray, times: Any, strata: Any = None) -> FloatArray:
        """S(t | x) = exp(-H(t | x)), shape (n_rows, n_times)."""
        return np.asarray(np.exp(-self.hazard(raw, times, strata)))


class Scale(NamedTuple):
    """An additive model of a logarithm, of |residuals| or of standard errors."""

    features: tuple[int, ...]  # j
    tables: tuple[FloatArray, ...]  # g_j on the nodes of main effects, (M_j, n_outputs)
    knots: FloatArray  # (n_knots, n_outputs): raw scores, increasing
    heights: FloatArray  # h at the knots, the constant included; linear between them


OF_CLASS = -1  # in place of a feature: the node is the number of a class


class GroupScores(NamedTuple):
    """Scores of the held-out rows at one node of a feature, or of one class."""

    feature: int
    node: int
    scores: Float32Array  # (n_scores, n_outputs), sorted


class Reliability(NamedTuple):
    """Means of held-out rows in about ten groups, from the smallest to the largest prediction."""

    predicted: FloatArray  # (n_groups,)
    actual: FloatArray
    masses: FloatArray  # share of the mass of all held-out rows


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Calibration:
    """Predictions of a model beside the targets of held-out rows."""

    # (n_scores, n_outputs): the score at the ranks 1, 2, ... of n_scores + 1, sorted; one
    # column for classes, no rows without intervals
    scores: Float32Array = field(default_factory=lambda: np.empty((0, 1), np.float32))
    groups: tuple[GroupScores, ...] = ()  # the same for each value of features that have few
    scale: Scale | None = None  # of the residuals of numbers; None for classes
    reliability: tuple[Reliability, ...] = ()  # predictions beside targets, for each output
    errors: Scale | None = None  # standard error of the raw score

    def __repr__(self) -> str:
        return f"Calibration({len(self.scores)} scores, {len(self.groups)} groups)"

    @property
    def group_features(self) -> tuple[int, ...]:
        """Features by whose values the rows can be grouped."""
        features = dict.fromkeys(group.feature for group in self.groups)
        return tuple(feature for feature in features if feature != OF_CLASS)

    def group_of(self, feature: int) -> dict[int, Float32Array]:
        """Scores at each node of a feature, or of each class."""
        return {group.node: group.scores for group in self.groups if group.feature == feature}

    def renumbered(self, number: Mapping[int, int]) -> Calibration:
        """Give features other numbers."""
        places = {OF_CLASS: OF_CLASS, **number}
        groups = tuple(group._replace(feature=places[group.feature]) for group in self.groups)
        scale, errors = (
            one and one._replace(features=tuple(number[j] for j in one.features))
            for one in (self.scale, self.errors)
        )
        return replace(self, groups=groups, scale=scale, errors=errors)


class ComponentTest(NamedTuple):
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


class FitStatistics(NamedTuple):
    """How well the smooth parts of a model fit the rows of its fit, and by how many coefficients.

    Grown components have a rough rest beside their smooth part, whose degrees of freedom are not
    estimated. It is left out here.

    Parameters
    ----------
    deviance : float
        Of squared error the sum of squared residuals; of a partial likelihood minus twice its
        logarithm.
    degrees : float
        Effective degrees of freedom of all components, and the intercept.
    n_rows : float
        Number of rows.
    aic : float
        Akaike's criterion, NaN where the density has no closed form: of Tweedie's amounts.
    """

    deviance: float
    degrees: float
    n_rows: float
    aic: float


class ComponentTests(NamedTuple):
    """What the rows of a fit say about its components.

    Parameters
    ----------
    loss_name : str
        Name of the loss.
    loss : float
        Held-out loss of the bags, in the unit of the target.
    components : tuple of ComponentTest
        One for each component of the model.
    fit : FitStatistics, optional
        Of the whole model on these rows; None for a loss without a likelihood, or with a remainder.
    copies : tuple of tuple of str, optional
        Features that say the same in all rows, as sets of names.
    dependence : float, optional
        Variance of the sum of the components on these rows, over the sum of their variances under
        the product of the marginals: 1 where features are independent.
    """

    loss_name: str
    loss: float
    components: tuple[ComponentTest, ...]
    fit: FitStatistics | None = None
    copies: tuple[tuple[str, ...], ...] | None = None
    dependence: float | None = None


class RandomIntercepts(NamedTuple):
    """Groups whose effects are draws from a normal distribution.

    Parameters
    ----------
    feature : str
        Name of the feature whose levels are the groups.
    variance : float
        Variance of the effects, on the scale of the raw score.
    dispersion : float
        Variance of a row around its mean, in units of the variance function: 1 for classes and
        counts.
    n_groups : int
        Number of groups with rows.
    credibility : array of shape (n_nodes,)
        Buehlmann's factor of each group: the share of its own mean in its effect.
    """

    feature: str
    variance: float
    dispersion: float
    n_groups: int
    credibility: FloatArray


@dataclass(frozen=True, eq=False, kw_only=True)
class Evidence:
    """What the rows of a fit say about its model; None where it is not known.

    ``tpnn.model.model.changed`` leaves it out, unless its caller passes what still holds.

    Parameters
    ----------
    spreads : tuple of array of shape (M_1, ..., M_d, n_outputs), optional
        Standard deviation over the bags of each value of each component.
    posteriors : tuple of Posterior, optional
        Where the truth behind each component may be, None where an edit made it void; without them
        there are no bands.
    tests : ComponentTests, optional
        Tests of each component, for ``AnovaModel.summary``.
    calibration : Calibration, optional
        How far predictions were off on held-out rows; without it there are no intervals.
    baseline : Baseline, optional
        Cumulative baseline hazard of a survival model.
    random : tuple of RandomIntercepts, optional
        Groups with random intercepts.
    """

    spreads: tuple[FloatArray, ...] | None = None
    posteriors: tuple[Posterior | None, ...] | None = None
    tests: ComponentTests | None = None
    calibration: Calibration | None = None
    baseline: Baseline | None = None
    random: tuple[RandomIntercepts, ...] | None = field(default=None, metadata=LATER)

    def posterior(self, place: int) -> Posterior | None:
        """Posterior of the component at a place, None where it is not known."""
        return None if self.posteriors is None else self.posteriors[place]

    def of_components(self, places: Sequence[int]) -> Evidence:
        """Spreads and posteriors of some components; the rest belongs to the sum of all."""
        return Evidence(
            spreads=self.spreads and tuple(self.spreads[place] for place in places),
            posteriors=self.posteriors and tuple(self.posteriors[place] for place in places),
        )


def map_arrays(function: Callable[[RealArray], Any], record: Any) -> Any:
    """Make the same record with other arrays, each from the old one."""
    if isinstance(record, np.ndarray):
        return function(record)
    if isinstance(record, tuple):
        items = [map_arrays(function, item) for item in record]
        return type(record)(*items) if hasattr(record, "_fields") else tuple(items)
    if is_dataclass(record) and not isinstance(record, type):
        named = {item.name: getattr(record, item.name) for item in fields(record)}
        return replace(record, **{n: map_arrays(function, item) for n, item in named.items()})
    return record


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Where a model comes from; no prediction depends on it.

    Parameters
    ----------
    task : {"regressor", "classifier", "survival"}
        Which estimator fitted the model, and so what ``predict`` of ``tpnn.load`` returns.
    version : str
        Version of the library that fitted the model.
    date : str
        When, in UTC: ``2026-01-31T12:00:00Z``. The environment variable SOURCE_DATE_EPOCH fixes it.
    targets : tuple of str
        Names of the targets, where they have names; of survival the time and the event.
    settings : dict from str to a JSON value
        Parameters of the estimator, read-only. Functions and other objects are there by their name.
    fingerprint : str
        What ``tpnn.fingerprint`` of the training table and its targets returns.
    n_rows, n_columns : int
        Size of the training table.
    scores : dict from str to float
        How good the fit is on held-out rows, by name of the score; read-only.
    """

    task: str
    version: str
    date: str
    targets: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    fingerprint: str
    n_rows: int
    n_columns: int
    scores: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.__setstate__(vars(self))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "settings": dict(self.settings), "scores": dict(self.scores)}

    def __setstate__(self, state: dict[str, Any]) -> None:  # read-only dicts cannot be pickled
        frozen = {name: MappingProxyType(state[name].copy()) for name in ("settings", "scores")}
        vars(self).update(state, **frozen)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as a dict that JSON can hold."""
        return deepcopy(self.__getstate__()) | {"targets": list(self.targets)}
