"""The import rule: a module may use only what the design names for it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tpnn

SOURCE = Path(tpnn.__file__).parent

MAY_IMPORT: dict[str, set[str]] = {
    "tables": set(),
    "axes": {"tables"},
    "encoding": {"axes", "resampling", "tables"},
    "marginals": {"axes"},
    "components": set(),
    "links": set(),
    "solution": set(),
    "storage": set(),
    "workers": set(),
    "resampling": set(),
    "parameters": set(),
    "checks": {"tables"},
    "lookup": set(),
    "rectangles": set(),
    "prediction": {"axes", "compiled", "components", "workers"},
    "compiled": {"axes", "prediction"},
    "bundles": {"axes", "components", "prediction", "tables"},
    "shapes": {"axes", "purification"},
    "smoothing": set(),
    "purification": {"axes"},
    "basis": {"marginals"},
    "network": {"basis", "marginals", "components", "solution"},
    "nn": {"basis"},
    "objectives": {"links"},
    "training": {
        "basis", "lookup", "marginals", "network", "objectives", "resampling", "solution",
        "workers",
    },
    "cuda": {
        "lookup", "marginals", "network", "objectives", "resampling", "solution", "training",
    },
    "boosting": {"rectangles"},
    "boxes": {"rectangles"},
    "screening": {"marginals", "screening_card", "starting", "workers"},
    "screening_card": {"screening", "workers"},
    "selection": {"components", "model", "problem", "solution"},
    "nid": {"screening"},
    "interactions": {
        "components", "marginals", "nid", "problem", "screening", "selection", "solution",
    },
    "deepening": {
        "boxes", "grower", "problem", "purification", "rectangles", "solution", "workers",
    },
    "fitting": {
        "components", "deepening", "grower", "growing", "interactions", "problem", "solution",
    },
    "starting": {"lookup", "marginals", "objectives", "workers"},
    "grower": {"boosting", "marginals", "objectives", "rectangles"},
    "growing": {
        "axes", "boosting", "grower", "lookup", "marginals", "objectives", "purification",
        "resampling", "shapes", "smoothing", "solution", "starting", "workers",
    },
    "problem": {
        "components", "encoding", "lookup", "model", "objectives", "resampling", "solution",
        "tables",
    },
    "model": {
        "axes", "bundles", "checks", "components", "encoding", "links", "marginals", "prediction",
        "shapes", "solution", "storage", "tables",
    },
    "shapley": set(),
    "scales": {"axes", "encoding", "tables"},
    "reasons": {"axes", "model", "scales"},
    "concurvity": {"axes", "model"},
    "explain": {
        "axes", "components", "concurvity", "links", "model", "plots", "reasons", "scales",
        "shapley", "tables",
    },
    "plots": {"axes", "explain", "scales", "shapley", "tables"},
    "agreement": {"model"},
    "foreign": {"axes", "components", "encoding", "links", "model", "purification", "tables"},
    "distillation": {"checks", "links", "regression", "report", "tables"},
    "report": {"axes", "checks", "explain", "model", "report", "scales"},
    "datasets": {"datasets"},
    "base": {
        "checks", "components", "encoding", "explain", "fitting", "grower", "interactions",
        "marginals", "model", "objectives", "parameters", "problem", "report", "selection",
        "shapes", "solution", "tables", "workers",
    },
    "regression": {"base", "checks", "objectives", "parameters", "problem"},
    "classification": {"base", "checks", "objectives", "parameters", "problem"},
    "survival": {"base", "checks", "objectives", "parameters", "problem"},
    "cli": {"report"},
    "__main__": {"cli"},
    "__init__": {
        "agreement", "classification", "components", "datasets", "distillation",
        "explain", "foreign", "model", "plots", "regression", "survival",
    },
}  # fmt: skip


def modules() -> dict[Path, str]:
    found = {}
    for path in SOURCE.rglob("*.py"):
        relative = path.relative_to(SOURCE)
        found[path] = relative.parts[0].removesuffix(".py")
    return found


def imported(path: Path) -> set[str]:
    """Modules of ours that a file imports anywhere, late imports included."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "tpnn":
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tpnn."):
            names.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            names |= {a.name.split(".")[1] for a in node.names if a.name.startswith("tpnn.")}
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "import_module":
            (name,) = node.args
            if isinstance(name, ast.Constant):
                names.add(str(name.value).split(".")[1])
    return names


@pytest.mark.parametrize(("path", "module"), modules().items(), ids=lambda value: str(value)[-24:])
def test_imports_only_what_it_may(path: Path, module: str) -> None:
    assert imported(path) <= MAY_IMPORT[module]


def test_every_module_is_named() -> None:
    assert set(modules().values()) == set(MAY_IMPORT)


@pytest.mark.parametrize("path", modules(), ids=lambda value: value.stem)
def test_sizes(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= 500
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            body = node.body
            documented = ast.get_docstring(node) is not None
            start = body[0].end_lineno if documented else node.lineno
            assert node.end_lineno is not None
            assert start is not None
            assert node.end_lineno - start <= 60, node.name
