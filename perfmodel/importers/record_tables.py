"""Imported records as tables: one zstd Parquet file per kind, described in docs/importing.md.

Jobs, placements, shapes and settings are JSON text in their column, since their fields differ from
row to row.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from perfmodel.errors import MissingExtraError
from perfmodel.importers.published import (
    Imported,
    Kind,
    Origin,
    PublishedCollective,
    PublishedKernel,
    PublishedPlacement,
    PublishedStep,
    Record,
    RejectedRow,
)
from perfmodel.placement.topology.parse import placement_to_dict
from perfmodel.requests import job_to_dict
from perfmodel.store.durable import whole_file

KINDS: tuple[Kind, ...] = ("steps", "kernels", "collectives", "placements")

_ORIGIN = {"source": "string", "licence": "string", "file": "string", "line": "int64"}

#: Columns of each kind, with their Arrow types.
SCHEMAS: Mapping[Kind, Mapping[str, str]] = {
    "steps": {
        "job": "string",
        "accelerator": "string",
        "samples_per_second": "double",
        "step_time_s": "double",
        "memory_bytes": "double",
        "repeats": "int64",
        "spread": "double",
        **_ORIGIN,
    },
    "kernels": {
        "op": "string",
        "accelerator": "string",
        "dtype": "string",
        "shape": "string",
        "time_s": "double",
        "kernel": "string",
        **_ORIGIN,
    },
    "collectives": {
        "collective": "string",
        "accelerator": "string",
        "ranks": "int64",
        "hosts": "int64",
        "size_bytes": "double",
        "time_s": "double",
        "topology": "string",
        "backend": "string",
        "dtype": "string",
        **_ORIGIN,
    },
    "placements": {
        "job": "string",
        "job_type": "string",
        "batch_size": "int64",
        "placement": "string",
        "step_time_s": "double",
        "sync_time_s": "double",
        "memory_bytes": "double",
        "settings": "string",
        **_ORIGIN,
    },
}


def records_of(imported: Imported, kind: Kind) -> tuple[Record, ...]:
    """Return the records of one kind."""
    by_kind: Mapping[Kind, tuple[Record, ...]] = {
        "steps": imported.steps,
        "kernels": imported.kernels,
        "collectives": imported.collectives,
        "placements": imported.placements,
    }
    return by_kind[kind]


def accelerator_of(record: Record) -> str:
    """Return the accelerator of a record; of a placement that of its first host."""
    if isinstance(record, PublishedPlacement):
        return record.placement.nodes[0].accelerator
    return record.accelerator


def row_of(record: Record) -> dict[str, Any]:
    """Return a record as one row of its table; unknown values are None."""
    match record:
        case PublishedStep():
            own = _fields(record, "accelerator", "samples_per_second", "step_time_s")
            own |= _fields(record, "memory_bytes", "repeats", "spread")
            own["job"] = _json(job_to_dict(record.job))
        case PublishedKernel():
            own = _fields(record, "op", "accelerator", "dtype", "time_s", "kernel")
            own["shape"] = _json(record.shape)
        case PublishedCollective():
            own = _fields(record, "collective", "accelerator", "ranks", "hosts", "size_bytes")
            own |= _fields(record, "time_s", "topology", "backend", "dtype")
        case PublishedPlacement():
            own = _fields(record, "job_type", "batch_size", "step_time_s", "sync_time_s")
            own |= _fields(record, "memory_bytes")
            own["job"] = None if record.job is None else _json(job_to_dict(record.job))
            own["placement"] = _json(placement_to_dict(record.placement))
            own["settings"] = _json(record.settings)
    return own | _origin(record.origin)


def write_records(folder: Path, imported: Imported) -> dict[Kind, Path]:
    """Write the records of each kind that there is to ``<kind>.parquet`` in a folder.

    Parameters
    ----------
    folder : Path
        Made where it does not exist; files of the same name are replaced, each whole or not.

    Returns
    -------
    dict of str to Path
        The files, by kind.

    Raises
    ------
    MissingExtraError
        pyarrow is absent.
    """
    written: dict[Kind, Path] = {}
    for kind in KINDS:
        if records := records_of(imported, kind):
            written[kind] = folder / f"{kind}.parquet"
            _write_table(written[kind], SCHEMAS[kind], [row_of(record) for record in records])
    return written


def write_rejected(file: Path, rejected: Iterable[RejectedRow]) -> None:
    """Write the rows that were not understood as CSV: file, line, reason."""
    with whole_file(file) as temporary, temporary.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(("file", "line", "reason"))
        writer.writerows((row.file, row.line, row.reason) for row in rejected)


def _write_table(file: Path, schema: Mapping[str, str], rows: list[dict[str, Any]]) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("Writing Parquet tables", extra="train") from error
    columns = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in schema.items()])
    table = pa.Table.from_pylist(rows, schema=columns)
    with whole_file(file) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def _fields(record: Record, *names: str) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


def _origin(origin: Origin) -> dict[str, Any]:
    return {name: getattr(origin, name) for name in _ORIGIN}


def _json(value: Mapping[str, Any]) -> str:
    import orjson

    return orjson.dumps(dict(value), option=orjson.OPT_SORT_KEYS).decode()
