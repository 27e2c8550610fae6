from __future__ import annotations

from pathlib import Path

import pytest

from perfmodel.errors import StoreError
from perfmodel.importers.language_models.llm_foundry import read_llm_foundry
from perfmodel.types import Precision

TIDY = (
    "model,seq_len,num_gpus,device,micro_batch_per_gpu,grad_accum,global_batch_seqs,"
    "throughput_tok_s,precision,fsdp_mp_mode,sharding_strategy,act_ckpt,act_cpu_offload,"
    "section,inter_node_gbps"
)
PAGE = """# Speed

## A100 40GB with 1600 Gbps node-node interconnect (RoCE)

|  Model | SeqLen (T) | # GPUs | GPU | MFU | MicroBatchSize | GradAccum | GlobalBatchSize |\
 Throughput (T/s) | Precision | MP Mode | Sharding Strategy | Activation Checkpointing |\
 Activation CPUOffload |
|  --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
|  3b | 100 | 16 | a100_40gb | 1 | 2 | 5 | 160 | 8000 | bf16 | PURE | FULL_SHARD | True | False |

| Other | table |
| --- | --- |
| 1 | 2 |
"""


def _tidy(folder: Path, *rows: str) -> Path:
    file = folder / "llm_foundry_mpt_training.csv"
    file.write_text("\n".join((TIDY, *rows)) + "\n")
    return file


def test_a_row_is_a_sharded_step(tmp_path: Path) -> None:
    _tidy(
        tmp_path,
        "7b,1000,16,H100-SXM-80GB,2,3,96,48000,amp_bf16,DEFAULT,FULL_SHARD,False,False,H100,",
    )
    (record,) = read_llm_foundry(tmp_path).placements
    assert record.step_time_s == 2.0  # 96 sequences x 1000 tokens / 48,000 tokens/s
    assert (record.placement.host_count, record.placement.accelerator_count) == (2, 16)
    plan = record.placement.plan
    assert (plan.data, plan.zero_stage) == (16, 3)
    assert record.placement.network is None  # not stated for the H100
    job = record.job
    assert job is not None and job.model == "zoo/mpt" and dict(job.model_kwargs) == {"size": "7b"}
    assert (job.batch_size, job.accumulation_steps, job.sequence_length) == (2, 3, 1000)
    assert job.precision is Precision.AMP_BF16 and not job.activation_checkpointing


def test_the_page_itself_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "scripts" / "train" / "benchmarking"
    folder.mkdir(parents=True)
    (folder / "README.md").write_text(PAGE)
    (record,) = read_llm_foundry(tmp_path).placements
    assert record.step_time_s == 2.0  # 160 x 100 / 8000
    assert record.origin.line == 7
    assert record.placement.nodes[0].accelerator == "A100-SXM4-40GB"
    assert record.placement.network is not None
    assert record.placement.network.bandwidth_bytes_per_s == 200e9
    assert record.job is not None and record.job.activation_checkpointing


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("7b,1000,12,H100-SXM-80GB,2,3,72,1,bf16,PURE,FULL_SHARD,True,False,,", "whole hosts"),
        ("9b,1000,8,H100-SXM-80GB,2,3,48,1,bf16,PURE,FULL_SHARD,True,False,,", "unknown size"),
        ("7b,1000,8,H100-SXM-80GB,2,3,50,1,bf16,PURE,FULL_SHARD,True,False,,", "global batch"),
        ("7b,1000,8,Abacus,2,3,48,1,bf16,PURE,FULL_SHARD,True,False,,", "device is 'Abacus'"),
        ("7b,1000,8,H100-SXM-80GB,2,3,48,1,fp4,PURE,FULL_SHARD,True,False,,", "precision is"),
        ("7b,1000,8,H100-SXM-80GB,2,3,48,1,bf16,PURE,HALF,True,False,,", "sharding_strategy"),
        ("7b,1000,8,H100-SXM-80GB,2,3,48,,bf16,PURE,FULL_SHARD,True,False,,", "no throughput"),
    ],
)
def test_rows_that_say_nothing_are_reported(tmp_path: Path, row: str, reason: str) -> None:
    _tidy(tmp_path, row)
    imported = read_llm_foundry(tmp_path)
    assert not imported.placements
    assert imported.rejected[0].line == 2 and reason in imported.rejected[0].reason


def test_a_page_without_tables_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text("# Nothing here\n")
    with pytest.raises(StoreError, match="no table"):
        read_llm_foundry(page)
