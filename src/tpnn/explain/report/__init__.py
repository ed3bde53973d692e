"""Report: a model as one HTML page in which the model itself runs."""

from tpnn.explain.report.data import FitFacts
from tpnn.explain.report.writing import Report, write_report

__all__ = ["FitFacts", "Report", "write_report"]
