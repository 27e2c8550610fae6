"""The rooms of the service: each imports from those below it alone, wherever the import stands."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SERVICE = Path(__file__).resolve().parents[2] / "service"

#: The rooms from the lowest to the highest. What lies in the root itself stands above all, but for
#: the settings, which are values that any room may be built from.
ROOMS = (
    "settings",
    "http",
    "metrics",
    "access",
    "operations",
    "state",
    "campaigns",
    "retraining",
    "graphs",
    "answering",
    "versions",
    "dispatch",
    "schemas",
    "observations",
    "openapi",
    "adapters",
    "routes",
    "root",
)


def room_of(module: str) -> str:
    """Return the room of a module of the service by its dotted name."""
    name = module.removeprefix("service").removeprefix(".").partition(".")[0]
    if name.startswith("schemas"):
        return "schemas"
    return name if name in ROOMS else "root"


def imports_of(path: Path) -> Iterator[str]:
    """Yield every module of the service that a file imports, in functions and for types too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            # A name of the root is a room, a file of it or a member of the package.
            yield from names if node.module == "service" else [node.module]
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
            assert not isinstance(node, ast.ImportFrom), f"{path} imports by a relative name"


def upward(folder: Path) -> list[str]:
    """Return the imports of a service that go up."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        module = ".".join(path.relative_to(folder.parent).with_suffix("").parts)
        room = room_of(module.removesuffix(".__init__"))
        found += [
            f"{module} ({room}) imports {target}"
            for target in imports_of(path)
            if target.split(".")[0] == "service"
            and ROOMS.index(room_of(target)) > ROOMS.index(room)
        ]
    return found


def test_imports_go_down_alone() -> None:
    assert upward(SERVICE) == []


def test_every_folder_is_a_room_of_about_ten_files() -> None:
    folders = {path.parent for path in SERVICE.rglob("*.py")}
    for folder in folders - {SERVICE}:
        assert folder.relative_to(SERVICE).parts[0] in ROOMS
        assert len(list(folder.glob("*.py"))) <= 13, folder
    assert {room_of(f"service.{path.stem}") for path in SERVICE.glob("*.py")} <= {
        "root", "settings", "schemas",
    }  # fmt: skip


def test_an_upward_import_is_found_wherever_it_stands(tmp_path: Path) -> None:
    room = tmp_path / "service" / "http"
    room.mkdir(parents=True)
    (room / "typed.py").write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from service.routes import answers\n"
        "def late() -> None:\n    import service.app\n"
        "from service.settings import Settings\n"
    )
    assert upward(tmp_path / "service") == [
        "service.http.typed (http) imports service.routes",
        "service.http.typed (http) imports service.app",
    ]
