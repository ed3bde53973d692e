"""Metrics: how good the predictions of a model are on rows that it has not seen, by task."""

from tpnn.explain.metrics.curves import Groups, Metrics, Roc, Score, SurvivalCurve
from tpnn.explain.metrics.estimates import measure

__all__ = ["Groups", "Metrics", "Roc", "Score", "SurvivalCurve", "measure"]
