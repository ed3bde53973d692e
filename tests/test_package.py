"""The package itself: light to import, every public name there, one version."""

from __future__ import annotations

import pickle
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path, PurePosixPath
from typing import Any

import pandas as pd
import pytest

import tpnn

HEAVY = ["numpy", "scipy", "pandas", "sklearn", "numba", "torch", "matplotlib"]
ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "tests" / "reference" / "version_1"

PREDICT_WITH_NUMPY_ALONE = """
import pickle
import re
import runpy
import sys

class OnlyNumPy:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in {*sys.stdlib_module_names, "numpy", "tpnn"}:
            raise ModuleNotFoundError(f"refused: {name}", name=name)

sys.meta_path.insert(0, OnlyNumPy())

import tpnn
import numpy as np

folder, rows_file, copies = sys.argv[1:]
with open(rows_file, "rb") as stream:
    rows = pickle.load(stream)
answers = np.load(f"{folder}/answers.npz")
for name in ["regression", "survival", "triples", "three_classes"]:
    model = tpnn.load(f"{folder}/{name}.tpnn").model_
    columns = [rows[feature] for feature in model.feature_names]
    table = [list(row) for row in zip(*columns)] * int(copies)
    expected = np.concatenate([answers[f"{name}_predict"]] * int(copies))
    assert np.array_equal(model.predict(table), expected), name
    assert np.array_equal(model.predict(np.array(table, object)), expected), name
    assert len(model.component_scores(table[:60])) == 60
    print(name, len(table))
"""

SAY_WHAT_IS_MISSING = (
    PREDICT_WITH_NUMPY_ALONE.partition("folder, rows_file")[0]
    + """
model = tpnn.load(f"{sys.argv[1]}/regression.tpnn").model_
explanation = tpnn.Explanation(model)
component = explanation.component(model.component_names[0])
for use in (component.to_frame, model.summary().to_frame, lambda: tpnn.TPNNRegressor):
    try:
        use()
    except ImportError as error:
        print(error)
"""
)


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


def test_the_command_line_starts_without_heavy_libraries() -> None:
    """So that its help is there at once, and Ctrl-C is caught from the start."""
    assert loaded_by("from tpnn.cli.command import make_parser; make_parser()") == set()


def test_loading_a_model_needs_numpy_alone() -> None:
    assert loaded_by("from tpnn import load") == {"numpy"}


@pytest.fixture
def rows_file(tmp_path: Path) -> Path:
    """Columns of the reference rows as lists of plain Python values."""
    pytest.importorskip("pyarrow", reason="the rows of the reference models are in Parquet")
    frame = pd.read_parquet(REFERENCE / "rows.parquet")
    columns = {name: [plain(value) for value in frame[name]] for name in frame}
    path = tmp_path / "rows.pickle"
    path.write_bytes(pickle.dumps(columns))
    return path


def plain(value: Any) -> Any:
    if pd.isna(value):
        return None
    return value.to_pydatetime() if isinstance(value, pd.Timestamp) else value


@pytest.mark.parametrize("copies", [1, 350])  # 21,000 rows are predicted in threads
def test_a_saved_model_predicts_where_only_numpy_can_be_imported(
    copies: int, rows_file: Path
) -> None:
    run = subprocess.run(
        [sys.executable, "-c", PREDICT_WITH_NUMPY_ALONE, REFERENCE, rows_file, str(copies)],
        capture_output=True, text=True, check=False, cwd=Path(tpnn.__file__).parents[1],
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout.count(str(60 * copies)) == 4


def test_plots_are_a_module_and_stay_lazy() -> None:
    assert loaded_by("import tpnn; assert 'tpnn.explain.plots' not in sys.modules") == set()
    assert "matplotlib" not in loaded_by("import tpnn; tpnn.plots.waterfall")


@pytest.mark.parametrize("name", ["datasets", "distributed", "metrics", "plots"])
def test_submodules_need_no_import_of_their_own(name: str) -> None:
    loaded_by(f"import tpnn; assert tpnn.{name}.__name__.split('.')[-1] == '{name}'")


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


@pytest.mark.parametrize("folder", [ROOT, ROOT / "runtime"])
def test_there_is_one_version(folder: Path) -> None:
    settings = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))
    assert "version" in settings["project"]["dynamic"]
    source = folder / settings["tool"]["hatch"]["version"]["path"]
    assert source.samefile(tpnn.__file__)


def sources() -> list[Path]:
    """Text files of the repository, without what tools have made."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    if listed.returncode:
        pytest.skip("no git repository")
    return [path for name in listed.stdout.splitlines() if (path := ROOT / name).is_file()]


def test_the_address_of_the_repository_stands_in_one_file() -> None:
    address = b"example" + b".org/tpnn"  # in two parts, so that it does not stand here
    assert [path.name for path in sources() if address in path.read_bytes()] == ["hatch_build.py"]


def headings(page: Path) -> list[str]:
    """Headings of a Markdown page as links name them."""
    lines = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", line).lower().replace(" ", "-") for line in lines]


@pytest.mark.parametrize("folder", ["", "runtime"])
def test_package_indexes_get_absolute_links(folder: str) -> None:
    """They show the README without the files beside it."""
    pytest.importorskip("hatchling")
    build = runpy.run_path(str(ROOT / "hatch_build.py"))
    text = (ROOT / folder / "README.md").read_text("utf-8")
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)]+)\)", build["absolute"](text, PurePosixPath(folder)))
    assert links
    for image, address in links:
        beginning = f"{build['ADDRESS']}/{'raw' if image else 'blob'}/main/"
        assert address.startswith(beginning), address
        path, _, heading = address.removeprefix(beginning).partition("#")
        assert (ROOT / path).is_file(), address
        assert not heading or heading in headings(ROOT / path), address
    assert all(address.startswith(build["ADDRESS"]) for address in build["URLS"].values())


def test_what_only_a_checkout_needs_is_no_extra() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    extras = settings["project"]["optional-dependencies"]
    assert set(settings["dependency-groups"]) == {"benchmarks", "docs", "dev"}
    assert not set(settings["dependency-groups"]) & set(extras)
    for requirements in settings["dependency-groups"].values():
        named = re.fullmatch(r"tpnn\[(.*)\]", requirements[0])
        assert named is not None
        assert set(named[1].split(",")) <= set(extras)


def test_what_is_not_installed_is_named_with_what_to_do() -> None:
    run = subprocess.run(
        [sys.executable, "-c", SAY_WHAT_IS_MISSING, str(REFERENCE)], capture_output=True, text=True,
        check=True, cwd=Path(tpnn.__file__).parents[1],
    )  # fmt: skip
    frame, summary, estimator = run.stdout.splitlines()
    assert frame == summary
    assert frame.startswith("to_frame: needs pandas, which is not installed. Run: pip")
    assert re.match(r"TPNNRegressor: needs the package '\w+', .* pip install tpnn$", estimator)


def test_the_conda_recipe_needs_what_the_package_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    recipe = (ROOT / "contrib" / "conda" / "meta.yaml").read_text("utf-8")
    run = recipe.partition("  run:\n")[2].partition("\n\n")[0]
    needed = {line.strip("- ").replace(" ", "") for line in run.splitlines()}
    assert needed == {*project["dependencies"], f"python{project['requires-python']}"}
    assert f'set version = "{tpnn.__version__}"' in recipe
