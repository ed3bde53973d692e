"""What a page holds, decoded independently of the page's own script."""

from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np


def payload(path: Path) -> dict[str, Any]:
    """Data of a page: the JSON that its scripts read."""
    page = path.read_text(encoding="utf-8")
    found = re.search(r'<script id="payload" type="application/json">(.*?)</script>', page, re.S)
    assert found is not None
    answer: dict[str, Any] = json.loads(found[1])
    return answer


def unpack(packed: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Doubles, floats and whole numbers of a page, decoded independently of the page's script."""
    data = zlib.decompress(base64.b64decode(packed["text"]))
    floats_at = 8 * packed["n_doubles"]
    planes_at = floats_at + 4 * packed["n_floats"]
    planes = np.frombuffer(data, np.uint8, offset=planes_at).reshape(4, packed["n_cells"])
    zigzag = np.ascontiguousarray(planes.T).view("<u4")[:, 0].astype(np.int64)
    return (
        np.frombuffer(data, "<f8", packed["n_doubles"]),
        np.frombuffer(data, "<f4", packed["n_floats"], floats_at),
        (zigzag >> 1) ^ -(zigzag & 1),
    )
