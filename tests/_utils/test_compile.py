"""Compiled loops: without a folder for compiled code, everything works and gives the same bits."""

from __future__ import annotations

import io
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tpnn
from tpnn._utils import compile as _compile
from tpnn.solvers.problem.rows import scrambled

SOURCE = Path(tpnn.__file__).parent
FIT = """
import numpy as np
from tpnn import Grow, TPNNRegressor
X = np.random.default_rng(0).normal(size=(120, 1))
smooth = Grow(growth="none")  # fewer loops to compile
model = TPNNRegressor(solver=smooth, n_bags=2, random_state=0).fit(X, X[:, 0] ** 2)
found = model.predict(np.tile(X, (500, 1)))[:120]  # predictions of many rows are compiled
"""
SCRAMBLE = """
import numpy as np
from tpnn.solvers.problem.rows import scrambled
found = np.array(scrambled(np.uint64(1)))
"""
FULL_DISK = f"""
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # folders can be made, files take no bytes
{SCRAMBLE}"""
PRINT = "print(found.tobytes().hex())"


def result_of(script: str, source: Path, cache: Path) -> tuple[str, str]:
    """Output and errors of a script that sees no cache but the one given."""
    environment = dict(
        os.environ,
        PYTHONPATH=str(source),
        PYTHONDONTWRITEBYTECODE="1",
        HOME=str(cache),
        XDG_CACHE_HOME=str(cache),
        NUMBA_CACHE_DIR=str(cache),
    )
    done = subprocess.run(
        [sys.executable, "-c", script + PRINT],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def copy_without_cache(folder: Path) -> Path:
    """Copy of the package whose folders cannot hold compiled code, not even for root."""
    shutil.copytree(SOURCE, folder / "tpnn", ignore=shutil.ignore_patterns("__pycache__"))
    for path in [folder / "tpnn", *(folder / "tpnn").rglob("*/")]:
        (path / "__pycache__").write_text("a file, so no folder of this name can be made")
    return folder


def test_fits_and_large_predictions_need_no_folder_for_compiled_code(tmp_path: Path) -> None:
    source = copy_without_cache(tmp_path / "site")
    nowhere = tmp_path / "file"
    nowhere.write_text("not a folder")
    here: dict[str, np.ndarray] = {}
    exec(FIT, here)
    expected = here["found"].tobytes().hex()
    read_only, said = result_of(FIT, source, nowhere / "cache")
    assert said.count("NUMBA_CACHE_DIR") == 1, "one line of warning"
    assert read_only.strip() == expected


GONE = b"\x80\x04cno_such_module\nNoSuchType\n."  # a pickle that names a type


def damaged(index: bytes) -> bytes:
    """Index of numba's cache, the version of numba kept, whose entries name a type that is gone."""
    version = io.BytesIO(index)
    pickle.load(version)
    return index[: version.tell()] + GONE


@pytest.mark.parametrize("damage", [damaged, lambda index: index[:-9], lambda index: b""])
def test_compiled_code_of_another_version_is_replaced(
    damage: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    expected, _ = result_of(SCRAMBLE, SOURCE.parent, tmp_path)
    indices = {path: path.read_bytes() for path in tmp_path.rglob("*.nbi")}
    assert indices
    for path, index in indices.items():
        path.write_bytes(damage(index))
    assert result_of(SCRAMBLE, SOURCE.parent, tmp_path) == (expected, "")
    assert [path.read_bytes() for path in indices] == list(indices.values()), "kept again"


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_a_full_disk_is_no_failure(tmp_path: Path) -> None:
    found, said = result_of(FULL_DISK, SOURCE.parent, tmp_path)
    assert said.count("NUMBA_CACHE_DIR") == 1, "one line of warning"
    assert found.strip() == np.array(scrambled(np.uint64(1))).tobytes().hex()


def test_compiled_code_is_kept() -> None:
    assert scrambled.stats.cache_path  # type: ignore[attr-defined]  # of numba


def test_a_cached_file_that_cannot_be_read_is_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*arguments: object) -> None:
        raise PermissionError

    monkeypatch.setattr("numba.core.caching.FunctionCache.load_overload", refuse)
    monkeypatch.setattr("numba.core.caching.FunctionCache.save_overload", refuse)
    _compile._say_uncached.cache_clear()

    @_compile.compiled()
    def doubled(x: float) -> float:
        return 2 * x

    assert doubled(3.0) == 6.0
    assert np.isclose(doubled(3), 6)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
