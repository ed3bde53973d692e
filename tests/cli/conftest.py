"""A table in both formats, a model of numbers and one of classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.commands import run


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory, table: Any) -> Path:
    """Folder of the files."""
    X, y = table
    path: Path = tmp_path_factory.mktemp("cli")
    X.assign(y=y).to_csv(path / "data.csv", index=False)
    X.assign(y=np.where(y > y.median(), "high", "low")).to_parquet(path / "labels.parquet")
    options = ("--target", "y", "--bags", 2, "--held-out", 0)
    assert run("fit", path / "data.csv", *options, "-o", path / "model.tpnn") == 0
    assert run("fit", path / "labels.parquet", *options, "-o", path / "labels.tpnn") == 0
    return path
