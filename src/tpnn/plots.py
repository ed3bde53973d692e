"""Plots of an Explanation: each function but ``components`` takes ``ax=None`` and returns the Axes.

matplotlib is imported when something is drawn (``pip install tpnn[plots]``).
"""

from tpnn.explain.plots import (
    comparison,
    component,
    components,
    importance,
    main_effect,
    pair_effect,
    path,
    shap_summary,
    triple_effect,
    waterfall,
)

__all__ = [
    "comparison",
    "component",
    "components",
    "importance",
    "main_effect",
    "pair_effect",
    "path",
    "shap_summary",
    "triple_effect",
    "waterfall",
]
