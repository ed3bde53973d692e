"""Working rows: what a loss says about the raw score of every row, as least squares see it.

Near a raw score f the loss of a row is a parabola with slope g and curvature h, so the row is an
observation z = f - g / h of the raw score with precision p = h / phi. The dispersion
phi = sum(g^2) / sum(h), Pearson's statistic, is measured on held-out rows; it is the variance of
the noise for squared error and about 1 for probabilities and counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpnn._utils.arrays import BoolArray, FloatArray
from tpnn.loss.losses import Objective

SMALLEST_CURVATURE = 1e-3
SMALLEST_DISPERSION = 1e-12
QUARTILE_RANGE = 1.349  # of a normal distribution with variance one


@dataclass(frozen=True, eq=False)
class WorkingRows:
    """Targets of rows and their loss.

    Parameters
    ----------
    objective : Objective
        The loss.
    y : array of shape (n, T)
        Targets.
    masses : array of shape (n,)
        Number of rows that each row stands for.
    """

    objective: Objective
    y: FloatArray
    masses: FloatArray

    def slopes(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Slope g and curvature h, (n, K) each, of raw scores (n, K).

        Losses of an identity link have the curvature of their mean: it is 1 for squared error, and
        for quantiles, whose rows have none, the density of the target at the quantile. The scores
        of K classes sum to zero. If one of them rises by t, the others fall by t / (K - 1), and so
        g = (p - y) K / (K - 1) and h = p (1 - p) (K / (K - 1))^2.
        """
        slope, curvature = (part.astype(np.float64) for part in self._given(scores))
        if self.objective.link.name == "softmax":
            factor = scores.shape[1] / (scores.shape[1] - 1)
            slope, curvature = slope * factor, curvature * factor**2 / 2  # 2 p (1 - p) was given
        elif self.objective.link.name in ("identity", "quantiles"):
            curvature = np.broadcast_to(self._mean_curvature(scores, slope), slope.shape)
        return slope, np.maximum(curvature, SMALLEST_CURVATURE)

    def dispersion(self, scores: FloatArray, known: BoolArray) -> FloatArray:
        """Pearson's statistic phi of each output, (K,), on the rows (n,) with held-out scores."""
        slope, curvature = self.slopes(scores)
        masses = self.masses * known
        pearson: FloatArray = masses @ slope**2 / (masses @ curvature)
        return np.maximum(pearson, SMALLEST_DISPERSION)

    def _given(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.objective.slopes(self.y, scores, self.masses[:, None])

    def _mean_curvature(self, scores: FloatArray, slope: FloatArray) -> FloatArray:
        """Difference quotient of the mean slope as all scores of an output move, (K,)."""
        residual = self.y - scores if self.y.shape[1] in (1, scores.shape[1]) else slope
        lower, upper = np.quantile(residual, [0.25, 0.75], axis=0)
        scale = np.minimum(residual.std(0), (upper - lower) / QUARTILE_RANGE)
        step = np.maximum(scale, 1e-6) * len(scores) ** -0.2
        above, below = (self.masses @ self._given(scores + s)[0] for s in (step, -step))
        return np.asarray((above - below) / (2 * step * self.masses.sum()))
