"""Where and when a measurement was taken, how long it took, and what a run says on the way."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[2]
QUIET_LOAD = 4.0  # above it, a machine is called busy
SECONDS_BETWEEN_LOOKS = 0.005


def say(line: str) -> None:
    """Print a line with the time, beside the results."""
    print(f"{datetime.now():%H:%M:%S} {line}", file=sys.stderr)


def add_choice(parser: ArgumentParser, option: str, names: Sequence[str]) -> None:
    """Add an option that takes some of these names, all by default."""
    parser.add_argument(
        option, nargs="+", choices=names, default=names, metavar="NAME",
        help=f"of {', '.join(names)}; all by default",
    )  # fmt: skip


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


def circumstances(packages: Iterable[str]) -> dict[str, Any]:
    """Return date, version of the code, machine, its load, and versions of some packages."""
    return {
        "date": today(),
        "commit": commit(),
        "machine": machine(),
        "load": psutil.getloadavg()[0],
        "versions": versions(packages),
    }


def described(at: dict[str, Any], load: float) -> str:
    """Say when and where something was measured, and whether the machine was busy."""
    busy = f", busy with other work (load {load:.0f})" if load > QUIET_LOAD else ""
    return f"{at['date']}, {at['machine']['cpu']}, {at['machine']['cores']} cores{busy}"


def peak_memory(child: subprocess.Popen[str], with_mapped_files: bool = True) -> int:
    """Watch a process until it ends; return the most bytes of memory that it held."""
    process, peak = psutil.Process(child.pid), 0
    while child.poll() is None:
        with contextlib.suppress(psutil.NoSuchProcess):  # it may end between the two looks
            memory = process.memory_info()
            shared = 0 if with_mapped_files else getattr(memory, "shared", 0)
            peak = max(peak, memory.rss - shared)
        time.sleep(SECONDS_BETWEEN_LOOKS)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, child.args)
    return peak


def device() -> str:
    """Return the name of the card that networks are trained on, ``cpu`` where there is none."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"


def commit() -> str:
    """Return the version of the code, as git describes it."""
    if "BENCHMARKS_COMMIT" in os.environ:  # where the code travels without its repository
        return os.environ["BENCHMARKS_COMMIT"]
    asked = ["git", "describe", "--always", "--dirty"]
    try:
        answer = subprocess.run(asked, capture_output=True, text=True, check=True, cwd=ROOT)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return answer.stdout.strip()
