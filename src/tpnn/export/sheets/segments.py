"""best_segments: neighbouring points joined so that least is lost, by dynamic programming."""

from __future__ import annotations

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray

MAX_POINTS = 2048  # the programme needs the square of this; more points are joined in advance


def best_segments(values: FloatArray, masses: FloatArray, max_segments: int) -> IntArray:
    """Segment of each point, (n_points,), numbered from 0.

    Among all ways to cut the points into at most ``max_segments`` runs of neighbours, it is one
    with the smallest loss sum_i w_i |v_i - mean of its segment|^2, found by dynamic programming.

    Parameters
    ----------
    values : array of shape (n_points, n_values)
        v_i, what each point stands for.
    masses : array of shape (n_points,)
        w_i, not negative.
    max_segments : int
        Largest number of segments.

    >>> best_segments(np.array([[0.0], [0.1], [5.0], [5.2]]), np.ones(4), 2)
    array([0, 0, 1, 1])
    """
    runs = _equal_runs(values)
    starts = np.flatnonzero(np.diff(runs, prepend=-1))
    if len(starts) > MAX_POINTS:
        starts = starts[np.linspace(0, len(starts), MAX_POINTS, endpoint=False).astype(np.intp)]
        runs = np.searchsorted(starts, np.arange(len(values)), side="right") - 1
    if len(starts) <= max_segments:
        return runs
    return _cut(_losses(values, masses, starts), max_segments)[runs]


def segment_loss(values: FloatArray, masses: FloatArray, segments: IntArray) -> float:
    """Sum of w_i |v_i - mean of its segment|^2."""
    total = 0.0
    for segment in np.unique(segments):
        inside, weights = values[segments == segment], masses[segments == segment]
        if weights.sum() > 0:
            mean = weights @ inside / weights.sum()
            total += float(weights @ ((inside - mean) ** 2).sum(1))
    return total


def _equal_runs(values: FloatArray) -> IntArray:
    """Return the number of the run of equal neighbours that each point is in."""
    changed = (np.diff(values, axis=0) != 0).any(1)
    return np.concatenate([[0], np.cumsum(changed)])[: len(values)].astype(np.intp)


def _losses(values: FloatArray, masses: FloatArray, starts: IntArray) -> FloatArray:
    """Loss of every segment from run a to run b, both included, (n_runs, n_runs)."""
    centred = values - values.mean(0)
    mass = np.add.reduceat(masses, starts)
    first = np.add.reduceat(masses[:, None] * centred, starts)
    second = np.add.reduceat(masses * (centred**2).sum(1), starts)
    w, f, s = (
        np.concatenate([np.zeros_like(x[:1]), np.cumsum(x, 0)]) for x in (mass, first, second)
    )
    weight = w[None, 1:] - w[:-1, None]
    square = sum((g[None, 1:] - g[:-1, None]) ** 2 for g in f.T)
    loss = s[None, 1:] - s[:-1, None]
    loss -= np.divide(square, weight, out=np.zeros_like(loss), where=weight > 0)
    return np.where(np.tri(len(mass), k=-1, dtype=bool), np.inf, np.maximum(loss, 0.0))


def _cut(losses: FloatArray, n_segments: int) -> IntArray:
    """Segment of each run: best[k, b] = min_a best[k - 1, a - 1] + losses[a, b]."""
    best, origins = losses[0], []
    for _ in range(1, n_segments):
        before = np.append(np.inf, best[:-1])  # the least loss of the runs before a
        totals = before[:, None] + losses
        origins.append(totals.argmin(0))
        best = totals.min(0)
    segments, last = np.zeros(len(losses), np.intp), len(losses) - 1
    for k in range(n_segments - 1, 0, -1):
        first = origins[k - 1][last]
        segments[first : last + 1] = k
        last = first - 1
    return segments
