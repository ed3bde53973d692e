"""Fits on several machines: ``tpnn.distributed.fit``."""

from tpnn.distributed.fitting import fit

__all__ = ["fit"]
