"""Measurements of several processes on disk, beside the steps of the same device.

A finished measurement is a JSON file in ``pending/`` as soon as it is appended;
:meth:`ProcessStore.compact` turns those of each device into one immutable Parquet file a kind.
There a record's own fields are columns of their types; a job is JSON text. The repeats and the
provenance follow, the same for all kinds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import orjson
import pyarrow as pa

from perfmodel.errors import InvalidInputError, StoreError
from perfmodel.process_records import (
    KINDS,
    ProcessRecord,
    Repeats,
    device_of,
    kind_of,
    record_from_dict,
    record_key,
    record_to_dict,
)
from perfmodel.records import Provenance
from perfmodel.store.durable import write_whole
from perfmodel.store.profiles.profile_store import folder_name
from perfmodel.store.profiles.profile_tables import columns_of, read_table, write_table

_REPEATS = columns_of(Repeats)
#: A record says its accelerator by itself; the facts of it come first.
_PROVENANCE = {
    {"accelerator": "accelerator_facts"}.get(name, name): kind
    for name, kind in columns_of(Provenance).items()
}

#: Own columns of each kind.
_OWN = {name: columns_of(kind, "repeats", "provenance") for name, kind in KINDS.items()}

#: The whole table of each kind.
SCHEMAS: Mapping[str, pa.Schema] = MappingProxyType(
    {
        kind: pa.schema(list({**own, **_REPEATS, **_PROVENANCE}.items()))
        for kind, own in _OWN.items()
    }
)

#: Columns that hold JSON: of a record's own fields, and of its provenance.
_JSON = ("job", "neighbour")
_JSON_PROVENANCE = {"accelerator_facts": "accelerator", "software": "software"}


def write_process_table(path: Path, kind: str, records: Sequence[ProcessRecord]) -> None:
    """Write records of one kind, whole or not at all."""
    rows = [_row(record_to_dict(record)) for record in records]
    write_table(path, pa.Table.from_pylist(rows, schema=SCHEMAS[kind]))


def read_process_table(path: Path, kind: str) -> list[ProcessRecord]:
    """Read what :func:`write_process_table` wrote.

    Raises
    ------
    StoreError
        A file that is missing, torn or of another kind; names it.
    """
    rows = read_table(path, SCHEMAS[kind]).to_pylist()
    try:
        return [record_from_dict({"kind": kind, **_plain(row, kind)}) for row in rows]
    except (InvalidInputError, orjson.JSONDecodeError) as error:
        raise StoreError(f"{path} holds something else than {kind}: {error}") from error


def _row(plain: Mapping[str, Any]) -> dict[str, Any]:
    repeats, provenance = plain["repeats"], plain["provenance"]
    facts = {column: _text(provenance[name]) for column, name in _JSON_PROVENANCE.items()}
    own = {name: _text(value) if name in _JSON else value for name, value in plain.items()}
    return {**own, **repeats, **{n: provenance.get(n) for n in _PROVENANCE}, **facts}


def _plain(row: Mapping[str, Any], kind: str) -> dict[str, Any]:
    provenance = {
        _JSON_PROVENANCE.get(name, name): _read(row[name]) if name in _JSON_PROVENANCE
        else row[name]
        for name in _PROVENANCE
    }  # fmt: skip
    return {
        **{name: _read(row[name]) if name in _JSON else row[name] for name in _OWN[kind]},
        "repeats": {name: row[name] for name in _REPEATS},
        "provenance": provenance,
    }


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _read(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)


_PENDING = "pending"


class ProcessStore:
    """Records of several processes below a folder, one folder a device.

    Parameters
    ----------
    folder : Path
        The folder of the profiles; need not exist yet.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def append(self, record: ProcessRecord) -> Path:
        """Write a record durably; when this returns, no crash can lose it.

        Returns
        -------
        Path
            The file; the same measurement taken again replaces it until it is compacted.
        """
        folder = self.folder / folder_name(device_of(record)) / _PENDING
        path = folder / f"{kind_of(record)}-{record_key(record)}.json"
        write_whole(path, orjson.dumps(record_to_dict(record), option=orjson.OPT_SORT_KEYS))
        return path

    def records(self, kind: str | None = None) -> list[ProcessRecord]:
        """Return every record of one kind or all, each measurement once, the newest one of it.

        Raises
        ------
        StoreError
            A damaged file; names it.
        """
        newest: dict[str, ProcessRecord] = {}
        for name in KINDS if kind is None else (kind,):
            for record in (*self._from_tables(name), *self._pending(name)):
                key = record_key(record)
                known = newest.get(key)
                if known is None or _measured_at(known) <= _measured_at(record):
                    newest[key] = record
        return list(newest.values())

    def compact(self) -> list[Path]:
        """Turn what is pending into immutable Parquet files.

        Returns
        -------
        list of Path
            The new files; empty when there was nothing to do.
        """
        return [
            path
            for folder in sorted(self.folder.glob(f"*/{_PENDING}"))
            for path in _compacted(folder)
        ]

    def _from_tables(self, kind: str) -> Iterator[ProcessRecord]:
        for path in sorted(self.folder.glob(f"*/{kind}-*.parquet")):
            yield from read_process_table(path, kind)

    def _pending(self, kind: str) -> Iterator[ProcessRecord]:
        for path in sorted(self.folder.glob(f"*/{_PENDING}/{kind}-*.json")):
            yield _read_pending(path)


def _compacted(folder: Path) -> Iterator[Path]:
    for kind in KINDS:
        files = sorted(folder.glob(f"{kind}-*.json"))
        if files:
            records = [_read_pending(path) for path in files]
            path = folder.parent / f"{kind}-{_number(records)}.parquet"
            write_process_table(path, kind, records)
            for done in files:
                done.unlink()
            yield path
    if not any(folder.iterdir()):
        folder.rmdir()


def _read_pending(path: Path) -> ProcessRecord:
    try:
        return record_from_dict(orjson.loads(path.read_bytes()))
    except (OSError, ValueError, InvalidInputError) as error:
        raise StoreError(
            f"The file {path} is damaged ({error}). Delete it and measure again: only this one "
            "measurement is taken anew."
        ) from error


def _number(records: Iterable[ProcessRecord]) -> str:
    """Name a file after its content: the same records give the same file."""
    lines = [f"{record_key(one)} {_measured_at(one)}\n" for one in records]
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:12]


def _measured_at(record: ProcessRecord) -> str:
    return record.provenance.measured_at
