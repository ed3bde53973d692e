"""The package itself: light to import, every public name there, one version."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import tpnn

HEAVY = ["numpy", "scipy", "pandas", "sklearn", "numba", "torch", "matplotlib"]


def loaded_by(statement: str) -> set[str]:
    """Heavy libraries that a statement loads in a fresh process."""
    code = f"import sys; {statement}; print(*sorted(set({HEAVY}) & set(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        cwd=Path(tpnn.__file__).parents[1],
    )  # fmt: skip
    return set(run.stdout.split())


def test_import_loads_no_heavy_library() -> None:
    assert loaded_by("import tpnn; tpnn.__version__; dir(tpnn)") == set()


def test_loading_a_model_needs_numpy_alone() -> None:
    assert loaded_by("from tpnn import load_model") == {"numpy"}


def test_solvers_need_no_torch_before_they_solve() -> None:
    needed = loaded_by("from tpnn import Descent, TPNNRegressor; TPNNRegressor(solver=Descent())")
    assert not needed & {"torch", "matplotlib"}


@pytest.mark.parametrize("name", tpnn.__all__)
def test_every_public_name_is_there(name: str) -> None:
    found = getattr(tpnn, name)
    assert found.__doc__
    assert name in dir(tpnn)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="TPNNRegresor"):
        tpnn.TPNNRegresor  # noqa: B018 - looking it up is the point


def test_there_is_one_version() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))
    assert project["project"]["version"] == tpnn.__version__
