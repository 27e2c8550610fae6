"""Import the training rates of NVIDIA's Megatron-Bridge: 8 to 1,024 GPUs, bf16 and fp8.

``megatron_bridge.parquet`` holds the tables of ``docs/performance-summary.md`` of every release, a
row each: model, GPUs, batches, degrees, precision, tokens a second and GPU. A release is software
of its own (``software["nemo"]``); what the page printed again unchanged under the same release is
one record, the newest.

fp8 is read as such whatever its recipe (``settings["recipe"]``: current scaling, blocks, MX).
``fsdp`` shares out parameters; without it the optimizer's state is.

Left out, with the reason: 4-bit floats, which a job cannot state; models of layers of two kinds;
rows with too few cells; rates that contradict the arithmetic beside them.

Reference: NVIDIA-NeMo/Megatron-Bridge, Apache-2.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from perfmodel.importers.language_models.cluster_models import cluster_model
from perfmodel.importers.language_models.cluster_run import ClusterRun
from perfmodel.importers.language_models.cluster_table import (
    degree,
    known,
    precision_of,
    read_cluster_table,
)
from perfmodel.importers.public_tables import PublicTable, Row, count, positive, text
from perfmodel.importers.published import Imported

TABLE = PublicTable(
    files=("megatron_bridge.parquet", "megatron_bridge.csv"),
    source="NVIDIA-NeMo/Megatron-Bridge",
    licence="Apache-2.0",
    columns=(
        "software", "system", "model", "num_devices", "gbs", "mbs", "seq_len", "fsdp", "tp", "pp",
        "cp", "vp", "ep", "precision", "tokens_per_s_per_gpu", "model_tflops_per_gpu",
        "row_problem", "republished_layout_duplicate", "first_date",
    ),
)  # fmt: skip
_SYSTEMS: Mapping[str, str] = MappingProxyType(
    {
        "DGX-H100": "H100-SXM5-80GB",
        "DGX-B200": "B200-SXM",
        "DGX-B300": "B300-SXM",
        "DGX-GB200": "GB200",
        "DGX-GB300": "GB300",
    }
)


def read_megatron_bridge(path: Path) -> Imported:
    """Read the table, or that of a folder; one placement a row."""
    return read_cluster_table(path, TABLE, _run, repeated="republished_layout_duplicate")


def _run(row: Row) -> ClusterRun:
    if row["row_problem"]:
        raise ValueError("the row has too few cells")
    system, name = text(row, "system"), text(row, "model")
    devices, rate = count(row, "num_devices"), positive(row, "tokens_per_s_per_gpu")
    # GPT-OSS has other FLOP since 26.06, and so counts no check of the model.
    return ClusterRun(
        model=cluster_model(name),
        name=name.split(" (")[0],
        accelerator=known(_SYSTEMS, system, "system"),
        accelerators=devices,
        global_batch=count(row, "gbs"),
        micro_batch=count(row, "mbs"),
        sequence_length=count(row, "seq_len"),
        precision=precision_of(text(row, "precision")),
        tokens_per_s=rate * devices,
        tensor=degree(row, "tp"),
        pipeline=degree(row, "pp"),
        context=degree(row, "cp"),
        expert=degree(row, "ep"),
        virtual_stages=degree(row, "vp"),
        zero_stage=1 if str(row["fsdp"] or "0") in ("0", "0.0") else 3,
        token_flops=None if "OSS" in name else 1e12 * positive(row, "model_tflops_per_gpu") / rate,
        software={"nemo": text(row, "software").removeprefix("NeMo container ")},
        settings={"recipe": text(row, "precision"), "system": system},
    )
