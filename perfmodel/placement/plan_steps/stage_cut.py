r"""Cut any graph into pipeline stages: the fallback for what is no stack of equal layers.

Forward nodes stay in program order. Stage boundaries lie near equal shares of the time, and within
a tolerance around each share where the fewest bytes are handed over: a tensor that a node before
the cut writes and a node behind it reads has to be sent. A stage's part of the backward pass is
taken in proportion to its part of the forward pass. With the shares :math:`\phi_i` of the stages
and the step of one accelerator T, of which forward and backward passes take the shares
:math:`s_f` and :math:`s_b` over n micro-batches,

.. math:: f_i = \phi_i s_f T / n, \quad b_i = \phi_i s_b T / n,

:mod:`.pipeline` runs them; the optimizer's share is divided by the stages.

Splits of single operators (tensor, context and expert parallelism) are refused: what a graph of
unknown structure would have to exchange for them is not known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmodel.errors import InvalidPlacementError
from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.features.nodes import node_table
from perfmodel.graph.ir import Graph
from perfmodel.placement.collectives.collective_constants import Collective
from perfmodel.placement.collectives.collectives import collective_time_s
from perfmodel.placement.data_parallel.step_profile import typical_node_seconds
from perfmodel.placement.fabric.groups import CommGroups
from perfmodel.placement.plan_steps.pipeline import pipeline_time_s
from perfmodel.placement.topology.topology import Plan
from perfmodel.types import Phase, Role

#: How far from an equal share a boundary may lie, in shares of a stage.
_TOLERANCE = 0.15
_HANDED_ON = (Role.ACTIVATION, Role.INPUT)


@dataclass(frozen=True, kw_only=True, slots=True)
class StageCut:
    """A graph in pipeline stages.

    Parameters
    ----------
    share : ndarray, shape (stages,)
        Of the forward time; they add up to 1.
    cut_bytes : ndarray, shape (stages - 1,)
        Handed from each stage to later ones, for the micro-batch of the graph.
    forward_share, backward_share, rest_share : float
        Of the step of one accelerator; they add up to 1.
    """

    share: FloatArray
    cut_bytes: FloatArray
    forward_share: float
    backward_share: float
    rest_share: float


def cut_graph(graph: Graph, stages: int) -> StageCut:
    """Return a graph cut into pipeline stages.

    Parameters
    ----------
    graph : Graph
        A step of one micro-batch.
    stages : int
        At least 1, at most the forward nodes that take time.

    Raises
    ------
    InvalidPlacementError
        More stages than there is to cut.
    """
    seconds = typical_node_seconds(node_table(graph))
    phases = np.array([node.phase.value for node in graph.nodes])
    forward = np.flatnonzero(phases == Phase.FORWARD.value)
    working = int(np.count_nonzero(seconds[forward]))
    if not 1 <= stages <= working:
        raise InvalidPlacementError(
            f"{stages} pipeline stages cannot be cut from {working} operators; ask for fewer.",
            pointer="/placement/plan/pipeline",
        )
    passed = np.cumsum(seconds[forward])
    crossing = _crossing_bytes(graph, forward)
    cuts = _boundaries(passed, crossing, stages)
    at = np.concatenate(([0.0], passed[cuts], [passed[-1]]))
    total = float(seconds.sum())
    back = float(seconds[phases == Phase.BACKWARD.value].sum()) / total
    ahead = float(passed[-1]) / total
    return StageCut(
        share=np.diff(at) / passed[-1],
        cut_bytes=crossing[cuts],
        forward_share=ahead,
        backward_share=back,
        rest_share=max(0.0, 1.0 - ahead - back),
    )


def cut_step_s(
    cut: StageCut, plan: Plan, single_s: float, micro_batches: int, pair: CommGroups
) -> float:
    """Return the time of a step of one replica over the stages of a cut graph.

    Parameters
    ----------
    plan : Plan
        Of its degrees only ``data`` and ``pipeline`` may be above 1.
    single_s : float
        The same step on one accelerator, all micro-batches.
    micro_batches : int
        >= 1.
    pair : CommGroups
        Two neighbouring stages, one row.
    """
    refuse_operator_splits(plan)
    if len(cut.share) == 1:
        return single_s
    forward = cut.share * cut.forward_share * single_s / micro_batches
    backward = cut.share * cut.backward_share * single_s / micro_batches
    send = collective_time_s(Collective.SEND_RECV, cut.cut_bytes.max(initial=0.0), pair)
    runs = pipeline_time_s(
        forward[None],
        backward[None],
        np.atleast_1d(send)[:1],
        np.array([float(micro_batches)]),
        plan.schedule,
        virtual_stages=plan.virtual_stages,
    )
    return float(runs[0] + cut.rest_share * single_s / len(cut.share))


def refuse_operator_splits(plan: Plan, *, pointer: str = "/placement") -> None:
    """Refuse a plan that splits operators, for a graph of unknown structure.

    Raises
    ------
    InvalidPlacementError
        With the degree to leave out.
    """
    for word in ("tensor", "context", "expert"):
        if getattr(plan, word) > 1:
            raise InvalidPlacementError(
                f"{word} parallelism needs a model of equal transformer layers, and none was "
                f"recognised in this graph. Leave {word} out; data, pipeline and ZeRO stages work "
                "for any graph.",
                pointer=f"{pointer}/plan/{word}",
                allowed=("1",),
            )


def _crossing_bytes(graph: Graph, forward: IntArray) -> FloatArray:
    """Return the bytes of what is written up to each forward node and read behind it."""
    place = {int(node): position for position, node in enumerate(forward)}
    change = np.zeros(len(forward) + 1)
    written: dict[int, int] = {}
    read: dict[int, int] = {}
    size: dict[int, int] = {}
    for node, position in place.items():
        for index in graph.nodes[node].inputs:
            if graph.tensors[index].storage in written:
                read[graph.tensors[index].storage] = position
        for index in graph.nodes[node].outputs:
            tensor = graph.tensors[index]
            if tensor.role in _HANDED_ON:
                written.setdefault(tensor.storage, position)
                size[tensor.storage] = max(size.get(tensor.storage, 0), tensor.size_bytes)
    for storage, last in read.items():
        change[written[storage]] += size[storage]
        change[last] -= size[storage]
    return np.cumsum(change)[:-1]


def _boundaries(passed: FloatArray, crossing: FloatArray, stages: int) -> IntArray:
    """Return the last node of every stage but the last one."""
    cuts: list[int] = []
    least = 0
    for stage in range(1, stages):
        # What is left must suffice for the stages behind.
        most = len(passed) - 1 - (stages - stage)
        target = passed[-1] * stage / stages
        reach = _TOLERANCE * passed[-1] / stages
        low = int(np.searchsorted(passed, target - reach))
        high = int(np.searchsorted(passed, target + reach, side="right"))
        low = min(max(low, least), most)
        high = min(max(high, low + 1), most + 1)
        cheapest = low + int(np.argmin(crossing[low:high]))
        cuts.append(cheapest)
        least = cheapest + 1
    return np.array(cuts, dtype=np.int64)
