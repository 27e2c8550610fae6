"""How a module of this package is run as a process of its own."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

_ROOT = Path(__file__).resolve().parents[1]


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module in this interpreter.

    Modules are never taken from the folder that it happens to run in: a ``profile.py`` or
    ``transformers.py`` that a user keeps there would stand for a library's.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


def module_environment(
    stated: Mapping[str, str] = MappingProxyType({}), *, inherited: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the environment of such a process, which finds this package wherever it lies.

    Parameters
    ----------
    stated
        What it has besides what it takes over, or instead.
    inherited
        What it takes over.
    """
    # A folder of installed packages is found anyhow, and would come before the standard library.
    root = "" if str(_ROOT) == sysconfig.get_path("purelib") else str(_ROOT)
    places = (root, inherited.get("PYTHONPATH", ""))
    path = os.pathsep.join(place for place in places if place)
    return {**inherited, **({"PYTHONPATH": path} if path else {}), **stated}
