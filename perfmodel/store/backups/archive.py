"""One archive of all that a service on an SQLite file keeps, and back.

A tar file with ``state.db``, the keys and the audit log where there are any, ``settings.json`` and
``manifest.json``, which has a hash of every other part.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import sqlite3
import tarfile
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from perfmodel.errors import InvalidInputError, StoreError
from perfmodel.store.durable import whole_file
from perfmodel.store.sql.migrate import HEAD

#: Parts of an archive, beside the manifest; the first is always there.
STATE, KEYS, AUDIT, SETTINGS = "state.db", "keys.json", "audit.jsonl", "settings.json"
MANIFEST = "manifest.json"
FORMAT = 1

#: Seconds that a copy waits for a writer.
_LOCK_TIMEOUT_S = 30.0


@dataclass(frozen=True, kw_only=True)
class StatePlaces:
    """Where a service keeps what it remembers.

    Parameters
    ----------
    database, keys, audit : Path
        Files; only the first has to be there.
    """

    database: Path
    keys: Path
    audit: Path

    @classmethod
    def of(cls, database: str, keys: Path | None = None, audit: Path | None = None) -> StatePlaces:
        """Return the places of a service with some settings.

        Parameters
        ----------
        database : str
            URL, or the path of an SQLite file.
        keys, audit : Path or None
            None: ``keys.json`` beside the database, ``audit.jsonl`` beside the keys.

        Raises
        ------
        InvalidInputError
            A database that is no file; the message says what backs it up.
        """
        file = _sqlite_file(database)
        own = keys or file.with_name(KEYS)
        return cls(database=file, keys=own, audit=audit or own.with_name(AUDIT))


def back_up(places: StatePlaces, archive: Path, settings: Mapping[str, str]) -> dict[str, Any]:
    """Write an archive; a service may answer and write meanwhile.

    The copy of the database is its state at one moment: what was acknowledged before the backup
    began is in it.

    Parameters
    ----------
    archive : Path
        Appears in full or not at all; must not be there.
    settings : mapping
        Kept for people; :func:`restore` does not apply them.

    Returns
    -------
    dict
        The manifest.

    Raises
    ------
    InvalidInputError
        There is no database, or there is such an archive already.
    StoreError
        The database cannot be read, or is damaged; the archive cannot be written.
    """
    if not places.database.is_file():
        raise InvalidInputError(f"There is no database {str(places.database)!r}.")
    if archive.exists():
        raise InvalidInputError(f"{archive} is there already; name another file.")
    parts = {SETTINGS: json.dumps(dict(sorted(settings.items())), indent=2).encode()}
    for name, path in ((KEYS, places.keys), (AUDIT, places.audit)):
        if path.is_file():
            parts[name] = path.read_bytes()
    try:
        manifest = _write(archive, places.database, parts)
    except OSError as error:
        raise StoreError(
            f"{archive} cannot be written: {error.strerror or error}. Name a file in a folder that "
            "is there, may be written, and has room for the database twice."
        ) from error
    # Hashes of keys are in it, and what people named.
    archive.chmod(0o600)
    return manifest


def _write(archive: Path, database: Path, parts: Mapping[str, bytes]) -> dict[str, Any]:
    """Write an archive of a copy of the database and other parts; return its manifest."""
    with tempfile.TemporaryDirectory(dir=archive.parent or None) as folder:
        copy = Path(folder) / STATE
        rows, revision = _copy(database, copy)
        manifest = {
            "format": FORMAT,
            "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "schema": revision,
            "rows": rows,
            "sha256": {
                STATE: _digest(copy),
                **{name: hashlib.sha256(content).hexdigest() for name, content in parts.items()},
            },
        }
        with whole_file(archive) as partial, tarfile.open(partial, "w") as tar:
            _add(tar, MANIFEST, json.dumps(manifest, indent=2).encode())
            for name, content in parts.items():
                _add(tar, name, content)
            tar.add(copy, STATE)
    return manifest


def restore(archive: Path, places: StatePlaces, *, replace: bool = False) -> dict[str, Any]:
    """Put back what an archive holds; no service may run on these files.

    Everything is read and checked before the first file is touched.

    Parameters
    ----------
    replace : bool
        Files that are there are put aside, under their names with the time behind it.

    Returns
    -------
    dict
        The manifest, with the names of the files that were put ``aside``.

    Raises
    ------
    InvalidInputError
        No such archive, or one that is damaged or of a newer version; files that are there.
    StoreError
        There is no room for it, or a place cannot be written.
    """
    aside: list[str] = []
    try:
        with tempfile.TemporaryDirectory(dir=_folder(places.database)) as folder:
            manifest = _unpack(archive, Path(folder))
            _put_in_place(Path(folder), places, aside, replace=replace)
    except OSError as error:
        done = f"What was there is put aside: {', '.join(aside)}." if aside else "Nothing changed."
        raise StoreError(
            f"{archive} cannot be restored: {error.strerror or error}. Name a place that may be "
            f"written, and has room for the database. {done}"
        ) from error
    return {**manifest, "aside": aside}


def _put_in_place(parts: Path, places: StatePlaces, aside: list[str], *, replace: bool) -> None:
    """Move what was unpacked to where it belongs; add the names of what was there to ``aside``."""
    targets = {STATE: places.database, KEYS: places.keys, AUDIT: places.audit}
    there = [path for path in targets.values() if path.exists()]
    if there and not replace:
        raise InvalidInputError(
            f"{there[0]} is there already. Stop the service and add --replace, which puts it "
            "aside; or name another place."
        )
    logs = [Path(f"{places.database}{suffix}") for suffix in ("-wal", "-shm")]
    for path in (*there, *filter(Path.exists, logs)):
        aside.append(str(_put_aside(path)))
    for name, path in targets.items():
        if (parts / name).exists():
            with whole_file(path) as partial:
                # Moved and not written again: beside the database there may be room for it once.
                shutil.move(parts / name, partial)
    if places.keys.exists():
        places.keys.chmod(0o600)


def _sqlite_file(database: str) -> Path:
    if "://" not in database:
        return Path(database)
    try:
        url = make_url(database)
    except ArgumentError as error:
        raise InvalidInputError(f"{database!r} is no URL of a database.") from error
    if url.get_backend_name() == "sqlite" and url.database and url.database != ":memory:":
        return Path(url.database)
    if url.get_backend_name() == "sqlite":
        raise InvalidInputError("A database in memory cannot be backed up.")
    raise InvalidInputError(
        "PostgreSQL is backed up by its own tools, keys and audit log with it: pg_dump "
        "--format=custom --file=perfmodel.dump DATABASE, and into an empty database pg_restore "
        "--dbname=DATABASE perfmodel.dump."
    )


def _folder(database: Path) -> Path:
    database.parent.mkdir(parents=True, exist_ok=True)
    return database.parent


def _copy(source: Path, target: Path) -> tuple[dict[str, int], str | None]:
    """Copy a database while it is in use; return the rows of its tables, and its revision."""
    try:
        with (
            closing(sqlite3.connect(source, timeout=_LOCK_TIMEOUT_S)) as read,
            closing(sqlite3.connect(target)) as written,
        ):
            # In one go: in WAL mode it holds no writer up, and no writer makes it begin again.
            read.backup(written)
            written.execute("PRAGMA journal_mode = DELETE")
            return _checked(written)
    except sqlite3.Error as error:
        raise StoreError(f"The database {source} cannot be backed up: {error}.") from error


def _checked(connection: sqlite3.Connection) -> tuple[dict[str, int], str | None]:
    ((verdict,),) = connection.execute("PRAGMA integrity_check(1)").fetchall()
    if verdict != "ok":
        raise StoreError(f"The database is damaged: {verdict}.")
    names = [
        name
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        if not name.startswith("sqlite_")
    ]
    rows = {
        name: int(connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0])
        for name in sorted(names)
        if name != "alembic_version"
    }
    if "alembic_version" not in names:
        raise StoreError("The database is none of a service: its schema has no version.")
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return rows, row and str(row[0])


def _unpack(archive: Path, folder: Path) -> dict[str, Any]:
    """Write the parts of an archive into a folder and check them; return the manifest."""
    try:
        with tarfile.open(archive) as tar:
            members = {member.name: member for member in tar.getmembers() if member.isfile()}
            for name in (MANIFEST, STATE, KEYS, AUDIT, SETTINGS):
                if name in members:
                    content = tar.extractfile(members[name])
                    assert content is not None
                    with (folder / name).open("wb") as file:
                        shutil.copyfileobj(content, file)
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_bytes())
        hashes: Mapping[str, str] = manifest["sha256"]
        if manifest["format"] > FORMAT or (manifest["schema"] or "") > HEAD:
            raise InvalidInputError(
                f"{archive} was written by a newer version (schema {manifest['schema']}, known is "
                f"{HEAD}); restore it with that one."
            )
        wrong = [name for name, digest in hashes.items() if _digest(folder / name) != digest]
    except FileNotFoundError as error:
        missing = error.filename == str(archive)
        raise InvalidInputError(
            f"There is no archive {str(archive)!r}." if missing else f"{archive} is incomplete."
        ) from error
    except tarfile.TarError as error:
        # What it says lists every way of packing that it tried.
        raise InvalidInputError(f"{archive} is no backup, or is damaged.") from error
    except (ValueError, KeyError, TypeError, EOFError) as error:
        raise InvalidInputError(f"{archive} is no backup, or is damaged: {error}.") from error
    if wrong or STATE not in hashes:
        raise InvalidInputError(
            f"{archive} is damaged: {', '.join(wrong) or STATE} is not as kept."
        )
    return manifest


def _put_aside(path: Path) -> Path:
    aside = path.with_name(f"{path.name}.before-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")
    os.replace(path, aside)
    return aside


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = len(content), int(time.time()), 0o600
    tar.addfile(member, io.BytesIO(content))
