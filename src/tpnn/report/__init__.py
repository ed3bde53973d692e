"""Report: a model as one HTML page in which the model itself runs."""

from tpnn.report.facts import FitFacts
from tpnn.report.html import write_report

__all__ = ["FitFacts", "write_report"]
