"""Baseline: the cumulative hazard of a Cox model where the raw score is zero."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.loss.links import LINKS
from tpnn.loss.offset import checked_numbers
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
