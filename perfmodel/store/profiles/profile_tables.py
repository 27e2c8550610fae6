"""Measurements as Parquet tables: their columns, and the way there and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from enum import StrEnum
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from perfmodel.errors import StoreError
from perfmodel.records import STEP_WORDS, Measurement, OperatorRecord, Provenance, StepRecord
from perfmodel.store.durable import whole_file
from perfmodel.types import Phase

_TYPES = {
    str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_(),
    tuple[float, ...]: pa.list_(pa.float64()), tuple[str, ...]: pa.list_(pa.string()),
}  # fmt: skip
#: Counts that never grow large.
_SMALL = frozenset({"warmup_steps", "threads"})


def columns_of(record: type, *others: str) -> dict[str, pa.DataType]:
    """Return the columns of a record's fields, but for some others, by their types.

    Words are texts, and what has fields of its own is JSON.
    """
    hints = get_type_hints(record)
    names = [one.name for one in fields(record) if one.name not in others]
    return {name: pa.int32() if name in _SMALL else _column(hints[name]) for name in names}


def _column(hint: Any) -> pa.DataType:
    kinds = [kind for kind in get_args(hint) if kind is not NoneType]
    plain = kinds[0] if len(kinds) == 1 else hint
    if get_origin(plain) is Mapping or (isinstance(plain, type) and issubclass(plain, StrEnum)):
        return pa.string()
    return _TYPES[plain]


_STEP = columns_of(StepRecord, "provenance")
#: Columns that a file may lack: it was written before they were thought of.
ADDED_COLUMNS = frozenset(
    one.name for one in fields(StepRecord) if one.name in _STEP and one.default is not MISSING
)
#: Accelerators have a column already, of their names.
_PROVENANCE = {
    {"accelerator": "accelerator_facts"}.get(name, name): name for name in columns_of(Provenance)
}

STEP_SCHEMA = pa.schema(
    {
        **{name: kind for name, kind in _STEP.items() if name not in ADDED_COLUMNS},
        **columns_of(Measurement, "step", "operators"),
        **{column: columns_of(Provenance)[name] for column, name in _PROVENANCE.items()},
        **{name: kind for name, kind in _STEP.items() if name in ADDED_COLUMNS},
    }
)

OPERATOR_SCHEMA = pa.schema(
    [
        ("workload_hash", pa.string()),
        ("node", pa.int32()),
        ("op", pa.string()),
        ("phase", pa.string()),
        ("time_ns", pa.int64()),
    ]
)


def step_row(measurement: Measurement) -> dict[str, Any]:
    """Return the row of a measurement in the table of steps."""
    step, provenance = measurement.step, measurement.step.provenance
    return {
        **{name: _written(getattr(step, name)) for name in _STEP},
        "joined_share": measurement.joined_share,
        "unjoined": _written(measurement.unjoined),
        **{column: _written(getattr(provenance, name)) for column, name in _PROVENANCE.items()},
    }


def _written(value: Any) -> Any:
    if isinstance(value, Mapping):
        return orjson.dumps(dict(value), option=orjson.OPT_SORT_KEYS).decode()
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, StrEnum) else value


def measurement_of(row: Mapping[str, Any], operators: Sequence[OperatorRecord]) -> Measurement:
    """Return the measurement of a row with its operator records."""
    own = {name: row[name] for name in _STEP}
    own |= {name: word(row[name]) for name, word in STEP_WORDS.items()}
    own |= {name: tuple(row[name] or ()) for name in ("samples_s", "throttle_reasons")}
    own |= {"job": orjson.loads(row["job"]), "execution": row["execution"] or ""}
    origin = {name: row[column] for column, name in _PROVENANCE.items()}
    origin |= {name: orjson.loads(origin[name]) for name in ("accelerator", "software")}
    return Measurement(
        step=StepRecord(**own, provenance=Provenance(**origin)),
        operators=tuple(operators),
        joined_share=row["joined_share"],
        unjoined=orjson.loads(row["unjoined"]),
    )


def operator_columns(measurements: Sequence[Measurement]) -> dict[str, list[Any]]:
    """Return the operator records of measurements as columns; times in whole nanoseconds."""
    records = [record for one in measurements for record in one.operators]
    return {
        "workload_hash": [r.workload_hash for r in records],
        "node": [r.node for r in records],
        "op": [r.op for r in records],
        "phase": [str(r.phase) for r in records],
        "time_ns": [round(r.time_s * 1e9) for r in records],
    }


def operator_records(table: pa.Table) -> dict[str, list[OperatorRecord]]:
    """Return operator records by workload hash."""
    records: dict[str, list[OperatorRecord]] = {}
    phases = {str(phase): phase for phase in Phase}
    columns = [table.column(name).to_pylist() for name in OPERATOR_SCHEMA.names]
    for workload_hash, node, op, phase, time_ns in zip(*columns, strict=True):
        record = OperatorRecord(
            workload_hash=workload_hash,
            node=node,
            op=op,
            phase=phases[phase],
            time_s=time_ns / 1e9,
        )
        records.setdefault(workload_hash, []).append(record)
    return records


def write_table(path: Path, table: pa.Table, *, row_group_size: int | None = None) -> None:
    """Write a table as zstd Parquet, whole or not at all."""
    with whole_file(path) as temporary:
        pq.write_table(
            table,
            temporary,
            compression="zstd",
            compression_level=19,
            row_group_size=row_group_size,
            # Graphs of one model at two batch sizes are nearly equal: large pages let the
            # compressor see both.
            data_page_size=32 << 20,
            write_page_checksum=True,
        )


def read_table(path: Path, schema: pa.Schema) -> pa.Table:
    """Read a table and check that it has the columns it should have.

    Raises
    ------
    StoreError
        A file that is missing, torn or of another kind; names it.
    """
    try:
        table = pq.ParquetFile(path, page_checksum_verification=True).read()
        return _with_added(table, schema).select(schema.names).cast(schema)
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        raise StoreError(
            f"The profile file {path} cannot be read ({error}). Restore it from version control, "
            "or delete all three files of its number and measure again."
        ) from error


def _with_added(table: pa.Table, schema: pa.Schema) -> pa.Table:
    for name in schema.names:
        if name in ADDED_COLUMNS and name not in table.column_names:
            table = table.append_column(name, pa.nulls(table.num_rows, schema.field(name).type))
    return table
