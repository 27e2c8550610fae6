"""Import the MPT training tables of mosaicml/llm-foundry.

The repository keeps them in ``scripts/train/benchmarking/README.md``; the tidy form is a CSV with
one row a run. Columns and units of both are the same: sequences, tokens, tokens/s.

All runs are on hosts of eight GPUs. Where the page states the links between hosts (1600 Gbit/s
for the A100), the placement has them. Throughput in sequences/s is rounded in the source, so the
tokens are used.

Left out: sharding other than full (it appears in no row), and the optimizer, which is not stated:
AdamW is taken.

Reference: mosaicml/llm-foundry, ``scripts/train/benchmarking``, Apache-2.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from perfmodel.errors import StoreError
from perfmodel.graph.job import Job
from perfmodel.importers.public_tables import PublicTable, Row, count, find_tables, positive, text
from perfmodel.importers.published import Imported, Origin, PublishedPlacement
from perfmodel.placement.topology.topology import Network, Node, Placement, Plan
from perfmodel.types import Mode, Precision

Meaning = TypeVar("Meaning")

#: Names of the page's columns in the tidy form; those read here.
_PAGE_COLUMNS: Mapping[str, str] = MappingProxyType(
    {
        "Model": "model",
        "SeqLen (T)": "seq_len",
        "# GPUs": "num_gpus",
        "GPU": "device",
        "MicroBatchSize": "micro_batch_per_gpu",
        "GradAccum": "grad_accum",
        "GlobalBatchSize": "global_batch_seqs",
        "Throughput (T/s)": "throughput_tok_s",
        "Precision": "precision",
        "MP Mode": "fsdp_mp_mode",
        "Sharding Strategy": "sharding_strategy",
        "Activation Checkpointing": "act_ckpt",
        "Activation CPUOffload": "act_cpu_offload",
    }
)
TABLE = PublicTable(
    files=("llm_foundry_mpt_training.csv", "scripts/train/benchmarking/README.md"),
    source="mosaicml/llm-foundry scripts/train/benchmarking/README.md",
    licence="Apache-2.0",
    columns=tuple(_PAGE_COLUMNS.values()),
)
DEVICES: Mapping[str, str] = MappingProxyType(
    {
        "A100-SXM-40GB": "A100-SXM4-40GB",
        "A100-SXM-80GB": "A100-SXM4-80GB",
        "H100-SXM-80GB": "H100-SXM5-80GB",
        "a100_40gb": "A100-SXM4-40GB",
        "a100_80gb": "A100-SXM4-80GB",
        "h100_80gb": "H100-SXM5-80GB",
    }
)
SIZES = ("125m", "350m", "760m", "1b", "3b", "7b", "13b", "30b", "70b")

_PRECISION = {
    "amp_bf16": Precision.AMP_BF16,
    "bf16": Precision.BF16,
    "amp_fp8": Precision.FP8,
    "fp8": Precision.FP8,
}
_ZERO_STAGE = {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2, "NO_SHARD": 0}
_FLAG = {"True": True, "False": False}
_GPUS_OF_A_HOST = 8


def read_llm_foundry(path: Path) -> Imported:
    """Read the tables of MPT training, one placement a row.

    Parameters
    ----------
    path : Path
        The tidy CSV, the page, the folder that holds the CSV, or a clone of the repository.
    """
    file = find_tables(path, TABLE.files)[0]
    rows = _page_rows(file) if file.suffix == ".md" else TABLE.rows(file)
    placements, rejected = TABLE.understood(file.name, rows, _placement)
    return Imported(placements=tuple(placements), rejected=rejected)


def _page_rows(file: Path) -> list[tuple[int, Row]]:
    """Read every table of the page whose header begins with the model and the length."""
    rows: list[tuple[int, Row]] = []
    header: list[str] = []
    section = ""
    for line, written in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        section = written.lstrip("# ").strip() if written.startswith("#") else section
        cells = [cell.strip() for cell in written.strip().strip("|").split("|")]
        if not written.lstrip().startswith("|"):
            header = []
        elif cells[:2] == ["Model", "SeqLen (T)"]:
            header = [_PAGE_COLUMNS.get(cell, "") for cell in cells]
        elif header and not set("".join(cells)) <= set("-: "):
            rows.append((line, {**dict(zip(header, cells, strict=False)), "section": section}))
    if not rows:
        raise StoreError(f"{file} holds no table of MPT training runs.")
    return rows


def _placement(row: Row, origin: Origin) -> PublishedPlacement:
    gpus = count(row, "num_gpus")
    if gpus % _GPUS_OF_A_HOST:
        raise ValueError(f"{gpus} GPUs are no whole hosts of {_GPUS_OF_A_HOST}")
    job = _job(row)
    sequences = count(row, "global_batch_seqs")
    if sequences != job.batch_size * job.accumulation_steps * gpus:
        raise ValueError("the global batch is not micro-batch x accumulation x GPUs")
    node = Node(
        accelerator=_known(row, "device", DEVICES),
        count=_GPUS_OF_A_HOST,
        repeat=gpus // _GPUS_OF_A_HOST,
    )
    stage = _known(row, "sharding_strategy", _ZERO_STAGE)
    return PublishedPlacement(
        job=job,
        job_type=f"mpt-{text(row, 'model')}",
        batch_size=job.batch_size,
        placement=Placement(
            nodes=(node,), network=_network(row), plan=Plan(data=gpus, zero_stage=stage)
        ),
        step_time_s=sequences * count(row, "seq_len") / positive(row, "throughput_tok_s"),
        origin=origin,
        settings=_settings(row),
    )


def _job(row: Row) -> Job:
    size = text(row, "model").lower()
    if size not in SIZES:
        raise ValueError(f"unknown size {size!r} of MPT")
    return Job(
        model="zoo/mpt",
        model_kwargs={"size": size},
        mode=Mode.TRAINING,
        batch_size=count(row, "micro_batch_per_gpu"),
        accumulation_steps=count(row, "grad_accum"),
        precision=_known(row, "precision", _PRECISION),
        optimizer="adamw",
        sequence_length=count(row, "seq_len"),
        activation_checkpointing=_known(row, "act_ckpt", _FLAG),
    )


def _network(row: Row) -> Network | None:
    section = str(row.get("section") or "")
    if "1600 Gbps" not in section and str(row.get("inter_node_gbps") or "") not in (
        "1600", "1600.0",
    ):  # fmt: skip
        return None
    # Eight links of 200 Gbit/s a host, in each direction.
    return Network(name="roce-1600g", bandwidth_bytes_per_s=1600e9 / 8, latency_s=4e-6)


def _settings(row: Row) -> dict[str, str]:
    return {
        "mixed_precision": text(row, "fsdp_mp_mode"),
        "sharding": text(row, "sharding_strategy"),
        "activation_offload": str(_known(row, "act_cpu_offload", _FLAG)).lower(),
        "section": str(row.get("section") or ""),
    }


def _known(row: Row, name: str, words: Mapping[str, Meaning]) -> Meaning:
    word = text(row, name)
    if word not in words:
        raise ValueError(f"{name} is {word!r}; understood are {', '.join(words)}")
    return words[word]
