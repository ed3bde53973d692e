"""The array types of all packages; shapes are given in docstrings and comments."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Float32Array = NDArray[np.float32]
IntArray = NDArray[np.intp]
Int32Array = NDArray[np.int32]
BoolArray = NDArray[np.bool_]
RealArray = NDArray[Any]  # single or double precision
CodeArray = NDArray[np.unsignedinteger[Any]]  # nodes of coded rows, uint8 or uint16
