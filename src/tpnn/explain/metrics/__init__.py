"""Metrics: how good the predictions of a model are on rows that it has not seen, by task."""

from tpnn.explain.metrics.at_times import AtTimes, at_times, net_benefit
from tpnn.explain.metrics.curves import Groups, Metrics, Roc, Score, SurvivalCurve
from tpnn.explain.metrics.estimates import measure
from tpnn.explain.metrics.hazards import proportional_hazards

__all__ = [
    "AtTimes",
    "Groups",
    "Metrics",
    "Roc",
    "Score",
    "SurvivalCurve",
    "at_times",
    "measure",
    "net_benefit",
    "proportional_hazards",
]
