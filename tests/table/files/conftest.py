"""A folder of files, and fits that leave their tables there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.table.files.tables import mixed_table, write_parts
from tpnn._utils import shelf as _shelf
from tpnn.estimators import inputs


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of a table with columns of every kind; tests must not change them."""
    return write_parts(mixed_table(), tmp_path_factory.mktemp("files") / "mixed")


@pytest.fixture
def no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every table in files be too large for memory, and every array be kept in a file."""
    monkeypatch.setattr(inputs, "TABLE_MEMORY_SHARE", 0.0)
    monkeypatch.setattr(_shelf, "SMALLEST_FILE_BYTES", 0)
