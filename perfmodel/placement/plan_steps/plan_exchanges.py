r"""Every communication of a step under a plan: what is sent, among whom, how long it takes alone.

With r tokens of a micro-batch on a rank, width h, t tensor and c context ranks::

    reduce   2 all-reduces of 2 r h bytes over t, forward and again backward; with the sequence
             split they are gathers and scatters of the same tensors
    dispatch 2 all-to-alls of 2 m r h bytes over the expert ranks, forward and again backward,
             where m of the k experts of a token lie on hosts of their own
    rotate   (c - 1) sends of keys and values to the next context rank
    send     2 r h bytes to the next stage, divided by t where the sequence is split
    gather   the weights of a layer, from the replicas that share them out
    scatter  the gradients of a layer, to the same; or over the groups that hold equal shards, which
             reduce them meanwhile, where that takes longer
    sync     all gradients of a rank, once a step, where no micro-batch has scattered them

What overlaps with what is left to :mod:`.plan_step`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from perfmodel.features.arrays import Columns, FloatArray
from perfmodel.placement.collectives.collective_constants import Collective
from perfmodel.placement.collectives.collectives import collective_time_s
from perfmodel.placement.fabric.groups import CommGroups
from perfmodel.placement.plan_steps.plan_cells import PlanCells
from perfmodel.placement.plan_steps.plan_memory import (
    end_parameters,
    layer_parameters,
    rank_parameters,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Exchanges(Columns):
    """Times of communication by itself, seconds; arrays of one shape.

    Parameters
    ----------
    reduce_s, dispatch_s, rotate_s : ndarray
        Of one forward pass of a layer and micro-batch.
    send_s : ndarray
        Between two stages, one micro-batch.
    gather_layer_s, gather_ends_s : ndarray
        Weights of one layer, and of the tables and the output.
    scatter_layer_s, scatter_ends_s : ndarray
        Their gradients.
    sync_s, refresh_s : ndarray
        All gradients of a rank once a step; updated weights to the replicas that share them.
    """

    reduce_s: FloatArray
    dispatch_s: FloatArray
    rotate_s: FloatArray
    send_s: FloatArray
    gather_layer_s: FloatArray
    gather_ends_s: FloatArray
    scatter_layer_s: FloatArray
    scatter_ends_s: FloatArray
    sync_s: FloatArray
    refresh_s: FloatArray


def exchanges(cells: PlanCells) -> Exchanges:
    """Return all communication of some steps."""
    shared, experts = layer_parameters(cells.shape, cells.plan)
    first, last = end_parameters(cells.shape, cells.plan)
    ends = first + last
    work, reduced = cells.numbers.work, cells.numbers.reduced
    gather, scatter = Collective.ALL_GATHER, Collective.REDUCE_SCATTER
    zeros = np.zeros(len(cells))
    sync, refresh = _once_a_step_s(cells)
    return Exchanges(
        reduce_s=_reduce_s(cells),
        dispatch_s=_dispatch_s(cells),
        rotate_s=_rotate_s(cells),
        send_s=_send_s(cells),
        gather_layer_s=_of_parameters_s(cells, gather, work, shared, experts),
        gather_ends_s=_of_parameters_s(cells, gather, work, ends, zeros),
        scatter_layer_s=_of_parameters_s(cells, scatter, reduced, shared, experts),
        scatter_ends_s=_of_parameters_s(cells, scatter, reduced, ends, zeros),
        sync_s=sync,
        refresh_s=refresh,
    )


def _of_parameters_s(
    cells: PlanCells,
    collective: Collective,
    number_bytes: FloatArray,
    shared: FloatArray,
    experts: FloatArray,
) -> FloatArray:
    groups = cells.groups
    time_s = collective_time_s(collective, number_bytes * shared, groups.data)
    if collective is Collective.REDUCE_SCATTER and (cells.plan.replicate > 1).any():
        # Groups that hold the same shards reduce them while the next ones are scattered.
        shard = number_bytes * shared / cells.plan.shards
        across_s = collective_time_s(Collective.ALL_REDUCE, shard, groups.replicate)
        time_s = np.maximum(time_s, across_s)
    if experts.any():
        own = collective_time_s(collective, number_bytes * experts, groups.expert_data)
        time_s = time_s + own
    return np.asarray(time_s)


def _once_a_step_s(cells: PlanCells) -> tuple[FloatArray, FloatArray]:
    """Return the reduction of a rank's gradients and the gathering of its updated weights."""
    rank = rank_parameters(cells.shape, cells.plan)
    work, reduced = cells.numbers.work, cells.numbers.reduced
    whole = _of_parameters_s(cells, Collective.ALL_REDUCE, reduced, *rank)
    parts = _of_parameters_s(cells, Collective.REDUCE_SCATTER, reduced, *rank)
    gathered = _of_parameters_s(cells, Collective.ALL_GATHER, work, *rank)
    stage = cells.plan.zero_stage
    return (
        np.where(stage == 0, whole, np.where(stage == 1, parts, 0.0)),
        np.where((stage > 0) & (stage < 3), gathered, 0.0),
    )


def _rows_bytes(cells: PlanCells) -> FloatArray:
    return cells.numbers.work * cells.tokens * cells.shape.hidden_size


def _reduce_s(cells: PlanCells) -> FloatArray:
    size, group = _rows_bytes(cells), cells.groups.tensor
    whole = collective_time_s(Collective.ALL_REDUCE, size, group)
    parts = collective_time_s(Collective.ALL_GATHER, size, group)
    parts = parts + collective_time_s(Collective.REDUCE_SCATTER, size, group)
    return np.asarray(2 * np.where(cells.plan.sequence_parallel > 0, parts, whole))


def _dispatch_s(cells: PlanCells) -> FloatArray:
    size = _copies(cells) * _rows_bytes(cells) / cells.sequence_parts
    once = collective_time_s(Collective.ALL_TO_ALL, size, cells.groups.expert)
    return np.asarray(np.where(cells.shape.experts > 1, 2 * cells.shape.mixture_share * once, 0.0))


def _copies(cells: PlanCells) -> FloatArray:
    r"""Return how often a token is sent to its experts.

    Experts on one host (on one rank, where there is one host) get one copy together. k experts
    drawn among p places lie on :math:`p (1 - (1 - 1/p)^k)` of them.
    """
    group = cells.groups.expert
    places = np.where(group.hosts > 1, group.hosts, group.ranks)
    return np.asarray(places * (1 - (1 - 1 / places) ** cells.shape.experts_per_token))


def _rotate_s(cells: PlanCells) -> FloatArray:
    width = 2 * cells.shape.key_value_width / cells.plan.tensor
    size = cells.numbers.work * cells.tokens * width
    once = collective_time_s(Collective.SEND_RECV, size, _neighbours(cells.groups.context))
    return np.asarray((cells.plan.context - 1) * once)


def _send_s(cells: PlanCells) -> FloatArray:
    size = _rows_bytes(cells) / cells.sequence_parts
    return collective_time_s(Collective.SEND_RECV, size, cells.groups.pipeline)


def _neighbours(groups: CommGroups) -> CommGroups:
    """Return the slowest pair of each group: on two hosts where the group spans several."""
    ranks = np.minimum(groups.ranks, 2.0)
    hosts = np.minimum(groups.hosts, ranks)
    share = np.where(hosts > 1, 1.0, ranks)
    return replace(groups, ranks=ranks, hosts=hosts, largest_share=share)
