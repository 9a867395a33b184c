"""The rooms of the house: dependencies point one way, and no room is too large."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import cnp_router

PACKAGE = Path(cnp_router.__file__).parent
ROOT = PACKAGE.parent

# From the ground up. A room may import those below it, never those above.
FLOORS = (
    {
        *("exceptions", "version", "files", "line_file", "printing", "closest", "records"),
        *("data_files", "items", "kept_beside", "kept_files", "stored_items"),
        *("catalog", "history", "trajectories", "forgetting"),
        *("telemetry", "telemetry_tables"),
        *("pool", "cluster", "shards"),
    },
    {"text", "packing", "storage"},
    {"datasets", "graph", "llm", "sources", "constraints"},
    {"context"},
    {"routing"},
    {"training"},
    {"online"},
    {"agents"},
    {"prediction", "protocols"},
    {"coordination"},
    {"execution"},
    {"planning"},
    {"subagents", "timetable"},
    {"evaluation", "serving", "adapters"},
    {"reports"},
    {"checks", "testing"},
    {"cli"},
    {"__init__", "__main__"},
)
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}

MODULES = sorted(PACKAGE.rglob("*.py"))


def room_of(module: Path) -> str:
    return module.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(source: str, package: str) -> Iterator[tuple[int, str]]:
    """Yield line and absolute name of all that is imported, anywhere in the module.

    ``from a import b`` counts as ``a`` and as ``a.b``, which may be a module.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")
            base = parents[: len(parents) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield node.lineno, origin
            yield from ((node.lineno, f"{origin}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
            ("import_module", "__import__")
        ):
            arguments = (arg for arg in node.args if isinstance(arg, ast.Constant))
            yield from ((node.lineno, str(arg.value)) for arg in arguments)


def imports_of(module: Path) -> Iterator[tuple[int, str]]:
    package = ".".join(module.relative_to(ROOT).parent.parts)
    return imports(module.read_text(encoding="utf-8"), package)


def room_imported(name: str) -> str | None:
    parts = name.split(".")
    if parts[0] != "cnp_router" or len(parts) == 1:
        return None
    # A name that the package's own __init__ hands on, as in "from cnp_router import Catalog".
    return parts[1] if parts[1] in FLOOR_OF else "__init__"


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("import a.b", {"a.b"}),
        ("def f():\n    from a import b", {"a", "a.b"}),
        ("from . import b", {"p.q", "p.q.b"}),
        ("from ..r import b", {"p.r", "p.r.b"}),
        ("if TYPE_CHECKING:\n    import a", {"a"}),
        ("importlib.import_module('a.b')", {"a.b"}),
    ],
)
def test_the_reader_of_imports_misses_none(code, names):
    assert {name for _, name in imports(code, "p.q")} == names


def test_every_room_has_a_floor():
    assert {room_of(module) for module in MODULES} <= set(FLOOR_OF)


@pytest.mark.parametrize("module", MODULES, ids=lambda m: str(m.relative_to(PACKAGE)))
def test_dependencies_point_one_way(module):
    room = room_of(module)
    wrong = []
    for line, name in imports_of(module):
        imported = room_imported(name)
        if imported not in (None, room) and FLOOR_OF[imported] > FLOOR_OF[room]:
            wrong.append(f"line {line}: {room} imports {name}, which stands above it")
    assert wrong == []


def name_of(module: Path) -> str:
    parts = module.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {name_of(module): module for module in MODULES}
ROOMS = sorted(
    {room_of(module) for module in MODULES if module.name == "__init__.py"} - {"__init__"}
)


def modules_imported(module: Path) -> set[str]:
    """The modules of the package that a module imports."""
    found = defaultdict(set)
    for line, name in imports_of(module):
        if name in NAMES and name != name_of(module):
            found[line].add(name)
    # "from cnp_router.room import a" takes the module a, not the room that holds it.
    return {
        name
        for names in found.values()
        for name in names
        if not any(other.startswith(f"{name}.") for other in names)
    }


@pytest.mark.parametrize("room", ROOMS)
def test_no_room_has_a_circle_inside(room):
    """Imports inside functions and those for type checkers count too."""
    graph = {
        name: {other for other in modules_imported(module) if room_of(NAMES[other]) == room}
        for name, module in NAMES.items()
        if room_of(module) == room
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as circle:
        pytest.fail(" imports ".join(reversed(circle.args[1])))


def test_no_two_rooms_have_a_module_of_the_same_name():
    places = defaultdict(list)
    for module in MODULES:
        # The file of a command is called as the command.
        if module.name != "__init__.py" and room_of(module) != "cli":
            places[module.name].append(str(module.relative_to(PACKAGE)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


@pytest.mark.parametrize("module", MODULES, ids=lambda m: str(m.relative_to(PACKAGE)))
def test_only_the_llm_room_imports_a_client(module):
    clients = [name for _, name in imports_of(module) if name.split(".")[0] == "openai"]
    assert clients == [] or room_of(module) == "llm"


def test_importing_the_package_imports_nothing_heavy():
    heavy = {"sklearn", "scipy", "numpy", "networkx", "openai", "pydantic", "rich", "matplotlib"}
    code = f"import sys, cnp_router; print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_routing_on_a_fitted_model_imports_nothing_that_it_does_not_need(sample_model):
    needless = {"sklearn", "networkx", "openai", "pydantic", "matplotlib"}
    code = (
        "import sys, cnp_router; "
        f"cnp_router.load_router({str(sample_model)!r}).recommend('text me when it rains'); "
        f"print(sorted({needless!r} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("module", MODULES, ids=lambda m: str(m.relative_to(PACKAGE)))
def test_no_module_is_over_500_lines(module):
    assert len(module.read_text(encoding="utf-8").splitlines()) <= 500
