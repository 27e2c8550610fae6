"""The disk becomes read-only under a service; one that starts on such a disk says so and ends."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

from _servers import service
from free_ports import free_port
from reliability_rows.row import Found
from reliability_rows.state.asking import Caller, said
from reliability_rows.state.faults import Faults, faulty_folder

#: Longer than a start takes, or until changes are taken again: no time is promised for either.
_PATIENCE_S = 300.0


def measure(count: int) -> Found:
    """Ask so often in each state of the disk."""
    with faulty_folder() as (kept, faults):
        # The tests measure this row too, beside whatever else runs on the machine.
        caller = Caller(free_port())
        with service(kept, caller.port, settings=faults.settings):
            known = caller.predict()
            _observed(caller)
            faults.fail(errno.EROFS)
            _refuses(caller, known, count)
            faults.heal()
            recovered_s = caller.until(caller.observe, _PATIENCE_S)
            lost = caller.acknowledged - caller.stored()
        faults.fail(errno.EROFS)
        refusal = _refused_start(kept, faults, caller)
    measured = (
        f"{count} predictions equal to the one before, {caller.refused.total()} changes told "
        f"{dict(caller.refused)}; {len(lost)} acknowledged observations lost; taken again "
        f'{recovered_s:.1f} s after the disk was writable. A start: "{refusal}". Promises: '
        f"{said(caller.wrong)}"
    )
    return Found(measured=measured, held=not caller.wrong and not lost)


def _refused_start(kept: Path, faults: Faults, caller: Caller) -> str:
    """Return the one line with which a service refuses to start where it can keep nothing."""
    database = f"sqlite:///{kept}/bench.db"
    command = [sys.executable, "-m", "perfmodel", "serve", "--port", "0", "--database", database]
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False,
        env={**os.environ, **faults.settings},
    )  # fmt: skip
    lines = ended.stderr.strip().splitlines()
    if ended.returncode == 0 or len(lines) != 1:
        caller.wrong.append(f"a start ended with {ended.returncode} and said {lines[-3:]}")
    return lines[-1].replace(str(kept), "...") if lines else ""


def _observed(caller: Caller) -> None:
    if not caller.observe():
        caller.wrong.append("the first observation was refused")


def _refuses(caller: Caller, known: bytes, count: int) -> None:
    """Hold a service on a read-only disk to its promises."""
    for _ in range(count):
        if caller.observe():
            caller.wrong.append("an observation was acknowledged on a read-only disk")
        if caller.predict() != known:
            caller.wrong.append("a known prediction changed")
