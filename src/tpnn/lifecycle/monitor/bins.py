"""Bins: the values of a feature in a reference and in new rows, and how far the two are apart."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.table.axis import Axis
from tpnn.table.encoder import Feature

N_BINS = 10  # of a feature without levels, besides that of missing values
SMALLEST_SHARE = 1e-4  # of an empty bin in the stability index, whose logarithm must be finite
LEAST_ROWS = 5.0  # that a bin must hold for the test to be sound


class Shares(NamedTuple):
    """Shares of rows in bins.

    Parameters
    ----------
    reference, new : array of shape (n_bins,)
        Share of the reference and of the new rows in each bin.
    n_reference : float
        Number of rows of the reference; infinite where it is not known.
    n_new : int
        Number of new rows.
    """

    reference: FloatArray
    new: FloatArray
    n_reference: float
    n_new: int

    def psi(self) -> float:
        """Return the population stability index, sum_b (q_b - p_b) log(q_b / p_b).

        >>> round(Shares(np.array([0.5, 0.5]), np.array([0.6, 0.4]), 100, 100).psi(), 4)
        0.0405
        """
        used = (self.reference > 0) | (self.new > 0)
        p, q = (np.maximum(share[used], SMALLEST_SHARE) for share in (self.reference, self.new))
        return float(((q - p) * np.log(q / p)).sum())

    def p_value(self) -> float:
        """Chance of such a distance without drift, by the chi-squared test of two samples.

        Bins with too few rows are one. Rows that lie between two nodes are shared by two bins of
        masses, which makes the test conservative.
        """
        from scipy.stats import chi2

        p, q, pooled = self._without_sparse_bins()
        if len(p) < 2:
            return 1.0
        size = 1 / (1 / self.n_new + 1 / self.n_reference)
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = np.where(p == q, 0.0, (q - p) ** 2 / pooled)
        return float(chi2.sf(size * parts.sum(), len(p) - 1))

    def _without_sparse_bins(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Shares of the reference, of the new rows and of both, in bins with enough rows."""
        p, q = self.reference, self.new
        known = np.isfinite(self.n_reference)
        weight = self.n_new / (self.n_new + self.n_reference) if known else 0.0
        typical = weight * q + (1 - weight) * p if known else (p + q) / 2
        enough = typical * min(self.n_new, self.n_reference) >= LEAST_ROWS
        if not enough.all():
            p, q, typical = (np.append(s[enough], s[~enough].sum()) for s in (p, q, typical))
            if typical[-1] * min(self.n_new, self.n_reference) < LEAST_ROWS and len(p) > 1:
                p, q = (_last_joined(share, int(typical[:-1].argmax())) for share in (p, q))
        return p, q, weight * q + (1 - weight) * p


def _last_joined(shares: FloatArray, place: int) -> FloatArray:
    """Add the last bin to another one."""
    joined = shares[:-1].copy()
    joined[place] += shares[-1]
    return joined


def shares_of_rows(feature: Feature, reference: FloatArray, new: FloatArray) -> Shares:
    """Bins of two samples: levels, or tenths of the reference; missing values have their own.

    Numbers are as the encoder reads them: NaN is missing, inf an unseen level.
    """
    if feature.levels:
        edges = np.arange(len(feature.levels) + 1.0) - 0.5
    else:
        known = reference[~np.isnan(reference)]
        ranks = np.arange(1, N_BINS) / N_BINS
        edges = np.unique(np.quantile(known, ranks)) if len(known) else np.empty(0)
    counts = [_counts(edges, column) for column in (reference, new)]
    p, q = (count / max(count.sum(), 1) for count in counts)
    return Shares(p, q, len(reference), len(new))


def _counts(edges: FloatArray, column: FloatArray) -> FloatArray:
    """Rows up to each edge, beyond the last one, and without a value."""
    missing = np.isnan(column)
    bins = np.searchsorted(edges, column[~missing], side="left")
    return np.append(np.bincount(bins, minlength=len(edges) + 1), missing.sum()).astype(np.float64)


def shares_of_masses(axis: Axis, new: FloatArray, n_reference: float) -> Shares:
    """Bins of nodes: levels, or tenths of the training mass; the masses are the reference.

    New rows give their mass to the two neighbouring nodes, as those of the training did.
    """
    lower, fraction = axis.locate(new)
    masses = np.zeros(axis.n_nodes + 2)  # what fit has not seen is beyond the nodes
    np.add.at(masses, lower, 1 - fraction)
    np.add.at(masses, lower + 1, fraction)
    bins = np.arange(axis.n_nodes + 1)
    if axis.levels is None:
        regular = np.minimum(
            (axis.positions[: axis.n_regular] * N_BINS).astype(np.intp), N_BINS - 1
        )
        bins = np.append(regular, N_BINS + np.arange(axis.n_nodes + 1 - axis.n_regular))
    p = np.bincount(bins, np.append(axis.weights, 0.0)).astype(np.float64)
    q = np.bincount(bins, masses[: axis.n_nodes + 1]) / max(len(new), 1)
    return Shares(p, q, n_reference, len(new))
