"""Measurements of several processes on disk, beside the steps of the same device.

A finished measurement is a JSON file in ``pending/`` as soon as it is appended;
:meth:`ProcessStore.compact` turns those of each device into one immutable Parquet file a kind.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import orjson

from perfmodel.errors import InvalidInputError, StoreError
from perfmodel.process_records import (
    KINDS,
    ProcessRecord,
    device_of,
    kind_of,
    record_from_dict,
    record_key,
    record_to_dict,
)
from perfmodel.store.durable import write_whole
from perfmodel.store.profiles.process_tables import read_process_table, write_process_table
from perfmodel.store.profiles.profile_store import folder_name

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
        path = self._device(record) / _PENDING / f"{kind_of(record)}-{record_key(record)}.json"
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

    def _device(self, record: ProcessRecord) -> Path:
        return self.folder / folder_name(device_of(record))


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
