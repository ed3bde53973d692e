"""Documentation that runs: README blocks, links, and docstrings that name every parameter."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import tpnn
from tpnn import TPNNRegressor

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]


def test_readme_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(blocks) >= 2
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(block, namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_every_parameter_is_documented() -> None:
    documented = re.findall(r"^    (\w+) : ", inspect.getdoc(TPNNRegressor) or "", re.MULTILINE)
    documented += re.findall(r"^(\w+) : ", inspect.getdoc(TPNNRegressor) or "", re.MULTILINE)
    parameters = set(inspect.signature(TPNNRegressor).parameters)
    assert parameters <= set(documented)


def test_public_names_exist() -> None:
    for name in tpnn.__all__:
        assert getattr(tpnn, name) is not None
    assert set(dir(tpnn)) == set(tpnn.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        _ = tpnn.nothing
