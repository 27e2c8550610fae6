"""Plans worth asking about for a transformer on given hardware.

Degrees multiply to the number of accelerators. Rules that practice and memory agree on keep the
number small:

- tensor splits stay inside a host, divide the heads of queries and of keys and values, and split
  the sequence with them where it divides (the same bytes are sent, less is kept);
- stages hold at least one layer each; interleaved stages, 32 at most, hold 2 or 4 chunks of equal
  size and work on whole rounds of micro-batches. GPipe takes as long as 1F1B and keeps more, so it
  is left out;
- replicas share gradients or parameters out only without a pipeline, where each micro-batch
  would send them again;
- context splits leave at least 4,096 tokens on a rank;
- experts are spread over replicas.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from perfmodel.placement.fabric.fabric import Fabric
from perfmodel.placement.plan_steps.plan_cells import Checkpointing, PlanChoice
from perfmodel.placement.topology.topology import Plan, Schedule
from perfmodel.placement.transformers.transformer_shape import TransformerShape

_LEAST_CONTEXT = 4096
_CHUNKS = (2, 4)
#: Rounds of more stages are longer than the batches that are trained with.
_MOST_INTERLEAVED = 32
#: Larger micro-batches use no device better.
_MOST_TOKENS = 2**18


def plan_candidates(shape: TransformerShape, fabric: Fabric, global_batch: int) -> list[PlanChoice]:
    """Return plans for all accelerators of a fabric, without recomputation.

    Parameters
    ----------
    global_batch : int
        Samples of a step, over all replicas.

    Returns
    -------
    list of PlanChoice
        Empty where no replica count divides the batch.
    """
    return [
        PlanChoice(plan=plan, micro_batch=size, micro_batches=micro_batches)
        for degrees in _degrees(shape, fabric, global_batch)
        for size, micro_batches in _batches(shape, degrees, global_batch)
        for plan in _variants(shape, degrees, micro_batches)
    ]


def with_checkpointing(choice: PlanChoice, *, fused_attention: bool) -> list[PlanChoice]:
    """Return the ways to recompute less and more, least first."""
    kinds = [Checkpointing.NONE, Checkpointing.FULL]
    if not fused_attention:
        kinds.insert(1, Checkpointing.SELECTIVE)
    return [replace(choice, checkpointing=kind) for kind in kinds]


def _degrees(shape: TransformerShape, fabric: Fabric, global_batch: int) -> Iterator[Plan]:
    """Yield the splits that multiply to the accelerators."""
    count = fabric.placement.accelerator_count
    host = min(one.count for one in fabric.hosts)
    for tensor in _divisors(count):
        if tensor > host or shape.heads % tensor or shape.key_value_heads % tensor:
            continue
        for pipeline in _divisors(count // tensor):
            if pipeline > shape.layers:
                continue
            for context in _divisors(count // tensor // pipeline):
                if context > 1 and shape.sequence_length < _LEAST_CONTEXT * context:
                    continue
                data = count // (tensor * pipeline * context)
                if global_batch % data == 0:
                    yield from _with_experts(shape, tensor, pipeline, context, data)


def _with_experts(
    shape: TransformerShape, tensor: int, pipeline: int, context: int, data: int
) -> Iterator[Plan]:
    for expert in _divisors(data):
        if shape.experts % expert == 0:
            yield Plan(
                data=data,
                tensor=tensor,
                pipeline=pipeline,
                expert=expert,
                context=context,
                sequence_parallel=tensor > 1 and shape.sequence_length % tensor == 0,
            )


def _batches(shape: TransformerShape, plan: Plan, global_batch: int) -> Iterator[tuple[int, int]]:
    """Yield sizes and counts of the micro-batches of a replica, sizes by powers of two."""
    each = global_batch // (plan.data or 1)
    size = 1
    while each % size == 0 and size * shape.sequence_length <= max(
        _MOST_TOKENS, shape.sequence_length
    ):
        yield size, each // size
        size *= 2


def _variants(shape: TransformerShape, plan: Plan, micro_batches: int) -> Iterator[Plan]:
    """Yield the ways to share out and to schedule one split."""
    shares = (plan.data or 1) * plan.context > 1
    stages = (0, 1) if plan.pipeline > 1 else (0, 1, 2, 3)
    for zero_stage in stages if shares else (0,):
        one = replace(plan, zero_stage=zero_stage)
        yield one
        is_round = micro_batches % plan.pipeline == 0
        if not (1 < plan.pipeline <= _MOST_INTERLEAVED and is_round):
            continue
        for chunks in _CHUNKS:
            if shape.layers % (plan.pipeline * chunks) == 0:
                yield replace(one, schedule=Schedule.INTERLEAVED, virtual_stages=chunks)


def _divisors(number: int) -> list[int]:
    return [one for one in range(1, number + 1) if number % one == 0]
