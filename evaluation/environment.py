"""Where and when a measurement was taken, and how long it took."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).parents[1]


def seconds(work: Callable[[], object]) -> float:
    """Time one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def today() -> str:
    """Return the date."""
    return datetime.now(UTC).date().isoformat()


def now() -> str:
    """Return date and time."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, str | int]:
    """Return processor and cores."""
    return {"cpu": processor(), "cores": cores()}


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


def device() -> str:
    """Return the name of the card that networks are trained on, ``cpu`` where there is none."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"


def commit() -> str:
    """Return the version of the code, as git describes it."""
    if "EXPERIMENTS_COMMIT" in os.environ:  # where the code travels without its repository
        return os.environ["EXPERIMENTS_COMMIT"]
    asked = ["git", "describe", "--always", "--dirty"]
    try:
        answer = subprocess.run(asked, capture_output=True, text=True, check=True, cwd=ROOT)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return answer.stdout.strip()
