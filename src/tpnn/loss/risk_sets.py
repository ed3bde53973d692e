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

    def sums(self, events: AnyArray, raw: AnyArray, weights: AnyArray) -> Sums:
        """Add over the rows at risk; ``events`` has shape (n, 1)."""
        wide = raw.astype(np.float64)
        unit = np.full((int(self.stratum.max()) + 1, wide.shape[1]), -np.inf)
        np.maximum.at(unit, self.stratum, wide)
        unit = unit[self.stratum]
        risk = np.exp(np.maximum(wide - unit, -LARGEST_LOG_SPREAD))
        alive = np.maximum(self.alive(weights * risk), np.finfo(np.float64).tiny)
        hazard = self.added(self.place, weights * events)[:-1] / alive
        before = np.vstack([np.zeros((1, wide.shape[1])), np.cumsum(hazard, axis=0)])
        expected = risk * (before[self.place + 1] - before[self.first])
        log_alive = np.log(alive[self.place]) + unit
        return Sums.of(raw.dtype, log_alive, expected, hazard, unit)


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
