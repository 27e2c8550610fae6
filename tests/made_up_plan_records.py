"""Made-up steps of language models on A100s, in the form of published ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perfmodel.graph.job import Job
from perfmodel.importers.published import Origin, PublishedPlacement
from perfmodel.placement.plan_steps.plan_constants import PlanConstants, Stack
from perfmodel.placement.plan_steps.plan_step import plan_step
from perfmodel.placement.topology.topology import Node, Placement, Plan
from perfmodel.training.placement_rows.plan_rows import PlanRows, plan_rows
from perfmodel.types import Mode, Precision


def plan_record(
    layers: int,
    width: int,
    plan: Plan,
    micro_batch: int,
    *,
    micro_batches: int = 4,
    time_s: float = 1.0,
) -> PublishedPlacement:
    """Return one step of a model on as many accelerators as its plan needs."""
    job = Job(
        model="zoo/megatron-gpt",
        model_kwargs={"num_layers": layers, "hidden_size": width, "num_heads": 8},
        mode=Mode.TRAINING,
        batch_size=micro_batch,
        accumulation_steps=micro_batches,
        precision=Precision.FP16,
        sequence_length=512,
        activation_checkpointing=True,
    )
    count = (plan.data or 1) * plan.tensor * plan.pipeline
    return PublishedPlacement(
        job=job,
        job_type="gpt",
        batch_size=micro_batch,
        placement=Placement(nodes=(Node(accelerator="A100-SXM4-80GB", count=count),), plan=plan),
        step_time_s=time_s,
        origin=Origin(source="made up", licence="none"),
    )


def rows_of(records: Sequence[PublishedPlacement]) -> PlanRows:
    """Return the rows of steps, which must be there."""
    rows = plan_rows(records, Stack.MEGATRON)
    assert rows is not None
    return rows


def on_the_equations(
    records: Sequence[PublishedPlacement], truth: PlanConstants
) -> list[PublishedPlacement]:
    """Give each step the time that the equations say with some constants."""
    rows = rows_of(records)
    times = plan_step(rows.cells, truth, rows.between).step_time_s
    return [
        replace(record, step_time_s=float(time))
        for record, time in zip(records, times, strict=True)
    ]
