"""Data sets and synthetic functions of the ANOVA-TPNN paper."""

from tpnn.datasets.decomposition import true_component, true_importance, true_variance
from tpnn.datasets.loading import load
from tpnn.datasets.synthetic import Synthetic, make_synthetic

__all__ = [
    "Synthetic",
    "load",
    "make_synthetic",
    "true_component",
    "true_importance",
    "true_variance",
]
