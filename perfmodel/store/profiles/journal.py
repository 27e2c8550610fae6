"""Finished measurements before they are compacted: one gzip file each."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson

from perfmodel.errors import InvalidInputError, StoreError
from perfmodel.profilers.wire import key_of, measurement_from_json, measurement_to_json
from perfmodel.records import Measurement
from perfmodel.store.durable import write_whole


@dataclass(frozen=True, kw_only=True)
class JournalEntry:
    """A measurement with the graph it was taken on."""

    measurement: Measurement
    graph_json: str
    path: Path


def write_entry(folder: Path, measurement: Measurement, graph_json: str) -> Path:
    """Write a measurement durably; when this returns, no crash can lose it.

    Returns
    -------
    Path
        The file; measuring the same job again replaces it.
    """
    path = folder / f"{key_of(measurement.step)}.json.gz"
    document = {"measurement": measurement_to_json(measurement).decode(), "graph": graph_json}
    write_whole(path, gzip.compress(orjson.dumps(document), compresslevel=6, mtime=0))
    return path


def read_entry(path: Path) -> JournalEntry:
    """Read what :func:`write_entry` wrote.

    Raises
    ------
    StoreError
        A file that is damaged; names it.
    """
    try:
        document = orjson.loads(gzip.decompress(path.read_bytes()))
        return JournalEntry(
            measurement=measurement_from_json(document["measurement"]),
            graph_json=document["graph"],
            path=path,
        )
    except (OSError, EOFError, zlib.error, ValueError, KeyError, InvalidInputError) as error:
        raise StoreError(
            f"The journal file {path} is damaged ({error}). Delete it and measure "
            "again: only this workload is measured anew."
        ) from error


def entry_paths(folder: Path) -> Iterator[Path]:
    """Yield the files of a journal, in the order of their names."""
    yield from sorted(folder.glob("*.json.gz"))
