"""Measurements as Parquet tables: their columns, and the way there and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from perfmodel.errors import StoreError
from perfmodel.records import Measurement, OperatorRecord, Provenance, StepRecord
from perfmodel.store.durable import whole_file
from perfmodel.types import Compiler, MemoryFormat, Mode, Phase, Precision

STEP_SCHEMA = pa.schema(
    [
        ("workload_hash", pa.string()),
        ("graph_hash", pa.string()),
        ("model", pa.string()),
        ("family", pa.string()),
        ("job", pa.string()),
        ("accelerator", pa.string()),
        ("mode", pa.string()),
        ("batch_size", pa.int64()),
        ("precision", pa.string()),
        ("memory_format", pa.string()),
        ("compiler", pa.string()),
        ("step_time_s", pa.float64()),
        ("samples_s", pa.list_(pa.float64())),
        ("low_s", pa.float64()),
        ("high_s", pa.float64()),
        ("spread", pa.float64()),
        ("noisy", pa.bool_()),
        ("warmup_steps", pa.int32()),
        ("peak_memory_bytes", pa.float64()),
        ("joined_share", pa.float64()),
        ("unjoined", pa.string()),
        ("accelerator_facts", pa.string()),
        ("software", pa.string()),
        ("measured_at", pa.string()),
        ("source", pa.string()),
        ("licence", pa.string()),
        ("threads", pa.int32()),
        ("notes", pa.string()),
        ("execution", pa.string()),
        ("device_time_s", pa.float64()),
        ("device_busy_s", pa.float64()),
        ("reserved_memory_bytes", pa.float64()),
        ("energy_j", pa.float64()),
        ("mean_power_w", pa.float64()),
        ("clock_hz", pa.float64()),
        ("memory_clock_hz", pa.float64()),
        ("temperature_c", pa.float64()),
        ("power_limit_w", pa.float64()),
        ("throttle_reasons", pa.list_(pa.string())),
    ]
)

#: Figures of the device, which files of before its runtime do not have; null where not known.
_DEVICE = ("device_time_s", "device_busy_s", "reserved_memory_bytes", "energy_j", "mean_power_w",
           "clock_hz", "memory_clock_hz", "temperature_c", "power_limit_w")  # fmt: skip
#: Columns that a file may lack: it was written before they were thought of.
ADDED_COLUMNS = frozenset({"execution", *_DEVICE, "throttle_reasons"})

OPERATOR_SCHEMA = pa.schema(
    [
        ("workload_hash", pa.string()),
        ("node", pa.int32()),
        ("op", pa.string()),
        ("phase", pa.string()),
        ("time_ns", pa.int64()),
    ]
)

_PLAIN = ("workload_hash", "graph_hash", "model", "family", "accelerator", "batch_size",
          "step_time_s", "low_s", "high_s", "spread", "noisy", "warmup_steps",
          "peak_memory_bytes")  # fmt: skip
_ENUMS: dict[str, Any] = {
    "mode": Mode,
    "precision": Precision,
    "memory_format": MemoryFormat,
    "compiler": Compiler,
}
_PROVENANCE = ("measured_at", "source", "licence", "threads", "notes")


def step_row(measurement: Measurement) -> dict[str, Any]:
    """Return the row of a measurement in the table of steps."""
    step, provenance = measurement.step, measurement.step.provenance
    return {
        **{name: getattr(step, name) for name in (*_PLAIN, *_DEVICE, "execution")},
        "throttle_reasons": list(step.throttle_reasons),
        **{name: str(getattr(step, name)) for name in _ENUMS},
        **{name: getattr(provenance, name) for name in _PROVENANCE},
        "samples_s": list(step.samples_s),
        "job": _json(step.job),
        "joined_share": measurement.joined_share,
        "unjoined": _json(measurement.unjoined),
        "accelerator_facts": _json(provenance.accelerator),
        "software": _json(provenance.software),
    }


def measurement_of(row: Mapping[str, Any], operators: Sequence[OperatorRecord]) -> Measurement:
    """Return the measurement of a row with its operator records."""
    step = StepRecord(
        **{name: row[name] for name in (*_PLAIN, *_DEVICE)},
        execution=row["execution"] or "",
        throttle_reasons=tuple(row["throttle_reasons"] or ()),
        **{name: enum(row[name]) for name, enum in _ENUMS.items()},
        samples_s=tuple(row["samples_s"]),
        job=orjson.loads(row["job"]),
        provenance=Provenance(
            accelerator=orjson.loads(row["accelerator_facts"]),
            software=orjson.loads(row["software"]),
            **{name: row[name] for name in _PROVENANCE},
        ),
    )
    return Measurement(
        step=step,
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


def _json(value: Mapping[str, Any]) -> str:
    return orjson.dumps(dict(value), option=orjson.OPT_SORT_KEYS).decode()
