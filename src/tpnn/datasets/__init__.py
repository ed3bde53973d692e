"""Data sets and synthetic functions of the ANOVA-TPNN paper."""

from tpnn.datasets.catalogue import load
from tpnn.datasets.synthetic import (
    Synthetic,
    make_synthetic,
    true_component,
    true_importance,
    true_variance,
)

__all__ = [
    "Synthetic",
    "load",
    "make_synthetic",
    "true_component",
    "true_importance",
    "true_variance",
]
