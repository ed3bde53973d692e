"""Answers of R, where it is installed, as an independent source."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pandas as pd
import pytest


def answers_of_r(script: str, tables: dict[str, Any], packages: list[str], folder: Path) -> Any:
    """Run a script that reads data frames and writes ``answer``, a data frame; or skip the test."""
    program = shutil.which("Rscript")
    if program is None:
        pytest.skip("R is not installed")
    lines = [f'if (!require("{one}", quietly = TRUE)) quit(status = 3)' for one in packages]
    for name, table in tables.items():
        pd.DataFrame(table).to_csv(folder / f"{name}.csv", index=False)
        lines.append(f'{name} <- read.csv("{name}.csv")')
    lines += [script, 'options(digits = 17); write.csv(answer, "answer.csv", row.names = FALSE)']
    (folder / "script.R").write_text("\n".join(lines))
    done = subprocess.run([program, "script.R"], cwd=folder, capture_output=True, text=True)
    if done.returncode == 3:
        pytest.skip(f"R has no {' or '.join(packages)}")
    assert done.returncode == 0, done.stderr
    return pd.read_csv(folder / "answer.csv")
