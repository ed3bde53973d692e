"""Plots of an Explanation: each but ``components`` takes ``ax=None`` and returns the Axes."""

from tpnn.explain.plots.heat_maps import pair_effect, triple_effect
from tpnn.explain.plots.local import shap_summary, waterfall
from tpnn.explain.plots.main_effects import comparison, main_effect
from tpnn.explain.plots.overview import component, components, importance, path, remainder

__all__ = [
    "comparison",
    "component",
    "components",
    "importance",
    "main_effect",
    "pair_effect",
    "path",
    "remainder",
    "shap_summary",
    "triple_effect",
    "waterfall",
]
