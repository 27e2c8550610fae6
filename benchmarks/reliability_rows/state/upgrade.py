"""The version from before the newest migration and this one, on one database."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from _servers import service
from reliability_rows.row import Found, NotHereError
from reliability_rows.state.asking import Caller, is_whole, said

from perfmodel.store.sql import migrate as migration
from perfmodel.store.sql.migrate import HEAD

OLD_PORT, NEW_PORT = 18_860, 18_861
SEEN_S = 2.0
_STARTS_S = 120.0


def measure(count: int) -> Found:
    """Let each store so many observations."""
    with tempfile.TemporaryDirectory() as name:
        code, kept = Path(name) / "old", Path(name) / "kept"
        kept.mkdir()
        commit = _unpack_old(code)
        old, new = Caller(OLD_PORT, name="old"), Caller(NEW_PORT, name="new")
        with service(kept, OLD_PORT, models="", code=code):
            before = old.predict()
            _stored(old, "before the upgrade")
            with service(kept, NEW_PORT, models=""):
                slowest_s = _both(old, new, before, count)
        refusal = _refused_start(code, kept, old)
        with service(kept, NEW_PORT, models=""):
            lost = (old.acknowledged | new.acknowledged) - new.stored()
        whole = is_whole(kept / "bench.db")
    wrong = [*old.wrong, *new.wrong]
    measured = (
        f"{commit[:8]} and this version: {len(old.acknowledged)} and {len(new.acknowledged)} "
        f"observations acknowledged, {len(lost)} lost, seen by the other within {slowest_s:.1f} s; "
        f"the database is {'whole' if whole else 'DAMAGED'}; the old one, started again: "
        f'"{refusal}"; promises: {said(wrong)}'
    )
    return Found(measured=measured, held=not wrong and not lost and whole)


def _both(old: Caller, new: Caller, before: bytes, count: int) -> float:
    """Ask and tell each in turn; returns how long one took at most to see what the other stored."""
    known, slowest_s = new.predict(), 0.0
    for _ in range(count):
        for caller, other in ((old, new), (new, old)):
            _stored(caller, "beside the other version")
            slowest_s = max(slowest_s, _seen(caller, other))
        if old.predict() != before or new.predict() != known:
            new.wrong.append("a known prediction changed beside the other version")
    return slowest_s


def _seen(caller: Caller, other: Caller) -> float:
    def the_other_lists_it() -> bool:
        return caller.acknowledged <= other.stored()

    return caller.until(the_other_lists_it, SEEN_S)


def _stored(caller: Caller, when: str) -> None:
    if not caller.observe():
        caller.wrong.append(f"an observation was refused {when}")


def _refused_start(code: Path, kept: Path, caller: Caller) -> str:
    """Start the old version on the newer database; returns what it says."""
    database = f"sqlite:///{kept}/bench.db"
    ended = subprocess.run(
        [sys.executable, "-m", "perfmodel", "serve", "--port", "0", "--database", database],
        capture_output=True, text=True, timeout=_STARTS_S, check=False, cwd=code,
        env={**os.environ, "PYTHONPATH": str(code)},
    )  # fmt: skip
    line = (ended.stderr.strip().splitlines() or [""])[-1].replace(str(kept), "...")
    if ended.returncode == 0 or "newer" not in line:
        caller.wrong.append(f"started on a newer database it ended with {ended.returncode}: {line}")
    return line


def _unpack_old(folder: Path) -> str:
    """Unpack the last version without the newest migration; returns its commit."""
    scripts = Path(migration.__file__).parent / "migrations" / "versions"
    (newest,) = scripts.glob(f"{HEAD}_*.py")
    # Merges count too: a script may have got its number there.
    had = _git("log", "--full-history", "--format=%H", "--", str(newest)).decode().split()
    if not had:
        raise NotHereError("the history of the newest migration is not here")
    commit = _git("rev-parse", f"{had[-1]}^").decode().strip()
    with tarfile.open(fileobj=io.BytesIO(_git("archive", commit, "perfmodel", "service"))) as old:
        old.extractall(folder, filter="data")
    return commit


def _git(*words: str) -> bytes:
    try:
        done = subprocess.run(["git", *words], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NotHereError(f"the version before comes from git, which says: {error}") from error
    return done.stdout
