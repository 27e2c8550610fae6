"""Laws that answers keep whatever was learned, and how often a version breaks them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from perfmodel.features.nodes import node_table
from perfmodel.features.roofline import step_bound_s
from perfmodel.graph.ir import Graph
from perfmodel.graph.workload import Workload
from perfmodel.predictors.predictor import Sample
from perfmodel.predictors.serving.serving import ServingModel
from perfmodel.retraining.judging.version_at_hand import VersionAtHand, log_times

#: Steps that are asked about, spread over all.
MOST_ASKED = 64
#: A step of twice the batch may be said to be shorter by this much before it counts.
_SLACK = 0.05
_SAME = 1e-4


def law_steps(samples: Sequence[Sample]) -> list[Sample]:
    """Return the steps that laws are checked on: groups that differ in their batch alone.

    On CPUs one more thread is asked for than was measured, since a version repeats what was
    measured whatever the laws say.
    """
    groups: dict[tuple[object, ...], list[Sample]] = defaultdict(list)
    for one in samples:
        groups[_alike(one)].append(one)
    chosen: list[Sample] = []
    for group in sorted(groups.values(), key=len, reverse=True):
        if len(chosen) + len(group) <= MOST_ASKED:
            chosen += [replace(one, workload=_unmeasured(one.workload)) for one in group]
    return chosen


def violations(version: VersionAtHand, steps: Sequence[Sample]) -> Mapping[str, int]:
    """Return how often each law is broken; answers that are none are the business of others."""
    workloads = [one.workload for one in steps]
    logs = log_times(version, workloads)
    bounds = np.log([max(step_bound_s(one), 1e-12) for one in workloads])
    return {
        "under the roofline": int(np.count_nonzero(logs < bounds - 1e-6)),
        "monotone in batch": _shrinking(steps, logs.tolist()),
        "order of nodes": _moved(version, workloads, logs.tolist()),
    }


def reversed_graph(graph: Graph) -> Graph:
    """Return a graph with its nodes in another order that is as good: the last one first."""
    before = _must_precede(graph)
    waiting = [0] * len(graph.nodes)
    for made in chain.from_iterable(before):
        waiting[made] += 1
    ready = [place for place, count in enumerate(waiting) if not count]
    order: list[int] = []
    while ready:
        place = min(ready)
        ready.remove(place)
        order.append(place)
        for made in before[place]:
            waiting[made] -= 1
            if not waiting[made]:
                ready.append(made)
    nodes = tuple(graph.nodes[place] for place in reversed(order))
    return Graph(nodes=nodes, tensors=graph.tensors, source=graph.source)


def _must_precede(graph: Graph) -> list[set[int]]:
    """Return which nodes come before each: who makes what it reads, and the memory that it shares.

    What is written in place comes after everything that read or wrote that memory before, and
    before everything that does so afterwards.
    """
    storage, is_view = [one.storage for one in graph.tensors], node_table(graph).is_view
    writer: dict[int, int] = {}
    readers: dict[int, set[int]] = defaultdict(set)
    before: list[set[int]] = []
    for place, node in enumerate(graph.nodes):
        read = {storage[tensor] for tensor in node.inputs}
        written = set() if is_view[place] else {storage[tensor] for tensor in node.outputs}
        found = {graph.producer[tensor] for tensor in node.inputs}
        found |= {writer.get(one, -1) for one in read | written}
        found |= set(chain.from_iterable(readers[one] for one in written))
        before.append(found - {-1, place})
        for one in written:
            writer[one] = place
            readers[one].clear()
        for one in read:
            readers[one].add(place)
    return before


def _alike(sample: Sample) -> tuple[object, ...]:
    one = sample.workload
    return (
        sample.model, one.accelerator.name, one.mode, one.precision, one.memory_format,
        one.compiler, one.threads, tuple(sorted(one.software.items())),
    )  # fmt: skip


def _unmeasured(workload: Workload) -> Workload:
    if workload.accelerator.kind != "cpu":
        return workload
    return replace(workload, threads=(workload.threads or 0) + 1)


def _shrinking(steps: Sequence[Sample], logs: Sequence[float]) -> int:
    """Count steps that are said to be shorter than with a smaller batch, though they were not."""
    groups: dict[tuple[object, ...], list[tuple[int, float, float]]] = defaultdict(list)
    for one, log in zip(steps, logs, strict=True):
        groups[_alike(one)].append((one.workload.batch_size, one.step_time_s, log))
    return sum(
        small[0] < large[0] and small[1] <= large[1] and large[2] < small[2] - _SLACK
        for group in groups.values()
        for small, large in zip(sorted(group), sorted(group)[1:], strict=False)
    )


def _moved(version: VersionAtHand, workloads: Sequence[Workload], logs: Sequence[float]) -> int:
    """Count answers that change with the order of the nodes."""
    if version.model is None or version.folder is None:
        return 0
    # Another instance: equal graphs have equal hashes, by which answers are remembered.
    fresh = ServingModel.load(version.folder)
    turned = [replace(one, graph=reversed_graph(one.graph)) for one in workloads[: MOST_ASKED // 4]]
    if not turned:
        return 0
    again = np.log([one.time_s for one in fresh.predict(turned)])
    return int(np.count_nonzero(np.abs(again - np.array(logs[: len(turned)])) > _SAME))
