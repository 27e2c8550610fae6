r"""Time of a training step of a transformer under a plan, composed over streams.

On each stage computation and communication run on streams of their own. Where replicas share out
the parameters (stage 3) the weights of the next layer are gathered while a layer computes, and
gradients of the last are scattered; with computation c and communication g of one layer,

.. math:: hide(c, g) = \max(c, g) + (1 - o) \min(c, g)

where o is the part that really overlaps. A stage of L layers then takes

.. math::
   F &= g + L\, hide(f, g) + \text{tables or output} \\
   B &= g + s + L\, hide(b, g + s) + \text{tables or output}

for the forward and the backward pass of one micro-batch: the first gathering and the last
scattering have nothing to hide behind. Stages 1 and 2 gather nothing; stage 2 scatters in every
micro-batch. :mod:`.pipeline` runs the stages. Then

.. math:: step = pipeline(F, B) + \max(sync - o_g B,\; sync / L) + refresh + update + overhead:

gradients are reduced beside the last backward pass, but those of the last layer have no pass left
to hide behind. The slowest host sets the pace: computation grows by ``straggler`` for every
doubling of the hosts.

No answer lies below the arithmetic at the peak of all accelerators. Where one accelerator's own
step is known, :func:`.plan_answer.plan_answer` takes its scale from there.

Left out: reduction of tied tables between first and last stage, imbalance between experts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray
from perfmodel.placement.estimate import StepParts
from perfmodel.placement.plan_steps.layer_time import (
    PassTimes,
    embedding_times,
    head_times,
    layer_times,
)
from perfmodel.placement.plan_steps.pipeline import pipeline_time_s
from perfmodel.placement.plan_steps.plan_cells import SCHEDULES, PlanCells
from perfmodel.placement.plan_steps.plan_constants import PlanConstants
from perfmodel.placement.plan_steps.plan_exchanges import Exchanges, exchanges
from perfmodel.placement.plan_steps.plan_memory import expert_replicas, rank_parameters


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanStep:
    """Steps under plans.

    Parameters
    ----------
    bubble_s : ndarray
        Part of the computation in which a stage waits for others.
    least_time_s : ndarray
        Arithmetic at the peak of all accelerators.
    """

    parts: StepParts
    bubble_s: FloatArray
    least_time_s: FloatArray

    @property
    def step_time_s(self) -> FloatArray:
        """Time of the whole step, never below the arithmetic at the peak."""
        return np.maximum(self.parts.step_time_s, self.least_time_s)


def plan_step(
    cells: PlanCells, constants: PlanConstants, between: Exchanges | None = None
) -> PlanStep:
    """Return the time of every step, by parts.

    Parameters
    ----------
    between : Exchanges or None
        Of the same steps, where they are known already.
    """
    between = exchanges(cells) if between is None else between
    passes = _stage_passes(cells, between, constants)
    runs_s = _pipeline_s(cells, between, constants, passes)
    micro_batches = cells.plan.micro_batches
    inner = micro_batches * passes.exchange_s
    sync = _exposed_sync_s(cells, between, constants, passes)
    refresh = constants.shard_factor * between.refresh_s
    parts = StepParts.of(
        runs_s - inner + _update_s(cells, constants),
        exposed_communication_s=inner + sync + refresh,
        overhead_s=np.full(len(cells), constants.overhead_s),
        communication_s=_all_communication_s(cells, between, constants),
    )
    busy = micro_batches * (passes.table_s.sum(axis=0) + (cells.plan.pipeline - 1) * passes.inner_s)
    busy = (busy + micro_batches * passes.last_s) / cells.plan.pipeline
    return PlanStep(
        parts=parts,
        bubble_s=np.maximum(runs_s - busy, 0.0),
        least_time_s=cells.least_time_s,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _StagePasses:
    """One micro-batch on the stages of a pipeline: forward and backward passes, shape (2, rows).

    ``layer_s`` with what is exposed of its communication, which is ``exchange_s`` of a mean stage;
    ``table_s`` and ``output_s`` are what the ends have beyond their layers.
    """

    layer_s: FloatArray
    start_s: FloatArray
    table_s: FloatArray
    output_s: FloatArray
    exchange_s: FloatArray
    layers: FloatArray
    pipeline: FloatArray

    @property
    def inner_s(self) -> FloatArray:
        """Both passes of the layers of a mean stage."""
        layers_s = self.layers / self.pipeline * self.layer_s.sum(axis=0)
        return np.asarray(layers_s + self.start_s.sum(axis=0))

    @property
    def last_s(self) -> FloatArray:
        """A stage with what the output adds."""
        return np.asarray(self.inner_s + self.output_s[0] + self.output_s[1])


def _stage_passes(cells: PlanCells, between: Exchanges, constants: PlanConstants) -> _StagePasses:
    stage = cells.plan.zero_stage
    factor = constants.shard_factor
    gather = np.where(stage >= 3, factor * between.gather_layer_s, 0.0)
    scatter = np.where(stage >= 2, factor * between.scatter_layer_s, 0.0)
    ends_gather = np.where(stage >= 3, factor * between.gather_ends_s, 0.0)
    ends_scatter = np.where(stage >= 2, factor * between.scatter_ends_s, 0.0)
    layer = layer_times(cells, between, constants)
    inside = np.stack((layer.forward_exchange_s, layer.backward_exchange_s))
    alone = _slowed(cells, layer, constants) + inside
    starts = np.stack((gather, gather + scatter))
    shown = _hide(alone, starts, constants) - alone
    exchange = shown[0] + shown[1] + inside[0] + inside[1]
    begun = 2 * gather + scatter
    layers, pipeline = cells.shape.layers, cells.plan.pipeline
    return _StagePasses(
        layer_s=alone + shown,
        start_s=starts,
        table_s=_slowed(cells, embedding_times(cells), constants)
        + np.stack((ends_gather, ends_scatter)),
        output_s=_slowed(cells, head_times(cells, constants), constants),
        exchange_s=layers / pipeline * exchange + begun + (ends_gather + ends_scatter) / pipeline,
        layers=layers,
        pipeline=pipeline,
    )


def _slowed(cells: PlanCells, passes: PassTimes, constants: PlanConstants) -> FloatArray:
    """Return the computation of both passes, as slow as the slowest host is expected to be."""
    groups = cells.groups
    stages = np.where(groups.pipeline.hosts > 1, cells.plan.pipeline, 1.0)
    factor = 1 + constants.straggler * np.log2(groups.data.hosts * stages)
    return np.asarray(factor * np.stack((passes.forward_s, passes.backward_s)))


def _hide(compute: FloatArray, communication: FloatArray, constants: PlanConstants) -> FloatArray:
    shorter = np.minimum(compute, communication)
    return np.maximum(compute, communication) + (1 - constants.overlap_efficiency) * shorter


def _pipeline_s(
    cells: PlanCells, between: Exchanges, constants: PlanConstants, passes: _StagePasses
) -> FloatArray:
    """Run the pipelines: cells with as many stages, one schedule and as many chunks together."""
    plan = cells.plan
    time_s = plan.micro_batches * (passes.table_s.sum(axis=0) + passes.last_s)
    sends = constants.send_factor * between.send_s + constants.send_latency_s
    keys = np.stack((plan.pipeline, plan.schedule, plan.virtual_stages), axis=1)
    for key in np.unique(keys[plan.pipeline > 1], axis=0):
        rows = np.flatnonzero((keys == key).all(axis=1))
        forward, backward = _by_stage(passes, rows, int(key[0]))
        time_s[rows] = pipeline_time_s(
            forward,
            backward,
            sends[rows],
            plan.micro_batches[rows],
            SCHEDULES[int(key[1])],
            virtual_stages=int(key[2]),
        )
    return np.asarray(time_s)


def _by_stage(passes: _StagePasses, rows: npt.NDArray[np.int64], stages: int) -> FloatArray:
    """Return both passes of every stage, shape (2, rows, stages).

    Layers that do not divide evenly go to inner stages first: both ends have work beside theirs.
    """
    layers = passes.layers[rows][:, None]
    turn = np.roll(np.arange(stages), 1) if stages > 2 else np.arange(stages)
    held = np.floor(layers / stages) + (turn < layers % stages)
    both = held * passes.layer_s[:, rows, None] + passes.start_s[:, rows, None]
    both[..., 0] += passes.table_s[:, rows]
    both[..., -1] += passes.output_s[:, rows]
    return np.asarray(both)


def _exposed_sync_s(
    cells: PlanCells, between: Exchanges, constants: PlanConstants, passes: _StagePasses
) -> FloatArray:
    layers = cells.shape.layers / cells.plan.pipeline
    sync = constants.shard_factor * between.sync_s
    hidden = constants.gradient_overlap * layers * passes.layer_s[1]
    # What cannot hide grows with what is sent, so that a faster link never hurts.
    tail = sync / (layers + 1)
    latency = np.where(between.sync_s > 0, constants.gradient_latency_s, 0.0)
    return np.asarray(np.maximum(sync - hidden, tail) + latency)


def _update_s(cells: PlanCells, constants: PlanConstants) -> FloatArray:
    common, own = rank_parameters(cells.shape, cells.plan)
    shares = np.where(cells.plan.zero_stage > 0, cells.plan.shards, 1.0)
    parameters = common / shares + own / np.where(shares > 1, expert_replicas(cells.plan), 1.0)
    return np.asarray(constants.update_bytes * parameters / cells.device.memory_bytes_per_s)


def _all_communication_s(
    cells: PlanCells, between: Exchanges, constants: PlanConstants
) -> FloatArray:
    """Return all communication of a mean stage, hidden or not."""
    plan, factor = cells.plan, constants.shard_factor
    gathers = np.where(plan.zero_stage >= 3, 2 * factor * between.gather_layer_s, 0.0)
    scatters = np.where(plan.zero_stage >= 2, factor * between.scatter_layer_s, 0.0)
    exchange = constants.reduce_factor * between.reduce_s + between.dispatch_s
    layer = gathers + scatters + (2 + (plan.checkpointing == 2)) * exchange + 3 * between.rotate_s
    sends = np.where(plan.pipeline > 1, 2 * constants.send_factor * between.send_s, 0.0)
    ends = np.where(plan.zero_stage >= 3, factor * between.gather_ends_s, 0.0)
    ends = ends + np.where(plan.zero_stage >= 2, factor * between.scatter_ends_s, 0.0)
    each = (cells.shape.layers * layer + ends) / plan.pipeline + sends
    once = factor * (between.sync_s + between.refresh_s)
    return np.asarray(plan.micro_batches * each + once)
