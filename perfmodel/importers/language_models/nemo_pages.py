"""Import the performance pages of NVIDIA's NeMo of 2024 and 2025: DGX H100 and B200, in fp8.

``nemo_2024.csv`` holds the tables of ``docs/source/performance``, a row each. All of them are
trainings in fp8, as the pages say above them and as their rates show, which few bf16 runs of an
H100 could reach. Tables of long sequences name their model in the heading: Llama 2 7B, and on B200
Llama 3 8B, whose rows state arithmetic alone: of that, the whole square of the scores counts.

Left out, with the reason: rows of pages that do not say which system ran (fine-tuning among them),
since printed again with it for the most part; rows with too few cells.

Reference: NVIDIA/NeMo, Apache-2.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from perfmodel.graph.job import Job
from perfmodel.importers.language_models.cluster_models import cluster_model
from perfmodel.importers.language_models.cluster_run import ClusterRun
from perfmodel.importers.language_models.cluster_table import degree, known, read_cluster_table
from perfmodel.importers.public_tables import PublicTable, Row, count, positive, text
from perfmodel.importers.published import Imported
from perfmodel.placement.transformers.transformer_jobs import transformer_shape
from perfmodel.types import Precision

TABLE = PublicTable(
    files=("nemo_2024.csv",),
    source="NVIDIA/NeMo docs/source/performance",
    licence="Apache-2.0",
    columns=(
        "phase", "model", "num_devices", "gbs", "mbs", "seq_len", "seq_len_k", "tp", "pp", "cp",
        "vp", "tokens_per_s_per_gpu", "model_tflops_per_gpu", "section", "row_problem",
        "first_date", "system", "task",
    ),
)  # fmt: skip
_SYSTEMS: Mapping[str, str] = MappingProxyType(
    {"DGX-H100": "H100-SXM5-80GB", "DGX-B200": "B200-SXM"}
)


def read_nemo_pages(path: Path) -> Imported:
    """Read the table, or that of a folder; one placement a row."""
    return read_cluster_table(path, TABLE, _run)


def _run(row: Row) -> ClusterRun:
    if row["row_problem"]:
        raise ValueError("the row has too few cells")
    if not row["system"]:
        raise ValueError("the page does not say which system ran")
    accelerator = known(_SYSTEMS, text(row, "system"), "system")
    name = _model(row)
    model = cluster_model(name)
    length = count(row, "seq_len") if row["seq_len"] else 1024 * count(row, "seq_len_k")
    rate, token_flops = _rate(row, model, length)
    devices = count(row, "num_devices")
    return ClusterRun(
        model=model,
        name=name,
        accelerator=accelerator,
        accelerators=devices,
        global_batch=count(row, "gbs"),
        micro_batch=degree(row, "mbs"),
        sequence_length=length,
        precision=Precision.FP8,
        tokens_per_s=rate * devices,
        tensor=degree(row, "tp"),
        pipeline=degree(row, "pp"),
        context=degree(row, "cp"),
        virtual_stages=degree(row, "vp"),
        token_flops=token_flops,
        software={"nemo": "24.07" if accelerator.startswith("H100") else "25.02"},
    )


def _model(row: Row) -> str:
    if row["model"]:
        return text(row, "model")
    return "LLAMA3-8B" if text(row, "section").startswith("LLAMA3-8B") else "LLAMA2-7B"


def _rate(row: Row, model: Mapping[str, Any], length: int) -> tuple[float, float | None]:
    """Return tokens a second of a GPU, and what the page counts for a token where it says both."""
    flops = 1e12 * positive(row, "model_tflops_per_gpu") if row["model_tflops_per_gpu"] else None
    if row["tokens_per_s_per_gpu"]:
        rate = positive(row, "tokens_per_s_per_gpu")
        return rate, None if flops is None else flops / rate
    shape = transformer_shape(Job(**model, sequence_length=length))
    if flops is None or shape is None:
        raise ValueError("no rate of tokens or of arithmetic is stated")
    return flops * length / shape.sample_flops, None
