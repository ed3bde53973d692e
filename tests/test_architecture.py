"""The architecture: which room may import which, no circles, nothing too long.

The rule stands in docs/design.md and is read from there.
"""

from __future__ import annotations

import ast
import graphlib
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from statistics import median

import pytest

import tpnn

SOURCE = Path(tpnn.__file__).parent
DESIGN = Path(__file__).parents[1] / "docs" / "design.md"

MOST_ROOMS, MOST_EDGES = 14, 60
SHORTEST_MODULE, LONGEST_MODULE, MEDIAN_MODULE = 60, 600, 250
SHORT = ("__init__.py", "__main__.py", "arrays.py")  # names of packages and of types
LONGEST_FUNCTION, MEDIAN_FUNCTION = 60, 8
MOST_PARAMETERS = 8
MOST_POSITIONAL_FIELDS = 5
MOST_WALKED = 66  # modules through which a fit runs
MOST_NAMES = 48  # of AnovaModel that users see, its fields included


def rule_lines() -> list[str]:
    """Lines of the rule, as the design has them."""
    (block,) = re.findall(r"```\n(_utils <.*?)```", DESIGN.read_text("utf-8"), re.DOTALL)
    return block.splitlines()


@cache
def rule() -> dict[str, set[str]]:
    """What each room may import: all that stands to its left, and what that may import."""
    allowed: dict[str, set[str]] = {}
    for line in (line for line in rule_lines() if "<" in line):
        groups = [set(re.findall(r"[\w.]+", group)) for group in line.split("<")]
        for i, group in enumerate(groups):
            for room in group:
                allowed.setdefault(room, set()).update(*groups[:i])
    for room in graphlib.TopologicalSorter(allowed).static_order():
        allowed[room] = allowed[room].union(*(allowed[other] for other in allowed[room]))
    return allowed


def doors() -> tuple[str, set[str]]:
    """The one module that imports upwards, and the rooms that it may open."""
    (line,) = (line for line in rule_lines() if " may import " in line)
    module, rooms = line.removesuffix(" inside its functions").split(" may import ")
    return module, set(rooms.split(", "))


def module_name(path: Path) -> str:
    """Name of a file's module below ``tpnn``, "" for the package itself."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def room_of(module: str) -> str:
    return module.split(".")[0]


def solver_room(module: str) -> str:
    """``solvers.grow`` for a module of the growing solver, ``solvers`` for what all share."""
    inner = ".".join(module.split(".")[:2])
    return inner if inner in rule() else room_of(module)


FILES = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}
ROOMS = sorted({room_of(module) for module in FILES} - {"", "__main__"})


def mentioned(node: ast.AST) -> Iterator[str]:
    """What a statement imports of ours, as dotted names below ``tpnn``."""
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


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes of a tree but those for type checkers alone."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from statements(child)


def imported_by(tree: ast.AST) -> set[str]:
    return {resolved(name) for node in statements(tree) for name in mentioned(node)}


@cache
def imports(module: str) -> set[str]:
    return imported_by(ast.parse(FILES[module].read_text("utf-8"))) - {module}


def late_imports(module: str) -> set[str]:
    """What the functions of a module import when they are called."""
    inside = functions(FILES[module])
    return {name for function in inside for name in imported_by(function)} - {module}


@pytest.mark.parametrize("module", [module for module in FILES if room_of(module) in ROOMS])
def test_a_module_imports_only_the_rooms_it_may(module: str) -> None:
    room = room_of(module)
    upwards = doors()[1] if module == doors()[0] else set()
    allowed = rule()[room] | upwards | {room}
    assert {room_of(name) for name in imports(module) if name} <= allowed


def test_doors_open_inside_functions_only() -> None:
    module, rooms = doors()
    upwards = {name for name in imports(module) if room_of(name) in rooms}
    assert upwards
    assert upwards <= late_imports(module)


@pytest.mark.parametrize("module", [name for name in FILES if solver_room(name) != room_of(name)])
def test_solvers_do_not_know_each_other(module: str) -> None:
    rooms = {solver_room(name) for name in imports(module) if room_of(name) == "solvers"}
    assert rooms <= {"solvers", solver_room(module)} | rule()[solver_room(module)]


@pytest.mark.parametrize("module", [m for m in FILES if room_of(m) in ("search", "uncertainty")])
def test_search_and_uncertainty_see_no_solver(module: str) -> None:
    assert "search, uncertainty see solvers.problem only" in rule_lines()
    rooms = {solver_room(name) for name in imports(module) if room_of(name) == "solvers"}
    assert rooms <= {"solvers", "solvers.problem"}


def downward(module: str) -> set[str]:
    """What a module imports of the rooms, without what doors open inside their functions."""
    door, rooms = doors()
    opened = rooms if module == door else set()
    return {name for name in imports(module) if name and room_of(name) not in opened}


def test_no_circles() -> None:
    graph = {module: downward(module) for module in FILES if module}
    tuple(graphlib.TopologicalSorter(graph).static_order())


def test_the_rule_names_every_room() -> None:
    named = {room for room in rule() if "." not in room}
    assert sorted(named) == ROOMS
    assert re.findall(r"^\| `(\w+)` \|", DESIGN.read_text("utf-8"), re.MULTILINE)[: len(ROOMS)]


def test_the_house_can_be_held_in_mind() -> None:
    rooms = [module for module in FILES if room_of(module) in ROOMS]
    edges = {(room_of(module), room_of(name)) for module in rooms for name in downward(module)}
    assert len(ROOMS) <= MOST_ROOMS
    assert len({(a, b) for a, b in edges if a != b}) <= MOST_EDGES


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("from tpnn.solvers.grow.solver import Grow", {"solvers.grow.solver"}),
        ("from tpnn import TPNNRegressor", {""}),
        ("from tpnn import datasets", {"datasets"}),
        ("import tpnn.loss.links as links", {"loss.links"}),
        ("def late():\n    from tpnn.search import select", {"search.select"}),
        ("import_module('tpnn.solvers.descent.cuda')", {"solvers.descent.cuda"}),
        ("import_module(f'tpnn.solvers.descent.{name}')", {"solvers.descent"}),
        ("_HOMES = {'Grow': 'tpnn.solvers.grow.solver'}", {"solvers.grow.solver"}),
        ("if TYPE_CHECKING:\n    from tpnn.model import model", set()),
        ("import numpy", set()),
    ],
)
def test_imports_of_every_kind_are_seen(line: str, found: set[str]) -> None:
    assert imported_by(ast.parse(line)) == found


def test_the_names_that_the_package_imports_late_are_seen() -> None:
    late = {vars(tpnn)["_HOMES"][name] for name in tpnn.__all__ if name in vars(tpnn)["_HOMES"]}
    late |= set(vars(tpnn)["_SUBMODULES"].values())
    assert {name.removeprefix("tpnn.") for name in late} <= imports("")
    assert set(tpnn.__all__) <= {*vars(tpnn)["_HOMES"], *vars(tpnn)["_SUBMODULES"]}


def test_an_import_of_an_unknown_room_is_refused() -> None:
    with pytest.raises(AssertionError, match="cannot be read"):
        imported_by(ast.parse("import_module(f'tpnn.{name}')"))


def test_few_modules_know_which_node_is_that_of_missing_values() -> None:
    """All others ask the axis for ``regular``, ``seen``, ``unseen``, ``missing`` and the like."""
    word = re.compile(r"\b(missing|unseen)_node\b")
    knowing = [name for name, path in FILES.items() if word.search(path.read_text("utf-8"))]
    assert knowing == [
        "export.sheets.workbook",
        "model.interpolate",
        "model.interpolate_numba",
        "table.axis",
    ]


def test_no_module_counts_where_regular_nodes_end() -> None:
    end = re.compile(r"len\(\S*ax[ie]s\S*\.values\)|has_(missing|unseen)")
    counting = {
        module
        for module, path in FILES.items()
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Slice) and end.search(ast.unparse(node))
    }
    assert counting <= {"table.axis"}


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
    n_written = path.read_text("utf-8").count("\n")
    assert n_written <= LONGEST_MODULE
    assert n_written >= SHORTEST_MODULE or path.name in SHORT
    for function in functions(path):
        assert n_lines(function) <= LONGEST_FUNCTION, function.name
        named = function.args.posonlyargs + function.args.args + function.args.kwonlyargs
        own = [argument for argument in named if argument.arg not in ("self", "cls")]
        if not is_compiled(function) and function.name not in ("__init__", "fit"):  # for users
            assert len(own) <= MOST_PARAMETERS, function.name


def test_no_two_modules_share_a_name() -> None:
    """But the solvers, which are backends of one thing."""
    names = [path.name for path in FILES.values() if path.name != "__init__.py"]
    assert {name for name in names if names.count(name) > 1} <= {"solver.py"}


def test_a_model_has_few_public_names() -> None:
    """What only developers need of a model is a function that takes one."""
    names = {*dir(tpnn.AnovaModel), *(field.name for field in fields(tpnn.AnovaModel))}
    public = sorted(name for name in names if not name.startswith("_"))
    assert len(public) <= MOST_NAMES, public


def test_loops_are_compiled_by_one_decorator() -> None:
    numba = [name for name, path in FILES.items() if "import numba" in path.read_text("utf-8")]
    assert numba == ["_utils.compile"]


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


WALK = """
import sys
import numpy as np
from tpnn import TPNNRegressor

rng, walked = np.random.default_rng(0), set()
X = rng.normal(size=(600, 5))
y = X[:, 0] + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=600)

def note(frame, event, argument):
    if event == "call":
        walked.add(frame.f_globals.get("__name__", ""))

model = TPNNRegressor(random_state=0)
sys.setprofile(note)
model.fit(X, y)
sys.setprofile(None)
print(*sorted(name for name in walked if name.startswith("tpnn.")))
"""


def test_a_fit_is_a_short_walk() -> None:
    """Modules whose functions a default fit calls, in the main thread; compiled ones are unseen."""
    ended = subprocess.run([sys.executable, "-c", WALK], capture_output=True, text=True, check=True)
    walked = ended.stdout.split()
    assert "tpnn.estimators.pipeline" in walked
    assert len(walked) <= MOST_WALKED, walked
