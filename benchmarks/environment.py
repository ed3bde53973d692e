"""Where a measurement was taken."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import tpnn


def environment() -> dict[str, str | int]:
    """Return date, versions and processor."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        **{package: _version(package) for package in ("numpy", "torch", "numba")},
        "tpnn": tpnn.__version__,
        "cpu": processor(),
        "cores": cores(),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def cores() -> int:
    """Return the number of cores that this process may use, which Linux alone says."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor() -> str:
    """Return the model of the processor, which Linux alone says in full."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor()
