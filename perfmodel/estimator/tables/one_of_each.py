"""One accelerator of each kind of a placement, alone with what the job gets of it."""

from __future__ import annotations

from dataclasses import replace

from perfmodel.estimator.core.core import Core
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.evidence.observed_job import ObservedJob
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.tables.estimates import answer_cell
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.topology.topology import Plan


def on_one_of_each(
    core: Core,
    prepared: PreparedJob,
    placement: ResolvedPlacement,
    observed: ObservedJob | None = None,
) -> list[Estimate]:
    """Answer for one accelerator of each kind: slices, shares, power limits and neighbours count.

    What the host shares out among its accelerators, cores and stores, does not.

    Returns
    -------
    list of Estimate
        In the order of ``placement.kinds``.
    """
    asked = placement.placement
    first = {
        (kind.accelerator.name, kind.part.name if kind.part else ""): None
        for kind in placement.kinds
    }
    alone = replace(
        asked,
        network=None,
        plan=Plan(),
        cpu_cores=None,
        loader_workers=None,
        storage_bytes_per_s=None,
        storage_locality=None,
    )
    found = []
    for node in asked.nodes:
        one = replace(alone, nodes=(replace(node, count=1, repeat=1),))
        if core.accelerators.get(node.accelerator.partition("/")[0]).kind == "cpu":
            # A CPU computes with its share of the cores of its host.
            cores = asked.cpu_cores and max(1, asked.cpu_cores // node.count)
            one = replace(one, cpu_cores=cores)
        resolved = core.resolve(one, pointer=placement.pointer)
        (kind,) = resolved.kinds
        key = (kind.accelerator.name, kind.part.name if kind.part else "")
        if key in first:
            del first[key]
            found.append(answer_cell(core, prepared, resolved, observed))
    return found


def computing_s(estimate: Estimate) -> float:
    """Return how long a step takes without waiting for its data, seconds."""
    return estimate.step_time_s - estimate.breakdown.input_stall_s
