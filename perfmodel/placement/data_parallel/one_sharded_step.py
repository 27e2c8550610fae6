"""One sharded data-parallel step at a time, on plain numbers.

The equations of :mod:`.sharded_step`, which answers columns of cells; both agree to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence

from perfmodel.placement.data_parallel.bucket_numbers import BucketNumbers, StreamNumbers


def sharded_step(
    job: BucketNumbers,
    alone_s: float,
    ranks: float,
    *,
    scatter_s: Sequence[float],
    gather_s: Sequence[float],
    zero_stage: int,
    accumulation_steps: int,
) -> StreamNumbers:
    """Return the streams of a sharded step.

    Parameters
    ----------
    alone_s : float
        Time of the step on one accelerator.
    scatter_s, gather_s : sequence of float
        Time of a reduce-scatter and of an all-gather of one bucket of each group.
    zero_stage : int
        1, 2 or 3.
    accumulation_steps : int
        Micro-batches, >= 1.
    """
    optimizer = alone_s * job.optimizer_share
    micro = (alone_s - optimizer) / accumulation_steps
    scattered, gathered = job.all_buckets_s(scatter_s), job.all_buckets_s(gather_s)
    if zero_stage == 3:
        once = _fully_sharded_s(job, micro, scatter_s, gather_s)
        communication = accumulation_steps * (2 * gathered + scattered)
        exposed = accumulation_steps * (once - micro)
    else:
        rounds = accumulation_steps if zero_stage == 2 else 1
        communication = rounds * scattered + gathered
        late = job.reductions(scatter_s).end_s(alone_s) - (alone_s - optimizer)
        earlier = (rounds - 1) * max(scattered - micro, 0.0)
        # The gathered parameters are needed before the next step begins.
        exposed = max(late, 0.0) + earlier + gathered
    return StreamNumbers(
        compute_s=alone_s - optimizer + optimizer / ranks,
        exposed_s=max(exposed, 0.0),
        communication_s=communication,
    )


def _fully_sharded_s(
    job: BucketNumbers, micro: float, scatter_s: Sequence[float], gather_s: Sequence[float]
) -> float:
    """Return the time of one micro-batch whose parameters are gathered unit by unit."""
    forward, backward = _unit_seconds(job, micro)
    gather = [each * count for each, (_, count) in zip(gather_s, job.groups, strict=True)]
    scatter = [each * count for each, (_, count) in zip(scatter_s, job.groups, strict=True)]
    stream = start = end = waiting = 0.0
    # Gradients become ready in the reverse order of the forward pass.
    for gathering, computing in zip(reversed(gather), reversed(forward), strict=True):
        stream = max(stream, start) + gathering
        start = max(end, stream)
        end = start + computing
    for gathering, computing, scattering in zip(gather, backward, scatter, strict=True):
        stream = max(stream, start) + gathering
        start, before = max(end, stream), end
        # The gradients of the unit before follow the parameters of this one.
        stream = max(stream, before) + waiting
        end, waiting = start + computing, scattering
    return max(end, max(stream, end) + waiting)


def _unit_seconds(job: BucketNumbers, micro: float) -> tuple[list[float], list[float]]:
    """Return forward and backward time of each unit, cut where its gradients are ready."""
    both = max(job.forward_share + job.backward_share, 1e-30)
    last, weights = 1 - job.optimizer_share - job.backward_share, []
    for ready, _ in job.groups:
        weights.append(max(ready - last, 0.0) + 1e-12)
        last = ready
    total = max(sum(weights), 1e-30)
    forward, backward = micro * job.forward_share / both, micro * job.backward_share / both
    return [forward * (w / total) for w in weights], [backward * (w / total) for w in weights]
