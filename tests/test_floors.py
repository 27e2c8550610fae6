"""The floors of docs/architecture.md, checked: imports go down, never up, never in a circle."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

#: Floor of each package or module directly under ``perfmodel``, and of the service above it.
FLOORS = {
    "perfmodel.errors": 0,
    "perfmodel.types": 0,
    "perfmodel.intervals": 0,
    "perfmodel.json_values": 0,
    "perfmodel.lru": 0,
    "perfmodel.fair_queue": 0,
    "perfmodel.child_modules": 0,
    "perfmodel.devices": 1,
    "perfmodel.client": 1,
    "perfmodel.engines": 1,
    "perfmodel.graph": 2,
    "perfmodel.records": 2,
    "perfmodel.process_records": 2,
    "perfmodel.capture": 3,
    "perfmodel.zoo": 3,
    "perfmodel.traces": 3,
    "perfmodel.profilers": 4,
    "perfmodel.store": 5,
    "perfmodel.campaigns": 6,
    "perfmodel.registry": 6,
    "perfmodel.shadow": 6,
    "perfmodel.feedback": 6,
    "perfmodel.features": 6,
    "perfmodel.predictors": 7,
    "perfmodel.placement": 8,
    "perfmodel.requests": 9,
    "perfmodel.estimator": 9,
    "perfmodel.importers": 9,
    "perfmodel.training": 9,
    "perfmodel.retraining": 9,
    "perfmodel.cli": 9,
    "perfmodel.adapters": 9,
    "perfmodel.__main__": 10,
    "perfmodel": 10,  # the facade: only names, all of them imported on first use
    "service": 11,
}

#: The ways up, by deferred imports: `perfmodel serve` starts the service, `perfmodel keys` keeps
#: its keys, a file of settings states its settings.
ALLOWED_UP = {
    ("perfmodel.cli.running.serve", "service"),
    ("perfmodel.cli.running.keys", "service"),
    ("perfmodel.cli.running.settings_file", "service"),
}

#: Who may import the training tower, besides itself.
TRAINING_USERS = ("perfmodel.training", "perfmodel.retraining", "perfmodel.cli")

#: Libraries that the light floors must never pull in.
HEAVY = ("torch", "pandas", "pyarrow", "xgboost", "onnx", "transformers", "timm", "sklearn")


def _modules() -> dict[str, Path]:
    """Return every module of both packages by its dotted name."""
    found = {}
    for package in ("perfmodel", "service"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = _modules()


def _floor(module: str) -> int:
    """Return the floor of a module: that of its longest prefix in :data:`FLOORS`."""
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        prefix = ".".join(parts[:length])
        if prefix == "perfmodel" and length < len(parts):
            break  # a new package must be given a floor, the facade's is not inherited
        if prefix in FLOORS:
            return FLOORS[prefix]
    raise AssertionError(f"{module} has no floor; enter it in FLOORS and docs/architecture.md")


def _targets(node: ast.AST, module: str, *, is_package: bool) -> Iterator[str]:
    """Yield the modules of ours that one import statement names."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            parts = module.split(".")
            parts = parts[: len(parts) - node.level + is_package]
            base = ".".join([*parts, base]).rstrip(".")
        joined = [f"{base}.{alias.name}" for alias in node.names]
        names = [name if name in MODULES else base for name in joined]
    else:
        return
    yield from (n for n in names if n.split(".")[0] in ("perfmodel", "service"))


@cache
def _imports() -> Mapping[str, set[str]]:
    """Return what each module of ours imports from ours, the ways up and the version left out.

    What functions import when they run counts, and what only type checkers import.
    """
    found: dict[str, set[str]] = {}
    for module, path in MODULES.items():
        is_package = path.name == "__init__.py"
        targets = {
            target
            for node in ast.walk(ast.parse(path.read_text()))
            for target in _targets(node, module, is_package=is_package)
            if target not in (module, "perfmodel")
        }
        found[module] = {t for t in targets if (module, t.split(".")[0]) not in ALLOWED_UP}
    return found


def test_imports_only_go_down() -> None:
    for module, targets in _imports().items():
        for target in targets:
            assert _floor(target) <= _floor(module), f"{module} imports {target} from above"
            if target.startswith("perfmodel.training"):
                assert module.startswith(TRAINING_USERS), f"{module} imports the training tower"


def _circle(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the names of one circle in their order; empty where there is none."""
    done: set[str] = set()

    def visit(name: str, trail: list[str]) -> list[str]:
        if name in trail:
            return [*trail[trail.index(name) :], name]
        for target in () if name in done else sorted(graph.get(name, ())):
            if found := visit(target, [*trail, name]):
                return found
        done.add(name)
        return []

    return next((found for name in graph if (found := visit(name, []))), [])


def _rooms_of(package: str) -> dict[str, set[str]]:
    """Return which of the files and folders of a package import which others of them.

    A folder stands for everything below it. The facade of all packages is left out: it names
    what lies below, and what lies below takes nothing from it but the version.
    """
    inside = f"{package}."

    def room(module: str) -> str:
        return inside + module.removeprefix(inside).split(".")[0] if module != package else package

    graph: dict[str, set[str]] = {}
    for module, targets in _imports().items():
        if module.startswith(inside) or module == package != "perfmodel":
            found = {room(t) for t in targets if t.startswith(inside) or t == package}
            graph.setdefault(room(module), set()).update(found - {room(module)})
    return graph


def test_files_and_rooms_import_each_other_in_no_circle() -> None:
    packages = [name for name, path in MODULES.items() if path.name == "__init__.py"]
    circles = {package: _circle(_rooms_of(package)) for package in packages}
    for package, circle in circles.items():
        assert not circle, f"{package}: " + " -> ".join(circle)


def test_rooms_are_small() -> None:
    files: dict[str, int] = {}
    for path in MODULES.values():
        if path.name != "__init__.py":
            room = str(path.parent.relative_to(ROOT))
            files[room] = files.get(room, 0) + 1
    assert {room: count for room, count in files.items() if count > 13} == {}


def test_no_import_cycles() -> None:
    assert " -> ".join(_circle(_imports())) == ""


def test_light_floors_load_nothing_heavy() -> None:
    light = [
        module
        for module in MODULES
        if module.startswith("perfmodel.")
        and (_floor(module) <= 2 or module.startswith("perfmodel.placement"))
    ]
    light += ["perfmodel.predictors.roofline", "perfmodel.requests"]
    assert "perfmodel.graph.ir" in light
    facade, command_line, floors = _loaded_after(["perfmodel"], ["perfmodel.cli"], light)
    assert not facade & {*HEAVY, "numpy", "click", "rich"}
    assert "click" in command_line
    assert not command_line & {*HEAVY, "numpy", "rich"}
    assert not floors & set(HEAVY), f"light floors load {sorted(floors & set(HEAVY))}"


def _loaded_after(*stages: list[str]) -> list[set[str]]:
    """Return the top-level packages that a fresh interpreter holds after each of some imports."""
    code = (
        "import importlib, json, sys\n"
        f"for names in {stages!r}:\n"
        "    for name in names: importlib.import_module(name)\n"
        "    print(json.dumps(sorted({m.split('.')[0] for m in sys.modules})))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return [set(json.loads(line)) for line in run.stdout.splitlines()]
