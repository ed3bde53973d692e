"""The architecture: which room may import which, no circles, nothing too long.

The rule stands in docs/design.md and is read from there.
"""

from __future__ import annotations

import ast
import graphlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from statistics import median

import pytest

import tpnn

SOURCE = Path(tpnn.__file__).parent
DESIGN = Path(__file__).parents[1] / "docs" / "design.md"
ROW = re.compile(r"^\| `(\w+)` \| ([^|]*) \|", re.MULTILINE)

LONGEST_MODULE, MEDIAN_MODULE = 400, 200
LONGEST_FUNCTION, MEDIAN_FUNCTION = 60, 12
MOST_PARAMETERS = 8
MOST_POSITIONAL_FIELDS = 5


def rule() -> dict[str, set[str]]:
    """Rooms that each room may import, as the design says."""
    return {
        room: set(re.findall(r"\w+", named))
        for room, named in ROW.findall(DESIGN.read_text("utf-8"))
    }


def module_name(path: Path) -> str:
    """Name of a file's module below ``tpnn``, "" for the package itself."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def room_of(module: str) -> str:
    return module.split(".")[0] or "__init__"


FILES = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


def mentioned(node: ast.AST) -> Iterator[str]:
    """What a statement imports of ours, as dotted names below ``tpnn``; late imports included."""
    if isinstance(node, ast.ImportFrom) and node.level:
        raise AssertionError("relative imports hide where a name comes from")
    if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tpnn":
        base = (node.module or "").removeprefix("tpnn").lstrip(".")
        yield from (f"{base}.{alias.name}".lstrip(".") for alias in node.names)
    elif isinstance(node, ast.Import):
        names = (alias.name for alias in node.names if alias.name.split(".")[0] == "tpnn")
        yield from (name.removeprefix("tpnn").lstrip(".") for name in names)
    elif isinstance(node, ast.Constant | ast.JoinedStr):  # import_module, lazy loaders
        text = "".join(
            part.value if isinstance(part, ast.Constant) else "{}"
            for part in (node.values if isinstance(node, ast.JoinedStr) else [node])
            if not isinstance(part, ast.Constant) or isinstance(part.value, str)
        )
        if re.fullmatch(r"tpnn(\.[\w{}]+)+", text):
            yield text.removeprefix("tpnn.")


def resolved(name: str) -> str:
    """The module that a dotted name stands for: the longest part of it that is a file."""
    parts = name.split(".")
    while parts and ".".join(parts) not in FILES:
        assert "{" not in parts[0], f"the room of {name!r} cannot be read"
        parts.pop()
    return ".".join(parts)


def imports(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    found = {resolved(name) for node in ast.walk(tree) for name in mentioned(node)}
    return found - {module_name(path)}


@pytest.mark.parametrize("module", FILES)
def test_a_module_imports_only_the_rooms_it_may(module: str) -> None:
    allowed = rule()[room_of(module)] | {room_of(module)}
    assert {room_of(name) for name in imports(FILES[module])} <= allowed


def test_no_circles() -> None:
    graph = {module: imports(path) - {""} for module, path in FILES.items() if module}
    tuple(graphlib.TopologicalSorter(graph).static_order())


def test_the_rule_names_every_room_once() -> None:
    rooms = [room for room, _ in ROW.findall(DESIGN.read_text("utf-8"))]
    assert sorted(rooms) == sorted({room_of(module) for module in FILES})


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("from tpnn.grow.solver import Grow", {"grow.solver"}),
        ("from tpnn import TPNNRegressor", {""}),
        ("from tpnn import plots", {"plots"}),
        ("import tpnn.loss.links as links", {"loss.links"}),
        ("def late():\n    from tpnn.search import select", {"search.select"}),
        ("import_module('tpnn.descent.cuda')", {"descent.cuda"}),
        ("import_module(f'tpnn.descent.{name}')", {"descent"}),
        ("_HOMES = {'Grow': 'tpnn.grow.solver', 'nn': 'tpnn.nn'}", {"grow.solver", "nn"}),
        ("import numpy", set()),
    ],
)
def test_imports_of_every_kind_are_seen(line: str, found: set[str], tmp_path: Path) -> None:
    tree = ast.parse(line)
    assert {resolved(name) for node in ast.walk(tree) for name in mentioned(node)} == found


def test_the_names_that_the_package_imports_late_are_seen() -> None:
    late = {vars(tpnn)["_HOMES"][name] for name in tpnn.__all__ if name in vars(tpnn)["_HOMES"]}
    late |= set(vars(tpnn)["_SUBMODULES"].values())
    assert {name.removeprefix("tpnn.") for name in late} <= imports(FILES[""])
    assert set(tpnn.__all__) <= {*vars(tpnn)["_HOMES"], *vars(tpnn)["_SUBMODULES"]}


def test_an_import_of_an_unknown_room_is_refused() -> None:
    tree = ast.parse("import_module(f'tpnn.{name}')")
    with pytest.raises(AssertionError, match="cannot be read"):
        [resolved(name) for node in ast.walk(tree) for name in mentioned(node)]


def functions(path: Path) -> Iterator[ast.FunctionDef]:
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    return (node for node in nodes if isinstance(node, ast.FunctionDef))


def n_lines(function: ast.FunctionDef) -> int:
    """Lines of a function without its docstring."""
    first = function.body[0]
    documented = ast.get_docstring(function) is not None
    docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring


def is_compiled(function: ast.FunctionDef) -> bool:
    text = " ".join(ast.unparse(decorator) for decorator in function.decorator_list)
    return "compiled(" in text or "triton" in text


@pytest.mark.parametrize("path", FILES.values(), ids=list(FILES))
def test_nothing_is_too_long(path: Path) -> None:
    assert path.read_text("utf-8").count("\n") <= LONGEST_MODULE
    for function in functions(path):
        assert n_lines(function) <= LONGEST_FUNCTION, function.name
        named = function.args.posonlyargs + function.args.args + function.args.kwonlyargs
        own = [argument for argument in named if argument.arg not in ("self", "cls")]
        if not is_compiled(function) and function.name not in ("__init__", "fit"):  # for users
            assert len(own) <= MOST_PARAMETERS, function.name


def test_loops_are_compiled_by_one_decorator() -> None:
    numba = [name for name, path in FILES.items() if "import numba" in path.read_text("utf-8")]
    assert numba == ["_compile"]


@cache
def own_classes() -> set[str]:
    nodes = (node for path in FILES.values() for node in ast.walk(ast.parse(path.read_text())))
    return {node.name for node in nodes if isinstance(node, ast.ClassDef)}


@pytest.mark.parametrize("path", FILES.values(), ids=list(FILES))
def test_large_records_are_built_by_keyword(path: Path) -> None:
    classes = own_classes()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in classes:
            assert len(node.args) <= MOST_POSITIONAL_FIELDS, ast.unparse(node)


def test_the_usual_module_and_function_are_short() -> None:
    assert median(path.read_text("utf-8").count("\n") for path in FILES.values()) <= MEDIAN_MODULE
    sizes = [n_lines(function) for path in FILES.values() for function in functions(path)]
    assert median(sizes) <= MEDIAN_FUNCTION
