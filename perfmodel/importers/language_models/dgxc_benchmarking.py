"""Import NVIDIA's recipes for clusters of H100: 8 to 2,304 GPUs, bf16 and fp8, weak and strong.

``dgxc_benchmarking.parquet`` holds the tables of the pages of NVIDIA/dgxc-benchmarking, a row each:
model with its precision in the name, GPUs, degrees, batches, seconds of a step, utilisation of the
peak. Small counts of the largest models run fewer layers (``layers``). Sequences that the page does
not state follow from tokens, step and batch.

Left out, with the reason: LoRA, whose frozen weights are no part of these jobs; runs of JAX, whose
pages state no plan or replicas of shards; Llama 4, whose layers are of two kinds; rows that state
no micro-batch.

Reference: NVIDIA/dgxc-benchmarking, MIT.
"""

from __future__ import annotations

import re
from pathlib import Path

from perfmodel.devices.catalog import Catalog
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
    files=("dgxc_benchmarking.parquet", "dgxc_benchmarking.csv"),
    source="NVIDIA/dgxc-benchmarking",
    licence="MIT",
    columns=(
        "model", "precision", "num_devices", "device", "container", "step_time_s", "tokens_per_s",
        "mfu_pct", "seq_len", "seq_len_implied", "layers", "tp", "pp", "cp", "vp", "ep", "mbs",
        "gbs", "republished_duplicate", "first_date",
    ),
)  # fmt: skip
_DEVICES = {"H100": "H100-SXM5-80GB", "GB200": "GB200"}
_LENGTHS, _ROUNDING = (2048, 4096, 8192), 0.03
#: Words of a name that do not tell a model.
_BESIDE = re.compile(r"\b(bf16|fp8|h100|gb200|dev|\d\d\.\d\d|finetuning|sft)\b", re.IGNORECASE)
_NAMED = {"nemo megatron": "GPT3-175B"}


def read_dgxc_benchmarking(path: Path) -> Imported:
    """Read the table, or that of a folder; one placement a row."""
    return read_cluster_table(path, TABLE, _run, repeated="republished_duplicate")


def _run(row: Row) -> ClusterRun:
    written, devices = text(row, "model"), count(row, "num_devices")
    name, accelerator = _name(written), known(_DEVICES, text(row, "device"), "accelerator")
    precision = precision_of(text(row, "precision"))
    peak = Catalog.default().get(accelerator).flops_per_s(precision)
    length, batch = _length(row), count(row, "gbs")
    rate = batch * length / positive(row, "step_time_s")
    layers = count(row, "layers") if row["layers"] else None
    return ClusterRun(
        model=cluster_model(name, layers=layers),
        name=name,
        accelerator=accelerator,
        accelerators=devices,
        global_batch=batch,
        micro_batch=count(row, "mbs"),
        sequence_length=length,
        precision=precision,
        tokens_per_s=rate,
        tensor=degree(row, "tp"),
        pipeline=degree(row, "pp"),
        context=degree(row, "cp"),
        expert=degree(row, "ep"),
        virtual_stages=degree(row, "vp"),
        token_flops=positive(row, "mfu_pct") / 100 * peak * devices / rate,
        software={"nemo": str(row["container"])} if row["container"] else {},
        settings={"name": written},
    )


def _name(written: str) -> str:
    lower = written.lower()
    if "lora" in lower:
        raise ValueError("LoRA: a job cannot state frozen weights here")
    if lower.startswith(("maxtext", "paxml")):
        raise ValueError("runs of JAX: the plan is not stated, or has replicas of shards")
    name = _BESIDE.sub("", written).strip()
    return _NAMED.get(name.lower(), name)


def _length(row: Row) -> int:
    if row["seq_len"]:
        return count(row, "seq_len")
    implied = positive(row, "seq_len_implied")
    near = [one for one in _LENGTHS if abs(implied / one - 1) < _ROUNDING]
    if not near:
        raise ValueError("the length of the sequences is not stated")
    return near[0]
