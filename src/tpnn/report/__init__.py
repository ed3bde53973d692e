"""Report: a model as one HTML page in which the model itself runs."""

from tpnn.report.facts import FitFacts
from tpnn.report.html import write_report
from tpnn.report.written import Report

__all__ = ["FitFacts", "Report", "write_report"]
