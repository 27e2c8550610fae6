"""Small made-up tables in the formats that the importers of kernels read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def write_rows(file: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write rows as Parquet; a column that a row does not state is null there."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [row.get(name) for row in rows] for name in names}
    pq.write_table(pa.table(columns), file)
    return file


def collective(**changed: Any) -> dict[str, Any]:
    """Return a row of the table of collectives."""
    row: dict[str, Any] = {
        "source": "vidur", "device": "A40", "topology": "pairs", "table": "torch",
        "collective": "all_reduce", "backend": "nccl", "backend_version": None,
        "kernel_source": None, "variant": None, "num_gpus": 2, "num_nodes": 1, "bytes": 4096,
        "latency_us": 12.0,
    }  # fmt: skip
    return {**row, **changed}
