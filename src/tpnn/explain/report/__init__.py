"""Report: a model as one HTML page in which the model itself runs."""

from tpnn.explain.report.facts import FitFacts
from tpnn.explain.report.html import write_report
from tpnn.explain.report.written import Report

__all__ = ["FitFacts", "Report", "write_report"]
