"""Risk sets: partial likelihoods of times until an event, whose rows depend on each other.

Targets have two columns, (time, event), or four, (time, event, entry, stratum). A row is at risk
in its stratum at the times in (entry, time]. Events are 0 for a censored row, 1 for the event that
counts and, where other events compete, 2 for them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.loss.formulas import LARGEST_LOG_MEAN, SMALLEST_HESSIAN, AnyArray, Derivatives

LARGEST_LOG_RANGE = 60.0  # of log risks whose sums single precision can hold
LARGEST_LOG_SPREAD = 30.0  # of log risks whose differences of sums double precision can hold
LARGEST_EXPECTED = np.exp(LARGEST_LOG_MEAN)  # events; larger only for rows without weight
ROUNDING = 1e-4  # of the quotient of two weights in single precision
LARGEST_LOG_SUM = 500.0  # of log risks whose sums double precision can hold


def died(y: AnyArray) -> AnyArray:
    """Whether the event that counts happened to each row, (n, 1), as numbers."""
    return (y[:, 1:2] == 1).astype(y.dtype)


def cox_loss(y: AnyArray, raw: AnyArray, weights: AnyArray, xp: Any) -> AnyArray:
    """Negative log partial likelihood (Breslow) of the events."""
    if y.shape[1] > 2:
        sums = Spells.of(y).sums(died(y), raw, weights)
        return died(y) * (sums.log_alive - raw)
    if _is_wide(raw):
        return died(y) * (_log_risk_sets(y, raw, weights)[1] - raw)
    _, _, alive = _risk_sets(y, raw, weights)
    return died(y) * (np.log(alive) + raw.max(0) - raw)


def cox_slopes(y: AnyArray, raw: AnyArray, weights: AnyArray, xp: Any) -> Derivatives:
    """Difference of expected and observed events of each row, and the expected number."""
    if y.shape[1] > 2:
        expected = Spells.of(y).sums(died(y), raw, weights).expected
    elif _is_wide(raw):
        expected = _log_expected(y, raw, weights)
    else:
        order, risk, alive = _risk_sets(y, raw, weights)
        hazard = (weights * died(y) / alive)[order[::-1]]  # by increasing time
        expected = risk * np.cumsum(hazard, axis=0)[_until(y, order)]
    return expected - died(y), np.maximum(expected, SMALLEST_HESSIAN)


def _until(y: AnyArray, order: AnyArray) -> AnyArray:
    """Last row, counted by increasing time, that is not later than each row."""
    return np.searchsorted(y[order[::-1], 0], y[:, 0], side="right") - 1


def _risk_sets(y: AnyArray, raw: AnyArray, weights: AnyArray) -> tuple[AnyArray, ...]:
    """Rows by falling time, relative risks, and the risk of all rows alive at each row's time.

    The last two have shape (n, n_bags); the risk of the rows alive is weighted.
    """
    order, last = _by_falling_time(y)
    risk = np.exp(raw - raw.max(0))
    alive = np.empty_like(risk)
    alive[order] = np.cumsum((weights * risk)[order], axis=0)[last]
    return order, risk, np.maximum(alive, np.finfo(risk.dtype).tiny)


def _by_falling_time(y: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Rows by falling time, and the position of the last row of each row's risk set."""
    order = np.argsort(-y[:, 0], kind="stable")
    times = y[order, 0]
    return order, np.searchsorted(-times, -times, side="right") - 1  # tied times share a risk set


def _is_wide(raw: AnyArray) -> bool:
    """Whether risks differ by so many orders of magnitude that only logarithms can hold them."""
    return bool((np.ptp(raw, axis=0) > LARGEST_LOG_RANGE).any())


def _log_risk_sets(y: AnyArray, raw: AnyArray, weights: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Rows by falling time, and the log risk (n, n_bags) of all rows alive at each row's time."""
    order, last = _by_falling_time(y)
    with np.errstate(divide="ignore"):  # weights may be zero
        logs = np.log(weights.astype(np.float64)) + raw
    alive = np.empty_like(logs)
    alive[order] = np.logaddexp.accumulate(logs[order], axis=0)[last]
    return order, np.where(np.isneginf(alive), raw, alive)  # a set without weight counts nothing


def _log_expected(y: AnyArray, raw: AnyArray, weights: AnyArray) -> AnyArray:
    """Return the expected number of events of each row (n, n_bags), summed by logarithms."""
    order, alive = _log_risk_sets(y, raw, weights)
    with np.errstate(divide="ignore"):
        hazard = (np.log(weights.astype(np.float64) * died(y)) - alive)[order[::-1]]
    logs = raw + np.logaddexp.accumulate(hazard, axis=0)[_until(y, order)]
    expected = np.exp(np.minimum(logs, LARGEST_LOG_MEAN))  # larger only for rows without weight
    return expected.astype(raw.dtype)


class Sums(NamedTuple):
    """Sums over the rows at risk, for each row and bag: (n, n_bags)."""

    log_alive: AnyArray  # log risk of all rows at risk at the row's time
    expected: AnyArray  # events that are expected of the row
    hazard: FloatArray  # (n_places, n_bags): events over risk at each place, in the unit below
    log_unit: FloatArray  # (n, n_bags): log risks are counted from here, the largest of a stratum

    @classmethod
    def of(cls, dtype: Any, log_alive: Any, expected: Any, hazard: Any, log_unit: Any) -> Sums:
        """Make it in the precision of the raw scores."""
        bounded = np.minimum(expected, LARGEST_EXPECTED)
        return cls(log_alive.astype(dtype), bounded.astype(dtype), hazard, log_unit)


class Spells(NamedTuple):
    """Rows as intervals of places on one line, the times of one stratum after those of another."""

    first: IntArray  # (n,): first place at which a row is at risk
    place: IntArray  # (n,): the last one, that of its time
    stratum: IntArray  # (n,)
    n_places: int

    @classmethod
    def of(cls, y: AnyArray) -> Spells:
        """Find the places of rows with four columns; entries may be minus infinity."""
        times, ranks = np.unique(y[:, 0], return_inverse=True)
        entered = np.searchsorted(times, y[:, 2], side="right") - 1  # last time not after the entry
        stratum = y[:, 3].astype(np.intp)
        line = stratum * (len(times) + 1) + 1
        occupied, place = np.unique(line + ranks, return_inverse=True)
        first = np.searchsorted(occupied, line + entered, side="right")
        return cls(first, place, stratum, len(occupied))

    def added(self, where: IntArray, values: FloatArray) -> FloatArray:
        """Sum values (n, n_bags) by their places, (n_places + 1, n_bags)."""
        size = self.n_places + 1
        return np.column_stack([np.bincount(where, one, size) for one in values.T])

    def alive(self, masses: FloatArray) -> FloatArray:
        """Sum masses (n, n_bags) of the rows at risk at each place, (n_places, n_bags)."""
        steps = self.added(self.first, masses) - self.added(self.place + 1, masses)
        ending = self.added(self.place, masses)[:-1]  # rounding must not lose these
        return np.maximum(np.cumsum(steps, axis=0)[:-1], ending)

    def risks(self, raw: AnyArray) -> tuple[FloatArray, FloatArray]:
        """Risks of rows in the unit of the largest of their stratum, and the logarithm of it."""
        wide = raw.astype(np.float64)
        largest = np.full((int(self.stratum.max()) + 1, wide.shape[1]), -np.inf)
        np.maximum.at(largest, self.stratum, wide)
        unit = largest[self.stratum]
        return np.exp(np.maximum(wide - unit, -LARGEST_LOG_SPREAD)), unit

    def since_entry(self, hazard: FloatArray) -> FloatArray:
        """Sum of a hazard (n_places, n_bags) while each row is at risk, (n, n_bags)."""
        before = np.vstack([np.zeros((1, hazard.shape[1])), np.cumsum(hazard, axis=0)])
        return np.asarray(before[self.place + 1] - before[self.first])

    def sums(self, events: AnyArray, raw: AnyArray, weights: AnyArray) -> Sums:
        """Add over the rows at risk; ``events`` has shape (n, 1)."""
        risk, unit = self.risks(raw)
        alive = np.maximum(self.alive(weights * risk), np.finfo(np.float64).tiny)
        hazard = self.added(self.place, weights * events)[:-1] / alive
        expected = risk * self.since_entry(hazard)
        log_alive = np.log(alive[self.place]) + unit
        return Sums.of(raw.dtype, log_alive, expected, hazard, unit)


def efron_loss(y: AnyArray, raw: AnyArray, weights: AnyArray, xp: Any) -> AnyArray:
    """Negative log partial likelihood by Efron's rule (1977) for events at the same time.

    The rows with such an event leave the risk set one after the other, each of them with the same
    chance: of d rows, the share l / d has left before the next one.
    """
    return died(y) * (with_ties(y, raw, weights).log_alive - raw)


def efron_slopes(y: AnyArray, raw: AnyArray, weights: AnyArray, xp: Any) -> Derivatives:
    """Difference of expected and observed events of each row, and the expected number."""
    expected = with_ties(y, raw, weights).expected
    return expected - died(y), np.maximum(expected, SMALLEST_HESSIAN)


def with_ties(y: AnyArray, raw: AnyArray, weights: AnyArray) -> Sums:
    """Add over the rows at risk, of which those with an event at the time leave one by one."""
    spells = Spells.of(y if y.shape[1] > 2 else in_one_stratum(y))
    risk, unit = spells.risks(raw)
    events, weights = died(y).astype(np.float64), np.asarray(weights, np.float64)
    alive = np.maximum(spells.alive(weights * risk), np.finfo(np.float64).tiny)
    parts = (copies(weights) * events, weights * events, weights * events * risk)
    number, mass, leaving = (spells.added(spells.place, part)[:-1] for part in parts)
    one = np.maximum(number, 1.0)
    log_alive, hazard, own = (np.zeros_like(alive) for _ in range(3))
    for left in range(int(number.max(initial=0.0))):
        some = np.flatnonzero((number > left).any(1))
        share, goes_on = left / one[some], number[some] > left
        rest = np.maximum(alive[some] - share * leaving[some], np.finfo(np.float64).tiny)
        log_alive[some] += goes_on * np.log(rest) / one[some]
        hazard[some] += goes_on * mass[some] / one[some] / rest
        own[some] += goes_on * share * mass[some] / one[some] / rest  # of rows that have left
    expected = risk * (spells.since_entry(hazard) - events * own[spells.place])
    return Sums.of(raw.dtype, log_alive[spells.place] + unit, expected, hazard, unit)


def in_one_stratum(y: AnyArray) -> AnyArray:
    """Targets of four columns of those of two: no entries, and one stratum."""
    return np.column_stack([y, np.full(len(y), -np.inf), np.zeros(len(y))])


def copies(weights: FloatArray) -> FloatArray:
    """Rows that each row stands for in each bag: multiples of the smallest weight, else one.

    >>> copies(np.array([[0.2], [0.0], [0.6]])).ravel(), copies(np.array([[0.2], [0.5]])).ravel()
    (array([1., 0., 3.]), array([1., 1.]))
    """
    has = weights > 0
    smallest = np.where(has, weights, np.inf).min(0)
    ratio = np.where(has, weights / np.where(np.isfinite(smallest), smallest, 1.0), 0.0)
    are_whole = (np.abs(ratio - np.rint(ratio)) < ROUNDING * ratio + (ratio == 0)).all(0)
    return np.where(are_whole, np.rint(ratio), has.astype(np.float64))


def fine_gray_loss(y: AnyArray, raw: AnyArray, weights: AnyArray, xp: Any) -> AnyArray:
    """Negative log partial likelihood of the event 1 in the presence of competing events.

    Rows with a competing event stay at risk, with the probability that they would not have been
    censored since (Fine and Gray, 1999).
    """
    return died(y) * (subdistribution(y, raw, weights).log_alive - raw)


def fine_gray_slopes(y: AnyArray, raw: AnyArray, weights: AnyArray, xp: Any) -> Derivatives:
    """Difference of expected and observed events of each row, and the expected number."""
    expected = subdistribution(y, raw, weights).expected
    return expected - died(y), np.maximum(expected, SMALLEST_HESSIAN)


def subdistribution(y: AnyArray, raw: AnyArray, weights: AnyArray) -> Sums:
    """Add over the rows at risk of the event 1, among which are those with competing events."""
    times, place = np.unique(y[:, 0], return_inverse=True)
    spells = Spells(np.zeros_like(place), place, np.zeros_like(place), len(times))
    wide = raw.astype(np.float64)
    unit = np.broadcast_to(wide.max(0), wide.shape)
    masses = weights * np.exp(np.maximum(wide - unit, -LARGEST_LOG_SUM))
    free, competes = uncensored(spells, y[:, 1:2], weights), y[:, 1:2] == 2
    lost = spells.added(place + 1, competes * masses / free[place])[:-1]
    alive = spells.alive(masses) + free * np.cumsum(lost, axis=0)
    alive = np.maximum(alive, np.finfo(np.float64).tiny)
    hazard = spells.added(place, weights * died(y))[:-1] / alive
    later = np.cumsum((free * hazard)[::-1], axis=0)[::-1] - free * hazard
    expected = np.cumsum(hazard, axis=0)[place] + competes * (later / free)[place]
    expected *= np.exp(np.maximum(wide - unit, -LARGEST_LOG_SUM))
    log_alive = np.log(alive[place]) + unit
    return Sums.of(raw.dtype, log_alive, expected, hazard, unit)


def uncensored(spells: Spells, events: AnyArray, weights: AnyArray) -> FloatArray:
    """Probability of not being censored before each place, by Kaplan and Meier.

    Rows with an event are not at risk of being censored at the same time.
    """
    weights = np.asarray(weights, np.float64)
    censored = spells.added(spells.place, weights * (events == 0))[:-1]
    alive = spells.alive(weights) - spells.added(spells.place, weights * (events > 0))[:-1]
    kept = 1 - censored / np.maximum(alive, np.maximum(censored, np.finfo(np.float64).tiny))
    before = np.vstack([np.ones((1, weights.shape[1])), np.cumprod(kept, axis=0)[:-1]])
    return np.asarray(np.maximum(before, np.finfo(np.float64).tiny))
