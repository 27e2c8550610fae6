from __future__ import annotations

import pytest
import torch
from profilers.distributed.test_collective_runs import CORE
from torch import nn

from perfmodel.errors import InvalidInputError
from perfmodel.graph.job import Job
from perfmodel.profilers.distributed.ranks import RankSettings
from perfmodel.profilers.distributed.replica_runs import blocks_of, measure_replicas
from perfmodel.profilers.processes.repeat_counts import RepeatPolicy
from perfmodel.types import Compiler, Mode

SHORT = RankSettings(
    policy=RepeatPolicy(warmup=1, least_samples=2, most_samples=2, budget_s=0.01), timeout_s=120
)
JOB = Job(
    model="zoo/lstm-lm",
    model_kwargs={"hidden_size": 8},
    mode=Mode.TRAINING,
    batch_size=2,
    sequence_length=4,
)


@pytest.mark.parametrize(
    ("replicas", "asked", "told"), [(1, "ddp", "none"), (2, "ddp", "ddp"), (2, "fsdp", "fsdp")]
)
def test_real_replicas_take_steps(replicas: int, asked: str, told: str) -> None:
    record = measure_replicas(JOB, replicas, sharding=asked, accelerator=CORE, settings=SHORT)
    assert (record.replicas, record.sharding, record.accelerator) == (
        replicas, told, "cpu-made-up-1c",
    )  # fmt: skip
    assert record.model == "zoo/lstm-lm" and record.job["batch_size"] == 2
    assert len(record.repeats.samples_s) == 2 and record.repeats.time_s > 0


def test_what_shares_nothing_is_refused() -> None:
    inference = Job(model="zoo/lstm-lm", mode=Mode.INFERENCE, batch_size=1)
    compiled = Job(
        model="zoo/lstm-lm", mode=Mode.TRAINING, batch_size=1, compiler=Compiler.INDUCTOR
    )
    for job, sharding, said in (
        (inference, "ddp", "mode training"),
        (compiled, "ddp", "eager"),
        (JOB, "zero", "ddp, fsdp"),
    ):
        with pytest.raises(InvalidInputError, match=said):
            measure_replicas(job, 2, sharding=sharding, accelerator=CORE, settings=SHORT)


def test_blocks_are_the_members_of_the_outermost_lists() -> None:
    inner = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    blocks = nn.ModuleList([inner, nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))])
    model = nn.ModuleDict({"stem": nn.Linear(2, 2), "blocks": blocks, "act": nn.ReLU()})
    assert blocks_of(model) == list(blocks)
    with torch.device("meta"):
        assert blocks_of(nn.Linear(2, 2)) == []
