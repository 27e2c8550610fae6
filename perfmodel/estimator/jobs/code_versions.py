"""Which code made what is kept: another version of it may have made something else."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

from perfmodel.devices.extras import installed_version

#: Code that works facts of graphs out, below the package; other code never changes them.
_WORKS_FACTS_OUT = (
    "types.py", "graph", "features", "placement/memory", "placement/data_parallel",
    "estimator/jobs/step_facts.py",
)  # fmt: skip


@cache
def facts_version() -> str:
    """Return a hash of all code that works facts out.

    Returns
    -------
    str
        32 hexadecimal digits; others as soon as a line of that code is another.
    """
    package = Path(__file__).parents[2]
    state = hashlib.blake2b(digest_size=16)
    for path in _sources(package):
        state.update(path.relative_to(package).as_posix().encode() + b"\0")
        state.update(path.read_bytes())
    # Without sources the release has to do.
    state.update(f"{installed_version('perfmodel') or 'absent'} {np.__version__}".encode())
    return state.hexdigest()


def _sources(package: Path) -> Iterator[Path]:
    for name in _WORKS_FACTS_OUT:
        path = package / name
        yield from [path] if path.suffix and path.is_file() else sorted(path.rglob("*.py"))
