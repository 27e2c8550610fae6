"""The floors of docs/architecture.md, checked: imports go down, never up, never in a circle."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

#: Floor of each package or module directly under ``perfmodel``, and of the service above it.
FLOORS = {
    "perfmodel.errors": 0,
    "perfmodel.types": 0,
    "perfmodel.units": 0,
    "perfmodel.devices": 1,
    "perfmodel.client": 1,
    "perfmodel.graph": 2,
    "perfmodel.records": 2,
    "perfmodel.capture": 3,
    "perfmodel.zoo": 3,
    "perfmodel.profilers": 4,
    "perfmodel.store": 5,
    "perfmodel.features": 6,
    "perfmodel.predictors": 7,
    "perfmodel.placement": 8,
    "perfmodel.requests": 9,
    "perfmodel.estimator": 9,
    "perfmodel.importers": 9,
    "perfmodel.training": 9,
    "perfmodel.cli": 9,
    "perfmodel.adapters": 9,
    "perfmodel": 10,  # the facade: only names, all of them imported on first use
    "service": 11,
}

#: The ways up, by deferred imports: `perfmodel serve` starts the service, `perfmodel keys` keeps
#: its keys.
ALLOWED_UP = {("perfmodel.cli.serve", "service"), ("perfmodel.cli.keys", "service")}

#: Who may import the training tower, besides itself.
TRAINING_USERS = ("perfmodel.training", "perfmodel.cli", "service.jobs")

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


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def _imports(module: str, *, deferred: bool) -> set[str]:
    """Return what a module of ours imports from ours.

    With ``deferred`` also inside functions; without it only what runs when the module loads.
    """
    path = MODULES[module]
    found: set[str] = set()
    todo: list[ast.AST] = [ast.parse(path.read_text())]
    while todo:
        node = todo.pop()
        found.update(_targets(node, module, is_package=path.name == "__init__.py"))
        if not deferred and (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or _is_type_checking(node)
        ):
            continue
        todo.extend(ast.iter_child_nodes(node))
    return found


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_only_go_down(module: str) -> None:
    for target in _imports(module, deferred=True):
        if (module, target.split(".")[0]) in ALLOWED_UP or module == target:
            continue
        if target == "perfmodel":  # the version alone
            continue
        assert _floor(target) <= _floor(module), f"{module} imports {target} from above"
        if target.startswith("perfmodel.training"):
            assert module.startswith(TRAINING_USERS), f"{module} imports the training tower"


def test_no_import_cycles() -> None:
    graph = {module: _imports(module, deferred=False) - {module} for module in MODULES}
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " -> ".join((*trail[trail.index(module) :], module))
        if module not in done:
            for target in graph.get(module, ()):
                visit(target, (*trail, module))
            done.add(module)

    for module in graph:
        visit(module, ())


def _loaded_after(*modules: str) -> set[str]:
    """Return the top-level packages that a fresh interpreter holds after importing some modules."""
    code = (
        f"import importlib, json, sys\nfor name in {modules!r}: importlib.import_module(name)\n"
        "print(json.dumps(sorted({m.split('.')[0] for m in sys.modules})))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(json.loads(run.stdout))


def test_importing_perfmodel_imports_nothing_heavy() -> None:
    loaded = _loaded_after("perfmodel")
    assert not loaded & {*HEAVY, "numpy", "click", "rich"}


def test_importing_the_command_line_imports_nothing_heavy() -> None:
    loaded = _loaded_after("perfmodel.cli")
    assert "click" in loaded
    assert not loaded & {*HEAVY, "numpy", "rich"}


def test_light_floors_need_numpy_at_most() -> None:
    light = [
        module
        for module in MODULES
        if module.startswith("perfmodel.")
        and (_floor(module) <= 2 or module.startswith("perfmodel.placement"))
    ]
    light += [m for m in ("perfmodel.predictors.roofline", "perfmodel.requests") if m in MODULES]
    assert "perfmodel.graph.ir" in light
    loaded = _loaded_after(*light)
    assert not loaded & set(HEAVY), f"light floors load {sorted(loaded & set(HEAVY))}"
