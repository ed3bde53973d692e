"""Checks: how much memory a process may still use, in a container and outside."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from tpnn.estimators import inputs
from tpnn.estimators.inputs import available_memory

MACHINE = 1000.0
VERSION_2 = ("memory.max", "memory.current")
VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of control groups, empty, on a machine with 1000 bytes to give."""
    (tmp_path / "memory").mkdir()
    places = ((tmp_path, VERSION_2), (tmp_path / "memory", VERSION_1))
    groups = tuple((str(place), *names) for place, names in places)
    monkeypatch.setattr(inputs, "CGROUPS", groups)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=int(MACHINE)))
    return tmp_path


def write(folder: Path, names: tuple[str, str], limit: str, usage: str, stat: str = "") -> None:
    for name, text in zip((*names, "memory.stat"), (limit, usage, stat), strict=True):
        (folder / name).write_text(text)


def test_without_a_container_the_machine_decides(folder: Path) -> None:
    assert available_memory() == MACHINE


@pytest.mark.parametrize(
    ("limit", "usage", "stat", "available"),
    [
        ("500\n", "200\n", "", 300),
        ("500\n", "600\n", "", 0),  # a limit may be lowered below what is used
        ("5000\n", "200\n", "", MACHINE),
        ("max\n", "200\n", "", MACHINE),
        ("500\n", "", "", MACHINE),
        ("500\n", "200\n", "anon 90\ninactive_file 60\nactive_file 40\n", 400),
        ("500\n", "200\n", "not a table", 300),
    ],
)
@pytest.mark.parametrize("names", [VERSION_2, VERSION_1])
def test_a_container_leaves_its_limit_less_what_is_used(
    names: tuple[str, str], limit: str, usage: str, stat: str, available: float, folder: Path
) -> None:
    write(folder if names == VERSION_2 else folder / "memory", names, limit, usage, stat)
    assert available_memory() == available


def test_caches_of_subgroups_count_in_version_1(folder: Path) -> None:
    stat = "inactive_file 1\nactive_file 1\ntotal_inactive_file 60\ntotal_active_file 40\n"
    write(folder / "memory", VERSION_1, "500", "200", stat)
    assert available_memory() == 400


def test_a_file_that_is_missing_sets_no_limit(folder: Path) -> None:
    (folder / "memory.max").write_text("500")
    assert available_memory() == MACHINE


def test_this_machine_has_memory() -> None:
    assert 0 < available_memory() <= psutil.virtual_memory().total
