"""Plots of an Explanation, and of predictions beside targets: on ``ax``, or in a new figure."""

from tpnn.explain.plots.heat_maps import pair_effect, triple_effect
from tpnn.explain.plots.local import shap_summary, waterfall
from tpnn.explain.plots.main_effects import comparison, main_effect
from tpnn.explain.plots.overview import component, components, importance, path, remainder
from tpnn.explain.plots.performance import (
    dislocation,
    double_lift,
    gain,
    one_way,
    predicted_actual,
    reliability,
    residuals,
)

__all__ = [
    "comparison",
    "component",
    "components",
    "dislocation",
    "double_lift",
    "gain",
    "importance",
    "main_effect",
    "one_way",
    "pair_effect",
    "path",
    "predicted_actual",
    "reliability",
    "remainder",
    "residuals",
    "shap_summary",
    "triple_effect",
    "waterfall",
]
