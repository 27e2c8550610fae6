r"""The arithmetic of a job beside the peaks of what it runs on.

Model FLOP utilisation is

.. math:: U = r\,\frac{F}{s} \Big/ \sum_i n_i P_i

with the rate r of the whole job in samples/s, the FLOPs F of one replica's step of s samples, and
the peak P of each of n equal accelerators, of the part that the job holds, at its precision. What a
step computes a second time, as activation checkpointing has it, counts once (PaLM, appendix B).
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import numpy.typing as npt

from perfmodel.client.answers import Roofline
from perfmodel.estimator.core.resolved_placement import Kind, ResolvedPlacement
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.features.nodes import node_table
from perfmodel.features.roofline import device_share
from perfmodel.graph.ir import Graph
from perfmodel.types import Phase


def roofline_of(prepared: PreparedJob, kind: Kind) -> Roofline:
    """Return the peaks of what a job holds of an accelerator, as much of it as it may use."""
    workload, spec = prepared.on(kind.accelerator), kind.held
    peak = spec.flops_per_s(workload.precision) * device_share(spec, workload.threads)
    return Roofline(
        accelerator=spec.name,
        precision=workload.precision.value,
        peak_flops_per_s=peak,
        memory_bytes_per_s=spec.bandwidth_bytes_per_s,
        ridge_intensity=peak / spec.bandwidth_bytes_per_s,
    )


def model_flops_utilisation(
    prepared: PreparedJob, placement: ResolvedPlacement, samples_per_second: float
) -> float | None:
    """Return the share of the peaks of a placement that a job uses; None where it has no FLOPs.

    Parameters
    ----------
    samples_per_second : float
        Of the whole job.
    """
    peaks = [kind.count * roofline_of(prepared, kind).peak_flops_per_s for kind in placement.kinds]
    flops = model_flops(prepared.step.graph, prepared.job.accumulation_steps)
    return samples_per_second * flops / prepared.samples / sum(peaks) if flops > 0 else None


def model_flops(graph: Graph, micro_batches: int = 1) -> float:
    """Return the arithmetic of a step of so many micro-batches, FLOP; none of it twice."""
    flops = np.asarray(node_table(graph).cost.flops, dtype=np.float64)
    once = np.array([node.phase is Phase.OPTIMIZER for node in graph.nodes], dtype=np.bool_)
    each = flops[~once & ~recomputed(graph)].sum()
    return float(each * micro_batches + flops[once].sum())


def recomputed(graph: Graph) -> npt.NDArray[np.bool_]:
    """Return which nodes of the backward pass do again what the forward pass did; kept with it.

    They have the operator and the attributes of a node there, and read what it read, or what was
    computed again of that.

    Returns
    -------
    ndarray of bool, shape (nodes,)
    """
    kept: npt.NDArray[np.bool_] | None = graph.__dict__.get("_recomputed")
    if kept is not None:
        return kept
    again = np.zeros(len(graph.nodes), dtype=np.bool_)
    written: dict[Hashable, tuple[int, ...]] = {}
    #: Tensors that were computed before, with the first one that each equals.
    same: dict[int, int] = {}
    for position, node in enumerate(graph.nodes):
        read = tuple(same.get(tensor, tensor) for tensor in node.inputs)
        key = (node.op, read, repr(node.attrs))
        if key in written and node.phase is not Phase.OPTIMIZER:
            again[position] = node.phase is Phase.BACKWARD
            same.update(zip(node.outputs, written[key], strict=False))
        elif node.phase is Phase.FORWARD:
            written[key] = tuple(node.outputs)
    graph.__dict__["_recomputed"] = again
    return again
