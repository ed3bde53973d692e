"""Data sets and synthetic functions of the ANOVA-TPNN paper."""

from tpnn.datasets.catalogue import load
from tpnn.datasets.synthetic import Synthetic, make_synthetic

__all__ = ["Synthetic", "load", "make_synthetic"]
