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
from perfmodel.graph.job import Job
from perfmodel.importers.published import Imported, Kind, PublishedPlacement, Record, RejectedRow
from perfmodel.placement.topology.parse import placement_to_dict
from perfmodel.placement.topology.topology import Placement
from perfmodel.requests import job_to_dict
from perfmodel.store.durable import whole_file

KINDS: tuple[Kind, ...] = ("steps", "kernels", "collectives", "placements", "loaders")

_ORIGIN = {"source": "string", "licence": "string", "file": "string", "line": "int64"}

#: Columns of each kind, with their Arrow types.
SCHEMAS: Mapping[Kind, Mapping[str, str]] = {
    "steps": {
        "job": "string", "accelerator": "string", "samples_per_second": "double",
        "step_time_s": "double", "memory_bytes": "double", "repeats": "int64", "spread": "double",
        **_ORIGIN,
    },
    "kernels": {
        "op": "string", "accelerator": "string", "dtype": "string", "shape": "string",
        "time_s": "double", "kernel": "string", **_ORIGIN,
    },
    "collectives": {
        "collective": "string", "accelerator": "string", "ranks": "int64", "hosts": "int64",
        "size_bytes": "double", "time_s": "double", "topology": "string", "backend": "string",
        "dtype": "string", **_ORIGIN,
    },
    "placements": {
        "job": "string", "job_type": "string", "batch_size": "int64", "placement": "string",
        "step_time_s": "double", "sync_time_s": "double", "memory_bytes": "double",
        "settings": "string", **_ORIGIN,
    },
    "loaders": {
        "input_kind": "string", "accelerator": "string", "cpu_cores": "int64", "workers": "int64",
        "samples_per_second": "double", "stored_bytes": "double", "files": "double",
        "source_pixels": "double", "side_pixels": "int64", "sequence_length": "int64",
        "tensor_bytes": "double", "locality": "string", **_ORIGIN,
    },
}  # fmt: skip


def records_of(imported: Imported, kind: Kind) -> tuple[Record, ...]:
    """Return the records of one kind."""
    found: tuple[Record, ...] = getattr(imported, kind)
    return found


def accelerator_of(record: Record) -> str:
    """Return the accelerator of a record; of a placement that of its first host."""
    if isinstance(record, PublishedPlacement):
        return record.placement.nodes[0].accelerator
    return record.accelerator


def row_of(record: Record, kind: Kind) -> dict[str, Any]:
    """Return a record as one row of the table of its kind; unknown values are None."""
    return {
        name: _written(getattr(record.origin if name in _ORIGIN else record, name))
        for name in SCHEMAS[kind]
    }


def _written(value: Any) -> Any:
    if isinstance(value, Job):
        value = job_to_dict(value)
    elif isinstance(value, Placement):
        value = placement_to_dict(value)
    if not isinstance(value, Mapping):
        return value
    import orjson

    return orjson.dumps(dict(value), option=orjson.OPT_SORT_KEYS).decode()


def tables_in(folder: Path) -> list[Path]:
    """Return the tables of records that a folder holds."""
    return [file for kind in KINDS if (file := _table_of(kind, folder)).exists()]


def _table_of(kind: Kind, folder: Path) -> Path:
    return folder / f"{kind}.parquet"


def write_records(folder: Path, imported: Imported) -> dict[Kind, Path]:
    """Write the records of each kind that there is to ``<kind>.parquet`` in a folder.

    Parameters
    ----------
    folder : Path
        Made where it does not exist; tables that it holds are replaced, each whole or not, and
        those of other kinds removed.

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
        file = _table_of(kind, folder)
        if records := records_of(imported, kind):
            _write_table(file, SCHEMAS[kind], [row_of(record, kind) for record in records])
            written[kind] = file
        else:
            file.unlink(missing_ok=True)
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
