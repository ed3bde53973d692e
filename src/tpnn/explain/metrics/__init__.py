"""Metrics: how good the predictions of a model are on rows that it has not seen, by task."""

from tpnn.explain.metrics.estimates import measure
from tpnn.explain.metrics.records import Groups, Metrics, Roc, Score, SurvivalCurve

__all__ = ["Groups", "Metrics", "Roc", "Score", "SurvivalCurve", "measure"]
