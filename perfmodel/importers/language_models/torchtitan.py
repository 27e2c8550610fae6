"""Import the training rates of PyTorch's torchtitan: Llamas sharded over 8 to 128 GPUs.

``torchtitan.csv`` holds the tables of ``docs/performance.md`` of all versions and of
``benchmarks``; ``config`` is JSON of the other columns, ``caption`` and ``section`` say the rest.
Parameters are sharded over all replicas (FSDP), Llama 3.1 405B and the study of tensor ranks also
split products over eight. Sequences have 8,192 tokens, those of Llama 2 4,096. What operators keep
of selective recomputation ("selective op") is read as that of attention alone, the nearest that a
job can state. "Float8" is fp8.

The H100 of these pages have 96 GB of HBM2e, and a memory a third slower than the catalogue has for
the H100-SXM5-96GB that they are read as.

Left out, with the reason: recomputation of every second layer, and tensor ranks that communicate
asynchronously, neither of which a job can state; inference.

Reference: pytorch/torchtitan, BSD-3-Clause.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from perfmodel.importers.language_models.cluster_models import cluster_model
from perfmodel.importers.language_models.cluster_run import ClusterRun
from perfmodel.importers.language_models.cluster_table import known, read_cluster_table
from perfmodel.importers.public_tables import PublicTable, Row, count, positive, text
from perfmodel.importers.published import Imported
from perfmodel.types import Compiler, Precision

TABLE = PublicTable(
    files=("torchtitan.csv",),
    source="pytorch/torchtitan docs/performance.md",
    licence="BSD-3-Clause",
    columns=(
        "value", "metric", "unit", "config", "caption", "section", "num_devices", "device",
        "local_batch", "model", "first_date",
    ),
)  # fmt: skip
_DEVICES: Mapping[str, str] = MappingProxyType(
    {"A100-80GB": "A100-SXM4-80GB", "H100-96GB(HBM2e, Meta)": "H100-SXM5-96GB"}
)
_TENSOR_RANKS = 8
_CONTEXT = re.compile(r"CP (\d+)")


def read_torchtitan(path: Path) -> Imported:
    """Read the table, or that of a folder; one placement a row."""
    return read_cluster_table(path, TABLE, _run)


def _run(row: Row) -> ClusterRun:
    said: dict[str, str] = json.loads(text(row, "config"))
    if text(row, "unit") != "tokens/s/GPU":
        raise ValueError("a rate of inference")
    words = f"{' '.join(said.values())} {row['section'] or ''} {row['caption'] or ''}".lower()
    if "async" in _technique(said, row):
        raise ValueError("a job cannot state that tensor ranks communicate asynchronously")
    devices, device, name = count(row, "num_devices"), text(row, "device"), text(row, "model")
    tensor = _TENSOR_RANKS if "405B" in name or "tp=8" in words else 1
    context = int(found[1]) if (found := _CONTEXT.search(said.get("Parallelism", ""))) else 1
    replicas = devices // (tensor * context)
    batch = count(row, "local_batch")
    return ClusterRun(
        model=cluster_model(_model(name, row)),
        name=name,
        accelerator=known(_DEVICES, device, "accelerator"),
        accelerators=devices,
        global_batch=batch * replicas,
        micro_batch=batch,
        sequence_length=_length(said, name, row),
        precision=_precision(said, words),
        tokens_per_s=positive(row, "value") * devices,
        tensor=tensor,
        context=context,
        zero_stage=3,
        checkpointing=_checkpointing(said, words),
        compiler=Compiler.INDUCTOR if "compile" in words else Compiler.EAGER,
        software={"torch": "2.5"},
    )


def _technique(said: Mapping[str, str], row: Row) -> str:
    """Return what a row says of its own run; some name the rate of the other technique beside."""
    own = " ".join(said.get(name, "") for name in ("Optimizations", "optimizations", "TP type"))
    return f"{own} {row['metric']}".lower()


def _model(name: str, row: Row) -> str:
    # The first pages say in the heading which generation of Llama their sizes are of.
    section = f"{row['section'] or ''} {row['caption'] or ''}".lower()
    if name.lower() == "llama 70b" and "llama 3" in section:
        return "Llama 3 70B"
    if name.lower() == "llama 8b" or "8b" in name.lower():
        return "Llama 3 8B"
    return name


def _length(said: Mapping[str, str], name: str, row: Row) -> int:
    if "Sequence Length" in said:
        return int(said["Sequence Length"])
    model = _model(name, row).lower().replace(" ", "")
    return 4096 if model in ("llama13b", "llama70b") else 8192


def _precision(said: Mapping[str, str], words: str) -> Precision:
    quantised = said.get("Quantization", said.get("Techniques", said.get("Optimizations", "")))
    quantised = quantised or said.get("optimizations", "")
    own = quantised.lower()
    if "Parallelism" in said and "float8" in words:
        own = "float8"
    return Precision.FP8 if "float8" in own or "fp8" in own else Precision.AMP_BF16


def _checkpointing(said: Mapping[str, str], words: str) -> str:
    own = next((v for k, v in said.items() if k.startswith("Activation")), "")
    if own == "selective layer":
        raise ValueError("a job cannot state that every second layer is computed again")
    if own == "full" or "full activation checkpointing" in words:
        return "full"
    if own == "selective op" or "selective activation" in words or "sac" in words.split():
        return "attention"
    return "none"
